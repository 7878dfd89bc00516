//! Under what a window is simulated: who runs where, where pages are, which prefetchers are on.

use crate::model::{Model, Prefetcher};
use pinfold_core::{NodeId, Pinning};
use std::fmt;
use std::str::FromStr;

/// Where pages are (Sánchez Barrera et al., ICS 2020, section 2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageMapping {
    /// On the node of the thread that touches the page first.
    FirstTouch,
    /// On all nodes of the machine in turn, by address.
    Interleave,
    /// All on one node.
    Single(NodeId),
    /// On the node of the threads, which are meant to be on one node; with threads on several, as `FirstTouch`.
    Local,
    /// On the node that is nearest to the thread that touches the page first without being its own.
    Remote,
    /// On the node whose threads access the page most. Needs a `PageProfile`.
    Locality,
    /// Spread so that all nodes of the machine have about the same number of accesses. Needs a `PageProfile`.
    Balance,
}

/// Which prefetchers are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefetchers([bool; 4]);

impl Prefetchers {
    /// All on.
    pub const ALL: Self = Self([true; 4]);
    /// All off.
    pub const NONE: Self = Self([false; 4]);

    /// Only `prefetcher` on.
    pub fn only(prefetcher: Prefetcher) -> Self {
        let mut enabled = [false; 4];
        enabled[prefetcher as usize] = true;
        Self(enabled)
    }

    /// Whether `prefetcher` is on.
    pub fn enabled(self, prefetcher: Prefetcher) -> bool {
        self.0[prefetcher as usize]
    }

    /// Those that are on here and present in the machine.
    pub(crate) fn on(self, model: &Model) -> [bool; 4] {
        let present = model.prefetch.present.value();
        Prefetcher::ALL.map(|prefetcher| self.enabled(prefetcher) && present.0.contains(&prefetcher))
    }
}

/// A text is no prefetcher setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no prefetcher setting: write four characters, 0 for enabled and 1 for disabled, in the order DCU-IP, DCU, \
     L2 adjacent, L2 streamer"
)]
pub struct ParsePrefetchersError(String);

/// Four characters, 0 enabled, 1 disabled, in the order DCU-IP, DCU, L2 adjacent, L2 streamer, as in the dataset.
impl FromStr for Prefetchers {
    type Err = ParsePrefetchersError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParsePrefetchersError(text.to_owned());
        let mut enabled = [false; 4];
        if text.len() != enabled.len() {
            return Err(error());
        }
        for (enabled, character) in enabled.iter_mut().zip(text.chars()) {
            *enabled = match character {
                '0' => true,
                '1' => false,
                _ => return Err(error()),
            };
        }
        Ok(Self(enabled))
    }
}

impl fmt::Display for Prefetchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for enabled in self.0 {
            f.write_str(if enabled { "0" } else { "1" })?;
        }
        Ok(())
    }
}

/// Under what a window is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowConfiguration {
    /// Thread `r`, in the order of the streams, runs on the PU of rank `r`.
    pub pinning: Pinning,
    /// Where pages are.
    pub pages: PageMapping,
    /// Which prefetchers are on.
    pub prefetchers: Prefetchers,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefetcher_setting_reads_back_as_it_was_written() {
        for bits in 0..16 {
            let text = format!("{bits:04b}");
            assert_eq!(text.parse::<Prefetchers>().unwrap().to_string(), text);
        }
        let only = "1101".parse::<Prefetchers>().unwrap();
        assert_eq!(only, Prefetchers::only(Prefetcher::Adjacent));
        assert!("01x0".parse::<Prefetchers>().unwrap_err().to_string().contains("01x0"));
        assert!("010".parse::<Prefetchers>().is_err());
    }
}
