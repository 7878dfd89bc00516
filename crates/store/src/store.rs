//! Writing to the database, and reading from it.

use crate::lock::Lock;
use crate::placements::PlacementRow;
use crate::program::{MachineKey, ProgramKey};
use crate::runs::{HistoryRow, RunRow};
use crate::schema::{PATIENCE_OF_WRITER, StoreError, explained};
use pinfold_core::Observed;
use pinfold_core::hint::AffinityHint;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Limits of one read: the number of samples, and the bytes of their texts. A run adds some tens of samples.
const MOST_SAMPLES: u64 = 1 << 20;
const MOST_BYTES: u64 = 1 << 28;

/// The open database.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    file: PathBuf,
    /// Dropped after the connection, so that no process renames an open file.
    _lock: Lock,
}

/// An observation of a program in a placement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SampleRow {
    /// The number of threads with ranks.
    pub threads: usize,
    /// The time, in seconds since 1970.
    pub at: i64,
    /// The hint that gave the placement; `None` for unpinned threads.
    pub hint: Option<AffinityHint>,
    /// The PU of each rank, as a list; for unpinned threads the PU on which each last ran. Empty if it is not known.
    pub pus: String,
    /// The duration, in seconds.
    pub lasted: f64,
    /// The metric that decided.
    pub metric: Option<String>,
    /// Its rate; `None` if it is not available.
    pub rate: Option<f64>,
    /// Every metric: name, unit and value.
    pub observed: Vec<ObservedRow>,
}

/// A metric's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedRow {
    /// The metric.
    pub name: String,
    /// The unit of the value.
    pub unit: String,
    /// A rate per second, and per thread if tasks are counted separately; `None` if it is not available.
    pub value: Option<f64>,
}

impl fmt::Display for ObservedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "{} {value:.4e} {}", self.name, self.unit),
            None => write!(f, "{} is missing", self.name),
        }
    }
}

impl From<&Observed> for ObservedRow {
    fn from(observed: &Observed) -> Self {
        Self {
            name: observed.name.clone(),
            unit: observed.unit.clone(),
            value: observed.value.filter(|value| value.is_finite()),
        }
    }
}

/// The hint that a program got, and its effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The number of threads with ranks.
    pub threads: usize,
    /// The final hint: the hint of the rules, or the earlier hint if the rate fell. `None` for unpinned threads.
    pub hint: Option<AffinityHint>,
    /// The version of the rules; `None` without rules.
    pub rules: Option<String>,
    /// The rule that holds, and the values in its conditions.
    pub why: String,
    /// The rate before the move; `None` if it was not measured.
    pub before: Option<f64>,
    /// The rate after the move; `None` if it was not measured.
    pub after: Option<f64>,
    /// Whether the hint of the rules was kept.
    pub kept: bool,
    /// The time, in seconds since 1970.
    pub at: i64,
}

/// A known hint for a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownHint {
    /// The hint; `None` for unpinned threads.
    pub hint: Option<AffinityHint>,
    /// The time of the choice, in seconds since 1970.
    pub at: i64,
    /// Whether the rules gave it; otherwise the program was faster with it than with the hint of the rules.
    pub kept: bool,
}

/// A program with its observations and choices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredProgram {
    /// Its number in the database.
    pub id: i64,
    /// Its identity.
    #[serde(flatten)]
    pub key: ProgramKey,
    /// The observations, the oldest first.
    pub samples: Vec<SampleRow>,
    /// The choices, by number of threads.
    pub choices: Vec<Choice>,
    /// The fastest placements, by number of threads.
    pub placements: Vec<PlacementRow>,
    /// The last whole runs, the oldest first.
    pub runs: Vec<RunRow>,
    /// What whole runs have shown, by context.
    pub histories: Vec<HistoryRow>,
}

/// The growth of the database since rules were learned from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The number of samples at that time; `None` if no rules were learned.
    pub before: Option<u64>,
    /// The current number of samples.
    pub now: u64,
}

impl Growth {
    /// Whether it has grown by `percent`, or no rules were learned from it and it has enough samples.
    pub fn has_grown_by(&self, percent: f64) -> bool {
        /// The smallest number of samples to learn from.
        const LEAST: u64 = 8;
        match self.before {
            None => self.now >= LEAST,
            Some(before) => self.now as f64 >= before as f64 * (1.0 + percent / 100.0) && self.now > before,
        }
    }
}

/// The number of programs and samples that were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Programs.
    pub programs: usize,
}

