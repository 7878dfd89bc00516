//! The result of sampling a program's accesses, and its cost.

use super::SharedPages;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, TryFromFloatSecsError};

/// Why an access of a page is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// pinfold makes the kernel protect all pages against writing in each period: writes are seen.
    WriteProtection,
    /// Automatic NUMA balancing protects pages against any access, at its own rate: reads are seen, too.
    NumaHints,
    /// The processor samples loads and stores as they retire, and reports their addresses (PEBS, IBS).
    MemoryEvents,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteProtection => "write protection",
            Self::NumaHints => "automatic NUMA balancing",
            Self::MemoryEvents => "the processor's memory events",
        })
    }
}

/// The activity and the cost of page faults as a source of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultSampling {
    /// The period of the protection.
    pub period: Duration,
    /// How often pages were protected, summed over all processes.
    pub rounds: u64,
    /// The time that threads spent in page faults, both of the sampling and of the program.
    pub in_faults: Duration,
    /// The time that the kernel took to protect pages for pinfold.
    pub protecting: Duration,
}

/// The activity and the cost of memory events as a source of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSampling {
    /// The events in perf's notation, such as `cpu/mem-loads/`.
    pub names: Vec<String>,
    /// The sampling period: one sample per this many events of each kind.
    pub period: u64,
    /// All samples of the processes' threads, including those without an address in the program's memory.
    pub taken: u64,
    /// How often the kernel throttled the sampling, because it took too much time.
    pub throttled: u64,
    /// The time that a sample costs the sampled thread, measured on a thread of pinfold; `None` if it was below the
    /// noise.
    pub sample_cost: Option<Duration>,
}

/// The result of sampling the accesses of some processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "SampledRecord", try_from = "SampledRecord")]
pub struct Sampled {
    /// The source of the samples.
    pub by: Vec<Seen>,
    /// Whether the samples include accesses by the kernel for a thread (`read(2)` into a buffer).
    pub in_kernel: bool,
    /// The duration.
    pub lasted: Duration,
    /// The number of sampled processes.
    pub processes: usize,
    /// The number of samples; with page faults at most one per page and round.
    pub samples: u64,
    /// Records that the kernel lost.
    pub lost: u64,
    /// Pages with samples.
    pub pages: u64,
    /// Bytes in memory without samples.
    pub without_samples: u64,
    /// The processor time of the threads.
    pub ran: Duration,
    /// The cost of page faults, if they were the source.
    pub faults: Option<FaultSampling>,
    /// The cost of memory events, if they were the source.
    pub events: Option<EventSampling>,
    /// The pairs of threads, by the kernel's numbers, that access the same pages, those with most accesses first.
    pub shared: Vec<SharedPages>,
}

impl Sampled {
    /// The share of the threads' processor time that the sampling took: the measured time in page faults, or an
    /// estimate, the number of samples times the cost of one. `None` if the threads did not run, or that cost is not
    /// known.
    pub fn overhead(&self) -> Option<f64> {
        let faults = self.faults.as_ref().map(|faults| faults.in_faults.as_secs_f64());
        let events = self.events.as_ref().map(|events| {
            let cost = events.sample_cost?;
            Some(cost.as_secs_f64() * events.taken as f64)
        });
        let took = match (faults, events) {
            (Some(faults), Some(events)) => faults + events?,
            (Some(faults), None) => faults,
            (None, Some(events)) => events?,
            (None, None) => return None,
        };
        (!self.ran.is_zero()).then(|| took / self.ran.as_secs_f64())
    }

