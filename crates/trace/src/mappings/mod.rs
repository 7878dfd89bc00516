//! The mappings of the recorded program, and the accesses of each thread by page.
//!
//! 1. The events that change the address space are collected from all threads and put in order.
//! 2. Accesses are counted by page and thread.
//! 3. The result is the address space at the time when its mappings have the most accesses of the whole recording. The
//!    end of the recording would not do: a program unmaps its memory before it ends.
//!
//! Known limits: the counts do not distinguish times. If a program maps the same addresses again, the accesses of both
//! mappings are added. qemu-user maps ever higher addresses, so this happens only in the heap or at addresses that the
//! program chooses. Memory that `shmat` attaches belongs to no area.

use crate::{Batch, Event, EventKind, MappedFile, Recording, TraceError};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// The size of a page of x86-64, the recorded architecture, in bytes.
const PAGE: u64 = 4096;

const WRITE: u64 = 2;

/// The backing of a mapping.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backing {
    /// Private memory, at an address that the kernel chose.
    Anonymous,
    /// Private memory, at an address that the program chose.
    AnonymousFixed,
    /// Memory without a file that processes share.
    Shared,
    /// Memory without a file that existed when the program started. It is QEMU's own, unless more is known about it.
    Found,
    /// The first thread's stack.
    Stack,
    /// The heap (`brk`).
    Heap,
    /// Private memory that adjoins the last mapping of a file and belongs to it: the data that are zero when the
    /// program starts.
    BehindFile(PathBuf),
    /// A file.
    File(PathBuf),
}

impl Backing {
    /// The number in `EventKind::Map` is the position in this list. For a file it is `FILES` plus the file's number.
    const NUMBERED: [Self; 4] = [Self::Anonymous, Self::AnonymousFixed, Self::Shared, Self::Found];
    /// The number of memory that existed when the program started.
    pub const FOUND: u64 = 3;
    /// The number of the first file.
    pub const FILES: u64 = Self::NUMBERED.len() as u64;

    /// The number of memory without a file: shared or private, at a chosen address or not.
    pub fn number(shared: bool, fixed: bool) -> u64 {
        match (shared, fixed) {
            (false, false) => 0,
            (false, true) => 1,
            (true, _) => 2,
        }
    }

    fn of(number: u64, files: &[MappedFile]) -> Option<Self> {
        let Some(file) = number.checked_sub(Self::FILES) else {
            return Self::NUMBERED.get(usize::try_from(number).ok()?).cloned();
        };
        let file = files.iter().find(|known| known.number == file)?;
        Some(Self::File(file.file.clone()))
    }
}

/// The text of `/proc/PID/maps` if it has one, otherwise a description.
impl std::fmt::Display for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Anonymous | Self::AnonymousFixed => f.write_str("anonymous"),
            Self::Shared => f.write_str("shared anonymous"),
            Self::Found => f.write_str("mapped at the start"),
            Self::Stack => f.write_str("[stack]"),
            Self::Heap => f.write_str("[heap]"),
            Self::BehindFile(file) => write!(f, "zeroed data of {}", file.display()),
            Self::File(file) => write!(f, "{}", file.display()),
        }
    }
}

impl Serialize for Backing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A part of the address space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Area {
    /// The first byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
    /// The backing.
    pub backing: Backing,
    /// The offset in the file, or in the anonymous mapping that it is a part of, in bytes.
    pub offset: u64,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it is accessible.
    pub accessible: bool,
    /// The position in the order of all mappings. The parts of one mapping share it.
    pub order: u64,
    /// The accesses of all threads.
    pub accesses: u64,
}

/// The accesses to one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageAccesses {
    /// The first byte.
    pub address: u64,
    /// The accesses of each thread, by its number in the recording.
    pub threads: Vec<(u32, u64)>,
}

/// The address space of the recorded program, and its accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    /// The areas by address, without overlap.
    pub areas: Vec<Area>,
    /// The pages with accesses, by address.
    pub pages: Vec<PageAccesses>,
    /// The files that back areas.
    pub files: Vec<MappedFile>,
}

impl Mappings {
    /// Reads a whole recording. Errors: the file cannot be read, or is of a version without mappings.
    pub fn of(recording: &Recording) -> Result<Self, TraceError> {
        recording.check_mappings()?;
        let mut mapper = Mapper::default();
        let mut batch: Batch = Batch::default();
        for thread in recording.threads() {
            let mut reader = recording.read(thread);
            while reader.next_batch(&mut batch)? {
                for access in &batch.accesses {
                    mapper.access(thread.number, access.address);
                }
                batch.events.iter().for_each(|(_, event)| mapper.event(event));
            }
        }
        Ok(mapper.finish(recording.mapped_files()))
    }
}

