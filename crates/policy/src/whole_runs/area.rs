//! Areas of a machine: the placements of whole runs.
//!
//! A build starts hundreds of processes, each for a fraction of a second. So a whole run is not pinned thread by thread:
//! all its processes inherit one mask, a last-level cache, a NUMA node, a package or several nodes. Areas of one kind
//! count as alike, and a run takes the first one that no other run of pinfold has claimed.

use pinfold_core::{NodeId, ObjectKind, PuSet, Topology};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The most areas that are candidates.
const MOST: usize = 6;

/// What an area consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Cache,
    Node,
    Package,
}

/// The order in which parts are looked at. Parts with the same PUs are one area, under the first name.
const PARTS: [(Part, &str); 3] = [(Part::Node, "node"), (Part::Package, "package"), (Part::Cache, "cache")];

/// A number of equal parts of a machine, near each other. Its text is `1 node`, `2 nodes`, `1 cache` or `1 package`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Area {
    part: Part,
    number: usize,
}

/// A text is not an area.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no area: it is a number of nodes, packages or caches")]
pub struct AreaError(String);

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = PARTS.iter().find(|(part, _)| *part == self.part);
        let name = name.map_or("", |&(_, name)| name);
        let plural = if self.number == 1 { "" } else { "s" };
        write!(f, "{} {name}{plural}", self.number)
    }
}

impl FromStr for Area {
    type Err = AreaError;

    fn from_str(text: &str) -> Result<Self, AreaError> {
        let error = || AreaError(text.to_owned());
        let (number, name) = text.split_once(' ').ok_or_else(error)?;
        let number = pinfold_core::digits::decimal(number).ok_or_else(error)?;
        let part = PARTS
            .iter()
            .find(|(_, known)| name.strip_suffix('s').unwrap_or(name) == *known);
        let &(part, _) = part.filter(|_| number > 0).ok_or_else(error)?;
        Ok(Self { part, number })
    }
}

impl TryFrom<String> for Area {
    type Error = AreaError;

    fn try_from(text: String) -> Result<Self, AreaError> {
        text.parse()
    }
}

impl From<Area> for String {
    fn from(area: Area) -> Self {
        area.to_string()
    }
}

impl Area {
    /// The area's PUs among `free`: of its parts that are free as a whole the first ones, near each other. `None` if
    /// too few are free.
    pub fn pus(self, machine: &Topology, free: &PuSet) -> Option<PuSet> {
        let parts = parts(machine, self.part);
        let mut free: Vec<usize> = (0..parts.len()).filter(|&part| parts[part].1.is_subset(free)).collect();
        let mut pus = PuSet::new();
        let first = *free.first()?;
        for _ in 0..self.number {
            let nearest = (0..free.len()).min_by_key(|&place| distance(machine, parts[first].0, parts[free[place]].0));
            pus.extend(parts[free.remove(nearest?)].1.iter());
        }
        Some(pus)
    }
}

/// The parts of one kind with allowed PUs, in the order of their first PU; NUMA nodes with their numbers.
fn parts(machine: &Topology, part: Part) -> Vec<(Option<NodeId>, PuSet)> {
    let of_object = |id| (None, machine.object(id).pus.clone());
    let whole: Vec<(Option<NodeId>, PuSet)> = match part {
        Part::Cache => machine.llc_domains().into_iter().map(of_object).collect(),
        Part::Node => machine
            .nodes()
            .iter()
            .map(|node| (Some(node.id), node.pus.clone()))
            .collect(),
        Part::Package => machine
            .objects_of(ObjectKind::Package)
            .map(|(id, _)| of_object(id))
            .collect(),
    };
    let allowed = whole
        .into_iter()
        .map(|(node, pus)| (node, pus.intersection(machine.allowed_pus())));
    let mut parts: Vec<_> = allowed.filter(|(_, pus)| !pus.is_empty()).collect();
    parts.sort_by_key(|(_, pus)| pus.first());
    parts
}

/// The distance of two NUMA nodes; 0 for other parts and where the machine does not report it.
fn distance(machine: &Topology, from: Option<NodeId>, to: Option<NodeId>) -> u64 {
    let of_nodes = || machine.distances()?.between(from?, to?);
    of_nodes().unwrap_or(0)
}

/// An area that a run may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The area.
    pub area: Area,
    /// The PUs of its smallest instance.
    pub size: usize,
}

/// The areas of a machine that are smaller than all its PUs, the smallest first; none on a machine with one NUMA node,
/// one package and one last-level cache.
pub fn candidates(machine: &Topology) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = vec![];
    let mut known: Vec<Vec<PuSet>> = vec![];
    for (part, _) in PARTS {
        let parts: Vec<PuSet> = parts(machine, part).into_iter().map(|(_, pus)| pus).collect();
        let smallest = parts.iter().map(PuSet::len).min().unwrap_or(0);
        if parts.len() < 2 || known.contains(&parts) {
            continue;
        }
        // Several caches are nearly a node or a package. Several nodes, or packages without nodes, are worth a trial.
        let most = if part == Part::Cache || found.iter().any(|one| one.area.part == Part::Node) {
            2
        } else {
            parts.len()
        };
        let numbers = std::iter::successors(Some(1), |number| Some(number * 2));
        found.extend(numbers.take_while(|&number| number < most).map(|number| Candidate {
            area: Area { part, number },
            size: smallest * number,
        }));
        known.push(parts);
    }
    found.sort_by_key(|one| one.size);
    found.truncate(MOST);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::synthetic;

    fn texts(description: &str) -> Vec<String> {
        let found = candidates(&synthetic(description));
        found.iter().map(|one| format!("{}: {}", one.area, one.size)).collect()
    }

    #[test]
    fn a_machine_with_one_node_and_one_cache_has_no_areas() {
        assert!(texts("package:1 l3:1 core:2 pu:2").is_empty());
    }

    #[test]
    fn parts_with_the_same_pus_are_one_area() {
        assert_eq!(texts("package:2 l3:1 core:4 pu:1"), ["1 package: 4"]);
        assert_eq!(texts("package:2 l3:2 core:4 pu:1"), ["1 cache: 4", "1 package: 8"]);
        assert_eq!(
            texts("package:8 l3:1 core:2 pu:1"),
            ["1 package: 2", "2 packages: 4", "4 packages: 8"]
        );
    }

    #[test]
    fn a_run_takes_the_first_area_that_is_free_as_a_whole() {
        let machine = synthetic("package:4 l3:1 core:2 pu:1");
        let place = |area: &str, free: &str| {
            let pus = area.parse::<Area>().unwrap().pus(&machine, &free.parse().unwrap());
            pus.map(|pus| pus.to_string())
        };
        assert_eq!(place("1 package", "0-7").as_deref(), Some("0-1"));
        assert_eq!(place("1 package", "1-7").as_deref(), Some("2-3"));
        assert_eq!(place("2 packages", "0-1,4-7").as_deref(), Some("0-1,4-5"));
        assert_eq!(place("2 packages", "0,2,4-5"), None);
        assert_eq!(place("1 node", "0-7"), None);
    }

    #[test]
    fn an_areas_text_is_read_back() {
        for text in ["1 node", "2 nodes", "1 cache", "4 packages"] {
            assert_eq!(text.parse::<Area>().unwrap().to_string(), text);
        }
        for text in ["", "node", "0 nodes", "-1 nodes", "1 core"] {
            assert!(text.parse::<Area>().is_err(), "{text}");
        }
    }
}
