//! After the choice: changes of the rate, of the phase and of the number of threads.

use super::change::ChangePoint;
use super::phases::Signature;
use super::policy::{Auto, Purpose};
use super::search::Incumbent;
use super::trial::Place;
use crate::findings::chosen;
use crate::turns::Window;
use crate::working_tasks::Judgement;
use pinfold_core::{ChoiceCode, Finding, NoteCode, ProposerCode, Sample, Topology};

/// The windows for which the number of threads must differ before it counts as changed.
const OTHER_THREADS: u32 = 3;

impl Auto {
    pub(super) fn begin_watching(&mut self, sample: &Sample) {
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
        if self.working_tasks.judge(sample) != Judgement::Idle && self.options.threads.is_none() {
            let threads = self.working_threads();
            self.other_threads = if threads == self.threads {
                0
            } else {
                self.other_threads + 1
            };
            if self.other_threads >= OTHER_THREADS {
                self.threads = threads;
                let requested = self.requested_place();
                self.begin_search(sample, requested, "the number of working threads changed", findings);
                return;
            }
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
            (place != Place::default()).then(stays)
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
