//! What each step of a program costs on a model: one row for each way from an access to the next.
//!
//! An event names its row. The first rows are for programs whose code is not known: they are only told apart by the
//! instruction of the access, for prefetchers that follow strides, and use the model's cycles per instruction and the
//! guess of dependences in `core`. The other rows come from the decoded code.

use super::clocks::Clock;
use super::time::{Ticks, cycles, ticks};
use crate::model::{Model, Sourced};
use pinfold_code::{Dependence, Microarchitecture, StepTiming, Steps, Timing};

/// Rows for accesses whose step is unknown; the row is a hash of the instruction, and 0 if unknown, too.
pub(crate) const UNKNOWN: u16 = 256;

/// Wrong predictions are counted in this fraction of one.
pub(crate) const WHOLE: u32 = 1 << 16;

/// Loads that something waits for: up to two, each with the site and the time from its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    number: u8,
    all: [(u16, u32); 2],
}

impl Waits {
    fn new(dependences: &[Dependence]) -> Self {
        let mut waits = Self::default();
        for (place, dependence) in waits.all.iter_mut().zip(dependences) {
            *place = (
                dependence.site,
                u32::try_from(ticks(dependence.cycles)).unwrap_or(u32::MAX),
            );
            waits.number += 1;
        }
        waits
    }

    /// The same at a core's clock.
    fn at(mut self, clock: Clock) -> Self {
        for (_, time) in &mut self.all {
            *time = at(*time, clock);
        }
        self
    }

    /// When the values of all these loads have arrived.
    #[inline]
    pub(crate) fn until(&self, values: &[Ticks]) -> Ticks {
        self.all[..usize::from(self.number)]
            .iter()
            .map(|&(site, time)| values[usize::from(site)] + Ticks::from(time))
            .max()
            .unwrap_or(0)
    }
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepRow {
    /// The time of one instruction, on a core with one running PU, and with more.
    pub(crate) pace: [u32; 2],
    /// The site whose strides prefetchers follow; 0 if unknown.
    pub(crate) stride: u8,
    /// Whether its dependences are known.
    pub(crate) decoded: bool,
    /// The site whose value it loads.
    pub(crate) site: u16,
    /// Its address waits for these.
    pub(crate) address: Waits,
    /// How often a branch before it is predicted wrongly, of `WHOLE`.
    pub(crate) mispredicted: u32,
    /// That branch waits for these.
    pub(crate) condition: Waits,
}

/// All rows of a program on a model.
#[derive(Clone, Debug)]
pub struct StepTable {
    rows: Vec<StepRow>,
    sites: usize,
}

impl StepTable {
    /// The rows of programs without code.
    pub(crate) fn undecoded(model: &Model) -> Self {
        let pace = paces(model);
        let rows = (0..UNKNOWN).map(|hash| StepRow {
            pace,
            stride: u8::try_from(hash).unwrap_or(0),
            decoded: false,
            site: 0,
            address: Waits::default(),
            mispredicted: 0,
            condition: Waits::default(),
        });
        Self {
            rows: rows.collect(),
            sites: 1,
        }
    }

    /// The rows of a program with code. Where the model names no microarchitecture, they are all alike, except for
    /// their strides.
    pub(crate) fn decoded(model: &Model, steps: &Steps) -> Self {
        let mut table = Self::undecoded(model);
        let unknown = table.rows[0];
        let machine = model.core.microarchitecture.as_ref().map(Sourced::value);
        let Some(machine) = machine.and_then(|name| Microarchitecture::builtin(&name.0)) else {
            table.rows.extend(steps.sites_of_steps().map(|site| StepRow {
                stride: stride(site),
                ..unknown
            }));
            return table;
        };
        let latency = model.caches[0].latency.value().cycles(model.frequency());
        let buffers = u64::from(model.core.reorder_buffer.value().0);
        let timing = |machine: &Microarchitecture, buffers: u64| {
            Timing::new(steps, machine, latency, usize::try_from(buffers).unwrap_or(usize::MAX))
        };
        let alone = timing(&machine, buffers);
        let beside = match model.threads_per_core() {
            1 => alone.clone(),
            threads => timing(&machine.shared(threads), model.entries_beside_others(buffers)),
        };
        table.sites = alone.sites + 1;
        let both = alone.steps.iter().zip(&beside.steps);
        table
            .rows
            .extend(both.map(|(alone, beside)| row(alone, beside, unknown.pace)));
        table
    }

