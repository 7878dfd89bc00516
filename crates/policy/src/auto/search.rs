//! The search: which trial is next, what follows from it, and the choice.

use super::budget::Record;
use super::candidates::{Candidate, State, UNPINNED};
use super::options::Source;
use super::pages::OfPages;
use super::placement::Placement;
use super::policy::Auto;
use super::proposals;
use super::region_times::RegionTimes;
use super::step::Purpose;
use super::trial::Trial;
use crate::comparison::change::ChangePoint;
use crate::comparison::turns::{Gain, Noise, Turns, Verdict, Window};
use crate::findings::chosen;
use pinfold_core::{CandidatesCode, ChoiceCode, ComparedCode, Finding, Pinning, ProposerCode, Sample, Topology};
use std::collections::BTreeMap;
use std::time::Duration;

/// The pairs after which a trial is left open, and those after which an open one is given up.
const SCREENED: usize = 4;
const MOST_PAIRS: usize = 16;

/// How many windows in a row are measured in one placement, where a change of placement moves pages.
const PAGES_BLOCK: usize = 4;

/// Windows without any count after which a trial ends.
const VOIDS: u32 = 3;

/// The time after which a candidate is tried again that could not be measured.
const IDLE: Duration = Duration::from_secs(60);

/// A candidate that is forecast to be slower than the best one by this, as a logarithm, is not tried.
const SLOWER: f64 = 0.2;

/// The gain that is expected of a placement before anything is known, as a logarithm.
const HOPE: f64 = 0.01;

/// A choice is not confirmed again before the program has run for this long.
const CONFIRM_AFTER: Duration = Duration::from_secs(60);

/// The most evidence that a change of the rate needs, as a multiple of what the first one needs.
const MOST_PATIENCE: f64 = 64.0;

/// A search that gained less than this was in vain.
const IN_VAIN: f64 = 0.01;

/// What was settled in the present search.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) candidates: Vec<Candidate>,
    /// The best one so far.
    pub(super) best: usize,
    pub(super) trial: Option<Trial>,
    pub(super) noise: Noise,
    /// The windows of the baseline.
    pub(super) baseline: Vec<Window>,
    /// What the trials of neighbours have gained, and their number.
    pub(super) gained: f64,
    pub(super) tried: u32,
    /// The neighbours of the best one that were not proposed yet, the nearest last; `None` where they were not looked up.
    pub(super) neighbours: Option<Vec<Pinning>>,
    /// By who proposes: what was tried of them.
    pub(super) records: BTreeMap<ProposerCode, Record>,
    /// The candidate about which SAM's mapper was asked last.
    pub(super) mapped: Option<usize>,
    /// By position: how long regions took in the windows of a candidate.
    pub(super) regions: BTreeMap<usize, RegionTimes>,
    /// The best one, and how many had such times, when it was last asked where regions were faster.
    pub(super) regions_of: Option<(usize, usize)>,
    /// What is still proposed for pages.
    pub(super) of_pages: OfPages,
    /// What the busiest node's memory carried of what it can, unpinned; `None` where that is not known.
    pub(super) load: Option<f64>,
    /// Whether all proposals were tried, so that a choice was made.
    pub(super) chosen: bool,
    /// The choice that was reported last.
    pub(super) reported: Option<usize>,
    /// A model said that placement does not matter.
    pub(super) insensitive: Option<String>,
    /// The model was asked.
    pub(super) forecast: bool,
}

/// The placement that the program has when a search begins.
#[derive(Clone)]
pub(super) struct Incumbent {
    pub(super) place: Placement,
    pub(super) by: ProposerCode,
    /// Its gain over the unpinned program, before the search.
    pub(super) gain: Option<f64>,
    pub(super) why: String,
}

impl Search {
    /// The candidate with this placement.
    pub(super) fn position(&self, place: &Placement) -> Option<usize> {
        self.candidates.iter().position(|one| one.place == *place)
    }

    /// Its best one is the choice, and nothing is proposed beside it.
    pub(super) fn be_settled(&mut self) {
        self.chosen = true;
        self.neighbours = Some(vec![]);
        self.of_pages = OfPages::Nothing;
        self.forecast = true;
    }

    /// The gain of a candidate over the unpinned program, as far as it is known; that of this one itself is none.
    pub(super) fn gain_of(&self, candidate: usize) -> Option<Gain> {
        match candidate {
            UNPINNED => Some(Gain::default()),
            _ => self.candidates[candidate].gain,
        }
    }
}

