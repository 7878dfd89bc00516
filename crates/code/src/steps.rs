//! The steps of a program: the paths from one access to the next, each with a number.
//!
//! A step is two instructions that access memory one after the other, and the number of instructions between them. A
//! program has far fewer steps than accesses. So the cost of a step is computed once, and an access needs only the
//! step's number.
//!
//! The first time a recording is read, a [`Learner`] numbers the steps and keeps a sample of the accesses.
//! [`Timing`](crate::Timing) executes this sample. The sample consists of pieces: a piece is kept if it has a step that
//! is not in the sample often enough.

use crate::program::{Code, Index};
use std::collections::HashMap;

/// The number of accesses in a piece of the sample.
const PIECE: usize = 1024;
/// The number of times that a frequent step is in the sample.
const ENOUGH: u32 = 2048;
/// While a step is not in the sample often enough, the pieces with its first occurrences are kept. After that, only
/// occurrences whose number is a power of two keep a piece.
const FIRST: u32 = 1024;
/// The most accesses in a sample.
const LARGEST_SAMPLE: usize = 1 << 20;
/// The most steps.
const MOST_STEPS: usize = 60_000;
/// Numbers of instructions above this one are rounded, to 16 values per octave.
const EXACT: u32 = 128;
/// The number of steps that a cursor caches.
const CACHED: usize = 1024;

/// An instruction that accesses memory, and whether it stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Place {
    pc: u64,
    write: bool,
}

/// The key of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Key {
    /// The instruction of the previous access. 0 after any other event.
    from: u64,
    to: Place,
    instructions: u32,
}

fn rounded(instructions: u32) -> u32 {
    if instructions <= EXACT {
        return instructions;
    }
    let low = instructions.ilog2() - 4;
    instructions >> low << low
}

/// The position of one thread among the steps.
pub struct Cursor {
    /// The instruction of the previous access. 0 after any other event.
    before: u64,
    cache: Vec<(Key, u16)>,
}

impl Default for Cursor {
    fn default() -> Self {
        Self {
            before: 0,
            cache: vec![(Key::default(), 0); CACHED],
        }
    }
}

impl Cursor {
    /// An event other than an access occurs, or accesses are missing.
    pub fn interrupted(&mut self) {
        self.before = 0;
    }

    #[inline]
    fn key(&mut self, pc: u64, write: bool, instructions: u32) -> Key {
        let from = std::mem::replace(&mut self.before, pc);
        Key {
            from,
            to: Place { pc, write },
            instructions: rounded(instructions),
        }
    }

    #[inline]
    fn slot(&mut self, key: &Key) -> &mut (Key, u16) {
        let mixed = (key.from ^ key.to.pc << 7 ^ u64::from(key.to.write) ^ u64::from(key.instructions) << 40)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = usize::try_from(mixed >> 54).unwrap_or(0) % CACHED;
        &mut self.cache[slot]
    }
}

/// One step.
pub(crate) struct Step {
    /// The site of its access.
    pub(crate) site: u16,
    pub(crate) write: bool,
    /// The number of instructions when the step was first seen.
    pub(crate) instructions: u32,
    /// The instructions after the previous access, up to and including this one. `None` if the path is not known.
    pub(crate) way: Option<Vec<Index>>,
}

/// An access of the sample. The first access of a piece has no predecessor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    pub(crate) address: u64,
    pub(crate) step: u16,
    pub(crate) first: bool,
}

/// The steps of a program, with a sample of its accesses.
pub struct Steps {
    pub(crate) code: Code,
    pub(crate) all: Vec<Step>,
    pub(crate) sample: Vec<Sampled>,
    by_key: HashMap<Key, u16>,
    sites: HashMap<Place, u16>,
}

impl Steps {
    /// The number of steps.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether the program has no steps.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number of sites. A site is an instruction that loads or an instruction that stores.
    pub fn sites(&self) -> usize {
        self.sites.len()
    }

    /// The site of each step's access.
    pub fn sites_of_steps(&self) -> impl Iterator<Item = u16> {
        self.all.iter().map(|step| step.site)
    }

    /// The share of the sample whose instructions are known.
    pub fn known(&self) -> f64 {
        let known = |sampled: &&Sampled| self.all[usize::from(sampled.step)].way.is_some();
        self.sample.iter().filter(known).count() as f64 / self.sample.len().max(1) as f64
    }

    /// The step to an access by the instruction at `pc`, after `instructions` instructions since the previous access.
    /// `None` if there are too many steps.
    #[inline]
    pub fn step(&self, cursor: &mut Cursor, pc: u64, write: bool, instructions: u32) -> Option<u16> {
        let key = cursor.key(pc, write, instructions);
        let slot = cursor.slot(&key);
        if slot.0 == key {
            return Some(slot.1);
        }
        let step = *self.by_key.get(&key)?;
        *slot = (key, step);
        Some(step)
    }

