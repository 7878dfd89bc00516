//! The order of events of a survey.
//!
//! 1. The program initialises, unpinned. Its regions are timed, and its metric is chosen as for any policy.
//! 2. The configurations are made for the number of threads that work. The subjects are the regions that repeat; a
//!    program without them is measured as a whole.
//! 3. The passes of the `schedule` follow, stage by stage: pages and prefetchers change between stages, and the subjects
//!    `walk` through the configurations of a stage.
//! 4. After a pass, the configurations are due that were measured too few times, or whose interval is too wide. Without
//!    one, and at the time limit, the program goes back to where it was, and runs on unpinned.
//!
//! A configuration that the machine refuses is left out, with the reason.

use super::configuration::SurveyConfiguration;
use super::findings::{SurveyEnded, SurveyProgress};
use super::known::{Known, behind};
use super::options::{By, Configurations, SurveyOptions, Surveyed};
use super::outlook::Outlook;
use super::refusals;
use super::request::{Placed, Requests, by_region};
use super::results::{Measured, Results, Subject, Turn};
use super::schedule::{Schedule, Stage};
use super::subjects::Subjects;
use super::walk::Walk;
use crate::Policy;
use crate::program::observed_program::{Observation, ObservedProgram, Stage as Opening};
use pinfold_core::{Applied, Decision, Finding, Metric, NoteCode, RefusalCode, RegionId, Sample, Topology};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

/// The shortest and the longest time between two samples of a survey. A sample costs a part of the shortest one in a
/// hundred.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// After the initialisation, a region that has ended may repeat within this time. Otherwise the program is measured as a
/// whole.
const PATIENCE: Duration = Duration::from_secs(10);

/// The interval of readings after the survey.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// The interval of progress findings.
const REPORTED: Duration = Duration::from_secs(1);

/// Makes the configurations, and says what is known of them. An error is a clause.
type Make = Box<dyn Fn(&Topology, &Surveyed) -> Result<Configurations, String>>;

/// The policy.
pub struct Survey {
    options: SurveyOptions,
    make: Make,
    program: ObservedProgram,
    phase: Phase,
    /// The first sample of the later half of the initialisation.
    first: Option<Sample>,
    known: Known,
    /// The regions that are not measured.
    others: Vec<RegionId>,
    /// Whether it was noted that the number of threads has changed.
    noted_threads: bool,
    results: Results,
    requests: Requests,
    ended: Option<SurveyEnded>,
    now: Duration,
}

/// A survey that has begun.
#[derive(Debug)]
struct Running {
    began: Duration,
    subjects: Subjects,
    schedule: Schedule,
    references: Vec<usize>,
    outlook: Outlook,
    passes: usize,
    stages: VecDeque<Stage>,
    stage: Stage,
    walk: Walk,
    /// When progress was reported last.
    reported: Duration,
}

/// The phase of the run.
#[derive(Debug)]
enum Phase {
    Initialising,
    Running(Box<Running>),
    Over,
}

impl fmt::Debug for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Survey")
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

impl Survey {
    /// A survey of the configurations that `make` gives when the program has initialised.
    pub fn new(
        options: SurveyOptions,
        make: impl Fn(&Topology, &Surveyed) -> Result<Configurations, String> + 'static,
    ) -> Self {
        Self {
            program: ObservedProgram::new(options.times, options.metric.clone(), options.skip.clone()),
            make: Box::new(make),
            phase: Phase::Initialising,
            first: None,
            known: Known::default(),
            others: vec![],
            noted_threads: false,
            results: Results::default(),
            requests: Requests::default(),
            ended: None,
            now: Duration::ZERO,
            options,
        }
    }

    /// The configurations; none before the number of threads is known.
    pub fn configurations(&self) -> &[SurveyConfiguration] {
        self.known.configurations()
    }

    /// The number of threads that the configurations are for.
    pub fn threads(&self) -> usize {
        self.known.threads()
    }

    /// The metric of a program that was measured as a whole.
    pub fn metric(&self) -> Option<&Metric> {
        self.program.metric()
    }

    /// The configurations that were left out, with the reason for each.
    pub fn left_out(&self) -> &BTreeMap<usize, String> {
        self.known.left_out()
    }

    /// The measured subjects.
    pub fn subjects(&self) -> &[Subject] {
        self.known.subjects()
    }

