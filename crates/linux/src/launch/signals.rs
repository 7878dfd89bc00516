//! Forwards signals from pinfold to the program.
//!
//! pinfold blocks the signals, and one thread receives them. A signal that a process sent to pinfold is forwarded to
//! the program's main process. The terminal sends signals to the whole foreground group, so the program already has
//! those. Only SIGHUP goes to the leader of the session alone. It is forwarded if pinfold is the leader. When a stop
//! signal from the terminal or from a process stops the program, pinfold stops as well, so that the shell gets the
//! terminal back.
//!
//! pinfold does not forward signals to a process that it has attached to. In this case SIGHUP, SIGINT, SIGQUIT and
//! SIGTERM end the run, unless they were ignored when pinfold started, as under nohup or in the background of a script.
//! All other signals are ignored: a stopped pinfold would stop each thread of the process that starts or gets a signal.
//!
//! Limits: a signal that a process sends to the whole group (`kill -TERM -PGRP`) reaches the program twice, because it
//! looks like two signals. A second standard signal of the same kind that arrives before the first one is delivered is
//! merged with it. A signal that the program itself sends to its parent is not returned to it.

use super::inherited::Inherited;
use super::{Phase, Shared};
use std::fs::File;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Signals about this process itself: faults, and the effects of its own system calls.
const OUR_OWN: [i32; 9] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGCHLD,
    libc::SIGPIPE,
];

/// The signals that end the run of an attached process.
const ENDING: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Makes the tracer's wait return. No other code sends it, and by default it is ignored.
const WAKE_UP: i32 = libc::SIGURG;

const STOPS: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// The forwardable signals. They are blocked in this thread and in the threads that it starts, until this is dropped.
pub(super) struct Blocked {
    before: libc::sigset_t,
    /// The mask belongs to the thread, so this value must not leave it.
    _thread: PhantomData<*const ()>,
}

impl Blocked {
    pub(super) fn new() -> Self {
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        let forwardable = forwardable();
        // SAFETY: the call reads one set and writes the other. A zeroed set is valid.
        let before = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const forwardable, before.as_mut_ptr());
            before.assume_init()
        };
        Self {
            before,
            _thread: PhantomData,
        }
    }
}

/// Drops signals for the program that came after its end, for example a Ctrl-C that has already ended it.
impl Drop for Blocked {
    fn drop(&mut self) {
        let forwardable = forwardable();
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call reads the two structures, and may get a null pointer for the signal information.
        while unsafe { libc::sigtimedwait(&raw const forwardable, std::ptr::null_mut(), &raw const at_once) } > 0 {}
        // SAFETY: `new` has filled the set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

fn forwardable() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the calls fill and change the given set.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for signal in OUR_OWN {
            libc::sigdelset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// A descriptor that delivers the forwardable signals, in a process that has blocked them.
pub(super) fn descriptor() -> io::Result<File> {
    let forwardable = forwardable();
    // SAFETY: the set is valid, and the descriptor belongs to no one else.
    unsafe { owned(libc::signalfd(-1, &raw const forwardable, libc::SFD_CLOEXEC)) }
}

/// The thread that receives the signals.
pub(super) struct Forwarder {
    end: File,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Starts to receive signals, from a thread that has blocked them.
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let mut signals = descriptor()?;
        // SAFETY: the descriptor belongs to no one else.
        let end = unsafe { owned(libc::eventfd(0, libc::EFD_CLOEXEC))? };
        let ended = end.try_clone()?;
        let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
            while let Some(signal) = next(&mut signals, &ended) {
                take(&shared, &signal);
            }
        })?;
        Ok(Self {
            end,
            thread: Some(thread),
        })
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        if self.end.write_all(&1u64.to_ne_bytes()).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// # Safety
///
/// The descriptor must belong to no one else.
pub(crate) unsafe fn owned(descriptor: RawFd) -> io::Result<File> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller guarantees it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// The next signal. `None` at the end.
pub(crate) fn next(signals: &mut File, ended: &File) -> Option<libc::signalfd_siginfo> {
    let poll = |file: &File| libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut files = [poll(signals), poll(ended)];
    // SAFETY: the call reads and writes the two elements.
    while unsafe { libc::poll(files.as_mut_ptr(), 2, -1) } < 0 {}
    if files[1].revents != 0 {
        return None;
    }
    let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
    signals.read_exact(&mut bytes).ok()?;
    // SAFETY: the kernel filled the whole structure, which is plain numbers.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

fn take(shared: &Shared, signal: &libc::signalfd_siginfo) {
    let number = signal.ssi_signo.cast_signed();
    let mut state = shared.lock();
    if state.attached {
        // The shell makes a background job ignore the terminal's signals, but `kill` addresses this process. Under
        // nohup the shell sends SIGHUP like a process.
        let may_be_ignored = signal.ssi_code > 0 || number == libc::SIGHUP;
        if ENDING.contains(&number) && !(may_be_ignored && Inherited::at_start().ignores(number)) {
            state.end_wanted = true;
            shared.changed.notify_all();
        }
        return;
    }
    if !matches!(state.phase, Phase::Running) {
        return;
    }
    if STOPS.contains(&number) {
        state.stop_wanted = true;
    } else if number == libc::SIGCONT {
        state.stop_wanted = false;
        if !state.main_stopped {
            return;
        }
        if state.program.is_polled(state.main) {
            // Only a traced process reports that it continues.
            state.main_stopped = false;
        }
    }
    // Positive codes are the kernel's, mainly for the terminal. Zero and negative codes are from processes.
    let is_for_the_program = if signal.ssi_code <= 0 {
        !state.program.has_process(signal.ssi_pid.cast_signed())
    } else {
        number == libc::SIGHUP && leads_session()
    };
    if is_for_the_program {
        // The main process was not reaped: a reap takes the lock and changes the phase.
        // SAFETY: plain system calls. The value is passed on and not interpreted.
        unsafe {
            if signal.ssi_code == libc::SI_QUEUE {
                let value = libc::sigval {
                    sival_ptr: signal.ssi_ptr as *mut libc::c_void,
                };
                libc::sigqueue(state.main, number, value);
            } else {
                libc::kill(state.main, number);
            }
        }
    }
    state.stop_with_main();
}

/// Lets `wake_up` interrupt the waits of the calling thread.
pub(super) fn let_wake_up() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // SAFETY: a zeroed action with a handler is valid, and this handler does nothing. The set is filled before use.
    unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(WAKE_UP, &raw const action, std::ptr::null_mut());
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), WAKE_UP);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Interrupts the wait of a thread of this process that has called `let_wake_up`. No effect if it does not wait.
pub(super) fn wake_up(thread: i32) {
    // SAFETY: a plain system call.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, WAKE_UP) };
}

fn leads_session() -> bool {
    // SAFETY: plain system calls.
    unsafe { libc::getsid(0) == libc::getpid() }
}
