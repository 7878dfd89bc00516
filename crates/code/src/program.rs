//! A program's code, and the path between two of its accesses.
//!
//! A recording has, for each access, its instruction and the number of instructions since the previous access. Both
//! instructions are known, and no instruction between them accesses memory. So the instructions between them form a
//! path of this length in the program's code, and blocks without accesses need no record:
//!
//! 1. Start at the second instruction, and go back over all possible predecessors.
//! 2. Stop when the length is reached. The predecessor of the path must be the first instruction.
//!
//! Known limits: two paths of one length (`if` and `else` of equal length) cannot be told apart. If several paths fit,
//! a path that stays in the innermost loop wins, then the one with the shortest jumps. After a `ret` or an indirect
//! jump, the path may start at any block.

use crate::instruction::{Decoded, Flow, Reader};
use std::collections::HashMap;

/// An instruction, by its index.
pub(crate) type Index = u32;

/// The longest path that is searched. A longer path is a loop without accesses, and its last part gives its cycles per
/// instruction.
const LONGEST: usize = 1024;
/// The most instructions that are considered at one distance.
const WIDEST: usize = 256;

/// All instructions of a recording.
pub struct Code {
    pub(crate) instructions: Vec<Decoded>,
    by_address: HashMap<u64, Index>,
    /// The possible predecessors of each instruction, except indirect jumps.
    before: Vec<Vec<Index>>,
    /// Whether a translated block starts at each instruction.
    begins: Vec<bool>,
}

