//! The table of parallel regions. The agent in the program counts and times the regions there, and reads the size and
//! the placement of a region's team.
//!
//! The other side is `agent/regions.h`. Its structures are mirrored here, and a test compares the two. Processes reach
//! the segment like the channel's (`channel`), with the same limits: a process that cannot open it runs as without a
//! table.
//!
//! Each process has its own code addresses. So two processes of one program use two entries if their libraries are at
//! different addresses, and share one otherwise.

use crate::channel::create_memory;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use pinfold_core::{
    Configuration, Pinning, Prefetchers, PuId, Refusal, RefusalCode, RegionId, RegionKeeps, RegionSample,
};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// `PINFOLD_REGIONS_MAGIC`: "PFLDRGNS" in the memory of a little-endian machine.
const MAGIC: u64 = 0x534e_4752_444c_4650;
/// `PINFOLD_REGIONS_VERSION`.
const VERSION: u32 = 1;
/// `PINFOLD_REGIONS_MOST`.
const REGIONS: usize = 256;
/// `PINFOLD_REGION_PUS`.
const PUS: usize = 1024;

/// `PINFOLD_REGION_OWN_NUMBER`, `PINFOLD_REGION_TOO_MANY`, `PINFOLD_REGION_OWN_MASKS` and `PINFOLD_REGION_NOT_PLACED`.
const OWN_NUMBER: u32 = 1;
const TOO_MANY: u32 = 2;
const OWN_MASKS: u32 = 4;
const NOT_PLACED: u32 = 8;

/// `enum pinfold_region_flag`, and the message for each.
const FLAGS: [(u32, &str); 4] = [
    (
        OWN_NUMBER,
        "keeps its number of threads: the program sets it with num_threads or an if clause",
    ),
    (
        TOO_MANY,
        "keeps its number of threads: the wanted number is above omp_get_max_threads(), and the program may have sized \
         its arrays by that; set OMP_NUM_THREADS to the number of cores",
    ),
    (
        OWN_MASKS,
        "keeps its threads where they are: the program sets affinity masks itself",
    ),
    (
        NOT_PLACED,
        "keeps its threads where they are: the function of a region with task reductions must reach the runtime \
         unchanged",
    ),
];

/// What a configuration cannot change of a region with these flags.
fn keeps(flags: u32) -> RegionKeeps {
    RegionKeeps {
        threads: flags & (OWN_NUMBER | TOO_MANY) != 0,
        places: flags & (OWN_MASKS | NOT_PLACED) != 0,
    }
}

/// A region with at least `KNOWN` executions is short if their mean is below `SHORT`, in nanoseconds. Then timing it
/// costs more than half a percent of its time, and a policy that ignores this cost would not place it
/// (`auto/regions.rs`).
const KNOWN: u64 = 256;
const SHORT: u64 = 20_000;

/// `struct pinfold_region`.
#[repr(C)]
struct RegionEntry {
    code: AtomicU64,
    executions: AtomicU64,
    nanoseconds: AtomicU64,
    flags: AtomicU32,
    threads: AtomicU32,
    placed: AtomicU32,
    ignored: AtomicU32,
    pus: [AtomicU16; PUS],
}

/// `struct pinfold_regions`: the whole segment.
#[repr(C)]
struct RegionSegment {
    magic: AtomicU64,
    version: AtomicU32,
    active: AtomicU32,
    regions: [RegionEntry; REGIONS],
}

/// A table that a program's processes can map.
#[derive(Debug)]
pub struct RegionTable {
    file: OwnedFd,
    segment: NonNull<RegionSegment>,
    /// The PUs that threads of some region run or ran on.
    placed: BTreeSet<PuId>,
    /// The flags that were already reported for each region.
    reported: BTreeSet<(RegionId, u32)>,
    /// The number of settings for regions so far.
    generation: u32,
    /// Whether regions that are too short for a separate placement are not timed any more.
    ignores_short: bool,
}

// SAFETY: the mapping is not tied to a thread. After creation all of it is atomic.
unsafe impl Send for RegionTable {}
// SAFETY: as above.
unsafe impl Sync for RegionTable {}