impl Auto {
    /// A search begins, with a baseline. `best` is the placement that the program has, if it is not unpinned: it stays the
    /// best one until another is faster.
    pub(super) fn begin_search(
        &mut self,
        sample: &Sample,
        best: Option<Incumbent>,
        why: &str,
        findings: &mut Vec<Finding>,
    ) {
        self.list(CandidatesCode::Proposals, why, findings);
        match best {
            Some(Incumbent { place, by, gain, why }) => {
                self.present = self.propose(place, by, gain, why, findings);
                self.search.best = self.present;
            }
            None => self.search.candidates[UNPINNED].state = State::Best,
        }
        self.thread_sets.search_begins(sample.at);
        self.change = ChangePoint::new(self.patience);
        self.measure(Purpose::Baseline, sample);
    }

    /// Where the user wants the program.
    pub(super) fn requested_place(&self) -> Option<Incumbent> {
        let near = self.options.near.as_ref()?;
        Some(Incumbent {
            place: near.place(),
            by: ProposerCode::User,
            gain: None,
            why: format!("the user wants the program near {}", near.what),
        })
    }

    /// Whether the best one is where the user wants the program.
    fn is_best_requested(&self) -> bool {
        self.search.candidates[self.search.best].by == ProposerCode::User
    }

    /// A new list of candidates begins, with the unpinned program, which is the present one.
    pub(super) fn list(&mut self, code: CandidatesCode, why: &str, findings: &mut Vec<Finding>) {
        self.search = Search {
            candidates: vec![Candidate::new(Placement::default())],
            ..Search::default()
        };
        self.present = UNPINNED;
        findings.push(Finding::CandidatesChosen {
            threads: self.threads,
            pinnings: vec![None],
            code,
            why: why.to_owned(),
        });
    }

    /// Adds a candidate, unless its placement is in the list. Returns its position.
    pub(super) fn propose(
        &mut self,
        place: Placement,
        by: ProposerCode,
        gain: Option<f64>,
        why: String,
        findings: &mut Vec<Finding>,
    ) -> usize {
        if let Some(known) = self.search.position(&place) {
            return known;
        }
        findings.push(Finding::Proposed {
            pus: place.pinning.clone(),
            within: place.within.clone(),
            pages: place.pages,
            regions: place.regions.clone(),
            by,
            gain,
            why,
        });
        self.search.candidates.push(Candidate {
            by,
            expected: gain.map(f64::ln_1p),
            ..Candidate::new(place)
        });
        self.search.candidates.len() - 1
    }

    /// Decides what is next: a trial, or to watch.
    pub(super) fn next(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        if self.search.trial.is_none() && !self.choose_trial(topology, sample, findings) {
            self.conclude(sample, findings);
            return;
        }
        let Some(trial) = &self.search.trial else { return };
        let due = trial.due();
        let settles = if due == self.present {
            Duration::ZERO
        } else {
            self.settling(due, sample.at)
        };
        let record = self.search.records.get(&self.search.candidates[trial.b].by);
        let unknown = record.copied().unwrap_or_default().expected();
        let expected = trial.expected(&self.search.noise).unwrap_or(unknown);
        // The best one would run anyway.
        if due == self.search.best || self.affords(due, sample.at, settles + self.window, expected) {
            self.present = due;
            if settles.is_zero() {
                self.measure(Purpose::Trial, sample);
            } else {
                findings.push(Finding::WarmingUp {
                    candidate: due,
                    lasts: settles,
                });
                self.settle(Purpose::Trial, sample.at);
            }
            return;
        }
        let best = self.search.best;
        if best == self.present {
            self.measure(Purpose::Waiting, sample);
        } else {
            self.present = best;
            self.settle(Purpose::Waiting, sample.at);
        }
    }

    /// A trial of B against A begins, which is left open after `most` pairs.
    fn begin_trial(&mut self, a: usize, b: usize, turns: Turns, most: usize) {
        let candidates = &self.search.candidates;
        let prior = match a {
            UNPINNED => candidates[b].over_unpinned(),
            _ => candidates[b]
                .over_unpinned()
                .zip(candidates[a].over_unpinned())
                .map(|(b, a)| b - a),
        };
        let block = if candidates[a].place.pages == candidates[b].place.pages {
            1
        } else {
            PAGES_BLOCK
        };
        self.search.trial = Some(Trial::new(a, b, turns, most).in_blocks_of(block).expecting(prior));
    }

