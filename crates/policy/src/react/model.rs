//! A model of the policy `react`: the configurations in which a region is profiled, and a decision tree that chooses a
//! configuration by counters of the profiles. Its leaves are configurations.

use super::counters;
use crate::rules::Trained;
use crate::tree::Tree;
use pinfold_core::memory::main_memory;
use pinfold_core::{
    LIKWID, NodeId, PageMapping, Pinning, Prefetchers, PuSet, RegionCounts, ThreadMap, Topology, map_threads,
    map_threads_per_core,
};
use std::fmt;

/// A configuration of a region (section 2 of react's paper).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelConfiguration {
    /// The number of threads.
    pub threads: usize,
    /// The number of nodes that the threads use.
    pub nodes: usize,
    /// The threads on the core that has most. `None`: threads share cores only if the nodes have too few of them.
    pub threads_per_core: Option<usize>,
    /// How they are spread over these nodes.
    pub thread_map: ThreadMap,
    /// Where the pages are.
    pub page_map: PageMapping,
    /// The prefetchers that are on.
    pub prefetch: Prefetchers,
}

impl ModelConfiguration {
    /// The PUs of its threads; `None` on a machine that is too small, or whose first nodes are.
    pub fn pinning(&self, topology: &Topology) -> Option<Pinning> {
        let (threads, nodes, map) = (self.threads, self.nodes, self.thread_map);
        let pinning = match self.threads_per_core {
            None => map_threads(topology, threads, nodes, map)?,
            Some(most) => map_threads_per_core(topology, threads, nodes, map, most)?,
        };
        let pus: PuSet = pinning.pus().iter().copied().collect();
        (pus.len() == self.threads).then_some(pinning)
    }

    /// The page mapping, with the machine's own nodes.
    pub(super) fn pages(&self, topology: &Topology) -> PageMapping {
        match self.page_map {
            PageMapping::Single(_) => PageMapping::Single(main_memory(topology).first().unwrap_or(NodeId(0))),
            other => other,
        }
    }

    /// Whether the pages of two configurations are at the same places: the pages of `interleave` and `single` do not
    /// depend on threads.
    pub(super) fn shares_pages_with(&self, other: &Self) -> bool {
        let free = matches!(self.page_map, PageMapping::Interleave | PageMapping::Single(_));
        let threads = |one: &Self| (one.threads, one.nodes, one.threads_per_core, one.thread_map);
        self.page_map == other.page_map && (free || threads(self) == threads(other))
    }
}

impl fmt::Display for ModelConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |number: usize| if number == 1 { "" } else { "s" };
        write!(
            f,
            "{} thread{} on {} node{}, {}{}, with pages {} and prefetchers {}",
            self.threads,
            plural(self.threads),
            self.nodes,
            plural(self.nodes),
            match self.threads_per_core {
                Some(most) if most > 1 => format!("{most} on a core, "),
                _ => String::new(),
            },
            self.thread_map,
            match self.page_map {
                PageMapping::Single(_) => "single".to_owned(),
                other => other.to_string(),
            },
            self.prefetch
        )
    }
}

/// A counter on one of the profiled configurations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelFeature {
    /// Its position in `LIKWID`.
    pub counter: usize,
    /// The position of the profiled configuration.
    pub profile: usize,
    /// Its least value in the training data.
    pub least: f64,
    /// Its greatest value there.
    pub greatest: f64,
}

/// How good a model is expected to be: shares of the possible gain, as logarithms.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// For programs that had no part in any choice.
    pub nested: f64,
    /// The lower end of its 95 % interval over programs.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The same with shuffled labels.
    pub control: f64,
    /// The score of the paper: the best pair of counters on the folds that choose it.
    pub inside: f64,
    /// How often programs were divided into folds.
    pub seeds: u64,
}

/// The counts of a region under one configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Profile {
    pub(super) executions: f64,
    pub(super) seconds: f64,
    /// `None` if the machine only times regions.
    pub(super) counts: Option<RegionCounts>,
}

/// The machine has no place for a configuration of the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the model has the configuration {configuration}, for which this machine is too small ({pus} CPUs may be used); it was \
     learned for {machine}: train one for this machine with `pinfold learn train react`"
)]
pub struct UnsuitableMachine {
    configuration: String,
    pus: usize,
    machine: String,
}

/// A model that chooses the configuration of a region.
#[derive(Clone, Debug, PartialEq)]
pub struct ReactModel {
    /// The machine that it was learned for.
    pub machine: String,
    /// The profiled configurations.
    pub profiles: Vec<ModelConfiguration>,
    /// The features of the tree.
    pub features: Vec<ModelFeature>,
    pub(super) tree: Tree<usize>,
    /// The leaves of the tree.
    pub configurations: Vec<ModelConfiguration>,
    /// The training data.
    pub trained: Trained,
    /// The reference of the possible gain.
    pub baseline: ModelConfiguration,
    /// How good it is expected to be.
    pub score: Score,
}

impl ReactModel {
    /// Whether each configuration has a place on this machine.
    ///
    /// # Errors
    ///
    /// Names the configuration that has none.
    pub fn check(&self, topology: &Topology) -> Result<(), UnsuitableMachine> {
        let mut all = self.profiles.iter().chain(&self.configurations);
        match all.find(|configuration| configuration.pinning(topology).is_none()) {
            None => Ok(()),
            Some(configuration) => Err(UnsuitableMachine {
                configuration: configuration.to_string(),
                pus: topology.allowed_pus().len(),
                machine: self.machine.clone(),
            }),
        }
    }

    /// The forecast of the tree for a region with these profiles, and the values that decided it, as text. If the tree
    /// needs a value that is missing: its name.
    pub(super) fn forecast(&self, profiles: &[Option<Profile>]) -> Result<(usize, String), &'static str> {
        let mut values: Vec<String> = vec![];
        let configuration = self.tree.leaf::<&'static str>(|feature| {
            let ModelFeature { counter, profile, .. } = self.features[feature];
            let name = LIKWID[counter].name;
            let of = profiles[profile].as_ref();
            let value = of.and_then(|of| counters::value(counter, &of.counts?, of.executions, of.seconds));
            let value = value.ok_or(name)?;
            let text = format!("{name} in profile {} is {value:.4}", profile + 1);
            if !values.contains(&text) {
                values.push(text);
            }
            #[expect(clippy::cast_possible_truncation, reason = "a tree sees single precision")]
            let single = value as f32;
            Ok(single)
        })?;
        Ok((configuration, values.join(" and ")))
    }
}
