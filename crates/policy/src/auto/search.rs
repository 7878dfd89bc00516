//! The search: which candidate is tried next, which one is the best, and the choice at the end.
//!
//! 1. The windows of the baseline give the noise of the rate.
//! 2. The candidate whose trial is worth most (`expectations`) runs in turns with the best one, for a few pairs of
//!    windows. If the noise hides the difference it is left open.
//! 3. Candidates that were left open get more pairs.
//! 4. The best one is compared with the unpinned program, unless it was compared with a candidate that was faster.
//! 5. Neighbours of the best one follow while their gains exceed their cost.
//!
//! Trials wait until the budget allows them. The best candidate runs in between. A trial is left open if another one
//! need not wait, or is worth more after the pairs so far.

use super::candidates::{Candidates, State, UNPINNED};
use super::choice::Choice;
use super::expectations::{Expectations, Frame};
use super::neighbours::Neighbours;
use super::options::Near;
use super::placement::Placement;
use super::proposals::Proposal;
use super::thread_sets::{Given, Kept};
use super::trial::{MOST_PAIRS, SCREENED, Trial};
use super::trials::{Finished, Trials};
use crate::belief::{Belief, Cost};
use crate::comparison::turns::{Gain, Turns, Window};
use pinfold_core::{CandidatesCode, ChoiceCode, ComparedCode, Finding, ProposerCode, Topology};
use std::sync::Arc;
use std::time::Duration;

/// A candidate that could not be measured is tried again after this time.
const IDLE: Duration = Duration::from_secs(60);

/// A search with less gain than this, as a logarithm, was without result.
const LEAST_GAIN: f64 = 0.01;

/// What the end of a trial means for the best candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The tried candidate is the best one. `is_new`: it was not the best one before.
    Faster { is_new: bool },
    /// The best candidate was not faster than the unpinned program, which is the best one now.
    Withdrawn,
    /// The best candidate stays.
    Unchanged,
}

/// The state of a search. Only the budget and the time of the next confirmation outlast it.
#[derive(Debug)]
pub(super) struct Search {
    candidates: Candidates,
    trials: Trials,
    neighbours: Neighbours,
    choice: Choice,
    expectations: Expectations,
}

impl Search {
    /// Before the first search. The program starts in `placement`. `belief` orders the trials.
    pub(super) fn new(placement: Placement, belief: Arc<Belief>) -> Self {
        Self {
            candidates: Candidates::new(placement),
            trials: Trials::default(),
            neighbours: Neighbours::default(),
            choice: Choice::default(),
            expectations: Expectations::new(belief),
        }
    }

    /// Begins a list of candidates for this number of threads. The program runs unpinned, as the only candidate.
    pub(super) fn list(&mut self, threads: usize, code: CandidatesCode, why: &str, findings: &mut Vec<Finding>) {
        *self = Self {
            trials: self.trials.restarted(),
            choice: self.choice.reopened(),
            expectations: self.expectations.restarted(),
            candidates: Candidates::new(Placement::default()),
            neighbours: Neighbours::default(),
        };
        findings.push(Finding::CandidatesChosen {
            threads,
            pinnings: vec![None],
            code,
            why: why.to_owned(),
        });
    }

    /// The program runs in this placement. Returns its position.
    pub(super) fn run_in(&mut self, proposal: Proposal, findings: &mut Vec<Finding>) -> usize {
        let position = self.propose(proposal, findings);
        self.candidates.run(position);
        position
    }

    /// The search begins in this placement, which stays the best one until another is faster; `None` for the unpinned
    /// program.
    pub(super) fn begin_in(&mut self, incumbent: Option<Proposal>, findings: &mut Vec<Finding>) {
        match incumbent {
            Some(incumbent) => {
                let best = self.run_in(incumbent, findings);
                self.candidates.set_best(best);
            }
            None => self.candidates.set_state(UNPINNED, State::Best),
        }
    }

