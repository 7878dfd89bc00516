//! The reads and writes of a run of the policy `hints`.

use crate::program::ProgramKey;
use crate::schema::StoreError;
use crate::store::{Choice, ObservedRow, SampleRow, Store};
use pinfold_core::hint::AffinityHint;
use pinfold_core::{Finding, Pinning, content_hash};
use pinfold_policy::{Known, Rules, RulesError};
use pinfold_runtime::{Record, Recorder, Search};
use std::collections::BTreeMap;
use std::time::Duration;

/// Learned rules and their version.
#[derive(Clone, Debug)]
pub struct LearnedRules {
    /// The rules.
    pub rules: Rules,
    /// A hash of their file.
    pub version: String,
}

impl LearnedRules {
    /// Reads the text of a file of rules.
    ///
    /// # Errors
    ///
    /// The text holds no rules.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        Ok(Self {
            rules: text.parse()?,
            version: format!("{:032x}", content_hash(text.as_bytes())),
        })
    }
}

impl Store {
    /// The stored hints of a program, by number of threads, with the reason in words.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn known_hints(
        &mut self,
        key: &ProgramKey,
        rules: Option<&LearnedRules>,
    ) -> Result<BTreeMap<usize, Known>, StoreError> {
        let known = self.known(key, rules.map(|rules| rules.version.as_str()))?;
        let text = |kept, pinned| match (kept, pinned) {
            (true, _) => "an earlier run was given it, and was not slower for it",
            (false, true) => "an earlier run was faster with it than with what the rules said",
            (false, false) => "an earlier run was not faster with what the rules said",
        };
        let known = known.into_iter().map(|(threads, known)| {
            let why = text(known.kept, known.hint.is_some()).to_owned();
            (threads, Known { hint: known.hint, why })
        });
        Ok(known.collect())
    }
}

impl SampleRow {
    /// The observation in a finding: a sample for learned rules, or a candidate that was compared in turns. `None` for
    /// other findings. The time is in seconds since 1970.
    pub(crate) fn of(finding: &Finding, record: &Record, at: i64) -> Option<Self> {
        let metric = record.metric.as_ref().map(|metric| metric.name.clone());
        match finding {
            Finding::Sampled {
                hint,
                pus,
                threads,
                lasts,
                rate,
                observed,
                ..
            } => Some(Self {
                threads: *threads,
                at,
                hint: *hint,
                pus: pus.as_ref().map(Pinning::to_string).unwrap_or_default(),
                lasted: lasts.as_secs_f64(),
                metric,
                rate: *rate,
                observed: observed.iter().map(ObservedRow::from).collect(),
            }),
            Finding::Compared {
                candidate,
                rate,
                measured,
                ..
            } => {
                let candidate = record.search.candidates.get(*candidate)?;
                // Rows of the database have no pages and regions.
                let whole = candidate.pages.is_none() && candidate.regions.is_empty() && candidate.not_pinned.is_none();
                let pus = candidate.pus.as_ref().filter(|_| whole)?;
                Some(Self {
                    threads: record.search.threads?,
                    at,
                    hint: None,
                    pus: pus.to_string(),
                    lasted: measured.as_secs_f64(),
                    metric,
                    rate: Some((*rate)?),
                    observed: vec![],
                })
            }
            _ => None,
        }
    }
}

/// The task that remains after a run.
#[derive(Debug)]
pub enum Afterwards<'a> {
    /// Nothing.
    Nothing,
    /// Some observations could not be written, for this reason.
    NotWritten(&'a str),
    /// The database has grown enough since rules were learned: new rules should be learned from it.
    Rebuild(&'a mut Store),
}

/// Writes the observations and choices of a run of the policy `hints` to the database. A failure does not end the run;
/// `end` reports it.
#[derive(Debug)]
pub struct Learner {
    store: Store,
    key: ProgramKey,
    /// Seconds since 1970.
    now: fn() -> i64,
    /// The version of the rules.
    rules: Option<String>,
    /// The hint that the rules gave, with its reason.
    asked: Option<(AffinityHint, String)>,
    /// The hint before it.
    before: Option<AffinityHint>,
    failed: Option<String>,
}

impl Learner {
    /// Records observations of the program `key`. `now` is the time in seconds since 1970.
    pub fn new(store: Store, key: ProgramKey, rules: Option<&LearnedRules>, now: fn() -> i64) -> Self {
        let failed = store.writes_beside_the_program().err().map(|error| error.to_string());
        Self {
            store,
            key,
            now,
            rules: rules.map(|rules| rules.version.clone()),
            asked: None,
            before: None,
            failed,
        }
    }

    /// The task that remains after the run. New rules are learned when the database has grown by `percent`; `None` for
    /// never.
    pub fn end(&mut self, percent: Option<f64>) -> Afterwards<'_> {
        if let Some(failed) = &self.failed {
            return Afterwards::NotWritten(failed);
        }
        let grown = percent.is_some_and(|percent| {
            let growth = self.store.growth();
            growth.is_ok_and(|growth| growth.has_grown_by(percent))
        });
        if grown {
            Afterwards::Rebuild(&mut self.store)
        } else {
            Afterwards::Nothing
        }
    }

    /// Writes, unless an earlier write failed: pinfold does not wait for a locked database again and again.
    fn keep(&mut self, write: impl FnOnce(&mut Store, &ProgramKey) -> Result<(), StoreError>) {
        if self.failed.is_none() {
            let written = write(&mut self.store, &self.key);
            self.failed = written.err().map(|error| self.store.explained(error).to_string());
        }
    }

    fn chosen(&mut self, candidate: usize, search: &Search) {
        let Some((asked, why)) = self.asked.take() else { return };
        let kept = search.candidates.len() == 1 || candidate > 0;
        let rate = |candidate: usize| search.candidates.get(candidate)?.rate;
        let choice = Choice {
            threads: search.threads.unwrap_or_default(),
            hint: if kept { Some(asked) } else { self.before },
            rules: self.rules.clone(),
            why,
            before: rate(0),
            after: rate(1),
            kept,
            at: (self.now)(),
        };
        self.keep(|store, key| store.choose(key, &choice));
    }
}

impl Recorder for Learner {
    fn finding(&mut self, _at: Duration, finding: &Finding, record: &Record) {
        if let Some(sample) = SampleRow::of(finding, record, (self.now)()) {
            self.keep(|store, key| store.add_sample(key, &sample));
        }
        match finding {
            Finding::Sampled {
                hint,
                says: Some(says),
                why,
                ..
            } => {
                self.asked = Some((*says, why.clone()));
                self.before = *hint;
            }
            Finding::Chosen { candidate, .. } => self.chosen(*candidate, &record.search),
            _ => {}
        }
    }
}