    #[cold]
    fn add(&mut self, key: Key, instructions: u32) -> Option<u16> {
        if self.all.len() >= MOST_STEPS {
            return None;
        }
        let next = u16::try_from(self.sites.len()).ok()?;
        let site = *self.sites.entry(key.to).or_insert(next);
        let number = u16::try_from(self.all.len()).ok()?;
        self.all.push(Step {
            site,
            write: key.to.write,
            instructions,
            way: self
                .code
                .way((key.from != 0).then_some(key.from), key.to.pc, instructions),
        });
        self.by_key.insert(key, number);
        Some(number)
    }
}

/// Numbers steps, and keeps a sample.
pub struct Learner {
    steps: Steps,
    piece: Vec<Sampled>,
    /// For each step: its number in the sample, and its occurrences until it was in the sample often enough.
    kept: Vec<(u32, u32)>,
}

impl Learner {
    /// A learner without steps, for a program with this code.
    pub fn new(code: Code) -> Self {
        Self {
            steps: Steps {
                code,
                all: vec![],
                sample: vec![],
                by_key: HashMap::new(),
                sites: HashMap::new(),
            },
            piece: vec![],
            kept: vec![],
        }
    }

    /// The next access of a thread.
    #[inline]
    pub fn access(&mut self, cursor: &mut Cursor, pc: u64, write: bool, instructions: u32, address: u64) {
        let first = cursor.before == 0 || self.piece.is_empty();
        let key = cursor.key(pc, write, instructions);
        let slot = cursor.slot(&key);
        let step = if slot.0 == key {
            Some(slot.1)
        } else {
            let found = self.steps.by_key.get(&key).copied();
            let found = found.or_else(|| self.steps.add(key, instructions));
            if let Some(step) = found {
                *slot = (key, step);
            }
            found
        };
        if let Some(step) = step {
            self.piece.push(Sampled { address, step, first });
        }
        if self.piece.len() == PIECE {
            self.end_piece();
        }
    }

    /// The next access does not follow the last one: it is another thread's, or a part in between is not simulated.
    pub fn end_piece(&mut self) {
        self.kept.resize(self.steps.all.len(), (0, 0));
        let mut wanted = false;
        for sampled in &self.piece {
            let (kept, occurred) = &mut self.kept[usize::from(sampled.step)];
            if *kept < ENOUGH {
                *occurred += 1;
                wanted |= *occurred <= FIRST || occurred.is_power_of_two();
            }
        }
        if wanted && self.steps.sample.len() + self.piece.len() <= LARGEST_SAMPLE {
            for sampled in &self.piece {
                self.kept[usize::from(sampled.step)].0 += 1;
            }
            self.steps.sample.append(&mut self.piece);
        }
        self.piece.clear();
    }

    /// The steps with the sample.
    pub fn finish(mut self) -> Steps {
        self.end_piece();
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000: mov rax, [rdi]; 1003: add rdi, 8; 1007: add rbx, rax; 100a: jmp 1000
    const LOOP: &[u8] = &[0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x01, 0xc3, 0xeb, 0xf4];

    #[test]
    fn a_loop_has_the_step_into_it_and_that_around_it() {
        let mut learner = Learner::new(Code::new([(0x1000, LOOP)]));
        let mut cursor = Cursor::default();
        for time in 0..10_000 {
            let instructions = if time == 0 { 1 } else { 4 };
            learner.access(&mut cursor, 0x1000, false, instructions, 0x9000 + 8 * time);
        }
        let steps = learner.finish();
        assert_eq!((steps.len(), steps.sites()), (2, 1));
        assert!((steps.known() - 1.0).abs() < f64::EPSILON);
        let mut cursor = Cursor::default();
        assert_eq!(steps.step(&mut cursor, 0x1000, false, 1), Some(0));
        assert_eq!(steps.step(&mut cursor, 0x1000, false, 4), Some(1));
        assert_eq!(steps.step(&mut cursor, 0x1000, false, 5), None);
    }

    #[test]
    fn a_sample_keeps_rare_steps_and_stays_small() {
        let mut learner = Learner::new(Code::new([(0x1000, LOOP)]));
        let mut cursor = Cursor::default();
        for time in 0..1_000_000u64 {
            if time == 900_000 {
                cursor.interrupted();
            }
            let instructions = if time == 900_000 { 1 } else { 4 };
            learner.access(&mut cursor, 0x1000, false, instructions, 0x9000 + 8 * time);
        }
        let steps = learner.finish();
        assert!(steps.sample.len() <= 64 * PIECE, "{}", steps.sample.len());
        assert!(
            steps
                .sample
                .iter()
                .any(|sampled| steps.all[usize::from(sampled.step)].instructions == 1)
        );
    }

    #[test]
    fn long_ways_share_steps() {
        assert_eq!(rounded(128), 128);
        assert_eq!(rounded(1000), 992);
        assert!((200..4000).all(|number| rounded(number) <= number && number - rounded(number) <= number / 16));
    }
}
