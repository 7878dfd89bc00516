//! Where threads belong, and what of it was really done.

use crate::memory::{PageMoves, Profiled, Sampled};
use crate::{PageMapping, Prefetchers, PuId, RefusalCode, TaskId};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Maps thread ranks to PUs: rank `r` runs on the `r`-th PU, and ranks beyond the last start again at the first, so
/// that a machine with fewer PUs than threads is shared evenly.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pinning(Vec<PuId>);

impl Pinning {
    /// A pinning of ranks 0, 1, 2 … to these PUs; `None` for no PU at all.
    pub fn new(pus: Vec<PuId>) -> Option<Self> {
        (!pus.is_empty()).then_some(Self(pus))
    }

    /// The PU of rank `rank`.
    pub fn pu(&self, rank: usize) -> PuId {
        self.0[rank % self.0.len()]
    }

    /// The PUs by rank.
    pub fn pus(&self) -> &[PuId] {
        &self.0
    }

    /// The PUs by rank, or `unpinned` for threads that are left to the operating system.
    pub fn text(pinning: Option<&Self>) -> String {
        pinning.map_or_else(|| "unpinned".to_owned(), Self::to_string)
    }
}

/// The PUs by rank, `0,1,6-9`: a form that `--schedule` takes back. Three or more that follow each other are a range.
impl fmt::Display for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut rest = self.0.as_slice();
        while let Some(&first) = rest.first() {
            let run = (0u32..)
                .zip(rest)
                .take_while(|&(step, pu)| pu.0 == first.0 + step)
                .count();
            let taken = if run >= 3 {
                write!(f, "{separator}{first}-{}", rest[run - 1])?;
                run
            } else {
                write!(f, "{separator}{first}")?;
                1
            };
            rest = &rest[taken..];
            separator = ",";
        }
        Ok(())
    }
}

/// What a policy wants the machine to look like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Configuration {
    /// Where the ranks run; `None` lets every task run wherever it could before.
    pub pinning: Option<Pinning>,
    /// The tasks that get no rank: helpers that do no work, and those that the user named. They keep, or get back,
    /// the PUs that they had before. All other tasks have ranks in the order of their creation; a task that is
    /// created later takes the lowest rank that is free.
    pub left_alone: BTreeSet<TaskId>,
    /// Tasks that run on this PU whatever rank they have or lack. All others do as the fields above say: without a pinning they
    /// run wherever they could before.
    #[serde(serialize_with = "as_pairs")]
    pub tasks: BTreeMap<TaskId, PuId>,
    /// Where the pages are; `None` leaves them to the operating system, which is `FirstTouch` where nobody says otherwise.
    pub pages: Option<PageMapping>,
    /// Which prefetchers are on, on all cores; `None` leaves them as they were found.
    pub prefetchers: Option<Prefetchers>,
    /// How long it may take at most to bring pages after threads that have changed their node; what takes longer stays.
    /// `None` for however long it takes.
    pub following_within: Option<Duration>,
}

/// A map whose keys are no texts, as JSON wants them.
fn as_pairs<S: Serializer>(tasks: &BTreeMap<TaskId, PuId>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(tasks)
}

impl Configuration {
    /// Where a task of this rank is to run; `None` for wherever it could before.
    pub fn pu_of(&self, task: TaskId, rank: Option<usize>) -> Option<PuId> {
        let by_rank = || Some(self.pinning.as_ref()?.pu(rank?));
        self.tasks.get(&task).copied().or_else(by_rank)
    }

    /// Whether any task is to be pinned.
    pub fn pins(&self) -> bool {
        self.pinning.is_some() || !self.tasks.is_empty()
    }

    /// What a machine that can only pin refuses of this: each part beside the pinning.
    pub fn beyond_pinning(&self) -> Vec<Refusal> {
        let pages = self.pages.map(|pages| {
            Refusal::of_machine(
                RefusalCode::Pages,
                format!("pages stay where they are, and not {pages}: this machine can only pin threads"),
            )
        });
        pages.into_iter().chain(self.refused_prefetchers()).collect()
    }

