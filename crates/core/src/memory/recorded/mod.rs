//! Maps accesses of a recorded run to the addresses of another run of the program.
//!
//! The kernel places memory at other addresses in each run. So areas are matched by what backs them:
//!
//! - a file by its name and the offset in it, and the zeroed data behind it by their offset there;
//! - the heap by the distance from its begin, the first thread's stack by the distance from its end, where a program
//!   begins;
//! - other memory by its length, and areas of equal length in the order in which they were mapped. The kernel maps from
//!   the highest address down (mm/mmap.c, `arch_get_unmapped_area_topdown`) and merges neighbours. So an area of the
//!   running program may be several that were mapped one after the other, the first of them on top. Some mapped between
//!   may have found room elsewhere: then the only selection of areas with that length counts.
//!
//! Memory without a counterpart is counted with the reason. Threads are matched by rank, in the order of their
//! creation.
//!
//! Known limits: where the address space is laid out from the bottom (`ulimit -s unlimited`), neighbours are matched in
//! the wrong order. Shared libraries must be the recorded ones.

use super::{AccessProfile, MemoryArea};
use crate::code::codes;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// What backs an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappedBacking {
    /// Private memory: stacks of threads, memory of allocators.
    Anonymous,
    /// Shared memory without a file.
    Shared,
    /// The heap (`brk`).
    Heap,
    /// The first thread's stack.
    Stack,
    /// A file, from this offset in bytes.
    File(PathBuf, u64),
    /// The zeroed data behind a file's last mapping, from this offset. Only in a recording: in a running program they
    /// look like other memory.
    BehindFile(PathBuf, u64),
    /// Memory that has no counterpart in another run.
    Other,
}

/// A part of an address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedArea {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last one.
    pub end: u64,
    /// What backs it.
    pub backing: MappedBacking,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it is accessible.
    pub accessible: bool,
}

impl MappedArea {
    fn length(&self) -> u64 {
        self.end - self.start
    }
}

/// A part of the recorded program's address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedArea {
    /// Its addresses.
    pub area: MappedArea,
    /// Its name in messages.
    pub name: String,
    /// Its position in the order of mapping.
    pub order: u64,
    /// Whether its file has changed since the recording.
    pub changed: bool,
}

/// The recorded accesses by page and thread, and the recorded areas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedProfile {
    /// The recording.
    pub recording: String,
    /// The file that was run.
    pub program: PathBuf,
    /// The number of threads.
    pub threads: usize,
    /// The areas, by address, without overlap.
    pub areas: Vec<RecordedArea>,
    /// The first bytes of pages, by address, and the accesses by thread.
    pub pages: Vec<(u64, Vec<(u32, u64)>)>,
}

codes! {
    /// Why accesses have no counterpart in the running program.
    pub enum Mismatch for "page_profiles.unmatched.why" {
        /// The file has changed since the recording.
        FileChanged = "file_changed",
        /// The running program has not mapped that part of the file, or its heap or stack is smaller.
        NotMapped = "not_mapped",
        /// It has no unmatched memory of that length.
        NoEqual = "no_equal",
        /// It was not mapped when the recording's address space was taken.
        GivenBack = "given_back",
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FileChanged => "the file has changed since it was recorded: record the program again",
            Self::NotMapped => "the running program has not mapped it, or less of it",
            Self::NoEqual => "the running program has no memory of that length left",
            Self::GivenBack => "the recorded program had given it back, or not mapped it yet",
        })
    }
}

/// A recorded area without a counterpart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmatchedArea {
    /// Its name in messages.
    pub area: String,
    /// Its bytes; `None` for memory that was unmapped.
    pub bytes: Option<u64>,
    /// The accesses without a counterpart.
    pub accesses: u64,
    /// Why.
    pub why: Mismatch,
    /// The same as text.
    #[serde(default)]
    pub text: String,
}

