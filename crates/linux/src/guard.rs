//! The guard: a small process that rolls changes back if pinfold dies before it has done so itself.
//!
//! The guard is needed only if a change outlives pinfold: registers, and masks of a program that continues after
//! pinfold. Otherwise the kernel ends the program with pinfold. The guard sleeps and takes no processor time.
//!
//! 1. pinfold creates a pipe and forks the guard. pinfold continues when the guard has closed its copies of pinfold's
//!    files. With them it would keep the locks of the journal and of the daemon after pinfold's death.
//! 2. The guard keeps the journal's file open, because the file's directory may be removed: by `rm -r`, or by the end
//!    of the user's session. It blocks in a read of the pipe. One byte means that the journal has a new file. Another
//!    byte means a normal end: the guard exits. The end of the pipe means that pinfold died, or that it has left
//!    changes to the guard.
//! 3. Then the guard rolls back pinfold's changes with the function that it was given. No thread of pinfold can make a
//!    change any more, so the guard waits for no lock of another process.
//!
//! Limits: if the guard is killed together with pinfold, nothing is rolled back until `pinfold reset`.

use crate::launch::exec::pipe;
use crate::launch::inherited::HIGHEST_SIGNAL;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};

/// The byte of a normal end.
const FAREWELL: u8 = b'!';
/// The byte that says that the journal has another file.
const ANOTHER_FILE: u8 = b'a';

/// The work of a guard.
pub(crate) trait Duty {
    /// Opens the journal's current file. `None` if that is not possible.
    fn open(&self) -> Option<File>;

    /// Rolls the changes back. `file` is the last file that could be opened.
    fn roll_back(self, file: Option<File>);
}

/// pinfold's side of the guard.
#[derive(Debug)]
pub(crate) struct Guard {
    process: i32,
    pipe: File,
}

impl Guard {
    /// Forks the guard, which does its duty if this process dies. The guard has no terminal, no standard streams, and
    /// no file of this process.
    pub(crate) fn start(duty: impl Duty) -> io::Result<Self> {
        let (pipe_read, pipe_write) = pipe()?;
        let (ready_read, ready_write) = pipe()?;
        // SAFETY: the child shares only the allocator's lock with this process, and the C library's fork leaves that
        // usable in the child of a process with several threads. The child never returns from `watch`.
        let process = unsafe { libc::fork() };
        match process {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // A process that keeps this end never sees the end of the pipe.
                drop(pipe_write);
                watch(File::from(pipe_read), duty)
            }
            _ => {
                drop(ready_write);
                // No data are written. The read returns when the other end is closed.
                File::from(ready_read).read_to_end(&mut vec![])?;
                Ok(Self {
                    process,
                    pipe: File::from(pipe_write),
                })
            }
        }
    }

    /// The guard's process number.
    pub(crate) fn process(&self) -> i32 {
        self.process
    }

    /// Makes the guard open the journal's new file.
    pub(crate) fn open_again(&mut self) {
        let _ = self.pipe.write_all(&[ANOTHER_FILE]);
    }

    /// Leaves the changes in force to the guard. The guard ends after it has rolled them back.
    pub(crate) fn take_over(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the pipe is closed here and not used again, because the value is not dropped.
        unsafe { std::ptr::drop_in_place(&raw mut this.pipe) };
    }
}

/// The normal end: no change is in force, or all changes shall stay.
impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.pipe.write_all(&[FAREWELL]);
        // SAFETY: the guard is a child of this process, and no other code waits for it.
        unsafe { libc::waitpid(self.process, std::ptr::null_mut(), 0) };
    }
}

/// The main function of the guard.
fn watch(pipe: File, duty: impl Duty) -> ! {
    // SAFETY: plain system calls in a process with a single thread. It keeps the pipe under descriptor 0 and closes all
    // others. `ManuallyDrop` keeps the old descriptor from being closed a second time.
    let mut pipe = unsafe {
        let pipe = ManuallyDrop::new(pipe);
        // A separate session: signals of the terminal to pinfold do not reach the guard.
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"pinfold-guard".as_ptr());
        for signal in 1..=HIGHEST_SIGNAL {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::dup2(pipe.as_raw_fd(), 0);
        if libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0) < 0 {
            // Linux before 5.9 lacks this call, and a filter may forbid it.
            let most = libc::sysconf(libc::_SC_OPEN_MAX).clamp(3, 65_536);
            for descriptor in 1..i32::try_from(most).unwrap_or(65_536) {
                libc::close(descriptor);
            }
        }
        File::from_raw_fd(0)
    };
    let mut file = duty.open();
    let mut byte = [0];
    loop {
        match pipe.read(&mut byte) {
            Ok(1) if byte[0] == ANOTHER_FILE => file = duty.open().or(file),
            Ok(1) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => {
                duty.roll_back(file);
                break;
            }
        }
    }
    // SAFETY: ends the process without running exit handlers of the process that forked it.
    unsafe { libc::_exit(0) }
}
