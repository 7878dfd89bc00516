//! A program that the behaviour database knows.

use super::candidates::UNPINNED;
use super::placement::Placement;
use super::policy::Auto;
use super::step::Purpose;
use crate::comparison::turns::{Gain, Window};
use crate::findings::chosen;
use crate::known::KnownPlacement;
use pinfold_core::{CandidatesCode, ChoiceCode, Finding, NoteCode, Pinning, ProposerCode, Sample, Topology};

/// A known program is as fast as it was if it is slower by less than this.
const AS_FAST: f64 = 0.03;

impl Auto {
    /// Whether threads and pages may go to a known placement here.
    pub(super) fn may_follow(&self, known: &KnownPlacement, topology: &Topology) -> bool {
        let allowed = topology.allowed_pus();
        let mut pus = known.pinning.iter().flat_map(Pinning::pus);
        pus.all(|&pu| allowed.contains(pu)) && (known.pages.is_none() || self.options.moves_pages)
    }

    /// A known program goes where it was fastest, and its rate is checked.
    pub(super) fn follow(&mut self, sample: &Sample, known: KnownPlacement, findings: &mut Vec<Finding>) {
        let why = "an earlier run of this program with this number of threads ended with this placement".to_owned();
        self.list(CandidatesCode::KnownProgram, &why, findings);
        if known.place() != Placement::default() {
            self.present = self.propose(known.place(), ProposerCode::Known, Some(known.gain), why, findings);
        }
        self.known = Some(known);
        self.settle(Purpose::Baseline, sample.at);
    }

    /// Whether a known program is as fast as it was.
    pub(super) fn check_known(
        &mut self,
        topology: &Topology,
        sample: &Sample,
        known: &KnownPlacement,
        windows: &[Window],
        findings: &mut Vec<Finding>,
    ) {
        let metric = self.meter.as_ref().map(|(meter, _)| &self.metrics[meter.metric()].name);
        let log = windows.iter().map(|window| window.log).sum::<f64>() / windows.len() as f64;
        let over = log - known.rate.ln();
        let noise = self.search.noise.deviation().unwrap_or(0.0);
        if metric == Some(&known.metric) && over >= -(AS_FAST + noise) {
            self.search.best = self.present;
            self.search.candidates[self.present].gain = Some(Gain {
                log: known.gain.ln_1p(),
                error: noise,
            });
            let why = format!(
                "an earlier run was fastest so, and the rate is {:.3} times that of then",
                over.exp()
            );
            let gain = (self.present != UNPINNED).then_some(known.gain);
            findings.push(chosen(self.present, gain, ChoiceCode::KnownProgram, &why));
            self.search.reported = Some(self.present);
            self.search.candidates[self.present].confirmed = true;
            self.search.chosen = true;
            self.confirm_later();
            self.phases.begin(self.place().clone(), None);
            self.begin_watching(sample);
            return;
        }
        let text = if metric == Some(&known.metric) {
            format!(
                "The program is known, but its rate is {:.2} times that of the earlier run: the search is opened again.",
                over.exp()
            )
        } else {
            format!(
                "The program is known by {}, which is not what is measured now: the search is opened again.",
                known.metric
            )
        };
        findings.push(Finding::Note {
            code: NoteCode::SearchAgain,
            text,
        });
        self.phases.begin(Placement::default(), None);
        self.sample(topology, sample, findings);
        self.next(topology, sample, findings);
    }
}
