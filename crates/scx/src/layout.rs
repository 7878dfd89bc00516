//! What the scheduler and its loader both read and write, as in `bpf/shared.h`.

use crate::domains::Domains;
use pinfold_core::{PuId, PuSet, TaskTimes};
use std::time::Duration;

pub(crate) const MOST_CPUS: usize = 1024;
pub(crate) const MOST_DOMAINS: usize = 64;
pub(crate) const NO_DOMAIN: u16 = u16::MAX;

/// Where a task prefers to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preference {
    /// A bit for each domain.
    pub domains: u64,
    /// How long it waits for a CPU there before it runs elsewhere.
    pub patience: Duration,
}

/// A task, and where its time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its process.
    pub process: i32,
    /// Its number.
    pub thread: i32,
    /// When it began, in the time since the boot.
    pub start: Duration,
    /// `None` without one.
    pub preference: Option<Preference>,
    /// Where its time went.
    pub times: TaskTimes,
}

/// How often a task woke another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The thread that woke.
    pub waker: i32,
    /// The thread that was woken.
    pub wakee: i32,
    /// The number of times since the scheduler started.
    pub count: u64,
}

/// How the scheduler fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) taken_elsewhere: u64,
    pub(crate) waited_beside_idle: u64,
    /// The kernel's number for why it ended; 0 while it runs.
    pub(crate) exit_kind: u32,
    pub(crate) reason: String,
}

/// `struct settings`.
pub(crate) fn settings(domains: &Domains, cpus: usize, most_silence: Duration) -> Vec<u8> {
    let mut bytes = nanoseconds(most_silence).to_ne_bytes().to_vec();
    bytes.extend(number(cpus).to_ne_bytes());
    bytes.extend(number(domains.len()).to_ne_bytes());
    let of_cpu = (0..cpus).map(|cpu| domains.of(PuId(number(cpu)))).collect::<Vec<_>>();
    bytes.extend(array(MOST_CPUS, NO_DOMAIN, of_cpu));
    let in_domain = |domain| domains.pus(domain).into_iter().flat_map(PuSet::iter);
    let in_order = (0..domains.len()).flat_map(in_domain);
    bytes.extend(array(MOST_CPUS, 0, in_order.map(|pu| Some(pu.0 as usize))));
    let sizes: Vec<usize> = (0..domains.len()).map(|domain| in_domain(domain).count()).collect();
    let first = |domain| Some(sizes[..domain].iter().sum());
    bytes.extend(array(MOST_DOMAINS, 0, (0..sizes.len()).map(first)));
    bytes.extend(array(MOST_DOMAINS, 0, sizes.iter().copied().map(Some)));
    for own in 0..MOST_DOMAINS {
        let order = domains.nearest(own).unwrap_or_default();
        bytes.extend(array(MOST_DOMAINS, NO_DOMAIN, order.iter().copied().map(Some)));
    }
    bytes
}

/// A C array of 16-bit numbers. `absent` is for missing numbers and after the last one.
fn array(length: usize, absent: u16, numbers: impl IntoIterator<Item = Option<usize>>) -> Vec<u8> {
    let numbers = numbers.into_iter().chain(std::iter::repeat(None)).take(length);
    let numbers = numbers.map(|number| number.and_then(|number| u16::try_from(number).ok()).unwrap_or(absent));
    numbers.flat_map(u16::to_ne_bytes).collect()
}