    /// The running placement as the start of the next search; `None` for the unpinned program. If it is the one that
    /// the user wants, `requested`, it is compared with the unpinned program first.
    pub(super) fn incumbent(&self, requested: Option<&Proposal>) -> Option<Proposal> {
        let running = &self.candidates[self.candidates.running()];
        let requested = requested.filter(|requested| requested.placement == running.placement);
        let is_unpinned = running.placement == Placement::default();
        requested.cloned().or_else(|| {
            (!is_unpinned).then(|| Proposal {
                placement: running.placement.clone(),
                by: ProposerCode::Phase,
                gain: running.gain.map(|gain| gain.log.exp_m1()),
                why: "it was the best one in the phase before".to_owned(),
            })
        })
    }

    /// Adds a candidate, or its forecast if its placement is in the list. Returns its position.
    pub(super) fn propose(&mut self, proposal: Proposal, findings: &mut Vec<Finding>) -> usize {
        self.candidates.propose(proposal, findings)
    }

    /// The candidates.
    pub(super) fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    /// The trials.
    pub(super) fn trials(&self) -> &Trials {
        &self.trials
    }

    /// The program runs in the placement of this candidate from now on.
    pub(super) fn run(&mut self, candidate: usize) {
        self.candidates.run(candidate);
    }

    /// Takes a candidate out of the list and proposes another one in its place.
    pub(super) fn replace(&mut self, candidate: usize, proposal: Proposal, findings: &mut Vec<Finding>) {
        self.candidates.set_state(candidate, State::Out);
        self.propose(proposal, findings);
    }

    /// Takes all candidates that were not tried out of the list.
    pub(super) fn drop_waiting(&mut self) {
        self.candidates.drop_waiting();
    }

    /// The machine refused the candidate that runs, or its pages.
    pub(super) fn refuse(&mut self, state: State) {
        self.candidates.set_state(self.candidates.running(), state);
        self.trials.drop_current();
    }
}

/// The baseline and the cost.
impl Search {
    /// Adds a window of the baseline. Returns all of them when there are enough.
    pub(super) fn add_to_baseline(&mut self, window: Option<Window>) -> Option<Vec<Window>> {
        self.trials.add_to_baseline(window)
    }

    /// The rate of the candidate that runs, from the baseline.
    pub(super) fn set_baseline_rate(&mut self, rate: Option<f64>) {
        self.candidates.set_rate(self.candidates.running(), rate);
    }

    /// A window of this length saved time if the best candidate ran in it.
    pub(super) fn save(&mut self, length: Duration) {
        if self.candidates.is_best_running()
            && let Some(gain) = self.candidates[self.candidates.best()].gain
        {
            self.trials.save(length, gain);
        }
    }

    /// Pages have moved for so long. `are_mapped`: to a mapping and not after threads.
    pub(super) fn spend_moving(&mut self, lasted: Duration, are_mapped: bool) {
        self.trials.spend_moving(lasted, are_mapped);
    }

    /// Whether the budget allows a window of the candidate that is due: `length` with the time to settle, after
    /// `moving`, the time of pages that move there and back.
    pub(super) fn affords(&self, at: Duration, moving: Duration, length: Duration) -> bool {
        let due = self.trials.due();
        let prospect = due.and_then(|due| self.expectations.prospect(due, self.candidates.best()));
        self.trials.affords(&self.candidates, at, (moving, length), prospect)
    }
}

/// The next trial. Each function returns whether it began one.
impl Search {
    /// Compares the placement that the user wants with the unpinned program, which comes first.
    pub(super) fn try_requested(&mut self) -> bool {
        let is_first = matches!(self.candidates[UNPINNED].state, State::Waiting);
        let begins = self.candidates.is_best_requested() && is_first;
        if begins {
            self.screen(self.candidates.best(), UNPINNED);
        }
        begins
    }

    /// Tries the candidate that runs first, if it is not the best one.
    pub(super) fn try_running(&mut self) -> bool {
        let begins = !self.candidates.is_best_running();
        if begins {
            self.screen(self.candidates.best(), self.candidates.running());
        }
        begins
    }

    /// Takes all candidates into the belief.
    pub(super) fn expect(&mut self, frame: Frame<'_>) {
        self.expectations.update(&self.candidates, frame);
        let best = self.candidates.best();
        let expectations = &self.expectations;
        self.candidates.expect(|one| {
            let prospect = expectations.prospect(one, best).filter(|_| one != best);
            prospect.map_or(0.0, |prospect| prospect.saves)
        });
    }