impl RegionTable {
    /// Creates a table without regions and without requests. With `ignores_short` the agent stops timing regions that
    /// are so short that the timing costs something: two clock reads are a sixth of the shortest one.
    pub fn create(ignores_short: bool) -> io::Result<Self> {
        let file = File::from(create_memory(c"pinfold-regions")?);
        file.set_len(size_of::<RegionSegment>() as u64)?;
        file.write_all_at(&VERSION.to_ne_bytes(), offset_of!(RegionSegment, version) as u64)?;
        file.write_all_at(&MAGIC.to_ne_bytes(), offset_of!(RegionSegment, magic) as u64)?;
        // Without the seals, a program could truncate the file, and the next read would end pinfold with SIGBUS.
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let length = NonZeroUsize::new(size_of::<RegionSegment>()).expect("the segment has a header");
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses, as long as the file, which cannot shrink.
        let address = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, &file, 0) }?;
        Ok(Self {
            file: file.into(),
            segment: address.cast(),
            placed: BTreeSet::new(),
            reported: BTreeSet::new(),
            generation: 0,
            ignores_short,
        })
    }

    /// The environment variable that the program needs.
    pub fn environment(&self) -> (OsString, OsString) {
        let path = format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd());
        ("PINFOLD_REGIONS".into(), path.into())
    }

    fn segment(&self) -> &RegionSegment {
        // SAFETY: the mapping lives as long as `self`, and all of it is atomic.
        unsafe { self.segment.as_ref() }
    }

    /// The entries in use, with their regions.
    fn entries(&self) -> impl Iterator<Item = (RegionId, &RegionEntry)> {
        self.segment().regions.iter().filter_map(|entry| {
            let code = entry.code.load(Ordering::Acquire);
            (code != 0).then_some((RegionId(code), entry))
        })
    }

    /// The regions that have been executed, by address.
    pub fn samples(&self) -> Vec<RegionSample> {
        let sample = |(id, entry): (RegionId, &RegionEntry)| {
            let executions = entry.executions.load(Ordering::Acquire);
            let nanoseconds = entry.nanoseconds.load(Ordering::Relaxed);
            if self.ignores_short && executions >= KNOWN && nanoseconds / executions < SHORT {
                entry.ignored.store(1, Ordering::Relaxed);
            }
            (executions > 0).then(|| RegionSample {
                id,
                executions: executions as f64,
                seconds: nanoseconds as f64 / 1e9,
                counts: None,
                keeps: keeps(entry.flags.load(Ordering::Relaxed)),
            })
        };
        let mut samples: Vec<RegionSample> = self.entries().filter_map(sample).collect();
        samples.sort_by_key(|sample| sample.id);
        samples
    }

    /// Writes the requests of `configuration` for each region. Regions that it does not name run in its pinning.
    ///
    /// If it names no region and pins threads, this process places them, and the agent does nothing. If it pins
    /// nothing, the agent undoes its earlier pinnings.
    pub fn plan(&mut self, configuration: &Configuration) {
        let names_none = configuration.regions.is_empty();
        let others = configuration.pinning.as_ref().filter(|_| !names_none);
        let regions = configuration.regions.values();
        let pinnings = regions.filter_map(|region| region.pinning.as_ref()).chain(others);
        self.placed.extend(pinnings.flat_map(Pinning::pus));
        for (id, entry) in self.entries() {
            let wanted = configuration.regions.get(&id);
            let pinning = wanted.map_or(others, |wanted| wanted.pinning.as_ref());
            let pus = pinning.map_or(&[][..], Pinning::pus);
            for (place, pu) in entry.pus.iter().zip(pus) {
                place.store(u16::try_from(pu.0).unwrap_or(u16::MAX), Ordering::Relaxed);
            }
            let number = u32::try_from(pus.len().min(PUS)).unwrap_or(0);
            entry.placed.store(number, Ordering::Release);
            let threads = wanted.and_then(|wanted| wanted.threads).unwrap_or(0);
            entry
                .threads
                .store(u32::try_from(threads).unwrap_or(0), Ordering::Release);
        }
        let acts = if names_none {
            !configuration.pins() && self.is_active()
        } else {
            configuration.pins() || self.is_active()
        };
        if acts {
            self.generation = self.generation.wrapping_add(1).max(1);
        }
        let active = if acts { self.generation } else { 0 };
        self.segment().active.store(active, Ordering::Release);
    }

    /// Whether there was ever a request for regions.
    pub(crate) fn is_active(&self) -> bool {
        self.generation > 0
    }

    /// The PUs that the agent may have pinned threads on. `None` if it has pinned none: no region was ever to run on
    /// PUs, or the agent has seen the program set masks itself.
    pub(crate) fn pinned(&self) -> Option<&BTreeSet<PuId>> {
        let sets_masks = |(_, entry): (RegionId, &RegionEntry)| entry.flags.load(Ordering::Relaxed) & OWN_MASKS != 0;
        (self.is_active() && !self.entries().any(sets_masks)).then_some(&self.placed)
    }

    /// Whether the agent may have pinned a thread that may only use this PU.
    pub(crate) fn may_have_pinned(&self, pu: PuId) -> bool {
        self.pinned().is_some_and(|pinned| pinned.contains(&pu))
    }

    /// Why regions do not get the requested placement, each reason once, in whole sentences.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        let mut notes = vec![];
        let flags: Vec<(RegionId, u32)> = self
            .entries()
            .map(|(id, entry)| (id, entry.flags.load(Ordering::Relaxed)))
            .collect();
        for (id, flags) in flags {
            for (flag, what) in FLAGS {
                if flags & flag != 0 && self.is_active() && self.reported.insert((id, flag)) {
                    notes.push(format!("Region {id} {what}."));
                }
            }
        }
        notes
    }
}

