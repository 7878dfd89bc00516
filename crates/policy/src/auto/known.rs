//! A program that the behaviour database knows: it starts in the placement of an earlier run, and its rate there is
//! compared with the rate of that run.

use super::options::AutoOptions;
use super::placement::Placement;
use super::proposals::Proposal;
use super::search::Search;
use crate::comparison::turns::Window;
use crate::known::KnownPlacement;
use pinfold_core::{Finding, NoteCode, Pinning, ProposerCode, Topology};
use std::time::Duration;

/// A known program counts as equally fast as in the earlier run if it is slower by less than this.
const AS_FAST: f64 = 0.03;

/// The result of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// The program is as fast as in the earlier run. Its placement is the choice.
    AsFast,
    /// It is slower, or another metric counts. The search begins.
    Slower,
}

/// The earlier run whose rate is compared.
#[derive(Debug, Default)]
pub(super) struct Known(Option<KnownPlacement>);

impl Known {
    /// The placement of the earlier run with this number of threads; `None` without such a run, or if its placement is
    /// not possible here.
    pub(super) fn start(&mut self, options: &AutoOptions, topology: &Topology, threads: usize) -> Option<Proposal> {
        let known = options.known.get(&threads).filter(|known| !known.other_build);
        let known = known.filter(|known| is_possible(known, options, topology))?;
        self.0 = Some(known.clone());
        Some(Proposal {
            placement: known.placement(),
            by: ProposerCode::Known,
            gain: Some(known.gain),
            why: "an earlier run of this program with this number of threads ended with this placement".to_owned(),
        })
    }

    /// Compares the rate in these windows, by `metric`, with the rate of the earlier run; `None` without an earlier
    /// run.
    pub(super) fn check(
        &mut self,
        search: &mut Search,
        metric: Option<&str>,
        windows: &[Window],
        at: Duration,
        findings: &mut Vec<Finding>,
    ) -> Option<Checked> {
        let known = self.0.take()?;
        let log = windows.iter().map(|window| window.log).sum::<f64>() / windows.len() as f64;
        let over = log - known.rate.ln();
        let is_same_metric = metric == Some(known.metric.as_str());
        let noise = search.trials().noise().deviation().unwrap_or(0.0);
        if is_same_metric && over >= -(AS_FAST + noise) {
            let why = format!(
                "an earlier run was fastest so, and the rate is {:.3} times the rate of that run",
                over.exp()
            );
            search.accept_known(known.gain, &why, at, findings);
            return Some(Checked::AsFast);
        }
        let text = if is_same_metric {
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
        Some(Checked::Slower)
    }
}

/// Whether threads and pages may go to this placement here.
fn is_possible(known: &KnownPlacement, options: &AutoOptions, topology: &Topology) -> bool {
    let allowed = topology.allowed_pus();
    let mut pus = known.pinning.iter().flat_map(Pinning::pus);
    pus.all(|&pu| allowed.contains(pu)) && (known.pages.is_none() || options.moves_pages)
}

/// What another build of the program found with this number of threads; `None` if that is the unpinned program.
pub(super) fn other_build(options: &AutoOptions, topology: &Topology, threads: usize) -> Option<Proposal> {
    let known = options.known.get(&threads).filter(|known| known.other_build)?;
    let is_useful = is_possible(known, options, topology) && known.placement() != Placement::default();
    is_useful.then(|| Proposal {
        placement: known.placement(),
        by: ProposerCode::OtherBuild,
        gain: Some(known.gain),
        why: "another build of this program was fastest so".to_owned(),
    })
}
