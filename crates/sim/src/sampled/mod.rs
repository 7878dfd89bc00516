//! Sampled simulation: a program in one configuration, from detailed simulations of a few pieces of it.
//!
//! 1. The program is read once in an order that does not depend on a machine (`logical`), and cut if its threads meet,
//!    and long phases at the same point of the execution in all threads (`scan`, `pieces`). `BarrierPoint` cuts at
//!    barriers (Carlson et al., ISPASS 2014). In a piece of a long phase, each thread is ahead of this point by a random
//!    part of the execution.
//! 2. Pieces that do the same form strata, and some of each are taken (`strata`).
//! 3. A second reading captures the events of these pieces, and who touched each line last before each (`capture`,
//!    `history`). Both readings serve all configurations.
//! 4. For a configuration, each piece is simulated from the caches, translations and pages that the program would have
//!    left. The time of the whole program and all counts are estimated, with the interval of the time (`estimate`).
//!    The caches and translations before a piece serve all configurations of a placement (`states`).
//! 5. More pieces of the most uncertain strata are simulated until the interval is narrow, or no pieces are left.
//!
//! Known limits: the history orders touches by instructions, not by the time of the simulated machine. A piece begins
//! with idle memory and links, and with all threads at the same time. Threads that share a PU need long time slices and
//! are not sampled.

mod capture;
mod estimate;
mod history;
mod logical;
mod phases;
mod pieces;
mod scan;
mod states;
mod statistics;
mod strata;
#[cfg(test)]
mod tests;

use crate::model::{Model, Prefetcher};
use crate::program::SimulatedProgram;
use crate::recorded::ProgramCode;
use crate::window::{
    Batch, Event, Mapping, Options, PageMapping, PageProfile, RegionTotals, Running, StepTable, Stream, UNPLACED,
    WindowConfiguration, WindowError, simulate_piece,
};
use capture::{Captured, Wanted, capture};
use estimate::{Pieces, Simulated, estimate, times_of_strata};
use history::History;
use pieces::{Piece, cut};
use pinfold_core::random::Random;
use scan::{Atom, scan};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use strata::{Stratum, strata};

pub use states::PieceStates;

pub(crate) use crate::window::{BLOCK_PAGE_SHIFT, BLOCK_SHIFT};

/// Bits of a line's number within its page.
const PAGE_SHIFT: u32 = BLOCK_SHIFT - BLOCK_PAGE_SHIFT;

/// Accesses of a thread in a piece. The time of a shorter piece depends on where its misses lie.
const ACCESSES_OF_THREAD: u64 = 3000;
/// The least number of accesses in a piece.
const ACCESSES: u64 = 16_000;
/// Atoms of a piece.
const ATOMS: usize = 4;
/// Pieces that may be simulated. Each needs the memory of its events and of the history before it.
const MOST_PIECES: usize = 48;
/// Pieces that are simulated at first.
const FIRST_PIECES: usize = 10;
/// The share of the accesses that the pieces may have. Above it the whole simulation is as fast.
const MOST_SHARE: f64 = 0.3;

/// The pieces of a program, with what estimates need of them.
pub(crate) struct Cut {
    pieces: Vec<Piece>,
    /// By piece and thread.
    instructions: Vec<Vec<f64>>,
    strata: Vec<Stratum>,
}

impl Cut {
    /// What counts of the simulated pieces `numbers` of a stratum are multiplied with.
    fn factor(&self, stratum: &Stratum, numbers: impl Iterator<Item = usize>) -> f64 {
        let size = |number: usize| self.instructions[number].iter().sum::<f64>();
        let (mut count, mut simulated) = (0, 0.0);
        for number in numbers {
            count += 1;
            simulated += size(number);
        }
        if simulated > 0.0 {
            stratum.members.iter().map(|&member| size(member)).sum::<f64>() / simulated
        } else {
            stratum.members.len() as f64 / f64::from(count.max(1))
        }
    }
}

