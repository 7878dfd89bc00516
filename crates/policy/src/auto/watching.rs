//! Changes of the rate and of the phase after the choice, and of the threads that work at any time.

use super::candidates::State;
use super::candidates::UNPINNED;
use super::phases::Signature;
use super::placement::Placement;
use super::policy::Auto;
use super::search::Incumbent;
use super::step::Purpose;
use super::thread_sets::{Kept, too_many};
use crate::comparison::change::ChangePoint;
use crate::comparison::turns::Window;
use crate::findings::chosen;
use crate::program::working_tasks::Judgement;
use pinfold_core::{CandidatesCode, ChoiceCode, Finding, NoteCode, ProposerCode, Sample, Topology};

impl Auto {
    pub(super) fn begin_watching(&mut self, sample: &Sample) {
        self.keep_for_threads();
        self.change = ChangePoint::new(self.patience);
        self.chosen_from = None;
        self.is_seen = false;
        self.settle(Purpose::Watching, sample.at);
    }

    /// A window after the choice.
    pub(super) fn watch(
        &mut self,
        topology: &Topology,
        sample: &Sample,
        window: Option<Window>,
        findings: &mut Vec<Finding>,
    ) {
        if self.thread_sets.is_search_due(sample.at) {
            self.search_for_threads(sample, findings);
            return;
        }
        if let Some(window) = window {
            if self.change.has_changed(window.log) {
                self.measure(Purpose::Signature, sample);
                return;
            }
            if self.chosen_from.is_none() {
                self.chosen_from = Some(self.first.clone());
            }
        }
        if !self.is_seen
            && self.change.is_learned()
            && let Some(from) = &self.chosen_from
        {
            self.is_seen = true;
            let signature = self.signature(from, sample);
            let place = self.place().clone();
            self.phases.see(place, signature);
        }
        if self.search.trial.is_some() || self.choose_trial(topology, sample, findings) {
            self.next(topology, sample, findings);
        } else {
            self.measure(Purpose::Watching, sample);
        }
    }

    /// A window has ended: which tasks work? After the choice a change has a line, because threads are pinned again.
    pub(super) fn judge_tasks(&mut self, sample: &Sample, findings: &mut Vec<Finding>) -> Judgement {
        let is_unpinned = *self.place() == Placement::default();
        let before = self.working_tasks.left_alone();
        let judgement = self.working_tasks.judge(sample, is_unpinned);
        if judgement == Judgement::Changed && self.search.chosen {
            let after = self.working_tasks.left_alone();
            let (more, fewer) = (before.difference(&after).count(), after.difference(&before).count());
            findings.push(Finding::Note {
                code: NoteCode::Threads,
                text: format!(
                    "{more} threads work that did not before, and {fewer} no longer do: {} threads have ranks now.",
                    self.working_tasks.number()
                ),
            });
        }
        judgement
    }

    /// Whether another number of threads works since a while; what follows from that is then under way.
    pub(super) fn heed_threads(&mut self, sample: &Sample, findings: &mut Vec<Finding>) -> bool {
        let threads = self.working_threads();
        let is_other = threads != self.threads;
        if !self.thread_sets.stays_other(is_other, sample.at) {
            return false;
        }
        self.threads = threads;
        let known = self.thread_sets.recall(self.working_tasks.working());
        if let Some((kept, are_same)) = known.map(|(kept, are_same)| (kept.clone(), are_same)) {
            self.thread_sets.need_no_search();
            self.go_to_kept(sample, kept, are_same, findings);
        } else if self.thread_sets.may_search(sample.at) {
            self.search_for_threads(sample, findings);
        } else {
            self.thread_sets.owe_search();
            let why = too_many("The number of working threads changed");
            findings.push(Finding::Note {
                code: NoteCode::Threads,
                text: why.clone(),
            });
            let unpinned = Kept {
                place: self
                    .requested_place()
                    .map(|requested| requested.place)
                    .unwrap_or_default(),
                by: ProposerCode::User,
                gain: None,
            };
            self.take(
                sample,
                unpinned,
                true,
                (CandidatesCode::SearchLimit, ChoiceCode::SearchLimit),
                &why,
                findings,
            );
        }
        true
    }

    fn search_for_threads(&mut self, sample: &Sample, findings: &mut Vec<Finding>) {
        let requested = self.requested_place();
        let place = requested.as_ref().map(|requested| requested.place.clone());
        self.phases.begin(place.unwrap_or_default(), None);
        self.begin_search(sample, requested, "the number of working threads changed", findings);
    }

