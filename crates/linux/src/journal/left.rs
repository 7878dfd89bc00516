//! Journals of a killed pinfold: reads them, and rolls back the recorded changes.

use super::error::{JournalError, failure};
use super::origin::{Elsewhere, JournalOrigin, Relation};
use super::record::{self, Change, Record, Target, VERSION};
use super::roll_back::{self, RolledBack, Roots};
use super::{Directory, UNFINISHED, write_new};
use crate::guard::Duty;
use crate::procfs::Procfs;
use pinfold_files::lock::{Holder, LockedFile, lock};
use pinfold_files::own::{self, Own};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The extension of a journal that cannot be read.
const DAMAGED: &str = "damaged";

/// Why a file with a journal's name is left alone.
pub(super) const NO_JOURNAL: &str = "it does not start like a journal";

/// The content of a journal's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) changes: BTreeMap<Target, Change>,
    pub(super) kept: bool,
    /// Its origin. `None` if its first line lacks one.
    pub(super) origin: Option<JournalOrigin>,
    /// Why it cannot be read to its end.
    pub(super) damage: Option<String>,
    /// The length of its complete lines.
    pub(super) whole: u64,
}

impl Contents {
    /// Reads up to the last complete record, or up to the first damaged one.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut contents = Self::default();
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        contents.whole = whole as u64;
        let mut lines = (1..).zip(bytes[..whole].split_inclusive(|&byte| byte == b'\n'));
        let mut next = || {
            let (number, line) = lines.next()?;
            let record = std::str::from_utf8(&line[..line.len() - 1])
                .ok()
                .and_then(Record::from_line);
            Some((number, record))
        };
        match next() {
            Some((_, Some(Record::Header(origin)))) => contents.origin = Some(origin),
            Some((_, Some(Record::OtherVersion(version)))) => {
                contents.damage = Some(format!(
                    "its version is {version}, and this pinfold reads version {VERSION}"
                ));
            }
            _ => contents.damage = Some("its first line is not a journal's".to_owned()),
        }
        while contents.damage.is_none()
            && let Some((number, record)) = next()
        {
            match record {
                Some(Record::Change(change)) => {
                    contents.changes.insert(change.target(), change);
                }
                Some(Record::RolledBack(target)) => {
                    contents.changes.remove(&target);
                }
                Some(Record::Kept) => contents.kept = true,
                Some(Record::Header(_) | Record::OtherVersion(_)) | None => {
                    let number: i32 = number;
                    contents.damage = Some(format!("its line {number} does not match its checksum"));
                }
            }
        }
        contents
    }

    /// Whether it has a mask of a living thread of this process.
    pub(super) fn has_process(&self, procfs: &Procfs, process: i32) -> bool {
        self.changes.values().any(|change| match change {
            Change::Mask(change) if change.thread.process == process => procfs
                .stat(process, change.thread.thread)
                .is_some_and(|stat| stat.start == change.thread.start),
            _ => false,
        })
    }
}

/// Whether the journal of a running pinfold has a mask of a living thread of this process. A journal that cannot be
/// read has none.
pub(super) fn has_process(path: &Path, procfs: &Procfs, process: i32) -> bool {
    let Ok(Own::File(mut file)) = own::open(path, OpenOptions::new().read(true)) else {
        return false;
    };
    let mut bytes = vec![];
    file.read_to_end(&mut bytes).is_ok() && Contents::read(&bytes).has_process(procfs, process)
}

/// The state of the process that writes a journal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writing {
    /// The process may still run.
    MayGoOn,
    /// The process has ended, or has stopped writing.
    Ended,
}

/// The time that a guard waits for a process of this user that has the journal locked: that process rolls it back.
const PATIENCE: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(10);

/// The lock of a journal. `None` if another process has it.
fn lock_of(file: &File, writing: Writing) -> io::Result<Option<LockedFile>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let lock = lock(file.try_clone()?)?;
        let is_awaited = || Holder::of(file).is_some_and(|holder| !holder.is_stranger());
        if lock.is_some() || writing == Writing::MayGoOn || Instant::now() >= deadline || !is_awaited() {
            return Ok(lock);
        }
        sleep(AGAIN);
    }
}

