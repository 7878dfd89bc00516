//! Trials one after the other: the noise of the rate, the current trial, and what trials cost.

use super::budget::Budget;
use super::candidates::Candidates;
use super::expectations::Prospect;
use super::trial::{SCREENED, Trial};
use crate::comparison::turns::{Gain, Noise, Turns, Window};
use pinfold_core::{ComparedCode, ProposerCode};
use std::time::Duration;

/// The windows of the baseline: they give a first estimate of the noise, and trials give more. With fewer of them the
/// program is in a faster placement earlier.
const BASELINE: usize = 4;

/// The windows in a row that are measured in one placement, if a change of placement moves pages.
const PAGES_BLOCK: usize = 4;

/// A proposal from the times of regions with this expected gain, as a logarithm, waits for no budget.
const SURE: f64 = 0.05;

/// A trial that is over.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) trial: Trial,
    pub(super) code: ComparedCode,
    /// The gain of B over A; `None` without a pair.
    pub(super) gain: Option<Gain>,
    /// Whether it may go on later.
    pub(super) is_left_open: bool,
}

/// The trials of a search.
#[derive(Debug, Default)]
pub(super) struct Trials {
    current: Option<Trial>,
    noise: Noise,
    /// The windows of the baseline so far.
    baseline: Vec<Window>,
    budget: Budget,
}

impl Trials {
    /// The trials of the next search. The budget goes on.
    pub(super) fn restarted(&self) -> Self {
        Self {
            budget: self.budget,
            ..Self::default()
        }
    }

    /// Adds a window of the baseline. Returns all of them when there are enough.
    pub(super) fn add_to_baseline(&mut self, window: Option<Window>) -> Option<Vec<Window>> {
        self.baseline.extend(window);
        if self.baseline.len() < BASELINE {
            return None;
        }
        let baseline = std::mem::take(&mut self.baseline);
        self.noise.learn_alike(&baseline);
        Some(baseline)
    }

    /// The noise of the difference between two windows.
    pub(super) fn noise(&self) -> &Noise {
        &self.noise
    }

    /// Whether a trial is under way.
    pub(super) fn is_trying(&self) -> bool {
        self.current.is_some()
    }

    /// The trial under way.
    pub(super) fn current(&self) -> Option<&Trial> {
        self.current.as_ref()
    }

    /// The candidate whose window is next; `None` without a trial.
    pub(super) fn due(&self) -> Option<usize> {
        self.current.as_ref().map(Trial::due)
    }

    /// Begins a few pairs of windows of B against A.
    pub(super) fn screen(&mut self, candidates: &Candidates, a: usize, b: usize) {
        self.begin(candidates, (a, b), Turns::default(), SCREENED);
    }

    /// Begins a trial of B against A, or goes on with these pairs of it. It is left open after `most` pairs.
    pub(super) fn begin(&mut self, candidates: &Candidates, (a, b): (usize, usize), turns: Turns, most: usize) {
        turns.reopen(&mut self.noise);
        let keeps_pages = candidates[a].placement.pages == candidates[b].placement.pages;
        let block = if keeps_pages { 1 } else { PAGES_BLOCK };
        self.current = Some(Trial::new(a, b, turns, most).in_blocks_of(block));
    }

    /// Drops the trial.
    pub(super) fn drop_current(&mut self) {
        self.current = None;
    }

    /// The best candidate ran in this window while its trial waited.
    pub(super) fn offer(&mut self, best: usize, window: Window) {
        if let Some(trial) = &mut self.current {
            trial.offer(best, window);
        }
    }

    /// Whether the rest of the window tells nothing new, because the candidate is so much slower.
    pub(super) fn is_hopeless(&self, so_far: Option<Window>) -> bool {
        let trial = self.current.as_ref().zip(so_far);
        trial.is_some_and(|(trial, window)| trial.is_hopeless(window))
    }

    /// Adds the window of the candidate that was due; `None` if nothing was counted. It was `measured` for so long, and
    /// took `spent` with the time to settle. Returns the trial if it is over.
    pub(super) fn add_window(
        &mut self,
        candidates: &Candidates,
        window: Option<Window>,
        (measured, spent): (Duration, Duration),
    ) -> Option<Finished> {
        let mut trial = self.current.take()?;
        let code = match window {
            None => trial.add_void().then_some(ComparedCode::NotMeasured),
            Some(window) => trial.add_measured(window, measured).and_then(|difference| {
                // The best candidate would run in any case, so its windows cost nothing.
                let is_best_tried = trial.b() == candidates.best();
                let over_best = if is_best_tried { -difference } else { difference };
                self.budget.spend(spent, over_best.min(0.0).exp());
                trial.look(&self.noise)
            }),
        };
        let Some(code) = code else {
            self.current = Some(trial);
            return None;
        };
        let is_left_open = code == ComparedCode::NotKnown && trial.is_screening();
        Some(self.finish(trial, code, is_left_open))
    }

