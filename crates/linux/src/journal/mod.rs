//! What pinfold has changed on this machine, written down before it is done, with what was there before.
//!
//! 1. Before a change is made it is appended, as one line in one write, to a file that is this process's own
//!    (`Journal`), in a directory of such files (`Directory`). When the change is undone, or what it was about is gone,
//!    that is appended too.
//! 2. The file is locked for as long as its pinfold lives. An orderly end undoes everything and removes it.
//! 3. A file that nobody has locked is what a killed pinfold has left. Its guard (`guard`), `pinfold reset`, or whoever
//!    calls `Left::undo` makes undone what is still as pinfold made it, and removes the file.
//! 4. When a file has grown to several times what it says, it is written anew and replaced.
//!
//! The directory is in memory (`/run`): what the kernel has taken over a kill leaves whole, and the end of the machine
//! ends masks and registers as well as the file. So nothing is ever forced to a disk, and a change costs one system call.
//! A file of an earlier boot, should the directory outlive one, is void. One of other namespaces, where a directory is shared
//! by containers, is left alone (`origin`).
//!
//! A file counts as a journal only if it is a regular file of this user that begins as journals do (`record::is_begun`).
//! Anything else, whatever its name, is neither opened through a symbolic link, nor changed, renamed or removed.
//!
//! Another kind of change is another case of `Change`, a line for it in `record`, and what undoes it in `undo`.

mod origin;
mod orphans;
mod record;
mod undo;

use crate::affinity::CpuMask;
use crate::guard::Guard;
use crate::own::{self, LockedFile, Own};
use crate::prefetchers::Registers;
use crate::procfs::{Procfs, ThreadStat, ticks_since_boot};
pub use origin::Elsewhere;
pub(crate) use origin::Origin;
use origin::Relation;
use pinfold_core::PuId;
pub use record::{Change, MaskChange, RegisterChange, Target, Thread};
use record::{Record, VERSION};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
pub use undo::{Action, Roots, Undoing, Undone};

/// A journal's file ends so, one that is being made so, and one that cannot be read so.
const WHOLE: &str = "journal";
const UNFINISHED: &str = "unfinished";
const DAMAGED: &str = "damaged";

/// Why a file of a journal's name is left alone.
const NO_JOURNAL: &str = "it does not begin as a journal does";

/// A journal is not written anew before it has this many bytes.
const SMALL: u64 = 1 << 16;

/// A journal cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system says no.
    #[error("{} cannot be {done}: {error}; name another directory with --journals", path.display())]
    File {
        /// Which file or directory.
        path: PathBuf,
        /// What was to be done with it.
        done: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// Others could write there what we would undo.
    #[error(
        "{} belongs to user {owner} and has mode {mode:o}: journals are only believed in a directory that is ours and that \
         nobody else may write to; name another with --journals", path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// `/proc` has other numbers than the system calls.
    #[error(
        "/proc belongs to another PID namespace than pinfold, so that its numbers are other threads' here; run pinfold by \
         `unshare --mount-proc pinfold`"
    )]
    AnotherProc,
}

fn failure(path: &Path, done: &'static str) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_path_buf();
    move |error| JournalError::File { path, done, error }
}

/// Where journals are.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    here: Origin,
}

impl Directory {
    /// The usual place for this user: `/run/pinfold` for root, else `pinfold` in `$XDG_RUNTIME_DIR`, given as
    /// `runtime`, else a directory in `/tmp` with the user's number.
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