    /// A candidate is screened in turns with another one.
    pub(super) fn screen(&mut self, a: usize, b: usize) {
        self.begin_trial(a, b, Turns::default(), SCREENED);
    }

    /// Begins the next trial; `false` if there is nothing to try at present.
    pub(super) fn choose_trial(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) -> bool {
        let best = self.search.best;
        if self.is_best_requested() && matches!(self.search.candidates[UNPINNED].state, State::Waiting) {
            // The user wants to know this first.
            self.screen(best, UNPINNED);
            return true;
        }
        self.propose_with_pages(topology, findings);
        self.propose_regions(findings);
        self.keep_regions(findings);
        let waiting = |one: &Candidate| match one.state {
            State::Waiting => true,
            State::Later(at) => sample.at >= at,
            _ => false,
        };
        // What promises most comes first; of equal ones what needs no page to move, and then what is trusted most.
        // What is forecast to be much slower than the best one is not tried.
        let pages = self.search.candidates[best].place.pages;
        let least = self.search.candidates[best].gain.map_or(0.0, |gain| gain.log) - SLOWER;
        let next = (0..self.search.candidates.len())
            .filter(|&place| place != best && place != UNPINNED && waiting(&self.search.candidates[place]))
            .map(|place| (place, self.promise(topology, place)))
            .filter(|(_, promise)| promise.is_none_or(|promise| promise >= least))
            .max_by(|&(one, of_one), &(other, of_other)| {
                let stays = |place: usize| self.search.candidates[place].place.pages == pages;
                let by = |place: usize| self.search.candidates[place].by;
                let order = of_one.unwrap_or(0.0).total_cmp(&of_other.unwrap_or(0.0));
                let order = order.then(stays(one).cmp(&stays(other)));
                order.then(by(other).cmp(&by(one))).then(other.cmp(&one))
            });
        if let Some((next, _)) = next {
            self.screen(best, next);
            return true;
        }
        // Of those that are left open the most promising one gets more pairs.
        let open = self
            .search
            .candidates
            .iter()
            .enumerate()
            .filter_map(|(place, one)| match &one.state {
                State::Open { turns, against } if *against == best => {
                    Some((place, turns.gain(&self.search.noise)?.log, turns.clone()))
                }
                _ => None,
            });
        let promising = open
            .filter(|(_, gain, _)| *gain > 0.0)
            .max_by(|one, other| one.1.total_cmp(&other.1));
        if let Some((place, _, turns)) = promising {
            self.begin_trial(best, place, turns, MOST_PAIRS);
            return true;
        }
        if self.propose_interleaving(topology, findings) {
            return self.choose_trial(topology, sample, findings);
        }
        if self.is_best_requested() {
            // It stays unless something is faster.
            if self.is_time_to_confirm(sample.at) {
                self.begin_trial(best, UNPINNED, Turns::default(), MOST_PAIRS);
                return true;
            }
        } else if best != UNPINNED && (!self.search.candidates[best].confirmed || self.is_time_to_confirm(sample.at)) {
            self.begin_trial(UNPINNED, best, Turns::default(), MOST_PAIRS);
            return true;
        }
        self.options.asks(Source::Neighbours) && self.search.chosen && self.try_neighbour(topology, sample, findings)
    }

    pub(super) fn is_time_to_confirm(&self, at: Duration) -> bool {
        self.search.chosen && at >= self.confirm_at
    }

    /// The choice is compared with the unpinned program again when the program has run for twice as long.
    pub(super) fn confirm_later(&mut self) {
        self.confirm_at = (self.now * 2).max(CONFIRM_AFTER);
    }

    /// Proposes a neighbour of the best one, where the expected gain is above the cost.
    pub(super) fn try_neighbour(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) -> bool {
        let best = self.search.best;
        let place = self.search.candidates[best].place.clone();
        if place.pinning.is_none() && place.regions.is_empty() {
            return false;
        }
        let per_trial = (self.search.gained + HOPE) / f64::from(self.search.tried + 1);
        let trial = (self.window + self.settling(best, sample.at)).as_secs_f64() * SCREENED as f64;
        if per_trial * sample.at.as_secs_f64() < trial {
            return false;
        }
        if let Some((place, why)) = self.region_neighbour(topology) {
            let next = self.propose(place, ProposerCode::Neighbour, None, why, findings);
            self.search.tried += 1;
            self.screen(best, next);
            return true;
        }
        let Some(pinning) = place.pinning.clone() else {
            return false;
        };
        let threads = self.threads;
        let neighbours = self.search.neighbours.get_or_insert_with(|| {
            let mut near = proposals::neighbours(topology, threads, &pinning);
            near.reverse();
            near
        });
        while let Some(pinning) = neighbours.pop() {
            let place = Placement {
                pinning: Some(pinning),
                ..place.clone()
            };
            if self.search.candidates.iter().any(|one| one.place == place) {
                continue;
            }
            let why = "it is near the best one so far".to_owned();
            let next = self.propose(place, ProposerCode::Neighbour, None, why, findings);
            self.search.tried += 1;
            self.screen(best, next);
            return true;
        }
        false
    }

