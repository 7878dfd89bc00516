//! Opening the database, and making it.
//!
//! The version of the tables is `SQLite`'s `user_version`; `application_id` marks the file as pinfold's. A damaged file
//! of pinfold's is renamed to `FILE.damaged-N` with its write-ahead log, so that it can still be repaired. Any other
//! file is refused and not changed.
//!
//! 1. The file is inspected under a shared lock (`lock`). If it is complete, the lock is held while the file is open.
//! 2. Otherwise an exclusive lock is taken, and the file is inspected again, because another process may have done the
//!    work since. Then the database is made; a damaged one is renamed first.

use crate::Store;
use crate::lock::Lock;
use nix::unistd::geteuid;
use pinfold_files::lock::{Holder, holder_text};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The version that this pinfold writes.
const VERSION: i64 = 1;
/// "PNFD": the number in the header that distinguishes a behaviour database from files of other programs.
const APPLICATION: u32 = 0x504e_4644;
/// The position of this number in the file: four bytes, the highest first.
const APPLICATION_AT: usize = 68;
/// The first bytes of a file of `SQLite`.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The longest wait of a repair for processes that have the file open.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest waits of a writer for another writer: while the program runs, and before it starts. The program waits,
/// too, before it starts.
pub(crate) const PATIENCE_OF_WRITER: Duration = Duration::from_secs(10);
const PATIENCE_AT_BEGIN: Duration = Duration::from_secs(2);
/// The time limit for opening a database, which reads the whole file once.
const READING: Duration = Duration::from_secs(20);
/// Steps of `SQLite`'s machine between two looks at the time: some milliseconds.
const STEPS: i32 = 100_000;
/// The most bytes of one value. The longest are the metrics of a sample, of less than a kilobyte.
const LONGEST: i32 = 1 << 24;
/// The first and the longest time between two attempts to lock. The time is doubled after each attempt, so that many
/// processes that find a damaged database do not prevent each other from repairing it.
const AGAIN: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

const TABLES: &str = "
    CREATE TABLE program (
        id          INTEGER PRIMARY KEY,
        identity    TEXT NOT NULL,
        name        TEXT NOT NULL,
        shape       TEXT NOT NULL,
        machine     TEXT NOT NULL,
        machine_name TEXT NOT NULL,
        simulated   INTEGER NOT NULL,
        UNIQUE (identity, shape, machine)
    ) STRICT;
    CREATE TABLE sample (
        id          INTEGER PRIMARY KEY,
        program     INTEGER NOT NULL REFERENCES program (id) ON DELETE CASCADE,
        threads     INTEGER NOT NULL,
        at          INTEGER NOT NULL,
        hint        TEXT NOT NULL,
        pus         TEXT NOT NULL,
        lasted      REAL NOT NULL,
        metric      TEXT,
        rate        REAL,
        observed    TEXT NOT NULL
    ) STRICT;
    CREATE INDEX sample_of_program ON sample (program, threads);
    CREATE TABLE choice (
        program     INTEGER NOT NULL REFERENCES program (id) ON DELETE CASCADE,
        threads     INTEGER NOT NULL,
        hint        TEXT NOT NULL,
        rules       TEXT,
        why         TEXT NOT NULL,
        before      REAL,
        after       REAL,
        kept        INTEGER NOT NULL,
        at          INTEGER NOT NULL,
        PRIMARY KEY (program, threads)
    ) STRICT;
    CREATE TABLE built (
        rules       TEXT NOT NULL,
        samples     INTEGER NOT NULL,
        at          INTEGER NOT NULL
    ) STRICT;
";

