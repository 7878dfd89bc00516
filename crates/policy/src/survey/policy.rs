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
use super::request::{Placed, Requests, by_region, sets_prefetchers};
use super::results::{Measured, Results, Subject};
use super::schedule::{Schedule, Stage};
use super::subjects::Subjects;
use super::walk::Walk;
use crate::Policy;
use crate::program::metric_choice::MetricRequest;
use crate::program::observed_program::{Observation, ObservedProgram, Stage as Opening};
use crate::program::times::Times;
use crate::program::working_tasks::Skip;
use pinfold_core::{
    Applied, Decision, Finding, Metric, NoteCode, RefusalCode, RegionId, RegionKeeps, Sample, Topology,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

/// The shortest and the longest time between two samples of a survey. A sample costs a part of the shortest one in a
/// hundred.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The interval of readings after the survey.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// The interval of progress findings.
const REPORTED: Duration = Duration::from_secs(1);

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Parallel regions where some repeat, and otherwise the program.
    #[default]
    Auto,
    /// Parallel regions.
    Regions,
    /// The whole program.
    Program,
}

/// The configurations for a number of threads.
#[derive(Clone, Debug, Default)]
pub struct Configurations {
    /// The configurations.
    pub list: Vec<SurveyConfiguration>,
    /// The positions of those that are measured in every pass, so that drift is seen.
    pub references: Vec<usize>,
}

/// Makes the configurations for a number of threads. An error is a clause.
type Make = Box<dyn Fn(&Topology, usize) -> Result<Configurations, String>>;

/// The options of a survey.
#[derive(Clone, Debug)]
pub struct SurveyOptions {
    /// The initialisation; the other times are those of the survey.
    pub times: Times,
    /// The metric of a program that is measured as a whole.
    pub metric: MetricRequest,
    /// The tasks that are left alone.
    pub skip: Skip,
    /// The number of threads; `None` for those that work.
    pub threads: Option<usize>,
    /// What is measured.
    pub by: By,
    /// A configuration is known well enough if half of its 95 % interval is at most this share of its time.
    pub interval: f64,
    /// The fewest and the most measurements of a configuration.
    pub rounds: (usize, usize),
    /// The longest time of the survey; `None` for no limit.
    pub limit: Option<Duration>,
    /// The seed of the random order.
    pub seed: u64,
}

/// A survey that has begun.
#[derive(Debug)]
struct Running {
    began: Duration,
    subjects: Subjects,
    schedule: Schedule,
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

/// What is known of the configurations.
#[derive(Debug, Default)]
struct Known {
    configurations: Vec<SurveyConfiguration>,
    threads: usize,
    /// By configuration: why it is left out.
    left_out: BTreeMap<usize, String>,
    subjects: Vec<Subject>,
    /// What the program does not let the survey change of a region.
    keeps: BTreeMap<Subject, RegionKeeps>,
    /// The regions that are not measured.
    others: Vec<RegionId>,
    /// Whether it was noted that the number of threads has changed.
    noted_threads: bool,
}

impl Known {
    /// Whether a subject can have a configuration.
    fn can_have(&self, subject: Subject, number: usize) -> bool {
        let one = &self.configurations[number];
        let keeps = self.keeps.get(&subject).copied().unwrap_or_default();
        let other_threads = one.threads.is_some_and(|threads| threads != self.threads);
        !self.left_out.contains_key(&number)
            && !(keeps.threads && other_threads)
            && !(keeps.places && one.pinning.is_some())
    }

    /// The number of subjects that can have a configuration.
    fn subjects_of(&self, number: usize) -> usize {
        let subjects = self.subjects.iter();
        subjects.filter(|&&subject| self.can_have(subject, number)).count()
    }
}

/// The policy.
pub struct Survey {
    options: SurveyOptions,
    make: Make,
    program: ObservedProgram,
    phase: Phase,
    /// The first sample of the later half of the initialisation.
    first: Option<Sample>,
    known: Known,
    results: Results,
    requests: Requests,
    ended: Option<SurveyEnded>,
    now: Duration,
}

impl fmt::Debug for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Survey")
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

impl Survey {
    /// A survey of the configurations that `make` gives for a number of threads.
    pub fn new(
        options: SurveyOptions,
        make: impl Fn(&Topology, usize) -> Result<Configurations, String> + 'static,
    ) -> Self {
        Self {
            program: ObservedProgram::new(options.times, options.metric.clone(), options.skip.clone()),
            make: Box::new(make),
            phase: Phase::Initialising,
            first: None,
            known: Known::default(),
            results: Results::default(),
            requests: Requests::default(),
            ended: None,
            now: Duration::ZERO,
            options,
        }
    }

    /// The configurations; none before the number of threads is known.
    pub fn configurations(&self) -> &[SurveyConfiguration] {
        &self.known.configurations
    }

    /// The number of threads that the configurations are for.
    pub fn threads(&self) -> usize {
        self.known.threads
    }

    /// The metric of a program that was measured as a whole.
    pub fn metric(&self) -> Option<&Metric> {
        self.program.metric()
    }

