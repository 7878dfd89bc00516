//! The names of candidates, such as `#7 close: 0,20,1,21`. The number makes each name unique on the page.
//!
//! A placement that is that of a name (`--policy close`) has the name; another one has its nodes.

use crate::decisions::candidate_number;
use crate::nodes::Nodes;
use pinfold_core::placement::NamedPlacement;
use pinfold_core::{Pinning, Topology};
use pinfold_runtime::{Candidate, Record, Search};
use std::collections::{BTreeMap, BTreeSet};

/// The names that are looked for, the most specific ones first.
const NAMES: [&str; 6] = ["close", "spread", "compact", "scatter", "packed", "distributed"];

/// A record has few candidates. Of one that was changed, this many get names.
const NAMED: usize = 64;

/// A longer list of CPUs is cut; the table has all.
const LETTERS: usize = 60;

/// A candidate's name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Label {
    /// `#7`.
    pub(crate) number: String,
    /// `close`, or `node 0`, or `unpinned`.
    pub(crate) words: String,
    /// The CPUs by rank; empty for unpinned threads.
    pub(crate) cpus: String,
}

impl Label {
    /// The whole name in one line.
    pub(crate) fn text(&self) -> String {
        let separator = if self.cpus.is_empty() { "" } else { ": " };
        format!("{} {}{separator}{}", self.number, self.words, self.cpus)
    }
}

/// The names of all candidates, by search.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Labels(Vec<Vec<Label>>);

impl Labels {
    pub(crate) fn new(record: &Record) -> Self {
        let searches: Vec<&Search> = record.earlier_searches.iter().chain([&record.search]).collect();
        let topology = record.timeline.as_ref().map(|line| &line.topology);
        let mut names = Names {
            topology: topology.filter(|topology| !topology.allowed_pus().is_empty()),
            nodes: topology.map(Nodes::new).unwrap_or_default(),
            known: BTreeMap::new(),
        };
        let label = |number: usize, candidate: usize, one: &Candidate, names: &mut Names<'_>| {
            let cpus = one.pus.as_ref().map(Pinning::to_string).unwrap_or_default();
            Label {
                number: candidate_number(number, searches.len(), candidate),
                words: names.words(one, candidate < NAMED),
                cpus: shortened(&cpus),
            }
        };
        let mut all = vec![];
        for (number, search) in searches.iter().enumerate() {
            let candidates = search.candidates.iter().enumerate();
            all.push(
                candidates
                    .map(|(candidate, one)| label(number, candidate, one, &mut names))
                    .collect(),
            );
        }
        Self(all)
    }

    pub(crate) fn get(&self, search: usize, candidate: usize) -> Option<&Label> {
        self.0.get(search)?.get(candidate)
    }

    /// `#7`; also of a candidate that the record does not have.
    pub(crate) fn number(&self, search: usize, candidate: usize) -> String {
        candidate_number(search, self.0.len(), candidate)
    }
}

struct Names<'a> {
    /// `None` where nothing can be placed.
    topology: Option<&'a Topology>,
    nodes: Nodes,
    /// By number of threads.
    known: BTreeMap<usize, Vec<(&'static str, Pinning)>>,
}

impl Names<'_> {
    fn words(&mut self, candidate: &Candidate, named: bool) -> String {
        let place = match (&candidate.pus, &candidate.within) {
            (None, None) => "unpinned".to_owned(),
            (None, Some(within)) => format!("unpinned within {within}"),
            (Some(pus), _) => {
                let name = if named { self.name(pus) } else { None };
                name.map_or_else(|| self.on_nodes(pus), str::to_owned)
            }
        };
        let pages = candidate
            .pages
            .map_or_else(String::new, |pages| format!(", pages {pages}"));
        let regions = match candidate.regions.len() {
            0 => String::new(),
            1 => ", and 1 region elsewhere".to_owned(),
            several => format!(", and {several} regions elsewhere"),
        };
        place + &pages + &regions
    }

    fn name(&mut self, pus: &Pinning) -> Option<&'static str> {
        let topology = self.topology?;
        let threads = pus.pus().len();
        if threads > topology.allowed_pus().len() {
            return None;
        }
        let known = self.known.entry(threads).or_insert_with(|| {
            let named = NAMES.iter().filter_map(|&name| {
                let placement: NamedPlacement = name.parse().ok()?;
                Some((name, placement.pinning(topology, threads)))
            });
            named.collect()
        });
        known.iter().find(|(_, pinning)| pinning == pus).map(|&(name, _)| name)
    }

    /// `node 0`, `nodes 0, 2`, or `4 nodes`.
    fn on_nodes(&self, pus: &Pinning) -> String {
        let used: BTreeSet<usize> = pus.pus().iter().filter_map(|pu| self.nodes.of(pu.0)).collect();
        let ids: Vec<String> = used.iter().map(|&node| self.nodes.ids()[node].to_string()).collect();
        match ids.as_slice() {
            [] => "pinned".to_owned(),
            [one] => format!("node {one}"),
            several if several.len() <= 3 => format!("nodes {}", several.join(", ")),
            many => format!("{} nodes", many.len()),
        }
    }
}

fn shortened(cpus: &str) -> String {
    if cpus.chars().count() <= LETTERS {
        return cpus.to_owned();
    }
    cpus.chars().take(LETTERS).chain(['…']).collect()
}
