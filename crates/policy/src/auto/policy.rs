//! The default policy: the order of events. Each part below it owns its state and returns what follows.

use super::ask::{Asking, Subject, topology_proposals};
use super::candidates::Candidates;
use super::expectations::Frame;
use super::known::{Checked, Known};
use super::options::{AutoOptions, Source};
use super::pages::{self, Pages};
use super::placement::Placement;
use super::placing::Placing;
use super::proposals::Proposal;
use super::rate_line::RateLine;
use super::regions::{self, Regions};
use super::search::{Ended, Search};
use super::step::{Next, Purpose, Step, Windows};
use super::thread_sets::{Given, ranks_changed};
use super::watching::{Identified, Watching};
use crate::Policy;
use crate::comparison::turns::Window;
use crate::findings::probed;
use crate::program::meter::Measurement;
use crate::program::observed_program::{Observation, ObservedProgram, Stage};
use crate::program::working_tasks::Judgement;
use pinfold_core::{Applied, CandidatesCode, Configuration, Decision, Finding, Metric, Sample, Topology};
use std::sync::Arc;
use std::time::Duration;

/// The reason for a search after a change of the number of threads.
const THREADS_CHANGED: &str = "the number of working threads changed";

/// The policy.
#[derive(Debug)]
pub struct Auto {
    options: AutoOptions,
    program: ObservedProgram,
    /// The number of threads of each candidate.
    threads: usize,
    windows: Windows,
    search: Search,
    asking: Asking,
    pages: Pages,
    regions: Regions,
    known: Known,
    watching: Watching,
    placing: Placing,
    line: RateLine,
}

impl Auto {
    /// The policy with these options.
    pub fn new(options: AutoOptions) -> Self {
        let times = options.times;
        let known = options.known.values().next().map(|known| known.metric.clone());
        let program = ObservedProgram::new(times.opening(), options.metric.clone(), options.skip.clone());
        Self {
            program: program.measured_by(known),
            threads: 0,
            windows: Windows::new(times),
            search: Search::new(options.first_placement(), Arc::clone(&options.learned.belief)),
            asking: Asking::default(),
            pages: Pages::default(),
            regions: Regions::default(),
            known: Known::default(),
            watching: Watching::default(),
            placing: Placing::default(),
            line: RateLine::default(),
            options,
        }
    }
}

impl Policy for Auto {
    fn name(&self) -> &'static str {
        self.options.space.policy()
    }

    fn start(&mut self, _topology: &Topology, metrics: &[Metric]) -> Decision {
        self.asking.start(&self.options, metrics);
        let wanted = self.wanted();
        let decision = self.program.start(metrics, Some(wanted));
        self.limited(decision, Duration::ZERO)
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        let mut seen = self.program.observe(topology, sample, applied);
        if self.pages.note(applied, seen.at(), &mut self.search) {
            self.follow(Next::Try, &mut seen);
        }
        match self.program.stage(&mut seen) {
            Stage::Initialising | Stage::WithoutMetric => {}
            Stage::Opened => {
                let next = self.open(&mut seen);
                self.follow(next, &mut seen);
            }
            Stage::Open => self.step(&mut seen),
        }
        let wanted = self.wanted();
        let decision = self.program.decide(seen, Some(wanted));
        self.limited(decision, sample.at)
    }

    fn end(&mut self) -> Vec<Finding> {
        let pinning = self.search.candidates().running_placement().pinning.as_ref();
        let early = self.program.ended_early(pinning);
        early.unwrap_or_else(|| self.search.ended_early().into_iter().collect())
    }
}

/// The steps.
impl Auto {
    /// The initialisation is over. A known program goes to the placement of the earlier run. Any other is measured
    /// first.
    fn open(&mut self, seen: &mut Observation<'_>) -> Next {
        self.windows.fit(self.program.reading());
        self.line.restart(seen.at());
        self.threads = self.program.threads(self.options.threads);
        if let Some(known) = self.known.start(&self.options, seen.topology(), self.threads) {
            self.list(CandidatesCode::KnownProgram, &known.why, seen);
            self.search.run_in(known, seen.findings());
            return Next::Settle(Purpose::Baseline);
        }
        let why = if self.options.near.is_none() {
            "the operating system's placement is measured first"
        } else {
            "where the user wants the program is measured first, and then the operating system's placement"
        };
        self.search_anew(why, seen)
    }

