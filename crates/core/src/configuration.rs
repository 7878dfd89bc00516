//! Where threads and pages belong, and which of that was applied.

use crate::memory::{PageMoves, Profiled, Sampled};
use crate::{PageMapping, Prefetchers, PuId, PuSet, RefusalCode, RegionConfiguration, RegionId, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Maps thread ranks to PUs: rank `r` runs on the `r`-th PU. Ranks beyond the last start again at the first, so that
/// threads share a machine with fewer PUs evenly.
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

    /// The PUs by rank, or `unpinned` for the unpinned program.
    pub fn text(pinning: Option<&Self>) -> String {
        pinning.map_or_else(|| "unpinned".to_owned(), Self::to_string)
    }

    /// The same with the PUs that unpinned threads are limited to, the mapping of pages, and the number of parallel
    /// regions with another configuration, if any: `unpinned within 0-3 with pages interleave, 2 regions elsewhere`.
    pub fn text_of_place(
        pinning: Option<&Self>,
        within: Option<&PuSet>,
        pages: Option<PageMapping>,
        regions: usize,
    ) -> String {
        let within = within.map_or_else(String::new, |within| format!(" within {within}"));
        let pages = pages.map_or_else(String::new, |pages| format!(" with pages {pages}"));
        Self::text(pinning) + &within + &pages + &Self::text_of_regions(regions)
    }

    /// How many parallel regions run elsewhere, as the end of a text; empty for none.
    pub fn text_of_regions(number: usize) -> String {
        match number {
            0 => String::new(),
            1 => ", 1 region elsewhere".to_owned(),
            _ => format!(", {number} regions elsewhere"),
        }
    }
}

/// The PUs by rank, `0,1,6-9`: a form that `--schedule` accepts. Three or more consecutive PUs are a range.
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

/// Where the pages of one process among others are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessGoal {
    /// On the nodes of its tasks.
    Tasks,
    /// On all nodes in turn, by address.
    Interleave,
}

/// As the goal of `PageMoves`.
impl fmt::Display for ProcessGoal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tasks => f.write_str(PageMoves::AFTER_THREADS),
            Self::Interleave => PageMapping::Interleave.fmt(f),
        }
    }
}

/// All that a policy sets for a program at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The PUs of the ranks; `None` for the unpinned program.
    pub pinning: Option<Pinning>,
    /// The tasks without a rank: helpers, and tasks that the user named. They keep, or get back, the mask that they had
    /// before. All other tasks have ranks in the order of their creation. A task that is created later gets the lowest
    /// free rank.
    pub left_alone: BTreeSet<TaskId>,
    /// Tasks that run on this PU, with or without a rank. The fields above hold for all other tasks: without a pinning
    /// they are unpinned.
    pub tasks: BTreeMap<TaskId, PuId>,
    /// The PUs of unpinned tasks; `None` for all that the program may use. A task that has set its own mask keeps it.
    pub within: Option<PuSet>,
    /// Where the pages are; `None` leaves them to the operating system, whose default is `FirstTouch`.
    pub pages: Option<PageMapping>,
    /// The prefetchers that are on, on all cores; `None` does not change them.
    pub prefetchers: Option<Prefetchers>,
    /// What differs while a parallel region runs. All that is said above holds for other regions, and between regions.
    pub regions: BTreeMap<RegionId, RegionConfiguration>,
    /// The longest time for moving pages after threads that changed their node, or to the goal of their process; if it
    /// would take longer, pages stay. `None` for no limit.
    pub following_within: Option<Duration>,
    /// The processes whose pages move, with their nodes. The pages of all others go back to their former nodes. `None`:
    /// the pages of all processes follow threads.
    pub followed: Option<BTreeMap<i32, ProcessGoal>>,
    /// The longest time for moving pages to the nodes of `pages`. If it would take longer, they stay, and
    /// `RefusalCode::PagesTooLong` is reported. `None` for no limit.
    pub mapping_within: Option<Duration>,
}

