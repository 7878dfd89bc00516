//! The resource limits of this process: setrlimit(2).
//!
//! pinfold inherits the limits that a user has set for a program. It needs more than a small program: threads, shared
//! memory, files. So it raises its own limits as much as it may. The program gets the inherited ones at its exec
//! (`launch::inherited`). If a limit is still too small, pinfold steps aside: the program runs without it.
//!
//! Limit: the kernel ends a program at its exec if the program is larger than the limit of its address space. The same
//! holds for pinfold.

use crate::memory::page_size;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, signal};
use nix::unistd::getuid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::thread;

/// The limits that pinfold's own work can reach.
const RAISED: [Resource; 7] = [
    Resource::RLIMIT_AS,
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_NPROC,
];

/// The usual limit of a stack. All commands were tested with it.
const STACK: u64 = 8 << 20;

/// Memory for the stacks of pinfold's threads, of 2 MiB each, and for their allocations.
const MEMORY: u64 = 64 << 20;

/// Shared memory counts as a file. The table of regions is the largest, with half a MiB.
const FILE_SIZE: u64 = 1 << 20;

/// Files of a run without counters: pipes, shared memory, the journal.
const FILES: u64 = 32;

/// Processes and threads. pinfold has up to five, and the program needs the rest.
const TASKS: u64 = 32;

/// More tasks than a user usually has. A higher limit is not compared with their number, because that has to be
/// counted.
const MANY_TASKS: u64 = 4096;

/// Raises the limits of this process as much as it may. A write to a file that becomes too large fails, and sends no
/// signal.
pub fn raise_own() {
    for resource in RAISED {
        let Ok((_, hard)) = getrlimit(resource) else { continue };
        // Only a privileged process may raise the hard limit. If nothing can be raised the limit stays.
        if setrlimit(resource, RLIM_INFINITY, RLIM_INFINITY).is_err() {
            let _ = setrlimit(resource, hard, hard);
        }
    }
    // SAFETY: no handler is installed.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
}

/// Why the current limits are too small for pinfold. `None` if they suffice.
pub fn too_small() -> Option<String> {
    let limit = |resource| getrlimit(resource).map_or(RLIM_INFINITY, |(soft, _)| soft);
    let memory = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = |place: usize| {
        let number = memory.split(' ').nth(place)?.parse::<u64>().ok()?;
        Some(number * page_size())
    };
    let (all, data) = (pages(0).unwrap_or(0), pages(5).unwrap_or(0));
    let (space, own_data) = (limit(Resource::RLIMIT_AS), limit(Resource::RLIMIT_DATA));
    if space < all + MEMORY {
        return Some(format!(
            "{} KiB of address space (ulimit -v) are too few for it",
            space >> 10
        ));
    }
    if own_data < data + MEMORY {
        return Some(format!("{} KiB of data (ulimit -d) are too few for it", own_data >> 10));
    }
    let size = limit(Resource::RLIMIT_FSIZE);
    if size < FILE_SIZE {
        return Some(format!(
            "files of {} KiB (ulimit -f) are too small for its shared memory",
            size >> 10
        ));
    }
    let files = limit(Resource::RLIMIT_NOFILE);
    if files < FILES {
        return Some(format!("{files} open files (ulimit -n) are too few for it"));
    }
    let tasks = limit(Resource::RLIMIT_NPROC);
    if tasks < MANY_TASKS && tasks < tasks_of_user() + TASKS {
        return Some(format!(
            "{tasks} processes (ulimit -u) are too few for the program and for it"
        ));
    }
    None
}

/// The number of this user's processes and threads that `/proc` shows.
fn tasks_of_user() -> u64 {
    let own = getuid().as_raw();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let tasks = processes.filter_map(|process| {
        let number: u32 = process.file_name().to_str()?.parse().ok()?;
        let is_own = process.metadata().ok()?.uid() == own;
        let tasks = is_own.then(|| fs::read_dir(format!("/proc/{number}/task")))?.ok()?;
        Some(tasks.count() as u64)
    });
    tasks.sum()
}

/// Runs the main function of a command. If this thread's stack may not grow to the usual size, runs it in another
/// thread.
pub fn with_usual_stack<T: Send + 'static>(main: fn() -> T) -> T {
    let is_usual = getrlimit(Resource::RLIMIT_STACK).is_ok_and(|(soft, _)| soft >= STACK);
    let mut before = SigSet::empty();
    if is_usual || pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before)).is_err() {
        return main();
    }
    let size = usize::try_from(STACK).expect("the size fits into the address space");
    // The kernel delivers signals to the thread that does not block them.
    let begun = thread::Builder::new().stack_size(size).spawn(move || {
        let _ = before.thread_set_mask();
        main()
    });
    let Ok(begun) = begun else {
        let _ = before.thread_set_mask();
        return main();
    };
    begun.join().unwrap_or_else(|panic| resume_unwind(panic))
}
