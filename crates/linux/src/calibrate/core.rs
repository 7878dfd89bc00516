//! The core: its clock, and its speed for instructions whose data are in the L1.

use super::runs::{Effort, seconds};
use pinfold_core::measurement::Measured;
use std::arch::asm;

/// Rounds of a run: some ten microseconds.
const ROUNDS: u64 = 2048;

/// The clock, in hertz: dependent additions of registers take a cycle each on every x86-64 core. The time stamp counter
/// has another frequency.
pub(super) fn frequency(effort: Effort) -> Measured {
    const ADDITIONS: u64 = 64;
    let run = || {
        seconds(|| {
            let mut rounds = ROUNDS;
            // SAFETY: only registers that are declared are changed; no memory is touched.
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
        })
    };
    effort.least(run).rate((ADDITIONS * ROUNDS) as f64)
}

/// Loops whose instructions are counted and whose data are in the L1, like those of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    /// a[i] = s x b[i] + c[i]: the steps are independent.
    Triad,
    /// A sum of floating-point numbers: each step depends on the one before.
    Sum,
    /// A random number generator (xorshift) with a branch on its bits that is not predictable and taken in one of eight
    /// steps.
    Branches,
    /// Integer work on registers, four independent operations at a time.
    Registers,
}

impl Loop {
    pub(super) const ALL: [Self; 4] = [Self::Triad, Self::Sum, Self::Branches, Self::Registers];

    /// Instructions of a round.
    fn instructions(self) -> u64 {
        match self {
            Self::Triad => 6,
            Self::Sum => 5,
            // In the first loop, the instruction that the branch skips is skipped once in eight rounds.
            Self::Branches | Self::Registers => 14,
        }
    }

    /// Makes this many rounds.
    fn go(self, rounds: u64) {
        let mut data = [[1.0f64; 512]; 3];
        let [a, b, c] = &mut data;
        let left = rounds;
        // SAFETY: all four loops touch only the declared registers and, the first two, elements 0 to 511 of the arrays: the
        // first counts down from 511, the second masks its index.
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

    /// The seconds of a run.
    pub(super) fn run(self) -> f64 {
        seconds(|| self.go(ROUNDS * 4))
    }

    /// Seconds per instruction.
    pub(super) fn seconds_an_instruction(self, effort: Effort) -> Measured {
        effort
            .least(|| self.run())
            .scaled(1.0 / (ROUNDS * 4 * self.instructions()) as f64)
    }
}
