//! From sampled addresses to the functions on the stack.
//!
//! - The sampled instruction belongs to the innermost function.
//! - An address of the chain of callers is a return address: the instruction before it belongs to the caller.
//! - A word of the stack is a return address if the instruction before it is a call. Old return addresses that lie in
//!   unused parts of the stack look the same; `pinfold_core::function` says why they do no harm.

use super::areas::Areas;
use super::jit::CompiledCode;
use super::sampler::Sampled;
use super::starts::{self, Function};
use crate::procfs::Procfs;
use pinfold_core::function::Stack;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;

/// A function in the files of a program: the position of the file, and the offset of the start in it.
pub(super) type FunctionId = (usize, u64);

/// A file with code.
pub(super) struct CodeFile {
    pub(super) file: File,
    /// Its name without folders.
    pub(super) name: String,
    path: PathBuf,
    content: Vec<u8>,
    /// Names by the start.
    names: BTreeMap<u64, String>,
}

/// The functions on the stacks.
#[derive(Default)]
pub(super) struct Stacks {
    pub(super) files: Vec<CodeFile>,
    pub(super) samples: Vec<Stack<FunctionId>>,
    /// The share of the samples in code without a file, and the most frequent name there.
    pub(super) compiled: Option<(f64, Option<String>)>,
}

/// Places in the code on one stack: file and offset, the innermost first.
type Places = Vec<(usize, u64)>;

impl Stacks {
    /// Reads the files with the sampled code, and finds the functions there.
    pub(super) fn read(procfs: &Procfs, samples: &[Sampled], areas: &BTreeMap<i32, Areas>) -> Self {
        let mut this = Self {
            compiled: compiled(procfs, samples, areas),
            ..Self::default()
        };
        let mut known = BTreeMap::new();
        let places: Vec<Places> = samples
            .iter()
            .map(|sample| this.places(procfs, sample, &areas[&sample.process], &mut known))
            .collect();
        let mut found: Vec<BTreeMap<u64, Function>> = vec![];
        for (position, file) in this.files.iter_mut().enumerate() {
            let here = places.iter().flatten().filter(|(file, _)| *file == position);
            let offsets: BTreeSet<u64> = here.map(|&(_, offset)| offset).collect();
            let functions = starts::functions_at(&file.content, &file.path, &offsets);
            let names = functions
                .values()
                .map(|function| (function.start, function.name.clone()));
            file.names = names.collect();
            file.content = vec![];
            found.push(functions);
        }
        for (sample, places) in samples.iter().zip(places) {
            let function = |(file, offset): (usize, u64)| Some((file, found[file].get(&offset)?.start));
            this.samples.push(Stack {
                thread: sample.thread,
                functions: places.into_iter().filter_map(function).collect(),
            });
        }
        this
    }

    /// The name of a function.
    pub(super) fn name(&self, (file, start): FunctionId) -> &str {
        self.files[file].names.get(&start).map_or("a function", String::as_str)
    }

    /// A thread's share of the samples.
    pub(super) fn share(&self, thread: i32) -> f64 {
        let of_thread = self.samples.iter().filter(|stack| stack.thread == thread);
        of_thread.count() as f64 / self.samples.len().max(1) as f64
    }

    fn places(
        &mut self,
        procfs: &Procfs,
        sample: &Sampled,
        areas: &Areas,
        known: &mut BTreeMap<String, Option<usize>>,
    ) -> Places {
        let mut place = |address: u64| -> Option<(usize, u64)> {
            let area = areas.at(address)?;
            let id = area.file.as_ref()?;
            if !known.contains_key(id) {
                let mut read = || {
                    let mut file = areas.open(procfs, area).ok()?;
                    let content = starts::content(&mut file)?;
                    self.files.push(CodeFile {
                        file,
                        name: area.file_name().to_owned(),
                        path: PathBuf::from(&area.path),
                        content,
                        names: BTreeMap::new(),
                    });
                    Some(self.files.len() - 1)
                };
                let read = read();
                known.insert(id.clone(), read);
            }
            let file = known[id];
            Some((file?, area.offset(address)))
        };
        let instruction = sample.chain.first().copied().and_then(&mut place);
        let callers = sample.chain.iter().skip(1);
        let callers: Places = callers.filter_map(|&address| place(address)).collect();
        let words: Places = sample.words.iter().filter_map(|&word| place(word)).collect();
        let words = words.into_iter().filter(|&(file, offset)| {
            let content = &self.files[file].content;
            usize::try_from(offset).is_ok_and(|offset| content.get(..offset).is_some_and(ends_with_call))
        });
        let returns = callers.into_iter().chain(words);
        let returns = returns.filter_map(|(file, offset)| Some((file, offset.checked_sub(1)?)));
        instruction.into_iter().chain(returns).collect()
    }
}

