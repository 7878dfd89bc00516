//! How accesses are sampled for the page mappings that need to know them.

use crate::run::duration;
use anyhow::{Result, bail};
use clap::Args;
use pinfold_core::PageMapping;
use pinfold_linux::memory::Sampling;
use std::time::Duration;

/// How it is found out who accesses what, for `--page-map locality` and `balance`.
#[derive(Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// For locality and balance: protect pages so often, to see who accesses them next; less often costs the program less
    /// [default: 100ms].
    #[arg(long, value_parser = duration::parse_probe, value_name = "TIME")]
    sample_period: Option<Duration>,

    /// For locality and balance: sample accesses for so long [default: 3s].
    #[arg(long, value_parser = duration::parse_probe, value_name = "TIME")]
    sample_time: Option<Duration>,
}

impl Arguments {
    /// How to sample for `mapping`. What is given for a mapping that needs no samples is refused.
    pub(crate) fn sampling(&self, mapping: Option<PageMapping>) -> Result<Sampling> {
        if let (Some(option), false) = (self.given(), mapping.is_some_and(PageMapping::needs_accesses)) {
            bail!(
                "{option} is about the page mappings locality and balance; give one of them by --page-map, or leave it out"
            );
        }
        let default = Sampling::default();
        let sampling = Sampling {
            period: self.sample_period.unwrap_or(default.period),
            lasts: self.sample_time.unwrap_or(default.lasts),
        };
        if sampling.lasts < sampling.period {
            bail!(
                "--sample-time {:?} is less than the --sample-period {:?}, so that no page would be protected twice",
                sampling.lasts,
                sampling.period
            );
        }
        Ok(sampling)
    }

    /// The first option that was given, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.sample_period.is_some(), "--sample-period"),
            (self.sample_time.is_some(), "--sample-time"),
        ];
        given.iter().find(|(given, _)| *given).map(|&(_, option)| option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(period: Option<u64>, time: Option<u64>, mapping: Option<PageMapping>) -> Result<Sampling> {
        let arguments = Arguments {
            sample_period: period.map(Duration::from_millis),
            sample_time: time.map(Duration::from_millis),
        };
        arguments.sampling(mapping)
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        for (period, time, mapping) in [
            (Some(10), None, None),
            (None, Some(10), Some(PageMapping::Interleave)),
            (Some(100), Some(10), Some(PageMapping::Balance)),
        ] {
            assert!(
                sampling(period, time, mapping).is_err(),
                "{period:?} {time:?} {mapping:?}"
            );
        }
        assert_eq!(sampling(None, None, None).unwrap(), Sampling::default());
        let given = sampling(Some(10), Some(50), Some(PageMapping::Locality)).unwrap();
        assert_eq!((given.period.as_millis(), given.lasts.as_millis()), (10, 50));
    }
}