    /// The regions that were not measured, because they are too short, take too little time, or came too late.
    pub fn others(&self) -> &[RegionId] {
        &self.others
    }

    /// The end of the survey; `None` if it did not begin, or is not over.
    pub fn ended(&self) -> Option<&SurveyEnded> {
        self.ended.as_ref()
    }

    /// The measurements of this run since the last call.
    pub fn take_turns(&mut self) -> Vec<Turn> {
        self.results.take_fresh()
    }

    /// How many measurements of earlier runs count.
    pub fn earlier(&self) -> usize {
        self.results.earlier()
    }

    /// What was measured, by subject and configuration.
    pub fn measured(&self) -> Vec<Measured> {
        let subjects = self.results.subjects();
        subjects.flat_map(|subject| self.results.of(subject).0).collect()
    }
}

impl Policy for Survey {
    fn name(&self) -> &'static str {
        "survey"
    }

    fn start(&mut self, _topology: &Topology, metrics: &[Metric]) -> Decision {
        self.program.start(metrics, None)
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        self.now = sample.at;
        let mut seen = self.program.observe(topology, sample, applied);
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Initialising => {
                self.phase = Phase::Initialising;
                self.initialise(&mut seen);
            }
            Phase::Running(running) => self.advance(running, &mut seen),
            Phase::Over => {}
        }
        let (wanted, wait) = match &self.phase {
            Phase::Initialising => (None, None),
            Phase::Running(running) => {
                let wanted = self.requests.of(placed(running, &self.known, &self.program));
                let next = running
                    .walk
                    .next(|one| self.known.is_unpinned(one))
                    .clamp(SHORTEST_WAIT, LONGEST_WAIT);
                let wait = if self.requests.are_returning() {
                    SHORTEST_WAIT
                } else {
                    next
                };
                (Some(wanted), Some(wait))
            }
            Phase::Over => (Some(self.requests.back(self.program.left_alone())), Some(AFTERWARDS)),
        };
        let decision = self.program.decide(seen, wanted);
        Decision {
            wait: wait.unwrap_or(decision.wait),
            ..decision
        }
    }

    fn end(&mut self) -> Vec<Finding> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Over => vec![],
            Phase::Initialising => self.program.ended_early(None).unwrap_or_default(),
            Phase::Running(running) => {
                let progress = self.progress(&running);
                let more = match progress.remaining {
                    Some(seconds) if seconds >= 1.0 => {
                        format!(" It would have needed {} {seconds:.0} s more.", progress.how_exact())
                    }
                    _ => String::new(),
                };
                let why = format!("The program has ended before the sweep.{more}");
                vec![self.finish(&running, false, why)]
            }
        }
    }
}

impl Survey {
    /// The survey begins when the program has initialised, and something can be measured.
    fn initialise(&mut self, seen: &mut Observation<'_>) {
        let stage = self.program.stage(seen);
        if self.first.is_none() && seen.at() >= self.options.times.initialise / 2 {
            self.first = Some(seen.sample().clone());
        }
        if stage == Opening::Initialising {
            return;
        }
        let first = self.first.as_ref().unwrap_or(seen.sample());
        let regions = match self.options.by {
            By::Program => None,
            By::Auto | By::Regions => Subjects::regions(first, seen.sample()),
        };
        let is_early = seen.at() < self.options.times.initialise + PATIENCE;
        if self.options.by != By::Program && is_early && Subjects::may_come(first, seen.sample()) {
            return;
        }
        let subjects = match regions {
            Some(regions) => regions,
            None if self.options.by == By::Regions || stage == Opening::WithoutMetric => return,
            None => {
                self.program.begin_window(seen, Duration::ZERO);
                Subjects::Program(super::walk::Progress::default())
            }
        };
        let threads = self.program.threads(self.options.threads);
        self.requests
            .note_home(self.program.last_seen(seen, self.program.working()));
        let surveyed = Surveyed {
            threads,
            subjects: subjects.measured().into_iter().map(|(subject, _)| subject).collect(),
            metric: match subjects {
                Subjects::Program(_) => self.program.metric().map(|metric| metric.name.clone()),
                Subjects::Regions { .. } => None,
            },
        };
        match (self.make)(seen.topology(), &surveyed) {
            Ok(configurations) => self.begin(subjects, configurations, threads, seen),
            Err(why) => {
                seen.report(note(format!("Nothing is measured: {why}.")));
                self.phase = Phase::Over;
            }
        }
    }

