//! What came of sampling a program's accesses, and what that cost.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// Why a page's next access is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// pinfold has the kernel protect all pages against writing, each period anew: writes are seen.
    WriteProtection,
    /// Automatic NUMA balancing protects pages against any access, at a pace of its own: reads are seen, too.
    NumaHints,
}

impl Seen {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteProtection => "write_protection",
            Self::NumaHints => "numa_hints",
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteProtection => "write protection",
            Self::NumaHints => "automatic NUMA balancing",
        })
    }
}

/// What came of sampling the accesses of some processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// What made accesses seen.
    pub by: Vec<Seen>,
    /// Whether accesses by the kernel on behalf of a thread (`read(2)` into a buffer) are among the samples.
    pub in_kernel: bool,
    /// How far apart pages were to be protected.
    pub period: Duration,
    /// How long it took.
    pub lasted: Duration,
    /// How many processes were sampled.
    pub processes: usize,
    /// How often pages were protected, of all processes together.
    pub rounds: u64,
    /// Accesses that were seen, at most one for each page in each round.
    pub samples: u64,
    /// Accesses that were seen and not noted, for want of room.
    pub lost: u64,
    /// Pages with samples.
    pub pages: u64,
    /// Bytes in memory of which no access was seen.
    pub without_samples: u64,
    /// The time that threads spent in page faults: in those that sampling made, and in those that they would have had anyway.
    pub in_faults: Duration,
    /// The time that the kernel took to protect pages, on our account.
    pub protecting: Duration,
    /// The processor time of the threads.
    pub ran: Duration,
}

impl Sampled {
    /// The share of the threads' processor time that page faults took; `None` where they did not run.
    pub fn overhead(&self) -> Option<f64> {
        (!self.ran.is_zero()).then(|| self.in_faults.as_secs_f64() / self.ran.as_secs_f64())
    }

    /// Another process, sampled at the same time.
    pub fn add(&mut self, other: &Self) {
        self.by.extend(&other.by);
        self.by.sort_unstable();
        self.by.dedup();
        self.in_kernel = other.in_kernel && (self.in_kernel || self.processes == 0);
        self.period = self.period.max(other.period);
        self.lasted = self.lasted.max(other.lasted);
        self.processes += other.processes;
        self.rounds += other.rounds;
        self.samples += other.samples;
        self.lost += other.lost;
        self.pages += other.pages;
        self.without_samples += other.without_samples;
        self.in_faults += other.in_faults;
        self.protecting += other.protecting;
        self.ran += other.ran;
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
        if self.lost > 0 {
            write!(f, "; {} more were lost", self.lost)?;
        }
        if let Some(overhead) = self.overhead() {
            write!(f, "; page faults took {:.1} % of the threads' time", overhead * 100.0)?;
        }
        Ok(())
    }
}

/// The keys are those of docs/formats.md; times are in seconds.
impl Serialize for Sampled {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let by: Vec<&str> = self.by.iter().map(|by| by.name()).collect();
        let mut object = serializer.serialize_struct("Sampled", 14)?;
        object.serialize_field("by", &by)?;
        object.serialize_field("in_kernel", &self.in_kernel)?;
        object.serialize_field("period", &self.period.as_secs_f64())?;
        object.serialize_field("lasted", &self.lasted.as_secs_f64())?;
        object.serialize_field("processes", &self.processes)?;
        object.serialize_field("rounds", &self.rounds)?;
        object.serialize_field("samples", &self.samples)?;
        object.serialize_field("lost", &self.lost)?;
        object.serialize_field("pages", &self.pages)?;
        object.serialize_field("without_samples", &self.without_samples)?;
        object.serialize_field("in_faults", &self.in_faults.as_secs_f64())?;
        object.serialize_field("protecting", &self.protecting.as_secs_f64())?;
        object.serialize_field("ran", &self.ran.as_secs_f64())?;
        object.serialize_field("overhead", &self.overhead())?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_did_not_run_has_no_overhead_and_not_one_of_zero() {
        let mut sampled = Sampled::default();
        assert_eq!(sampled.overhead(), None);
        sampled.ran = Duration::from_secs(2);
        sampled.in_faults = Duration::from_millis(100);
        assert_eq!(sampled.overhead(), Some(0.05));
        assert!(
            sampled
                .to_string()
                .ends_with("page faults took 5.0 % of the threads' time")
        );
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
}
