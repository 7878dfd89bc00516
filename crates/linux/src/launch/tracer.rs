//! The thread that follows the program.
//!
//! 1. It forks the program's first process, attaches to it and lets it execute; or it attaches to a running process
//!    (`seize`). From then on the kernel attaches to each thread and process that the program creates, and stops it
//!    before its first instruction.
//! 2. It blocks until one of them has an event, locks the program, takes the event, updates the program, and resumes
//!    the thread. Between events it uses no processor time.
//! 3. At each exec it adds the agent to the new program's environment (`preload`).
//! 4. When the main process has ended, or pinfold has to detach, it stops each remaining thread, restores its original
//!    mask, and detaches from it. An attached process continues undisturbed: the tracer ends without stopping any
//!    thread, and then masks are restored from the journal.
//!
//! Limits: ptrace does not report tasks that the kernel creates for `io_uring`, nor tasks in `CLONE_UNTRACED` mode: see
//! `untraced`. An external tracer (a debugger) cannot trace a followed program. Each signal for the program costs two
//! switches to this thread. If pinfold detaches from a thread during one of the few system calls that the kernel does
//! not restart after a stop (`epoll_wait`, `sigtimedwait`; see signal(7)), the call returns EINTR, as after SIGSTOP and
//! SIGCONT.

use super::attach::{AttachError, RunningProcess};
use super::exec::{Prepared, Unborn};
use super::seize::seize;
use super::signals;
use super::stepping_aside;
use super::trace::{self, Event};
use super::waiting::{Changes, WaitingChild};
use super::{FollowError, LaunchError, Phase, Shared, State};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Runs the program of `prepared` and follows it until none of its tasks is followed any more.
pub(super) fn follow(shared: &Shared, prepared: &Prepared, kill_with_us: bool) {
    match start(prepared, kill_with_us) {
        Ok(mut unborn) => {
            shared.lock().main = unborn.process;
            follow_events(shared, Some((prepared, &mut unborn)));
        }
        Err(error) => shared.change(|state| state.phase = Phase::Failed(error.into())),
    }
}

/// Makes a waiting child execute the program, and follows it until none of its tasks is followed any more.
pub(super) fn follow_waiting(shared: &Shared, child: &WaitingChild, changes: &Changes, kill_with_us: bool) {
    let process = child.process();
    let seized = child
        .execute(changes)
        .map_err(FollowError::from)
        .and_then(|()| Ok(seize(&RunningProcess::child(process)?, kill_with_us)?));
    match seized {
        Ok(seized) => {
            child.take();
            shared.change(|state| {
                state.main = process;
                state.began = Some(Instant::now());
                state.phase = Phase::Running;
                for task in seized.tasks {
                    state.program.adopt_new(task);
                }
            });
            follow_events(shared, None);
        }
        // The child has already ended.
        Err(FollowError::Attach(AttachError::None(_))) => {
            child.take();
            let status = child.status();
            shared.change(|state| state.phase = Phase::Over(status));
        }
        Err(error) => shared.change(|state| state.phase = Phase::Failed(error)),
    }
}

/// Attaches to a running process and follows it until it ends, or until `Running::let_go` requests the end. Then this
/// thread ends, and the kernel detaches from all tasks without stopping them.
pub(super) fn attach(shared: &Shared, process: &RunningProcess) {
    signals::let_wake_up();
    // SAFETY: a plain system call.
    shared.tracer.store(unsafe { libc::gettid() }, Ordering::Release);
    match seize(process, false) {
        Ok(seized) => {
            shared.change(|state| {
                state.main = process.number();
                state.began = Some(Instant::now());
                state.phase = Phase::Running;
                for note in seized.notes {
                    state.program.note(note);
                }
                for task in seized.tasks {
                    state.program.adopt(task);
                }
            });
            follow_events(shared, None);
        }
        Err(error) => shared.change(|state| state.phase = Phase::Failed(error.into())),
    }
}

/// Follows the tasks to their end. `starting` is the main process before its exec.
fn follow_events(shared: &Shared, mut starting: Option<(&Prepared, &mut Unborn)>) {
    loop {
        let pending = match trace::await_event(&shared.stop) {
            Ok(Some(pending)) => pending,
            Ok(None) => break,
            Err(error) => return shared.change(|state| state.phase = Phase::Failed(LaunchError::Wait(error).into())),
        };
        // The end of a process, or of an unknown thread, is taken only while its number is not in use.
        let number_goes = pending.end
            && shared
                .lock()
                .program
                .process_of(pending.thread)
                .is_none_or(|its| its == pending.thread);
        let _held = number_goes.then(|| shared.hold_processes());
        let mut state = shared.lock();
        if pending.end && state.phase.is_followed() {
            state.program.end(pending.thread);
        }
        let Some(event) = trace::take_event(pending.thread) else {
            continue;
        };
        if !pending.end && matches!(event, Event::Ended(_)) && state.phase.is_followed() {
            // A kill came after the stop was seen.
            state.program.end(pending.thread);
        }
        if matches!(state.phase, Phase::Starting)
            && let Some((prepared, unborn)) = &mut starting
            && pending.thread == unborn.process
        {
            before_exec(&mut state, unborn, prepared, event);
            shared.changed.notify_all();
            continue;
        }
        let verification = state.program.next_verification();
        handle(&mut state, pending.thread, event);
        if state.program.next_verification() != verification {
            // A waiting thread has to wake up earlier than planned.
            shared.changed.notify_all();
        }
        if matches!(state.phase, Phase::Leaving(_)) && (state.attached || state.program.is_empty()) {
            break;
        }
    }
    shared.change(|state| match state.phase {
        Phase::Leaving(status) => state.phase = Phase::Over(status),
        // Only polled processes are left.
        Phase::Running if state.program.is_polled(state.main) => state.traces_nothing = true,
        Phase::Starting | Phase::Running => state.phase = Phase::Over(None),
        Phase::Over(_) | Phase::Failed(_) => {}
    });
}

