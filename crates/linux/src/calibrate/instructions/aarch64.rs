//! The instructions of aarch64, which includes Advanced SIMD (NEON).

use crate::calibrate::core::Loop;
use pinfold_core::measurement::Processor;
use std::arch::aarch64::{uint64x2_t, vaddq_u64, vdupq_n_u64, vld1q_u64, vst1q_u64};
use std::arch::asm;

/// Additions in a round of `add`.
pub(in crate::calibrate) const ADDITIONS: u64 = 64;

/// Executes this many rounds of additions, each dependent on the previous one.
#[inline]
pub(in crate::calibrate) fn add(mut rounds: u64) {
    // SAFETY: the code changes only declared registers and touches no memory.
    unsafe {
        asm!(
            "2:",
            ".rept 64",
            "add {sum}, {sum}, {one}",
            ".endr",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            sum = inout(reg) 0u64 => _,
            one = in(reg) 1u64,
            rounds = inout(reg) rounds,
            options(nomem, nostack)
        );
    }
    std::hint::black_box(rounds);
}

/// Instructions in a round of `compute_rounds`.
pub(in crate::calibrate) const INSTRUCTIONS_A_ROUND: u32 = 8;

/// Executes this many rounds, at least one, of instructions on registers.
#[inline]
pub(in crate::calibrate) fn compute_rounds(rounds: u64) {
    // SAFETY: the code changes only declared registers and touches no memory.
    unsafe {
        asm!(
            "2:",
            "add {p}, {p}, {one}", "eor {q}, {q}, {one}", "add {r}, {r}, {one}",
            "eor {p}, {p}, {one}", "add {q}, {q}, {one}", "eor {r}, {r}, {one}",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            p = inout(reg) 1u64 => _, q = inout(reg) 2u64 => _, r = inout(reg) 3u64 => _, one = in(reg) 1u64,
            rounds = inout(reg) rounds => _,
            options(nomem, nostack)
        );
    }
}

impl Loop {
    /// The number of instructions of a round.
    pub(in crate::calibrate) fn instructions(self) -> u64 {
        match self {
            Self::Triad | Self::Sum => 6,
            // The branch skips an instruction once in eight rounds.
            Self::Branches => 8,
            Self::Registers => 14,
        }
    }

    /// Executes this many rounds.
    pub(in crate::calibrate) fn go(self, rounds: u64) {
        let mut data = [[1.0f64; 512]; 3];
        let [a, b, c] = &mut data;
        let left = rounds;
        // SAFETY: all four loops touch only the declared registers. The first two also touch elements 0 to 511 of the
        // arrays: the first counts down from 511, the second masks its index.
        unsafe {
            match self {
                Self::Triad => asm!(
                    "2:",
                    "ldr {x:d}, [{b}, {i}, lsl #3]",
                    "ldr {y:d}, [{c}, {i}, lsl #3]",
                    "fmadd {x:d}, {x:d}, {s:d}, {y:d}",
                    "str {x:d}, [{a}, {i}, lsl #3]",
                    "subs {i}, {i}, #1",
                    "b.ne 2b",
                    "subs {outer}, {outer}, #1",
                    "mov {i}, #511",
                    "b.gt 2b",
                    a = in(reg) a.as_mut_ptr(), b = in(reg) b.as_ptr(), c = in(reg) c.as_ptr(),
                    x = out(vreg) _, y = out(vreg) _, s = in(vreg) 0.5f64,
                    i = inout(reg) 511u64 => _,
                    outer = inout(reg) left / 511 => _,
                    options(nostack)
                ),
                Self::Sum => asm!(
                    "2:",
                    "ldr {y:d}, [{b}, {i}, lsl #3]",
                    "fadd {x:d}, {x:d}, {y:d}",
                    "add {i}, {i}, #1",
                    "and {i}, {i}, #511",
                    "subs {left}, {left}, #1",
                    "b.ne 2b",
                    b = in(reg) b.as_ptr(), x = inout(vreg) 0.0f64 => _, y = out(vreg) _,
                    i = inout(reg) 0u64 => _, left = inout(reg) left => _,
                    options(nostack)
                ),
                Self::Branches => asm!(
                    "2:",
                    "eor {r}, {r}, {r}, lsl #13",
                    "eor {r}, {r}, {r}, lsr #7",
                    "eor {r}, {r}, {r}, lsl #17",
                    "tst {r}, #7",
                    "b.eq 3f",
                    "add {n}, {n}, #1",
                    "3:",
                    "subs {left}, {left}, #1",
                    "b.ne 2b",
                    r = inout(reg) 88_172_645_463_325_252u64 => _, n = inout(reg) 0u64 => _,
                    left = inout(reg) left => _,
                    options(nomem, nostack)
                ),
                Self::Registers => asm!(
                    "2:",
                    ".rept 3",
                    "add {p}, {p}, {one}", "eor {q}, {q}, {one}", "add {r}, {r}, {one}", "eor {s}, {s}, {one}",
                    ".endr",
                    "subs {left}, {left}, #1",
                    "b.ne 2b",
                    p = inout(reg) 1u64 => _, q = inout(reg) 2u64 => _, r = inout(reg) 3u64 => _,
                    s = inout(reg) 4u64 => _, one = in(reg) 1u64, left = inout(reg) left => _,
                    options(nomem, nostack)
                ),
            }
        }
        std::hint::black_box(&data);
    }
}

/// Sixteen bytes in a register.
pub(in crate::calibrate) type Vector = uint64x2_t;

/// A vector with this word twice.
#[inline]
pub(in crate::calibrate) fn twice(word: u64) -> Vector {
    // SAFETY: NEON is part of aarch64.
    unsafe { vdupq_n_u64(word) }
}

/// The word-wise sum of two vectors.
#[inline]
pub(in crate::calibrate) fn sum(one: Vector, other: Vector) -> Vector {
    // SAFETY: NEON is part of aarch64.
    unsafe { vaddq_u64(one, other) }
}

/// Loads the vector at an address.
///
/// # Safety
///
/// The address is a multiple of sixteen, and no one writes to it.
#[inline]
pub(in crate::calibrate) unsafe fn load(from: *const Vector) -> Vector {
    // SAFETY: the caller guarantees it.
    unsafe { vld1q_u64(from.cast()) }
}

/// Stores a vector.
///
/// # Safety
///
/// The address is a multiple of sixteen, and only the caller uses the memory.
#[inline]
pub(in crate::calibrate) unsafe fn store(to: *mut Vector, vector: Vector) {
    // SAFETY: the caller guarantees it.
    unsafe { vst1q_u64(to.cast(), vector) };
}

/// Evicts the line at each of these addresses from all caches. (Linux allows the instruction in user space.)
///
/// # Safety
///
/// The addresses are mapped.
pub(in crate::calibrate) unsafe fn evict(addresses: impl Iterator<Item = *mut u8>) {
    for address in addresses {
        // SAFETY: the caller guarantees that the addresses are mapped. The line is written back first, so its content
        // stays.
        unsafe { asm!("dc civac, {}", in(reg) address, options(nostack, preserves_flags)) };
    }
    // SAFETY: a barrier touches no memory.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
}

/// `None`: the processor does not report which caches are inclusive.
pub(in crate::calibrate) fn inclusive(_level: u32) -> Option<bool> {
    None
}

/// `None`: pinfold has latencies only for x86-64 cores, and these numbers identify them.
pub(in crate::calibrate) fn processor() -> Option<Processor> {
    None
}