/// `struct preference`.
pub(crate) fn preference(preference: &Preference) -> Vec<u8> {
    let numbers = [preference.domains, nanoseconds(preference.patience), 0];
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// `struct preference` of a task that prefers no domain and comes first in its queue.
pub(crate) fn first_in_queues() -> Vec<u8> {
    [0_u64, 0, 1].iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// `struct status`; `None` if it is shorter.
pub(crate) fn status(bytes: &[u8]) -> Option<Status> {
    let mut fields = Fields(bytes);
    let (taken_elsewhere, waited_beside_idle, exit_kind) = (fields.u64()?, fields.u64()?, fields.u32()?);
    let reason = fields.take::<128>()?;
    let end = reason.iter().position(|&byte| byte == 0).unwrap_or(reason.len());
    Some(Status {
        taken_elsewhere,
        waited_beside_idle,
        exit_kind,
        reason: String::from_utf8_lossy(&reason[..end]).into_owned(),
    })
}

/// The tasks of a listing, each a `struct listed`.
pub(crate) fn listed(bytes: &[u8]) -> Vec<Listed> {
    let mut fields = Fields(bytes);
    std::iter::from_fn(|| one_listed(&mut fields)).collect()
}

fn one_listed(fields: &mut Fields<'_>) -> Option<Listed> {
    let (process, thread, start) = (fields.i32()?, fields.i32()?, fields.duration()?);
    let preference = Preference {
        domains: fields.u64()?,
        patience: fields.duration()?,
    };
    // `goes_first`
    fields.take::<8>()?;
    let times = TaskTimes {
        ran: fields.duration()?,
        preferring: fields.duration()?,
        preferred: fields.duration()?,
        waited: fields.duration()?,
        longest_wait: fields.duration()?,
        migrations: fields.u64()?,
    };
    // `runs_since`, `waits_since`, `queued_since`, `domain`, `ran_in`
    fields.take::<32>()?;
    Some(Listed {
        process,
        thread,
        start,
        preference: (preference.domains != 0).then_some(preference),
        times,
    })
}

/// A pair and its count.
pub(crate) fn pair(key: &[u8], value: &[u8]) -> Option<Pair> {
    let mut key = Fields(key);
    Some(Pair {
        waker: key.i32()?,
        wakee: key.i32()?,
        count: Fields(value).u64()?,
    })
}

/// Bytes that are read from their start.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_ne_bytes)
    }

    fn duration(&mut self) -> Option<Duration> {
        self.u64().map(Duration::from_nanos)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of 8 bytes.
    fn bytes_of(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn a_listing_is_read_task_by_task_and_a_cut_one_is_left_out() {
        let one = |thread: i32, domains: u64| {
            let mut bytes = 7_i32.to_ne_bytes().to_vec();
            bytes.extend(thread.to_ne_bytes());
            bytes.extend(bytes_of(&[
                5, domains, 2_000_000, 0, 100, 80, 60, 30, 20, 3, 0, 0, 0, 0,
            ]));
            bytes
        };
        let mut bytes = one(8, 0b10);
        bytes.extend(one(9, 0));
        bytes.extend(&one(10, 1)[..40]);
        let tasks = listed(&bytes);
        assert_eq!(tasks.len(), 2);
        assert_eq!((tasks[0].process, tasks[0].thread), (7, 8));
        let preference = tasks[0].preference.unwrap();
        assert_eq!((preference.domains, preference.patience), (2, Duration::from_millis(2)));
        let times = tasks[0].times;
        assert_eq!(
            [times.ran, times.preferring, times.preferred],
            [100, 80, 60].map(Duration::from_nanos)
        );
        assert_eq!((times.longest_wait, times.migrations), (Duration::from_nanos(20), 3));
        assert_eq!(tasks[1].preference, None);
    }

    #[test]
    fn a_status_ends_its_reason_at_the_first_zero() {
        let mut bytes = bytes_of(&[4, 1]);
        bytes.extend(1026_u32.to_ne_bytes());
        bytes.extend(b"runnable task stall\0rest");
        bytes.resize(16 + 4 + 128, 0);
        let read = status(&bytes).unwrap();
        assert_eq!(
            (read.taken_elsewhere, read.waited_beside_idle, read.exit_kind),
            (4, 1, 1026)
        );
        assert_eq!(read.reason, "runnable task stall");
        assert_eq!(status(&bytes[..100]), None);
    }

    #[test]
    fn an_array_has_its_length_and_names_what_is_missing() {
        let numbers = array(4, NO_DOMAIN, [Some(3), None]);
        assert_eq!(
            numbers,
            [3_u16, NO_DOMAIN, NO_DOMAIN, NO_DOMAIN].map(u16::to_ne_bytes).concat()
        );
    }
}
