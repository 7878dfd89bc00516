//! The watch over the choice: changes of the rate, phases of the program, and other numbers of threads.
//!
//! - A change of the rate leads to a window that identifies the phase by the rates of all metrics. A known phase gets
//!   its placement at once. A new one is searched.
//! - A change that brings no other placement doubles the evidence that the next change needs.
//! - Another number of threads gets the placement that was best for it, or is searched.
//! - Too many searches within an hour are put off.

use super::phases::{Phases, Signature};
use super::placement::Placement;
use super::thread_sets::{Given, Kept, ThreadSets, too_many};
use crate::comparison::change::ChangePoint;
use crate::comparison::turns::Window;
use pinfold_core::{Finding, NoteCode, Sample, TaskId};
use std::collections::BTreeSet;
use std::time::Duration;

/// The largest patience.
const MOST_PATIENCE: f64 = 64.0;

/// The phase of the program after a change of the rate.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Identified {
    /// The running placement stays: the phase is known and has it as the best one, or the search is put off.
    Unchanged,
    /// A known phase with another placement as the best one.
    Known(Placement),
    /// A new phase.
    New,
}

/// The state of the watch over all searches.
#[derive(Debug)]
pub(super) struct Watching {
    thread_sets: ThreadSets,
    phases: Phases,
    change: ChangePoint,
    /// The next change of the rate needs this multiple of the evidence that the first one needs.
    patience: f64,
    /// The sample at which the choice began to run; `None` before its first window.
    chosen_from: Option<Sample>,
    /// Whether the rates of the phase in the choice were noted.
    is_signed: bool,
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            thread_sets: ThreadSets::default(),
            phases: Phases::default(),
            change: ChangePoint::new(1.0),
            patience: 1.0,
            chosen_from: None,
            is_signed: false,
        }
    }
}

/// The rate and the phases.
impl Watching {
    /// A search begins.
    pub(super) fn search_begins(&mut self, at: Duration) {
        self.thread_sets.search_begins(at);
        self.change = ChangePoint::new(self.patience);
    }

    /// A phase begins in this placement.
    pub(super) fn begin_phase(&mut self, placement: Placement) {
        self.phases.begin(placement, None);
    }

    /// Another placement is the best one of the phase. `is_new`: it was not the best one before, so the next change
    /// needs no more evidence than the first one.
    pub(super) fn choose(&mut self, placement: &Placement, is_new: bool) {
        if is_new {
            self.patience = 1.0;
        }
        self.change = ChangePoint::new(self.patience);
        self.phases.choose(placement.clone());
    }

    /// The choice is watched from now on. `kept` is the choice for the working threads, if it may be kept for them.
    pub(super) fn begin(&mut self, threads: &BTreeSet<TaskId>, kept: Option<Kept>) {
        if let Some(kept) = kept {
            self.thread_sets.keep(threads, kept);
        }
        self.change = ChangePoint::new(self.patience);
        self.chosen_from = None;
        self.is_signed = false;
    }

    /// A search was without result: the next change needs more evidence.
    pub(super) fn raise_patience(&mut self) {
        self.patience = (self.patience * 2.0).min(MOST_PATIENCE);
    }

    /// Whether the rate has changed with this window.
    pub(super) fn has_changed(&mut self, window: Window) -> bool {
        self.change.has_changed(window.log)
    }

    /// A window of the choice had counts. It began at this sample.
    pub(super) fn add_window(&mut self, first: &Sample) {
        self.chosen_from.get_or_insert_with(|| first.clone());
    }

    /// The first sample of the rates that identify the phase in the choice; `None` before their level is known, and
    /// when they were noted.
    pub(super) fn unsigned_from(&self) -> Option<&Sample> {
        let is_due = !self.is_signed && self.change.is_learned();
        self.chosen_from.as_ref().filter(|_| is_due)
    }

    /// Notes the rates of the phase in the choice.
    pub(super) fn sign(&mut self, placement: &Placement, signature: Signature) {
        self.is_signed = true;
        self.phases.see(placement.clone(), signature);
    }

    /// Identifies the phase by its rates in the placement that runs.
    pub(super) fn identify(
        &mut self,
        placement: &Placement,
        signature: Signature,
        at: Duration,
        findings: &mut Vec<Finding>,
    ) -> Identified {
        let known = self.phases.recognise(placement, &signature);
        let (identified, text) = match known {
            Some(best) if best == *placement => (
                Identified::Unchanged,
                "The rate changed, as it did before in a phase in which the same placement was best.".to_owned(),
            ),
            Some(best) => {
                let text = format!("The program is in a phase that was seen before: it goes to {best} at once.");
                (Identified::Known(best), text)
            }
            None if self.thread_sets.may_search(at) => (
                Identified::New,
                "The rate changed and stays so: the program is in another phase, and the search begins again."
                    .to_owned(),
            ),
            None => (Identified::Unchanged, too_many("The program is in another phase")),
        };
        findings.push(Finding::Note {
            code: NoteCode::Phase,
            text,
        });
        match identified {
            Identified::Known(_) => self.patience = 1.0,
            Identified::Unchanged => self.raise_patience(),
            Identified::New => {
                self.raise_patience();
                // The placement stays the best one until another is faster.
                self.phases.begin(placement.clone(), Some(signature));
            }
        }
        identified
    }
}