    /// Adds another process, sampled at the same time.
    pub fn add(&mut self, other: &Self) {
        self.by.extend(&other.by);
        self.by.sort_unstable();
        self.by.dedup();
        self.in_kernel = other.in_kernel && (self.in_kernel || self.processes == 0);
        self.lasted = self.lasted.max(other.lasted);
        self.processes += other.processes;
        self.samples += other.samples;
        self.lost += other.lost;
        self.pages += other.pages;
        self.without_samples += other.without_samples;
        self.ran += other.ran;
        self.shared.extend(&other.shared);
        if let Some(other) = &other.faults {
            let faults = self.faults.get_or_insert_default();
            faults.period = faults.period.max(other.period);
            faults.rounds += other.rounds;
            faults.in_faults += other.in_faults;
            faults.protecting += other.protecting;
        }
        match (&mut self.events, &other.events) {
            (Some(events), Some(other)) => {
                events.taken += other.taken;
                events.throttled += other.throttled;
            }
            (events @ None, Some(other)) => *events = Some(other.clone()),
            (_, None) => {}
        }
    }
}

/// A sentence for the user.
impl fmt::Display for Sampled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by: Vec<String> = self.by.iter().map(Seen::to_string).collect();
        write!(
            f,
            "{} samples of {} pages in {:.1} s, by {}",
            self.samples,
            self.pages,
            self.lasted.as_secs_f64(),
            by.join(" and ")
        )?;
        if let Some(events) = &self.events {
            write!(f, " ({}, one of {})", events.names.join(", "), events.period)?;
            if events.throttled > 0 {
                write!(
                    f,
                    "; the kernel held them back {} times, so --sample-events should be greater",
                    events.throttled
                )?;
            }
        }
        if self.lost > 0 {
            write!(f, "; {} more were lost", self.lost)?;
        }
        match (self.overhead(), &self.events) {
            (Some(overhead), None) => write!(f, "; page faults took {:.1} % of the threads' time", overhead * 100.0),
            (Some(overhead), Some(_)) => {
                write!(f, "; they took about {:.1} % of the threads' time", overhead * 100.0)
            }
            (None, _) => Ok(()),
        }
    }
}

/// The JSON form (docs/formats/run.md). Times are in seconds.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct SampledRecord {
    by: Vec<Seen>,
    in_kernel: bool,
    lasted: f64,
    processes: usize,
    samples: u64,
    lost: u64,
    pages: u64,
    without_samples: u64,
    ran: f64,
    /// Derived from the others; it is written for readers, and not read.
    #[serde(skip_deserializing)]
    overhead: Option<f64>,
    period: Option<f64>,
    rounds: Option<u64>,
    in_faults: Option<f64>,
    protecting: Option<f64>,
    events: Option<Vec<String>>,
    event_period: Option<u64>,
    taken: Option<u64>,
    throttled: Option<u64>,
    sample_cost: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shared: Vec<SharedPages>,
}

impl From<Sampled> for SampledRecord {
    fn from(sampled: Sampled) -> Self {
        let overhead = sampled.overhead();
        let (faults, events) = (sampled.faults, sampled.events);
        Self {
            by: sampled.by,
            in_kernel: sampled.in_kernel,
            lasted: sampled.lasted.as_secs_f64(),
            processes: sampled.processes,
            samples: sampled.samples,
            lost: sampled.lost,
            pages: sampled.pages,
            without_samples: sampled.without_samples,
            ran: sampled.ran.as_secs_f64(),
            overhead,
            period: faults.map(|it| it.period.as_secs_f64()),
            rounds: faults.map(|it| it.rounds),
            in_faults: faults.map(|it| it.in_faults.as_secs_f64()),
            protecting: faults.map(|it| it.protecting.as_secs_f64()),
            event_period: events.as_ref().map(|it| it.period),
            taken: events.as_ref().map(|it| it.taken),
            throttled: events.as_ref().map(|it| it.throttled),
            sample_cost: events.as_ref().and_then(|it| Some(it.sample_cost?.as_secs_f64())),
            events: events.map(|it| it.names),
            shared: sampled.shared,
        }
    }
}

impl TryFrom<SampledRecord> for Sampled {
    type Error = TryFromFloatSecsError;

