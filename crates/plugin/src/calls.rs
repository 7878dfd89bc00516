//! System calls: the order of threads, their creation and end, and mappings.

use crate::memory_call::MemoryCall;
use crate::thread::Thread;
use crate::{STATES, code, mapping, outside_code, qemu, recorder, touches};
use pinfold_trace::shared::{self, Status};
use pinfold_trace::{EventKind, Writer};
use std::cell::Cell;
use std::ffi::c_uint;
use std::sync::atomic::Ordering;

thread_local! {
    /// The thread that the calling thread creates, during the system call.
    pub(crate) static CREATING: Cell<Option<Creating>> = const { Cell::new(None) };
    /// The barriers that had opened when the calling thread arrived at its last one.
    static OPENED_BEFORE: Cell<u64> = const { Cell::new(0) };
}

/// A thread that is being created.
#[derive(Clone, Copy)]
pub(crate) struct Creating {
    pub(crate) parent: u32,
    /// The word that the kernel clears when the new thread ends.
    pub(crate) clear_at_end: u64,
    /// The number of the new thread, once QEMU has reported it.
    pub(crate) child: Option<u32>,
}

/// The system calls of x86-64 that order threads or change mappings.
pub(crate) mod syscall {
    pub(crate) const READ: i64 = 0;
    pub(crate) const MMAP: i64 = 9;
    pub(crate) const MPROTECT: i64 = 10;
    pub(crate) const MUNMAP: i64 = 11;
    pub(crate) const BRK: i64 = 12;
    pub(crate) const PREAD64: i64 = 17;
    pub(crate) const MREMAP: i64 = 25;
    pub(crate) const MADVISE: i64 = 28;
    pub(crate) const RECVFROM: i64 = 45;
    pub(crate) const CLONE: i64 = 56;
    pub(crate) const FORK: i64 = 57;
    pub(crate) const VFORK: i64 = 58;
    pub(crate) const EXECVE: i64 = 59;
    pub(crate) const EXIT: i64 = 60;
    pub(crate) const FUTEX: i64 = 202;
    pub(crate) const SET_TID_ADDRESS: i64 = 218;
    pub(crate) const EXECVEAT: i64 = 322;
    pub(crate) const PKEY_MPROTECT: i64 = 329;
}

const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;
const FUTEX_REQUEUE: u64 = 3;
const FUTEX_CMP_REQUEUE: u64 = 4;
const FUTEX_WAKE_OP: u64 = 5;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_UNLOCK_PI: u64 = 7;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAKE_BITSET: u64 = 10;
const FUTEX_WAIT_REQUEUE_PI: u64 = 11;
const FUTEX_LOCK_PI2: u64 = 13;

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const MADV_DONTNEED: u64 = 4;
const MAP_FIXED: u64 = 0x10;

/// Whether a call of `clone` creates a thread. QEMU treats `vfork` as `fork`.
fn makes_thread(flags: u64) -> bool {
    flags & CLONE_VM != 0 && flags & CLONE_VFORK == 0
}

pub(crate) extern "C" fn on_syscall(
    _: qemu::Id,
    vcpu: c_uint,
    number: i64,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
    _: u64,
    _: u64,
) {
    outside_code(vcpu, |thread| {
        mapping::tell_stack(thread);
        thread.waits_for = None;
        thread.memory_call = MemoryCall::of(number, [a1, a2, a3, a4, a5, a6]);
        match number {
            syscall::CLONE if makes_thread(a1) => {
                CREATING.set(Some(Creating {
                    parent: thread.number,
                    clear_at_end: if a1 & CLONE_CHILD_CLEARTID != 0 { a4 } else { 0 },
                    child: None,
                }));
            }
            syscall::FUTEX => futex(thread, a1, a2 & FUTEX_COMMAND, a3),
            syscall::EXIT => end(thread),
            syscall::SET_TID_ADDRESS => thread.clear_at_end = a1,
            syscall::MUNMAP => unmap(thread, a1, a2),
            syscall::MMAP if a4 & MAP_FIXED != 0 => unmap(thread, a1, a2),
            syscall::MADVISE if a3 == MADV_DONTNEED => {
                thread.event(EventKind::Discard {
                    address: a1,
                    length: a2,
                });
                touches::forget(a1, a2);
            }
            syscall::EXECVE | syscall::EXECVEAT => {
                thread.flush();
                code::flush();
                recorder::set_status(Status::Exec, 1);
            }
            shared::MARK_SYSCALL if a1 == shared::MARK_MAGIC => mark(thread, a2, a3, a4),
            _ => {}
        }
    });
}