    /// Tries the untried candidate whose trial is worth most. `cost` has the cost of a trial.
    pub(super) fn try_waiting(
        &mut self,
        frame: Frame<'_>,
        at: Duration,
        cost: impl Fn(&Candidates, usize) -> Cost,
    ) -> bool {
        self.expect(frame);
        let of = |one| self.candidates.is_due(one, at).then(|| cost(&self.candidates, one));
        let next = self.most_worth(at, of);
        if let Some(next) = next {
            self.screen(self.candidates.best(), next);
        }
        next.is_some()
    }

    /// The candidate whose trial is worth most; `None` if no trial is worth its cost. `cost` is `None` for a candidate
    /// that is not tried now.
    fn most_worth(&self, at: Duration, cost: impl Fn(usize) -> Option<Cost>) -> Option<usize> {
        let noise = self.trials.screening_variance();
        self.expectations.next(self.candidates.best(), noise, at, cost)
    }

    /// Leaves the trial open and tries an untried candidate that is worth more now that a part of the trial is measured,
    /// if the budget allows its first window. With `waits` the budget does not allow the next window of the trial: any
    /// other trial that is worth its cost is worth more. `costs` has the cost of a candidate's trial, and the times that
    /// [`Search::affords`] takes.
    pub(super) fn try_another(
        &mut self,
        at: Duration,
        waits: bool,
        costs: impl Fn(&Candidates, usize) -> (Cost, Duration, Duration),
        findings: &mut Vec<Finding>,
    ) -> bool {
        let best = self.candidates.best();
        let screens = |trial: &&Trial| trial.a() == best && trial.b() != UNPINNED;
        let Some(trial) = self.trials.current().filter(screens) else {
            return false;
        };
        let noise = self.trials.noise();
        if !waits && (!trial.is_between_pairs() || trial.is_promising(noise)) {
            return false;
        }
        let (tried, left) = (trial.b(), trial.left());
        if let Some(gain) = trial.turns().gain(noise) {
            self.expectations.learn(best, tried, gain);
        }
        let worth = |one: usize| {
            let (cost, moving, length) = costs(&self.candidates, one);
            if one == tried {
                let measuring = cost.measuring * left;
                return (!waits).then_some(Cost { measuring, ..cost });
            }
            let prospect = self.expectations.prospect(one, best);
            let may = self.candidates.is_due(one, at) && self.trials.affords_first(at, (moving, length), prospect);
            may.then_some(cost)
        };
        let Some(next) = self.most_worth(at, worth).filter(|&next| next != tried) else {
            return false;
        };
        if let Some(finished) = self.trials.set_aside() {
            self.end_trial(&finished, at, findings);
        }
        self.screen(best, next);
        true
    }

    /// Continues the most promising trial that was left open.
    pub(super) fn try_open(&mut self) -> bool {
        let open = self.candidates.most_promising_open(self.trials.noise());
        let Some((next, turns)) = open else { return false };
        self.begin_trial(self.candidates.best(), next, turns);
        true
    }

    /// Compares the best candidate with the unpinned program, if that was not done or is due again. The placement that
    /// the user wants stays unless the unpinned program is faster.
    pub(super) fn confirm(&mut self, at: Duration) -> bool {
        let best = self.candidates.best();
        let is_time = self.choice.is_time_to_confirm(at);
        let (a, b, begins) = if self.candidates.is_best_requested() {
            (best, UNPINNED, is_time)
        } else {
            let is_needed = !self.candidates[best].confirmed || is_time;
            (UNPINNED, best, best != UNPINNED && is_needed)
        };
        if begins {
            self.begin_trial(a, b, Turns::default());
        }
        begins
    }

    /// Whether a neighbour of the best candidate is tried, if a window and the time to settle last so long.
    pub(super) fn is_neighbour_due(&self, at: Duration, window: Duration) -> bool {
        let best = self.candidates.best_placement();
        let has_neighbours = best.pinning.is_some() || !best.regions.is_empty();
        let cost = window.as_secs_f64() * SCREENED as f64;
        self.choice.is_made() && has_neighbours && self.neighbours.are_worth(at, cost)
    }

