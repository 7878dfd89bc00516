//! The calls of ptrace(2) and wait(2) for following a program, with typed results.
//!
//! All calls act for the calling thread. Only the thread that attached to a task may resume it, and waiting with
//! `__WNOTHREAD` returns only that thread's tracees. So several followers can live in one process.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// An event of a traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It ended. The value is its status in the shell's form: the exit code, or 128 plus the signal.
    Ended(i32),
    /// It is about to receive this signal.
    Signal(i32),
    /// This signal has stopped its process, or it starts in a stopped process.
    GroupStop(i32),
    /// It starts, its process was continued, or `interrupt` stopped it.
    Trap,
    /// It has created a thread or a process.
    Created,
    /// It has executed a new program.
    Executed,
}

/// An event that was not taken yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) thread: i32,
    /// Whether it is the thread's end.
    pub(crate) end: bool,
}

const WAIT_OPTIONS: i32 = libc::__WALL | libc::__WNOTHREAD;

/// Blocks until a traced thread has an event, and does not take it. Until a thread's end is taken, its id names no
/// other thread. `None` if this thread traces no thread any more, or if a signal arrives after `stop` was set.
pub(crate) fn await_event(stop: &AtomicBool) -> io::Result<Option<Pending>> {
    while !stop.load(Ordering::Acquire) {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let options = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | WAIT_OPTIONS;
        // SAFETY: the call writes the given structure. A zeroed structure is valid.
        let (result, info) = unsafe {
            (
                libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options),
                info.assume_init(),
            )
        };
        if result == 0 {
            return Ok(Some(Pending {
                // SAFETY: waitid fills in the fields of SIGCHLD.
                thread: unsafe { info.si_pid() },
                end: matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED),
            }));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Ok(None),
            _ => return Err(error),
        }
    }
    Ok(None)
}

/// Takes the event of `thread`. `None` if the event has disappeared, because a kill came in between.
pub(crate) fn take_event(thread: i32) -> Option<Event> {
    let mut status = 0;
    // A stop of a child that is not traced needs `WUNTRACED`.
    let options = WAIT_OPTIONS | libc::WNOHANG | libc::WUNTRACED;
    // SAFETY: the call writes the given status.
    let taken = unsafe { libc::waitpid(thread, &raw mut status, options) };
    (taken == thread).then(|| decode(status))
}

/// The number that marks an agent's request (`REQUEST` in `agent/step_aside.c`).
const REQUEST: u64 = 0x7066_6c64;

/// The signal that carries an agent's request.
pub(crate) const REQUEST_SIGNAL: i32 = libc::SIGURG;

/// An agent's request to let go of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The requesting process. Its parent traces it.
    TracedByParent,
    /// The requesting process. It traces itself.
    TracedByItself,
    /// The process of this thread. The requesting process traces it.
    Traces(i32),
}

/// The request in the signal that `thread` is about to receive. `None` for any other signal.
pub(crate) fn requested(thread: i32) -> Option<Request> {
    let mut information = MaybeUninit::<libc::siginfo_t>::zeroed();
    request(libc::PTRACE_GETSIGINFO, thread, information.as_mut_ptr() as usize).ok()?;
    // SAFETY: the kernel filled the structure. A signal with this code carries a value, and any bytes are a valid
    // value.
    let (code, value) = unsafe {
        let information = information.assume_init();
        (information.si_code, information.si_value().sival_ptr as u64)
    };
    let lower = u32::try_from(value & u64::from(u32::MAX)).ok()?.cast_signed();
    (code == libc::SI_QUEUE && value >> 32 == REQUEST).then_some(match lower {
        0 => Request::TracedByParent,
        -1 => Request::TracedByItself,
        thread => Request::Traces(thread),
    })
}

/// The shell's form of the status of an ended child of this process. `None` if the child lives.
pub(crate) fn status_of_child(process: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: the call writes the given status.
    let ended = unsafe { libc::waitpid(process, &raw mut status, libc::__WALL | libc::WNOHANG) };
    match (ended == process).then(|| decode(status))? {
        Event::Ended(status) => Some(status),
        _ => None,
    }
}