/// A program that is ready to be sampled, under any configuration on any machine.
pub struct Samples {
    cut: Cut,
    /// By piece that may be simulated.
    captured: BTreeMap<usize, Captured>,
    history: History,
    /// The blocks of the program's memory, in the order of their numbers.
    blocks: Vec<u64>,
    executions: BTreeMap<u64, u64>,
    accesses: u64,
    code: Option<Arc<ProgramCode>>,
}

/// How a program is sampled in a configuration.
pub struct Sampling<'a> {
    /// The program.
    pub samples: &'a Samples,
    /// The half-width of the interval of the time over the time that ends the simulation of further pieces.
    pub precision: f64,
    /// What was kept of other configurations of this program on the same model with the same pinning; new states, if
    /// there were none.
    pub states: &'a PieceStates,
}

/// An estimate of a program's warm repetition. All values are simulated, none is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The whole program.
    pub whole: SampledPart,
    /// Its regions, by their identities.
    pub regions: BTreeMap<u64, SampledPart>,
    /// The share of the program's accesses in the simulated pieces and their warm-ups.
    pub share: f64,
    /// Waits for events that are not in the pieces.
    pub released: u64,
}

/// The estimate of the whole program or of a region.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledPart {
    /// The totals of all executions.
    pub totals: RegionTotals,
    /// Half of the width of the interval that has the time of the whole simulation with a probability of 95 %, over the
    /// time. `None` if too few pieces say something about it.
    pub time_error: Option<f64>,
}

impl Samples {
    /// Reads the program twice. `None` if sampling would not save much: the program is short, or each of its parts does
    /// something else.
    ///
    /// The caller checks the program's `error` afterwards.
    pub fn of(program: &dyn SimulatedProgram) -> Option<Self> {
        let size = ACCESSES.max(ACCESSES_OF_THREAD * program.threads() as u64);
        Self::with_size(program, size)
    }

    fn with_size(program: &dyn SimulatedProgram, size: u64) -> Option<Self> {
        let scan = scan(program, size / ATOMS as u64);
        let pieces = cut(&scan.atoms, size);
        let strata = strata(&scan.atoms, &pieces, MOST_PIECES);
        let mut chosen: Vec<usize> = strata.iter().flat_map(|stratum| &stratum.order).copied().collect();
        chosen.sort_unstable();
        let wanted: Vec<Wanted> = chosen
            .iter()
            .map(|&piece| {
                let atoms = warm_up(&pieces[piece].atoms);
                Wanted {
                    ahead: ahead(&scan.atoms, &atoms, program.threads(), piece as u64),
                    counted: pieces[piece].atoms.start,
                    atoms,
                }
            })
            .collect();
        let accesses_of = |wanted: &Wanted| {
            scan.atoms[wanted.atoms.clone()]
                .iter()
                .map(|atom| atom.accesses)
                .sum::<u64>()
        };
        let simulated: u64 = wanted.iter().map(accesses_of).sum();
        let first =
            simulated as f64 * (FIRST_PIECES.max(2 * strata.len()) as f64 / chosen.len().max(1) as f64).min(1.0);
        if first > MOST_SHARE * scan.accesses as f64 {
            return None;
        }
        let instructions = pieces
            .iter()
            .map(|piece| {
                let mut sums = vec![0.0; program.threads()];
                for atom in &scan.atoms[piece.atoms.clone()] {
                    for (sum, &number) in sums.iter_mut().zip(&atom.instructions) {
                        *sum += number as f64;
                    }
                }
                sums
            })
            .collect();
        let (captured, history) = capture(program, &scan, &wanted);
        Some(Self {
            cut: Cut {
                pieces,
                instructions,
                strata,
            },
            captured: chosen.into_iter().zip(captured).collect(),
            history,
            blocks: scan.blocks,
            executions: scan.executions,
            accesses: scan.accesses,
            code: program.code(),
        })
    }