    /// The same at a core's clock.
    pub(crate) fn at(&self, clock: Clock) -> Self {
        let rows = self.rows.iter().map(|row| StepRow {
            pace: row.pace.map(|pace| at(pace, clock)),
            address: row.address.at(clock),
            condition: row.condition.at(clock),
            ..*row
        });
        Self {
            rows: rows.collect(),
            sites: self.sites,
        }
    }

    #[inline]
    pub(crate) fn row(&self, step: u16) -> &StepRow {
        self.rows.get(usize::from(step)).unwrap_or(&self.rows[0])
    }

    /// The number of sites whose values are awaited.
    pub(crate) fn sites(&self) -> usize {
        self.sites
    }
}

/// The time of an instruction of unknown code, alone on its core and with others.
fn paces(model: &Model) -> [u32; 2] {
    let pace = model.core.base_cpi.value().0;
    let throughput = model.core.smt_throughput.as_ref();
    let together = throughput.map_or(1.0, |throughput| model.threads_per_core() as f64 / throughput.value().0);
    [pace, pace * together].map(whole)
}

/// The time at a core's clock of what takes `time` at the base clock.
fn at(time: u32, clock: Clock) -> u32 {
    u32::try_from(clock.time(cycles(Ticks::from(time)))).unwrap_or(u32::MAX)
}

fn whole(cycles: f64) -> u32 {
    u32::try_from(ticks(cycles)).unwrap_or(u32::MAX)
}

/// The row of a step: what it costs alone on the core, and beside other threads.
fn row(step: &StepTiming, beside: &StepTiming, unknown: [u32; 2]) -> StepRow {
    let pace = step.cycles.zip(beside.cycles);
    let pace = pace.map_or(unknown, |(alone, beside)| [alone, beside].map(whole));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of WHOLE"
    )]
    let mispredicted = (step.mispredicted * f64::from(WHOLE)) as u32;
    StepRow {
        pace,
        stride: stride(step.site),
        decoded: step.cycles.is_some(),
        site: step.site + 1,
        address: shifted(&step.address),
        mispredicted: if step.condition.is_empty() { 0 } else { mispredicted },
        condition: shifted(&step.condition),
    }
}

/// Where the strides of a site are kept. Neighbouring sites are in one loop, and have different numbers.
fn stride(site: u16) -> u8 {
    u8::try_from(site % (UNKNOWN - 1) + 1).unwrap_or(0)
}

