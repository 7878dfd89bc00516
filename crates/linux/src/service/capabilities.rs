//! Drops privileges: a daemon that reads counters and sets masks needs two of root's capabilities, and a third one to
//! move pages.
//!
//! The user stays the same, so that root's files remain readable and `pinfold reset` finds the journal. This process
//! and its children cannot get the dropped privileges back.

use pinfold_core::digits;
use std::io;

/// `CAP_SYS_PTRACE`: to see processes of other users if /proc is mounted with `hidepid`, and to move their pages.
const SYS_PTRACE: u32 = 19;
/// `CAP_SYS_ADMIN`: replaces `CAP_PERFMON` before Linux 5.8.
const SYS_ADMIN: u32 = 21;
/// `CAP_SYS_NICE`: to set the masks of other users' tasks.
const SYS_NICE: u32 = 23;
/// `CAP_PERFMON`: to count other users' tasks.
const PERFMON: u32 = 38;

/// Why a privilege cannot be dropped.
#[derive(Debug, thiserror::Error)]
#[error("privileges cannot be dropped ({what}): {error}")]
pub struct CapabilityError {
    what: &'static str,
    error: io::Error,
}

/// The structures of capset(2), version 3: linux/capability.h.
#[repr(C)]
struct Header {
    version: u32,
    process: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

/// Drops all capabilities except for the needed ones, and the ability to gain any by executing a program. Returns the
/// names of the remaining ones. `reads_others` is true if the memory of other users' processes is read, or if /proc
/// hides them.
pub fn keep_only_what_is_needed(reads_others: bool) -> Result<Vec<&'static str>, CapabilityError> {
    let failed = |what| {
        move || CapabilityError {
            what,
            error: io::Error::last_os_error(),
        }
    };
    let mut header = Header {
        version: VERSION_3,
        process: 0,
    };
    let mut data = [Data::default(); 2];
    // SAFETY: the kernel fills two structures of this version.
    if unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) } != 0 {
        return Err(failed("capget")());
    }
    let has = |capability: u32| data[(capability / 32) as usize].permitted >> (capability % 32) & 1 == 1;
    let mut wanted = vec![(SYS_NICE, "CAP_SYS_NICE")];
    if highest() >= PERFMON {
        wanted.push((PERFMON, "CAP_PERFMON"));
    } else {
        wanted.push((SYS_ADMIN, "CAP_SYS_ADMIN"));
    }
    if reads_others {
        wanted.push((SYS_PTRACE, "CAP_SYS_PTRACE"));
    }
    wanted.retain(|&(capability, _)| has(capability));
    // SAFETY: the arguments are plain numbers, here and below.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(failed("no_new_privs")());
        }
        for capability in 0..=highest() {
            if !wanted.iter().any(|&(wanted, _)| wanted == capability) {
                // Without CAP_SETPCAP this is not permitted. It is not necessary either, because `no_new_privs` is set.
                libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0);
            }
        }
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    }
    let mut kept = [Data::default(); 2];
    for &(capability, _) in &wanted {
        let word = &mut kept[(capability / 32) as usize];
        word.effective |= 1 << (capability % 32);
        word.permitted |= 1 << (capability % 32);
    }
    // SAFETY: the kernel reads two structures of this version.
    if unsafe { libc::syscall(libc::SYS_capset, &raw mut header, kept.as_ptr()) } != 0 {
        return Err(failed("capset")());
    }
    Ok(wanted.into_iter().map(|(_, name)| name).collect())
}

/// The highest capability that this kernel knows.
fn highest() -> u32 {
    let text = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap");
    text.ok().and_then(|text| digits::decimal(text.trim())).unwrap_or(40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_left() {
        // A separate thread is needed, because capabilities belong to a thread.
        let status = std::thread::spawn(|| {
            keep_only_what_is_needed(false).unwrap();
            std::fs::read_to_string("/proc/thread-self/status").unwrap()
        })
        .join()
        .unwrap();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        let allowed = 1 << SYS_NICE | 1 << PERFMON | 1 << SYS_ADMIN;
        for name in ["CapPrm:", "CapEff:"] {
            let left = u64::from_str_radix(field(name), 16).unwrap();
            assert_eq!(left & !allowed, 0, "{name} {left:x}");
        }
        assert_eq!(field("NoNewPrivs:"), "1");
    }
}