    /// The number of data accesses of the whole program.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }
}

impl Sampling<'_> {
    /// Simulates pieces of the program in a configuration, and estimates its warm repetition. `profile` is needed for
    /// the page mappings `locality` and `balance`.
    pub fn evaluate(
        &self,
        model: &Model,
        program: &dyn SimulatedProgram,
        configuration: &WindowConfiguration,
        profile: Option<&PageProfile>,
    ) -> Result<Sampled, WindowError> {
        let setting = Setting {
            model,
            configuration: WindowConfiguration {
                // All pages have their nodes already.
                pages: PageMapping::FirstTouch,
                ..configuration.clone()
            },
            placed: self.samples.placed(model, program, configuration, profile),
            states: self.states,
        };
        let Samples { cut, captured, .. } = self.samples;
        let mut pieces: Vec<Vec<(usize, Simulated)>> = cut.strata.iter().map(|_| vec![]).collect();
        for (stratum, number) in self.samples.first() {
            self.samples
                .simulate_next(&setting, &mut pieces[stratum], stratum, number)?;
        }
        while let Some((stratum, number)) = self.next(&pieces) {
            self.samples
                .simulate_next(&setting, &mut pieces[stratum], stratum, number)?;
        }
        let (whole, regions) = estimate(model, cut, &pieces);
        let accesses: u64 = pieces
            .iter()
            .flatten()
            .map(|(number, _)| captured[number].accesses)
            .sum();
        let part = |estimate: estimate::Estimate| SampledPart {
            totals: estimate.totals,
            time_error: estimate.half_width,
        };
        let mut regions: BTreeMap<u64, SampledPart> = regions
            .into_iter()
            .map(|(region, estimate)| (region, part(estimate)))
            .collect();
        for (region, part) in &mut regions {
            part.totals.executions = self.samples.executions.get(region).copied().unwrap_or(0);
        }
        Ok(Sampled {
            whole: part(whole),
            regions,
            share: accesses as f64 / self.samples.accesses.max(1) as f64,
            released: pieces.iter().flatten().map(|(_, piece)| piece.released).sum(),
        })
    }

    /// The stratum that gets more simulated pieces, and their number; `None` if the interval is narrow, or if all
    /// pieces are simulated.
    fn next(&self, pieces: &Pieces) -> Option<(usize, usize)> {
        let cut = &self.samples.cut;
        let times = times_of_strata(cut, pieces);
        let time: f64 = times.iter().map(|(time, _)| time).sum();
        let variances: Vec<_> = times.iter().filter_map(|(_, variance)| *variance).collect();
        if statistics::half_width(&variances) <= self.precision * time {
            return None;
        }
        let left = |number: usize| cut.strata[number].order.len() - pieces[number].len();
        let (number, _) = times
            .iter()
            .enumerate()
            .filter(|&(number, _)| left(number) > 0)
            .filter_map(|(number, (_, variance))| Some((number, (*variance)?.value)))
            .max_by(|one, other| one.1.total_cmp(&other.1))?;
        // Half as many again, so that estimates are not made after each.
        Some((number, pieces[number].len().div_ceil(2).min(left(number))))
    }
}

impl Samples {
    /// The number of pieces of each stratum that are simulated at first.
    fn first(&self) -> Vec<(usize, usize)> {
        let all: usize = self.cut.strata.iter().map(|stratum| stratum.members.len()).sum();
        self.cut
            .strata
            .iter()
            .enumerate()
            .map(|(number, stratum)| {
                let share = (FIRST_PIECES * stratum.members.len()).div_ceil(all.max(1));
                (number, share.max(2).min(stratum.order.len()))
            })
            .collect()
    }

