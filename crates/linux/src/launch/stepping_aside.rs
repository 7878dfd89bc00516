//! Lets go of processes that trace themselves, or others that pinfold follows. Linux permits one tracer for each thread.
//!
//! 1. A thread that is stopped asks for it: the agent's request (`agent/step_aside.c`), or the execution of a program that
//!    traces and has no agent (`executable`).
//! 2. The other threads of the processes in question are made to stop, and each is detached when it has stopped. New
//!    ones that they have created meanwhile are detached when they stop at their begin.
//! 3. When none is left, the thread that has asked runs again. From then on the processes are polled (`polling`).
//!
//! Limits: the stop of a thread interrupts system calls that the kernel does not restart (see `tracer`). A thread in a
//! system call that cannot be interrupted delays the request until the call has returned.

use super::State;
use super::polling::Cause;
use super::trace::{self, Request};
use std::collections::BTreeSet;

/// What is not finished.
#[derive(Debug, Default)]
pub(super) struct SteppingAside {
    /// Threads of polled processes to which the tracer is still attached.
    attached: BTreeSet<i32>,
    /// Stopped threads that wait until there is none.
    waiting: Vec<i32>,
}

impl SteppingAside {
    /// A thread was created by one that is to be detached.
    pub(super) fn add(&mut self, thread: i32) {
        self.attached.insert(thread);
    }

    /// A thread was detached or has ended.
    fn remove(&mut self, thread: i32) {
        self.attached.remove(&thread);
        self.waiting.retain(|&waiting| waiting != thread);
    }

    /// The threads that wait, which have to be resumed.
    pub(super) fn take_waiting(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.waiting)
    }
}

/// Lets go of a process as the agent of `asking` has requested, which has stopped.
pub(super) fn grant(state: &mut State, asking: i32, request: Request) {
    let own = state.program.process_of(asking);
    let (process, why) = match request {
        Request::TracedByItself => (own, Cause::TracesItself),
        Request::TracedByParent => (own, Cause::Traces),
        Request::Traces(thread) => (state.program.process_of(thread), Cause::Traces),
    };
    let processes = match process {
        Some(process) => vec![process],
        // A number in a nested namespace is not known here: it may be that of any process.
        None if own.is_some_and(|own| state.program.is_in_nested_namespace(own)) => state.program.processes(),
        None => vec![],
    };
    let_go(state, asking, processes, why);
}

/// Lets go of what the program traces that `thread` has executed, where the agent cannot ask for it. Returns whether the
/// thread is resumed here.
pub(super) fn executed(state: &mut State, thread: i32, has_agent: bool) -> bool {
    let Some(why) = state.program.traces(thread, has_agent) else {
        return false;
    };
    let processes = match why {
        // It may trace any of them.
        Cause::Traces => state.program.processes(),
        Cause::TracesItself | Cause::ManyThreads => vec![thread],
    };
    let_go(state, thread, processes, why);
    true
}

/// Lets go of these processes; resumes `asking` afterwards.
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

/// A thread was detached, or has ended.
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