/// The reason why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder or the file cannot be made, read or renamed.
    #[error("the behaviour database `{}`: {why}; --db names another file", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What went wrong.
        why: String,
    },
    /// It is not a file of pinfold's, or belongs to another user.
    #[error("`{}` is no behaviour database of this user: {why}. It was left as it is; --db names another file", file.display())]
    NotOurs {
        /// The file.
        file: PathBuf,
        /// What it is.
        why: String,
    },
    /// It is damaged, and cannot be renamed now.
    #[error(
        "the behaviour database `{}` is damaged, and {holder} has it open; try again when that has ended, or name another file \
         by --db", file.display()
    )]
    InUse {
        /// The file.
        file: PathBuf,
        /// The process that has it open, as text.
        holder: String,
    },
    /// Another process keeps it locked.
    #[error(
        "the behaviour database cannot be used now: {holder} has locked `{}`; try again when that has ended, or name another \
         file by --db", file.display()
    )]
    Locked {
        /// The locked file.
        file: PathBuf,
        /// The process that has locked it, as text.
        holder: String,
    },
    /// It has more content than can be shown.
    #[error(
        "the behaviour database `{}` has {samples} samples of {bytes} bytes, more than are read at once; name one program, or \
         forget some by `pinfold db forget`", file.display()
    )]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The number of samples.
        samples: u64,
        /// The bytes of their texts.
        bytes: u64,
    },
    /// A later pinfold made it.
    #[error(
        "the behaviour database `{}` is of version {version}, and this pinfold knows up to {VERSION}; use the pinfold that made \
         it, or another file by --db. Nothing in it was changed",
        file.display()
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: i64,
    },
    /// `SQLite` gave an error.
    #[error("the behaviour database: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// An open database.
#[derive(Debug)]
pub struct Opened {
    /// The database.
    pub store: Store,
    /// The new name of a damaged database; `None` if none was renamed.
    pub set_aside: Option<PathBuf>,
}

/// The file under the name of the database.
enum FileState {
    Whole(Connection),
    /// Nothing, or an incomplete database.
    Unmade,
    Damaged,
}

impl Opened {
    /// Opens `file`, and makes it if it does not exist.
    pub fn new(file: &Path) -> Result<Self, StoreError> {
        Self::within(file, PATIENCE).map_err(|error| explained(error, file))
    }

    fn within(file: &Path, patience: Duration) -> Result<Self, StoreError> {
        if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| failed(file, &error))?;
        }
        check_kind(file)?;
        make_private(file).map_err(|error| failed(file, &error))?;
        let deadline = Instant::now() + patience;
        let mut pause = AGAIN;
        loop {
            let lock = Lock::shared(file)?;
            if let FileState::Whole(connection) = look(file)? {
                trust_the_time(&connection)?;
                let store = Store::new(connection, file, lock);
                return Ok(Self { store, set_aside: None });
            }
            drop(lock);
            match Lock::alone(file)? {
                Ok(lock) => {
                    let mut set_aside = None;
                    let connection = match look(file)? {
                        FileState::Whole(connection) => connection,
                        FileState::Unmade => make(file)?,
                        FileState::Damaged => {
                            set_aside = Some(self::set_aside(file).map_err(|error| failed(file, &error))?);
                            make(file)?
                        }
                    };
                    drop(lock);
                    let lock = Lock::shared(file)?;
                    trust_the_time(&connection)?;
                    let store = Store::new(connection, file, lock);
                    return Ok(Self { store, set_aside });
                }
                Err(locked) if Instant::now() >= deadline => {
                    let file = file.to_path_buf();
                    let holder = holder_text(Holder::of(&locked).as_ref());
                    return Err(StoreError::InUse { file, holder });
                }
                Err(_) => {
                    // Not all at the same time.
                    thread::sleep(pause + AGAIN * (std::process::id() % 16));
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

/// An error that names the file, because `SQLite` does not. In a container with a read-only root, the file exists and
/// cannot be written.
pub(crate) fn explained(error: StoreError, file: &Path) -> StoreError {
    match error {
        StoreError::Sqlite(error) if is_forbidden(&error) => failed(file, &said(&error)),
        StoreError::Sqlite(error) if is_busy(&error) => locked(file),
        StoreError::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            failed(file, &format!("reading it takes longer than {} s", READING.as_secs()))
        }
        other => other,
    }
}

/// Whether the file system does not let `SQLite` have its files.
fn is_forbidden(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied)
    )
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// The error for a database that another process has locked. `SQLite` locks bytes of the file, and of the index of its
/// log.
fn locked(file: &Path) -> StoreError {
    let holder = ["", "-shm"].iter().find_map(|part| {
        // Closing a descriptor drops all locks that this process has on the file. This process gives up anyway.
        Holder::of(&File::open(with(file, part)).ok()?)
    });
    StoreError::Locked {
        file: file.to_path_buf(),
        holder: holder_text(holder.as_ref()),
    }
}

/// The text of an error without its number.
fn said(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
        other => other.to_string(),
    }
}

pub(crate) fn failed(file: &Path, why: &impl ToString) -> StoreError {
    StoreError::File {
        file: file.to_path_buf(),
        why: why.to_string(),
    }
}