    fn finish(&mut self, trial: Trial, code: ComparedCode, is_left_open: bool) -> Finished {
        let gain = trial.turns().gain(&self.noise);
        trial.turns().end(&mut self.noise);
        Finished {
            trial,
            code,
            gain,
            is_left_open,
        }
    }

    /// Leaves the trial open. Returns it if it has pairs.
    pub(super) fn set_aside(&mut self) -> Option<Finished> {
        let trial = self.current.take().filter(|trial| trial.turns().number() > 0)?;
        Some(self.finish(trial, ComparedCode::NotKnown, true))
    }
}

/// The cost.
impl Trials {
    /// The time that trials may lose at `at`.
    pub(super) fn budget_left(&self, at: Duration) -> Duration {
        self.budget.left(at)
    }

    /// The seconds that trials have lost.
    pub(super) fn lost(&self) -> f64 {
        self.budget.lost()
    }

    /// The program has run for this long in the best placement, which has this gain over the unpinned program.
    pub(super) fn save(&mut self, length: Duration, gain: Gain) {
        self.budget.save(length, gain.log.exp());
    }

    /// Pages have moved for so long. `are_mapped`: to a mapping and not after threads, so that the trial pays for it at
    /// its end.
    pub(super) fn spend_moving(&mut self, lasted: Duration, are_mapped: bool) {
        match &mut self.current {
            Some(trial) if are_mapped => trial.move_pages(lasted),
            _ => self.budget.spend(lasted, 0.0),
        }
    }

    /// Pages were moved for a trial without success.
    pub(super) fn pay_moving(&mut self, trial: &Trial) {
        self.budget.spend(trial.moving(), 0.0);
    }

    /// The variance of the gain that a short trial measures; `None` before the noise is known.
    pub(super) fn screening_variance(&self) -> Option<f64> {
        Some(self.noise.deviation()?.powi(2) / SCREENED as f64)
    }

    /// Whether the budget allows a window of the candidate that is due: `length` with the time to settle, after
    /// `moving`, the time of pages that move there and back. `prospect` is what the belief expects of it; `None` if it
    /// expects nothing.
    pub(super) fn affords(
        &self,
        candidates: &Candidates,
        at: Duration,
        (moving, length): (Duration, Duration),
        prospect: Option<Prospect>,
    ) -> bool {
        let Some(trial) = &self.current else { return false };
        let due = trial.due();
        let keeps_pages = candidates[due].placement.pages == candidates.running_placement().pages;
        // Going back before the block is complete would cost more than the rest of it.
        let goes_on = due == candidates.running() && trial.is_in_block();
        let measured = trial.expected(&self.noise);
        if keeps_pages && (goes_on || is_sure(candidates, due, measured)) {
            return true;
        }
        match measured {
            Some(ratio) => self.budget.affords(at, moving, length, ratio, 0.0),
            None => self.affords_first(at, (moving, length), prospect),
        }
    }

    /// The same of the first window of a candidate that was not measured.
    pub(super) fn affords_first(
        &self,
        at: Duration,
        (moving, length): (Duration, Duration),
        prospect: Option<Prospect>,
    ) -> bool {
        let (ratio, saves) = prospect.map_or((0.0, 0.0), |prospect| {
            (1.0 - prospect.loses, prospect.saves * at.as_secs_f64())
        });
        self.budget.affords(at, moving, length, ratio, saves)
    }
}

/// Whether a candidate is tried whatever trials have cost before: its expected gain follows from measured times of
/// regions, is large, and is not refuted by the measured ratio of the rates.
fn is_sure(candidates: &Candidates, candidate: usize, ratio: Option<f64>) -> bool {
    let one = &candidates[candidate];
    let best = candidates[candidates.best()].gain.map_or(0.0, |gain| gain.log);
    let gain = one.expected.map_or(0.0, |expected| expected - best);
    one.by == ProposerCode::Regions && gain >= SURE && ratio.is_none_or(|ratio| ratio >= 1.0)
}
