//! A command that pinfold runs in its own place, without placing it. It ends with pinfold. Signals that a process sends
//! to pinfold are forwarded to it. The terminal sends its signals to the command directly. pinfold ignores them, so
//! that it completes its work when the command has ended.

use crate::launch::signals::{next, owned};
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

/// The signals that users and batch systems use to end or notify a program.
const FORWARDED: [i32; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// The forwarded signals that ask a program to end.
const ENDING: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Makes the kernel end a command when the thread that starts it ends.
pub fn dies_with_us(command: &mut Command) -> &mut Command {
    let us = std::process::id().cast_signed();
    // SAFETY: only system calls are made between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // The thread may have ended before the call.
            if libc::getppid() != us {
                libc::raise(libc::SIGKILL);
            }
            Ok(())
        })
    }
}

/// Runs a command to its end. Call it from the process's first thread, before there are others: the kernel ends the
/// command when the starting thread ends.
pub fn run(command: &mut Command) -> io::Result<ExitStatus> {
    Forwarding::begin()?.run(command)
}

/// Forwards signals to the running command instead of letting them end pinfold, until this value is dropped.
pub struct Forwarding {
    forwarded: libc::sigset_t,
    before: libc::sigset_t,
    signals: File,
    asked: Option<i32>,
    /// The mask belongs to the thread, so this value must not leave it.
    _thread: PhantomData<*const ()>,
}

impl Forwarding {
    /// Call it from the process's first thread, before there are others: they inherit the signal mask.
    pub fn begin() -> io::Result<Self> {
        let mut forwarded = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: the calls fill the given sets, and a zeroed set is valid. The descriptor belongs to no one else.
        unsafe {
            libc::sigemptyset(forwarded.as_mut_ptr());
            for signal in FORWARDED {
                libc::sigaddset(forwarded.as_mut_ptr(), signal);
            }
            let signals = owned(libc::signalfd(-1, forwarded.as_ptr(), libc::SFD_CLOEXEC))?;
            libc::pthread_sigmask(libc::SIG_BLOCK, forwarded.as_ptr(), before.as_mut_ptr());
            Ok(Self {
                forwarded: forwarded.assume_init(),
                before: before.assume_init(),
                signals,
                asked: None,
                _thread: PhantomData,
            })
        }
    }

    /// Runs a command to its end. The kernel ends it when this thread ends.
    pub fn run(&mut self, command: &mut Command) -> io::Result<ExitStatus> {
        let before = self.before;
        // SAFETY: only system calls are made between fork and exec.
        unsafe {
            dies_with_us(command).pre_exec(move || {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
                Ok(())
            });
        }
        let mut child = command.spawn()?;
        let id = child.id().cast_signed();
        // SAFETY: a system call without memory. The descriptor belongs to no one else.
        let end = unsafe { owned(RawFd::try_from(libc::syscall(libc::SYS_pidfd_open, id, 0)).unwrap_or(-1))? };
        while let Some(signal) = next(&mut self.signals, &end) {
            let number = signal.ssi_signo.cast_signed();
            self.received(number);
            let sent_by_process = signal.ssi_code <= 0;
            if sent_by_process {
                // SAFETY: a plain system call. The child has not been waited for, so its id is still valid.
                unsafe { libc::kill(id, number) };
            }
        }
        child.wait()
    }

    /// The first signal that asked pinfold to end. `None` if there was none yet.
    pub fn asked_to_end(&mut self) -> Option<i32> {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            // SAFETY: the call reads the two structures, and may get a null pointer for the signal information.
            let number =
                unsafe { libc::sigtimedwait(&raw const self.forwarded, std::ptr::null_mut(), &raw const at_once) };
            if number <= 0 {
                return self.asked;
            }
            self.received(number);
        }
    }

    fn received(&mut self, number: i32) {
        if ENDING.contains(&number) {
            self.asked.get_or_insert(number);
        }
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        // SAFETY: `begin` has read this mask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_command_that_dies_with_us_is_killed_when_its_starter_ends() {
        let start = || dies_with_us(Command::new("sleep").arg("1000")).spawn().unwrap();
        // A thread stands for the process: the kernel watches the thread.
        let mut child = std::thread::spawn(start).join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_command_ends_as_it_ends() {
        assert_eq!(run(Command::new("sh").args(["-c", "exit 3"])).unwrap().code(), Some(3));
        let killed = run(Command::new("sh").args(["-c", "kill -9 $$"])).unwrap();
        assert_eq!(killed.signal(), Some(9));
    }

    #[test]
    fn the_command_has_the_signal_mask_that_we_had() {
        let masks = || -> String {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            status
                .lines()
                .find(|line| line.starts_with("SigBlk"))
                .unwrap()
                .to_owned()
        };
        let before = masks();
        let script = format!("grep -qx '{before}' /proc/self/status");
        assert_eq!(run(Command::new("sh").args(["-c", &script])).unwrap().code(), Some(0));
        assert_eq!(masks(), before);
    }

    #[test]
    fn a_signal_that_asks_pinfold_to_end_is_kept_and_the_others_are_not() {
        let mut forwarding = Forwarding::begin().unwrap();
        assert_eq!(forwarding.asked_to_end(), None);
        // The signals go only to this thread, because other threads run other tests.
        for signal in [libc::SIGUSR1, libc::SIGTERM, libc::SIGINT] {
            // SAFETY: a plain system call; the signal is blocked in this thread.
            unsafe { libc::raise(signal) };
            let _ = forwarding.asked_to_end();
        }
        assert_eq!(forwarding.asked_to_end(), Some(libc::SIGTERM));
        assert_eq!(
            forwarding
                .run(Command::new("sh").args(["-c", "exit 3"]))
                .unwrap()
                .code(),
            Some(3)
        );
    }
}