fn not_ours(file: &Path, why: impl Into<String>) -> StoreError {
    StoreError::NotOurs {
        file: file.to_path_buf(),
        why: why.into(),
    }
}

/// The file name with a suffix.
pub(crate) fn with(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

/// Accepts only regular files of this user, and refuses links of other users. Root may open files of all users.
fn check_kind(file: &Path) -> Result<(), StoreError> {
    let Ok(named) = fs::symlink_metadata(file) else {
        return Ok(());
    };
    let user = geteuid().as_raw();
    if named.is_symlink() && ![0, user].contains(&named.uid()) {
        return Err(not_ours(file, format!("it is a symbolic link of user {}", named.uid())));
    }
    match fs::metadata(file) {
        Ok(there) if !there.is_file() => Err(not_ours(file, "it is no regular file")),
        Ok(there) if user != 0 && there.uid() != user => {
            Err(not_ours(file, format!("it belongs to user {}", there.uid())))
        }
        _ => Ok(()),
    }
}

/// Removes the permissions of all other users from a database of this user, because a user who may read it can keep it
/// locked. The files are not opened, because closing a file drops the locks that this process has on it.
fn make_private(file: &Path) -> io::Result<()> {
    for part in ["", "-wal", "-shm", "-journal"] {
        let path = with(file, part);
        let Ok(there) = fs::metadata(&path) else { continue };
        if there.is_file() && there.uid() == geteuid().as_raw() && there.mode() & 0o077 != 0 {
            fs::set_permissions(&path, Permissions::from_mode(there.mode() & 0o700))?;
        }
    }
    Ok(())
}

/// Inspects the file. Nothing is written; only a transaction that a kill interrupted is rolled back.
fn look(file: &Path) -> Result<FileState, StoreError> {
    if fs::metadata(file).map_or(0, |there| there.len()) == 0 {
        return Ok(FileState::Unmade);
    }
    let found = recognise(file).and_then(|whole| {
        if !whole {
            return Ok(FileState::Unmade);
        }
        let connection = connect(file)?;
        let sound: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        Ok(if sound == "ok" {
            FileState::Whole(connection)
        } else {
            FileState::Damaged
        })
    });
    match found {
        Err(StoreError::Sqlite(error)) if is_damage(&error) => {
            if is_marked(file).map_err(|error| failed(file, &error))? {
                Ok(FileState::Damaged)
            } else {
                Err(not_ours(file, "it is not marked as one of pinfold's"))
            }
        }
        found => found,
    }
}

/// Whether a file is a complete database of pinfold; an error for a file of another program.
fn recognise(file: &Path) -> Result<bool, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(|error| failed(file, &error))?;
    distrust(&connection)?;
    match recognise_by(&connection, file) {
        // A kill interrupted a transaction, which has to be rolled back before anything can be read.
        Err(StoreError::Sqlite(error)) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
            if is_marked(file).map_err(|error| failed(file, &error))? {
                recognise_by(&connect(file)?, file)
            } else {
                Err(not_ours(file, "another program was interrupted while it wrote to it"))
            }
        }
        recognised => recognised,
    }
}

fn recognise_by(connection: &Connection, file: &Path) -> Result<bool, StoreError> {
    let application: u32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version = version(connection)?;
    if version > VERSION && application == APPLICATION {
        let file = file.to_path_buf();
        return Err(StoreError::Newer { file, version });
    }
    let code = "SELECT type || ' ' || name FROM sqlite_schema
                WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%' LIMIT 1";
    let code: Option<String> = connection.query_row(code, [], |row| row.get(0)).optional()?;
    if let (APPLICATION, Some(code)) = (application, code) {
        let why = format!(
            "it has the {code}, and pinfold makes tables only",
            code = code.escape_debug()
        );
        return Err(not_ours(file, why));
    }
    let count = |condition: &str| {
        let query = format!("SELECT COUNT(*) FROM sqlite_schema WHERE {condition}");
        connection.query_row(&query, [], |row| row.get::<_, i64>(0))
    };
    // The first versions of pinfold did not mark their files.
    let ours = count("type = 'table' AND name IN ('program', 'sample', 'choice', 'built')")? == 4;
    let begun = count("TRUE")? == 0;
    match application {
        APPLICATION if version == VERSION && !ours => Err(not_ours(file, "its tables are not pinfold's")),
        APPLICATION => Ok(version == VERSION),
        0 if version == VERSION && ours || version == 0 && begun => Ok(false),
        _ => Err(not_ours(file, "it is a database of another program")),
    }
}