/// Collects `Mappings` from accesses and events.
#[derive(Default)]
pub(crate) struct Mapper {
    changes: Vec<(u64, EventKind)>,
    pages: HashMap<u64, Vec<(u32, u64)>>,
    /// The thread and page of the last accesses, and the number of accesses that are not in `pages` yet. Most accesses
    /// are to the same page as the previous one.
    run: (u32, u64, u64),
}

impl Mapper {
    /// Counts an access.
    #[inline]
    pub(crate) fn access(&mut self, thread: u32, address: u64) {
        let page = address / PAGE;
        if (self.run.0, self.run.1) == (thread, page) {
            self.run.2 += 1;
        } else {
            self.end_run();
            self.run = (thread, page, 1);
        }
    }

    fn end_run(&mut self) {
        let (thread, page, accesses) = std::mem::take(&mut self.run);
        if accesses == 0 {
            return;
        }
        let threads = self.pages.entry(page).or_default();
        match threads.iter_mut().find(|(known, _)| *known == thread) {
            Some((_, count)) => *count += accesses,
            None => threads.push((thread, accesses)),
        }
    }

    /// Adds an event.
    pub(crate) fn event(&mut self, event: &Event) {
        if matches!(
            event.kind,
            EventKind::Unmap { .. }
                | EventKind::Map { .. }
                | EventKind::Protect { .. }
                | EventKind::Remap { .. }
                | EventKind::Break { .. }
                | EventKind::Stack { .. }
        ) {
            self.changes.push((event.sequence, event.kind));
        }
    }

    pub(crate) fn finish(mut self, files: &[MappedFile]) -> Mappings {
        self.end_run();
        self.changes.sort_unstable_by_key(|&(sequence, _)| sequence);
        let mut pages: Vec<PageAccesses> = self
            .pages
            .into_iter()
            .map(|(page, threads)| PageAccesses {
                address: page * PAGE,
                threads,
            })
            .collect();
        pages.sort_unstable_by_key(|page| page.address);
        let sums = Sums::new(&pages);
        let stack = self.changes.iter().find_map(|&(_, change)| match change {
            EventKind::Stack { address } => Some(address),
            _ => None,
        });
        let replayed = |changes: &[(u64, EventKind)], after_each: &mut dyn FnMut(u64)| {
            let mut space = AddressSpace::default();
            let mut accesses = 0i128;
            for &(order, change) in changes {
                accesses += space.change(order, change, files, &sums);
                after_each(u64::try_from(accesses).unwrap_or(0));
            }
            space
        };
        let (mut best, mut most, mut at) = (0, 0, 0);
        replayed(&self.changes, &mut |accesses| {
            at += 1;
            // At a tie the last one wins: it also has mappings without accesses.
            if accesses >= most {
                (best, most) = (at, accesses);
            }
        });
        let space = replayed(&self.changes[..best], &mut |_| {});
        Mappings {
            areas: space.into_areas(stack, &sums),
            pages,
            files: files.to_vec(),
        }
    }
}

/// The number of accesses below each page.
struct Sums {
    addresses: Vec<u64>,
    before: Vec<u64>,
}

impl Sums {
    fn new(pages: &[PageAccesses]) -> Self {
        let mut sum = 0;
        let mut before = vec![0];
        for page in pages {
            sum += page.threads.iter().map(|&(_, accesses)| accesses).sum::<u64>();
            before.push(sum);
        }
        Self {
            addresses: pages.iter().map(|page| page.address).collect(),
            before,
        }
    }

    fn within(&self, start: u64, end: u64) -> u64 {
        let below = |address| self.before[self.addresses.partition_point(|&page| page < address)];
        below(end).saturating_sub(below(start))
    }
}

/// A mapping, or a part of it, by its first byte.
#[derive(Clone, Debug)]
struct Part {
    end: u64,
    backing: Backing,
    offset: u64,
    protection: u64,
    order: u64,
}

#[derive(Default)]
struct AddressSpace {
    parts: BTreeMap<u64, Part>,
    /// The start and the end of the heap.
    heap: Option<(u64, u64)>,
}

