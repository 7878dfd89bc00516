//! The journal of a sweep within one run: what was measured goes there at once, and comes back when the same command
//! starts again.

use super::super::{Arguments, open_journal};
use super::place;
use anyhow::{Context, Result, bail};
use pinfold_core::{Applied, Decision, Finding, Metric, RegionId, RegionKeeps, Sample, Topology, content_hash};
use pinfold_linux::region_code::RegionCode;
use pinfold_policy::Policy;
use pinfold_policy::survey::{self, Measured, Subject, Survey, SurveyEnded, Surveyed, Turn};
use pinfold_sweep::measured::MachineState;
use pinfold_sweep::within::{
    History, WithinBegin, WithinComplete, WithinConfiguration, WithinEnd, WithinIdentity, WithinRecord, WithinSpace,
    WithinSubject, WithinTurn,
};
use pinfold_sweep::{CodePlace, Exact, Journal, Key};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::rc::Rc;
use std::time::Duration;

/// Recognises a region of this run; `None` for one whose code is in no file.
pub(super) type Recognise = Rc<dyn Fn(RegionId) -> Option<WithinSubject>>;

/// Recognises the regions of a recording, or of a script.
pub(super) fn by_address() -> Recognise {
    Rc::new(|id| Some(WithinSubject::Region(id)))
}

/// Recognises the regions of a program by the code that is found at their addresses.
pub(super) fn by_code(code: impl Fn(RegionId) -> Option<RegionCode> + 'static) -> Recognise {
    Rc::new(move |id| Some(WithinSubject::Code(place(code(id)?))))
}

/// What the times of a program here depend on, beside the program and the machine.
pub(super) fn context() -> Result<Vec<String>> {
    let folder = env::current_dir().context("the working directory cannot be read")?;
    let folder = format!("in {}", folder.display());
    Ok(std::iter::once(folder)
        .chain(crate::run::deciding_variables())
        .collect())
}

/// The journal, and what was in it when this start of the command opened it.
pub(super) struct Keeper<'a> {
    arguments: &'a Arguments,
    space: WithinSpace,
    identity: WithinIdentity,
    session: u64,
    journal: Journal<WithinRecord>,
    history: Rc<History>,
    recognise: Recognise,
    /// The keys of the configurations, when the measurement has begun.
    keys: Vec<Key>,
    /// What regions are known to keep.
    keeps: BTreeMap<RegionId, RegionKeeps>,
    /// Whether the end of the survey is in the journal.
    is_complete: bool,
    /// Whether the journal cannot be written.
    has_failed: bool,
}

impl<'a> Keeper<'a> {
    /// Opens the journal. Errors: it has measurements of something else.
    pub(super) fn open(arguments: &'a Arguments, space: &WithinSpace, identity: WithinIdentity) -> Result<Self> {
        let (journal, found) = open_journal::<WithinRecord>(arguments)?;
        let keeper = Self {
            arguments,
            space: space.clone(),
            identity,
            session: super::super::session(),
            journal,
            history: Rc::new(History::new(found.results)),
            recognise: by_address(),
            keys: vec![],
            keeps: BTreeMap::new(),
            is_complete: false,
            has_failed: false,
        };
        keeper.check()?;
        Ok(keeper)
    }

    /// Refuses measurements of another program, and says how many there are of this one.
    fn check(&self) -> Result<()> {
        let history = &self.history;
        let path = self.arguments.beside(".partial");
        let refuse = |difference: &str| {
            bail!(
                "{} has measurements of {difference}: remove it to begin again, or choose another output",
                path.display()
            )
        };
        if let Some(difference) = history.difference(&self.identity) {
            return refuse(difference);
        }
        if history.number() == 0 {
            return Ok(());
        }
        let kinds: BTreeSet<(usize, Option<&str>)> = history
            .runs()
            .iter()
            .map(|run| (run.threads, run.metric.as_deref()))
            .collect();
        let mut keys = BTreeSet::new();
        for (threads, metric) in kinds {
            let all = self.space.configurations(threads)?.configurations;
            keys.extend(self.identity.keys(threads, metric, &all));
        }
        let used = history.having(&keys);
        if used == 0 {
            return refuse("another space");
        }
        self.arguments.say(format_args!(
            "{used} measurements were made before, in {} of the program",
            runs(history.measuring_runs())
        ));
        if used < history.number() {
            self.arguments.say(format_args!(
                "{} measurements are not used: they are of configurations that this space does not have",
                history.number() - used
            ));
        }
        Ok(())
    }

    /// Regions are recognised in this way from now on.
    pub(super) fn recognise_by(&mut self, recognise: Recognise) {
        self.recognise = recognise;
    }

