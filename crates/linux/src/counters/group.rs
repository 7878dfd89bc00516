//! Groups of counters: opened together for one thread, read by one `read(2)`.

use super::error::Refused;
use super::source::Source;
use crate::perf_event::{self, Watched};
use crate::pfm::sys;
use nix::errno::Errno;
use pinfold_core::Count;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The header of a group's read: the number of values, the time enabled and the time running, of 8 bytes each
/// (`PERF_FORMAT_GROUP`, `PERF_FORMAT_TOTAL_TIME_ENABLED` and `PERF_FORMAT_TOTAL_TIME_RUNNING`).
const HEADER_WORDS: usize = 3;
const WORD: usize = size_of::<u64>();

/// The open counters of one group of one thread.
pub(super) struct Group {
    leader: File,
    /// Kept open, because a closed counter leaves its group.
    _followers: Vec<OwnedFd>,
    /// The metric of each value.
    metrics: Vec<usize>,
    buffer: Vec<u8>,
}

impl Group {
    /// Opens the counters `members` (positions in `sources`, the leader first) for `thread`.
    pub(super) fn open<'a>(sources: &'a [Source], members: &[usize], thread: i32) -> Result<Self, Refused<'a>> {
        let mut opened: Vec<OwnedFd> = Vec::with_capacity(members.len());
        for &member in members {
            opened.push(open(&sources[member], thread, opened.first())?);
        }
        let mut opened = opened.into_iter();
        Ok(Self {
            leader: opened.next().expect("a group has a leader").into(),
            _followers: opened.collect(),
            metrics: members.to_vec(),
            buffer: vec![0; (HEADER_WORDS + members.len()) * WORD],
        })
    }

    /// Writes the totals to their positions in `counts`. They stay `None` if the kernel does not return them.
    pub(super) fn read_into(&mut self, counts: &mut [Option<Count>]) {
        if self.leader.read(&mut self.buffer).ok() != Some(self.buffer.len()) {
            return;
        }
        let mut words = self
            .buffer
            .chunks_exact(WORD)
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("a chunk has the length of a word")));
        let (Some(_number), Some(enabled), Some(running)) = (words.next(), words.next(), words.next()) else {
            return;
        };
        for (&metric, value) in self.metrics.iter().zip(words) {
            counts[metric] = Some(Count {
                value,
                enabled: Duration::from_nanos(enabled),
                running: Duration::from_nanos(running),
            });
        }
    }

    /// Whether the group has counted since it was opened for the calling thread.
    fn runs(&mut self) -> bool {
        let mut counts = vec![None; self.metrics.iter().max().map_or(0, |last| last + 1)];
        self.read_into(&mut counts);
        counts.into_iter().flatten().any(|count| !count.running.is_zero())
    }
}

/// Arranges all sources in groups by opening them on the calling thread.
pub(super) fn arrange(sources: &[Source]) -> Result<Vec<Vec<usize>>, Refused<'_>> {
    let (software, hardware): (Vec<usize>, Vec<usize>) =
        (0..sources.len()).partition(|&position| sources[position].is_software());
    let mut groups = vec![];
    for kind in [hardware, software] {
        groups.extend(fill(&kind, |members| {
            let mut group = Group::open(sources, members, 0)?;
            // The kernel accepts some groups that can never count, because the watchdog or another program uses a
            // counter.
            if members.len() > 1 && !group.runs() {
                return Err(Refused {
                    source: &sources[members[members.len() - 1]],
                    thread: 0,
                    error: Errno::ENOSPC,
                });
            }
            Ok(())
        })?);
    }
    Ok(groups)
}

/// Adds each of `members` to the previous group if `attempt` accepts that group, and to a new group if `attempt`
/// reports that they do not fit together.
fn fill<'a>(
    members: &[usize],
    mut attempt: impl FnMut(&[usize]) -> Result<(), Refused<'a>>,
) -> Result<Vec<Vec<usize>>, Refused<'a>> {
    let mut groups: Vec<Vec<usize>> = vec![];
    for &member in members {
        if let Some(last) = groups.last_mut() {
            last.push(member);
            match attempt(last) {
                Ok(()) => continue,
                Err(refused) if matches!(refused.error, Errno::EINVAL | Errno::ENOSPC) => last.pop(),
                Err(refused) => return Err(refused),
            };
        }
        attempt(&[member])?;
        groups.push(vec![member]);
    }
    Ok(groups)
}

/// Opens one counter for `thread` on any PU.
fn open<'a>(source: &'a Source, thread: i32, leader: Option<&OwnedFd>) -> Result<OwnedFd, Refused<'a>> {
    let mut attributes = source.attributes;
    attributes.read_format =
        u64::from(sys::PERF_FORMAT_GROUP | sys::PERF_FORMAT_TOTAL_TIME_ENABLED | sys::PERF_FORMAT_TOTAL_TIME_RUNNING);
    if let Some(path) = &source.probed_path {
        attributes.__bindgen_anon_3.config1 = path.as_ptr() as u64;
    }
    perf_event::open(&attributes, Watched::Thread(thread), leader).map_err(|error| Refused { source, thread, error })
}

#[cfg(test)]
mod tests {
    use super::super::{Request, event};
    use super::*;
    use std::path::Path;

    /// The groups that result if the kernel refuses every group of more than `most` members with this error.
    fn groups(members: &[usize], most: usize, error: Errno) -> Result<Vec<Vec<usize>>, Errno> {
        let source = event::resolve(Path::new("/"), &Request::Event("task-clock".to_owned())).unwrap();
        let attempt = |group: &[usize]| {
            if group.len() <= most {
                return Ok(());
            }
            Err(Refused {
                source: &source,
                thread: 0,
                error,
            })
        };
        fill(members, attempt).map_err(|refused| refused.error)
    }

    #[test]
    fn an_event_that_does_not_fit_begins_another_group() {
        assert_eq!(
            groups(&[3, 1, 4, 5, 2], 2, Errno::ENOSPC).unwrap(),
            [&[3, 1][..], &[4, 5], &[2]]
        );
        assert_eq!(groups(&[0, 1], 1, Errno::EINVAL).unwrap(), [[0], [1]]);
    }

    #[test]
    fn an_event_that_cannot_be_had_alone_is_an_error() {
        assert_eq!(groups(&[0], 0, Errno::EINVAL), Err(Errno::EINVAL));
    }

    #[test]
    fn a_refusal_that_another_group_would_not_cure_is_an_error() {
        assert_eq!(groups(&[0, 1], 1, Errno::EMFILE), Err(Errno::EMFILE));
    }
}
