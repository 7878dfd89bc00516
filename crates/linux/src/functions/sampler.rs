//! Samples of the stacks of threads, by the event `cpu-clock`, which needs no hardware counter.
//!
//! Each sample has the chain of callers that the kernel found by frame pointers, and a copy of the top of the stack.
//! Most programs have no frame pointers. So every word of the copy that may be a return address is kept, too; the
//! reader tells by the code before it whether it is one. `sample_type` orders the fields: `perf_event_open(2)`,
//! "MMAP layout".
//!
//! Limits: callers beyond the copied part of the stack are seen with frame pointers only.

use super::areas::Areas;
use crate::memory::page_size;
use crate::perf_event::{self, EventScope};
use crate::pfm::sys;
use crate::ring::{HEADER, Ring};
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Samples of a thread per second that it runs. A prime near a hundred does not stay in step with the program's steps.
const FREQUENCY: u64 = 97;

/// The copied bytes of the stack.
const STACK: u32 = 16 << 10;

/// The buffer of each thread holds the samples of a fifth of a second and more.
const BUFFER: usize = 512 << 10;

/// The longest record: the kernel's size of a record has 16 bits.
const RECORD: usize = 1 << 16;

/// The interval between two readings of the buffers.
const READING: Duration = Duration::from_millis(50);

/// Callchains have markers in between, such as `PERF_CONTEXT_USER`, that are above all addresses.
const FIRST_MARKER: u64 = u64::MAX - 4095;

/// The registers that are sampled: the stack pointer, and on aarch64 the return address of a function without a frame
/// (`asm/perf_regs.h`).
const REGISTERS: u64 = if cfg!(target_arch = "aarch64") {
    1 << 30 | 1 << 31
} else {
    1 << 7
};

/// A sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sampled {
    pub(super) process: i32,
    pub(super) thread: i32,
    /// The instruction, and the callers by frame pointers, the innermost first; empty in the kernel without them.
    pub(super) chain: Vec<u64>,
    /// Words of the stack, from its top, that are addresses of code.
    pub(super) words: Vec<u64>,
}

/// The samples of `threads` (process and thread) in `lasts`, or until `goes_on` returns false. Fails if no thread can be
/// sampled.
pub(super) fn sample(
    threads: &[(i32, i32)],
    areas: &BTreeMap<i32, Areas>,
    lasts: Duration,
    mut goes_on: impl FnMut(Duration) -> bool,
) -> Result<Vec<Sampled>, Errno> {
    let page = usize::try_from(page_size()).unwrap_or(4096);
    let mut sampled: Vec<(OwnedFd, Ring)> = vec![];
    let mut refused = Errno::ESRCH;
    for &(_, thread) in threads {
        let opened = open(thread).and_then(|event| {
            let ring = Ring::map(&event, page, BUFFER)?;
            Ok((event, ring))
        });
        match opened {
            Ok(opened) => sampled.push(opened),
            Err(error) => refused = error,
        }
    }
    if sampled.is_empty() {
        return Err(refused);
    }
    let ends = Instant::now() + lasts;
    let mut bytes = vec![0; RECORD];
    let mut samples = vec![];
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        let goes_on = !left.is_zero() && goes_on(left.min(READING));
        for (_, ring) in &mut sampled {
            ring.drain_bytes(&mut bytes, |record| samples.extend(parse(record, areas)));
        }
        if !goes_on {
            return Ok(samples);
        }
    }
}

fn open(thread: i32) -> Result<OwnedFd, Errno> {
    let event = |user_only| {
        let mut attributes = perf_event::software(sys::PERF_COUNT_SW_CPU_CLOCK, user_only);
        attributes.set_freq(1);
        attributes.__bindgen_anon_1.sample_freq = FREQUENCY;
        attributes.set_exclude_callchain_kernel(1);
        attributes.sample_type = u64::from(
            sys::PERF_SAMPLE_TID
                | sys::PERF_SAMPLE_CALLCHAIN
                | sys::PERF_SAMPLE_REGS_USER
                | sys::PERF_SAMPLE_STACK_USER,
        );
        attributes.sample_regs_user = REGISTERS;
        attributes.sample_stack_user = STACK;
        perf_event::open(&attributes, EventScope::Thread(thread), None)
    };
    event(false).or_else(|_| event(true))
}

/// The words of a record, one after the other.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }

    fn take(&mut self, words: u64) -> Option<&'a [[u8; 8]]> {
        let (words, rest) = self.0.split_at_checked(usize::try_from(words).ok()?.checked_mul(8)?)?;
        self.0 = rest;
        Some(words.as_chunks().0)
    }
}