    /// How long the program lasted in an earlier run.
    pub(super) fn lasted(&self) -> Option<Duration> {
        self.history.lasted()
    }

    /// The machine during the runs before this one that are over.
    pub(super) fn earlier_states(&self) -> Vec<MachineState> {
        self.history.states().cloned().collect()
    }

    /// What earlier runs have measured of the subjects of a survey.
    pub(super) fn earlier(&self) -> impl Fn(&Surveyed, &[WithinConfiguration]) -> Vec<Turn> + use<> {
        let (history, recognise) = (Rc::clone(&self.history), Rc::clone(&self.recognise));
        let identity = self.identity.clone();
        move |surveyed, configurations| {
            let metric = surveyed.metric.as_deref();
            let keys = identity.keys(surveyed.threads, metric, configurations);
            let turns = history.turns(surveyed.threads, configurations, &keys);
            let of = |&subject: &Subject| {
                let its = subject_of(subject, &recognise).and_then(|its| turns.get(&its));
                its.into_iter()
                    .flatten()
                    .map(move |&(one, turn)| in_policy(subject, one, turn))
            };
            surveyed.subjects.iter().flat_map(of).collect()
        }
    }

    /// Keeps what the survey has measured since the last call, and what is known now.
    fn follow(&mut self, survey: &mut Survey, sample: Option<&Sample>) {
        if self.has_failed || survey.subjects().is_empty() {
            return;
        }
        if let Err(error) = self.keep_news(survey, sample) {
            self.has_failed = true;
            self.arguments.say(format_args!(
                "{error:#}; the sweep goes on, and what follows is not kept"
            ));
        }
    }

    fn keep_news(&mut self, survey: &mut Survey, sample: Option<&Sample>) -> Result<()> {
        let metric = metric_of(survey);
        if self.keys.is_empty() {
            let all = self.space.configurations(survey.threads())?.configurations;
            self.keys = self.identity.keys(survey.threads(), metric.as_deref(), &all);
            self.keep(&WithinRecord::Begin(WithinBegin {
                session: self.session,
                identity: self.identity.clone(),
                threads: survey.threads(),
                metric: metric.clone(),
            }))?;
        }
        for region in sample.iter().flat_map(|sample| &sample.regions) {
            let before = self.keeps.insert(region.id, region.keeps).unwrap_or_default();
            if let Some(subject) = (self.recognise)(region.id).filter(|_| before != region.keeps) {
                let RegionKeeps { threads, places } = region.keeps;
                self.keep(&WithinRecord::Keeps {
                    subject,
                    threads,
                    places,
                })?;
            }
        }
        for turn in survey.take_turns() {
            let Some(subject) = subject_of(turn.subject, &self.recognise) else {
                continue;
            };
            let record = WithinRecord::Turn(WithinTurn {
                session: self.session,
                subject,
                region: region_of(turn.subject),
                at: Exact(turn.at.as_secs_f64()),
                units: Exact(turn.units),
                seconds: Exact(turn.seconds),
                counts: turn.counts,
            });
            self.journal.keep(self.keys[turn.configuration], &record)?;
        }
        let found_all = |ended: &SurveyEnded| ended.complete && ended.measured > 0;
        if !self.is_complete && survey.ended().is_some_and(found_all) {
            self.is_complete = true;
            let record = WithinRecord::Complete(found(survey));
            self.journal.keep(self.complete_key(&self.keys), &record)?;
            self.journal.sync()?;
        }
        Ok(())
    }

    fn keep(&mut self, record: &WithinRecord) -> Result<()> {
        self.journal.keep(self.identity.own_key(), record)
    }

    /// The run is over: it lasted this long, and the program ended by itself, or by a signal.
    pub(super) fn end(&mut self, lasted: Duration, by_itself: bool, state: MachineState) -> Result<()> {
        if self.has_failed || self.keys.is_empty() {
            return Ok(());
        }
        self.keep(&WithinRecord::End(WithinEnd {
            session: self.session,
            lasted: Exact(lasted.as_secs_f64()),
            by_itself,
            state,
        }))?;
        self.journal.sync()
    }

    /// The key of a complete sweep of configurations with these keys.
    fn complete_key(&self, keys: &[Key]) -> Key {
        let (within, measured) = (&self.arguments.within, &self.arguments.measured);
        let interval = measured.precision.unwrap_or(super::INTERVAL_OF_TIMES);
        let text = format!(
            "complete {keys:?} {interval} {:?} {:?} {}",
            within.extent(),
            within.by,
            within.metric
        );
        Key(content_hash(text.as_bytes()))
    }

