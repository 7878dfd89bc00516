//! The first reading of a program: its atoms, the shortest parts at whose borders the execution may be cut, and what
//! each does.
//!
//! What an atom does is its signature, which does not depend on a machine: by thread, the instructions that access
//! memory (by a hash of their addresses), the time since the last access to the same line by powers of two, whether
//! another thread made that access, and the thread that touched the page first. It is projected to a few dimensions at
//! random, as `SimPoint` does (Sherwood et al., ASPLOS 2002, section 3.4).

use super::logical::{Logical, Manner, Slice};
use crate::program::SimulatedProgram;
use crate::window::{Blocks, Event, EventKind};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Dimensions of a signature. `SimPoint` has 15 for one thread; more threads need more.
pub(super) const DIMENSIONS: usize = 32;
/// The steps between accesses, by the low bits of their numbers.
const SITES: usize = 256;
/// Powers of two of the times since the last access, in accesses of all threads; with the first accesses.
const TIMES: usize = 34;
/// First touchers of pages that are distinguished.
const OWNERS: usize = 64;
/// Features of a thread. The times count twice: after the same thread, and after another one.
const FEATURES: usize = SITES + 2 * TIMES + OWNERS;
/// An atom without accesses ends after as many instructions as this number of its accesses would be.
const INSTRUCTIONS_OF_ACCESS: u64 = 64;

/// A part of the execution.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Atom {
    /// The number of slices from the start of the execution to its end.
    pub(super) slices: u64,
    /// By thread.
    pub(super) instructions: Vec<u64>,
    /// The sum over all threads.
    pub(super) accesses: u64,
    /// Whether the threads meet at its end.
    pub(super) meets: bool,
    /// Whether a thread waits for another one in it, or lets another one go on.
    pub(super) orders: bool,
    /// Per instruction.
    pub(super) signature: [f32; DIMENSIONS],
    /// A hash of the regions that contain it, begin in it, or end in it.
    pub(super) regions: u64,
}

/// The result of the first reading.
pub(super) struct Scan {
    pub(super) atoms: Vec<Atom>,
    /// Data accesses.
    pub(super) accesses: u64,
    /// The blocks of memory, in the order of their numbers.
    pub(super) blocks: Vec<u64>,
    /// By region: how often it was left.
    pub(super) executions: BTreeMap<u64, u64>,
}

/// Reads the program. An atom has at least `size` accesses, where threads do not meet after fewer.
pub(super) fn scan(program: &dyn SimulatedProgram, size: u64) -> Scan {
    let mut scanner = Scanner::new(program, size);
    let mut logical = Logical::new(program);
    let mut slices = 0;
    while let Some(slice) = logical.slice(|thread, events, manner| scanner.see(thread, events, manner)) {
        slices += 1;
        scanner.end_slice(slices, slice);
    }
    scanner.end_atom(slices, true);
    Scan {
        accesses: scanner.now,
        blocks: scanner.blocks.order(),
        executions: scanner.executions,
        atoms: scanner.atoms,
    }
}

struct Scanner {
    threads: usize,
    size: u64,
    blocks: Blocks,
    /// By line: the time of the last access plus one, and its thread.
    last: Vec<(u32, u16)>,
    /// By thread: the line of its last access.
    last_line: Vec<u64>,
    owners: HashMap<u64, u32>,
    /// By page number: its owner plus one; 0 if it has not been looked up.
    owner_of_page: Vec<u16>,
    /// Accesses so far.
    now: u64,
    /// Of the atom: by thread, its features.
    features: Vec<u32>,
    instructions: Vec<u64>,
    orders: bool,
    begin: u64,
    /// Regions that a thread is in, with the number of threads.
    open: BTreeMap<u64, u32>,
    touched_regions: Vec<u64>,
    executions: BTreeMap<u64, u64>,
    atoms: Vec<Atom>,
}

impl Scanner {
    fn new(program: &dyn SimulatedProgram, size: u64) -> Self {
        let threads = program.threads();
        Self {
            threads,
            size,
            blocks: Blocks::new(),
            last: vec![],
            last_line: vec![u64::MAX; threads],
            owners: program.page_owners().iter().copied().collect(),
            owner_of_page: vec![],
            now: 0,
            features: vec![0; threads * FEATURES],
            instructions: vec![0; threads],
            orders: false,
            begin: 0,
            open: BTreeMap::new(),
            touched_regions: vec![],
            executions: BTreeMap::new(),
            atoms: vec![],
        }
    }

    fn see(&mut self, thread: usize, events: &[Event], _: Manner) {
        for event in events {
            self.instructions[thread] += u64::from(event.instructions);
            match event.kind {
                EventKind::Read | EventKind::Write | EventKind::Locked => self.access(thread, event),
                EventKind::RegionBegin => {
                    *self.open.entry(event.payload).or_default() += 1;
                    self.touched_regions.push(event.payload);
                }
                EventKind::RegionEnd => {
                    if let Some(number) = self.open.get_mut(&event.payload)
                        && *number > 0
                    {
                        *number -= 1;
                        *self.executions.entry(event.payload).or_default() += 1;
                    }
                    self.touched_regions.push(event.payload);
                }
                EventKind::Barrier | EventKind::Signal | EventKind::Wait => self.orders = true,
                _ => {}
            }
        }
    }