    /// Continues the step, or ends it and begins the next one.
    fn step(&mut self, seen: &mut Observation<'_>) {
        match self.windows.step() {
            Step::Settling(purpose) => {
                if self.program.is_over(seen) {
                    self.measure(purpose, seen);
                }
            }
            Step::Measuring(purpose) => {
                if seen.tasks_changed() && self.windows.repeats() {
                    self.measure(purpose, seen);
                } else if self.program.is_over(seen) || self.is_hopeless(purpose) {
                    self.windows.end();
                    let next = self.measured(purpose, seen);
                    self.follow(next, seen);
                    self.report_rate(seen);
                }
            }
        }
    }

    fn follow(&mut self, next: Next, seen: &mut Observation<'_>) {
        match next {
            Next::Measure(purpose) => self.measure(purpose, seen),
            Next::Settle(purpose) => self.settle(purpose, seen),
            Next::Try => {
                let next = self.try_next(seen);
                self.follow(next, seen);
            }
            Next::Watch => {
                let kept = self.search.kept();
                let is_for_threads = self.program.threads(self.options.threads) == self.threads;
                self.watching
                    .begin(self.program.working_tasks(), kept.filter(|_| is_for_threads));
                self.settle(Purpose::Watching, seen);
            }
        }
    }

    fn measure(&mut self, purpose: Purpose, seen: &Observation<'_>) {
        let lasts = self.windows.measure(purpose);
        self.program.begin_window(seen, lasts);
        if self.placing.is_time_to_affirm(seen.at()) {
            self.program.request_again();
        }
    }

    fn settle(&mut self, purpose: Purpose, seen: &Observation<'_>) {
        let placement = self.search.candidates().running_placement();
        let lasts = self.windows.settle(purpose, placement, seen.at());
        self.program.settle(seen, lasts);
    }

    /// How long threads, caches and pages settle if the program goes to a candidate.
    fn settling(&self, candidate: usize, at: Duration) -> Duration {
        let candidates = self.search.candidates();
        let settles = self.windows.placement_settles(&candidates[candidate].placement, at);
        settles + self.pages.moving_takes(candidates, candidate, at)
    }

    /// Whether the window may end early.
    fn is_hopeless(&self, purpose: Purpose) -> bool {
        let window = || Window::new(self.program.measurement().rate, self.program.counts());
        purpose == Purpose::Trial && self.search.trials().is_hopeless(window())
    }
}

/// What follows from a window.
impl Auto {
    fn measured(&mut self, purpose: Purpose, seen: &mut Observation<'_>) -> Next {
        let measurement = self.program.measurement();
        let counts = self.program.counts();
        let window = Window::new(measurement.rate, counts);
        self.windows.adapt(measurement.rate, counts);
        if let Some(rate) = measurement.rate {
            self.line.add(seen.at(), rate);
        }
        if self.options.asks(Source::Regions) {
            let running = self.search.candidates().running();
            self.regions.time(running, self.program.first(), seen.sample());
        }
        let judgement = self.judge_tasks(seen);
        let may_change = judgement != Judgement::Idle && self.options.threads.is_none();
        if purpose.is_search_or_watch()
            && may_change
            && let Some(next) = self.threads_changed(seen)
        {
            return next;
        }
        self.search.save(measurement.over);
        if purpose.is_search_or_watch() {
            let subject = subject(&self.options, &self.program, self.threads);
            let proposal = self.asking.ask_mapper(subject, self.search.candidates(), seen);
            if let Some(proposal) = proposal {
                self.search.propose(proposal, seen.findings());
            }
        }
        match purpose {
            Purpose::Baseline => self.baseline(window, &measurement, seen),
            Purpose::Trial => self.trial(window, seen),
            Purpose::Waiting => self.waited(window),
            Purpose::Watching => self.watch(window, seen),
            Purpose::Signature => self.identify(seen),
        }
    }

    /// A window of the baseline, or of a known program in its placement.
    fn baseline(&mut self, window: Option<Window>, measurement: &Measurement, seen: &mut Observation<'_>) -> Next {
        let Some(windows) = self.search.add_to_baseline(window) else {
            return Next::Measure(Purpose::Baseline);
        };
        let candidates = self.search.candidates();
        if candidates.running_placement().pinning.is_none() {
            self.placing.ran_on(self.program.last_seen(seen, self.threads));
        }
        seen.report(probed(candidates.running(), measurement, false));
        self.search.set_baseline_rate(measurement.rate);
        let metric = self.program.metric_identity();
        let at = seen.at();
        match self
            .known
            .check(&mut self.search, metric.as_deref(), &windows, at, seen.findings())
        {
            Some(Checked::AsFast) => {
                let placement = self.search.candidates().running_placement();
                self.watching.begin_phase(placement.clone());
                return Next::Watch;
            }
            Some(Checked::Slower) => self.watching.begin_phase(Placement::default()),
            None => {}
        }
        let subject = subject(&self.options, &self.program, self.threads);
        self.asking.ask_all(subject, &mut self.search, seen);
        if !self.search.trials().is_trying() && self.begin_trial(seen) {
            // The windows of the baseline are the first ones of the trial.
            for window in windows {
                self.search.offer(window);
            }
        }
        Next::Try
    }

