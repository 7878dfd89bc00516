//! A command that replaces pinfold and is not placed. It ends with pinfold, and signals that a process sends to pinfold
//! are forwarded to it. It gets the signals of the terminal itself; pinfold ignores those, to complete its work when
//! the command has ended.

use crate::launch::signals::{next, owned};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

/// The signals by which users and batch systems end or notify a program.
const FORWARDED: [i32; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Makes the kernel end a command when the thread that starts it ends.
pub fn dies_with_us(command: &mut Command) -> &mut Command {
    let us = std::process::id().cast_signed();
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // The thread may have ended before the kernel was informed.
            if libc::getppid() != us {
                libc::raise(libc::SIGKILL);
            }
            Ok(())
        })
    }
}

/// Runs a command to its end. Call it from the process's first thread, before there are others: the kernel ends the
/// command when the thread that started it ends.
pub fn run(command: &mut Command) -> io::Result<ExitStatus> {
    let mut forwarded = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the calls fill the sets that they are given; a zeroed one is valid.
    let (forwarded, before) = unsafe {
        libc::sigemptyset(forwarded.as_mut_ptr());
        for signal in FORWARDED {
            libc::sigaddset(forwarded.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, forwarded.as_ptr(), before.as_mut_ptr());
        (forwarded.assume_init(), before.assume_init())
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        dies_with_us(command).pre_exec(move || {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            Ok(())
        });
    }
    let result = follow(command, &forwarded);
    // SAFETY: the mask that was read above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

fn follow(command: &mut Command, forwarded: &libc::sigset_t) -> io::Result<ExitStatus> {
    // SAFETY: the set is valid, and the descriptor is ours alone.
    let mut signals = unsafe { owned(libc::signalfd(-1, forwarded, libc::SFD_CLOEXEC))? };
    let mut child = command.spawn()?;
    let id = child.id().cast_signed();
    // SAFETY: a system call without memory; the descriptor is ours alone.
    let end = unsafe { owned(RawFd::try_from(libc::syscall(libc::SYS_pidfd_open, id, 0)).unwrap_or(-1))? };
    while let Some(signal) = next(&mut signals, &end) {
        let sent_by_process = signal.ssi_code <= 0;
        if sent_by_process {
            // SAFETY: a plain system call; the child has not been waited for, so the id is its own.
            unsafe { libc::kill(id, signal.ssi_signo.cast_signed()) };
        }
    }
    child.wait()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_command_that_dies_with_us_is_killed_when_its_starter_ends() {
        let start = || dies_with_us(Command::new("sleep").arg("1000")).spawn().unwrap();
        // A thread represents the process: the kernel watches the thread.
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
}