    /// The first pass begins.
    fn begin(
        &mut self,
        subjects: Subjects,
        configurations: Configurations,
        threads: usize,
        seen: &mut Observation<'_>,
    ) {
        let Configurations {
            list,
            references,
            earlier,
        } = configurations;
        let measured = subjects.measured().into_iter().map(|(subject, _)| subject);
        self.known = Known::new(list, threads, measured.collect());
        if let Subjects::Program(_) = subjects {
            for number in 0..self.known.configurations().len() {
                let of_team = self.known.configurations()[number].threads;
                if let Some(other) = of_team.filter(|&other| other != threads) {
                    let why = format!(
                        "the program has {threads} threads, and no parallel regions that could have {other} of them"
                    );
                    self.known.leave_out(number, &why);
                }
            }
        }
        self.known.note_kept(seen.sample());
        for turn in earlier {
            if self.known.can_have(turn.subject, turn.configuration) {
                self.results.add(turn);
            }
        }
        let mut schedule = Schedule::new(
            self.known.configurations(),
            &references,
            seen.topology(),
            threads,
            self.options.seed,
        );
        if self.results.earlier() > 0 {
            schedule.begin_with_references();
        }
        let mut running = Box::new(Running {
            references,
            outlook: Outlook::default(),
            began: seen.at(),
            walk: Walk::begin(seen.at(), vec![], subjects.limits(), std::iter::empty()),
            subjects,
            stage: Stage::default(),
            stages: VecDeque::new(),
            passes: 0,
            schedule,
            reported: seen.at(),
        });
        seen.report(note(self.text_of_plan(&running)));
        if self.next_stage(&mut running, seen) {
            self.phase = Phase::Running(running);
        } else {
            self.phase = Phase::Over;
            let finding = self.finish(&running, true, self.why_over());
            seen.report(finding);
        }
    }

    /// What is going to be measured.
    fn text_of_plan(&self, running: &Running) -> String {
        let what = running.subjects.described(self.program.metric());
        let places = match running.schedule.places() {
            0 | 1 => String::new(),
            places => format!(", with pages at {places} places"),
        };
        format!(
            "{} configurations of {} threads are measured{places}: {what}.",
            self.known.number(),
            self.known.threads()
        )
    }

    /// Takes a sample of the running survey.
    fn advance(&mut self, mut running: Box<Running>, seen: &mut Observation<'_>) {
        self.heed(&mut running, seen);
        if let (Subjects::Program(_), true) = (&running.subjects, seen.tasks_changed()) {
            running.walk.restart();
            let (now, threads) = (self.program.working(), self.known.threads());
            if now != threads && self.options.threads.is_none() && !self.noted_threads {
                self.noted_threads = true;
                seen.report(note(format!(
                    "{now} threads work now, and the configurations are for {threads}; --threads N says how many to place."
                )));
            }
        }
        for subject in self.known.note_kept(seen.sample()) {
            // What was measured of it was not in its configurations.
            let known = &self.known;
            self.results
                .retain(subject, |configuration| known.can_have(subject, configuration));
        }
        let progress = running.subjects.progress(seen.sample(), &mut self.program);
        let known = &self.known;
        let turns = running.walk.read(seen.at(), &progress, |one| known.is_unpinned(one));
        for turn in turns {
            if self.known.can_have(turn.subject, turn.configuration) {
                self.results.add(turn);
            }
        }
        if seen.at() >= running.reported + REPORTED {
            running.reported = seen.at();
            self.report(&mut running, seen);
        }
        let is_late = self
            .options
            .limit
            .is_some_and(|limit| seen.at() >= running.began + limit);
        if is_late {
            let finding = self.finish(&running, false, "The time limit is reached.".to_owned());
            seen.report(finding);
        } else if !running.walk.is_over() || self.next_stage(&mut running, seen) {
            self.phase = Phase::Running(running);
        } else {
            let finding = self.finish(&running, true, self.why_over());
            seen.report(finding);
        }
    }