impl Configuration {
    /// The PU of a task with this rank; `None` for an unpinned task.
    pub fn pu_of(&self, task: TaskId, rank: Option<usize>) -> Option<PuId> {
        let by_rank = || Some(self.pinning.as_ref()?.pu(rank?));
        self.tasks.get(&task).copied().or_else(by_rank)
    }

    /// Whether any task is pinned.
    pub fn pins(&self) -> bool {
        self.pinning.is_some() || !self.tasks.is_empty() || self.regions.values().any(|region| region.pinning.is_some())
    }

    /// What a machine that cannot limit unpinned tasks refuses.
    pub fn refused_limit(&self) -> Option<Refusal> {
        let within = self.within.as_ref()?;
        Some(Refusal::for_machine(
            RefusalCode::Limit,
            format!("unpinned threads run on all CPUs, and not on {within} alone: this machine cannot limit them"),
        ))
    }

    /// What a machine that can only pin and limit threads refuses: each other part.
    pub fn beyond_pinning(&self) -> Vec<Refusal> {
        let pages = self.pages.map(|pages| {
            Refusal::for_machine(
                RefusalCode::Pages,
                format!("pages stay where they are, and not {pages}: this machine can only pin threads"),
            )
        });
        pages
            .into_iter()
            .chain(self.refused_prefetchers())
            .chain(self.refused_regions())
            .collect()
    }

    /// What a machine that cannot configure single regions refuses.
    pub fn refused_regions(&self) -> Option<Refusal> {
        (!self.regions.is_empty()).then(|| {
            Refusal::for_machine(
                RefusalCode::Regions,
                "parallel regions run like the rest of the program: this machine cannot configure them one by one",
            )
        })
    }

    /// What a machine that cannot set prefetchers refuses.
    pub fn refused_prefetchers(&self) -> Option<Refusal> {
        self.prefetchers.map(|prefetchers| {
            Refusal::for_machine(
                RefusalCode::Prefetchers,
                format!("the prefetchers stay as they are, and not {prefetchers}: this machine cannot set them"),
            )
        })
    }
}

/// What `Machine::apply` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The tasks whose mask has changed.
    pub moved: Vec<TaskId>,
    /// What could not be done, and why.
    pub refused: Vec<Refusal>,
    /// The result of moving pages; `None` if no page had to move, or the machine cannot report it.
    pub pages: Option<PageMoves>,
    /// The result of sampling the program's accesses; `None` without sampling.
    pub sampled: Option<Sampled>,
    /// The result of applying a recording's accesses to the program, for each process.
    pub profiled: Vec<Profiled>,
    /// What was applied in place of the requested configuration, because no thread could be pinned as it says; `None`
    /// where that was applied.
    pub instead: Option<Instead>,
}

/// A configuration that was applied in place of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instead {
    /// What was applied.
    pub configuration: Configuration,
    /// Why no thread is pinned, as a clause.
    pub why: String,
}

/// One change that the machine did not make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The task; `None` for the whole program or the machine.
    pub task: Option<TaskId>,
    /// What stays as it is, as a code.
    #[serde(default)]
    pub code: RefusalCode,
    /// The reason, as a text that a user can act on.
    pub why: String,
    /// Of pages that stay because moving them takes too long: how long it would take. Not written, `why` says it.
    #[serde(skip)]
    pub takes: Option<Duration>,
}

impl Refusal {
    /// A refusal about one task.
    pub fn for_task(task: TaskId, why: impl Into<String>) -> Self {
        Self {
            task: Some(task),
            code: RefusalCode::Task,
            why: why.into(),
            takes: None,
        }
    }

    /// A refusal about the whole program or the machine.
    pub fn for_machine(code: RefusalCode, why: impl Into<String>) -> Self {
        Self {
            task: None,
            code,
            why: why.into(),
            takes: None,
        }
    }

    /// Pages stay, because moving them would take so long.
    pub fn for_pages(takes: Duration, why: impl Into<String>) -> Self {
        Self {
            takes: Some(takes),
            ..Self::for_machine(RefusalCode::PagesTooLong, why)
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
    fn a_task_with_its_own_pu_runs_there_with_any_rank() {
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
