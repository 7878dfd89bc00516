//! The state that this process inherited from its parent. It is restored for a program that this process starts.
//!
//! Rust's runtime ignores SIGPIPE before `main` and opens standard streams that were closed. pinfold blocks signals and
//! raises its limits. The program must not inherit any of this. So the state is saved early: the loader runs the
//! functions of `.init_array` before `main`, and before Rust's runtime.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// The highest signal number of Linux.
pub(crate) const HIGHEST_SIGNAL: i32 = 64;

/// The number of resources that have limits (`RLIM_NLIMITS`).
const RESOURCES: usize = 16;

/// Signal state and limits at the start of this process.
#[derive(Clone, Copy)]
pub(crate) struct Inherited {
    /// Bit `n - 1` is set if signal `n` was ignored.
    ignored: u64,
    mask: libc::sigset_t,
    /// The limits, indexed by resource number.
    limits: [libc::rlimit; RESOURCES],
    /// Whether each of the three standard streams was closed.
    closed: [bool; 3],
}

/// Written once, before there is a second thread. Afterwards it is only read.
struct AtStart {
    value: UnsafeCell<MaybeUninit<Inherited>>,
    noted: AtomicBool,
}

// SAFETY: the only write happens in `note`. The loader calls it once while the process has a single thread or, for a
// shared library, before any of the library's other code can run. `noted` publishes it.
unsafe impl Sync for AtStart {}

static AT_START: AtStart = AtStart {
    value: UnsafeCell::new(MaybeUninit::uninit()),
    noted: AtomicBool::new(false),
};

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    // SAFETY: see `AtStart`. No other reference exists yet.
    unsafe { (*AT_START.value.get()).write(Inherited::now()) };
    AT_START.noted.store(true, Ordering::Release);
}

impl Inherited {
    /// The state at the start of this process.
    pub(crate) fn at_start() -> Self {
        if AT_START.noted.load(Ordering::Acquire) {
            // SAFETY: `noted` is set after the value was written, and no one writes it again.
            unsafe { (*AT_START.value.get()).assume_init() }
        } else {
            // The loader ran no `.init_array`, so the current state is the best approximation.
            Self::now()
        }
    }

    fn now() -> Self {
        let mut ignored = 0;
        for signal in 1..=HIGHEST_SIGNAL {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: with a null new action, the call only writes the old one. A zeroed action is valid.
            let action = unsafe {
                libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
                action.assume_init()
            };
            if action.sa_sigaction == libc::SIG_IGN {
                ignored |= 1 << (signal - 1);
            }
        }
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut limits = [libc::rlimit {
            rlim_cur: libc::RLIM_INFINITY,
            rlim_max: libc::RLIM_INFINITY,
        }; RESOURCES];
        // SAFETY: the calls write the given structures. A zeroed sigset_t is valid.
        let mask = unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), mask.as_mut_ptr());
            for (resource, limit) in (0..).zip(&mut limits) {
                libc::getrlimit(resource, limit);
            }
            mask.assume_init()
        };
        Self {
            ignored,
            mask,
            limits,
            // SAFETY: the call only queries.
            closed: [0, 1, 2].map(|stream| unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0),
        }
    }

    /// Whether a signal was ignored.
    pub(crate) fn ignores(&self, signal: i32) -> bool {
        self.ignored >> (signal - 1) & 1 == 1
    }

    /// Restores this state. It runs between fork and exec, so it makes only system calls.
    pub(crate) fn restore(&self) {
        for signal in 1..=HIGHEST_SIGNAL {
            let was_ignored = self.ignores(signal);
            // SAFETY: a zeroed sigaction with a handler of SIG_IGN or SIG_DFL is valid. The call fails without harm for
            // signals that cannot be changed.
            unsafe {
                let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                action.sa_sigaction = if was_ignored { libc::SIG_IGN } else { libc::SIG_DFL };
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
        for (stream, &closed) in (0..).zip(&self.closed) {
            if closed {
                // SAFETY: a plain system call, on a file that Rust's runtime has opened in place of the closed stream.
                unsafe { libc::close(stream) };
            }
        }
        // SAFETY: the corresponding read calls have filled the structures.
        unsafe {
            for (resource, limit) in (0..).zip(&self.limits) {
                libc::setrlimit(resource, limit);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut());
        }
    }
}

/// Raises the limit of open files to its maximum: each counter of each task is one file.
pub(crate) fn raise_open_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the calls read and write the given structure. If they fail, the limit stays, and counters that cannot be
    // opened are reported.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
