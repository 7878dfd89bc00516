//! A program's region of interest twice, with marks that let the window engine count each repetition separately.
//!
//! All threads meet at a barrier before and after each repetition. Between two such barriers the first thread enters or
//! leaves a region that represents the repetition, while the others wait. So the counts are exact. Regions of the
//! program have other identities in the first repetition, which begins with cold caches, than in the second.

use crate::model::Model;
use crate::timeline::Program;
use crate::window::{Batch, Event, EventKind, StepTable, Stream};
use std::sync::Arc;

/// The region that represents the cold repetition.
pub(super) const COLD: u64 = 1 << 62;
/// The region that represents the warm one.
pub(super) const WARM: u64 = COLD + 1;
/// Added to the identity of a region in the cold repetition. Identities are addresses of user space, below 2^47 or
/// 2^56.
pub(super) const IN_COLD: u64 = 1 << 63;

/// Identities of the barriers added here. Those of a program's two repetitions are below 2^49.
const MEETINGS: u64 = 1 << 56;

/// The events of one thread.
pub(super) struct Repetitions<'a> {
    program: &'a dyn Program,
    thread: usize,
    stream: Box<dyn Stream + 'a>,
    next: Step,
}

#[derive(Clone, Copy)]
enum Step {
    Begin,
    Cold,
    Between,
    Warm,
    End,
    Done,
}

impl<'a> Repetitions<'a> {
    pub(super) fn new(program: &'a dyn Program, thread: usize) -> Self {
        Self {
            program,
            thread,
            stream: program.stream(thread),
            next: Step::Begin,
        }
    }

    /// All threads meet, the first one emits `marks`, and all meet again. Regions that a repetition does not end, end
    /// at this meeting.
    fn meet(&self, meeting: u64, marks: &[(EventKind, u64)], batch: &mut Batch) {
        let members = u16::try_from(self.program.threads()).unwrap_or(u16::MAX);
        batch.events.clear();
        batch.events.push(Event::barrier(MEETINGS + 2 * meeting, members));
        batch.events.push(Event::mark(EventKind::RecordedBegin, 0));
        if self.thread == 0 {
            batch
                .events
                .extend(marks.iter().map(|&(kind, region)| Event::mark(kind, region)));
        }
        batch.events.push(Event::barrier(MEETINGS + 2 * meeting + 1, members));
    }
}

impl Stream for Repetitions<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> bool {
        use EventKind::{RegionBegin, RegionEnd};
        loop {
            match self.next {
                Step::Begin => {
                    self.next = Step::Cold;
                    self.meet(0, &[(RegionBegin, COLD)], batch);
                    return true;
                }
                Step::Cold => {
                    if self.stream.next_batch(batch) {
                        for event in &mut batch.events {
                            if matches!(event.kind, RegionBegin | RegionEnd) {
                                event.payload |= IN_COLD;
                            }
                        }
                        return true;
                    }
                    self.next = Step::Between;
                }
                Step::Between => {
                    self.next = Step::Warm;
                    self.stream = self.program.stream(self.thread);
                    self.meet(1, &[(RegionEnd, COLD), (RegionBegin, WARM)], batch);
                    return true;
                }
                Step::Warm => {
                    if self.stream.next_batch(batch) {
                        restart(batch);
                        return true;
                    }
                    self.next = Step::End;
                }
                Step::End => {
                    self.next = Step::Done;
                    self.meet(2, &[(RegionEnd, WARM)], batch);
                    return true;
                }
                Step::Done => return false,
            }
        }
    }

    fn steps(&self, model: &Model) -> Option<Arc<StepTable>> {
        self.stream.steps(model)
    }
}

/// The offset of identities in the second repetition.
const IDENTITIES: u64 = 1 << 48;

/// Gives the events that order threads the identities of the second repetition.
fn restart(batch: &mut Batch) {
    for event in &mut batch.events {
        if matches!(event.kind, EventKind::Barrier | EventKind::Signal | EventKind::Wait) {
            event.payload += IDENTITIES;
        }
    }
}
