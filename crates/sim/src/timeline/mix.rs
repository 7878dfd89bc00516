//! Programs that run side by side, each as its own process, with one numbering for all threads and pages.
//!
//! Threads are numbered program by program. An address carries its program's number above the bits of user space, so no
//! two programs share a page. The addresses of a program that runs alone do not change.

use super::repeated::Repeated;
use crate::model::{Model, PAGE_BYTES};
use crate::program::SimulatedProgram;
use crate::window::{Batch, EventKind, PageProfile, StepTable, Stream};
use std::ops::Range;
use std::sync::Arc;

/// Addresses of user space have fewer bits than this.
const ADDRESS_BITS: u32 = 48;

/// Programs that run side by side.
pub(crate) struct Mix {
    programs: Vec<Arc<dyn SimulatedProgram>>,
    threads: Vec<Range<usize>>,
    owners: Vec<(u64, u32)>,
}

impl Mix {
    pub(crate) fn new(programs: Vec<Arc<dyn SimulatedProgram>>) -> Self {
        let mut threads: Vec<Range<usize>> = vec![];
        let mut owners = vec![];
        for (number, program) in programs.iter().enumerate() {
            let first = threads.last().map_or(0, |before| before.end);
            let tag = tag(number) / PAGE_BYTES;
            threads.push(first..first + program.threads());
            owners.extend(
                program
                    .page_owners()
                    .iter()
                    .map(|&(page, owner)| (page ^ tag, in_mix(first, owner))),
            );
        }
        Self {
            programs,
            threads,
            owners,
        }
    }

    /// All programs.
    pub(crate) fn programs(&self) -> &[Arc<dyn SimulatedProgram>] {
        &self.programs
    }

    /// The threads of each program.
    pub(crate) fn threads(&self) -> &[Range<usize>] {
        &self.threads
    }

    /// How many threads there are.
    pub(crate) fn all_threads(&self) -> usize {
        self.threads.last().map_or(0, |last| last.end)
    }

    /// The program of a thread.
    pub(crate) fn program_of(&self, thread: usize) -> usize {
        self.threads.partition_point(|threads| threads.end <= thread)
    }

    /// Each page and the thread that touches it first.
    pub(crate) fn page_owners(&self) -> &[(u64, u32)] {
        &self.owners
    }

    /// By program: the range of its pages in `page_owners`.
    pub(crate) fn pages(&self) -> impl Iterator<Item = Range<usize>> {
        let end = |threads: &Range<usize>| {
            self.owners
                .partition_point(|&(_, owner)| (owner as usize) < threads.end)
        };
        let ends: Vec<usize> = self.threads.iter().map(end).collect();
        let begins = std::iter::once(0).chain(ends.clone());
        begins.zip(ends).map(|(begin, end)| begin..end)
    }

    /// The accesses of each thread to each page.
    pub(crate) fn page_profile(&self) -> PageProfile {
        let programs = 0..self.programs.len();
        let mut streams: Vec<_> = programs.flat_map(|program| self.streams(program)).collect();
        PageProfile::of(&mut streams)
    }

    /// The error of a stream that could not be read, if any.
    pub(crate) fn error(&self) -> Option<String> {
        self.programs.iter().find_map(|program| program.error())
    }

    /// The events of a program's threads in one repetition.
    fn streams(&self, program: usize) -> Vec<Box<dyn Stream + '_>> {
        let threads = 0..self.threads[program].len();
        threads
            .map(|thread| tagged(self.programs[program].stream(thread), program))
            .collect()
    }

    /// The events of a program's threads in endless repetitions.
    pub(crate) fn repeated(&self, program: usize) -> Vec<Box<dyn Stream + '_>> {
        (0..self.threads[program].len())
            .map(|thread| {
                let repeated = Repeated::new(self.programs[program].as_ref(), thread);
                tagged(Box::new(repeated), program)
            })
            .collect()
    }
}

/// The number of a program's thread `owner` among all threads.
fn in_mix(first: usize, owner: u32) -> u32 {
    owner + u32::try_from(first).expect("a machine has fewer threads")
}

/// The bits that distinguish the addresses of programs.
fn tag(program: usize) -> u64 {
    (program as u64) << ADDRESS_BITS
}

fn tagged<'a>(stream: Box<dyn Stream + 'a>, program: usize) -> Box<dyn Stream + 'a> {
    match tag(program) {
        0 => stream,
        tag => Box::new(Tagged { stream, tag }),
    }
}

/// A stream with the addresses of one program.
struct Tagged<'a> {
    stream: Box<dyn Stream + 'a>,
    tag: u64,
}

impl Stream for Tagged<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> bool {
        let any = self.stream.next_batch(batch);
        for event in &mut batch.events {
            if matches!(event.kind, EventKind::Read | EventKind::Write | EventKind::Locked) {
                event.payload ^= self.tag;
            }
        }
        any
    }

    fn steps(&self, model: &Model) -> Option<Arc<StepTable>> {
        self.stream.steps(model)
    }
}
