//! The journal: each change that outlives pinfold is written before it is made, with the state before it.
//!
//! 1. Before a change is made it is appended, as one line in one write, to this process's own file (`Journal`) in a
//!    directory of such files (`Directory`). When the change is rolled back, or its target has ended, that is appended
//!    as well.
//! 2. The file is locked while its pinfold lives. At its normal end pinfold rolls all changes back and removes the
//!    file.
//! 3. A file that is unlocked, or whose writer has ended, is from a killed pinfold. Its guard (`guard`), `pinfold
//!    reset`, or any other caller of `Left::roll_back` rolls back the changes that are still as pinfold made them, and
//!    removes the file. The guard keeps the file open, so it finds the changes even if the file or its directory was
//!    removed.
//! 4. When a file has grown to several times its content, it is written again and replaced.
//!
//! The directory is in memory (`/run`): written data survive a kill, and a reboot resets masks and registers as well as
//! the file. So nothing is synced to a disk, and a change costs one system call. If the directory outlives a boot, a
//! file of an earlier boot is void. A file of other namespaces, in a directory that containers share, is left alone
//! (`origin`).
//!
//! A file counts as a journal only if it is a regular file of this user that starts like a journal
//! (`record::has_header`). pinfold does not follow symbolic links there, and does not change, rename or remove other
//! files, whatever their names are.
//!
//! A new kind of change needs a variant of `Change`, a line in `record`, and the code in `roll_back` that rolls it
//! back.

mod error;
mod left;
mod origin;
mod orphans;
mod record;
mod roll_back;
#[cfg(test)]
mod tests;

pub use crate::action::Action;
use crate::affinity::CpuMask;
use crate::guard::Guard;
use crate::prefetchers::Registers;
use crate::procfs::{Procfs, ThreadStat, ticks_since_boot};
use crate::requested::{ObservedMask, Requested};
pub use error::JournalError;
use error::failure;
use left::Abandoned;
use left::NO_JOURNAL;
pub(crate) use left::Writing;
pub use left::{FoundJournal, Left};
pub use origin::Elsewhere;
pub(crate) use origin::JournalOrigin;
use pinfold_core::PuId;
use pinfold_files::lock::{LockedFile, lock};
use pinfold_files::own::{self, Own};
use record::Record;
pub use record::{Change, MaskChange, RegisterChange, Target, Thread};
pub use roll_back::{RolledBack, RolledBackCall, Roots};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The extensions of a complete journal, and of one that is being written.
const WHOLE: &str = "journal";
const UNFINISHED: &str = "unfinished";

/// A journal is not compacted below this number of bytes.
const SMALL: u64 = 1 << 16;

/// The number of attempts, and the pause between them, while another process has an unfinished file locked to remove
/// it.
const ATTEMPTS: usize = 100;
const BEING_REMOVED: Duration = Duration::from_millis(1);

/// The directory of journals.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    here: JournalOrigin,
}

impl Directory {
    /// The usual place for this user: `/run/pinfold` for root. For others `pinfold` in `$XDG_RUNTIME_DIR`, given as
    /// `runtime`, or otherwise a directory in `/tmp` with the user's number.
    pub fn usual(runtime: Option<PathBuf>) -> PathBuf {
        let user = nix::unistd::geteuid();
        if user.is_root() {
            return PathBuf::from("/run/pinfold");
        }
        match runtime.filter(|runtime| runtime.is_absolute()) {
            Some(runtime) => runtime.join("pinfold"),
            None => PathBuf::from(format!("/tmp/pinfold-{user}")),
        }
    }

