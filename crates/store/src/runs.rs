//! Whole runs of programs: what a run of the policy `auto` reads at its start and adds at its end.
//!
//! 1. At its start a run reads the history of its program in its context, and whether the program runs already.
//! 2. It notes that it runs, with its process. A note whose process has ended without another word is dropped.
//! 3. At its end it becomes a row, and the history gets it. Rows are for people, the last `KEPT` of a program: all that
//!    decides is in the history.
//!
//! Runs of one program that overlap disturb each other, so they are marked and not compared. pinfold makes the tables
//! when a run needs them. Older versions of pinfold ignore the tables and still read the database.

use crate::program::ProgramKey;
use crate::schema::StoreError;
use crate::store::{Store, find, find_or_add};
use pinfold_policy::whole_runs::{Area, Candidate, History, How, Plan, Run, WorkSummary};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use serde::Serialize;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS history (
        program     INTEGER NOT NULL REFERENCES program (id) ON DELETE CASCADE,
        context     TEXT NOT NULL,
        runs        TEXT NOT NULL,
        why         TEXT NOT NULL,
        PRIMARY KEY (program, context)
    ) STRICT;
    CREATE TABLE IF NOT EXISTS run (
        id          INTEGER PRIMARY KEY,
        program     INTEGER NOT NULL REFERENCES program (id) ON DELETE CASCADE,
        context     TEXT NOT NULL,
        began       REAL NOT NULL,
        area        TEXT NOT NULL,
        pus         TEXT NOT NULL,
        process     TEXT,
        wall        REAL,
        cpu         REAL,
        how         TEXT
    ) STRICT;
    CREATE INDEX IF NOT EXISTS run_of_program ON run (program);
";

/// The rows that are kept of a program.
const KEPT: usize = 64;

/// The text for an unpinned run.
const UNPINNED: &str = "";

/// The text for a run that failed. It is no measurement.
const FAILED: &str = "failed";

/// A run that begins.
#[derive(Clone, Debug, PartialEq)]
pub struct BegunRun {
    /// The time, in seconds since 1970.
    pub began: f64,
    /// The area; `None` for an unpinned run.
    pub area: Option<Area>,
    /// Its PUs, as a list; empty for an unpinned run.
    pub pus: String,
    /// The process of pinfold, as the caller recognises it again.
    pub process: String,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndedRun {
    /// Seconds from its start to its end.
    pub wall: f64,
    /// CPU seconds of all its processes.
    pub cpu: f64,
    /// How it went; `None` for a run that failed.
    pub how: Option<How>,
}

/// A run in the database.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// Where it ran: its working directory, the variables that decide the number of threads, and its PUs.
    pub context: String,
    /// The time of its start, in seconds since 1970.
    pub began: f64,
    /// The area; `None` for an unpinned run.
    pub area: Option<Area>,
    /// Its PUs, as a list; empty for an unpinned run.
    pub pus: String,
    /// Seconds from its start to its end.
    pub wall: f64,
    /// CPU seconds of all its processes.
    pub cpu: f64,
    /// `whole`, `stopped`, `overlapped`, `searched` or `failed`.
    pub how: String,
}

/// What the runs of a program in one context have shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryRow {
    /// The context, as for a run.
    pub context: String,
    /// What the next run does, and why.
    pub why: String,
    /// The seconds of all runs.
    pub total: f64,
    /// The seconds that trials have lost.
    pub lost: f64,
    /// The works that it does, the expected one first.
    pub works: Vec<WorkSummary>,
}

pub(crate) fn is_made(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let query = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'run'";
    Ok(connection.query_row(query, [], |_| Ok(())).optional()?.is_some())
}

/// The word for how a run went.
fn word(how: Option<How>) -> &'static str {
    match how {
        Some(How::Whole) => "whole",
        Some(How::Stopped) => "stopped",
        Some(How::Overlapped) => "overlapped",
        Some(How::Searched) => "searched",
        None => FAILED,
    }
}

