//! The reads and writes of a run of the policy `auto`: the fastest placement.
//!
//! pinfold makes the table when a run needs it. Older versions of pinfold ignore the table and still read the database.

use crate::program::ProgramKey;
use crate::schema::StoreError;
use crate::store::{SampleRow, Store, find, find_or_add};
use pinfold_core::{ChoiceCode, Finding, Pinning, PuSet};
use pinfold_policy::KnownPlacement;
use pinfold_runtime::{Record, Recorder};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS placement (
        program     INTEGER NOT NULL REFERENCES program (id) ON DELETE CASCADE,
        threads     INTEGER NOT NULL,
        pus         TEXT NOT NULL,
        pages       TEXT NOT NULL,
        metric      TEXT NOT NULL,
        rate        REAL NOT NULL,
        gain        REAL NOT NULL,
        at          INTEGER NOT NULL,
        PRIMARY KEY (program, threads)
    ) STRICT;
";

/// The text for the unpinned program.
const UNPINNED: &str = "";

/// The text for pages that were not moved.
const UNMOVED: &str = "";

/// The fastest placement for a number of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementRow {
    /// The number of threads with ranks.
    pub threads: usize,
    /// The PU of each rank, as a list; empty if nothing was faster than the unpinned program.
    pub pus: String,
    /// The page mapping; empty if pages were not moved.
    pub pages: String,
    /// The metric of the comparison.
    pub metric: String,
    /// Its rate.
    pub rate: f64,
    /// The rate over the rate of the unpinned program, minus one.
    pub gain: f64,
    /// The time, in seconds since 1970.
    pub at: i64,
}

impl PlacementRow {
    /// The placement as text.
    pub fn place(&self) -> String {
        let pus = if self.pus == UNPINNED { "unpinned" } else { &self.pus };
        match self.pages.as_str() {
            UNMOVED => pus.to_owned(),
            pages => format!("{pus} with pages {pages}"),
        }
    }

    /// The placement for a policy. `other_build`: whether it was found with another build of the program.
    fn known(self, other_build: bool) -> Option<(usize, KnownPlacement)> {
        let pinning = match self.pus.as_str() {
            UNPINNED => None,
            pus => Some(Pinning::new(PuSet::parse_ordered(pus).ok()?)?),
        };
        let pages = match self.pages.as_str() {
            UNMOVED => None,
            pages => Some(pages.parse().ok()?),
        };
        let known = KnownPlacement {
            pinning,
            pages,
            metric: self.metric,
            rate: self.rate,
            gain: self.gain,
            other_build,
        };
        Some((self.threads, known))
    }
}

pub(crate) fn is_made(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let query = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'placement'";
    Ok(connection.query_row(query, [], |_| Ok(())).optional()?.is_some())
}

const COLUMNS: &str = "threads, pus, pages, metric, rate, gain, placement.at";

fn row(row: &Row<'_>) -> Result<PlacementRow, rusqlite::Error> {
    Ok(PlacementRow {
        threads: row.get(0)?,
        pus: row.get(1)?,
        pages: row.get(2)?,
        metric: row.get(3)?,
        rate: row.get(4)?,
        gain: row.get(5)?,
        at: row.get(6)?,
    })
}

impl Store {
    /// The known placements of a program, by number of threads. If this build has none for a number, the newest one of
    /// other builds counts.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn known_placements(&mut self, key: &ProgramKey) -> Result<BTreeMap<usize, KnownPlacement>, StoreError> {
        if !is_made(&self.connection)? {
            return Ok(BTreeMap::new());
        }
        let others: Vec<PlacementRow> = self
            .connection
            .prepare(&format!(
                "SELECT {COLUMNS} FROM placement JOIN program ON program.id = program
                 WHERE name = ?1 AND shape = ?2 AND machine = ?3 AND identity <> ?4 ORDER BY placement.at"
            ))?
            .query_map(params![key.name, key.shape, key.machine.fingerprint, key.identity], row)?
            .collect::<Result<_, _>>()?;
        let own = match find(&self.connection, key)? {
            Some(program) => self.placements(program)?,
            None => vec![],
        };
        let others = others.into_iter().filter_map(|one| one.known(true));
        Ok(others
            .chain(own.into_iter().filter_map(|one| one.known(false)))
            .collect())
    }

    /// The placements of one stored program, by number of threads.
    pub(crate) fn placements(&self, program: i64) -> Result<Vec<PlacementRow>, StoreError> {
        if !is_made(&self.connection)? {
            return Ok(vec![]);
        }
        let placements = self
            .connection
            .prepare(&format!(
                "SELECT {COLUMNS} FROM placement WHERE program = ?1 ORDER BY threads"
            ))?
            .query_map([program], row)?
            .collect::<Result<_, _>>()?;
        Ok(placements)
    }

    /// Keeps a placement. It replaces an earlier one for the same number of threads.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn keep_placement(
        &mut self,
        key: &ProgramKey,
        threads: usize,
        known: &KnownPlacement,
        at: i64,
    ) -> Result<(), StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(TABLE)?;
        let program = find_or_add(&transaction, key)?;
        let pus = known
            .pinning
            .as_ref()
            .map_or_else(|| UNPINNED.to_owned(), Pinning::to_string);
        let pages = known
            .pages
            .map_or_else(|| UNMOVED.to_owned(), |pages| pages.to_string());
        transaction.execute(
            "INSERT OR REPLACE INTO placement (program, threads, pus, pages, metric, rate, gain, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![program, threads, pus, pages, known.metric, known.rate, known.gain, at],
        )?;
        transaction.commit()?;
        Ok(())
    }

    /// Forgets the placement of a program with this number of threads.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn forget_placement(&mut self, key: &ProgramKey, threads: usize) -> Result<(), StoreError> {
        if !is_made(&self.connection)? {
            return Ok(());
        }
        if let Some(program) = find(&self.connection, key)? {
            self.connection.execute(
                "DELETE FROM placement WHERE program = ?1 AND threads = ?2",
                params![program, threads],
            )?;
        }
        Ok(())
    }
}

