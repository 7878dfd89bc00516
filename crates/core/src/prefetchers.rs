//! Which of a core's prefetchers are on.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// One of the four prefetchers (Sánchez Barrera et al., ICS 2020, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prefetcher {
    /// Stride prefetcher into the L1.
    DcuIp,
    /// Next-line prefetcher into the L1.
    Dcu,
    /// Completes blocks of two lines in the L2.
    Adjacent,
    /// Follows streams into the L2.
    Streamer,
}

impl Prefetcher {
    /// All four, in the order of the dataset's four characters.
    pub const ALL: [Self; 4] = [Self::DcuIp, Self::Dcu, Self::Adjacent, Self::Streamer];
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

    /// The same with one prefetcher toggled.
    #[must_use]
    pub fn toggled(mut self, prefetcher: Prefetcher) -> Self {
        self.0[prefetcher as usize] ^= true;
        self
    }

    /// Whether `prefetcher` is on.
    pub fn enabled(self, prefetcher: Prefetcher) -> bool {
        self.0[prefetcher as usize]
    }
}

/// Only these are on.
impl FromIterator<Prefetcher> for Prefetchers {
    fn from_iter<I: IntoIterator<Item = Prefetcher>>(on: I) -> Self {
        let mut prefetchers = Self::NONE;
        for prefetcher in on {
            prefetchers.0[prefetcher as usize] = true;
        }
        prefetchers
    }
}

/// The text is not a prefetcher setting.
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

impl Serialize for Prefetchers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefetchers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
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
