//! The cycles of each step, and the loads that its access waits for.
//!
//! The sample of a program is executed on a core whose accesses all hit the L1 cache. A step's cycles are the mean time
//! from the retirement of the previous access to the retirement of its own access. They include the width and the ports
//! of the core, chains of results from one iteration to the next, and mispredicted branches. A simulation adds the cost
//! of misses.

use crate::core::{Core, Memory, Origins};
use crate::instruction::{Decoded, Flow};
use crate::microarchitecture::Microarchitecture;
use crate::steps::{Step, Steps};
use std::collections::BTreeMap;

/// The most loads that an access waits for.
pub(crate) const MOST_DEPENDENCES: usize = 2;
/// A load counts if the access waits for it in at least this share of its executions.
const OFTEN: f64 = 0.5;
/// If mispredictions are rarer than this, the branch does not wait for loads.
const RARE: f64 = 0.002;

/// A load that an access or a branch waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dependence {
    /// The load's site.
    pub site: u16,
    /// Cycles of arithmetic between the load and the access or branch.
    pub cycles: f64,
}

/// The cost of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepTiming {
    /// The site of its access.
    pub site: u16,
    /// Cycles per instruction. `None` if the step's instructions are not known.
    pub cycles: Option<f64>,
    /// The loads that the address of its access depends on.
    pub address: Vec<Dependence>,
    /// The share of its executions with a mispredicted branch.
    pub mispredicted: f64,
    /// The loads that this branch waits for.
    pub condition: Vec<Dependence>,
}

/// The costs of all steps of a program on one core.
#[derive(Clone)]
pub struct Timing {
    /// The steps, indexed by number.
    pub steps: Vec<StepTiming>,
    /// The number of sites.
    pub sites: usize,
}

/// The counts of one step in the sample.
#[derive(Default)]
struct Seen {
    times: u64,
    /// Executions whose time is known.
    timed: u64,
    cycles: f64,
    address: Waits,
    mispredicted: u64,
    condition: Waits,
}

/// For each site: the number of waits, and the sum of the cycles since the load.
#[derive(Default)]
struct Waits(BTreeMap<u16, (u64, f64)>);

impl Waits {
    fn add(&mut self, origins: &Origins) {
        for origin in origins.iter() {
            let (times, cycles) = self.0.entry(origin.site).or_default();
            *times += 1;
            *cycles += origin.cycles;
        }
    }

    /// The loads that most of `times` executions waited for.
    fn often(&self, times: u64) -> Vec<Dependence> {
        let mut all: Vec<(u64, Dependence)> = self
            .0
            .iter()
            .filter(|(_, (seen, _))| *seen as f64 >= OFTEN * times as f64)
            .map(|(&site, &(seen, cycles))| {
                let cycles = cycles / seen as f64;
                (seen, Dependence { site, cycles })
            })
            .collect();
        all.sort_by_key(|&(seen, _)| std::cmp::Reverse(seen));
        all.truncate(MOST_DEPENDENCES);
        all.into_iter().map(|(_, dependence)| dependence).collect()
    }
}

impl Timing {
    /// Executes the sample of `steps` on `machine` with an L1 cache of this latency in cycles.
    pub fn new(steps: &Steps, machine: &Microarchitecture, load_latency: f64, reorder_buffer: usize) -> Self {
        let mut core = Core::new(machine, load_latency, reorder_buffer);
        let mut seen: Vec<Seen> = steps.all.iter().map(|_| Seen::default()).collect();
        let mut before = 0.0;
        let mut known_before = false;
        for sampled in &steps.sample {
            let step = &steps.all[usize::from(sampled.step)];
            let found = &mut seen[usize::from(sampled.step)];
            found.times += 1;
            let Some(way) = &step.way else {
                known_before = false;
                continue;
            };
            execute(steps, step, way, sampled.address, &mut core, found);
            if known_before && !sampled.first {
                found.timed += 1;
                found.cycles += core.time() - before;
            }
            before = core.time();
            known_before = true;
        }
        let timings = steps.all.iter().zip(&seen);
        Self {
            steps: timings.map(|(step, seen)| timing(step, seen)).collect(),
            sites: steps.sites(),
        }
    }
}