    /// Tries a neighbour of the best candidate.
    pub(super) fn try_neighbour(&mut self, placement: Placement, why: String, findings: &mut Vec<Finding>) {
        let neighbour = Proposal {
            placement,
            by: ProposerCode::Neighbour,
            gain: None,
            why,
        };
        let next = self.propose(neighbour, findings);
        self.neighbours.count();
        self.screen(self.candidates.best(), next);
    }

    /// Tries the nearest neighbour of the best candidate that is not in the list.
    pub(super) fn try_nearest(&mut self, topology: &Topology, threads: usize, findings: &mut Vec<Finding>) -> bool {
        let best = self.candidates.best_placement().clone();
        let Some(pinning) = &best.pinning else { return false };
        while let Some(near) = self.neighbours.nearest(topology, threads, pinning) {
            let placement = Placement {
                pinning: Some(near),
                ..best.clone()
            };
            if self.candidates.position(&placement).is_none() {
                let why = "it is near the best one so far".to_owned();
                self.try_neighbour(placement, why, findings);
                return true;
            }
        }
        false
    }

    fn screen(&mut self, a: usize, b: usize) {
        self.trials.screen(&self.candidates, a, b);
    }

    fn begin_trial(&mut self, a: usize, b: usize, turns: Turns) {
        self.trials.begin(&self.candidates, (a, b), turns, MOST_PAIRS);
    }
}

/// The windows of a trial and its end.
impl Search {
    /// The best candidate ran in this window while the trial waited.
    pub(super) fn offer(&mut self, window: Window) {
        self.trials.offer(self.candidates.running(), window);
    }

    /// The rate has changed: the trial is dropped.
    pub(super) fn drop_trial(&mut self) {
        self.trials.drop_current();
    }

    /// Adds the window of the candidate that was due; `None` if nothing was counted. It was `measured` for so long, and
    /// took `spent` with the time to settle. Returns the result if the trial is over.
    pub(super) fn add_window(
        &mut self,
        window: Option<Window>,
        times: (Duration, Duration),
        at: Duration,
        findings: &mut Vec<Finding>,
    ) -> Option<Ended> {
        let finished = self.trials.add_window(&self.candidates, window, times)?;
        Some(self.end_trial(&finished, at, findings))
    }

    fn end_trial(&mut self, finished: &Finished, at: Duration, findings: &mut Vec<Finding>) -> Ended {
        let Finished { trial, code, gain, .. } = finished;
        let (code, gain) = (*code, *gain);
        let (a, b) = (trial.a(), trial.b());
        findings.push(trial.finding(gain, code));
        let learned = gain.and_then(|gain| self.expectations.learn(a, b, gain));
        findings.extend(learned.map(Finding::Believed));
        let over_unpinned = self.candidates.gain(a);
        if b == UNPINNED {
            // Only the placement that the user wants is compared so.
            self.candidates.set_gain(a, gain.map(Gain::inverse));
            self.candidates.set_confirmed(a, code != ComparedCode::Faster);
            self.choice.confirm_later(at);
        }
        // If A is confirmed and B beats A, B counts as confirmed.
        let is_confirmed = [a, b].contains(&UNPINNED) || self.candidates[a].confirmed;
        let over_unpinned = over_unpinned.zip(gain).map(|(one, other)| one.and(other));
        self.candidates.set_gain(b, over_unpinned);
        self.candidates.set_rate(b, trial.rate().or(self.candidates[b].rate));
        match code {
            ComparedCode::Faster => {
                self.candidates.set_state(b, State::Best);
                self.candidates.set_confirmed(b, is_confirmed);
                if self.choice.is_made() && a != UNPINNED {
                    self.neighbours.move_on(over_unpinned.map_or(0.0, |gain| gain.log));
                }
                let is_new = self.candidates.best() != b;
                if is_new {
                    self.choice.open();
                }
                self.candidates.set_best(b);
                self.choice.confirm_later(at);
                Ended::Faster { is_new }
            }
            ComparedCode::NotKnown if finished.is_left_open => {
                self.trials.pay_moving(trial);
                let turns = trial.turns().clone();
                self.candidates.set_state(b, State::Open { turns, against: a });
                Ended::Unchanged
            }
            // The program was idle, which says nothing about the placement.
            ComparedCode::NotMeasured if self.candidates.best() == b => {
                self.choice.confirm_later(at);
                Ended::Unchanged
            }
            ComparedCode::NotMeasured => {
                self.candidates.set_state(b, State::Later(at + IDLE));
                Ended::Unchanged
            }
            _ => {
                self.candidates.set_state(b, State::Out);
                self.trials.pay_moving(trial);
                if self.candidates.best() == b {
                    self.candidates.set_best(UNPINNED);
                    self.choice.open();
                    Ended::Withdrawn
                } else {
                    Ended::Unchanged
                }
            }
        }
    }
}