impl Store {
    pub(crate) fn new(connection: Connection, file: &Path, lock: Lock) -> Self {
        Self {
            connection,
            file: file.to_path_buf(),
            _lock: lock,
        }
    }

    /// Adds the file and the process that has it locked to an error.
    pub(crate) fn explained(&self, error: StoreError) -> StoreError {
        explained(error, &self.file)
    }

    /// Waits longer for other writers from now on: the program runs and does not wait for this process.
    pub(crate) fn writes_beside_the_program(&self) -> Result<(), StoreError> {
        Ok(self.connection.busy_timeout(PATIENCE_OF_WRITER)?)
    }

    /// The known hints of a program, by number of threads. `rules` is the version of the rules in use: hints of older
    /// rules are dropped. A hint to which a program was moved back stays, and so does a hint without rules.
    pub fn known(&mut self, key: &ProgramKey, rules: Option<&str>) -> Result<BTreeMap<usize, KnownHint>, StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let Some(program) = find(&transaction, key)? else {
            return Ok(BTreeMap::new());
        };
        if let Some(rules) = rules {
            transaction.execute(
                "DELETE FROM choice WHERE program = ?1 AND rules IS NOT NULL AND rules <> ?2",
                params![program, rules],
            )?;
        }
        let known = transaction
            .prepare("SELECT threads, hint, at, kept FROM choice WHERE program = ?1")?
            .query_map([program], |row| {
                let known = KnownHint {
                    hint: hint(row, 1)?,
                    at: row.get(2)?,
                    kept: row.get(3)?,
                };
                Ok((row.get(0)?, known))
            })?
            .collect::<Result<_, _>>()?;
        transaction.commit()?;
        Ok(known)
    }

    /// Adds an observation.
    pub fn add_sample(&mut self, key: &ProgramKey, sample: &SampleRow) -> Result<(), StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let program = find_or_add(&transaction, key)?;
        let observed = serde_json::to_string(&sample.observed).expect("plain data is JSON");
        transaction.execute(
            "INSERT INTO sample (program, threads, at, hint, pus, lasted, metric, rate, observed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                program,
                sample.threads,
                sample.at,
                hint_text(sample.hint),
                sample.pus,
                sample.lasted,
                sample.metric,
                sample.rate.filter(|rate| rate.is_finite()),
                observed
            ],
        )?;
        transaction.commit()?;
        Ok(())
    }

    /// Keeps a choice. It replaces an earlier choice for the same number of threads.
    pub fn choose(&mut self, key: &ProgramKey, choice: &Choice) -> Result<(), StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let program = find_or_add(&transaction, key)?;
        transaction.execute(
            "INSERT OR REPLACE INTO choice (program, threads, hint, rules, why, before, after, kept, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                program,
                choice.threads,
                hint_text(choice.hint),
                choice.rules,
                choice.why,
                choice.before,
                choice.after,
                choice.kept,
                choice.at
            ],
        )?;
        transaction.commit()?;
        Ok(())
    }

    /// All programs, or the programs with the number or name `which`, in the order of their first observation.
    pub fn programs(&self, which: Option<&str>) -> Result<Vec<StoredProgram>, StoreError> {
        let (samples, bytes): (u64, u64) = self.connection.query_row(
            "SELECT COUNT(*), IFNULL(SUM(LENGTH(observed) + LENGTH(pus)), 0) FROM sample JOIN program ON program.id = program
             WHERE ?1 IS NULL OR name = ?1 OR CAST(program.id AS TEXT) = ?1",
            [which],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        if samples > MOST_SAMPLES || bytes > MOST_BYTES {
            let file = self.file.clone();
            return Err(StoreError::TooLarge { file, samples, bytes });
        }
        let mut programs: Vec<StoredProgram> = self
            .connection
            .prepare(
                "SELECT id, identity, name, shape, machine, machine_name, simulated FROM program
                 WHERE ?1 IS NULL OR name = ?1 OR CAST(id AS TEXT) = ?1 ORDER BY id",
            )?
            .query_map([which], |row| {
                Ok(StoredProgram {
                    id: row.get(0)?,
                    key: ProgramKey {
                        identity: row.get(1)?,
                        name: row.get(2)?,
                        shape: row.get(3)?,
                        machine: MachineKey {
                            fingerprint: row.get(4)?,
                            name: row.get(5)?,
                            simulated: row.get(6)?,
                        },
                    },
                    samples: vec![],
                    choices: vec![],
                    placements: vec![],
                    runs: vec![],
                    histories: vec![],
                })
            })?
            .collect::<Result<_, _>>()?;
        for program in &mut programs {
            program.samples = self.samples(program.id)?;
            program.choices = self.choices(program.id)?;
            program.placements = self.placements(program.id)?;
            program.runs = self.runs(program.id)?;
            program.histories = self.histories(program.id)?;
        }
        Ok(programs)
    }

    fn samples(&self, program: i64) -> Result<Vec<SampleRow>, StoreError> {
        let rows = self
            .connection
            .prepare(
                "SELECT threads, at, hint, pus, lasted, metric, rate, observed FROM sample WHERE program = ?1 ORDER BY id",
            )?
            .query_map([program], |row| {
                let observed: String = row.get(7)?;
                let observed = serde_json::from_str(&observed)
                    .map_err(|error| rusqlite::Error::FromSqlConversionFailure(7, Type::Text, error.into()))?;
                Ok(SampleRow {
                    threads: row.get(0)?,
                    at: row.get(1)?,
                    hint: hint(row, 2)?,
                    pus: row.get(3)?,
                    lasted: row.get(4)?,
                    metric: row.get(5)?,
                    rate: row.get(6)?,
                    observed,
                })
            })?
            .collect::<Result<_, _>>()?;
        Ok(rows)
    }

    fn choices(&self, program: i64) -> Result<Vec<Choice>, StoreError> {
        let rows = self
            .connection
            .prepare(
                "SELECT threads, hint, rules, why, before, after, kept, at FROM choice WHERE program = ?1 ORDER BY threads",
            )?
            .query_map([program], |row| {
                Ok(Choice {
                    threads: row.get(0)?,
                    hint: hint(row, 1)?,
                    rules: row.get(2)?,
                    why: row.get(3)?,
                    before: row.get(4)?,
                    after: row.get(5)?,
                    kept: row.get(6)?,
                    at: row.get(7)?,
                })
            })?
            .collect::<Result<_, _>>()?;
        Ok(rows)
    }

    /// Removes the programs with the number or name `which`, or all programs.
    pub fn forget(&mut self, which: Option<&str>) -> Result<Forgotten, StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let programs = transaction.execute(
            "DELETE FROM program WHERE ?1 IS NULL OR name = ?1 OR CAST(id AS TEXT) = ?1",
            [which],
        )?;
        transaction.commit()?;
        Ok(Forgotten { programs })
    }

    /// The growth since `built`.
    pub fn growth(&self) -> Result<Growth, StoreError> {
        let now = self
            .connection
            .query_row("SELECT COUNT(*) FROM sample", [], |row| row.get(0))?;
        let before = self
            .connection
            .query_row("SELECT samples FROM built ORDER BY rowid DESC LIMIT 1", [], |row| {
                row.get(0)
            })
            .optional()?;
        Ok(Growth { before, now })
    }

    /// Notes that rules of this version were learned from all samples.
    pub fn built(&mut self, rules: &str, at: i64) -> Result<(), StoreError> {
        self.connection.execute(
            "INSERT INTO built (rules, samples, at) SELECT ?1, COUNT(*), ?2 FROM sample",
            params![rules, at],
        )?;
        Ok(())
    }
}

