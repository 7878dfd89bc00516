//! The instructions of x86-64.

use crate::calibrate::core::Loop;
use std::arch::asm;
use std::arch::x86_64::{
    __m128i, _mm_add_epi64, _mm_clflush, _mm_load_si128, _mm_mfence, _mm_set1_epi64x, _mm_store_si128,
};

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
            "add {sum}, {one}",
            ".endr",
            "dec {rounds}",
            "jnz 2b",
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
            "add {p}, {one}", "xor {q}, {one}", "add {r}, {one}", "xor {p}, {one}", "add {q}, {one}", "xor {r}, {one}",
            "dec {rounds}",
            "jnz 2b",
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
            Self::Triad => 6,
            Self::Sum => 5,
            // The branch of the first loop skips an instruction once in eight rounds.
            Self::Branches | Self::Registers => 14,
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
                    "movsd {x}, [{b} + 8*{i}]",
                    "mulsd {x}, {s}",
                    "addsd {x}, [{c} + 8*{i}]",
                    "movsd [{a} + 8*{i}], {x}",
                    "dec {i}",
                    "jnz 2b",
                    "dec {outer}",
                    "mov {i:e}, 511",
                    "cmp {outer}, 0",
                    "jg 2b",
                    a = in(reg) a.as_mut_ptr(), b = in(reg) b.as_ptr(), c = in(reg) c.as_ptr(),
                    x = out(xmm_reg) _, s = in(xmm_reg) 0.5f64,
                    i = inout(reg) 511u64 => _,
                    outer = inout(reg) left / 511 => _,
                    options(nostack)
                ),
                Self::Sum => asm!(
                    "2:",
                    "addsd {x}, [{b} + 8*{i}]",
                    "inc {i:e}",
                    "and {i:e}, 511",
                    "dec {left}",
                    "jnz 2b",
                    b = in(reg) b.as_ptr(), x = inout(xmm_reg) 0.0f64 => _,
                    i = inout(reg) 0u64 => _, left = inout(reg) left => _,
                    options(nostack)
                ),
                Self::Branches => asm!(
                    "2:",
                    "mov {t}, {r}", "shl {t}, 13", "xor {r}, {t}",
                    "mov {t}, {r}", "shr {t}, 7", "xor {r}, {t}",
                    "mov {t}, {r}", "shl {t}, 17", "xor {r}, {t}",
                    "test {r:l}, 7",
                    "jz 3f",
                    "inc {n}",
                    "3:",
                    "dec {left}",
                    "jnz 2b",
                    r = inout(reg) 88_172_645_463_325_252u64 => _, t = out(reg) _, n = inout(reg) 0u64 => _,
                    left = inout(reg) left => _,
                    options(nomem, nostack)
                ),
                Self::Registers => asm!(
                    "2:",
                    ".rept 3",
                    "add {p}, {one}", "xor {q}, {one}", "add {r}, {one}", "xor {s}, {one}",
                    ".endr",
                    "dec {left}",
                    "jnz 2b",
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
pub(in crate::calibrate) type Vector = __m128i;

/// A vector with this word twice.
#[inline]
pub(in crate::calibrate) fn twice(word: u64) -> Vector {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_set1_epi64x(word.cast_signed()) }
}

/// The word-wise sum of two vectors.
#[inline]
pub(in crate::calibrate) fn sum(one: Vector, other: Vector) -> Vector {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_add_epi64(one, other) }
}

/// Loads the vector at an address.
///
/// # Safety
///
/// The address is a multiple of sixteen, and no one writes to it.
#[inline]
pub(in crate::calibrate) unsafe fn load(from: *const Vector) -> Vector {
    // SAFETY: the caller guarantees it.
    unsafe { _mm_load_si128(from) }
}

/// Stores a vector.
///
/// # Safety
///
/// The address is a multiple of sixteen, and only the caller uses the memory.
#[inline]
pub(in crate::calibrate) unsafe fn store(to: *mut Vector, vector: Vector) {
    // SAFETY: the caller guarantees it.
    unsafe { _mm_store_si128(to, vector) }
}

/// Evicts the line at each of these addresses from all caches.
///
/// # Safety
///
/// The addresses are mapped.
pub(in crate::calibrate) unsafe fn evict(addresses: impl Iterator<Item = *mut u8>) {
    for address in addresses {
        // SAFETY: the caller guarantees that the addresses are mapped. The content stays.
        unsafe { _mm_clflush(address) };
    }
    // SAFETY: a fence touches no memory.
    unsafe { _mm_mfence() };
}