    /// A window of a trial.
    pub(super) fn trial(
        &mut self,
        topology: &Topology,
        sample: &Sample,
        window: Option<Window>,
        findings: &mut Vec<Finding>,
    ) {
        let Some(mut trial) = self.search.trial.take() else {
            return;
        };
        let measured = sample.at.saturating_sub(self.first.at);
        let spent = measured + self.settling(self.present, sample.at);
        if self.is_to_be_forecast(topology) {
            self.forecast(topology, sample, findings);
        }
        let Some(window) = window else {
            trial.voids += 1;
            if trial.voids < VOIDS {
                self.search.trial = Some(trial);
            } else {
                self.end_trial(&trial, ComparedCode::NotMeasured, findings);
            }
            self.next(topology, sample, findings);
            return;
        };
        trial.voids = 0;
        if trial.due() == trial.b {
            trial.measured += measured;
        }
        if let Some(difference) = trial.add(window) {
            // What the best one would have run anyway is no loss.
            let over_best = if trial.b == self.search.best {
                -difference
            } else {
                difference
            };
            self.budget.spend(spent, over_best.min(0.0).exp());
            let verdict = trial.turns.look(&self.search.noise);
            if verdict == Verdict::Open && trial.most == SCREENED && trial.is_promising(&self.search.noise) {
                // To come back to it later costs more than to go on.
                trial.most = MOST_PAIRS;
            }
            let code = match verdict {
                Verdict::Faster => Some(ComparedCode::Faster),
                Verdict::NotFaster => Some(ComparedCode::NotFaster),
                Verdict::Open if trial.turns.number() >= trial.most => Some(ComparedCode::NotKnown),
                Verdict::Open => None,
            };
            if let Some(code) = code {
                self.end_trial(&trial, code, findings);
                self.next(topology, sample, findings);
                return;
            }
        }
        self.search.trial = Some(trial);
        self.next(topology, sample, findings);
    }

    /// A trial is over.
    pub(super) fn end_trial(&mut self, trial: &Trial, code: ComparedCode, findings: &mut Vec<Finding>) {
        let gain = trial.turns.gain(&self.search.noise);
        let (times, error) = gain.map(Gain::times).unzip();
        let rate = trial.rate();
        findings.push(Finding::Compared {
            candidate: trial.b,
            with: trial.a,
            gain: times.map(|times| times - 1.0),
            error,
            turns: trial.turns.number(),
            rate,
            measured: trial.measured,
            code,
        });
        if matches!(code, ComparedCode::Faster | ComparedCode::NotFaster)
            && let Some(gain) = gain
        {
            let by = self.search.candidates[trial.b].by;
            self.search.records.entry(by).or_default().add(gain.log.exp());
        }
        let over_unpinned = self.search.gain_of(trial.a);
        if trial.b == UNPINNED {
            // Only where the user wants the program is compared so.
            let requested = &mut self.search.candidates[trial.a];
            requested.gain = gain.map(Gain::inverse);
            requested.confirmed = code != ComparedCode::Faster;
            self.confirm_later();
        }
        let gain = over_unpinned.zip(gain).map(|(one, other)| one.and(other));
        // What is faster than one that is faster than the unpinned program is so, too.
        let is_confirmed = [trial.a, trial.b].contains(&UNPINNED) || self.search.candidates[trial.a].confirmed;
        let is_neighbour = self.search.chosen && trial.a != UNPINNED;
        let candidate = &mut self.search.candidates[trial.b];
        candidate.gain = gain;
        candidate.rate = rate.or(candidate.rate);
        match code {
            ComparedCode::Faster => {
                candidate.state = State::Best;
                candidate.confirmed = is_confirmed;
                if is_neighbour {
                    self.search.gained += gain.map_or(0.0, |gain| gain.log);
                    self.search.neighbours = None;
                }
                self.search.of_pages = OfPages::All;
                if self.search.best != trial.b {
                    self.search.chosen = false;
                    self.patience = 1.0;
                }
                self.best_is(trial.b);
                self.confirm_later();
                if self.search.candidates[trial.b].confirmed {
                    self.report_choice(findings);
                }
            }
            ComparedCode::NotKnown if trial.most < MOST_PAIRS => {
                self.budget.spend(trial.moving, 0.0);
                candidate.state = State::Open {
                    turns: trial.turns.clone(),
                    against: trial.a,
                };
            }
            // The program was idle: that says nothing of the placement.
            ComparedCode::NotMeasured if self.search.best == trial.b => self.confirm_later(),
            ComparedCode::NotMeasured => candidate.state = State::Later(self.now + IDLE),
            _ => {
                candidate.state = State::Out;
                self.budget.spend(trial.moving, 0.0);
                if self.search.best == trial.b {
                    // It was the best one, and is not faster than the unpinned program.
                    self.best_is(UNPINNED);
                    self.search.chosen = false;
                }
            }
        }
        trial.turns.end(&mut self.search.noise);
    }