/// The share of the samples whose instruction is in code without a file, and the most frequent name there; `None` if
/// there is none.
fn compiled(procfs: &Procfs, samples: &[Sampled], areas: &BTreeMap<i32, Areas>) -> Option<(f64, Option<String>)> {
    let mut maps: BTreeMap<i32, CompiledCode> = BTreeMap::new();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    let mut number = 0usize;
    for sample in samples {
        let address = sample.chain.first().copied();
        let area = address.and_then(|address| areas[&sample.process].at(address));
        if let (Some(address), Some(area)) = (address, area)
            && area.file.is_none()
        {
            number += 1;
            let map = maps
                .entry(sample.process)
                .or_insert_with(|| CompiledCode::read(procfs, sample.process));
            if let Some(name) = map.name(address) {
                *names.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
    let most = names
        .into_iter()
        .max_by_key(|(_, number)| *number)
        .map(|(name, _)| name);
    (number > 0).then(|| (number as f64 / samples.len() as f64, most))
}

/// Whether code ends with a call, so that the address behind it is a return address. On x86-64: `call rel32`, or a call
/// through a register or memory (opcode FF /2), whose length follows from its `ModRM` byte and SIB byte.
#[cfg(target_arch = "x86_64")]
fn ends_with_call(code: &[u8]) -> bool {
    let back = |bytes: usize| code.len().checked_sub(bytes).map(|at| &code[at..]);
    if back(5).is_some_and(|call| call[0] == 0xe8) {
        return true;
    }
    (2..=7).any(|length| match back(length) {
        Some([0xff, mod_rm, rest @ ..]) if mod_rm >> 3 & 7 == 2 => {
            let (mode, register) = (mod_rm >> 6, mod_rm & 7);
            let sib = usize::from(register == 4 && mode != 3);
            let displacement = match mode {
                0 if register == 5 || (sib == 1 && rest.first().is_some_and(|sib| sib & 7 == 5)) => 4,
                1 => 1,
                2 => 4,
                _ => 0,
            };
            length == 2 + sib + displacement
        }
        _ => false,
    })
}

/// The same on aarch64: `bl`, or `blr` through a register.
#[cfg(target_arch = "aarch64")]
fn ends_with_call(code: &[u8]) -> bool {
    code.last_chunk().is_some_and(|last| {
        let instruction = u32::from_le_bytes(*last);
        instruction & 0xfc00_0000 == 0x9400_0000 || instruction & 0xffff_fc1f == 0xd63f_0000
    })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_address_behind_a_call_is_a_return_address() {
        for call in [
            &[0xe8, 1, 2, 3, 4][..],         // call rel32
            &[0xff, 0xd0],                   // call rax
            &[0x41, 0xff, 0xd4],             // call r12
            &[0xff, 0x10],                   // call [rax]
            &[0xff, 0x50, 8],                // call [rax+8]
            &[0xff, 0x90, 0, 1, 0, 0],       // call [rax+256]
            &[0xff, 0x15, 0, 1, 0, 0],       // call [rip+256]
            &[0xff, 0x14, 0xc8],             // call [rax+rcx*8]
            &[0xff, 0x54, 0xc8, 8],          // call [rax+rcx*8+8]
            &[0xff, 0x94, 0xc8, 0, 1, 0, 0], // call [rax+rcx*8+256]
            &[0xff, 0x14, 0xcd, 0, 1, 0, 0], // call [rcx*8+256]
        ] {
            assert!(ends_with_call(&[&[0x90; 8], call].concat()), "{call:x?}");
        }
    }

    #[test]
    fn the_address_behind_another_instruction_is_none() {
        for other in [
            &[0xe9, 1, 2, 3, 4][..], // jmp rel32
            &[0xff, 0xe0],           // jmp rax
            &[0xff, 0x25, 0, 1, 0, 0],
            &[0x48, 0x89, 0xc3],
            &[],
        ] {
            assert!(!ends_with_call(&[&[0x90; 8], other].concat()), "{other:x?}");
        }
        assert!(!ends_with_call(&[]));
    }
}