fn area(row: &Row<'_>, column: usize) -> Result<Option<Area>, rusqlite::Error> {
    let text: String = row.get(column)?;
    let parsed = (text != UNPINNED).then(|| text.parse::<Area>()).transpose();
    parsed.map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

fn history(connection: &Connection, program: i64, context: &str) -> Result<History, rusqlite::Error> {
    let query = "SELECT runs FROM history WHERE program = ?1 AND context = ?2";
    let text: Option<String> = connection
        .query_row(query, params![program, context], |row| row.get(0))
        .optional()?;
    Ok(text.as_deref().map(History::parse).unwrap_or_default())
}

/// The processes of the runs of this build of the program, whatever their arguments, that have not ended; each with the
/// number of the run.
fn running(connection: &Connection, key: &ProgramKey) -> Result<Vec<(i64, String)>, rusqlite::Error> {
    connection
        .prepare(
            "SELECT run.id, process FROM run JOIN program ON program.id = program
             WHERE process IS NOT NULL AND identity = ?1 AND machine = ?2",
        )?
        .query_map(params![key.identity, key.machine.fingerprint], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect()
}

impl Store {
    /// The history of a program in a context.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn history(&self, key: &ProgramKey, context: &str) -> Result<History, StoreError> {
        if !is_made(&self.connection)? {
            return Ok(History::default());
        }
        match find(&self.connection, key)? {
            Some(program) => Ok(history(&self.connection, program, context)?),
            None => Ok(History::default()),
        }
    }

    /// Whether another run of this build of the program has not ended. `lives` says whether a process still runs.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn is_running(&self, key: &ProgramKey, lives: impl Fn(&str) -> bool) -> Result<bool, StoreError> {
        if !is_made(&self.connection)? {
            return Ok(false);
        }
        Ok(running(&self.connection, key)?
            .iter()
            .any(|(_, process)| lives(process)))
    }

    /// Notes that a run has begun, and returns its number. Notes of processes that have ended are dropped.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn begin_run(
        &mut self,
        key: &ProgramKey,
        context: &str,
        run: &BegunRun,
        lives: impl Fn(&str) -> bool,
    ) -> Result<i64, StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(TABLES)?;
        let program = find_or_add(&transaction, key)?;
        for (run, _) in running(&transaction, key)?
            .iter()
            .filter(|(_, process)| !lives(process))
        {
            transaction.execute("DELETE FROM run WHERE id = ?1", [run])?;
        }
        transaction.execute(
            "INSERT INTO run (program, context, began, area, pus, process) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                program,
                context,
                run.began,
                run.area.map_or_else(|| UNPINNED.to_owned(), |area| area.to_string()),
                run.pus,
                run.process
            ],
        )?;
        let number = transaction.last_insert_rowid();
        transaction.commit()?;
        Ok(number)
    }

    /// Drops a run that has begun.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn drop_run(&mut self, run: i64) -> Result<(), StoreError> {
        self.connection.execute("DELETE FROM run WHERE id = ?1", [run])?;
        Ok(())
    }

    /// Keeps the end of a run, and returns the plan for the next one on a machine with these areas. `None` if the
    /// program was forgotten meanwhile.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn end_run(
        &mut self,
        key: &ProgramKey,
        run: i64,
        ended: EndedRun,
        candidates: &[Candidate],
        lives: impl Fn(&str) -> bool,
    ) -> Result<Option<Plan>, StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let begun = transaction
            .query_row(
                "SELECT program, context, began, area FROM run WHERE id = ?1",
                [run],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, area(row, 3)?)),
            )
            .optional()?;
        let Some((program, context, began, area)): Option<(i64, String, f64, Option<Area>)> = begun else {
            return Ok(None);
        };
        let is_alone = !overlaps(&transaction, key, run, began, lives)?;
        let how = ended.how.map(|how| if is_alone { how } else { How::Overlapped });
        transaction.execute(
            "UPDATE run SET process = NULL, wall = ?2, cpu = ?3, how = ?4 WHERE id = ?1",
            params![run, ended.wall, ended.cpu, word(how)],
        )?;
        let mut history = history(&transaction, program, &context)?;
        if let Some(how) = how {
            history.add(&Run {
                area,
                wall: ended.wall,
                cpu: ended.cpu,
                how,
            });
        }
        let plan = history.plan(candidates);
        transaction.execute(
            "INSERT OR REPLACE INTO history (program, context, runs, why) VALUES (?1, ?2, ?3, ?4)",
            params![program, context, history.to_json(), plan.why],
        )?;
        transaction.execute(
            "DELETE FROM run WHERE program = ?1 AND process IS NULL AND id NOT IN
             (SELECT id FROM run WHERE program = ?1 ORDER BY id DESC LIMIT ?2)",
            params![program, KEPT],
        )?;
        transaction.commit()?;
        Ok(Some(plan))
    }

    /// The runs of one stored program that have ended, the oldest first.
    pub(crate) fn runs(&self, program: i64) -> Result<Vec<RunRow>, StoreError> {
        if !is_made(&self.connection)? {
            return Ok(vec![]);
        }
        let rows = self
            .connection
            .prepare(
                "SELECT context, began, area, pus, wall, cpu, how FROM run
                 WHERE program = ?1 AND process IS NULL ORDER BY id",
            )?
            .query_map([program], |row| {
                Ok(RunRow {
                    context: row.get(0)?,
                    began: row.get(1)?,
                    area: area(row, 2)?,
                    pus: row.get(3)?,
                    wall: row.get(4)?,
                    cpu: row.get(5)?,
                    how: row.get(6)?,
                })
            })?
            .collect::<Result<_, _>>()?;
        Ok(rows)
    }

    /// The histories of one stored program, by context.
    pub(crate) fn histories(&self, program: i64) -> Result<Vec<HistoryRow>, StoreError> {
        if !is_made(&self.connection)? {
            return Ok(vec![]);
        }
        let rows = self
            .connection
            .prepare("SELECT context, runs, why FROM history WHERE program = ?1 ORDER BY context")?
            .query_map([program], |row| {
                let text: String = row.get(1)?;
                let history = History::parse(&text);
                Ok(HistoryRow {
                    context: row.get(0)?,
                    why: row.get(2)?,
                    total: history.total(),
                    lost: history.lost(),
                    works: history.works(),
                })
            })?
            .collect::<Result<_, _>>()?;
        Ok(rows)
    }
}

