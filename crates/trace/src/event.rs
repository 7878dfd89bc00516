//! Events that order threads, or change the address space.

use crate::bytes;

/// The parent of a program's first thread.
pub const NO_PARENT: u32 = u32::MAX;

/// An event other than a data access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Position in the order of all events of all threads.
    pub sequence: u64,
    /// Instructions that the thread started since its last access or event.
    pub instructions: u64,
    /// The event.
    pub kind: EventKind,
}

macro_rules! event_kinds {
    ($($(#[$documentation:meta])* $name:ident = $code:literal { $($(#[$field_documentation:meta])* $field:ident),* })*) => {
        /// The kinds of events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventKind {
            $($(#[$documentation])* $name { $($(#[$field_documentation])* $field: u64),* },)*
        }

        impl EventKind {
            /// The number of this kind in a recording.
            pub(crate) fn code(&self) -> u8 {
                match self { $(Self::$name { .. } => $code,)* }
            }

            pub(crate) fn put(&self, bytes: &mut [u8], at: usize) -> usize {
                let mut at = at;
                match *self { $(Self::$name { $($field),* } => { $(at = bytes::put(bytes, at, $field);)* })* }
                at
            }

            pub(crate) fn get(code: u8, bytes: &[u8], at: &mut usize) -> Option<Self> {
                Some(match code {
                    $($code => Self::$name { $($field: bytes::get(bytes, at)?),* },)*
                    _ => return None,
                })
            }
        }

        #[cfg(test)]
        pub(crate) fn every_kind() -> Vec<EventKind> {
            vec![$(EventKind::$name { $($field: u64::MAX),* }),*]
        }
    };
}

event_kinds! {
    /// The thread starts. Its parent's `ThreadCreate` comes after this in the order of events.
    ThreadBegin = 1 {
        /// The number of the creating thread in the recording; `NO_PARENT` for the first thread.
        parent
    }
    /// The thread ends.
    ThreadEnd = 2 {
        /// The word that the kernel sets to 0 when the thread has ended, before it wakes the waiters. 0 if there is
        /// none.
        futex
    }
    /// The thread has created another.
    ThreadCreate = 3 {
        /// The number of the new thread in the recording.
        thread
    }
    /// The thread waits for a futex.
    FutexWait = 4 {
        /// The futex word.
        address
    }
    /// The wait is over.
    FutexWaitEnd = 5 {
        /// The futex word.
        address,
        /// 0 if the thread was woken, otherwise the error number: it did not wait at all (EAGAIN, 11), its time limit
        /// ended (ETIMEDOUT, 110), or a signal came (EINTR, 4).
        error
    }
    /// The thread is about to wake threads that wait for a futex.
    FutexWake = 6 {
        /// The futex word.
        address,
        /// The largest number of threads to wake.
        limit
    }
    /// A parallel region starts, in the encountering thread.
    RegionBegin = 7 {
        /// The region: the address of its outlined function, or of the call.
        region,
        /// The requested number of threads. 0 if the runtime chooses.
        threads
    }
    /// A parallel region has ended, in the encountering thread.
    RegionEnd = 8 {
        /// The region.
        region
    }
    /// The thread has reached a barrier of its team.
    BarrierBegin = 9 {}
    /// The thread has left a barrier of its team.
    BarrierEnd = 10 {}
    /// Accesses are recorded from here on.
    WindowBegin = 11 {}
    /// Accesses are not recorded from here on. Instructions and events are.
    WindowEnd = 12 {}
    /// Pages are unmapped: memory that appears at these addresses later is new. In recordings of version 2 they may
    /// still be mapped.
    Unmap = 13 {
        /// The first byte.
        address,
        /// Bytes.
        length
    }
    /// Instructions only, more than an access can encode.
    Compute = 14 {}
    /// The thread starts its share of a parallel region.
    WorkBegin = 15 {
        /// The region.
        region
    }
    /// The thread has ended its share of a parallel region.
    WorkEnd = 16 {
        /// The region.
        region
    }
    /// Pages are discarded and stay mapped: they are new when they are touched again.
    Discard = 17 {
        /// The first byte.
        address,
        /// Bytes.
        length
    }
    /// A mapping, which replaces earlier ones at these addresses.
    Map = 18 {
        /// The first byte.
        address,
        /// Bytes.
        length,
        /// The permissions: 1 read, 2 write, 4 execute.
        protection,
        /// The backing: a [`Backing`](crate::Backing) by its number.
        backing,
        /// The offset in the file, in bytes. 0 without a file.
        offset
    }
    /// The permissions of pages change.
    Protect = 19 {
        /// The first byte.
        address,
        /// Bytes.
        length,
        /// The permissions.
        protection
    }
    /// A mapping moves, or becomes longer or shorter (`mremap`).
    Remap = 20 {
        /// Its first byte before the change.
        from,
        /// Its length in bytes before the change.
        old_length,
        /// Its first byte after the change.
        address,
        /// Its length in bytes after the change.
        length
    }
    /// The end of the heap (`brk`). The first such event is also the heap's start.
    Break = 21 {
        /// The byte after the heap's last one.
        address
    }
    /// The location of the first thread's stack.
    Stack = 22 {
        /// A byte in it.
        address
    }
    /// The thread was the first to touch these pages since they were mapped or discarded, and the touch was not
    /// recorded as an access: it happened outside windows, or in a system call that fills memory.
    FirstTouch = 23 {
        /// The first byte of the first page.
        address,
        /// Bytes: whole pages.
        length,
        /// The number of events of all threads before the first touch of the first page.
        since
    }
}

impl Event {
    /// The most bytes of an event: its code, the instructions, the position, and five values.
    pub(crate) const LONGEST: usize = 1 + 7 * bytes::LONGEST;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_and_has_room() {
        for kind in every_kind() {
            let mut buffer = [0; Event::LONGEST - 1 - 2 * bytes::LONGEST];
            let end = kind.put(&mut buffer, 0);
            let mut at = 0;
            assert_eq!(EventKind::get(kind.code(), &buffer[..end], &mut at), Some(kind));
            assert_eq!(at, end);
        }
    }
}
