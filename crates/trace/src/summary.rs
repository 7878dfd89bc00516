//! The content of a recording: threads, regions, accesses, footprint, sharing; and metrics of a program's memory
//! behaviour that do not depend on a machine.

use crate::footprint::Footprint;
use crate::mappings::Mapper;
use crate::reuse::ReuseDistances;
use crate::{Area, Batch, EventKind, Recording, Thread, TraceError};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// The binary logarithm of a cache line's bytes on all x86-64 processors, for the footprint.
const LINE_SHIFT: u32 = 6;
const PAGE_SHIFT: u32 = 12;
/// The most threads for counts of all pairs: 128 MiB of counts.
const MOST_COMMUNICATING: usize = 4096;

/// The counts of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadSummary {
    /// The number of the thread in the recording, in the order of creation.
    pub number: u32,
    /// The kernel's id of the thread.
    pub kernel_id: Option<u32>,
    /// The number of the creating thread.
    pub parent: Option<u32>,
    /// Data accesses.
    pub accesses: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of its accesses.
    pub bytes: u64,
    /// Instructions, including those outside the window.
    pub instructions: u64,
    /// 64-byte lines that it touched.
    pub lines: u64,
    /// 4 KiB pages that it touched.
    pub pages: u64,
    /// Barriers of its team that it passed.
    pub barriers: u64,
    /// The number of times that it waited for a futex.
    pub futex_waits: u64,
    /// Bytes in the file.
    pub stored: u64,
}

/// A parallel region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegionSummary {
    /// The number in the order of first starts, as `--region` takes it.
    pub number: usize,
    /// The address of the region's function.
    pub address: u64,
    /// The file with the region's code. `None` if the code is not in a file.
    pub file: Option<PathBuf>,
    /// The name of the region's function. A recording has no names: a caller that can read the file sets this.
    pub function: Option<String>,
    /// The number of executions.
    pub executions: u64,
    /// The largest team that the region requested. `None` if the runtime chose.
    pub threads: Option<u64>,
}

/// The content of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The threads, in the order of their creation.
    pub threads: Vec<ThreadSummary>,
    /// The parallel regions, in the order of their first starts.
    pub regions: Vec<RegionSummary>,
    /// 64-byte lines that any thread touched.
    pub lines: u64,
    /// 4 KiB pages that any thread touched.
    pub pages: u64,
    /// Lines that two threads or more touched.
    pub shared_lines: u64,
    /// Lines that one thread wrote and another touched.
    pub written_shared_lines: u64,
    /// Whether the numbers of lines and pages are exact. They are estimates if the footprint is very large.
    pub exact_footprint: bool,
    /// The accessed parts of the address space, by address, at the time when its mappings have the most accesses.
    /// `None` if the recording's version has no mappings.
    pub areas: Option<Vec<Area>>,
    /// Bytes of the file.
    pub stored: u64,
}

/// The memory behaviour of a program, independent of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// Reads per write; `None` without writes.
    pub reads_per_write: Option<f64>,
    /// Data accesses per instruction; `None` without instructions.
    pub accesses_per_instruction: Option<f64>,
    /// Uses of lines by the number of other lines that the same thread used since the last use: `[0]` none, `[i]` from
    /// `2^(i-1)` to below `2^i`. They are estimates if a thread touches more than 32,768 lines.
    pub reuse_distances: Vec<u64>,
    /// Uses of a line that the thread had not used before.
    pub first_uses: u64,
    /// Accesses by the distance in bytes from the last access of the same instruction of the same thread: `[0]` the
    /// same address, `[i]` from `2^(i-1)` to below `2^i`, forwards or backwards.
    pub strides: Vec<u64>,
    /// Row: writer, column: reader, by thread number. The number of lines that the writer has written and the reader
    /// has read.
    pub communication: Vec<Vec<u64>>,
    /// Whether `communication` is exact. It is an estimate if the footprint is very large.
    pub exact_communication: bool,
}

impl Summary {
    /// Reads a whole recording. Errors: the file cannot be read.
    pub fn of(recording: &Recording) -> Result<Self, TraceError> {
        let mut counting = Counting::new(recording);
        let mut threads = recording
            .threads()
            .iter()
            .enumerate()
            .map(|(place, thread)| counting.thread(recording, place, thread))
            .collect::<Result<Vec<_>, _>>()?;
        let Counting {
            lines,
            pages,
            regions,
            mapper,
            ..
        } = counting;
        let (by_line, by_page) = (
            lines.lines_by_thread(threads.len()),
            pages.lines_by_thread(threads.len()),
        );
        for (summary, (lines, pages)) in threads.iter_mut().zip(by_line.into_iter().zip(by_page)) {
            (summary.lines, summary.pages) = (lines, pages);
        }
        let ordered: BTreeMap<u64, RegionSummary> = regions.into_values().collect();
        let (shared_lines, written_shared_lines) = lines.shared();
        Ok(Self {
            threads,
            regions: ordered
                .into_values()
                .enumerate()
                .map(|(number, region)| RegionSummary { number, ..region })
                .collect(),
            lines: lines.lines(),
            pages: pages.lines(),
            shared_lines,
            written_shared_lines,
            exact_footprint: lines.is_exact() && pages.is_exact(),
            areas: mapper.map(|mapper| {
                let mut areas = mapper.finish(recording.mapped_files()).areas;
                areas.retain(|area| area.accesses > 0);
                areas
            }),
            stored: recording.file_size(),
        })
    }
}

