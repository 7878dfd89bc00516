//! Opening the database, and making it.
//!
//! The version of the tables is `SQLite`'s `user_version`. What is not a database, or is one with damage, is renamed to
//! `FILE.damaged-N` with its write-ahead log, and nothing of it is lost to who can repair it.

use crate::Store;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version that this pinfold writes.
const VERSION: i64 = 1;
/// How long a writer waits for another.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// Why the database cannot be used.
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
    /// It was made by a newer pinfold.
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
    /// `SQLite` says no.
    #[error("the behaviour database: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// An open database.
pub struct Opened {
    /// The database.
    pub store: Store,
    /// Where a damaged one was moved to.
    pub set_aside: Option<PathBuf>,
}

impl Opened {
    /// Opens `file`, and makes it where there is none.
    pub fn new(file: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|error| failed(file, &error))?;
        }
        match connect(file) {
            Err(StoreError::Sqlite(error)) if is_damage(&error) => {
                let aside = set_aside(file).map_err(|error| failed(file, &error))?;
                Ok(Self {
                    store: Store::new(connect(file)?),
                    set_aside: Some(aside),
                })
            }
            connected => Ok(Self {
                store: Store::new(connected?),
                set_aside: None,
            }),
        }
    }
}

fn failed(file: &Path, error: &io::Error) -> StoreError {
    StoreError::File {
        file: file.to_path_buf(),
        why: error.to_string(),
    }
}

/// Connects, checks the file, and makes what is missing.
fn connect(file: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(file, flags).map_err(|error| StoreError::File {
        file: file.to_path_buf(),
        why: error.to_string(),
    })?;
    connection.busy_timeout(PATIENCE)?;
    let version = version(&connection)?;
    if version > VERSION {
        return Err(StoreError::Newer {
            file: file.to_path_buf(),
            version,
        });
    }
    let sound: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if sound != "ok" {
        let damage = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        return Err(StoreError::Sqlite(rusqlite::Error::SqliteFailure(damage, Some(sound))));
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    if version == 0 {
        // Another pinfold may do the same at the same time: whoever comes second finds it done.
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if self::version(&transaction)? == 0 {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        transaction.commit()?;
    }
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

/// Renames a damaged file; its new name.
fn set_aside(file: &Path) -> io::Result<PathBuf> {
    let with = |suffix: &str| {
        let mut name = OsString::from(file.as_os_str());
        name.push(suffix);
        PathBuf::from(name)
    };
    let mut number = 1;
    while with(&format!(".damaged-{number}")).exists() {
        number += 1;
    }
    let aside = with(&format!(".damaged-{number}"));
    fs::rename(file, &aside)?;
    for part in ["-wal", "-shm"] {
        let mut to = aside.clone().into_os_string();
        to.push(part);
        match fs::rename(with(part), to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}