/// The choice.
impl Search {
    /// Whether the choice is made.
    pub(super) fn is_chosen(&self) -> bool {
        self.choice.is_made()
    }

    /// Nothing is left to try: the program runs in the best placement, which is the choice. Returns whether the choice
    /// was open.
    pub(super) fn conclude(&mut self, at: Duration) -> bool {
        self.candidates.run(self.candidates.best());
        let was_open = self.choice.make();
        if was_open {
            self.choice.confirm_later(at);
        }
        was_open
    }

    /// Whether the best candidate is faster than the unpinned program by more than a search without result has.
    pub(super) fn has_gained(&self) -> bool {
        self.candidates.best_gain().is_some_and(|gain| gain.log >= LEAST_GAIN)
    }

    /// Reports the best candidate, unless it was reported last. Returns whether it was reported.
    pub(super) fn report_choice(
        &mut self,
        insensitive: Option<&str>,
        near: Option<&Near>,
        findings: &mut Vec<Finding>,
    ) -> bool {
        self.choice.report(&self.candidates, insensitive, near, findings)
    }

    /// The finding of a program that ended before the choice; `None` after it.
    pub(super) fn ended_early(&self) -> Option<Finding> {
        self.choice.ended_early(&self.candidates, self.trials.lost())
    }

    /// The choice as it is kept for these threads; `None` while it is open or not confirmed.
    pub(super) fn kept(&self) -> Option<Kept> {
        let best = &self.candidates[self.candidates.best()];
        let is_measured = self.candidates.best() == UNPINNED || best.confirmed;
        (self.choice.is_made() && is_measured).then(|| Kept {
            placement: best.placement.clone(),
            by: best.by,
            gain: self.candidates.best_gain(),
        })
    }

    /// An earlier run ended with the placement that the program has, and it is as fast as then: it is the choice.
    pub(super) fn accept_known(&mut self, known: f64, why: &str, at: Duration, findings: &mut Vec<Finding>) {
        let running = self.candidates.running();
        let gain = Gain {
            log: known.ln_1p(),
            error: self.trials.noise().deviation().unwrap_or(0.0),
        };
        self.candidates.set_best(running);
        self.candidates.set_gain(running, Some(gain));
        self.candidates.set_confirmed(running, true);
        let gain = (running != UNPINNED).then_some(known);
        self.choice
            .report_given(running, gain, ChoiceCode::KnownProgram, why, findings);
        self.choice.make();
        self.choice.confirm_later(at);
    }

    /// The choice is given without a search. Nothing is tried until it is confirmed again.
    pub(super) fn take(&mut self, given: Given, at: Duration, findings: &mut Vec<Finding>) {
        let Kept { placement, by, gain } = given.kept;
        let share = gain.map(|gain| gain.log.exp_m1());
        let proposal = Proposal {
            placement,
            by,
            gain: share,
            why: given.why.clone(),
        };
        let choice = self.run_in(proposal, findings);
        self.candidates.set_state(choice, State::Best);
        self.candidates.set_gain(choice, gain);
        self.candidates.set_confirmed(choice, given.is_confirmed);
        self.candidates.set_best(choice);
        self.neighbours = Neighbours::none();
        self.choice.make();
        self.choice
            .report_given(choice, share, given.choice, &given.why, findings);
        self.choice.confirm_later(at);
    }