    /// A window of a trial.
    fn trial(&mut self, window: Option<Window>, seen: &mut Observation<'_>) -> Next {
        let at = seen.at();
        let measured = at.saturating_sub(self.program.first().at);
        let placement = self.search.candidates().running_placement();
        let spent = measured + self.windows.placement_settles(placement, at);
        let subject = subject(&self.options, &self.program, self.threads);
        if self.asking.is_model_due(subject, placement, seen.topology()) {
            self.asking.ask_model(subject, &mut self.search, seen);
        }
        let ended = self.search.add_window(window, (measured, spent), at, seen.findings());
        let candidates = self.search.candidates();
        match ended {
            Some(Ended::Faster { is_new }) => {
                self.pages.restart();
                self.watching.choose(candidates.best_placement(), is_new);
                if candidates[candidates.best()].confirmed {
                    self.report_choice(seen);
                }
            }
            Some(Ended::Withdrawn) => self.watching.choose(candidates.best_placement(), false),
            Some(Ended::Unchanged) | None => {}
        }
        Next::Try
    }

    /// A window of the best candidate while the next trial waits for the budget.
    fn waited(&mut self, window: Option<Window>) -> Next {
        let Some(window) = window else { return Next::Try };
        if self.watching.has_changed(window) {
            self.search.drop_trial();
            return Next::Measure(Purpose::Signature);
        }
        self.search.offer(window);
        Next::Try
    }

    /// A window after the choice.
    fn watch(&mut self, window: Option<Window>, seen: &mut Observation<'_>) -> Next {
        if self.watching.is_search_due(seen.at()) {
            return self.search_anew(THREADS_CHANGED, seen);
        }
        if let Some(window) = window {
            if self.watching.has_changed(window) {
                return Next::Measure(Purpose::Signature);
            }
            self.watching.add_window(self.program.first());
        }
        if let Some(first) = self.watching.unsigned_from() {
            let subject = subject(&self.options, &self.program, self.threads);
            let signature = subject.signature(first, seen.sample());
            let placement = self.search.candidates().running_placement();
            self.watching.sign(placement, signature);
        }
        if self.search.trials().is_trying() || self.begin_trial(seen) {
            Next::Try
        } else {
            Next::Measure(Purpose::Watching)
        }
    }

    /// The rate has changed, and this window identifies the phase.
    fn identify(&mut self, seen: &mut Observation<'_>) -> Next {
        let subject = subject(&self.options, &self.program, self.threads);
        let signature = subject.signature(self.program.first(), seen.sample());
        let placement = self.search.candidates().running_placement();
        let at = seen.at();
        match self.watching.identify(placement, signature, at, seen.findings()) {
            Identified::Unchanged => Next::Watch,
            Identified::Known(best) => {
                self.search.take_phase(best, seen.findings());
                self.regions.report(self.search.candidates(), seen.findings());
                Next::Watch
            }
            Identified::New => self.search_in_new_phase(seen),
        }
    }

    /// Judges which tasks work. After the choice a change has a line, because threads are pinned again.
    fn judge_tasks(&mut self, seen: &mut Observation<'_>) -> Judgement {
        let is_unpinned = *self.search.candidates().running_placement() == Placement::default();
        let before = self.program.left_alone();
        let judgement = self.program.judge(seen, is_unpinned);
        if judgement == Judgement::Changed && self.search.is_chosen() {
            let after = self.program.left_alone();
            seen.report(ranks_changed(&before, &after, self.program.working()));
        }
        judgement
    }

    /// Whether another number of threads works for long enough, and what follows.
    fn threads_changed(&mut self, seen: &mut Observation<'_>) -> Option<Next> {
        let threads = self.program.threads(self.options.threads);
        if !self.watching.threads_changed(threads != self.threads, seen.at()) {
            return None;
        }
        self.threads = threads;
        let requested = self.options.requested_placement();
        let working = self.program.working_tasks();
        let recalled = self.watching.recall(working, requested, seen.at(), seen.findings());
        Some(match recalled {
            Some(given) => self.take(given, seen),
            None => self.search_anew(THREADS_CHANGED, seen),
        })
    }