fn decode(status: i32) -> Event {
    if libc::WIFEXITED(status) {
        return Event::Ended(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Event::Ended(128 + libc::WTERMSIG(status));
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => Event::Created,
        libc::PTRACE_EVENT_EXEC => Event::Executed,
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Event::Trap,
        libc::PTRACE_EVENT_STOP => Event::GroupStop(signal),
        _ => Event::Signal(signal),
    }
}

/// Attaches to `thread` and to all tasks that it will create, without stopping it. With `kill_with_us` the kernel kills
/// them when this process ends.
pub(crate) fn seize(thread: i32, kill_with_us: bool) -> io::Result<()> {
    let mut options =
        libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC;
    if kill_with_us {
        options |= libc::PTRACE_O_EXITKILL;
    }
    request(libc::PTRACE_SEIZE, thread, options.cast_unsigned() as usize)
}

/// Resumes a stopped thread, with a signal or none (0).
pub(crate) fn resume(thread: i32, signal: i32) {
    let _ = request(libc::PTRACE_CONT, thread, signal.cast_unsigned() as usize);
}

/// Leaves a thread in its group-stop until its process is continued.
pub(crate) fn listen(thread: i32) {
    let _ = request(libc::PTRACE_LISTEN, thread, 0);
}

/// Makes a running thread stop. Returns whether it is traced.
pub(crate) fn interrupt(thread: i32) -> bool {
    request(libc::PTRACE_INTERRUPT, thread, 0).is_ok()
}

/// Detaches from a stopped thread, with a signal or none (0). The thread stays stopped if its process is stopped.
/// Returns whether it was traced.
pub(crate) fn detach(thread: i32, signal: i32) -> bool {
    request(libc::PTRACE_DETACH, thread, signal.cast_unsigned() as usize).is_ok()
}

/// The new thread's id at `Created`, the previous thread id at `Executed`. `None` if the thread was killed.
pub(crate) fn event_message(thread: i32) -> Option<i32> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, thread, &raw mut message as usize).ok()?;
    i32::try_from(message).ok()
}

/// The stack pointer of a stopped 64-bit thread of this machine.
pub(crate) fn stack_pointer(thread: i32) -> io::Result<u64> {
    registers(thread).map(|registers| {
        #[cfg(target_arch = "x86_64")]
        return registers.rsp;
        #[cfg(target_arch = "aarch64")]
        return registers.sp;
    })
}

/// Sets the stack pointer of a stopped thread.
pub(crate) fn set_stack_pointer(thread: i32, pointer: u64) -> io::Result<()> {
    let mut registers = registers(thread)?;
    #[cfg(target_arch = "x86_64")]
    {
        registers.rsp = pointer;
    }
    #[cfg(target_arch = "aarch64")]
    {
        registers.sp = pointer;
    }
    transfer_registers(libc::PTRACE_SETREGSET, thread, &mut registers).map(|_| ())
}

/// The registers of a stopped thread. Fails for a 32-bit process, which has other registers.
fn registers(thread: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: the structure is plain numbers.
    let mut registers = unsafe { MaybeUninit::<libc::user_regs_struct>::zeroed().assume_init() };
    let length = transfer_registers(libc::PTRACE_GETREGSET, thread, &mut registers)?;
    if length == size_of_val(&registers) {
        Ok(registers)
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Reads or writes the general registers of a stopped thread. Returns their size in bytes.
fn transfer_registers(request: libc::c_uint, thread: i32, registers: &mut libc::user_regs_struct) -> io::Result<usize> {
    let mut buffer = libc::iovec {
        iov_base: ptr::from_mut(registers).cast(),
        iov_len: size_of_val(registers),
    };
    // SAFETY: the request reads or writes at most the bytes of the buffer, which is the structure.
    let result = unsafe { libc::ptrace(request, thread, libc::NT_PRSTATUS, &raw mut buffer) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(buffer.iov_len)
}

/// One ptrace call. If the callers above ignore its error, it is `ESRCH`: the thread was killed while it was stopped,
/// and its end is the next result of `await_event`.
fn request(request: libc::c_uint, thread: i32, data: usize) -> io::Result<()> {
    // SAFETY: the data of these requests are a number, or the address of a c_ulong or siginfo_t. They take no address.
    let result = unsafe { libc::ptrace(request, thread, ptr::null_mut::<libc::c_void>(), data) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_distinguished() {
        let stop = |signal: i32, event: i32| decode(event << 16 | signal << 8 | 0x7f);
        assert_eq!(stop(libc::SIGTRAP, libc::PTRACE_EVENT_STOP), Event::Trap);
        assert_eq!(
            stop(libc::SIGTSTP, libc::PTRACE_EVENT_STOP),
            Event::GroupStop(libc::SIGTSTP)
        );
        assert_eq!(stop(libc::SIGTSTP, 0), Event::Signal(libc::SIGTSTP));
        assert_eq!(stop(libc::SIGTRAP, libc::PTRACE_EVENT_VFORK), Event::Created);
    }

    #[test]
    fn ends_have_the_shells_status() {
        assert_eq!(decode(3 << 8), Event::Ended(3));
        assert_eq!(decode(libc::SIGKILL), Event::Ended(137));
    }
}