    fn try_from(record: SampledRecord) -> Result<Self, Self::Error> {
        let time = Duration::try_from_secs_f64;
        let faults = record.in_faults.map(|in_faults| {
            Ok(FaultSampling {
                period: time(record.period.unwrap_or_default())?,
                rounds: record.rounds.unwrap_or_default(),
                in_faults: time(in_faults)?,
                protecting: time(record.protecting.unwrap_or_default())?,
            })
        });
        let events = record.events.map(|names| {
            Ok(EventSampling {
                names,
                period: record.event_period.unwrap_or_default(),
                taken: record.taken.unwrap_or_default(),
                throttled: record.throttled.unwrap_or_default(),
                sample_cost: record.sample_cost.map(time).transpose()?,
            })
        });
        Ok(Self {
            by: record.by,
            in_kernel: record.in_kernel,
            lasted: time(record.lasted)?,
            processes: record.processes,
            samples: record.samples,
            lost: record.lost,
            pages: record.pages,
            without_samples: record.without_samples,
            ran: time(record.ran)?,
            faults: faults.transpose()?,
            events: events.transpose()?,
            shared: record.shared,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_did_not_run_has_no_overhead_and_not_one_of_zero() {
        let mut sampled = Sampled {
            faults: Some(FaultSampling {
                in_faults: Duration::from_millis(100),
                ..FaultSampling::default()
            }),
            ..Sampled::default()
        };
        assert_eq!(sampled.overhead(), None);
        sampled.ran = Duration::from_secs(2);
        assert_eq!(sampled.overhead(), Some(0.05));
        assert!(
            sampled
                .to_string()
                .ends_with("page faults took 5.0 % of the threads' time")
        );
    }

    fn event_sampling(sample_cost: Option<Duration>) -> Sampled {
        Sampled {
            by: vec![Seen::MemoryEvents],
            ran: Duration::from_secs(1),
            processes: 1,
            events: Some(EventSampling {
                names: vec!["cpu/mem-loads/".to_owned()],
                period: 1009,
                taken: 1000,
                throttled: 2,
                sample_cost,
            }),
            ..Sampled::default()
        }
    }

    #[test]
    fn samples_of_events_cost_as_many_times_what_one_does_and_an_unknown_cost_is_not_zero() {
        let mut both = event_sampling(Some(Duration::from_micros(2)));
        assert_eq!(both.overhead(), Some(0.002));
        both.add(&event_sampling(Some(Duration::from_micros(2))));
        let events = both.events.as_ref().unwrap();
        assert_eq!(
            (events.taken, events.throttled, both.overhead()),
            (2000, 4, Some(0.002))
        );
        assert!(both.to_string().contains("held them back 4 times"), "{both}");
        let json = serde_json::to_value(event_sampling(None)).unwrap();
        for absent in ["overhead", "sample_cost", "period", "rounds", "in_faults"] {
            assert!(json[absent].is_null(), "{absent}: {json}");
        }
        assert_eq!(json["event_period"], 1009);
    }

    #[test]
    fn kernel_accesses_are_seen_only_where_all_processes_show_them() {
        let process = |in_kernel| Sampled {
            processes: 1,
            in_kernel,
            by: vec![Seen::WriteProtection],
            ..Sampled::default()
        };
        let both = |one, other| {
            let mut all = Sampled::default();
            all.add(&process(one));
            all.add(&process(other));
            (all.in_kernel, all.processes, all.by)
        };
        assert_eq!(both(true, true), (true, 2, vec![Seen::WriteProtection]));
        assert!(!both(true, false).0 && !both(false, true).0);
    }

    #[test]
    fn what_was_sampled_is_read_back_as_it_was_written() {
        let mut both = event_sampling(Some(Duration::from_nanos(2_345)));
        both.faults = Some(FaultSampling {
            period: Duration::from_millis(100),
            rounds: 7,
            in_faults: Duration::from_nanos(123_456_789),
            protecting: Duration::from_micros(10),
        });
        both.shared.push(SharedPages {
            threads: [3, 4],
            accesses: 12,
        });
        for written in [Sampled::default(), event_sampling(None), both] {
            let text = serde_json::to_string(&written).unwrap();
            let read: Sampled = serde_json::from_str(&text).unwrap();
            assert_eq!(read, written);
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
    }
}