    /// Reports the mean rate now and then after the choice.
    fn report_rate(&mut self, seen: &mut Observation<'_>) {
        if !self.search.is_chosen() {
            self.line.restart(seen.at());
        } else if let Some(line) = self.line.take(seen.at(), self.windows.line()) {
            seen.report_rate(&line);
        }
    }
}

/// Searches and trials.
impl Auto {
    /// A list of candidates begins, with the unpinned program.
    fn list(&mut self, code: CandidatesCode, why: &str, seen: &mut Observation<'_>) {
        self.search.list(self.threads, code, why, seen.findings());
        self.asking.restart();
        self.pages.restart();
        self.regions.restart();
    }

    /// A search begins with a baseline, in the placement `incumbent`; `None` for the unpinned program.
    fn begin_search(&mut self, incumbent: Option<Proposal>, why: &str, seen: &mut Observation<'_>) -> Next {
        self.list(CandidatesCode::Proposals, why, seen);
        self.search.begin_in(incumbent, seen.findings());
        self.watching.search_begins(seen.at());
        Next::Measure(Purpose::Baseline)
    }

    /// A search begins as at the start of the program: unpinned, or in the placement that the user wants.
    fn search_anew(&mut self, why: &str, seen: &mut Observation<'_>) -> Next {
        self.watching.begin_phase(self.options.requested_placement());
        self.begin_search(self.options.requested(), why, seen)
    }

    /// A search begins in another phase. The running placement stays the best one until another is faster.
    fn search_in_new_phase(&mut self, seen: &mut Observation<'_>) -> Next {
        let requested = self.options.requested();
        let incumbent = self.search.incumbent(requested.as_ref());
        let next = self.begin_search(incumbent, "the program is in another phase", seen);
        if let Some(requested) = requested {
            self.search.propose(requested, seen.findings());
        }
        next
    }

    /// The choice for the working threads is given without a search.
    fn take(&mut self, given: Given, seen: &mut Observation<'_>) -> Next {
        self.list(given.candidates, &given.why, seen);
        self.watching.begin_phase(given.kept.placement.clone());
        self.search.take(given, seen.at(), seen.findings());
        self.asking.settle();
        self.pages.settle();
        self.regions.report(self.search.candidates(), seen.findings());
        Next::Watch
    }

    /// The next window of the trial. It waits if the budget does not allow it. Without a trial the search ends.
    fn try_next(&mut self, seen: &mut Observation<'_>) -> Next {
        if !self.search.trials().is_trying() && !self.begin_trial(seen) {
            return self.conclude(seen);
        }
        let Some(due) = self.search.trials().due() else {
            return Next::Watch;
        };
        self.search.expect(frame(seen.topology(), self.threads, &self.placing));
        if self.try_another(false, seen) {
            return Next::Try;
        }
        let at = seen.at();
        let candidates = self.search.candidates();
        let settles = if due == candidates.running() {
            Duration::ZERO
        } else {
            self.settling(due, at)
        };
        let (moving, length) = self.pages.cost(candidates, due, at, settles + self.windows.length());
        // The best candidate would run in any case.
        if due == candidates.best() || self.search.affords(at, moving, length) {
            self.search.run(due);
            if settles.is_zero() {
                return Next::Measure(Purpose::Trial);
            }
            seen.report(Finding::WarmingUp {
                candidate: due,
                lasts: settles,
            });
            return Next::Settle(Purpose::Trial);
        }
        if self.try_another(true, seen) {
            return Next::Try;
        }
        let candidates = self.search.candidates();
        if candidates.is_best_running() {
            return Next::Measure(Purpose::Waiting);
        }
        self.search.run(candidates.best());
        Next::Settle(Purpose::Waiting)
    }

    /// Begins another trial in place of the one under way, if it is worth more. Returns whether it did.
    fn try_another(&mut self, waits: bool, seen: &mut Observation<'_>) -> bool {
        let at = seen.at();
        let (pages, windows) = (&self.pages, &self.windows);
        let costs = |all: &Candidates, one: usize| {
            let window = window_takes(windows, all, one, at);
            let (moving, length) = pages.cost(all, one, at, window + pages.moving_takes(all, one, at));
            (pages.cost_of_trial(all, one, at, window), moving, length)
        };
        self.search.try_another(at, waits, costs, seen.findings())
    }

