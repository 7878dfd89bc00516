//! How accesses are sampled for the page mappings that need to know them.

use crate::profile;
use crate::run::{duration, number};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use pinfold_core::PageMapping;
use pinfold_core::memory::RecordedProfile;
use pinfold_linux::memory::{SampleBy, Sampling};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How the accesses of threads to pages are found, for `--page-map locality` and `balance`.
#[derive(Args, Clone)]
#[group(skip)]
pub(crate) struct Arguments {
    /// For locality and balance: where samples come from.
    #[arg(long = "sample-by", value_enum, default_value_t = SourceName::Auto, value_name = "SOURCE")]
    source: SourceName,

    /// For locality and balance, by page faults: the time between two protections of the pages, each of which shows
    /// the next thread that accesses them; a longer time costs the program less [default: 100ms].
    #[arg(long = "sample-period", value_parser = duration::parse_probe, value_name = "TIME")]
    period: Option<Duration>,

    /// For locality and balance, by memory events: take one sample of N loads, and one of N stores (AMD: of N
    /// micro-operations, rounded to 16); a larger N costs the program less [default: 100003].
    #[arg(long = "sample-events", value_parser = number::within(1000u64, (1 << 31) - 1), value_name = "N")]
    events: Option<u64>,

    /// For locality and balance: sample accesses for this long [default: 3s].
    #[arg(long = "sample-time", value_parser = duration::parse_probe, value_name = "TIME")]
    time: Option<Duration>,

    /// For locality and balance: take the accesses from this recording of the same program, and sample none. Its
    /// threads are matched by rank, its memory by what backs it.
    #[arg(long, value_name = "FILE.pft")]
    profile: Option<PathBuf>,
}

/// Where samples come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SourceName {
    /// Memory events where this machine has them and permits them, and otherwise page faults.
    Auto,
    /// The processor's memory events: PEBS (Intel), IBS (AMD). They see reads and writes.
    MemoryEvents,
    /// Page faults, of pages that are protected for that; on any machine. They see writes, and reads where automatic
    /// NUMA balancing is on.
    PageFaults,
}

impl Arguments {
    /// How to sample for `mapping`. Options for a mapping that needs no samples, or for the other source, are refused.
    pub(crate) fn sampling(&self, mapping: Option<PageMapping>) -> Result<Sampling> {
        if let (Some(option), false) = (self.given(), mapping.is_some_and(PageMapping::needs_accesses)) {
            bail!(
                "{option} is about the page mappings locality and balance; give one of them by --page-map, or leave it out"
            );
        }
        if let (Some(option), true) = (self.about_samples(), self.profile.is_some()) {
            bail!("{option} is about samples, and with --profile none are taken; leave one of the two out");
        }
        let by = match self.source {
            SourceName::Auto => SampleBy::Auto,
            SourceName::MemoryEvents => SampleBy::MemoryEvents,
            SourceName::PageFaults => SampleBy::PageFaults,
        };
        match by {
            SampleBy::MemoryEvents if self.period.is_some() => {
                bail!("--sample-period is about page faults; of memory events give --sample-events, or leave it out")
            }
            SampleBy::PageFaults if self.events.is_some() => {
                bail!("--sample-events is about memory events; of page faults give --sample-period, or leave it out")
            }
            _ => {}
        }
        let default = Sampling::default();
        let sampling = Sampling {
            by,
            period: self.period.unwrap_or(default.period),
            event_period: self.events.unwrap_or(default.event_period),
            lasts: self.time.unwrap_or(default.lasts),
        };
        if by != SampleBy::MemoryEvents && sampling.lasts < sampling.period {
            bail!(
                "--sample-time {:?} is less than the --sample-period {:?}, so that no page would be protected twice",
                sampling.lasts,
                sampling.period
            );
        }
        Ok(sampling)
    }

    /// The accesses of another run, where they are to be taken from there.
    pub(crate) fn profile(&self) -> Result<Option<Arc<RecordedProfile>>> {
        self.profile
            .as_deref()
            .map(|file| profile::read(file).map(Arc::new))
            .transpose()
    }

    /// The first option that was given, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        self.about_samples().or(self.profile.is_some().then_some("--profile"))
    }

    fn about_samples(&self) -> Option<&'static str> {
        let given = [
            (self.source != SourceName::Auto, "--sample-by"),
            (self.period.is_some(), "--sample-period"),
            (self.events.is_some(), "--sample-events"),
            (self.time.is_some(), "--sample-time"),
        ];
        given.iter().find(|(given, _)| *given).map(|&(_, option)| option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Arguments = Arguments {
        source: SourceName::Auto,
        period: None,
        events: None,
        time: None,
        profile: None,
    };

    #[test]
    fn what_would_have_no_effect_is_refused() {
        let period = Arguments {
            period: Some(Duration::from_millis(100)),
            ..NONE
        };
        let events = Arguments {
            events: Some(5000),
            ..NONE
        };
        let by = |source, other: &Arguments| Arguments {
            source,
            period: other.period,
            events: other.events,
            time: other.time,
            profile: None,
        };
        let short = Arguments {
            time: Some(Duration::from_millis(10)),
            ..NONE
        };
        let recorded = Arguments {
            profile: Some("a.pft".into()),
            ..NONE
        };
        let recorded_and_sampled = Arguments {
            profile: Some("a.pft".into()),
            events: Some(5000),
            ..NONE
        };
        let balance = Some(PageMapping::Balance);
        for (arguments, mapping) in [
            (&period, None),
            (&events, Some(PageMapping::Interleave)),
            (&by(SourceName::PageFaults, &NONE), None),
            (&by(SourceName::MemoryEvents, &period), balance),
            (&by(SourceName::PageFaults, &events), balance),
            (&by(SourceName::PageFaults, &short), balance),
            (&short, balance),
            (&recorded, None),
            (&recorded_and_sampled, balance),
        ] {
            assert!(
                arguments.sampling(mapping).is_err(),
                "{:?} {mapping:?}",
                arguments.given()
            );
        }
        assert!(by(SourceName::MemoryEvents, &short).sampling(balance).is_ok());
        assert_eq!(NONE.sampling(None).unwrap(), Sampling::default());
        // Where the source is not known yet, each may have its period.
        let both = Arguments {
            events: Some(5000),
            time: Some(Duration::from_millis(500)),
            ..period
        };
        let given = both.sampling(Some(PageMapping::Locality)).unwrap();
        assert_eq!((given.event_period, given.lasts.as_millis()), (5000, 500));
    }
}