/// Whether the header of a damaged file marks it as pinfold's.
fn is_marked(file: &Path) -> io::Result<bool> {
    let mut header = vec![];
    File::open(file)?.take(100).read_to_end(&mut header)?;
    let application = header.get(APPLICATION_AT..APPLICATION_AT + 4);
    Ok(header.starts_with(MAGIC) && application == Some(&APPLICATION.to_be_bytes()))
}

/// Connects to the file, which may not exist yet.
fn connect(file: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(|error| failed(file, &error))?;
    distrust(&connection)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

/// Limits the work that the content of a file can cause, because anybody may have written it. The time limit holds
/// until `trust_the_time`.
fn distrust(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.busy_timeout(PATIENCE_AT_BEGIN)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    let deadline = Instant::now() + READING;
    connection.progress_handler(STEPS, Some(move || Instant::now() > deadline))
}

/// Ends the time limit. The database was read completely and has tables only, so no statement takes longer than its
/// data.
fn trust_the_time(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.progress_handler(0, None::<fn() -> bool>)
}

/// Makes the missing tables. The caller holds the exclusive lock.
fn make(file: &Path) -> Result<Connection, StoreError> {
    let mut options = OpenOptions::new();
    let made = options.append(true).create(true).mode(0o600).open(file);
    made.map_err(|error| failed(file, &error))?;
    let mut connection = connect(file)?;
    // This comes first and goes into the file itself: damage after a kill must not hide the owner of the file.
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    if version(&transaction)? == 0 {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()?;
    Ok(connection)
}

fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

/// Renames a damaged file, and returns the new name. The caller holds the exclusive lock.
fn set_aside(file: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    while fs::symlink_metadata(with(file, &format!(".damaged-{number}"))).is_ok() {
        number += 1;
    }
    let aside = with(file, &format!(".damaged-{number}"));
    fs::rename(file, &aside)?;
    for part in ["-wal", "-shm"] {
        match fs::rename(with(file, part), with(&aside, part)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_database_that_is_open_elsewhere_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("behaviour.db");
        // The end of the first writes all tables from the log into the file.
        drop(Opened::new(&file).unwrap());
        let first = Opened::new(&file).unwrap();
        let mut bytes = fs::read(&file).unwrap();
        bytes[100..].fill(0x5a);
        fs::write(&file, bytes).unwrap();
        let refused = Opened::within(&file, Duration::ZERO).unwrap_err();
        assert!(matches!(refused, StoreError::InUse { .. }), "{refused}");
        drop(first);
        assert!(Opened::within(&file, Duration::ZERO).unwrap().set_aside.is_some());
    }

    /// Leaves at `file` what a kill in the middle of a transaction leaves: pages that are half written, and a journal
    /// that rolls them back.
    fn interrupted(file: &Path) {
        let source = with(file, ".source");
        drop(Opened::new(&source).unwrap());
        let writer = Connection::open(&source).unwrap();
        writer.pragma_update(None, "journal_mode", "DELETE").unwrap();
        writer.pragma_update(None, "cache_size", 1).unwrap();
        let rows = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 2000)
                    INSERT INTO built SELECT hex(randomblob(100)), n, n FROM number";
        writer.execute_batch(&format!("BEGIN IMMEDIATE; {rows}")).unwrap();
        for part in ["", "-journal"] {
            fs::copy(with(&source, part), with(file, part)).unwrap();
        }
    }

    #[test]
    fn a_transaction_that_a_kill_interrupted_is_rolled_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("behaviour.db");
        interrupted(&file);
        assert!(Opened::new(&file).unwrap().set_aside.is_none());
        let rows = connect(&file)
            .unwrap()
            .query_row("SELECT COUNT(*) FROM built", [], |row| row.get::<_, i64>(0));
        assert_eq!(rows.unwrap(), 0);
    }

    #[test]
    fn an_interrupted_transaction_of_another_program_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("behaviour.db");
        interrupted(&file);
        let mut bytes = fs::read(&file).unwrap();
        bytes[APPLICATION_AT..APPLICATION_AT + 4].fill(0);
        fs::write(&file, &bytes).unwrap();
        let refused = Opened::new(&file).unwrap_err();
        assert!(matches!(refused, StoreError::NotOurs { .. }), "{refused}");
        assert_eq!(fs::read(&file).unwrap(), bytes);
        assert!(with(&file, "-journal").exists());
    }
}