/// The result of mapping a recording's accesses to a running program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profiled {
    /// The recording.
    pub recording: String,
    /// How many threads were recorded.
    pub threads: usize,
    /// All accesses that were recorded.
    pub accesses: u64,
    /// Those that have a counterpart in the running program.
    pub matched: u64,
    /// Pages of the running program with accesses; a huge page is one page.
    pub pages: u64,
    /// Areas with accesses that have a counterpart for all of them.
    pub areas: u64,
    /// The other areas, in descending order of unmatched accesses.
    pub unmatched: Vec<UnmatchedArea>,
}

/// A sentence for the user.
impl fmt::Display for Profiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |accesses: u64| accesses as f64 / self.accesses.max(1) as f64 * 100.0;
        write!(
            f,
            "{:.1} % of those in {} are to {} pages of this run",
            share(self.matched),
            self.recording,
            self.pages
        )?;
        if let Some(most) = self.unmatched.first() {
            let others = self.unmatched.len() - 1;
            write!(f, "; {:.1} % are to {}: {}", share(most.accesses), most.area, most.why)?;
            if others > 0 {
                write!(f, "; {others} more areas have no counterpart for some of theirs")?;
            }
        }
        Ok(())
    }
}

impl RecordedProfile {
    /// The accesses at the addresses of another run. `running` has its mappings, by address, and `areas` its areas in
    /// memory. Pages come from `areas`, or have `page_size` bytes. Threads keep the recording's numbers, which are
    /// ranks.
    pub fn on(&self, running: &[MappedArea], areas: &[MemoryArea], page_size: u64) -> (AccessProfile, Profiled) {
        let matching = Matching::of(&self.areas, running);
        let mut profile = AccessProfile::default();
        let mut profiled = Profiled {
            recording: self.recording.clone(),
            threads: self.threads,
            ..Profiled::default()
        };
        // All accesses and the unmatched ones, by the position of the area; `None` if there was no area.
        let mut by_area: BTreeMap<Option<usize>, (u64, u64)> = BTreeMap::new();
        for (address, threads) in &self.pages {
            let accesses: u64 = threads.iter().map(|&(_, accesses)| accesses).sum();
            profiled.accesses += accesses;
            let (all, unmatched) = by_area.entry(self.area_at(*address)).or_default();
            *all += accesses;
            let Some(to) = matching.address(*address) else {
                *unmatched += accesses;
                continue;
            };
            profiled.matched += accesses;
            let (page, bytes) = MemoryArea::page_at(areas, page_size, to);
            for &(thread, accesses) in threads {
                profile.add(page, bytes, thread, accesses);
            }
        }
        profiled.pages = profile.len() as u64;
        for (place, (_, accesses)) in by_area {
            if accesses == 0 {
                profiled.areas += 1;
            } else {
                profiled.unmatched.push(self.unmatched(place, accesses));
            }
        }
        profiled.unmatched.sort_by_key(|area| Reverse(area.accesses));
        (profile, profiled)
    }

    fn area_at(&self, address: u64) -> Option<usize> {
        let after = self.areas.partition_point(|area| area.area.start <= address);
        let place = after.checked_sub(1)?;
        (address < self.areas[place].area.end).then_some(place)
    }

    fn unmatched(&self, place: Option<usize>, accesses: u64) -> UnmatchedArea {
        let area = place.map(|place| &self.areas[place]);
        let why = match area {
            None => Mismatch::GivenBack,
            Some(area) if area.changed => Mismatch::FileChanged,
            Some(area) => match area.area.backing {
                MappedBacking::Anonymous | MappedBacking::Shared => Mismatch::NoEqual,
                _ => Mismatch::NotMapped,
            },
        };
        UnmatchedArea {
            area: area.map_or_else(|| "memory without an area".to_owned(), |area| area.name.clone()),
            bytes: area.map(|area| area.area.length()),
            accesses,
            why,
            text: why.to_string(),
        }
    }
}

/// The counterparts of recorded addresses in the running program.
#[derive(Debug, Default)]
struct Matching {
    /// By first byte: the byte after the last one, and the counterpart of the first byte. Where ranges overlap, the
    /// later begin counts.
    stretches: BTreeMap<u64, (u64, u64)>,
}