    /// The end of an earlier run that has measured everything; `None` if something is left to measure.
    pub(super) fn complete(&self) -> Option<&WithinComplete> {
        self.history.complete(|complete| {
            let all = self.space.configurations(complete.threads).ok()?.configurations;
            Some(self.complete_key(&self.identity.keys(complete.threads, complete.metric.as_deref(), &all)))
        })
    }

    /// What only earlier runs have measured: the regions that are not among `subjects`, with their code.
    pub(super) fn others(
        &self,
        found: &WithinComplete,
        configurations: &[WithinConfiguration],
        subjects: &[Subject],
    ) -> (Vec<Measured>, BTreeMap<RegionId, CodePlace>) {
        let known: BTreeSet<WithinSubject> = subjects
            .iter()
            .filter_map(|&subject| subject_of(subject, &self.recognise))
            .collect();
        let keys = self
            .identity
            .keys(found.threads, found.metric.as_deref(), configurations);
        let (mut measured, mut code) = (vec![], BTreeMap::new());
        for (its, turns) in self.history.turns(found.threads, configurations, &keys) {
            if known.contains(&its) {
                continue;
            }
            let Some((_, last)) = turns.last() else { continue };
            let subject = last.region.map_or(Subject::Program, Subject::Region);
            if let (Some(id), WithinSubject::Code(place)) = (last.region, its) {
                code.insert(id, place);
            }
            let turns: Vec<Turn> = turns
                .into_iter()
                .map(|(one, turn)| in_policy(subject, one, turn))
                .collect();
            measured.append(&mut survey::measured(&turns));
        }
        (measured, code)
    }

    /// Says why the journal could not be written.
    pub(super) fn say(&self, error: &anyhow::Error) {
        self.arguments.say(format_args!("{error:#}"));
    }

    /// The number of measurements of earlier runs.
    pub(super) fn earlier_measurements(&self) -> usize {
        self.history.number()
    }

    /// Removes the journal: its measurements are in the output.
    pub(super) fn remove(self) -> Result<()> {
        self.journal.remove()
    }
}

/// A number of runs.
fn runs(number: usize) -> String {
    match number {
        1 => "1 run".to_owned(),
        number => format!("{number} runs"),
    }
}

fn in_policy(subject: Subject, configuration: usize, turn: &WithinTurn) -> Turn {
    Turn {
        subject,
        configuration,
        session: turn.session,
        at: Duration::try_from_secs_f64(turn.at.0).unwrap_or_default(),
        units: turn.units.0,
        seconds: turn.seconds.0,
        counts: turn.counts,
    }
}

fn region_of(subject: Subject) -> Option<RegionId> {
    match subject {
        Subject::Program => None,
        Subject::Region(id) => Some(id),
    }
}

fn subject_of(subject: Subject, recognise: &Recognise) -> Option<WithinSubject> {
    match subject {
        Subject::Program => Some(WithinSubject::Program),
        Subject::Region(id) => recognise(id),
    }
}

/// The metric of a program that is measured as a whole.
fn metric_of(survey: &Survey) -> Option<String> {
    let is_whole = survey.subjects() == [Subject::Program];
    survey.metric().filter(|_| is_whole).map(|metric| metric.name.clone())
}

/// What a survey that is over has found.
pub(super) fn found(survey: &Survey) -> WithinComplete {
    let ended = survey.ended();
    WithinComplete {
        threads: survey.threads(),
        metric: metric_of(survey),
        configurations: survey.configurations().len(),
        measured: ended.map_or(0, |ended| ended.measured),
        precise: ended.map_or(0, |ended| ended.precise),
        lasted: ended.map_or(0.0, |ended| ended.lasted),
        drift: ended.map_or(0.0, |ended| ended.drift),
        left_out: survey.left_out().clone(),
    }
}

/// The survey, whose measurements are kept.
pub(super) struct Journaled<'a, 'b> {
    pub(super) survey: &'a mut Survey,
    pub(super) keeper: &'a mut Keeper<'b>,
}

impl Policy for Journaled<'_, '_> {
    fn name(&self) -> &'static str {
        self.survey.name()
    }

    fn start(&mut self, topology: &Topology, metrics: &[Metric]) -> Decision {
        self.survey.start(topology, metrics)
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        let decision = self.survey.decide(topology, sample, applied);
        self.keeper.follow(self.survey, Some(sample));
        decision
    }

    fn end(&mut self) -> Vec<Finding> {
        let findings = self.survey.end();
        self.keeper.follow(self.survey, None);
        findings
    }
}
