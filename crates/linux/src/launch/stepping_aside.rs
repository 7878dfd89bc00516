//! Lets go of processes that trace themselves, or that other programs trace. Linux permits one tracer per thread.
//!
//! 1. A stopped thread requests it: through the agent (`agent/step_aside.c`), or by executing a program that traces and
//!    has no agent (`executable`).
//! 2. pinfold makes the other threads of these processes stop, and detaches from each when it has stopped. New threads
//!    that they have created meanwhile are detached when they stop at their start.
//! 3. When no thread is attached, the requesting thread runs again. From then on the processes are polled (`polling`).
//!
//! Limits: the stop of a thread interrupts system calls that the kernel does not restart (see `tracer`). A thread in an
//! uninterruptible system call delays the request until the call has returned.

use super::State;
use super::polling::Cause;
use super::trace::{self, Request};
use std::collections::BTreeSet;

/// The unfinished requests.
#[derive(Debug, Default)]
pub(super) struct SteppingAside {
    /// Threads of polled processes that the tracer is still attached to.
    attached: BTreeSet<i32>,
    /// The stopped threads that wait until `attached` is empty.
    waiting: Vec<i32>,
}

impl SteppingAside {
    /// Adds a thread that a thread to be detached has created.
    pub(super) fn add(&mut self, thread: i32) {
        self.attached.insert(thread);
    }

    /// Removes a thread that was detached or has ended.
    fn remove(&mut self, thread: i32) {
        self.attached.remove(&thread);
        self.waiting.retain(|&waiting| waiting != thread);
    }

    /// The waiting threads, which the caller has to resume.
    pub(super) fn take_waiting(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.waiting)
    }
}

/// Lets go of a process as the agent of the stopped thread `asking` has requested.
pub(super) fn grant(state: &mut State, asking: i32, request: Request) {
    let own = state.program.process_of(asking);
    let (process, why) = match request {
        Request::TracedByItself => (own, Cause::TracesItself),
        Request::TracedByParent => (own, Cause::Traces),
        Request::Traces(thread) => (state.program.process_of(thread), Cause::Traces),
    };
    let processes = match process {
        Some(process) => vec![process],
        // A number of a nested namespace is not known here: it may name any process.
        None if own.is_some_and(|own| state.program.is_in_nested_namespace(own)) => state.program.processes(),
        None => vec![],
    };
    let_go(state, asking, processes, why);
}

/// Lets go of the processes that the new program of `thread` may trace, if no agent can request it. Returns whether the
/// thread is resumed here.
pub(super) fn executed(state: &mut State, thread: i32, has_agent: bool) -> bool {
    let Some(why) = state.program.traces(thread, has_agent) else {
        return false;
    };
    let processes = match why {
        // The program may trace any of them.
        Cause::Traces => state.program.processes(),
        Cause::TracesItself | Cause::ManyThreads => vec![thread],
    };
    let_go(state, thread, processes, why);
    true
}

/// Lets go of these processes, and then resumes `asking`.
fn let_go(state: &mut State, asking: i32, processes: Vec<i32>, why: Cause) {
    state.program.strike_out_dead_leaders();
    state.aside.attached.remove(&asking);
    for process in processes {
        for thread in state.program.poll(process, asking, why) {
            if thread != asking && trace::interrupt(thread) {
                state.aside.attached.insert(thread);
            }
        }
    }
    state.aside.waiting.push(asking);
    resume_if_done(state);
}

/// Handles a thread that was detached or has ended.
pub(super) fn detached(state: &mut State, thread: i32) {
    state.aside.remove(thread);
    resume_if_done(state);
}

fn resume_if_done(state: &mut State) {
    if !state.aside.attached.is_empty() {
        return;
    }
    for thread in state.aside.take_waiting() {
        if state.program.is_polled(thread) {
            trace::detach(thread, 0);
        } else {
            trace::resume(thread, 0);
        }
    }
}