/// A sample from a record with its header; `None` for another record.
fn parse(record: &[u8], areas: &BTreeMap<i32, Areas>) -> Option<Sampled> {
    let kind = u32::from_ne_bytes(*record.first_chunk()?);
    if kind != sys::PERF_RECORD_SAMPLE {
        return None;
    }
    let mut words = Words(record.get(HEADER..)?);
    let ids = words.next()?.to_ne_bytes();
    let [process, thread] = [&ids[..4], &ids[4..]].map(|half| half.try_into().map_or(0, i32::from_ne_bytes));
    let areas = areas.get(&process)?;
    let is_code = |&address: &u64| areas.at(address).is_some();
    let number = words.next()?;
    let chain = words.take(number)?.iter().map(|word| u64::from_ne_bytes(*word));
    let chain = chain.filter(|&address| address < FIRST_MARKER).collect();
    let mut sampled = Sampled {
        process,
        thread,
        chain,
        words: vec![],
    };
    if words.next()? != 0 {
        let registers = words.take(u64::from(REGISTERS.count_ones()))?;
        let registers = registers.iter().map(|word| u64::from_ne_bytes(*word));
        sampled.words.extend(registers.filter(is_code));
    }
    let copied = words.next()? / 8;
    let stack = words.take(copied)?;
    // The number of bytes that were really copied follows, if any were.
    let valid = words.next().map_or(0, |bytes| usize::try_from(bytes / 8).unwrap_or(0));
    let stack = stack.iter().take(valid).map(|word| u64::from_ne_bytes(*word));
    sampled.words.extend(stack.filter(is_code));
    Some(sampled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::Procfs;
    use proptest::prelude::*;
    use std::fs;

    /// Process 7, with code from 0x1000 to 0x2000.
    fn areas() -> BTreeMap<i32, Areas> {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("7")).unwrap();
        fs::write(
            folder.path().join("7/maps"),
            "1000-2000 r-xp 00000000 fd:01 131 /bin/program\n",
        )
        .unwrap();
        [(7, Areas::read(&Procfs::new(folder.path()), 7).unwrap())].into()
    }

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn ids(process: u32, thread: u32) -> u64 {
        let bytes = [process.to_ne_bytes(), thread.to_ne_bytes()].concat();
        u64::from_ne_bytes(bytes.try_into().unwrap())
    }

    /// A sample with this chain, and a stack of which `valid` words were copied.
    fn words(chain: &[u64], stack: &[u64], valid: u64) -> Vec<u64> {
        let mut words = vec![ids(7, 8), chain.len() as u64];
        words.extend(chain);
        words.push(2);
        words.extend((0..REGISTERS.count_ones()).map(|_| 0xffff_0000));
        words.push(8 * stack.len() as u64);
        words.extend(stack);
        words.push(8 * valid);
        words
    }

    #[test]
    fn a_sample_has_its_chain_without_markers_and_the_code_addresses_of_the_stack() {
        let user = u64::MAX - 511;
        let words = words(&[user, 0x1004, 0x1100], &[5, 0x1200, 0x2000, 0x1300, 0x1400], 4);
        let sampled = parse(&record(sys::PERF_RECORD_SAMPLE, &words), &areas()).unwrap();
        let expected = Sampled {
            process: 7,
            thread: 8,
            chain: vec![0x1004, 0x1100],
            words: vec![0x1200, 0x1300],
        };
        assert_eq!(sampled, expected);
    }

    #[test]
    fn a_sample_without_a_user_stack_keeps_its_chain() {
        let words = [ids(7, 8), 1, 0x1004, 0, 0];
        let sampled = parse(&record(sys::PERF_RECORD_SAMPLE, &words), &areas()).unwrap();
        assert_eq!((sampled.chain, sampled.words), (vec![0x1004], vec![]));
    }

    #[test]
    fn other_records_and_other_processes_are_no_samples() {
        let words = words(&[0x1004], &[], 0);
        assert_eq!(parse(&record(sys::PERF_RECORD_LOST, &words), &areas()), None);
        assert_eq!(parse(&record(sys::PERF_RECORD_SAMPLE, &words), &BTreeMap::new()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(words in proptest::collection::vec(any::<u64>(), 0..40), cut in 0usize..8) {
            let mut bytes = record(sys::PERF_RECORD_SAMPLE, &words);
            if let Some(ids) = bytes.get_mut(HEADER..HEADER + 4) {
                ids.copy_from_slice(&7i32.to_ne_bytes());
            }
            bytes.truncate(bytes.len() - cut);
            parse(&bytes, &areas());
        }
    }
}