impl Matching {
    fn of(recorded: &[RecordedArea], running: &[MappedArea]) -> Self {
        let mut matching = Self::default();
        let usable: Vec<&RecordedArea> = recorded
            .iter()
            .filter(|area| area.area.accessible && !area.changed)
            .collect();
        for recorded in &usable {
            matching.by_place(&recorded.area, running);
        }
        for shared in [false, true] {
            let pool = by_length(&usable, running, shared);
            let mut mapped: Vec<&RecordedArea> = usable
                .iter()
                .copied()
                .filter(|area| area.area.backing == kind(shared))
                .collect();
            mapped.sort_by_key(|area| (area.order, area.area.start));
            matching.by_length(&mapped, pool);
        }
        matching
    }

    /// The address in the running program.
    fn address(&self, recorded: u64) -> Option<u64> {
        let (&start, &(end, to)) = self.stretches.range(..=recorded).next_back()?;
        (recorded < end).then_some(to + (recorded - start))
    }

    /// Matches areas that have an offset in an object of both runs.
    fn by_place(&mut self, recorded: &MappedArea, running: &[MappedArea]) {
        match &recorded.backing {
            MappedBacking::File(path, offset) => {
                // If only another protection is found, the protection has changed since, or before.
                for same_protection in [false, true] {
                    for area in running {
                        let MappedBacking::File(its_path, its_offset) = &area.backing else {
                            continue;
                        };
                        if its_path == path && (!same_protection || area.writable == recorded.writable) {
                            self.overlap(recorded, *offset, area, *its_offset);
                        }
                    }
                }
            }
            MappedBacking::BehindFile(path, offset) => {
                if let Some(area) = behind(path, running) {
                    self.overlap(recorded, *offset, area, 0);
                }
            }
            MappedBacking::Heap => {
                let mut heap = running.iter().filter(|area| area.backing == MappedBacking::Heap);
                if let Some(first) = heap.next() {
                    let last = heap.next_back().unwrap_or(first);
                    let whole = MappedArea {
                        end: last.end,
                        ..first.clone()
                    };
                    self.overlap(recorded, 0, &whole, 0);
                }
            }
            MappedBacking::Stack => {
                if let Some(stack) = running.iter().find(|area| area.backing == MappedBacking::Stack) {
                    let length = recorded.length().min(stack.length());
                    self.put(recorded.end - length, recorded.end, stack.end - length);
                }
            }
            MappedBacking::Anonymous | MappedBacking::Shared | MappedBacking::Other => {}
        }
    }

    /// Matches the common part of two areas that begin at these offsets of the same object.
    fn overlap(&mut self, recorded: &MappedArea, place: u64, running: &MappedArea, its_place: u64) {
        let first = place.max(its_place);
        let end = (place + recorded.length()).min(its_place + running.length());
        if first < end {
            let start = recorded.start + (first - place);
            self.put(start, start + (end - first), running.start + (first - its_place));
        }
    }

    /// Matches each area of `pool`, the longest first, with the first run of mappings of the same length.
    fn by_length(&mut self, mapped: &[&RecordedArea], mut pool: Vec<(u64, u64)>) {
        pool.sort_unstable_by_key(|&(start, end)| (Reverse(end - start), Reverse(start)));
        let mut lengths: Vec<Option<u64>> = mapped.iter().map(|area| Some(area.area.length())).collect();
        let run = |lengths: &[Option<u64>], sum| Some(run_of(lengths, sum)?.collect::<Vec<_>>());
        for find in [run, only_selection_of] {
            pool.retain(|&(start, end)| {
                let Some(found) = find(&lengths, end - start) else {
                    return true;
                };
                let mut top = end;
                for place in found {
                    lengths[place] = None;
                    let area = &mapped[place].area;
                    top -= area.length();
                    self.put(area.start, area.end, top);
                }
                false
            });
        }
    }

