//! System calls that change mappings or memory, while the kernel works on them.

use crate::calls::syscall;

/// A system call that changes mappings, until it returns.
#[derive(Clone, Copy)]
pub(crate) enum MemoryCall {
    Map {
        length: u64,
        protection: u64,
        flags: u64,
        descriptor: u64,
        offset: u64,
    },
    Protect {
        address: u64,
        length: u64,
        protection: u64,
    },
    Remap {
        from: u64,
        old_length: u64,
        length: u64,
    },
    Break,
    /// The kernel writes data from a file or socket to this address.
    Read {
        address: u64,
    },
}

impl MemoryCall {
    /// The call with this number. `None` for calls that change neither mappings nor memory.
    pub(crate) fn of(number: i64, arguments: [u64; 6]) -> Option<Self> {
        let [address, length, protection, flags, descriptor, offset] = arguments;
        Some(match number {
            syscall::MMAP => Self::Map {
                length,
                protection,
                flags,
                descriptor,
                offset,
            },
            syscall::MPROTECT | syscall::PKEY_MPROTECT => Self::Protect {
                address,
                length,
                protection,
            },
            syscall::MREMAP => Self::Remap {
                from: address,
                old_length: length,
                length: protection,
            },
            syscall::BRK => Self::Break,
            syscall::READ | syscall::PREAD64 | syscall::RECVFROM => Self::Read { address: length },
            _ => return None,
        })
    }
}