    /// The subjects enter the next stage. Returns whether there is one.
    fn next_stage(&mut self, running: &mut Running, seen: &Observation<'_>) -> bool {
        loop {
            let Some(mut stage) = running.stages.pop_front() else {
                if running.passes * running.schedule.rounds() >= self.options.rounds.1 {
                    return false;
                }
                let due = self.known.due(&self.results, &self.options);
                let rounds = running.schedule.rounds();
                running.outlook.see(self.done(), &due, &running.references, rounds);
                // What an earlier run has not come to is first.
                let is_first = running.passes == 0 && self.results.earlier() > 0;
                let first = if is_first {
                    behind(&due)
                } else {
                    due.keys().copied().collect()
                };
                running.stages = running.schedule.pass(|one| first.contains(&one));
                running.passes += 1;
                if running.stages.is_empty() {
                    return false;
                }
                continue;
            };
            stage.queue.retain(|one| !self.known.left_out().contains_key(one));
            if stage.queue.is_empty() {
                continue;
            }
            let progress = running.subjects.progress(seen.sample(), &mut self.program);
            let subjects = running.subjects.measured().into_iter();
            running.walk = Walk::begin(
                seen.at(),
                stage.queue.clone(),
                running.subjects.limits(),
                subjects
                    .map(|(subject, period)| (subject, progress.get(&subject).copied().unwrap_or_default(), period)),
            );
            running.stage = stage;
            return true;
        }
    }

    /// Leaves out what the machine has refused.
    fn heed(&mut self, running: &mut Running, seen: &mut Observation<'_>) {
        for (code, why) in refusals::of(seen.applied()) {
            if code == RefusalCode::Prefetchers {
                self.requests.keep_prefetchers();
            }
            for one in refusals::left_out(code, &self.known, &running.stage, &running.walk) {
                running.walk.leave_out(one);
                self.known.leave_out(one, &why);
            }
        }
    }

    fn why_over(&self) -> String {
        if self.known.number() == 0 {
            "The machine refuses every configuration.".to_owned()
        } else {
            "The sweep is complete.".to_owned()
        }
    }

    /// The measurements of each subject, also in earlier runs.
    fn done(&self) -> usize {
        self.results.number() / self.known.subjects().len().max(1)
    }

    /// The measurements of each subject in this run.
    fn own(&self) -> usize {
        (self.results.number() - self.results.earlier()) / self.known.subjects().len().max(1)
    }

    /// How far the survey is.
    fn progress(&self, running: &Running) -> SurveyProgress {
        running.outlook.progress(
            self.known.number(),
            self.known.complete(&self.results.by_configuration()),
            self.done(),
            self.own(),
            self.now.saturating_sub(running.began),
        )
    }

    /// Reports how far the survey is, and once that the time will not do.
    fn report(&self, running: &mut Running, seen: &mut Observation<'_>) {
        let progress = self.progress(running);
        seen.report(Finding::own(&progress));
        let until = |end: Duration| end.saturating_sub(seen.at());
        let limit = self.options.limit.map(|limit| until(running.began + limit));
        let usual = self.options.lasted.map(until).filter(|left| !left.is_zero());
        if let Some(text) = running.outlook.warning(&progress, self.own(), limit, usual) {
            seen.report(note(text));
        }
    }

    /// The survey ends.
    fn finish(&mut self, running: &Running, complete: bool, why: String) -> Finding {
        self.others = running.subjects.others().to_vec();
        let measured = self.measured();
        let is_precise = |one: &Measured| one.error.is_some_and(|error| error <= self.options.interval);
        let drifts = self.known.subjects().iter().map(|&subject| self.results.of(subject).1);
        let ended = SurveyEnded {
            configurations: self.known.configurations().len(),
            measured: self.known.measured_for_all(&measured, |_| true),
            precise: self.known.measured_for_all(&measured, is_precise),
            complete,
            lasted: self.now.saturating_sub(running.began).as_secs_f64(),
            drift: drifts.fold(0.0, f64::max),
            why,
        };
        let finding = Finding::own(&ended);
        self.ended = Some(ended);
        finding
    }
}

/// The configurations of all subjects now.
fn placed<'a>(running: &'a Running, known: &'a Known, program: &ObservedProgram) -> Placed<'a> {
    let of = |subject: Subject| Some(&known.configurations()[running.walk.configuration(subject)?]);
    Placed {
        leader: of(running.subjects.leader()).unwrap_or(&known.configurations()[0]),
        regions: by_region(running.subjects.placed(), of),
        stage: &running.stage,
        working: known.threads(),
        left_alone: program.left_alone(),
    }
}

fn note(text: String) -> Finding {
    Finding::Note {
        code: NoteCode::Sweep,
        text,
    }
}