/// Keeps the choices and measurements of a run of the policy `auto`. A failure does not end the run.
#[derive(Debug)]
pub struct PlacementLearner {
    store: Store,
    key: ProgramKey,
    /// Seconds since 1970.
    now: fn() -> i64,
    failed: Option<String>,
}

impl PlacementLearner {
    /// Records placements of the program `key`. `now` is the time in seconds since 1970.
    pub fn new(store: Store, key: ProgramKey, now: fn() -> i64) -> Self {
        let failed = store.writes_beside_the_program().err().map(|error| error.to_string());
        Self {
            store,
            key,
            now,
            failed,
        }
    }

    /// Writes, unless an earlier write failed: pinfold does not wait for a locked database again and again.
    pub fn keep(&mut self, write: impl FnOnce(&mut Store, &ProgramKey) -> Result<(), StoreError>) {
        if self.failed.is_none() {
            let written = write(&mut self.store, &self.key);
            self.failed = written.err().map(|error| self.store.explained(error).to_string());
        }
    }

    /// The reason of a failed write; `None` if all writes succeeded.
    pub fn failed(&mut self) -> Option<String> {
        self.failed.take()
    }
}

/// The choice of the current search; `None` if its rate is not known.
fn placement(candidate: usize, gain: Option<f64>, record: &Record) -> Option<(usize, KnownPlacement)> {
    let chosen = record.search.candidates.get(candidate)?;
    if chosen.not_pinned.is_some() {
        return None;
    }
    let known = KnownPlacement {
        pinning: chosen.pus.clone(),
        pages: chosen.pages,
        metric: record.metric.as_ref()?.identity(),
        rate: chosen.rate?,
        gain: gain.unwrap_or(0.0),
        other_build: false,
    };
    Some((record.search.threads?, known))
}

impl Recorder for PlacementLearner {
    fn finding(&mut self, _at: Duration, finding: &Finding, record: &Record) {
        if let Some(sample) = SampleRow::of(finding, record, (self.now)()) {
            self.keep(|store, key| store.add_sample(key, &sample));
        }
        let Finding::Chosen {
            candidate,
            gain_over_first,
            code,
            ..
        } = finding
        else {
            return;
        };
        // The best placement of one phase may not suit the whole program.
        if *code == ChoiceCode::KnownPhase {
            return;
        }
        let regions = record.search.candidates.get(*candidate).map(|one| one.regions.len());
        if let (Some(1..), Some(threads)) = (regions, record.search.threads) {
            // Rows of the database have no regions, because addresses differ from run to run. The next run finds the
            // regions again.
            self.keep(|store, key| store.forget_placement(key, threads));
        } else if let Some((threads, known)) = placement(*candidate, *gain_over_first, record) {
            let now = (self.now)();
            self.keep(|store, key| store.keep_placement(key, threads, &known, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MachineKey, Opened};
    use pinfold_core::{PageMapping, PuId};

    fn key(identity: &str) -> ProgramKey {
        ProgramKey {
            identity: identity.to_owned(),
            name: "solver".to_owned(),
            shape: "--size 8M".to_owned(),
            machine: MachineKey {
                fingerprint: "1".to_owned(),
                name: "here".to_owned(),
                simulated: false,
            },
        }
    }

    fn placed(pus: &[u32], rate: f64) -> KnownPlacement {
        KnownPlacement {
            pinning: Pinning::new(pus.iter().copied().map(PuId).collect()),
            pages: Some(PageMapping::Interleave),
            metric: "regions".to_owned(),
            rate,
            gain: 0.5,
            other_build: false,
        }
    }

    #[test]
    fn a_placement_is_kept_for_its_number_of_threads_and_is_a_proposal_to_another_build() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Opened::new(&folder.path().join("behaviour.db")).unwrap().store;
        assert!(store.known_placements(&key("old")).unwrap().is_empty());
        store
            .keep_placement(&key("old"), 4, &placed(&[0, 8, 1, 9], 10.0), 1)
            .unwrap();
        store
            .keep_placement(&key("old"), 4, &placed(&[3, 2, 1, 0], 11.0), 2)
            .unwrap();
        store.keep_placement(&key("old"), 2, &placed(&[], 7.0), 3).unwrap();
        let known = store.known_placements(&key("old")).unwrap();
        assert_eq!(known[&4], placed(&[3, 2, 1, 0], 11.0));
        assert_eq!(known[&2].pinning, None);

        store.keep_placement(&key("new"), 2, &placed(&[5, 6], 8.0), 4).unwrap();
        let known = store.known_placements(&key("new")).unwrap();
        assert!(known[&4].other_build && !known[&2].other_build);
        assert_eq!(known[&2], placed(&[5, 6], 8.0));
    }

    #[test]
    fn what_is_known_of_a_forgotten_program_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Opened::new(&folder.path().join("behaviour.db")).unwrap().store;
        store.keep_placement(&key("old"), 4, &placed(&[0], 1.0), 1).unwrap();
        store.forget(None).unwrap();
        assert!(store.known_placements(&key("old")).unwrap().is_empty());
    }
}