    /// The directory at `path`, which is made where there is none.
    pub fn new(path: &Path) -> Result<Self, JournalError> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
        made.map_err(failure(path, "made"))?;
        Self::existing(path)
    }

    /// The directory at `path`; `None` where there is none, so that nothing can be left there.
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
        // Where a symbolic link leads is for its owner to say.
        let led_by_another = named.is_symlink() && ![0, user].contains(&named.uid());
        if owner != user || mode & 0o022 != 0 || led_by_another {
            let owner = if led_by_another { named.uid() } else { owner };
            let path = path.to_path_buf();
            return Err(JournalError::Foreign { path, owner, mode });
        }
        Ok(Self {
            path: path.to_path_buf(),
            here: Origin::here(&Procfs::default())?,
        })
    }

    /// What is there, in the order of the files' names.
    pub fn survey(&self) -> Result<Vec<Found>, JournalError> {
        let entries = fs::read_dir(&self.path).map_err(failure(&self.path, "read"))?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        let mut found = vec![];
        for path in paths {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(WHOLE) => found.extend(Left::open(&path, &self.here, Waiting::Never)?),
                Some(UNFINISHED) => {
                    if let Some(why) = remove_unfinished(&path) {
                        found.push(Found::NotOurs(path, why));
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Removes a journal that was never finished: nobody has begun to change anything with it. One that is being made is locked,
/// but for an instant in which its maker finds it gone and makes another. Why it stays, where it is no journal.
fn remove_unfinished(path: &Path) -> Option<&'static str> {
    let file = match own::open(path, OpenOptions::new().read(true)) {
        Ok(Own::File(file)) => file,
        Ok(Own::Foreign(why)) => return Some(why),
        // It has gone, or cannot be read; neither is anything to undo.
        Err(_) => return None,
    };
    match own::lock(file) {
        Ok(Some(lock)) if is_unfinished(&lock, path) => {
            let _ = fs::remove_file(path);
            None
        }
        Ok(Some(_)) => Some(NO_JOURNAL),
        Ok(None) | Err(_) => None,
    }
}

/// Whether an unfinished file is a journal's: it begins as one, or is empty and has a name that we give.
fn is_unfinished(file: &File, path: &Path) -> bool {
    let mut begin = vec![];
    if file.take(record::BEGIN_LENGTH).read_to_end(&mut begin).is_err() {
        return false;
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = path.file_stem().and_then(|stem| stem.to_str()?.split_once('-'));
    let named = name.is_some_and(|(process, number)| digits(process) && digits(number));
    record::is_begun(&begin) || begin.is_empty() && named
}

/// The journal of this process.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: LockedFile,
    here: Origin,
    /// What is changed now.
    changes: BTreeMap<Target, Change>,
    /// Bytes in the file.
    length: u64,
    /// Bytes after it was last written anew.
    fresh_length: u64,
    kept: bool,
    /// Undoes what the journal says if we die. Dropped last.
    guard: Option<Guard>,
}

impl Journal {
    /// Begins a journal, with a guard. The earlier in a process's life the fewer threads it has that the guard is a
    /// copy of.
    pub(crate) fn begin(directory: &Directory) -> Result<Self, JournalError> {
        let mut journal = Self::begin_unguarded(directory)?;
        let guard = Guard::start(&journal.path, &journal.here).map_err(failure(&journal.path, "guarded"))?;
        journal.guard = Some(guard);
        Ok(journal)
    }

    pub(crate) fn begin_unguarded(directory: &Directory) -> Result<Self, JournalError> {
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
            // A link, and no renaming: another process with our number, in another container, is not to lose its file.
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

    /// The guard's process.
    pub(crate) fn guard(&self) -> Option<i32> {
        self.guard.as_ref().map(Guard::process)
    }

    /// Notes a change that is about to be made. One that cannot be noted is not to be made.
    pub(crate) fn note(&mut self, change: Change) -> io::Result<()> {
        self.append(&Record::Change(change.clone()))?;
        self.changes.insert(change.target(), change);
        self.shorten();
        Ok(())
    }

    /// Notes that a thread is about to be pinned on `pinned`, and was by us on `replaced`.
    pub(crate) fn note_pinning(
        &mut self,
        procfs: &Procfs,
        thread: Thread,
        original: CpuMask,
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
        }))
    }

    /// Where an orphan that was born on `pu` would run without us, if it was born with a mask of ours (`orphans`).
    pub(crate) fn original_of_orphan(
        &self,
        procfs: &Procfs,
        process: i32,
        stat: &ThreadStat,
        pu: PuId,
    ) -> Option<&CpuMask> {
        orphans::pinnings(self.masks(), procfs, process, stat)?.remove(&pu)
    }

    fn masks(&self) -> impl Iterator<Item = &MaskChange> {
        self.changes.values().filter_map(|change| match change {
            Change::Mask(change) => Some(change),
            Change::Register(_) => None,
        })
    }

    /// What is noted of a target as changed.
    pub(crate) fn change(&self, target: Target) -> Option<&Change> {
        self.changes.get(&target)
    }

    /// Forgets what is as it was before, or gone.
    pub(crate) fn undone(&mut self, target: Target) {
        if self.changes.remove(&target).is_some() {
            // A stale record does no harm: what it says is compared with what is.
            let _ = self.append(&Record::Undone(target));
            self.shorten();
        }
    }

    /// Makes all changes of registers undone; tells what could not be, or is left alone.
    pub(crate) fn give_back_registers(&mut self, registers: &Registers) -> Vec<String> {
        let changes: Vec<Change> = self.changes.values().cloned().collect();
        let mut told = vec![];
        for change in changes {
            if let Change::Register(register) = &change {
                let mut undoing = Undoing::default();
                undo::undo_register(register, registers, false, &mut undoing);
                if undoing.failed() == 0 {
                    self.undone(change.target());
                }
                told.extend(undoing.problems());
            }
        }
        told
    }

    /// Gives all threads their masks back, those too that were begun with one of ours; tells what was done, and what was not.
    /// Without `orphans` only those whose creator lives, for all others have got theirs back already.
    pub(crate) fn give_back_masks(&mut self, procfs: &Procfs, orphans: bool) -> Undoing {
        let is_mask = |change: &&Change| matches!(change, Change::Mask(_));
        let changes: Vec<Change> = self.changes.values().filter(is_mask).cloned().collect();
        let roots = Roots {
            procfs: procfs.clone(),
            ..Roots::default()
        };
        let undoing = undo::undo(&changes, &roots, false, orphans);
        let failed: Vec<i32> = undoing.failed_threads().collect();
        for change in changes {
            if let target @ Target::Mask(thread) = change.target()
                && !failed.contains(&thread.thread)
            {
                self.undone(target);
            }
        }
        undoing
    }

    /// What is changed now shall stay so when we end.
    pub(crate) fn keep(&mut self) {
        if !std::mem::replace(&mut self.kept, true) {
            let _ = self.append(&Record::Kept);
        }
    }

    fn append(&mut self, record: &Record) -> io::Result<()> {
        let line = record.to_line();
        if let Err(error) = (&*self.file).write_all(line.as_bytes()) {
            // A part of a line would be taken for damage as soon as another follows.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Writes the file anew when it has grown to several times what it says.
    fn shorten(&mut self) {
        if self.length > SMALL && self.length > 4 * self.fresh_length {
            // Where that fails the file goes on growing, and still says everything.
            let _ = self.write_anew();
        }
    }

    fn write_anew(&mut self) -> io::Result<()> {
        let (file, length) = write_new(&self.path, &self.here, self.changes.values().cloned(), self.kept)?;
        fs::rename(self.path.with_extension(UNFINISHED), &self.path)?;
        self.file = file;
        (self.length, self.fresh_length) = (length, length);
        Ok(())
    }
}

/// A journal in which nothing is left to undo goes with its process.
impl Drop for Journal {
    fn drop(&mut self) {
        if self.changes.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes an unfinished journal beside `path`; its file, locked, and its length. What is there and no journal stays:
/// `AlreadyExists`.
fn write_new(
    path: &Path,
    here: &Origin,
    changes: impl IntoIterator<Item = Change>,
    kept: bool,
) -> io::Result<(LockedFile, u64)> {
    let mut lines = Record::Begin(here.clone()).to_line();
    for change in changes {
        lines.push_str(&Record::Change(change).to_line());
    }
    if kept {
        lines.push_str(&Record::Kept.to_line());
    }
    let unfinished = path.with_extension(UNFINISHED);
    loop {
        let mut options = OpenOptions::new();
        let Own::File(file) = own::open(&unfinished, options.read(true).append(true).create(true))? else {
            return Err(io::ErrorKind::AlreadyExists.into());
        };
        // Another who surveys the directory may have it locked, to remove it.
        let Some(file) = own::lock(file)? else { continue };
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
}

/// What a journal's file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Contents {
    changes: BTreeMap<Target, Change>,
    kept: bool,
    /// Where it was written; `None` where its first line does not say so.
    origin: Option<Origin>,
    /// Why it cannot be read to its end.
    damage: Option<String>,
}

impl Contents {
    /// Reads up to the last whole record, or up to the first that is damaged.
    fn read(bytes: &[u8]) -> Self {
        let mut contents = Self::default();
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut lines = (1..).zip(bytes[..whole].split_inclusive(|&byte| byte == b'\n'));
        let mut next = || {
            let (number, line) = lines.next()?;
            let record = std::str::from_utf8(&line[..line.len() - 1])
                .ok()
                .and_then(Record::from_line);
            Some((number, record))
        };
        match next() {
            Some((_, Some(Record::Begin(origin)))) => contents.origin = Some(origin),
            Some((_, Some(Record::OtherVersion(version)))) => {
                contents.damage = Some(format!(
                    "its version is {version}, and this pinfold reads version {VERSION}"
                ));
            }
            _ => contents.damage = Some("its first line is not that of a journal".to_owned()),
        }
        while contents.damage.is_none()
            && let Some((number, record)) = next()
        {
            match record {
                Some(Record::Change(change)) => {
                    contents.changes.insert(change.target(), change);
                }
                Some(Record::Undone(target)) => {
                    contents.changes.remove(&target);
                }
                Some(Record::Kept) => contents.kept = true,
                Some(Record::Begin(_) | Record::OtherVersion(_)) | None => {
                    let number: i32 = number;
                    contents.damage = Some(format!("its line {number} does not fit its checksum"));
                }
            }
        }
        contents
    }
}

/// Whether to wait for whoever has a journal locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    Never,
    UntilUnlocked,
}

/// A journal in a directory.
#[derive(Debug)]
pub enum Found {
    /// That of a pinfold that runs.
    Running(PathBuf),
    /// One that cannot be opened.
    Unreadable(PathBuf, io::Error),
    /// A file with the name of one that is none, and why. It was not touched.
    NotOurs(PathBuf, &'static str),
    /// One that is about threads of other namespaces: it is left alone.
    Elsewhere(PathBuf, Elsewhere),
    /// One that was left.
    Left(Left),
}

/// A journal that was left; nobody else works on it as long as this is there.
#[derive(Debug)]
pub struct Left {
    path: PathBuf,
    _lock: LockedFile,
    contents: Contents,
}

impl Left {
    /// Opens and reads the journal at `path`; `None` where there is none any more.
    pub(crate) fn open(path: &Path, here: &Origin, waiting: Waiting) -> Result<Option<Found>, JournalError> {
        loop {
            let mut file = match own::open(path, OpenOptions::new().read(true).write(true)) {
                Ok(Own::File(file)) => file,
                Ok(Own::Foreign(why)) => return Ok(Some(Found::NotOurs(path.to_path_buf(), why))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Ok(Some(Found::Unreadable(path.to_path_buf(), error))),
            };
            let mut bytes = vec![];
            let lock = match waiting {
                Waiting::Never => own::lock(file.try_clone().map_err(failure(path, "opened"))?),
                Waiting::UntilUnlocked => file.try_clone().and_then(own::wait_and_lock).map(Some),
            };
            let Some(lock) = lock.map_err(failure(path, "locked"))? else {
                return Ok(Some(Found::Running(path.to_path_buf())));
            };
            // Whoever had it locked may have removed or replaced it in between.
            if !own::is_at(&lock, path) {
                continue;
            }
            if let Err(error) = file.read_to_end(&mut bytes) {
                return Ok(Some(Found::Unreadable(path.to_path_buf(), error)));
            }
            if !record::is_begun(&bytes) {
                return Ok(Some(Found::NotOurs(path.to_path_buf(), NO_JOURNAL)));
            }
            let mut contents = Contents::read(&bytes);
            match contents.origin.as_ref().map(|origin| here.relation(origin)) {
                None | Some(Relation::Here) => {}
                Some(Relation::EarlierBoot) => contents.changes.clear(),
                Some(Relation::Elsewhere(namespaces)) => {
                    if let Some(elsewhere) = Elsewhere::find(path, &Procfs::default(), here, namespaces) {
                        return Ok(Some(Found::Elsewhere(path.to_path_buf(), elsewhere)));
                    }
                    // Its threads have ended with their namespace; registers belong to the machine.
                    contents
                        .changes
                        .retain(|_, change| matches!(change, Change::Register(_)));
                }
            }
            return Ok(Some(Found::Left(Self {
                path: path.to_path_buf(),
                _lock: lock,
                contents,
            })));
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why it cannot be read to its end, if so; what precedes the damage is there.
    pub fn damage(&self) -> Option<&str> {
        self.contents.damage.as_deref()
    }

    /// Whether what was changed shall stay so, by the wish of who began it.
    pub fn kept(&self) -> bool {
        self.contents.kept
    }

    /// Makes undone what the journal says and what is still as pinfold made it; with `dry_run` only says so.
    pub fn undo(&self, roots: &Roots, dry_run: bool) -> Undoing {
        undo::undo(self.contents.changes.values(), roots, dry_run, true)
    }

    /// Removes the file, or sets it aside where it is damaged; the name that it has now, then.
    pub fn settle(self) -> Result<Option<PathBuf>, JournalError> {
        if self.contents.damage.is_none() {
            fs::remove_file(&self.path).map_err(failure(&self.path, "removed"))?;
            return Ok(None);
        }
        let mut number = 1;
        loop {
            let extension = match number {
                1 => DAMAGED.to_owned(),
                _ => format!("{DAMAGED}-{number}"),
            };
            let aside = self.path.with_extension(extension);
            // A link, and no renaming, which would replace what has this name.
            match fs::hard_link(&self.path, &aside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                linked => {
                    linked.map_err(failure(&self.path, "set aside"))?;
                    fs::remove_file(&self.path).map_err(failure(&self.path, "removed"))?;
                    return Ok(Some(aside));
                }
            }
        }
    }
}

/// What a guard does when its pinfold has died.
pub(crate) fn undo_abandoned(path: &Path, here: &Origin) {
    if let Ok(Some(Found::Left(left))) = Left::open(path, here, Waiting::UntilUnlocked)
        && !left.kept()
        && left.undo(&Roots::default(), false).failed() == 0
    {
        // What could not be undone stays for `pinfold reset`; so does what is damaged, which is to be told of.
        if left.damage().is_none() {
            let _ = left.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use record::tests::{changes, threads};

    fn bytes(records: &[Record]) -> Vec<u8> {
        let begin = Record::Begin(Origin {
            boot: "4711-0815".to_owned(),
            namespaces: None,
        });
        let lines = std::iter::once(&begin).chain(records).map(Record::to_line);
        lines.collect::<String>().into_bytes()
    }

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let record = prop_oneof![
            changes().prop_map(Record::Change),
            threads().prop_map(|thread| Record::Undone(Target::Mask(thread))),
        ];
        proptest::collection::vec(record, 0..20)
    }

    /// How many lines have an end.
    fn lines(bytes: &[u8]) -> usize {
        bytes.split(|&byte| byte == b'\n').count() - 1
    }

    /// What has been changed after these records.
    fn after(records: &[Record]) -> BTreeMap<Target, Change> {
        let mut changes = BTreeMap::new();
        for record in records {
            match record {
                Record::Change(change) => drop(changes.insert(change.target(), change.clone())),
                Record::Undone(target) => drop(changes.remove(target)),
                _ => unreachable!("`records` makes none"),
            }
        }
        changes
    }

    proptest! {
        #[test]
        fn what_a_kill_leaves_is_read_up_to_the_last_whole_record(records in records(), cut: usize) {
            let all = bytes(&records);
            let begin = bytes(&[]).len();
            let cut = begin + cut % (all.len() - begin + 1);
            let whole = lines(&all[begin..cut]);
            let contents = Contents::read(&all[..cut]);
            prop_assert_eq!(contents.damage, None);
            prop_assert_eq!(contents.changes, after(&records[..whole]));
        }

        #[test]
        fn nothing_after_damage_is_believed(records in records(), at: usize, byte: u8) {
            let mut damaged = bytes(&records);
            let begin = bytes(&[]).len();
            prop_assume!(damaged.len() > begin);
            let at = begin + at % (damaged.len() - begin);
            prop_assume!(!damaged[at].eq_ignore_ascii_case(&byte));
            damaged[at] = byte;
            let before = lines(&damaged[begin..at]);
            let contents = Contents::read(&damaged);
            // The end of the last line may be what is damaged: then it has none, as after a kill.
            prop_assert!(contents.damage.is_some() || before + 1 == records.len());
            prop_assert_eq!(contents.changes, after(&records[..before]));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let contents = Contents::read(&bytes);
            prop_assert!(contents.changes.is_empty() && contents.damage.is_some());
        }

        #[test]
        fn a_journal_that_was_written_anew_says_what_it_said(records in records(), kept: bool) {
            let root = tempfile::tempdir().unwrap();
            let mut journal = Journal::begin_unguarded(&Directory::new(root.path()).unwrap()).unwrap();
            for record in &records {
                match record {
                    Record::Change(change) => journal.note(change.clone()).unwrap(),
                    Record::Undone(target) => journal.undone(*target),
                    _ => unreachable!("`records` makes none"),
                }
            }
            if kept {
                journal.keep();
            }
            let read = |journal: &Journal| Contents::read(&fs::read(&journal.path).unwrap());
            let before = read(&journal);
            journal.write_anew().unwrap();
            prop_assert_eq!(&read(&journal), &before);
            let origin = Some(journal.here.clone());
            prop_assert_eq!(before, Contents { changes: after(&records), kept, origin, damage: None });
        }
    }

    fn pinned(serial: i32, pu: u32) -> Change {
        Change::Mask(MaskChange {
            thread: Thread {
                process: 1,
                thread: serial + 1,
                start: 0,
            },
            original: [PuId(0), PuId(1)].into_iter().collect(),
            replaced: None,
            pinned: PuId(pu),
            since: 0,
            groups: None,
        })
    }

    #[test]
    fn a_journal_of_short_lived_threads_stays_small() {
        let root = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin_unguarded(&Directory::new(root.path()).unwrap()).unwrap();
        for serial in 0..10_000 {
            journal.note(pinned(serial, 1)).unwrap();
            journal.undone(pinned(serial, 1).target());
            let length = fs::metadata(&journal.path).unwrap().len();
            assert!(length <= SMALL && length == journal.length, "{length}");
        }
    }

    #[test]
    fn a_change_is_in_the_file_when_it_was_just_written_anew_too() {
        let root = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin_unguarded(&Directory::new(root.path()).unwrap()).unwrap();
        let (mut before, mut shortened) = (0, 0);
        for serial in 0..10_000 {
            // Fifty threads, again and again on another PU.
            journal
                .note(pinned(serial % 50, 1 + serial.cast_unsigned() % 2))
                .unwrap();
            if journal.length < before {
                shortened += 1;
                let contents = Contents::read(&fs::read(&journal.path).unwrap());
                assert_eq!((contents.changes, contents.damage), (journal.changes.clone(), None));
            }
            before = journal.length;
        }
        assert!(shortened > 1);
    }

    /// Opens a journal of this origin with one change of a mask and one of a register.
    fn opened(origin: &Origin) -> Found {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("1-0.journal");
        let register = Change::Register(RegisterChange {
            pu: PuId(0),
            register: 0x1a4,
            bits: 1,
            original: 0,
            replaced: None,
            written: 1,
        });
        drop(write_new(&path, origin, [pinned(0, 1), register], false).unwrap());
        fs::rename(path.with_extension(UNFINISHED), &path).unwrap();
        let here = Origin::here(&Procfs::default()).unwrap();
        Left::open(&path, &here, Waiting::Never).unwrap().unwrap()
    }

    fn changes_of(found: &Found) -> Vec<Target> {
        let Found::Left(left) = found else { panic!("{found:?}") };
        assert_eq!(left.damage(), None);
        left.contents.changes.keys().copied().collect()
    }

    #[test]
    fn a_journal_of_an_earlier_boot_is_void() {
        let mut origin = Origin::here(&Procfs::default()).unwrap();
        origin.boot = "another".to_owned();
        assert!(changes_of(&opened(&origin)).is_empty());
    }

    #[test]
    fn a_journal_of_the_first_version_is_read() {
        let mut origin = Origin::here(&Procfs::default()).unwrap();
        origin.namespaces = None;
        assert_eq!(changes_of(&opened(&origin)).len(), 2);
    }

    #[test]
    fn of_a_namespace_that_has_ended_only_registers_are_to_be_undone() {
        let mut origin = Origin::here(&Procfs::default()).unwrap();
        let namespaces = origin.namespaces.as_mut().unwrap();
        let is_first = std::mem::replace(&mut namespaces.pid.inode, 1) == 0xEFFF_FFFC;
        let found = opened(&origin);
        if is_first && nix::unistd::geteuid().is_root() {
            assert_eq!(changes_of(&found), [Target::Register(0x1a4, PuId(0))]);
        } else {
            assert!(matches!(found, Found::Elsewhere(..)), "{found:?}");
        }
    }

    #[test]
    fn a_later_version_is_named() {
        let damage = Contents::read(Record::OtherVersion(7).to_line().as_bytes())
            .damage
            .unwrap();
        assert!(
            damage.contains('7') && damage.contains(&VERSION.to_string()),
            "{damage}"
        );
    }

    #[test]
    fn a_running_journal_is_told_from_one_that_was_left() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::new(root.path()).unwrap();
        let mut journal = Journal::begin_unguarded(&directory).unwrap();
        journal.note(pinned(0, 1)).unwrap();
        assert!(matches!(directory.survey().unwrap().as_slice(), [Found::Running(_)]));
        drop(journal);
        let found = directory.survey().unwrap();
        let [Found::Left(left)] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert!(!left.kept() && left.damage().is_none());
    }

    #[test]
    fn an_orderly_end_leaves_no_file() {
        let root = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin_unguarded(&Directory::new(root.path()).unwrap()).unwrap();
        journal.note(pinned(0, 1)).unwrap();
        journal.undone(pinned(0, 1).target());
        drop(journal);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_journal_is_set_aside_under_a_free_name() {
        let root = tempfile::tempdir().unwrap();
        let damaged = [&bytes(&[]), b"what is this?\n".as_slice()].concat();
        fs::write(root.path().join("1-0.journal"), damaged).unwrap();
        fs::write(root.path().join("1-0.damaged"), "earlier").unwrap();
        let directory = Directory::new(root.path()).unwrap();
        let mut found = directory.survey().unwrap();
        let Some(Found::Left(left)) = found.pop() else {
            panic!("nothing was found")
        };
        assert!(left.damage().is_some());
        let aside = left.settle().unwrap().unwrap();
        assert_eq!(aside, root.path().join("1-0.damaged-2"));
        assert!(aside.exists() && directory.survey().unwrap().is_empty());
        assert_eq!(fs::read_to_string(root.path().join("1-0.damaged")).unwrap(), "earlier");
    }

    /// A folder with files that have the names of journals and are none; what is in each that is no link.
    fn folder_of_somebody_else() -> (tempfile::TempDir, Vec<(PathBuf, &'static str)>) {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str, text| (root.path().join(name), text);
        let files = vec![
            file("thesis.unfinished", "chapter one"),
            file("empty.unfinished", ""),
            file("diary.journal", "dear diary\n"),
            file("1-0.journal", "dear diary\n"),
            file("1-0.unfinished", "chapter two"),
        ];
        for (path, text) in &files {
            fs::write(path, text).unwrap();
        }
        (root, files)
    }

    #[test]
    fn files_that_are_no_journals_are_named_and_left() {
        let (root, files) = folder_of_somebody_else();
        let directory = Directory::new(root.path()).unwrap();
        let found = directory.survey().unwrap();
        assert!(
            found.iter().all(|found| matches!(found, Found::NotOurs(_, NO_JOURNAL))),
            "{found:?}"
        );
        assert_eq!(found.len(), files.len());
        for (path, text) in files {
            assert_eq!(fs::read_to_string(&path).unwrap(), text, "{}", path.display());
        }
    }

    #[test]
    fn no_journal_is_reached_through_a_symbolic_link() {
        let elsewhere = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        for name in ["1-0.journal", "1-0.unfinished"] {
            fs::write(elsewhere.path().join(name), bytes(&[])).unwrap();
            std::os::unix::fs::symlink(elsewhere.path().join(name), root.path().join(name)).unwrap();
        }
        let found = Directory::new(root.path()).unwrap().survey().unwrap();
        assert!(
            matches!(
                found.as_slice(),
                [Found::NotOurs(_, "it is a symbolic link"), Found::NotOurs(..)]
            ),
            "{found:?}"
        );
        for folder in [elsewhere, root] {
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        }
    }

    #[test]
    fn a_journal_is_not_begun_in_the_place_of_another_file() {
        let root = tempfile::tempdir().unwrap();
        let process = std::process::id();
        let occupied = root.path().join(format!("{process}-0.unfinished"));
        let linked = root.path().join(format!("{process}-1.unfinished"));
        let notes = root.path().join("notes");
        for file in [&occupied, &notes] {
            fs::write(file, "notes").unwrap();
        }
        std::os::unix::fs::symlink(&notes, &linked).unwrap();
        let journal = Journal::begin_unguarded(&Directory::new(root.path()).unwrap()).unwrap();
        assert_eq!(journal.path, root.path().join(format!("{process}-2.journal")));
        for file in [occupied, linked] {
            assert_eq!(fs::read_to_string(file).unwrap(), "notes");
        }
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = Directory::new(root.path()).unwrap_err().to_string();
        assert!(error.contains("777") && error.contains("--journals"), "{error}");
    }

    #[test]
    fn what_was_begun_and_never_finished_is_removed() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("1-0.unfinished"), "").unwrap();
        assert!(Directory::new(root.path()).unwrap().survey().unwrap().is_empty());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn where_there_is_no_directory_nothing_was_left() {
        assert!(Directory::find(Path::new("/nowhere/at/all")).unwrap().is_none());
    }
}