impl Drop for RegionTable {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and no reference into it outlives `self`.
        let unmapped = unsafe { munmap(self.segment.cast(), size_of::<RegionSegment>()) };
        unmapped.expect("a mapping that was made can be unmapped");
    }
}

/// The prefetchers of the whole program, if regions request settings. Writing a processor's registers at each border of
/// a region takes longer than a region change may. If all regions request the same setting, it is used. Otherwise the
/// configuration's setting is used, and a refusal is returned.
pub(crate) fn prefetchers(configuration: &Configuration) -> (Option<Prefetchers>, Option<Refusal>) {
    let wanted: BTreeSet<Option<String>> = configuration
        .regions
        .values()
        .map(|region| region.prefetchers.map(|setting| setting.to_string()))
        .collect();
    let common = configuration
        .regions
        .values()
        .next()
        .and_then(|region| region.prefetchers);
    match (wanted.len(), common) {
        (1, Some(common)) => (Some(common), None),
        (0 | 1, _) => (configuration.prefetchers, None),
        _ => {
            let kept = configuration.prefetchers;
            let why = format!(
                "the prefetchers are {} for all regions, although these request different ones: writing the registers \
                 of all cores at each border would take longer than a region change may",
                kept.map_or_else(|| "as they were".to_owned(), |kept| kept.to_string())
            );
            (kept, Some(Refusal::for_machine(RefusalCode::Regions, why)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::RegionConfiguration;
    use std::process::Command;

    #[test]
    fn both_sides_agree_on_the_layout() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("layout.c");
        let program = directory.path().join("layout");
        let print = "#include \"regions.h\"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n\
             printf(\"%lx %u %u %u %zu %zu %zu %zu %zu\\n\", (unsigned long)PINFOLD_REGIONS_MAGIC, PINFOLD_REGIONS_VERSION,\n\
             PINFOLD_REGIONS_MOST, PINFOLD_REGION_PUS, sizeof(struct pinfold_regions), sizeof(struct pinfold_region),\n\
             offsetof(struct pinfold_regions, regions), offsetof(struct pinfold_region, threads),\n\
             offsetof(struct pinfold_region, pus));\nreturn 0; }\n";
        std::fs::write(&source, print).unwrap();
        let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/../../agent");
        let compiled = Command::new("cc")
            .arg("-I")
            .arg(agent)
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .status();
        assert!(compiled.unwrap().success());
        let theirs = Command::new(&program).output().unwrap().stdout;
        let ours = format!(
            "{MAGIC:x} {VERSION} {REGIONS} {PUS} {} {} {} {} {}\n",
            size_of::<RegionSegment>(),
            size_of::<RegionEntry>(),
            offset_of!(RegionSegment, regions),
            offset_of!(RegionEntry, threads),
            offset_of!(RegionEntry, pus)
        );
        assert_eq!(String::from_utf8(theirs).unwrap(), ours);
    }

    fn pinning(pus: &[u32]) -> Option<Pinning> {
        Pinning::new(pus.iter().copied().map(PuId).collect())
    }

    #[test]
    fn regions_get_their_places_and_others_those_of_the_program() {
        let mut table = RegionTable::create(false).unwrap();
        for (entry, code) in table.segment().regions.iter().zip([0x10, 0x20]) {
            entry.code.store(code, Ordering::Release);
        }
        let mut configuration = Configuration {
            pinning: pinning(&[4, 5]),
            ..Configuration::default()
        };
        configuration.regions.insert(
            RegionId(0x20),
            RegionConfiguration {
                pinning: pinning(&[7]),
                threads: Some(1),
                prefetchers: None,
            },
        );
        table.plan(&configuration);
        let shown = |entry: &RegionEntry| {
            let placed = entry.placed.load(Ordering::Relaxed);
            let pus: Vec<u16> = entry.pus[..placed as usize]
                .iter()
                .map(|pu| pu.load(Ordering::Relaxed))
                .collect();
            (entry.threads.load(Ordering::Relaxed), pus)
        };
        let entries = &table.segment().regions;
        assert_eq!(
            (shown(&entries[0]), shown(&entries[1])),
            ((0, vec![4, 5]), (1, vec![7]))
        );
        table.plan(&Configuration::default());
        let entries = &table.segment().regions;
        assert_eq!((shown(&entries[0]), shown(&entries[1])), ((0, vec![]), (0, vec![])));
        assert_ne!(
            table.segment().active.load(Ordering::Relaxed),
            0,
            "threads have to go back"
        );
    }

    #[test]
    fn the_agent_places_threads_only_where_regions_have_places_of_their_own() {
        let mut table = RegionTable::create(false).unwrap();
        let active = |table: &RegionTable| table.segment().active.load(Ordering::Relaxed);
        let whole = Configuration {
            pinning: pinning(&[4, 5]),
            ..Configuration::default()
        };
        table.plan(&whole);
        table.plan(&Configuration::default());
        assert_eq!(active(&table), 0, "nothing was ever wanted of regions");
        let mut apart = whole.clone();
        apart.regions.insert(RegionId(0x20), RegionConfiguration::default());
        table.plan(&apart);
        let first = active(&table);
        table.plan(&whole);
        assert_eq!((first, active(&table)), (1, 0), "pinfold itself places the threads");
        table.plan(&apart);
        assert!(active(&table) > first, "threads are elsewhere since");
    }

    #[test]
    fn regions_that_are_short_are_not_timed_any_more() {
        for (ignores, executions, nanoseconds, ignored) in [
            (true, KNOWN, KNOWN * 500, 1),
            (true, KNOWN, KNOWN * SHORT, 0),
            (true, KNOWN - 1, KNOWN, 0),
            (false, KNOWN, KNOWN, 0),
        ] {
            let table = RegionTable::create(ignores).unwrap();
            let entry = &table.segment().regions[3];
            entry.code.store(0x10, Ordering::Release);
            entry.executions.store(executions, Ordering::Release);
            entry.nanoseconds.store(nanoseconds, Ordering::Release);
            assert_eq!(table.samples().len(), 1);
            assert_eq!(entry.ignored.load(Ordering::Relaxed), ignored);
        }
    }

    #[test]
    fn a_sample_says_what_a_region_keeps() {
        for (flags, threads, places) in [
            (0, false, false),
            (OWN_NUMBER, true, false),
            (TOO_MANY | NOT_PLACED, true, true),
            (OWN_MASKS, false, true),
        ] {
            let table = RegionTable::create(false).unwrap();
            let entry = &table.segment().regions[3];
            entry.code.store(0x10, Ordering::Release);
            entry.executions.store(1, Ordering::Release);
            entry.flags.store(flags, Ordering::Relaxed);
            assert_eq!(table.samples()[0].keeps, RegionKeeps { threads, places });
        }
    }

    #[test]
    fn a_single_pu_mask_counts_as_the_agents_if_a_region_ran_there() {
        let mut table = RegionTable::create(false).unwrap();
        assert!(!table.may_have_pinned(PuId(4)));
        let mut configuration = Configuration {
            pinning: pinning(&[4, 5]),
            ..Configuration::default()
        };
        configuration
            .regions
            .insert(RegionId(0x20), RegionConfiguration::default());
        table.plan(&configuration);
        table.plan(&Configuration::default());
        assert!(table.may_have_pinned(PuId(4)) && !table.may_have_pinned(PuId(6)));
        let entry = &table.segment().regions[0];
        entry.code.store(0x10, Ordering::Release);
        entry.flags.store(OWN_MASKS, Ordering::Relaxed);
        assert!(!table.may_have_pinned(PuId(4)));
    }

    #[test]
    fn prefetchers_are_set_if_all_regions_want_the_same() {
        let mut configuration = Configuration {
            prefetchers: Some(Prefetchers::ALL),
            ..Configuration::default()
        };
        let mut want = |id: u64, setting: &str| {
            let region = RegionConfiguration {
                prefetchers: Some(setting.parse().unwrap()),
                ..RegionConfiguration::default()
            };
            configuration.regions.insert(RegionId(id), region);
            prefetchers(&configuration)
        };
        assert_eq!(want(1, "0110"), (Some("0110".parse().unwrap()), None));
        assert_eq!(want(2, "0110").0, Some("0110".parse().unwrap()));
        let (kept, refusal) = want(2, "1111");
        assert_eq!(kept, Some(Prefetchers::ALL));
        assert!(refusal.unwrap().why.contains("request different ones"));
    }
}