    /// Begins the next trial. Returns whether there is one.
    fn begin_trial(&mut self, seen: &mut Observation<'_>) -> bool {
        if self.search.try_requested() {
            return true;
        }
        let (topology, at) = (seen.topology(), seen.at());
        let search = &mut self.search;
        let placements = || topology_proposals(&self.options, topology, self.threads);
        self.pages.propose_with_pages(search, placements, seen.findings());
        self.regions
            .propose(search, self.placing.baseline_pus(), seen.findings());
        regions::spread(search, seen.findings());
        let frame = frame(topology, self.threads, &self.placing);
        let (pages, windows) = (&self.pages, &self.windows);
        let cost =
            |all: &Candidates, one: usize| pages.cost_of_trial(all, one, at, window_takes(windows, all, one, at));
        if search.try_waiting(frame, at, cost) || search.try_open() {
            return true;
        }
        let may_interleave = self.asking.may_interleave(&self.options, topology);
        let load = self.asking.load();
        if may_interleave && self.pages.propose_interleaving(search, load, seen.findings()) {
            return self.begin_trial(seen);
        }
        search.confirm(at) || self.try_neighbour(seen)
    }

    /// Begins a trial of a neighbour of the choice, if that is worth its cost.
    fn try_neighbour(&mut self, seen: &mut Observation<'_>) -> bool {
        let (topology, at) = (seen.topology(), seen.at());
        let candidates = self.search.candidates();
        let window = self.windows.length() + self.settling(candidates.best(), at);
        if !self.options.asks(Source::Neighbours) || !self.search.is_neighbour_due(at, window) {
            return false;
        }
        let placements = || topology_proposals(&self.options, topology, self.threads);
        let baseline_pus = self.placing.baseline_pus();
        if let Some((placement, why)) = self.regions.neighbour(candidates, baseline_pus, placements) {
            self.search.try_neighbour(placement, why, seen.findings());
            return true;
        }
        self.search.try_nearest(topology, self.threads, seen.findings())
    }

    /// Nothing is left to try: the best candidate is the choice.
    fn conclude(&mut self, seen: &mut Observation<'_>) -> Next {
        if self.search.conclude(seen.at()) {
            self.report_choice(seen);
            if !self.search.has_gained() {
                self.watching.raise_patience();
            }
        }
        Next::Watch
    }

    /// Reports the best candidate with its regions, unless it was reported last.
    fn report_choice(&mut self, seen: &mut Observation<'_>) {
        let (insensitive, near) = (self.asking.insensitive(), self.options.near.as_ref());
        if self.search.report_choice(insensitive, near, seen.findings()) {
            self.regions.report(self.search.candidates(), seen.findings());
        }
    }
}

/// Decisions.
impl Auto {
    /// The configuration that brings the program into the running candidate's placement.
    fn wanted(&mut self) -> Configuration {
        let placement = self.search.candidates().running_placement();
        self.placing
            .configuration(placement, self.pages.are_mapped(), self.program.left_alone())
    }

    /// The decision with the time that pages may take to move. This time changes with each decision, and alone is no
    /// reason for another request.
    fn limited(&self, decision: Decision, at: Duration) -> Decision {
        let candidates = self.search.candidates();
        let has_mapping = candidates.running_placement().pages.is_some();
        let mapping_within = pages::mapping_within(candidates, candidates.running(), at);
        let following_within = pages::following_within(&self.search, self.windows.settles(at), at);
        let configuration = decision.configuration.map(|configuration| Configuration {
            following_within: Some(following_within),
            mapping_within: mapping_within.filter(|_| has_mapping),
            ..configuration
        });
        Decision {
            configuration,
            ..decision
        }
    }
}

/// What the sources are asked about. A method would borrow all parts.
fn subject<'a>(options: &'a AutoOptions, program: &'a ObservedProgram, threads: usize) -> Subject<'a> {
    Subject {
        options,
        program,
        threads,
    }
}

/// How long a window of a candidate takes with the time to settle, apart from pages that move to a mapping.
fn window_takes(windows: &Windows, candidates: &Candidates, one: usize, at: Duration) -> Duration {
    windows.placement_settles(&candidates[one].placement, at) + windows.length()
}

/// How the belief sees the candidates.
fn frame<'a>(topology: &'a Topology, threads: usize, placing: &'a Placing) -> Frame<'a> {
    Frame {
        topology,
        threads,
        unpinned: placing.baseline_pus(),
    }
}
