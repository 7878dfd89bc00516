//! The PUs that the live runs of pinfold on this machine have claimed. They keep two runs from pinning on the same PUs.
//!
//! Each user has one file in shared memory, a table with a record for each run: its process, the start time of the
//! process, and its PUs. Runs of one user read their table and root's table, which all users may read. They ignore the
//! claims of other users: a record may name every PU while its process sleeps. The file's name contains the PID
//! namespace, because process numbers are valid in one namespace only.
//!
//! - A record whose process has ended is free. So a killed run leaves no claim.
//! - No run waits for a lock. To claim PUs, a run writes them into its record as wanted, and then reads the others.
//!   Settled PUs belong to their run. If two runs want the same PUs, the one with the lower record gets them.
//! - A table of root that cannot be read counts as absent, with a note.
//!
//! Limits: PUs above 4095, and more than 256 runs of one user, are not covered.

use crate::own::{self, Own};
use crate::procfs::Procfs;
use nix::fcntl::OFlag;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::unistd::{Uid, geteuid};
use pinfold_core::{PuId, PuSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::mem::size_of;
use std::num::NonZeroUsize;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The version of the format is a part of the name.
const PREFIX: &str = "pinfold-claims-1-";
const RECORDS: usize = 256;
const WORDS: usize = 64;

/// The states of a record.
const NOTHING: u32 = 0;
const WANTED: u32 = 1;
const SETTLED: u32 = 2;

/// The number and the interval of the checks while a run waits for another one that wants the same PUs and will give
/// way.
const LOOKS: usize = 50;
const LOOK: Duration = Duration::from_micros(100);

const ROOT: Uid = Uid::from_raw(0);

/// The claim of one run.
#[repr(C)]
struct Record {
    /// The process in the low half, and the low 32 bits of its start time in the high half. 0 for a free record.
    owner: AtomicU64,
    state: AtomicU32,
    unused: AtomicU32,
    pus: [AtomicU64; WORDS],
}

const SIZE: usize = RECORDS * size_of::<Record>();

/// Why this user's table is not available.
#[derive(Debug, thiserror::Error)]
pub enum ClaimsError {
    /// The system reports an error.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The name belongs to another kind of file.
    #[error("{}: {what}; --claims names another folder", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The kind of file.
        what: &'static str,
    },
    /// Each record belongs to a live run.
    #[error("{}: it is full, with records of {RECORDS} runs", .0.display())]
    Full(PathBuf),
}

/// A conflict with another run of this user or of root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// A PU that both want.
    pub pu: PuId,
    /// The process of the other run.
    pub by: i32,
}

/// The record of this run in the table of its user, and the view of all others. Dropping this frees the record.
#[derive(Debug)]
pub struct Claims {
    /// The table of root. `None` if root's table is this user's own.
    of_root: Option<PathBuf>,
    table: NonNull<Record>,
    own: usize,
    owner: u64,
    procfs: Procfs,
}

// SAFETY: the mapping is not tied to a thread, and all of it is atomic.
unsafe impl Send for Claims {}