    /// What a machine that cannot set prefetchers refuses of this.
    pub fn refused_prefetchers(&self) -> Option<Refusal> {
        self.prefetchers.map(|prefetchers| {
            Refusal::of_machine(
                RefusalCode::Prefetchers,
                format!("the prefetchers stay as they are, and not {prefetchers}: this machine cannot set them"),
            )
        })
    }
}

/// What `Machine::apply` really did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The tasks that run on another set of PUs than before.
    pub moved: Vec<TaskId>,
    /// What could not be done, and why.
    pub refused: Vec<Refusal>,
    /// What came of moving pages; `None` where none had to be moved, or the machine does not tell.
    pub pages: Option<PageMoves>,
    /// What came of sampling the program's accesses; `None` where that was not done.
    pub sampled: Option<Sampled>,
    /// What came of bringing a recording's accesses to the program, of each process for which this was done.
    pub profiled: Vec<Profiled>,
}

/// One change that the machine did not make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Which task; `None` where it is about the whole program or the machine.
    pub task: Option<TaskId>,
    /// What stays as it is, for programs.
    #[serde(default)]
    pub code: RefusalCode,
    /// Why, in words that a user can act on.
    pub why: String,
}

impl Refusal {
    /// One that is about one task.
    pub fn of_task(task: TaskId, why: impl Into<String>) -> Self {
        Self {
            task: Some(task),
            code: RefusalCode::Task,
            why: why.into(),
        }
    }

    /// One that is about the whole program or the machine.
    pub fn of_machine(code: RefusalCode, why: impl Into<String>) -> Self {
        Self {
            task: None,
            code,
            why: why.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PuSet;
    use proptest::prelude::*;

    #[test]
    fn a_machine_that_can_only_pin_refuses_the_rest_part_by_part() {
        let configuration = Configuration {
            pages: Some(PageMapping::Interleave),
            prefetchers: Some(Prefetchers::NONE),
            ..Configuration::default()
        };
        let why: Vec<String> = configuration
            .beyond_pinning()
            .into_iter()
            .map(|refusal| refusal.why)
            .collect();
        assert!(why[0].contains("interleave") && why[1].contains("1111"), "{why:?}");
        assert!(Configuration::default().beyond_pinning().is_empty());
    }

    #[test]
    fn a_task_with_a_pu_of_its_own_is_there_whatever_its_rank() {
        let task = |serial| TaskId {
            serial,
            process: 1,
            thread: 1,
        };
        let mut configuration = Configuration {
            pinning: Pinning::new(vec![PuId(0), PuId(1)]),
            ..Configuration::default()
        };
        configuration.tasks.insert(task(1), PuId(7));
        assert_eq!(configuration.pu_of(task(0), Some(0)), Some(PuId(0)));
        assert_eq!(configuration.pu_of(task(1), Some(1)), Some(PuId(7)));
        assert_eq!(configuration.pu_of(task(1), None), Some(PuId(7)));
        assert_eq!(configuration.pu_of(task(2), None), None);
        assert!(serde_json::to_string(&configuration).is_ok(), "keys that are no texts");
    }

    #[test]
    fn only_ascending_runs_are_printed_as_ranges() {
        let pinning = Pinning::new([3, 1, 2, 3, 4, 9, 8, 0, 1].map(PuId).to_vec()).unwrap();
        assert_eq!(pinning.to_string(), "3,1-4,9,8,0,1");
    }

    proptest! {
        #[test]
        fn a_printed_pinning_parses_back_rank_by_rank(pus in proptest::collection::vec(0u32..20, 1..40)) {
            let pinning = Pinning::new(pus.into_iter().map(PuId).collect()).unwrap();
            prop_assert_eq!(PuSet::parse_ordered(&pinning.to_string()).unwrap(), pinning.pus());
        }
    }
}