    /// The configurations that were left out, with the reason for each.
    pub fn left_out(&self) -> &BTreeMap<usize, String> {
        &self.known.left_out
    }

    /// The measured subjects.
    pub fn subjects(&self) -> &[Subject] {
        &self.known.subjects
    }

    /// The regions that were not measured, because they are too short, take too little time, or came too late.
    pub fn others(&self) -> &[RegionId] {
        &self.known.others
    }

    /// The end of the survey; `None` if it did not begin, or is not over.
    pub fn ended(&self) -> Option<&SurveyEnded> {
        self.ended.as_ref()
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
                let unpinned = |one: usize| self.known.configurations[one].pinning.is_none();
                let next = running.walk.next(unpinned).clamp(SHORTEST_WAIT, LONGEST_WAIT);
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
                let more = match self.progress(&running).remaining {
                    Some(seconds) if seconds >= 1.0 => format!(" It would have needed at least {seconds:.0} s more."),
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
        let regions = match self.options.by {
            By::Program => None,
            By::Auto | By::Regions => Subjects::regions(self.first.as_ref().unwrap_or(seen.sample()), seen.sample()),
        };
        let subjects = match regions {
            Some(regions) => regions,
            None if self.options.by == By::Regions || stage == Opening::WithoutMetric => return,
            None => {
                self.program.begin_window(seen, Duration::ZERO);
                Subjects::Program(super::walk::Progress::default())
            }
        };
        self.known.threads = self.program.threads(self.options.threads);
        self.known.subjects = subjects.measured().into_iter().map(|(subject, _)| subject).collect();
        self.requests
            .note_home(self.program.last_seen(seen, self.program.working()));
        match (self.make)(seen.topology(), self.known.threads) {
            Ok(configurations) => self.begin(subjects, configurations, seen),
            Err(why) => {
                seen.report(note(format!("Nothing is measured: {why}.")));
                self.phase = Phase::Over;
            }
        }
    }

    /// The first pass begins.
    fn begin(&mut self, subjects: Subjects, configurations: Configurations, seen: &mut Observation<'_>) {
        let Configurations { list, references } = configurations;
        let threads = self.known.threads;
        self.known.configurations = list;
        if let Subjects::Program(_) = subjects {
            for (number, one) in self.known.configurations.iter().enumerate() {
                if let Some(other) = one.threads.filter(|&other| other != threads) {
                    let why = format!(
                        "the program has {threads} threads, and no parallel regions that could have {other} of them"
                    );
                    self.known.left_out.insert(number, why);
                }
            }
        }
        let schedule = Schedule::new(
            &self.known.configurations,
            &references,
            seen.topology(),
            threads,
            self.options.seed,
        );
        let mut running = Box::new(Running {
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
        let what = match &running.subjects {
            Subjects::Program(_) => format!(
                "the program, by the metric {}",
                self.program.metric().map_or("none", |metric| metric.name.as_str())
            ),
            Subjects::Regions { measured, .. } => match measured.len() {
                1 => "1 parallel region".to_owned(),
                number => format!("{number} parallel regions"),
            },
        };
        let places = match running.schedule.places() {
            0 | 1 => String::new(),
            places => format!(", with pages at {places} places"),
        };
        format!(
            "{} configurations of {} threads are measured{places}: {what}.",
            self.known.configurations.len() - self.known.left_out.len(),
            self.known.threads
        )
    }

    /// Takes a sample of the running survey.
    fn advance(&mut self, mut running: Box<Running>, seen: &mut Observation<'_>) {
        self.heed(&mut running, seen);
        if let (Subjects::Program(_), true) = (&running.subjects, seen.tasks_changed()) {
            running.walk.restart();
            let (now, threads) = (self.program.working(), self.known.threads);
            if now != threads && self.options.threads.is_none() && !self.known.noted_threads {
                self.known.noted_threads = true;
                seen.report(note(format!(
                    "{now} threads work now, and the configurations are for {threads}; --threads N says how many to place."
                )));
            }
        }
        self.note_kept(seen.sample());
        let progress = running.subjects.progress(seen.sample(), &mut self.program);
        let configurations = &self.known.configurations;
        let turns = running
            .walk
            .read(seen.at(), &progress, |one| configurations[one].pinning.is_none());
        for turn in turns {
            if self.known.can_have(turn.subject, turn.configuration) {
                self.results.add(turn);
            }
        }
        if seen.at() >= running.reported + REPORTED {
            running.reported = seen.at();
            seen.report(Finding::own(&self.progress(&running)));
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
                let due = self.due();
                running.stages = running.schedule.pass(|one| due.contains(&one));
                running.passes += 1;
                if running.stages.is_empty() {
                    return false;
                }
                continue;
            };
            stage.queue.retain(|one| !self.known.left_out.contains_key(one));
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

    /// The configurations that some subject needs more measurements of.
    fn due(&self) -> BTreeSet<usize> {
        let (fewest, most) = self.options.rounds;
        let mut due = BTreeSet::new();
        for &subject in &self.known.subjects {
            let (measured, _) = self.results.of(subject);
            let is_known = |one: usize| {
                let known = measured.iter().find(|known| known.configuration == one);
                known.is_some_and(|known| {
                    let is_precise = known.error.is_some_and(|error| error <= self.options.interval);
                    known.measurements >= most || (known.measurements >= fewest && is_precise)
                })
            };
            let all = 0..self.known.configurations.len();
            due.extend(all.filter(|&one| self.known.can_have(subject, one) && !is_known(one)));
        }
        due
    }

    /// Drops what was measured of regions that did not get their configurations.
    fn note_kept(&mut self, sample: &Sample) {
        for region in &sample.regions {
            let subject = Subject::Region(region.id);
            let before = self.known.keeps.insert(subject, region.keeps).unwrap_or_default();
            if before != region.keeps {
                let known = &self.known;
                self.results
                    .retain(subject, |configuration| known.can_have(subject, configuration));
            }
        }
    }

    /// Leaves out what the machine has refused.
    fn heed(&mut self, running: &mut Running, seen: &mut Observation<'_>) {
        let applied = seen.applied();
        let instead = applied
            .instead
            .iter()
            .map(|instead| (RefusalCode::Claimed, &instead.why));
        let refused: Vec<(RefusalCode, String)> = applied
            .refused
            .iter()
            .map(|refusal| (refusal.code, &refusal.why))
            .chain(instead)
            .map(|(code, why)| (code, why.clone()))
            .collect();
        for (code, why) in refused {
            let configurations = &self.known.configurations;
            let is_left_out: Vec<usize> = match code {
                RefusalCode::Prefetchers => {
                    self.requests.keep_prefetchers();
                    let all = 0..configurations.len();
                    all.filter(|&one| sets_prefetchers(&configurations[one])).collect()
                }
                RefusalCode::Pages | RefusalCode::PagesTooLong => {
                    let queue = running.stage.queue.iter().copied();
                    queue.filter(|&one| configurations[one].pages.is_some()).collect()
                }
                RefusalCode::Task | RefusalCode::Regions | RefusalCode::Claimed => {
                    let subjects = self.known.subjects.iter();
                    let present = subjects.filter_map(|&subject| running.walk.configuration(subject));
                    present.filter(|&one| configurations[one].pinning.is_some()).collect()
                }
                RefusalCode::Unmeasured => {
                    let subjects = self.known.subjects.iter();
                    subjects
                        .filter_map(|&subject| running.walk.configuration(subject))
                        .collect()
                }
                RefusalCode::Limit | RefusalCode::Unknown => vec![],
            };
            for one in is_left_out {
                running.walk.leave_out(one);
                self.known.left_out.entry(one).or_insert_with(|| why.clone());
            }
        }
    }

    fn why_over(&self) -> String {
        let all_refused = self.known.left_out.len() == self.known.configurations.len();
        if all_refused {
            "The machine refuses every configuration.".to_owned()
        } else {
            "The sweep is complete.".to_owned()
        }
    }

    /// How far the survey is.
    fn progress(&self, running: &Running) -> SurveyProgress {
        let configurations = self.known.configurations.len() - self.known.left_out.len();
        let rounds = self.options.rounds.0.next_multiple_of(running.schedule.rounds());
        let done = self.results.number() / self.known.subjects.len().max(1);
        let planned = (configurations * rounds).max(done);
        let lasted = self.now.saturating_sub(running.began).as_secs_f64();
        SurveyProgress {
            configurations,
            measured: self.measured_for_all(|_| true),
            done,
            planned,
            remaining: (done > 0).then(|| lasted / done as f64 * (planned - done) as f64),
        }
    }

    /// The number of configurations with a result for each subject that is good enough.
    fn measured_for_all(&self, is_enough: impl Fn(&Measured) -> bool) -> usize {
        let mut subjects: BTreeMap<usize, usize> = BTreeMap::new();
        for measured in self.measured().iter().filter(|one| is_enough(one)) {
            *subjects.entry(measured.configuration).or_default() += 1;
        }
        let is_whole = |(&configuration, &number): (&usize, &usize)| number >= self.known.subjects_of(configuration);
        subjects.iter().filter(|&one| is_whole(one)).count()
    }

    /// The survey ends.
    fn finish(&mut self, running: &Running, complete: bool, why: String) -> Finding {
        self.known.others = running.subjects.others().to_vec();
        let drifts = self.known.subjects.iter().map(|&subject| self.results.of(subject).1);
        let ended = SurveyEnded {
            configurations: self.known.configurations.len(),
            measured: self.measured_for_all(|_| true),
            precise: self.measured_for_all(|one| one.error.is_some_and(|error| error <= self.options.interval)),
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
    let of = |subject: Subject| Some(&known.configurations[running.walk.configuration(subject)?]);
    Placed {
        leader: of(running.subjects.leader()).unwrap_or(&known.configurations[0]),
        regions: by_region(running.subjects.placed(), of),
        stage: &running.stage,
        working: known.threads,
        left_alone: program.left_alone(),
    }
}

fn note(text: String) -> Finding {
    Finding::Note {
        code: NoteCode::Sweep,
        text,
    }
}