    fn simulate_next(
        &self,
        setting: &Setting<'_>,
        simulated: &mut Vec<(usize, Simulated)>,
        stratum: usize,
        number: usize,
    ) -> Result<(), WindowError> {
        let done = simulated.len();
        for &piece in &self.cut.strata[stratum].order[done..done + number] {
            let captured = &self.captured[&piece];
            let mut past = self.history.before(captured.history, true);
            past.insert(0, &captured.skipped);
            let adjacent = setting.configuration.prefetchers.enabled(Prefetcher::Adjacent);
            let state = setting.states.place(piece, adjacent);
            let running = Running {
                blocks: &self.blocks,
                placed: &setting.placed,
                past: &past,
                state: state.as_deref(),
            };
            let streams = captured
                .threads
                .iter()
                .map(|events| {
                    let code = self.code.as_deref();
                    Box::new(Slice { events, next: 0, code }) as Box<dyn Stream + '_>
                })
                .collect();
            let Setting {
                model, configuration, ..
            } = setting;
            let result = simulate_piece(model, configuration, &running, streams, &Options::default())?;
            simulated.push((piece, Simulated::new(model, result, &captured.inside)));
        }
        Ok(())
    }

    /// By page number: its node, where a thread touched it first when the program was recorded.
    fn placed(
        &self,
        model: &Model,
        program: &dyn SimulatedProgram,
        configuration: &WindowConfiguration,
        profile: Option<&PageProfile>,
    ) -> Vec<u8> {
        let nodes: Vec<usize> = (0..program.threads())
            .map(|thread| model.node_of_pu(configuration.pinning.pu(thread).0).unwrap_or(0))
            .collect();
        let mapping = Mapping::new(model, configuration.pages, profile, &nodes);
        let numbers: BTreeMap<u64, usize> = self.blocks.iter().copied().zip(0..).collect();
        let mut placed = vec![UNPLACED; self.blocks.len() << BLOCK_PAGE_SHIFT];
        for &(page, owner) in program.page_owners() {
            let block = page >> BLOCK_PAGE_SHIFT;
            if let Some(number) = numbers.get(&block) {
                let within = (page & ((1 << BLOCK_PAGE_SHIFT) - 1)) as usize;
                placed[(number << BLOCK_PAGE_SHIFT) + within] = mapping.node(page, nodes[owner as usize]);
            }
        }
        placed
    }
}

/// What all pieces of a program have in common in a configuration.
struct Setting<'a> {
    model: &'a Model,
    configuration: WindowConfiguration,
    /// By page number: its node.
    placed: Vec<u8>,
    states: &'a PieceStates,
}

/// The atoms of a piece, including its warm-up.
fn warm_up(atoms: &Range<usize>) -> Range<usize> {
    atoms.start.saturating_sub(WARM_UP)..atoms.end
}

/// Atoms before a piece that warm it up.
const WARM_UP: usize = 1;

/// Atoms by which a thread may be ahead of another one when a piece begins: four pieces.
const MOST_AHEAD: usize = 4 * ATOMS;

/// By thread: how many atoms it is ahead of the cut when a piece begins; chosen at random, and zero if threads wait for
/// one another. In the logical execution all threads make the same progress. If pages are interleaved, threads that
/// read their arrays in step all wait for one node, and then for the next. In the whole simulation they drift apart.
fn ahead(atoms: &[Atom], piece: &Range<usize>, threads: usize, seed: u64) -> Vec<usize> {
    let alone = |atom: &&Atom| !atom.orders && !atom.meets;
    let free = atoms[piece.start..].iter().take_while(alone).count();
    let most = free.saturating_sub(piece.len()).min(MOST_AHEAD);
    let mut random = Random::new(seed);
    (0..threads).map(|_| random.below(most + 1)).collect()
}

/// Events that are all in memory.
struct Slice<'a> {
    events: &'a [Event],
    next: usize,
    code: Option<&'a ProgramCode>,
}

impl Stream for Slice<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> bool {
        batch.take(self.events, &mut self.next)
    }

    fn steps(&self, model: &Model) -> Option<Arc<StepTable>> {
        self.code?.table(model)
    }
}