/// Whether the process that wrote a journal may still run, if another process has locked the journal. The lock alone
/// does not show it: any user who could once read the file may have locked it.
fn may_go_on(file: &File, here: &JournalOrigin, of: Option<&JournalOrigin>) -> bool {
    let relation = of.map(|of| here.relation(of));
    match (relation, of.and_then(|of| of.writer)) {
        (Some(Relation::EarlierBoot), _) => false,
        (Some(Relation::Here), Some(writer)) => writer.lives(&Procfs::default()),
        _ => !Holder::of(file).is_some_and(|holder| holder.is_stranger()),
    }
}

/// A journal in a directory.
#[derive(Debug)]
pub enum FoundJournal {
    /// The journal of a running pinfold.
    Running(PathBuf),
    /// A journal that cannot be opened.
    Unreadable(PathBuf, io::Error),
    /// A file with a journal's name that is not a journal, and why. It was not touched.
    NotOurs(PathBuf, &'static str),
    /// A journal of threads of other namespaces: it is left alone.
    Elsewhere(PathBuf, Elsewhere),
    /// The journal of a killed pinfold.
    Left(Left),
}

/// The journal of a killed pinfold. It is locked while this value exists, unless a process other than its writer has
/// the lock. If two processes roll it back at the same time, both do the same.
#[derive(Debug)]
pub struct Left {
    path: PathBuf,
    file: File,
    _lock: Option<LockedFile>,
    pub(super) contents: Contents,
}

impl Left {
    /// Opens and reads the journal at `path`. `None` if it does not exist any more.
    pub(crate) fn open(
        path: &Path,
        here: &JournalOrigin,
        writing: Writing,
    ) -> Result<Option<FoundJournal>, JournalError> {
        loop {
            let mut file = match own::open_private(path, OpenOptions::new().read(true).write(true)) {
                Ok(Own::File(file)) => file,
                Ok(Own::Foreign(why)) => return Ok(Some(FoundJournal::NotOurs(path.to_path_buf(), why))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Ok(Some(FoundJournal::Unreadable(path.to_path_buf(), error))),
            };
            let lock = lock_of(&file, writing).map_err(failure(path, "locked"))?;
            // The process that had it locked may have removed or replaced it meanwhile.
            if !own::is_at(&file, path) {
                continue;
            }
            let mut bytes = vec![];
            if let Err(error) = file.read_to_end(&mut bytes) {
                return Ok(Some(FoundJournal::Unreadable(path.to_path_buf(), error)));
            }
            if !record::has_header(&bytes) {
                return Ok(Some(FoundJournal::NotOurs(path.to_path_buf(), NO_JOURNAL)));
            }
            let mut contents = Contents::read(&bytes);
            if lock.is_none() && writing == Writing::MayGoOn && may_go_on(&file, here, contents.origin.as_ref()) {
                return Ok(Some(FoundJournal::Running(path.to_path_buf())));
            }
            match contents.origin.as_ref().map(|origin| here.relation(origin)) {
                None | Some(Relation::Here) => {}
                Some(Relation::EarlierBoot) => contents.changes.clear(),
                Some(Relation::Elsewhere(namespaces)) => {
                    if let Some(elsewhere) = Elsewhere::find(path, &Procfs::default(), here, namespaces) {
                        return Ok(Some(FoundJournal::Elsewhere(path.to_path_buf(), elsewhere)));
                    }
                    // Its threads have ended with their namespace. Registers and probes belong to the machine.
                    contents.changes.retain(|_, change| !matches!(change, Change::Mask(_)));
                }
            }
            return Ok(Some(FoundJournal::Left(Self {
                path: path.to_path_buf(),
                file,
                _lock: lock,
                contents,
            })));
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why it cannot be read to its end. The records before the damage are used.
    pub fn damage(&self) -> Option<&str> {
        self.contents.damage.as_deref()
    }

    /// Whether its changes shall stay, because the user asked for it.
    pub fn kept(&self) -> bool {
        self.contents.kept
    }

    /// Rolls back the changes that are still as pinfold made them. `dry_run` only reports the calls. The journal keeps
    /// changes whose old values cannot be in force yet.
    pub fn roll_back(&self, roots: &Roots, dry_run: bool) -> RolledBack {
        let rolled_back = roll_back::roll_back(self.contents.changes.values(), roots, dry_run, true);
        if self.contents.damage.is_none() && !rolled_back.waiting().is_empty() {
            let records = rolled_back.waiting().iter().cloned();
            let lines = records.map(|change| Record::Change(Change::Mask(change)).to_line());
            // If they cannot be written, the earlier records stay, and still identify the threads.
            let _ = self.append(&lines.collect::<String>());
        }
        rolled_back
    }

    /// Writes after the last whole line.
    fn append(&self, lines: &str) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(self.contents.whole)?;
        file.seek(SeekFrom::End(0))?;
        file.write_all(lines.as_bytes())
    }

    /// Removes the file. A damaged file is renamed instead, and its new name returned.
    pub fn settle(self) -> Result<Option<PathBuf>, JournalError> {
        if self.contents.damage.is_none() {
            // A guard that keeps the file open sees that nothing is left to do.
            let _ = self.file.set_len(0);
            remove(&self.path)?;
            return Ok(None);
        }
        let mut number = 1;
        loop {
            let extension = match number {
                1 => DAMAGED.to_owned(),
                _ => format!("{DAMAGED}-{number}"),
            };
            let aside = self.path.with_extension(extension);
            // A link, because a rename would replace a file of this name.
            match fs::hard_link(&self.path, &aside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                linked => {
                    linked.map_err(failure(&self.path, "set aside"))?;
                    remove(&self.path)?;
                    return Ok(Some(aside));
                }
            }
        }
    }
}

/// Removes a journal that another process may have removed since.
fn remove(path: &Path) -> Result<(), JournalError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failure(path, "removed")(error)),
        _ => Ok(()),
    }
}