/// Whether another run of this build of the program overlaps with `run`, which began at `began` and ends now.
fn overlaps(
    transaction: &Transaction<'_>,
    key: &ProgramKey,
    run: i64,
    began: f64,
    lives: impl Fn(&str) -> bool,
) -> Result<bool, rusqlite::Error> {
    let others = running(transaction, key)?;
    if others.iter().any(|(other, process)| *other != run && lives(process)) {
        return Ok(true);
    }
    transaction.query_row(
        "SELECT EXISTS (SELECT 1 FROM run JOIN program ON program.id = program WHERE run.id <> ?1 AND process IS NULL
         AND began + wall > ?2 AND identity = ?3 AND machine = ?4)",
        params![run, began, key.identity, key.machine.fingerprint],
        |row| row.get(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MachineKey, Opened};

    fn key(shape: &str) -> ProgramKey {
        ProgramKey {
            identity: "build-id:1".to_owned(),
            name: "make".to_owned(),
            shape: shape.to_owned(),
            machine: MachineKey {
                fingerprint: "1".to_owned(),
                name: "here".to_owned(),
                simulated: false,
            },
        }
    }

    fn begun(began: f64) -> BegunRun {
        BegunRun {
            began,
            area: None,
            pus: String::new(),
            process: began.to_string(),
        }
    }

    fn ended(wall: f64) -> EndedRun {
        EndedRun {
            wall,
            cpu: wall,
            how: Some(How::Whole),
        }
    }

    fn store(folder: &tempfile::TempDir) -> Store {
        Opened::new(&folder.path().join("behaviour.db")).unwrap().store
    }

    fn how(store: &Store) -> Vec<String> {
        let programs = store.programs(None).unwrap();
        let runs = programs.iter().flat_map(|program| &program.runs);
        runs.map(|run| run.how.clone()).collect()
    }

    #[test]
    fn runs_become_a_history_and_the_last_rows_stay() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(&folder);
        assert_eq!(store.history(&key("-j8"), "/a").unwrap(), History::default());
        let mut plan = None;
        for number in 0..100u32 {
            let run = store.begin_run(&key("-j8"), "/a", &begun(f64::from(number) * 10.0), |_| true);
            plan = store
                .end_run(&key("-j8"), run.unwrap(), ended(2.0), &[], |_| false)
                .unwrap();
        }
        let programs = store.programs(None).unwrap();
        assert_eq!(programs[0].runs.len(), KEPT);
        let history = &programs[0].histories[0];
        assert_eq!((history.context.as_str(), history.total), ("/a", 200.0));
        assert_eq!(history.works[0].placements[0].runs, 100);
        assert_eq!(Some(&history.why), plan.map(|plan| plan.why).as_ref());
        assert_eq!(store.history(&key("-j8"), "/b").unwrap(), History::default());
    }

    #[test]
    fn runs_that_overlap_are_marked_whatever_their_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(&folder);
        let first = store.begin_run(&key("a"), "/", &begun(0.0), |_| true).unwrap();
        assert!(store.is_running(&key("b"), |_| true).unwrap());
        let second = store.begin_run(&key("b"), "/", &begun(1.0), |_| true).unwrap();
        store.end_run(&key("a"), first, ended(2.0), &[], |_| true).unwrap();
        store.end_run(&key("b"), second, ended(3.0), &[], |_| true).unwrap();
        let third = store.begin_run(&key("a"), "/", &begun(5.0), |_| true).unwrap();
        store.end_run(&key("a"), third, ended(3.0), &[], |_| true).unwrap();
        assert_eq!(how(&store), ["overlapped", "whole", "overlapped"]);
        assert!(!store.is_running(&key("a"), |_| true).unwrap());
    }

    #[test]
    fn a_run_whose_process_has_ended_without_a_word_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(&folder);
        store.begin_run(&key("a"), "/", &begun(0.0), |_| true).unwrap();
        assert!(!store.is_running(&key("a"), |_| false).unwrap());
        let run = store.begin_run(&key("a"), "/", &begun(1.0), |_| false).unwrap();
        store.end_run(&key("a"), run, ended(1.0), &[], |_| true).unwrap();
        assert_eq!(how(&store), ["whole"]);
    }

    #[test]
    fn a_failed_run_is_shown_and_is_no_measurement() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(&folder);
        let run = store.begin_run(&key("a"), "/", &begun(0.0), |_| true).unwrap();
        let failed = EndedRun {
            how: None,
            ..ended(1.0)
        };
        store.end_run(&key("a"), run, failed, &[], |_| true).unwrap();
        assert_eq!(how(&store), ["failed"]);
        assert_eq!(store.history(&key("a"), "/").unwrap(), History::default());
        let again = store.begin_run(&key("a"), "/", &begun(5.0), |_| true).unwrap();
        store.forget(None).unwrap();
        assert_eq!(store.end_run(&key("a"), again, failed, &[], |_| true).unwrap(), None);
    }
}