/// Forks the main process, attaches to it and lets it execute.
fn start(prepared: &Prepared, kill_with_us: bool) -> Result<Unborn, LaunchError> {
    let mut unborn = prepared.fork().map_err(LaunchError::Fork)?;
    let process = unborn.process;
    let attached = trace::seize(process, kill_with_us)
        .map_err(LaunchError::Attach)
        .and_then(|()| unborn.let_go().map_err(LaunchError::Fork));
    match attached {
        Ok(()) => Ok(unborn),
        Err(error) => {
            // The child exits when this process cannot make it execute any more.
            drop(unborn);
            // SAFETY: a null status is permitted.
            unsafe { libc::waitpid(process, std::ptr::null_mut(), libc::__WALL) };
            Err(error)
        }
    }
}

/// Handles an event of the main process before its exec.
fn before_exec(state: &mut State, unborn: &mut Unborn, prepared: &Prepared, event: Event) {
    let process = unborn.process;
    match event {
        Event::Executed => {
            let has_agent = state.give_agent_to(process);
            state.began = Some(Instant::now());
            state.program.first_task(process);
            state.phase = Phase::Running;
            if !stepping_aside::executed(state, process, has_agent) {
                trace::resume(process, 0);
            }
        }
        Event::Ended(status) => {
            state.phase = match unborn.failure() {
                Some(failure) => Phase::Failed(prepared.explain(failure).into()),
                None => Phase::Over(Some(status)),
            };
        }
        Event::Signal(signal) => trace::resume(process, signal),
        Event::GroupStop(_) => trace::listen(process),
        Event::Trap | Event::Created => trace::resume(process, 0),
    }
}

fn handle(state: &mut State, thread: i32, event: Event) {
    let mut has_agent = false;
    match event {
        Event::Ended(status) => {
            if thread == state.main && state.attached {
                state.phase = Phase::Leaving(Some(status));
            } else if thread == state.main {
                part(state, Some(status));
            }
            stepping_aside::detached(state, thread);
            return;
        }
        Event::Trap | Event::GroupStop(_) => {
            state.program.stopped_at_start(thread);
            if state.program.process_of(thread) == Some(state.main) {
                state.main_stopped = matches!(event, Event::GroupStop(_));
            }
        }
        Event::Created => {
            if let Some(created) = trace::event_message(thread) {
                let is_known = state.program.has_thread(created);
                state.program.announced(thread, created);
                if !is_known && state.program.is_polled(created) {
                    // The kernel has attached to it, and it stops at its start.
                    state.aside.add(created);
                }
            }
        }
        Event::Executed => {
            if !matches!(state.phase, Phase::Leaving(_)) {
                has_agent = state.give_agent_to(thread);
            }
            if let Some(former) = trace::event_message(thread) {
                state.program.executed(thread, former);
            }
        }
        Event::Signal(_) => {}
    }
    let request = match event {
        Event::Signal(trace::REQUEST_SIGNAL) => trace::requested(thread),
        _ => None,
    };
    let signal = match event {
        Event::Signal(signal) if request.is_none() => signal,
        _ => 0,
    };
    if matches!(state.phase, Phase::Leaving(_)) {
        if !state.keep_pinned {
            state.program.release_thread(thread);
        }
        trace::detach(thread, signal);
        state.program.detached(thread);
    } else if let Some(request) = request {
        stepping_aside::grant(state, thread, request);
    } else if state.program.is_polled(thread) {
        if !trace::detach(thread, signal) && thread == state.main {
            // It is a child of this process and was stopped.
            state.main_stopped = true;
            state.stop_with_main();
        }
        stepping_aside::detached(state, thread);
    } else if matches!(event, Event::Executed) && stepping_aside::executed(state, thread, has_agent) {
        // It is resumed after pinfold has stepped aside.
    } else if matches!(event, Event::GroupStop(_)) {
        trace::listen(thread);
        state.stop_with_main();
    } else {
        trace::resume(thread, signal);
    }
}

/// Starts to detach from the remaining tasks. Each thread is detached when it has stopped: see `handle`.
fn part(state: &mut State, status: Option<i32>) {
    state.phase = Phase::Leaving(status);
    state.program.strike_out_dead_leaders();
    state.part();
    for thread in state.aside.take_waiting() {
        trace::resume(thread, 0);
    }
    for thread in state.program.threads() {
        if !trace::interrupt(thread) && state.program.is_polled(thread) {
            state.program.detached(thread);
        }
    }
    state.program.end_polling();
}