/// The counts of a recording while it is read.
struct Counting {
    lines: Footprint,
    pages: Footprint,
    /// For each identity, the position of the first start, which gives the region's number, and the summary.
    regions: HashMap<u64, (u64, RegionSummary)>,
    mapper: Option<Mapper>,
    batch: Batch,
}

impl Counting {
    fn new(recording: &Recording) -> Self {
        let count = recording.threads().len();
        Self {
            lines: Footprint::new(LINE_SHIFT, count),
            pages: Footprint::new(PAGE_SHIFT, count),
            regions: HashMap::new(),
            mapper: recording.check_mappings().is_ok().then(Mapper::default),
            batch: Batch::default(),
        }
    }

    /// Reads the thread at the position `place`.
    fn thread(&mut self, recording: &Recording, place: usize, thread: &Thread) -> Result<ThreadSummary, TraceError> {
        let mut summary = begin(thread);
        let mut reader = recording.read(thread);
        while reader.next_batch(&mut self.batch)? {
            for access in &self.batch.accesses {
                summary.writes += u64::from(access.write);
                summary.bytes += u64::from(access.size);
                self.lines.touch(place, access.address, access.size, access.write);
                self.pages.touch(place, access.address, access.size, access.write);
                if let Some(mapper) = &mut self.mapper {
                    mapper.access(thread.number, access.address);
                }
            }
            for (_, event) in &self.batch.events {
                if let Some(mapper) = &mut self.mapper {
                    mapper.event(event);
                }
                match event.kind {
                    EventKind::BarrierEnd {} => summary.barriers += 1,
                    EventKind::FutexWait { .. } => summary.futex_waits += 1,
                    EventKind::RegionBegin { region, threads } => {
                        count_region(&mut self.regions, recording, event.sequence, region, threads);
                    }
                    _ => {}
                }
            }
        }
        summary.reads = summary.accesses - summary.writes;
        Ok(summary)
    }
}

/// A region starts at the position `sequence` of the events, with a team of `threads`. 0 if the runtime chooses.
fn count_region(
    regions: &mut HashMap<u64, (u64, RegionSummary)>,
    recording: &Recording,
    sequence: u64,
    region: u64,
    threads: u64,
) {
    let (first, summary) = regions.entry(region).or_insert_with(|| {
        let place = recording.regions().iter().find(|place| place.identity == region);
        let summary = RegionSummary {
            number: 0,
            address: region,
            file: place.map(|place| place.file.clone()),
            function: None,
            executions: 0,
            threads: None,
        };
        (sequence, summary)
    });
    *first = (*first).min(sequence);
    summary.executions += 1;
    summary.threads = summary.threads.max((threads > 0).then_some(threads));
}

fn begin(thread: &Thread) -> ThreadSummary {
    ThreadSummary {
        number: thread.number,
        kernel_id: thread.kernel_id,
        parent: thread.parent,
        accesses: thread.accesses(),
        instructions: thread.instructions(),
        stored: thread.blocks.iter().map(|block| block.stored).sum(),
        ..ThreadSummary::default()
    }
}

impl Metrics {
    /// Reads a whole recording. Errors: the file cannot be read, or the counts of all pairs of threads do not fit the
    /// memory.
    pub fn of(recording: &Recording) -> Result<Self, TraceError> {
        let count = recording.threads().len();
        if count > MOST_COMMUNICATING {
            return Err(TraceError::TooManyThreads {
                path: recording.path().to_owned(),
                threads: count,
                most: MOST_COMMUNICATING,
            });
        }
        let mut lines = Footprint::new(LINE_SHIFT, count);
        let (mut reuse_distances, mut first_uses, mut strides) = (vec![], 0, vec![]);
        let (mut reads, mut writes, mut instructions) = (0_u64, 0_u64, 0);
        let mut batch: Batch = Batch::default();
        for (place, thread) in recording.threads().iter().enumerate() {
            let mut distances = ReuseDistances::new();
            let mut last_addresses: HashMap<(u64, bool), u64> = HashMap::new();
            let mut reader = recording.read(thread);
            while reader.next_batch(&mut batch)? {
                for access in &batch.accesses {
                    writes += u64::from(access.write);
                    lines.touch(place, access.address, access.size, access.write);
                    let last = access.address.saturating_add(u64::from(access.size) - 1);
                    for line in access.address >> LINE_SHIFT..=last >> LINE_SHIFT {
                        distances.touch(line);
                    }
                    if let Some(before) = last_addresses.insert((access.pc, access.write), access.address) {
                        let stride = access.address.abs_diff(before);
                        add(&mut strides, (u64::BITS - stride.leading_zeros()) as usize, 1);
                    }
                }
            }
            instructions += thread.instructions();
            reads += thread.accesses();
            let (counts, firsts) = distances.finish();
            first_uses += firsts;
            for (bucket, count) in counts.into_iter().enumerate() {
                add(&mut reuse_distances, bucket, count);
            }
        }
        let accesses = reads;
        reads -= writes;
        Ok(Self {
            reads_per_write: (writes > 0).then(|| reads as f64 / writes as f64),
            accesses_per_instruction: (instructions > 0).then(|| accesses as f64 / instructions as f64),
            reuse_distances,
            first_uses,
            strides,
            communication: lines.communication(count),
            exact_communication: lines.is_exact(),
        })
    }
}

fn add(histogram: &mut Vec<u64>, bucket: usize, count: u64) {
    if histogram.len() <= bucket {
        histogram.resize(bucket + 1, 0);
    }
    histogram[bucket] += count;
}