/// Site 0 stands for accesses without a known site.
fn shifted(dependences: &[Dependence]) -> Waits {
    let shifted: Vec<Dependence> = dependences
        .iter()
        .map(|dependence| Dependence {
            site: dependence.site + 1,
            ..*dependence
        })
        .collect();
    Waits::new(&shifted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LINE_BYTES, builtin};
    use crate::window::{
        Batch, Event, Options, PageMapping, Prefetchers, Recorded, Stream, WindowConfiguration, simulate,
    };
    use pinfold_code::{Code, Cursor, Learner};
    use pinfold_core::random::Random;
    use pinfold_core::{Pinning, PuId};
    use std::sync::Arc;

    /// A thread that repeats a loop, whose code is known or not.
    struct Loop {
        events: Recorded,
        steps: Option<Arc<Steps>>,
    }

    impl Stream for Loop {
        fn next_batch(&mut self, batch: &mut Batch) -> bool {
            self.events.next_batch(batch)
        }

        fn steps(&self, model: &Model) -> Option<Arc<StepTable>> {
            let steps = self.steps.as_ref()?;
            Some(Arc::new(StepTable::decoded(model, steps)))
        }
    }

    /// The address of the access of this number in this iteration.
    type Addresses = dyn Fn(u64, usize) -> u64;

    /// Cycles of an iteration of a loop that begins at 0x1000. Each access has its instruction, and the instructions
    /// since its predecessor.
    fn cycles(model: &Model, code: &[u8], accesses: &[(u64, u32)], address: &Addresses, decoded: bool) -> f64 {
        const TIMES: u64 = 20_000;
        let mut learner = Learner::new(Code::new([(0x1000, code)]));
        let mut cursor = Cursor::default();
        let each = || (0..TIMES).flat_map(|time| accesses.iter().enumerate().map(move |access| (time, access)));
        for (time, (number, &(pc, instructions))) in each() {
            learner.access(&mut cursor, pc, false, instructions, address(time, number));
        }
        let steps = Arc::new(learner.finish());
        let mut cursor = Cursor::default();
        let events = each().map(|(time, (number, &(pc, instructions)))| {
            let step = steps.step(&mut cursor, pc, false, instructions).unwrap();
            Event {
                step: if decoded {
                    step + UNKNOWN
                } else {
                    u16::try_from(number).unwrap() + 1
                },
                ..Event::read(address(time, number), 8, instructions)
            }
        });
        let stream = Loop {
            events: Recorded::new(events.collect()),
            steps: decoded.then(|| Arc::clone(&steps)),
        };
        let configuration = WindowConfiguration {
            pinning: Pinning::new(vec![PuId(0)]).unwrap(),
            pages: PageMapping::FirstTouch,
            prefetchers: Prefetchers::ALL,
        };
        let result = simulate(model, &configuration, None, vec![Box::new(stream)], &Options::default()).unwrap();
        result.total().busy_cycles / TIMES as f64
    }

    /// Random lines of 64 MiB.
    fn random(time: u64) -> u64 {
        (1 << 32) + Random::new(time + 1).next_bits() % (1 << 20) * LINE_BYTES
    }

    /// 1000: mov rax, [rsi + rdx * 8]; 1004: addsd xmm0, [rdi + rax * 8]; 1009: inc rdx; 100c: jmp 1000
    const GATHER: &[u8] = &[
        0x48, 0x8b, 0x04, 0xd6, 0xf2, 0x0f, 0x58, 0x04, 0xc7, 0x48, 0xff, 0xc2, 0xeb, 0xf2,
    ];
    /// 1000: mov rax, [rax]; 1003: add rbx, [rax + 8]; 1007: jmp 1000
    const CHASE: &[u8] = &[0x48, 0x8b, 0x00, 0x48, 0x03, 0x58, 0x08, 0xeb, 0xf7];

    #[test]
    fn a_gather_overlaps_its_misses_and_a_chase_does_not() {
        let model = builtin("platinum-8168x2").unwrap();
        let gather = |time, number| if number == 0 { 8 * time } else { random(time) };
        let gathered = cycles(&model, GATHER, &[(0x1000, 3), (0x1004, 1)], &gather, true);
        let chase = |time, number| random(time) + 8 * number as u64;
        let chased = cycles(&model, CHASE, &[(0x1000, 2), (0x1003, 1)], &chase, true);
        let memory = model.memory.latency.value().cycles(model.frequency());
        assert!(chased > memory, "{chased} {memory}");
        assert!(gathered < chased / 5.0, "{gathered} {chased}");
    }

    /// A machine without turbo: cores run at the base clock.
    fn at_base_clock() -> Model {
        let mut model = builtin("platinum-8168x2").unwrap();
        model.core.turbo = None;
        model
    }

    #[test]
    fn hits_take_the_time_of_the_chain_through_registers() {
        let model = at_base_clock();
        let near = |time, number: usize| 8 * (time % 64) + 4096 * number as u64;
        let accesses = [(0x1000, 3), (0x1004, 1)];
        let decoded = cycles(&model, GATHER, &accesses, &near, true);
        // One floating-point addition after the other.
        assert!((decoded - 4.0).abs() < 0.4, "{decoded}");
        let undecoded = cycles(&model, GATHER, &accesses, &near, false);
        assert!(undecoded < 2.0, "{undecoded}");
    }

    #[test]
    fn the_second_word_of_a_missing_line_waits_for_it() {
        // As the chase, but the next pointer is the second word: 1000: mov rbx, [rax]; 1003: mov rax, [rax + 8]; jmp
        let code = [0x48, 0x8b, 0x18, 0x48, 0x8b, 0x40, 0x08, 0xeb, 0xf7];
        let model = builtin("platinum-8168x2").unwrap();
        let chase = |time, number| random(time) + 8 * number as u64;
        let chased = cycles(&model, &code, &[(0x1000, 2), (0x1003, 1)], &chase, true);
        assert!(
            chased > model.memory.latency.value().cycles(model.frequency()),
            "{chased}"
        );
    }

    #[test]
    fn a_model_without_a_microarchitecture_uses_its_cycles_per_instruction() {
        let mut model = at_base_clock();
        model.core.microarchitecture = None;
        let near = |time, number: usize| 8 * (time % 64) + 4096 * number as u64;
        let found = cycles(&model, GATHER, &[(0x1000, 3), (0x1004, 1)], &near, true);
        assert!((found - 4.0 * model.core.base_cpi.value().0).abs() < 0.1, "{found}");
    }
}