    /// The directory at `path`. It is created if it does not exist.
    pub fn new(path: &Path) -> Result<Self, JournalError> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
        made.map_err(failure(path, "made"))?;
        Self::existing(path)
    }

    /// The directory at `path`. `None` if it does not exist, so that there are no journals.
    pub fn find(path: &Path) -> Result<Option<Self>, JournalError> {
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => Self::existing(path).map(Some),
        }
    }

    fn existing(path: &Path) -> Result<Self, JournalError> {
        let metadata = fs::metadata(path).map_err(failure(path, "read"))?;
        let named = fs::symlink_metadata(path).map_err(failure(path, "read"))?;
        let user = nix::unistd::geteuid().as_raw();
        let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
        // The owner of a symbolic link controls its target.
        let led_by_another = named.is_symlink() && ![0, user].contains(&named.uid());
        if owner != user || mode & 0o022 != 0 || led_by_another {
            let owner = if led_by_another { named.uid() } else { owner };
            let path = path.to_path_buf();
            return Err(JournalError::Foreign { path, owner, mode });
        }
        Ok(Self {
            path: path.to_path_buf(),
            here: JournalOrigin::here(&Procfs::default())?,
        })
    }

    /// Whether a journal here has a mask of a thread of this process. A journal whose changes shall stay does not
    /// count.
    pub fn concerned(&self, procfs: &Procfs, process: i32) -> Result<Option<Concerned>, JournalError> {
        for found in self.survey()? {
            match found {
                FoundJournal::Running(path) if left::has_process(&path, procfs, process) => {
                    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
                    let by = name.split_once('-').map_or(name, |(by, _)| by);
                    return Ok(Some(Concerned::ByRunning(by.to_owned())));
                }
                FoundJournal::Left(left) if !left.kept() && left.contents.has_process(procfs, process) => {
                    return Ok(Some(Concerned::ByKilled));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// The journals, in the order of the files' names.
    pub fn survey(&self) -> Result<Vec<FoundJournal>, JournalError> {
        let entries = fs::read_dir(&self.path).map_err(failure(&self.path, "read"))?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        let mut found = vec![];
        for path in paths {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(WHOLE) => found.extend(Left::open(&path, &self.here, Writing::MayGoOn)?),
                Some(UNFINISHED) => {
                    if let Some(why) = remove_unfinished(&path) {
                        found.push(FoundJournal::NotOurs(path, why));
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The pinfold whose journal has a mask of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concerned {
    /// A running pinfold, by its process number.
    ByRunning(String),
    /// A killed pinfold.
    ByKilled,
}

/// Removes an unfinished journal: no change was made with it. A journal that is being written is locked, except for an
/// instant after another process has removed it. Its writer then notices that and starts another. Returns the reason if
/// the file stays because it is not a journal.
fn remove_unfinished(path: &Path) -> Option<&'static str> {
    let file = match own::open_private(path, OpenOptions::new().read(true)) {
        Ok(Own::File(file)) => file,
        Ok(Own::Foreign(why)) => return Some(why),
        // The file was removed or cannot be read. In either case there is nothing to roll back.
        Err(_) => return None,
    };
    match lock(file) {
        Ok(Some(lock)) if is_unfinished(&lock, path) => {
            let _ = fs::remove_file(path);
            None
        }
        Ok(Some(_)) => Some(NO_JOURNAL),
        Ok(None) | Err(_) => None,
    }
}

/// Whether an unfinished file is a journal's: it starts like one, or is empty and has a journal's name.
fn is_unfinished(file: &File, path: &Path) -> bool {
    let mut head = vec![];
    if file.take(record::HEADER_LENGTH).read_to_end(&mut head).is_err() {
        return false;
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = path.file_stem().and_then(|stem| stem.to_str()?.split_once('-'));
    let named = name.is_some_and(|(process, number)| digits(process) && digits(number));
    record::has_header(&head) || head.is_empty() && named
}

/// The journal of this process.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: LockedFile,
    here: JournalOrigin,
    /// The changes in force.
    changes: BTreeMap<Target, Change>,
    /// Bytes in the file.
    length: u64,
    /// Bytes after the last compaction.
    fresh_length: u64,
    kept: bool,
    /// Rolls back the changes of the journal if this process dies. Dropped last.
    guard: Option<Guard>,
}

impl Journal {
    /// Starts a journal, with a guard. Call it early: the guard is a fork of this process, which has few threads then.
    pub(crate) fn create(directory: &Directory) -> Result<Self, JournalError> {
        let mut journal = Self::create_unguarded(directory)?;
        let duty = Abandoned {
            path: &journal.path,
            here: &journal.here,
        };
        let guard = Guard::start(duty).map_err(failure(&journal.path, "guarded"))?;
        journal.guard = Some(guard);
        Ok(journal)
    }

    pub(crate) fn create_unguarded(directory: &Directory) -> Result<Self, JournalError> {
        let process = std::process::id();
        let mut number = 0;
        loop {
            let path = directory.path.join(format!("{process}-{number}.{WHOLE}"));
            let (file, length) = match write_new(&path, &directory.here, [], false) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    continue;
                }
                written => written.map_err(failure(&path, "made"))?,
            };
            // A link, because a rename could replace the file of a process with the same number in another container.
            let linked = fs::hard_link(path.with_extension(UNFINISHED), &path);
            let _ = fs::remove_file(path.with_extension(UNFINISHED));
            match linked {
                Ok(()) => {
                    return Ok(Self {
                        path,
                        file,
                        here: directory.here.clone(),
                        changes: BTreeMap::new(),
                        length,
                        fresh_length: length,
                        kept: false,
                        guard: None,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(failure(&path, "made")(error)),
            }
        }
    }

    /// The process number of the guard.
    pub(crate) fn guard(&self) -> Option<i32> {
        self.guard.as_ref().map(Guard::process)
    }

    /// Records a change before it is made. If the record cannot be written, the change must not be made.
    pub(crate) fn note(&mut self, change: Change) -> io::Result<()> {
        self.keep_file();
        self.append(&Record::Change(change.clone()))?;
        self.changes.insert(change.target(), change);
        self.shorten();
        Ok(())
    }

    /// Records that a thread is about to be pinned on `pinned`. `replaced` is pinfold's previous pinning.
    pub(crate) fn note_pinning(
        &mut self,
        procfs: &Procfs,
        thread: Thread,
        original: Requested,
        replaced: Option<PuId>,
        pinned: PuId,
    ) -> io::Result<()> {
        let (since, groups) = match self.changes.get(&Target::Mask(thread)) {
            Some(Change::Mask(before)) => (before.since, before.groups),
            _ => (ticks_since_boot()?, procfs.groups_checksum(thread.process)),
        };
        self.note(Change::Mask(MaskChange {
            thread,
            original,
            replaced,
            pinned,
            since,
            groups,
            meanwhile: None,
        }))
    }

    /// Records that a thread got `original` back, and has the mask `meanwhile` until `original` can be in force.
    pub(crate) fn note_waiting(&mut self, thread: Thread, original: &Requested, meanwhile: CpuMask) {
        if let Some(Change::Mask(change)) = self.changes.get(&Target::Mask(thread)) {
            // If the record cannot be written, the earlier one stays, and the thread is found by that.
            let _ = self.note(Change::Mask(MaskChange {
                original: original.clone(),
                meanwhile: Some(meanwhile),
                ..change.clone()
            }));
        }
    }

    /// The pinning that an orphan inherited, and its creator's original mask (`orphans`).
    pub(crate) fn pinning_of_orphan(
        &self,
        procfs: &Procfs,
        process: i32,
        stat: &ThreadStat,
        seen: &ObservedMask,
    ) -> Option<(PuId, &Requested)> {
        let pinnings = orphans::pinnings(self.masks(), procfs, process, stat)?;
        seen.inherited(pinnings.iter().map(|(&pu, &original)| (pu, original)))
    }

    /// Whether all threads are pinned on PUs of `pus`.
    pub(crate) fn pins_within(&self, pus: &CpuMask) -> bool {
        self.masks().all(|change| pus.contains(change.pinned))
    }

    fn masks(&self) -> impl Iterator<Item = &MaskChange> {
        self.changes.values().filter_map(|change| match change {
            Change::Mask(change) => Some(change),
            Change::Register(_) | Change::Probes(_) => None,
        })
    }

    /// The change in force of a target.
    pub(crate) fn change(&self, target: Target) -> Option<&Change> {
        self.changes.get(&target)
    }

    /// Removes a change that was rolled back, or whose target has ended.
    pub(crate) fn rolled_back(&mut self, target: Target) {
        if self.changes.remove(&target).is_some() {
            // An old record does no harm: a roll-back compares it with the current state.
            let _ = self.append(&Record::RolledBack(target));
            self.shorten();
        }
    }

    /// Rolls back all changes of registers. Returns what could not be rolled back or is left alone.
    pub(crate) fn roll_back_registers(&mut self, registers: &Registers) -> Vec<String> {
        let changes: Vec<Change> = self.changes.values().cloned().collect();
        let mut problems = vec![];
        for change in changes {
            if let Change::Register(register) = &change {
                let mut rolled_back = RolledBack::default();
                roll_back::roll_back_register(register, registers, false, &mut rolled_back);
                if rolled_back.failed() == 0 {
                    self.rolled_back(change.target());
                }
                problems.extend(rolled_back.problems());
            }
        }
        problems
    }

    /// Restores the masks of all threads, and of children that inherited one of them. Returns the calls and the
    /// failures. Without `orphans`, only children whose creator lives are restored, because the others already have
    /// their masks back.
    pub(crate) fn roll_back_masks(&mut self, procfs: &Procfs, orphans: bool) -> RolledBack {
        let is_mask = |change: &&Change| matches!(change, Change::Mask(_));
        let changes: Vec<Change> = self.changes.values().filter(is_mask).cloned().collect();
        let roots = Roots {
            procfs: procfs.clone(),
            ..Roots::default()
        };
        let rolled_back = roll_back::roll_back(&changes, &roots, false, orphans);
        let failed: Vec<i32> = rolled_back.failed_threads().collect();
        for change in changes {
            if let target @ Target::Mask(thread) = change.target()
                && !failed.contains(&thread.thread)
            {
                self.rolled_back(target);
            }
        }
        for change in rolled_back.waiting() {
            // If the record cannot be written, the earlier one stays, and the thread is found by that.
            let _ = self.note(Change::Mask(change.clone()));
        }
        rolled_back
    }

    /// Makes the changes in force stay after the end of this process.
    pub(crate) fn keep(&mut self) {
        if !std::mem::replace(&mut self.kept, true) {
            let _ = self.append(&Record::Kept);
        }
    }

    fn append(&mut self, record: &Record) -> io::Result<()> {
        let line = record.to_line();
        if let Err(error) = (&*self.file).write_all(line.as_bytes()) {
            // A partial line would be damage if another line followed it.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Compacts the file when it has grown to several times its content.
    fn shorten(&mut self) {
        if self.length > SMALL && self.length > 4 * self.fresh_length {
            // If the compaction fails, the file continues to grow, and is still complete.
            let _ = self.compact();
        }
    }

    /// Writes the file again if it was removed: by `rm -r`, or with the directory of a user whose session has ended.
    /// Another file in its place stays.
    pub(crate) fn keep_file(&mut self) {
        if self.file.metadata().is_ok_and(|file| file.nlink() > 0) || fs::symlink_metadata(&self.path).is_ok() {
            return;
        }
        // If this fails, the guard still has the file.
        let directory = self.path.parent().map(Directory::new);
        if directory.is_none_or(|directory| directory.is_ok()) {
            let _ = self.compact();
        }
    }

    fn compact(&mut self) -> io::Result<()> {
        let (file, length) = write_new(&self.path, &self.here, self.changes.values().cloned(), self.kept)?;
        fs::rename(self.path.with_extension(UNFINISHED), &self.path)?;
        self.file = file;
        (self.length, self.fresh_length) = (length, length);
        if let Some(guard) = &mut self.guard {
            guard.open_again();
        }
        Ok(())
    }
}

/// A journal without changes in force is removed with its process. The guard takes over changes that could not be
/// rolled back, or whose original state cannot be in force yet.
impl Drop for Journal {
    fn drop(&mut self) {
        if self.changes.is_empty() {
            let _ = fs::remove_file(&self.path);
        } else if !self.kept
            && let Some(guard) = self.guard.take()
        {
            guard.take_over();
        }
    }
}

/// Writes an unfinished journal beside `path`. Returns its locked file and its length. A file that is not a journal
/// stays: `AlreadyExists`.
fn write_new(
    path: &Path,
    here: &JournalOrigin,
    changes: impl IntoIterator<Item = Change>,
    kept: bool,
) -> io::Result<(LockedFile, u64)> {
    let mut lines = Record::Header(here.clone()).to_line();
    for change in changes {
        lines.push_str(&Record::Change(change).to_line());
    }
    if kept {
        lines.push_str(&Record::Kept.to_line());
    }
    let unfinished = path.with_extension(UNFINISHED);
    for _ in 0..ATTEMPTS {
        let mut options = OpenOptions::new();
        let Own::File(file) = own::open_private(&unfinished, options.read(true).append(true).create(true))? else {
            return Err(io::ErrorKind::AlreadyExists.into());
        };
        // Another process that reads the directory may have locked the file to remove it.
        let Some(file) = lock(file)? else {
            thread::sleep(BEING_REMOVED);
            continue;
        };
        if !own::is_at(&file, &unfinished) {
            continue;
        }
        if !is_unfinished(&file, &unfinished) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        file.set_len(0)?;
        (&*file).write_all(lines.as_bytes())?;
        return Ok((file, lines.len() as u64));
    }
    // The file is locked by a process that does not read the directory.
    Err(io::ErrorKind::AlreadyExists.into())
}