/// Executes the instructions of a step.
fn execute(steps: &Steps, step: &Step, way: &[u32], address: u64, core: &mut Core<'_>, seen: &mut Seen) {
    if way.is_empty() {
        if step.write {
            core.also_stores(address);
        }
        return;
    }
    let instruction = |index: u32| &steps.code.instructions[index as usize];
    let mut mispredicted = None;
    for (place, &index) in way.iter().enumerate() {
        let decoded = instruction(index);
        let memory = (place + 1 == way.len()).then_some(Memory {
            site: step.site,
            address,
        });
        let next = way.get(place + 1).map(|&next| instruction(next));
        let executed = core.execute(decoded, taken(decoded, next), memory);
        mispredicted = executed.mispredicted.or(mispredicted);
        if memory.is_some() {
            seen.address.add(&executed.address);
        }
    }
    if let Some(origins) = mispredicted {
        seen.mispredicted += 1;
        seen.condition.add(&origins);
    }
}

/// Whether a conditional branch is taken. `None` for other instructions, and for the last one.
fn taken(branch: &Decoded, next: Option<&Decoded>) -> Option<bool> {
    match (branch.flow, next) {
        (Flow::Condition(target), Some(next)) => Some(next.address == target),
        _ => None,
    }
}

fn timing(step: &Step, seen: &Seen) -> StepTiming {
    let mispredicted = seen.mispredicted as f64 / seen.times.max(1) as f64;
    let instructions = f64::from(step.instructions.max(1));
    let executed = step.way.as_ref().map_or(0.0, |way| way.len() as f64);
    // Only a part of a long path was executed.
    let whole = if executed > 0.0 { instructions / executed } else { 1.0 };
    StepTiming {
        site: step.site,
        cycles: (seen.timed > 0).then(|| whole * seen.cycles / seen.timed as f64 / instructions),
        address: if step.write {
            vec![]
        } else {
            seen.address.often(seen.times)
        },
        mispredicted,
        condition: if mispredicted < RARE {
            vec![]
        } else {
            seen.condition.often(seen.mispredicted)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, Cursor, Learner};

    /// Timing of a loop on Skylake; `accesses` are the instruction, whether it stores, and the instructions before.
    fn timing(bytes: &[u8], accesses: &[(u64, bool, u32)], address: impl Fn(u64) -> u64) -> Timing {
        timed(
            &Microarchitecture::builtin("skylake_sp").unwrap(),
            bytes,
            accesses,
            address,
        )
    }

    /// The same on `machine`.
    fn timed(
        machine: &Microarchitecture,
        bytes: &[u8],
        accesses: &[(u64, bool, u32)],
        address: impl Fn(u64) -> u64,
    ) -> Timing {
        let mut learner = Learner::new(Code::new([(0x1000, bytes)]));
        let mut cursor = Cursor::default();
        for time in 0..5000 {
            for &(pc, write, instructions) in accesses {
                learner.access(&mut cursor, pc, write, instructions, address(time));
            }
        }
        Timing::new(&learner.finish(), machine, 4.0, 224)
    }

    /// The last step is in the steady state.
    fn last(timing: &Timing) -> &StepTiming {
        timing.steps.last().unwrap()
    }

    #[test]
    fn a_pointer_chase_waits_for_itself() {
        // 1000: mov rax, [rax]; 1003: jmp 1000
        let found = timing(&[0x48, 0x8b, 0x00, 0xeb, 0xfb], &[(0x1000, false, 2)], |time| {
            0x9000 + 4096 * time
        });
        let step = last(&found);
        assert_eq!(step.address, [Dependence { site: 0, cycles: 0.0 }]);
        assert!((step.cycles.unwrap() - 2.0).abs() < 0.1, "{step:?}");
    }

    #[test]
    fn each_load_of_a_chain_waits_for_the_one_before() {
        // 1000: mov rax, [rax]; 1003: mov rax, [rax + 8]; 1007: dec rdx; 100a: jne 1000
        let bytes = [0x48, 0x8b, 0x00, 0x48, 0x8b, 0x40, 0x08, 0x48, 0xff, 0xca, 0x75, 0xf4];
        let found = timing(&bytes, &[(0x1000, false, 3), (0x1003, false, 1)], |time| {
            0x9000 + 4096 * time
        });
        let second = found.steps.iter().find(|step| step.site == 1).unwrap();
        assert_eq!(second.address, [Dependence { site: 0, cycles: 0.0 }]);
        assert_eq!(last(&found).address, [Dependence { site: 1, cycles: 0.0 }]);
        assert!((second.cycles.unwrap() - 4.0).abs() < 0.2, "{second:?}");
        assert!(
            (last(&found).cycles.unwrap() - 4.0 / 3.0).abs() < 0.1,
            "{:?}",
            last(&found)
        );
    }

    #[test]
    fn a_gather_waits_for_its_index_and_the_index_for_nothing() {
        // 1000: mov rax, [rsi + rdx * 8]; 1004: addsd xmm0, [rdi + rax * 8]; 1009: inc rdx; 100c: jmp 1000
        let bytes = [
            0x48, 0x8b, 0x04, 0xd6, 0xf2, 0x0f, 0x58, 0x04, 0xc7, 0x48, 0xff, 0xc2, 0xeb, 0xf2,
        ];
        let found = timing(&bytes, &[(0x1000, false, 3), (0x1004, false, 1)], |time| {
            0x9000 + 8 * time
        });
        let gather = found.steps.iter().find(|step| step.site == 1).unwrap();
        assert_eq!(gather.address, [Dependence { site: 0, cycles: 0.0 }]);
        assert_eq!(last(&found).address, []);
        // The additions are a chain of four cycles each.
        let all: f64 = found.steps[1..].iter().map(|step| step.cycles.unwrap()).sum();
        assert!(
            (gather.cycles.unwrap() + 3.0 * last(&found).cycles.unwrap() - 4.0).abs() < 0.2,
            "{all}"
        );
    }

    #[test]
    fn two_threads_on_a_core_do_at_least_as_much_as_one_and_at_most_twice_as_much() {
        // All time of a step may be that of one instruction, and all work that of others.
        let chase: &[u8] = &[0x48, 0x8b, 0x00, 0xeb, 0xfb];
        // 1000: addpd xmm0..xmm3, [rsi + 16 * n]; 1013: divsd xmm8, xmm9; 1018: jmp 1000
        let mixed: &[u8] = &[
            0x66, 0x0f, 0x58, 0x06, 0x66, 0x0f, 0x58, 0x4e, 0x10, 0x66, 0x0f, 0x58, 0x56, 0x20, 0x66, 0x0f, 0x58, 0x5e,
            0x30, 0xf2, 0x45, 0x0f, 0x5e, 0xc1, 0xeb, 0xe6,
        ];
        // 1000: mov rax, [rsi]; 1003 to 100f: inc of rcx, rdx, rdi, rbx; 100f: jmp 1000
        let wide: &[u8] = &[
            0x48, 0x8b, 0x06, 0x48, 0xff, 0xc1, 0x48, 0xff, 0xc2, 0x48, 0xff, 0xc7, 0x48, 0xff, 0xc3, 0xeb, 0xef,
        ];
        for (what, bytes, accesses, gain) in [
            ("dependent loads", chase, &[(0x1000, false, 2)][..], 1.9..2.01),
            (
                "additions and divisions",
                mixed,
                &[
                    (0x1000, false, 3),
                    (0x1004, false, 1),
                    (0x1009, false, 1),
                    (0x100e, false, 1),
                ],
                1.0..2.01,
            ),
            (
                "as many operations as the core is wide",
                wide,
                &[(0x1000, false, 6)],
                0.99..1.1,
            ),
        ] {
            let cycles = |machine: &Microarchitecture| {
                let found = timed(machine, bytes, accesses, |time| 0x9000 + 64 * (time % 64));
                let steady = &found.steps[found.steps.len() - accesses.len()..];
                let instructions = accesses.iter().map(|&(_, _, instructions)| f64::from(instructions));
                let each = steady.iter().zip(instructions);
                each.map(|(step, instructions)| step.cycles.unwrap() * instructions)
                    .sum::<f64>()
            };
            let machine = Microarchitecture::builtin("skylake_sp").unwrap();
            let found = 2.0 * cycles(&machine) / cycles(&machine.shared(2));
            assert!(gain.contains(&found), "{what}: {found}");
        }
    }

    #[test]
    fn a_generator_of_random_numbers_waits_for_no_load() {
        // 1000: imul rax, rax, 3; 1004: mov rcx, [rdi + rax]; 1008: jmp 1000
        let bytes = [0x48, 0x6b, 0xc0, 0x03, 0x48, 0x8b, 0x0c, 0x07, 0xeb, 0xf6];
        let found = timing(&bytes, &[(0x1004, false, 3)], |time| 0x9000 + 4096 * time);
        assert_eq!(last(&found).address, []);
        assert!((last(&found).cycles.unwrap() - 1.0).abs() < 0.05);
    }
}