impl AddressSpace {
    /// Applies a change. Returns the growth of the accesses to mapped memory.
    fn change(&mut self, order: u64, change: EventKind, files: &[MappedFile], sums: &Sums) -> i128 {
        match change {
            EventKind::Map {
                address,
                length,
                protection,
                backing,
                offset,
            } => {
                let end = page_end(address.saturating_add(length));
                let gone = self.cut(address, end, sums);
                let Some(backing) = Backing::of(backing, files) else {
                    return -gone.1;
                };
                let part = Part {
                    end,
                    backing,
                    offset,
                    protection,
                    order,
                };
                self.put(address, part, sums) - gone.1
            }
            EventKind::Unmap { address, length } => {
                -self.cut(address, page_end(address.saturating_add(length)), sums).1
            }
            EventKind::Protect {
                address,
                length,
                protection,
            } => {
                let (parts, _) = self.cut(address, page_end(address.saturating_add(length)), sums);
                for (start, part) in parts {
                    self.put(start, Part { protection, ..part }, sums);
                }
                0
            }
            EventKind::Remap {
                from,
                old_length,
                address,
                length,
            } => {
                let (parts, before) = self.cut(from, page_end(from.saturating_add(old_length)), sums);
                let end = page_end(address.saturating_add(length));
                let replaced = self.cut(address, end, sums).1;
                let Some((_, first)) = parts.into_iter().next() else {
                    return -before - replaced;
                };
                self.put(address, Part { end, order, ..first }, sums) - before - replaced
            }
            EventKind::Break { address } => self.set_break(order, address, sums),
            _ => 0,
        }
    }

    fn set_break(&mut self, order: u64, address: u64, sums: &Sums) -> i128 {
        let end = page_end(address);
        let (begin, old_end) = *self.heap.get_or_insert((end, end));
        self.heap = Some((begin, end));
        let gone = self.cut(begin, old_end, sums).1;
        let part = Part {
            end,
            backing: Backing::Heap,
            offset: 0,
            protection: 1 | WRITE,
            order,
        };
        self.put(begin, part, sums) - gone
    }

    fn put(&mut self, start: u64, part: Part, sums: &Sums) -> i128 {
        if start >= part.end {
            return 0;
        }
        let accesses = sums.within(start, part.end);
        self.parts.insert(start, part);
        i128::from(accesses)
    }

    /// Removes the mappings between two addresses. Returns them and their accesses.
    fn cut(&mut self, start: u64, end: u64, sums: &Sums) -> (Vec<(u64, Part)>, i128) {
        if start >= end {
            return (vec![], 0);
        }
        for at in [start, end] {
            self.split(at);
        }
        let within: Vec<u64> = self.parts.range(start..end).map(|(&start, _)| start).collect();
        let taken: Vec<(u64, Part)> = within
            .into_iter()
            .filter_map(|start| Some((start, self.parts.remove(&start)?)))
            .collect();
        let accesses = taken
            .iter()
            .map(|(start, part)| sums.within(*start, part.end))
            .sum::<u64>();
        (taken, i128::from(accesses))
    }

    /// Splits the part that contains an address.
    fn split(&mut self, at: u64) {
        let Some((&start, part)) = self.parts.range_mut(..at).next_back() else {
            return;
        };
        if part.end <= at {
            return;
        }
        let behind = Part {
            offset: part.offset.saturating_add(at - start),
            ..part.clone()
        };
        part.end = at;
        self.parts.insert(at, behind);
    }

    fn into_areas(self, stack: Option<u64>, sums: &Sums) -> Vec<Area> {
        let mut areas: Vec<Area> = vec![];
        for (start, part) in self.parts {
            let before = areas
                .last()
                .filter(|before| before.end == start)
                .map(|before| &before.backing);
            let backing = match (part.backing, before) {
                (Backing::Anonymous | Backing::AnonymousFixed | Backing::Found, _)
                    if stack.is_some_and(|stack| (start..part.end).contains(&stack)) =>
                {
                    Backing::Stack
                }
                (Backing::AnonymousFixed | Backing::Found, Some(Backing::File(file) | Backing::BehindFile(file))) => {
                    Backing::BehindFile(file.clone())
                }
                (backing, _) => backing,
            };
            areas.push(Area {
                start,
                end: part.end,
                backing,
                offset: part.offset,
                writable: part.protection & WRITE != 0,
                accessible: part.protection != 0,
                order: part.order,
                accesses: sums.within(start, part.end),
            });
        }
        areas
    }
}

fn page_end(address: u64) -> u64 {
    address.checked_next_multiple_of(PAGE).unwrap_or(address / PAGE * PAGE)
}

#[cfg(test)]
mod tests;