/// The time after which a guard checks again the masks that cannot be in force yet.
const LOOKING_AGAIN: Duration = Duration::from_secs(1);

/// The guard of a journal.
pub(crate) struct Abandoned<'a> {
    pub(crate) path: &'a Path,
    pub(crate) here: &'a JournalOrigin,
}

impl Duty for Abandoned<'_> {
    fn open(&self) -> Option<File> {
        match own::open_private(self.path, OpenOptions::new().read(true).write(true)) {
            Ok(Own::File(file)) => Some(file),
            _ => None,
        }
    }

    fn roll_back(self, mut file: Option<File>) {
        loop {
            let mut left = match Left::open(self.path, self.here, Writing::Ended) {
                Ok(Some(FoundJournal::Left(left))) => left,
                // The file or its directory was removed.
                Ok(None) => match file.take().and_then(|file| self.removed(file)) {
                    Some(left) => left,
                    None => return,
                },
                _ => return,
            };
            if left.kept() {
                return;
            }
            // Probes have a guard of their own. This one may lack the capabilities to remove them.
            let is_own = |_: &Target, change: &mut Change| !matches!(change, Change::Probes(_));
            left.contents.changes.retain(is_own);
            let rolled_back = left.roll_back(&Roots::default(), false);
            // Changes that could not be rolled back remain for `pinfold reset`. A damaged journal also remains, because
            // it has to be reported.
            if rolled_back.failed() == 0 {
                if left.damage().is_none() {
                    let _ = left.settle();
                }
                return;
            }
            if !own::is_at(&left.file, self.path) && self.write_again(&left).is_err() {
                return;
            }
            if rolled_back.waiting().is_empty() {
                return;
            }
            drop(left);
            sleep(LOOKING_AGAIN);
        }
    }
}

impl Abandoned<'_> {
    /// The content of a file that has no name any more. `None` if others have rolled it back.
    fn removed(&self, mut file: File) -> Option<Left> {
        let lock = lock_of(&file, Writing::Ended).ok()?;
        let mut bytes = vec![];
        file.read_to_end(&mut bytes).ok()?;
        record::has_header(&bytes).then(|| Left {
            path: self.path.to_path_buf(),
            file,
            _lock: lock,
            contents: Contents::read(&bytes),
        })
    }

    /// Writes a journal again after its file was removed.
    fn write_again(&self, left: &Left) -> Result<(), JournalError> {
        let failed = failure(self.path, "written again");
        if let Some(directory) = self.path.parent() {
            Directory::new(directory)?;
        }
        let changes = left.contents.changes.values().cloned();
        let written = write_new(self.path, self.here, changes, left.contents.kept);
        let linked = written.and_then(|_| fs::hard_link(self.path.with_extension(UNFINISHED), self.path));
        let _ = fs::remove_file(self.path.with_extension(UNFINISHED));
        linked.map_err(failed)
    }
}