/// The working threads.
impl Watching {
    /// Whether the working threads wait for a search that may begin now.
    pub(super) fn is_search_due(&mut self, at: Duration) -> bool {
        self.thread_sets.is_search_due(at)
    }

    /// Whether another number of threads works for long enough. `is_other`: another number works at the end of this
    /// window.
    pub(super) fn threads_changed(&mut self, is_other: bool, at: Duration) -> bool {
        self.thread_sets.stays_other(is_other, at)
    }

    /// The choice for these threads; `None` if they are searched. If the search is put off they run in the placement
    /// that the user wants, `requested`.
    pub(super) fn recall(
        &mut self,
        threads: &BTreeSet<TaskId>,
        requested: Placement,
        at: Duration,
        findings: &mut Vec<Finding>,
    ) -> Option<Given> {
        if let Some((kept, are_same)) = self.thread_sets.recall(threads) {
            let kept = kept.clone();
            self.thread_sets.need_no_search();
            return Some(Given::known(kept, are_same));
        }
        if self.thread_sets.may_search(at) {
            return None;
        }
        self.thread_sets.owe_search();
        let why = too_many("The number of working threads changed");
        findings.push(Finding::Note {
            code: NoteCode::Threads,
            text: why.clone(),
        });
        Some(Given::put_off(requested, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{Pinning, PuId};

    fn on(pu: u32) -> Placement {
        Placement::pinned(Pinning::new(vec![PuId(pu)]).unwrap())
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_known_phase_with_another_placement_resets_the_patience_and_other_changes_double_it() {
        let mut watching = Watching::default();
        let mut findings = vec![];
        watching.begin_phase(on(1));
        watching.sign(&on(1), vec![Some(1.0)]);
        let mut identify = |placement: &Placement, log| {
            let identified = watching.identify(placement, vec![Some(log)], Duration::ZERO, &mut findings);
            (identified, watching.patience)
        };
        assert_eq!(identify(&on(1), 1.0), (Identified::Unchanged, 2.0));
        assert_eq!(identify(&on(1), 2.0), (Identified::New, 4.0));
        watching.choose(&on(2), true);
        watching.sign(&on(2), vec![Some(3.0)]);
        let back = watching.identify(&on(1), vec![Some(2.0)], Duration::ZERO, &mut findings);
        assert_eq!(back, Identified::Known(on(2)));
        assert!((watching.patience - 1.0).abs() < 1e-12);
        assert_eq!(findings.len(), 3, "each change has a line");
    }

    #[test]
    fn after_too_many_searches_a_new_phase_keeps_its_placement() {
        let mut watching = Watching::default();
        (0..8).for_each(|search| watching.search_begins(Duration::from_secs(search)));
        let mut findings = vec![];
        let mut identify = |at| watching.identify(&on(1), vec![Some(1.0)], at, &mut findings);
        assert_eq!(identify(Duration::from_secs(60)), Identified::Unchanged);
        assert_eq!(identify(HOUR), Identified::New);
    }

    #[test]
    fn threads_get_their_placement_back_and_unknown_ones_are_searched_or_put_off() {
        let mut watching = Watching::default();
        let thread = |serial| TaskId {
            serial,
            process: 1,
            thread: 1,
        };
        let threads = |number| (0..number).map(thread).collect::<BTreeSet<_>>();
        let kept = Kept {
            placement: on(1),
            by: pinfold_core::ProposerCode::Topology,
            gain: None,
        };
        watching.begin(&threads(2), Some(kept.clone()));
        let mut findings = vec![];
        let given = watching.recall(&threads(2), Placement::default(), Duration::ZERO, &mut findings);
        assert_eq!(given, Some(Given::known(kept, true)));
        let unknown = watching.recall(&threads(3), Placement::default(), Duration::ZERO, &mut findings);
        assert_eq!(unknown, None);
        (0..8).for_each(|search| watching.search_begins(Duration::from_secs(search)));
        let put_off = watching.recall(&threads(3), on(9), Duration::from_secs(60), &mut findings);
        assert_eq!(put_off.map(|given| given.kept.placement), Some(on(9)));
        assert!(!watching.is_search_due(Duration::from_secs(60)) && watching.is_search_due(HOUR));
    }
}