    /// What was best for the threads, or for others of the same number, stays without a search. For others it is compared with
    /// the unpinned program.
    fn go_to_kept(&mut self, sample: &Sample, kept: Kept, are_same: bool, findings: &mut Vec<Finding>) {
        let why = if are_same {
            "the threads that work now did so before, and it was best for them then"
        } else {
            "as many threads worked before, and it was best for them"
        };
        let codes = (CandidatesCode::KnownThreads, ChoiceCode::KnownThreads);
        self.take(sample, kept, are_same, codes, why, findings);
    }

    /// This placement is the choice for the present threads. Nothing else is tried, until the choice is confirmed again.
    fn take(
        &mut self,
        sample: &Sample,
        kept: Kept,
        is_confirmed: bool,
        (candidates, choice): (CandidatesCode, ChoiceCode),
        why: &str,
        findings: &mut Vec<Finding>,
    ) {
        self.list(candidates, why, findings);
        self.phases.begin(kept.place.clone(), None);
        let gain = kept.gain.map(|gain| gain.log.exp_m1());
        let position = if kept.place == Placement::default() {
            UNPINNED
        } else {
            self.propose(kept.place, kept.by, gain, why.to_owned(), findings)
        };
        let candidate = &mut self.search.candidates[position];
        candidate.state = State::Best;
        candidate.gain = kept.gain;
        candidate.confirmed = is_confirmed;
        self.search.best = position;
        self.present = position;
        self.search.be_settled();
        self.search.reported = Some(position);
        findings.push(chosen(position, gain, choice, why));
        self.report_regions(findings);
        self.confirm_later();
        self.begin_watching(sample);
    }

    /// The best placement is remembered for the present threads.
    fn keep_for_threads(&mut self) {
        let best = &self.search.candidates[self.search.best];
        let is_measured = self.search.best == UNPINNED || best.confirmed;
        if self.search.chosen && is_measured && self.working_threads() == self.threads {
            let kept = Kept {
                place: best.place.clone(),
                by: best.by,
                gain: best.gain.filter(|_| self.search.best != UNPINNED),
            };
            self.thread_sets.keep(self.working_tasks.working(), kept);
        }
    }

    /// The rate has changed, and the rates of the new phase are known.
    pub(super) fn phase(&mut self, sample: &Sample, findings: &mut Vec<Finding>) {
        let place = self.place().clone();
        let signature = self.signature(&self.first, sample);
        if let Some(best) = self.phases.recognise(&place, &signature) {
            let text = if best == place {
                self.be_patient();
                "The rate changed, as it did before in a phase in which the same placement was best.".to_owned()
            } else {
                self.patience = 1.0;
                format!("The program is in a phase that was seen before: it goes to {best} at once.")
            };
            findings.push(Finding::Note {
                code: NoteCode::Phase,
                text,
            });
            if best != place {
                let why = "the program was in this phase before".to_owned();
                let position = self.propose(best, ProposerCode::Phase, None, why.clone(), findings);
                self.search.best = position;
                self.search.candidates[position].confirmed = true;
                self.present = position;
                findings.push(chosen(position, None, ChoiceCode::KnownPhase, &why));
                self.search.reported = Some(position);
                self.report_regions(findings);
            }
            self.begin_watching(sample);
            return;
        }
        if !self.thread_sets.may_search(sample.at) {
            findings.push(Finding::Note {
                code: NoteCode::Phase,
                text: too_many("The program is in another phase"),
            });
            self.be_patient();
            self.begin_watching(sample);
            return;
        }
        findings.push(Finding::Note {
            code: NoteCode::Phase,
            text: "The rate changed and stays so: the program is in another phase, and the search begins again."
                .to_owned(),
        });
        self.be_patient();
        // It stays the best one until another is faster.
        self.phases.begin(place.clone(), Some(signature));
        let requested = self.requested_place();
        let stays = || Incumbent {
            place: place.clone(),
            by: ProposerCode::Phase,
            gain: self.search.candidates[self.present].gain.map(|gain| gain.log.exp_m1()),
            why: "it was the best one in the phase before".to_owned(),
        };
        let best = if requested.as_ref().is_some_and(|requested| requested.place == place) {
            // It remains the user's wish, which is compared with the unpinned program first.
            requested.clone()
        } else {
            (place != Placement::default()).then(stays)
        };
        self.begin_search(sample, best, "the program is in another phase", findings);
        if let Some(Incumbent { place, by, gain, why }) = requested {
            self.propose(place, by, gain, why, findings);
        }
    }

    pub(super) fn signature(&self, first: &Sample, sample: &Sample) -> Signature {
        self.observed(first, sample)
            .iter()
            .map(|one| Some(one.value.filter(|value| *value > 0.0)?.ln()))
            .collect()
    }
}