    fn access(&mut self, thread: usize, event: &Event) {
        self.now += 1;
        let features = &mut self.features[thread * FEATURES..(thread + 1) * FEATURES];
        features[usize::from(event.step) % SITES] += 1;
        for virtual_line in event.first_line()..=event.last_line() {
            if self.last_line[thread] == virtual_line {
                continue;
            }
            self.last_line[thread] = virtual_line;
            let line = self.blocks.line(virtual_line) as usize;
            if line >= self.last.len() {
                let lines = self.blocks.len() << super::BLOCK_SHIFT;
                self.last.resize(lines, (0, 0));
                self.owner_of_page.resize(lines >> super::PAGE_SHIFT, 0);
            }
            let now = u32::try_from((self.now + 1) & u64::from(u32::MAX)).unwrap_or(0);
            let time = now.max(1);
            let (before, toucher) =
                std::mem::replace(&mut self.last[line], (time, u16::try_from(thread).unwrap_or(u16::MAX)));
            let age = if before == 0 {
                TIMES - 1
            } else {
                (32 - (time.wrapping_sub(before)).leading_zeros()) as usize
            };
            let shared = if before != 0 && usize::from(toucher) != thread {
                TIMES
            } else {
                0
            };
            features[SITES + shared + age] += 1;
            let page = line >> super::PAGE_SHIFT;
            if self.owner_of_page[page] == 0 {
                let owner = self
                    .owners
                    .get(&(virtual_line >> super::PAGE_SHIFT))
                    .copied()
                    .unwrap_or(0);
                self.owner_of_page[page] = u16::try_from(owner).unwrap_or(0) + 1;
            }
            features[SITES + 2 * TIMES + usize::from(self.owner_of_page[page] - 1) % OWNERS] += 1;
        }
    }

    fn end_slice(&mut self, slices: u64, slice: Slice) {
        let accesses = self.now - self.begin;
        let meets = slice == Slice::Meeting;
        // Shortly after a meeting the threads still do what belongs to it.
        let work = accesses + self.instructions.iter().sum::<u64>() / INSTRUCTIONS_OF_ACCESS;
        if meets && work < self.size / 64 && self.atoms.last().is_some_and(|atom| atom.meets) {
            self.extend_atom(slices);
        } else if work >= self.size || (meets && work >= self.size / 8) {
            self.end_atom(slices, meets);
        }
    }

    /// Adds everything since the end of the last atom to it.
    fn extend_atom(&mut self, slices: u64) {
        let accesses = self.now - self.begin;
        if let Some(atom) = self.atoms.last_mut() {
            atom.slices = slices;
            atom.accesses += accesses;
            atom.orders |= self.orders;
            for (sum, more) in atom.instructions.iter_mut().zip(&self.instructions) {
                *sum += more;
            }
        }
        self.begin_atom();
    }

    fn end_atom(&mut self, slices: u64, meets: bool) {
        let signature = self.signature();
        let mut hasher = DefaultHasher::new();
        self.touched_regions.sort_unstable();
        self.touched_regions.dedup();
        self.touched_regions.hash(&mut hasher);
        for (region, _) in self.open.iter().filter(|(_, number)| **number > 0) {
            region.hash(&mut hasher);
        }
        self.atoms.push(Atom {
            slices,
            instructions: self.instructions.clone(),
            accesses: self.now - self.begin,
            meets,
            orders: self.orders,
            signature,
            regions: hasher.finish(),
        });
        self.begin_atom();
    }

    fn begin_atom(&mut self) {
        self.begin = self.now;
        self.orders = false;
        self.instructions.fill(0);
        self.features.fill(0);
        self.touched_regions.clear();
    }

    /// The features per instruction of all threads, projected.
    fn signature(&self) -> [f32; DIMENSIONS] {
        let mut signature = [0.0; DIMENSIONS];
        let instructions = self.instructions.iter().sum::<u64>().max(1) as f32;
        for (number, &count) in self.features.iter().enumerate() {
            if count > 0 {
                project(number as u64, count as f32 / instructions, &mut signature);
            }
        }
        for thread in 0..self.threads {
            let share = self.instructions[thread] as f32 / instructions;
            project(!(thread as u64), share, &mut signature);
        }
        signature
    }
}

/// Adds a feature to a signature, in each dimension with another sign (Fibonacci hashing: Knuth, The Art of Computer
/// Programming 3, section 6.4).
fn project(feature: u64, value: f32, signature: &mut [f32; DIMENSIONS]) {
    let mut bits = feature.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits ^= bits >> 32;
    bits = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits ^= bits >> 29;
    for (dimension, sum) in signature.iter_mut().enumerate() {
        *sum += if bits >> dimension & 1 == 0 { value } else { -value };
    }
}