pub(crate) fn find(connection: &Connection, key: &ProgramKey) -> Result<Option<i64>, rusqlite::Error> {
    let query = "SELECT id FROM program WHERE identity = ?1 AND shape = ?2 AND machine = ?3";
    let what = params![key.identity, key.shape, key.machine.fingerprint];
    connection.query_row(query, what, |row| row.get(0)).optional()
}

pub(crate) fn find_or_add(connection: &Connection, key: &ProgramKey) -> Result<i64, rusqlite::Error> {
    if let Some(program) = find(connection, key)? {
        return Ok(program);
    }
    connection.execute(
        "INSERT INTO program (identity, name, shape, machine, machine_name, simulated) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            key.identity,
            key.name,
            key.shape,
            key.machine.fingerprint,
            key.machine.name,
            key.machine.simulated
        ],
    )?;
    Ok(connection.last_insert_rowid())
}

/// The text for unpinned threads.
const UNPINNED: &str = "unpinned";

/// A hint as text in the database.
pub fn hint_text(hint: Option<AffinityHint>) -> String {
    hint.map_or_else(|| UNPINNED.to_owned(), |hint| hint.to_string())
}

fn hint(row: &Row<'_>, column: usize) -> Result<Option<AffinityHint>, rusqlite::Error> {
    let text: String = row.get(column)?;
    if text == UNPINNED {
        return Ok(None);
    }
    let parsed = text.parse::<AffinityHint>();
    parsed
        .map(Some)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}