impl Claims {
    /// Takes a record in the table in `folder`, which is `/dev/shm` except for tests.
    pub fn new(folder: &Path) -> Result<Self, ClaimsError> {
        let procfs = Procfs::default();
        let process = std::process::id().cast_signed();
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |there| there.ino());
        let user = geteuid();
        let table_of = |user| folder.join(format!("{PREFIX}{user}-{namespace}"));
        let path = table_of(user);
        let failed = |error: io::Error| ClaimsError::Io {
            path: path.clone(),
            error,
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let opened = if user.is_root() {
            own::open(&path, options.mode(0o644))
        } else {
            own::open_private(&path, &options)
        };
        let file = match opened.map_err(failed)? {
            Own::File(file) => file,
            Own::Foreign(what) => return Err(ClaimsError::Foreign { path, what }),
        };
        // Two runs may do this at the same time.
        file.set_len(SIZE as u64).map_err(failed)?;
        let length = NonZeroUsize::new(SIZE).expect("there are records");
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses, as long as the file. Only this user can truncate
        // it.
        let table = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &file, 0) };
        let start = procfs.stat(process, process).map_or(0, |stat| stat.start);
        let mut claims = Self {
            of_root: (!user.is_root()).then(|| table_of(ROOT)),
            table: table.map_err(|errno| failed(errno.into()))?.cast(),
            own: RECORDS,
            owner: u64::from(process.cast_unsigned()) | start << 32,
            procfs,
        };
        claims.own = claims.take_record().ok_or(ClaimsError::Full(path))?;
        claims.release();
        Ok(claims)
    }

    fn take_record(&self) -> Option<usize> {
        (0..RECORDS).find(|&index| {
            let owner = &self.records()[index].owner;
            let present = owner.load(Ordering::Acquire);
            // A second claim of one process is a separate run.
            (present == 0 || !is_alive(&self.procfs, present))
                && owner
                    .compare_exchange(present, self.owner, Ordering::AcqRel, Ordering::Acquire)
                    .is_ok()
        })
    }

    fn records(&self) -> &[Record] {
        // SAFETY: the mapping has this number of records, lives as long as `self`, and all of it is atomic.
        unsafe { std::slice::from_raw_parts(self.table.as_ptr(), RECORDS) }
    }

    fn own(&self) -> &Record {
        &self.records()[self.own]
    }

    /// The PUs of other live runs, and notes for the user on tables that cannot be read.
    pub fn taken(&self) -> (PuSet, Vec<String>) {
        let mut taken = PuSet::new();
        for (index, record) in self.records().iter().enumerate() {
            if index != self.own && record.state.load(Ordering::SeqCst) != NOTHING && self.lives(record) {
                taken.extend(pus(record));
            }
        }
        let notes = self.others(&mut |_, its| taken.extend(its.iter()));
        (taken, notes)
    }

    /// Claims these PUs in place of this run's current ones. The current ones stay if another run has one of the wanted
    /// PUs.
    pub fn claim(&self, wanted: &PuSet) -> Result<(), Taken> {
        let before: PuSet = pus(self.own()).collect();
        self.own().state.store(WANTED, Ordering::SeqCst);
        // The current PUs remain claimed until the result is known.
        let mut both = before.clone();
        both.extend(wanted.iter());
        self.write(&both);
        let result = self.wait_for_others(wanted);
        self.write(if result.is_ok() { wanted } else { &before });
        self.own().state.store(SETTLED, Ordering::SeqCst);
        result
    }

    fn wait_for_others(&self, wanted: &PuSet) -> Result<(), Taken> {
        let mut taken = Ok(());
        self.others(&mut |by, its| {
            if let Some(pu) = wanted.intersection(its).first() {
                taken = Err(Taken { pu, by });
            }
        });
        taken?;
        for (index, record) in self.records().iter().enumerate() {
            for look in 0.. {
                let state = record.state.load(Ordering::SeqCst);
                let both = pus(record).find(|&pu| wanted.contains(pu));
                let Some(pu) = both.filter(|_| index != self.own && state != NOTHING && self.lives(record)) else {
                    break;
                };
                if state == SETTLED || index < self.own || look == LOOKS {
                    return Err(Taken {
                        pu,
                        by: process(record.owner.load(Ordering::SeqCst)),
                    });
                }
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// Releases all PUs of this run.
    pub fn release(&self) {
        self.own().state.store(NOTHING, Ordering::SeqCst);
        self.write(&PuSet::new());
    }

    fn write(&self, wanted: &PuSet) {
        for (word, place) in self.own().pus.iter().enumerate() {
            let bits =
                (0..64u32).filter(|bit| u32::try_from(word * 64).is_ok_and(|at| wanted.contains(PuId(at + bit))));
            place.store(bits.fold(0, |bits, bit| bits | 1 << bit), Ordering::SeqCst);
        }
    }

    fn lives(&self, record: &Record) -> bool {
        is_alive(&self.procfs, record.owner.load(Ordering::SeqCst))
    }

    /// Calls `each` with the process and the PUs of each live run of root, if root is another user. Returns notes on a
    /// table that cannot be read.
    fn others(&self, each: &mut dyn FnMut(i32, &PuSet)) -> Vec<String> {
        let Some(path) = &self.of_root else { return vec![] };
        match read_table(path, ROOT) {
            Ok(Some(words)) => self.live_runs(&words, each),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return vec![format!(
                    "The CPUs that pinfold has pinned for root are not known, and may be the same: {}: {error}.",
                    path.display()
                )];
            }
        }
        vec![]
    }

    fn live_runs(&self, words: &[u64], each: &mut dyn FnMut(i32, &PuSet)) {
        for record in words.chunks_exact(2 + WORDS) {
            // The state is in the first four bytes of the second word.
            let state = u32::from_ne_bytes(*record[1].to_ne_bytes().first_chunk().expect("a word has 8 bytes"));
            if state == SETTLED && is_alive(&self.procfs, record[0]) {
                each(process(record[0]), &set(record[2..].iter().copied()).collect());
            }
        }
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        if self.own < RECORDS {
            self.release();
            self.own().owner.store(0, Ordering::SeqCst);
        }
        // SAFETY: the mapping belongs to this value, and no reference to it is left.
        let _ = unsafe { munmap(self.table.cast(), SIZE) };
    }
}

/// The words of this user's table. `None` if the file is not such a table.
fn read_table(path: &Path, user: Uid) -> io::Result<Option<Vec<u64>>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    let there = file.metadata()?;
    if !there.is_file() || there.uid() != user.as_raw() || there.len() != SIZE as u64 {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(SIZE);
    file.take(SIZE as u64).read_to_end(&mut bytes)?;
    let words = bytes
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
    Ok(Some(words.collect()))
}

fn process(owner: u64) -> i32 {
    i32::try_from(owner & 0x7fff_ffff).unwrap_or(0)
}

fn is_alive(procfs: &Procfs, owner: u64) -> bool {
    let process = process(owner);
    let stat = procfs.stat(process, process).filter(|_| process > 0);
    stat.is_some_and(|stat| stat.start & 0xffff_ffff == owner >> 32 && !matches!(stat.state, 'Z' | 'X'))
}

fn pus(record: &Record) -> impl Iterator<Item = PuId> {
    set(record.pus.iter().map(|word| word.load(Ordering::SeqCst)))
}

fn set(words: impl Iterator<Item = u64>) -> impl Iterator<Item = PuId> {
    (0u32..).zip(words).flat_map(|(index, word)| {
        (0..64)
            .filter(move |bit| word >> bit & 1 == 1)
            .map(move |bit| PuId(index * 64 + bit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pus(list: &str) -> PuSet {
        list.parse().unwrap()
    }

    fn only_file(folder: &Path) -> PathBuf {
        let mut files = fs::read_dir(folder).unwrap();
        files.next().unwrap().unwrap().path()
    }

    #[test]
    fn a_run_sees_what_others_have_and_not_what_it_has_itself() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [(); 2].map(|()| Claims::new(folder.path()).unwrap());
        one.claim(&pus("0-1,70")).unwrap();
        assert_eq!(other.taken().0, pus("0-1,70"));
        assert!(one.taken().0.is_empty());
    }

    #[test]
    fn what_another_run_has_cannot_be_claimed_and_the_claim_before_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [(); 2].map(|()| Claims::new(folder.path()).unwrap());
        one.claim(&pus("0-1")).unwrap();
        other.claim(&pus("4")).unwrap();
        let by = std::process::id().cast_signed();
        assert_eq!(other.claim(&pus("1-2")), Err(Taken { pu: PuId(1), by }));
        assert_eq!(one.taken().0, pus("4"));
        one.claim(&pus("0")).unwrap();
        other.claim(&pus("1-2")).unwrap();
        assert_eq!(one.taken().0, pus("1-2"));
    }

    #[test]
    fn the_record_of_a_process_that_has_ended_is_ignored_and_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let dead = Claims::new(folder.path()).unwrap();
        dead.claim(&pus("0")).unwrap();
        // The number of this process, with another start time.
        let owner = dead.owner ^ 1 << 32;
        dead.own().owner.store(owner, Ordering::SeqCst);
        let next = Claims::new(folder.path()).unwrap();
        assert_eq!(next.own, dead.own);
        assert!(next.taken().0.is_empty());
        std::mem::forget(dead);
    }

    #[test]
    fn of_many_that_want_the_same_at_once_one_gets_it() {
        let folder = tempfile::tempdir().unwrap();
        let runs: Vec<Claims> = (0..8).map(|_| Claims::new(folder.path()).unwrap()).collect();
        for _ in 0..20 {
            let got: usize = std::thread::scope(|scope| {
                let tries: Vec<_> = runs
                    .iter()
                    .map(|run| {
                        // Each thread has its own record.
                        let run = Shared(run);
                        scope.spawn(move || usize::from(run.claim()))
                    })
                    .collect();
                tries.into_iter().map(|one| one.join().unwrap()).sum()
            });
            assert_eq!(got, 1);
            runs.iter().for_each(Claims::release);
        }
    }

    /// A reference that may go to another thread: all that it refers to is atomic or constant.
    struct Shared<'a>(&'a Claims);

    // SAFETY: see above.
    unsafe impl Send for Shared<'_> {}

    impl Shared<'_> {
        fn claim(&self) -> bool {
            self.0.claim(&pus("3")).is_ok()
        }
    }

    #[test]
    fn a_table_counts_where_its_file_belongs_to_the_user() {
        let folder = tempfile::tempdir().unwrap();
        let run = Claims::new(folder.path()).unwrap();
        run.claim(&pus("5")).unwrap();
        let mut seen = vec![];
        let table = only_file(folder.path());
        let words = read_table(&table, geteuid()).unwrap().unwrap();
        run.live_runs(&words, &mut |by, its| seen.push((by, its.to_string())));
        assert_eq!(seen, [(std::process::id().cast_signed(), "5".to_owned())]);
        let stranger = Uid::from_raw(geteuid().as_raw() + 1);
        assert_eq!(read_table(&table, stranger).unwrap(), None);
    }

    #[test]
    fn only_root_has_a_table_that_others_may_read() {
        let folder = tempfile::tempdir().unwrap();
        let _run = Claims::new(folder.path()).unwrap();
        let mode = fs::metadata(only_file(folder.path())).unwrap().mode() & 0o777;
        assert_eq!(mode, if geteuid().is_root() { 0o644 } else { 0o600 });
    }

    #[test]
    fn a_file_that_is_not_ours_is_left_alone_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        drop(Claims::new(folder.path()).unwrap());
        let path = only_file(folder.path());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        let error = Claims::new(folder.path()).unwrap_err().to_string();
        assert!(error.contains("it is a symbolic link; --claims names"), "{error}");
    }
}