    /// The later of two counterparts of a byte counts.
    fn put(&mut self, start: u64, end: u64, to: u64) {
        for at in [start, end] {
            if let Some((&before, &(its_end, its_to))) = self.stretches.range(..at).next_back()
                && its_end > at
            {
                self.stretches.insert(before, (at, its_to));
                self.stretches.insert(at, (its_end, its_to + (at - before)));
            }
        }
        let replaced: Vec<u64> = self.stretches.range(start..end).map(|(&start, _)| start).collect();
        for start in replaced {
            self.stretches.remove(&start);
        }
        self.stretches.insert(start, (end, to));
    }
}

fn kind(shared: bool) -> MappedBacking {
    if shared {
        MappedBacking::Shared
    } else {
        MappedBacking::Anonymous
    }
}

/// The memory that begins where the last mapping of a file ends.
fn behind<'a>(path: &PathBuf, running: &'a [MappedArea]) -> Option<&'a MappedArea> {
    let is_its = |area: &&MappedArea| matches!(&area.backing, MappedBacking::File(its, _) if its == path);
    let last = running.iter().rfind(is_its)?;
    let behind = running.iter().find(|area| area.start == last.end)?;
    (behind.backing == MappedBacking::Anonymous).then_some(behind)
}

/// The running program's memory that is matched by length. The zeroed data behind a file, which may be in the same
/// area, is left out.
fn by_length(recorded: &[&RecordedArea], running: &[MappedArea], shared: bool) -> Vec<(u64, u64)> {
    let mut behind_files: BTreeMap<u64, u64> = BTreeMap::new();
    for area in recorded {
        if let MappedBacking::BehindFile(path, offset) = &area.area.backing
            && let Some(behind) = behind(path, running)
        {
            let end = behind.start + offset + area.area.length();
            let known = behind_files.entry(behind.start).or_default();
            *known = end.max(*known);
        }
    }
    let rest = |area: &MappedArea| {
        let start = behind_files
            .get(&area.start)
            .map_or(area.start, |&end| end.max(area.start));
        (area.backing == kind(shared) && area.accessible && start < area.end).then_some((start, area.end))
    };
    running.iter().filter_map(rest).collect()
}

/// The first run of lengths with this sum; one length is preferred to several. `None` ends a run.
fn run_of(lengths: &[Option<u64>], sum: u64) -> Option<std::ops::RangeInclusive<usize>> {
    if let Some(one) = lengths.iter().position(|&length| length == Some(sum)) {
        return Some(one..=one);
    }
    let (mut first, mut so_far) = (0, 0);
    for (last, length) in lengths.iter().enumerate() {
        let Some(length) = length else {
            (first, so_far) = (last + 1, 0);
            continue;
        };
        so_far += length;
        while so_far > sum {
            so_far -= lengths[first].unwrap_or(0);
            first += 1;
        }
        if so_far == sum && first <= last {
            return Some(first..=last);
        }
    }
    None
}

/// The most lengths among which a selection is searched.
const MOST_SELECTABLE: usize = 16;

/// The only selection of lengths with this sum, in their order. `None` if there are several, or too many lengths.
fn only_selection_of(lengths: &[Option<u64>], sum: u64) -> Option<Vec<usize>> {
    let fit = |(place, length): (usize, &Option<u64>)| Some((place, length.filter(|&length| length <= sum)?));
    let left: Vec<(usize, u64)> = lengths.iter().enumerate().filter_map(fit).collect();
    if left.len() > MOST_SELECTABLE {
        return None;
    }
    let chosen = |set: u32| left.iter().enumerate().filter(move |(bit, _)| set >> bit & 1 == 1);
    let mut sets =
        (1u32..1 << left.len()).filter(|&set| chosen(set).map(|(_, (_, length))| length).sum::<u64>() == sum);
    let set = sets.next().filter(|_| sets.next().is_none())?;
    Some(chosen(set).map(|(_, &(place, _))| place).collect())
}

#[cfg(test)]
mod tests;