    /// The program is in a known phase: it runs in the best placement of that phase.
    pub(super) fn take_phase(&mut self, placement: Placement, findings: &mut Vec<Finding>) {
        let why = "the program was in this phase before";
        let proposal = Proposal {
            placement,
            by: ProposerCode::Phase,
            gain: None,
            why: why.to_owned(),
        };
        let best = self.run_in(proposal, findings);
        self.candidates.set_best(best);
        self.candidates.set_confirmed(best, true);
        self.choice
            .report_given(best, None, ChoiceCode::KnownPhase, why, findings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::synthetic;
    use pinfold_core::{Pinning, PuId};

    fn on(pu: u32, by: ProposerCode) -> Proposal {
        Proposal {
            placement: Placement::pinned(Pinning::new(vec![PuId(pu)]).unwrap()),
            by,
            gain: None,
            why: String::new(),
        }
    }

    const AT: Duration = Duration::from_secs(100);

    /// A search whose baseline has little noise, with these candidates.
    fn search(proposals: impl IntoIterator<Item = Proposal>) -> Search {
        noisy(0.001, proposals)
    }

    /// The same with windows of the baseline that differ by `noise`.
    fn noisy(noise: f64, proposals: impl IntoIterator<Item = Proposal>) -> Search {
        let mut search = Search::new(Placement::default(), Arc::new(Belief::ignorant()));
        search.begin_in(None, &mut vec![]);
        for log in [0.0, noise, 0.0, -noise, 0.0, noise] {
            search.add_to_baseline(Some(Window { log, counts: 1e6 }));
        }
        for proposal in proposals {
            search.propose(proposal, &mut vec![]);
        }
        search
    }

    /// Tries the candidate whose trial is worth most.
    fn try_waiting(search: &mut Search) -> bool {
        let machine = synthetic("package:2 numa:1 core:2 pu:1");
        let frame = Frame {
            topology: &machine,
            threads: 1,
            unpinned: None,
        };
        let cost = Cost {
            measuring: 1.0,
            moving: 0.0,
        };
        search.try_waiting(frame, AT, |_, _| cost)
    }

    /// Ends the trial, in which candidate `one` has this rate as a logarithm and all others have none.
    fn finish(search: &mut Search, one: usize, log: f64) -> Ended {
        loop {
            let due = search.trials().due().unwrap();
            if let Some(ended) = add(search, if due == one { log } else { 0.0 }) {
                return ended;
            }
        }
    }

    #[test]
    fn a_candidate_that_beats_a_confirmed_one_counts_as_confirmed() {
        let mut search = search([on(1, ProposerCode::Topology), on(2, ProposerCode::Topology)]);
        assert!(try_waiting(&mut search));
        assert_eq!(finish(&mut search, 1, 0.1), Ended::Faster { is_new: true });
        assert!(try_waiting(&mut search));
        assert_eq!(finish(&mut search, 2, 0.1), Ended::Faster { is_new: true });
        let best = &search.candidates()[2];
        assert!(best.confirmed && search.candidates().best() == 2);
        assert!((best.gain.unwrap().log - 0.2).abs() < 1e-9);
        assert!(!try_waiting(&mut search) && !search.confirm(AT));
    }

    /// Adds a window of the candidate that is due, with this rate as a logarithm.
    fn add(search: &mut Search, log: f64) -> Option<Ended> {
        let due = search.trials().due().unwrap();
        search.run(due);
        let second = Duration::from_secs(1);
        search.add_window(Some(Window { log, counts: 1e6 }), (second, second), AT, &mut vec![])
    }

    /// Tries another candidate whose first window lasts for so long.
    fn try_another(search: &mut Search, waits: bool, window: Duration, findings: &mut Vec<Finding>) -> bool {
        let cost = Cost {
            measuring: 4.0 * window.as_secs_f64(),
            moving: 0.0,
        };
        search.try_another(AT, waits, |_, _| (cost, Duration::ZERO, window), findings)
    }

    /// The candidates of the trial.
    fn under_way(search: &Search) -> Option<(usize, usize)> {
        search.trials().current().map(|trial| (trial.a(), trial.b()))
    }

    #[test]
    fn a_trial_that_waits_is_left_open_if_another_one_need_not_wait() {
        let mut search = search([on(1, ProposerCode::Topology), on(2, ProposerCode::Topology)]);
        assert!(try_waiting(&mut search));
        assert_eq!(add(&mut search, 0.0), None);
        assert_eq!(add(&mut search, -0.0005), None);
        let mut findings = vec![];
        assert!(!try_another(
            &mut search,
            true,
            Duration::from_secs(1000),
            &mut findings
        ));
        assert!(findings.is_empty() && search.trials().due() == Some(1));
        assert!(try_another(
            &mut search,
            true,
            Duration::from_millis(100),
            &mut findings
        ));
        assert_eq!(under_way(&search), Some((UNPINNED, 2)));
        assert!(matches!(search.candidates()[1].state, State::Open { .. }));
        let code = |finding: &Finding| match finding {
            Finding::Compared { code, turns, .. } => Some((*code, *turns)),
            _ => None,
        };
        let compared: Vec<_> = findings.iter().filter_map(code).collect();
        assert_eq!(compared, [(ComparedCode::NotKnown, 1)]);
        // The only other candidate is open now.
        assert!(!try_another(
            &mut search,
            true,
            Duration::from_millis(100),
            &mut findings
        ));
        finish(&mut search, 2, -0.5);
        assert!(search.try_open(), "one pair does not say that it is slower");
        assert_eq!(under_way(&search), Some((UNPINNED, 1)));
    }

    #[test]
    fn a_trial_without_a_pair_is_not_finished_and_a_confirmation_is_not_left() {
        let mut search = search([on(1, ProposerCode::Topology), on(2, ProposerCode::Topology)]);
        assert!(try_waiting(&mut search));
        let mut findings = vec![];
        assert!(try_another(
            &mut search,
            true,
            Duration::from_millis(100),
            &mut findings
        ));
        assert!(findings.is_empty() && matches!(search.candidates()[1].state, State::Waiting));
        finish(&mut search, 2, 0.1);
        assert!(search.conclude(AT) && search.confirm(AT * 2));
        assert!(!try_another(
            &mut search,
            true,
            Duration::from_millis(100),
            &mut findings
        ));
        assert_eq!(under_way(&search), Some((UNPINNED, 2)));
    }

    #[test]
    fn a_trial_is_left_open_after_a_pair_if_another_one_is_worth_more() {
        let short = Duration::from_millis(100);
        for (log, is_left) in [(-0.1, true), (0.4, false)] {
            let mut search = noisy(0.1, [on(1, ProposerCode::Topology), on(2, ProposerCode::Topology)]);
            assert!(try_waiting(&mut search));
            assert_eq!(add(&mut search, 0.0), None);
            assert!(
                !try_another(&mut search, false, short, &mut vec![]),
                "half of a pair says nothing"
            );
            assert_eq!(add(&mut search, log), None);
            assert_eq!(try_another(&mut search, false, short, &mut vec![]), is_left, "{log}");
            assert_eq!(under_way(&search), Some((UNPINNED, if is_left { 2 } else { 1 })));
        }
    }

    #[test]
    fn what_was_left_open_against_another_one_is_compared_with_the_best_one() {
        let mut search = noisy(0.1, [on(1, ProposerCode::Topology), on(2, ProposerCode::Topology)]);
        assert!(try_waiting(&mut search));
        assert_eq!((add(&mut search, 0.0), add(&mut search, -0.1)), (None, None));
        assert!(try_another(&mut search, false, Duration::from_millis(100), &mut vec![]));
        assert!(!search.candidates().is_due(1, AT), "it was compared with this one");
        assert_eq!(finish(&mut search, 2, 0.5), Ended::Faster { is_new: true });
        assert!(search.candidates().is_due(1, AT));
    }

    #[test]
    fn a_choice_that_is_no_longer_faster_is_withdrawn() {
        let mut search = search([on(1, ProposerCode::Topology)]);
        assert!(try_waiting(&mut search));
        finish(&mut search, 1, 0.1);
        assert!(search.conclude(AT) && !search.conclude(AT));
        assert!(search.confirm(AT * 2));
        assert_eq!(finish(&mut search, 1, -0.1), Ended::Withdrawn);
        assert!(search.candidates().best() == UNPINNED && !search.is_chosen());
    }

    #[test]
    fn a_placement_that_the_user_wants_is_compared_with_the_unpinned_program_first() {
        let mut search = Search::new(Placement::default(), Arc::new(Belief::ignorant()));
        search.begin_in(Some(on(1, ProposerCode::User)), &mut vec![]);
        assert!(search.try_requested());
        assert_eq!(search.trials().due(), Some(1));
    }
}