impl Code {
    /// Decodes blocks. A block is the address of its first instruction and its bytes. If two blocks overlap, the later
    /// one wins.
    pub fn new<'a>(blocks: impl IntoIterator<Item = (u64, &'a [u8])>) -> Self {
        let mut reader = Reader::new();
        let mut code = Self {
            instructions: vec![],
            by_address: HashMap::new(),
            before: vec![],
            begins: vec![],
        };
        for (address, bytes) in blocks {
            for (place, instruction) in reader.block(address, bytes).into_iter().enumerate() {
                let index = code.add(instruction);
                code.begins[index as usize] |= place == 0;
            }
        }
        code.link();
        code
    }

    fn add(&mut self, instruction: Decoded) -> Index {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a program has fewer than 2^32 instructions"
        )]
        let new = self.instructions.len() as Index;
        let index = *self.by_address.entry(instruction.address).or_insert(new);
        if index == new {
            self.instructions.push(instruction);
            self.begins.push(false);
        } else {
            self.instructions[index as usize] = instruction;
        }
        index
    }

    fn link(&mut self) {
        self.before = vec![vec![]; self.instructions.len()];
        for (index, instruction) in self.instructions.iter().enumerate() {
            let (next, target) = match instruction.flow {
                Flow::Next => (Some(instruction.next), None),
                Flow::To(target) => (None, Some(target)),
                Flow::Condition(target) => (Some(instruction.next), Some(target)),
                Flow::Unknown => (None, None),
            };
            let again = instruction.repeats.then_some(instruction.address);
            for address in next.into_iter().chain(target).chain(again) {
                if let Some(&after) = self.by_address.get(&address) {
                    #[expect(clippy::cast_possible_truncation, reason = "as above")]
                    self.before[after as usize].push(index as Index);
                }
            }
        }
        // Backward jumps come first, so that a long path stays in the innermost loop. Among equals the nearest comes
        // first.
        for (index, before) in self.before.iter_mut().enumerate() {
            let address = self.instructions[index].address;
            before.sort_by_key(|&before| {
                let from = self.instructions[before as usize].address;
                (from < address, from.abs_diff(address))
            });
        }
    }

    /// The instruction at an address.
    pub(crate) fn at(&self, address: u64) -> Option<Index> {
        self.by_address.get(&address).copied()
    }

    /// The instructions after the one at `from` up to the one at `to`, `length` in all. A path longer than `LONGEST` is
    /// cut to its last part. `from` is `None` if the previous event was not an access. Returns `None` if there is no
    /// such path.
    pub(crate) fn way(&self, from: Option<u64>, to: u64, length: u32) -> Option<Vec<Index>> {
        let last = self.at(to)?;
        let from = match from {
            Some(address) => Some(self.at(address)?),
            None => None,
        };
        if length == 0 {
            return Some(vec![]);
        }
        let wanted = (length as usize).min(LONGEST);
        let complete = wanted == length as usize;
        // One level per distance from the end: instructions, each with the position of its successor in the previous
        // level.
        let mut levels: Vec<Vec<(Index, usize)>> = vec![vec![(last, 0)]];
        for _ in 1..wanted {
            let level = self.level_before(levels.last()?);
            if level.is_empty() {
                break;
            }
            levels.push(level);
        }
        if levels.len() < wanted && from.is_some() {
            return None;
        }
        let depth = levels.len() - 1;
        let place = levels[depth]
            .iter()
            .position(|&(first, _)| !complete || self.may_follow(from, first))?;
        Some(Self::collect(&levels, place))
    }

    /// The instructions without accesses that may come before an instruction of this level.
    fn level_before(&self, level: &[(Index, usize)]) -> Vec<(Index, usize)> {
        let mut found: Vec<(Index, usize)> = vec![];
        for (place, &(after, _)) in level.iter().enumerate() {
            for &before in &self.before[after as usize] {
                let known = found.len() >= WIDEST || found.iter().any(|&(known, _)| known == before);
                if !known && !self.instructions[before as usize].accesses() {
                    found.push((before, place));
                }
            }
        }
        found
    }

    /// Whether the instruction `first` may come after `from`.
    fn may_follow(&self, from: Option<Index>, first: Index) -> bool {
        let Some(from) = from else { return true };
        let computed = self.instructions[from as usize].flow == Flow::Unknown;
        self.before[first as usize].contains(&from) || (computed && self.begins[first as usize])
    }

    fn collect(levels: &[Vec<(Index, usize)>], place: usize) -> Vec<Index> {
        let mut place = place;
        levels
            .iter()
            .rev()
            .map(|level| {
                let (index, after) = level[place];
                place = after;
                index
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000: mov rax, [rdi]; 1003: test rax, rax; 1006: je 100e; 1008: add rbx, rax; 100b: nop x3;
    /// 100e: mov [rsi], rbx; 1011: ret
    const BRANCH: &[u8] = &[
        0x48, 0x8b, 0x07, 0x48, 0x85, 0xc0, 0x74, 0x06, 0x48, 0x01, 0xc3, 0x90, 0x90, 0x90, 0x48, 0x89, 0x1e, 0xc3,
    ];

    fn way(code: &Code, from: u64, to: u64, length: u32) -> Option<Vec<u64>> {
        let way = code.way(Some(from), to, length)?;
        Some(
            way.iter()
                .map(|&index| code.instructions[index as usize].address)
                .collect(),
        )
    }

    #[test]
    fn the_number_of_instructions_tells_which_branch_was_taken() {
        let code = Code::new([(0x1000, BRANCH)]);
        assert_eq!(way(&code, 0x1000, 0x100e, 3), Some(vec![0x1003, 0x1006, 0x100e]));
        let through = vec![0x1003, 0x1006, 0x1008, 0x100b, 0x100c, 0x100d, 0x100e];
        assert_eq!(way(&code, 0x1000, 0x100e, 7), Some(through));
        assert_eq!(way(&code, 0x1000, 0x100e, 5), None);
    }

    #[test]
    fn a_return_leads_to_the_begin_of_any_block() {
        // 2000: add rax, rbx; mov rcx, [rax]
        let code = Code::new([(0x1000, BRANCH), (0x2000, &[0x48, 0x01, 0xd8, 0x48, 0x8b, 0x08])]);
        assert_eq!(way(&code, 0x1011, 0x2003, 2), Some(vec![0x2000, 0x2003]));
        assert_eq!(way(&code, 0x1011, 0x2003, 1), None);
    }

    #[test]
    fn a_long_way_stays_in_the_innermost_loop() {
        // 4000: mov rax, [rdi]; 4003: mov ecx, ebx; 4005: dec rcx; 4008: jne 4005; 400a: dec rdx; 400d: jne 4003;
        // 400f: mov [rdi], rax
        let bytes = [
            0x48, 0x8b, 0x07, 0x89, 0xd9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0x48, 0xff, 0xca, 0x75, 0xf4, 0x48, 0x89, 0x07,
        ];
        let code = Code::new([(0x4000, &bytes[..])]);
        let long = way(&code, 0x4000, 0x400f, 1_000_000).unwrap();
        let inner = long.iter().filter(|&&address| address == 0x4005).count();
        assert!(inner > 500, "{inner}");
    }

    #[test]
    fn a_loop_without_accesses_is_passed_as_often_as_the_number_says() {
        // 3000: mov rax, [rdi]; 3003: dec rax; 3006: jne 3003; 3008: mov [rdi], rax
        let bytes = [0x48, 0x8b, 0x07, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0x48, 0x89, 0x07];
        let code = Code::new([(0x3000, &bytes[..])]);
        let three = way(&code, 0x3000, 0x3008, 7).unwrap();
        assert_eq!(three, [0x3003, 0x3006, 0x3003, 0x3006, 0x3003, 0x3006, 0x3008]);
        assert_eq!(way(&code, 0x3000, 0x3008, 6), None);
        assert_eq!(
            code.way(Some(0x3000), 0x3008, 1_000_001).map(|way| way.len()),
            Some(LONGEST)
        );
    }
}