/// A thread waits for a futex, or wakes waiting threads.
fn futex(thread: &mut Thread, address: u64, command: u64, limit: u64) {
    match command {
        FUTEX_WAIT | FUTEX_WAIT_BITSET | FUTEX_LOCK_PI | FUTEX_LOCK_PI2 | FUTEX_WAIT_REQUEUE_PI => {
            thread.waits_for = Some(address);
            thread.event(EventKind::FutexWait { address });
        }
        FUTEX_WAKE | FUTEX_WAKE_BITSET | FUTEX_REQUEUE | FUTEX_CMP_REQUEUE | FUTEX_WAKE_OP => {
            thread.event(EventKind::FutexWake {
                address,
                limit: limit & 0xffff_ffff,
            });
        }
        FUTEX_UNLOCK_PI => thread.event(EventKind::FutexWake { address, limit: 1 }),
        _ => {}
    }
}

/// A thread calls `exit`.
fn end(thread: &mut Thread) {
    if !thread.ended {
        thread.ended = true;
        let futex = thread.clear_at_end;
        thread.event(EventKind::ThreadEnd { futex });
    }
    thread.flush();
}

fn unmap(thread: &mut Thread, address: u64, length: u64) {
    thread.event(EventKind::Unmap { address, length });
    touches::forget(address, length);
}

/// The agent has made a mark. The kinds are in agent/marks.h.
fn mark(thread: &mut Thread, kind: u64, identity: u64, threads: u64) {
    match kind {
        1 => {
            thread.event(EventKind::RegionBegin {
                region: identity,
                threads,
            });
            recorder::region(identity, true);
            recorder::meet();
        }
        2 => {
            thread.event(EventKind::RegionEnd { region: identity });
            recorder::region(identity, false);
            recorder::meet();
        }
        3 => {
            OPENED_BEFORE.set(recorder::opened_barriers());
            thread.event(EventKind::BarrierBegin {});
        }
        4 => {
            recorder::leave_barrier(OPENED_BEFORE.get());
            thread.event(EventKind::BarrierEnd {});
        }
        5 => thread.event(EventKind::WorkBegin { region: identity }),
        6 => thread.event(EventKind::WorkEnd { region: identity }),
        _ => {}
    }
}

pub(crate) extern "C" fn on_syscall_return(_: qemu::Id, vcpu: c_uint, number: i64, result: i64) {
    let creating = CREATING.take();
    let forks = matches!(number, syscall::FORK | syscall::VFORK) || (number == syscall::CLONE && creating.is_none());
    if forks && result == 0 {
        // This is the new process. Its threads' states are copies, but its blocks are in the shared memory.
        recorder::stop();
        for state in &STATES {
            state.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
        return;
    }
    outside_code(vcpu, |thread| {
        if forks && result > 0 {
            recorder::add_to_status(Status::Forks);
        }
        if let Some(Creating {
            parent,
            child: Some(child),
            ..
        }) = creating
            && let Ok(kernel_id @ 1..) = u32::try_from(result)
        {
            thread.event(EventKind::ThreadCreate {
                thread: u64::from(child),
            });
            recorder::append(Ok(Writer::thread(child, kernel_id, parent)));
        }
        if let Some(call) = thread.memory_call.take() {
            mapping::tell_result(thread, call, result);
        }
        if let Some(address) = thread.waits_for.take() {
            thread.event(EventKind::FutexWaitEnd {
                address,
                error: if result < 0 { result.unsigned_abs() } else { 0 },
            });
        }
        if matches!(number, syscall::EXECVE | syscall::EXECVEAT) {
            recorder::set_status(Status::Exec, 0);
        }
    });
}