    /// Another candidate is the best one.
    pub(super) fn best_is(&mut self, candidate: usize) {
        self.search.best = candidate;
        self.change = ChangePoint::new(self.patience);
        self.phases.choose(self.search.candidates[candidate].place.clone());
    }

    /// A search was in vain, or may be: from now on a change of the rate needs more evidence, until another placement is
    /// best.
    pub(super) fn be_patient(&mut self) {
        self.patience = (self.patience * 2.0).min(MOST_PATIENCE);
    }

    /// Nothing is left to try at present: the best one stays.
    pub(super) fn conclude(&mut self, sample: &Sample, findings: &mut Vec<Finding>) {
        let best = self.search.best;
        self.present = best;
        if !self.search.chosen {
            self.search.chosen = true;
            let gain = self.search.candidates[best].gain.filter(|_| best != UNPINNED);
            self.report_choice(findings);
            let in_vain = gain.is_none_or(|gain| gain.log < IN_VAIN);
            if in_vain {
                self.be_patient();
            }
            self.confirm_later();
        }
        self.begin_watching(sample);
    }

    /// Reports the best one, unless it was reported last.
    pub(super) fn report_choice(&mut self, findings: &mut Vec<Finding>) {
        let best = self.search.best;
        if self.search.reported.replace(best) == Some(best) {
            return;
        }
        let (code, why) = match (&self.search.insensitive, best) {
            (Some(why), UNPINNED) => (ChoiceCode::Insensitive, why.clone()),
            (None, UNPINNED) => match self.than_requested() {
                Some(why) => (ChoiceCode::FasterInTurns, why),
                None => (
                    ChoiceCode::NoPinningBetter,
                    "nothing that was proposed was faster than the unpinned program beyond the noise".to_owned(),
                ),
            },
            _ if self.is_best_requested() => (
                ChoiceCode::Requested,
                format!("the user asked for it, and nothing was faster. {}", self.best_so_far()),
            ),
            _ => (ChoiceCode::FasterInTurns, self.best_so_far()),
        };
        let gain = self.search.candidates[best].gain.filter(|_| best != UNPINNED);
        findings.push(chosen(best, gain.map(|gain| gain.log.exp_m1()), code, &why));
        self.report_regions(findings);
    }

    /// How much faster the unpinned program is than where the user wants it, as a sentence; `None` where it is not.
    fn than_requested(&self) -> Option<String> {
        let near = &self.options.near.as_ref()?.what;
        let requested = self.search.candidates.iter().find(|one| one.by == ProposerCode::User)?;
        let gain = requested.gain?.inverse();
        let (times, error) = gain.times();
        (gain.log > 0.0).then(|| {
            format!("The operating system's placement on the whole machine is {times:.2} ± {error:.2} times as fast as near {near}.")
        })
    }

    /// What is known of the best one, as a sentence.
    pub(super) fn best_so_far(&self) -> String {
        let best = &self.search.candidates[self.search.best];
        match best.gain.filter(|_| self.search.best != UNPINNED) {
            None if self.is_best_requested() => {
                "The operating system's placement on the whole machine was not measured.".to_owned()
            }
            None => "Nothing was faster than the unpinned program.".to_owned(),
            Some(gain) => {
                let (times, error) = gain.times();
                format!("The program runs {times:.2} ± {error:.2} times as fast as unpinned.")
            }
        }
    }
}
