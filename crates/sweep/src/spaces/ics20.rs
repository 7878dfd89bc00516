//! `ics20`: the configurations of Sánchez Barrera et al. (ICS 2020, section 2). The number of threads is a part of a
//! configuration. `ics20+smt` adds teams that use all PUs of their nodes.
//!
//! 1. A quarter, a half and all of the machine's cores have a thread each.
//! 2. They are on as few nodes as hold them. A half that fits one node is also tried on two.
//! 3. On one node the page mappings are `local` and `remote`; on several, both thread maps are combined with
//!    `locality`, `balance`, `interleave` and `single`.
//! 4. Each of these has all settings of the prefetchers.
//!
//! On the paper's four nodes of 8 cores that gives 8 threads on one node, 16 on two and 32 on four: 2 + 8 + 8 = 18, and
//! 288 with the 16 settings. For two nodes of 24 cores the paper has the number, 320, but no list. These rules give 12
//! and 24 threads on one node, and 24 and 48 on two: 2 + 2 + 8 + 8 = 20.
//!
//! `ics20+smt` also has teams with a thread for each PU, on each number of nodes that the other teams have. On two nodes of
//! 16 cores with two PUs these are 32 threads on one node and 64 on two, beside 8 and 16 on one, and 16 and 32 on two.
//! Scravaglieri et al. (JPDC 2023) measured such teams; the rule is ours.
//!
//! Known limits: machines have two or four nodes, as the paper's, and a number of cores that four divides.

use super::machine::SpaceMachine;
use super::nodes::on_nodes;
use super::point::Point;
use super::{Request, Selection, Space};
use pinfold_core::{PageMapping, Prefetchers, ThreadMap};
use std::collections::BTreeSet;
use std::ops::Not as _;

pub(super) const ICS20: Space = Space {
    name: "ics20",
    about: "numbers of threads, nodes, thread maps, page mappings and all prefetcher settings, from a recording of the program \
            with each number of threads: a quarter, a half and all of the cores",
    limited: false,
    thread_counts: Some(|machine| Ok(counts(&teams(machine)?))),
    points: |request| Ok(points(request, &teams(request.machine())?)),
};

pub(super) const ICS20_AND_SMT: Space = Space {
    name: "ics20+smt",
    about: "the configurations of ics20, and teams with a thread for each hardware thread of their nodes",
    limited: false,
    thread_counts: Some(|machine| Ok(counts(&teams_with_siblings(machine)?))),
    points: |request| {
        let machine = request.machine();
        let found = points(request, &teams_with_siblings(machine)?);
        let without = machine.has_siblings().not().then(|| {
            format!(
                "teams on siblings are left out: each core of {} has one CPU that may be used",
                machine.name()
            )
        });
        Ok(found.without(without))
    },
};

/// A number of threads on a number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Team {
    threads: usize,
    nodes: usize,
}

/// The space does not define configurations of this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--space ics20 is for machines with two or four nodes, and cores that four divides; {machine} has {nodes} nodes and \
     {cores} cores: use `numa+prefetch`, which keeps the recording's number of threads"
)]
struct UnsuitableMachine {
    machine: String,
    nodes: usize,
    cores: usize,
}

/// Teams with a core for each thread.
fn teams(machine: &SpaceMachine) -> Result<BTreeSet<Team>, UnsuitableMachine> {
    let (nodes, cores) = (machine.nodes().len(), machine.cores());
    if !matches!(nodes, 2 | 4) || !cores.is_multiple_of(4) {
        return Err(UnsuitableMachine {
            machine: machine.name().to_owned(),
            nodes,
            cores,
        });
    }
    let half = cores / 2;
    let fewest = |threads| {
        let nodes = machine.fewest_nodes(threads).unwrap_or(nodes);
        Team { threads, nodes }
    };
    let mut teams = BTreeSet::from([cores / 4, half, cores].map(fewest));
    teams.insert(Team {
        threads: half,
        nodes: fewest(half).nodes.max(2),
    });
    Ok(teams)
}

/// Teams with a core for each thread, and teams with a PU for each thread.
fn teams_with_siblings(machine: &SpaceMachine) -> Result<BTreeSet<Team>, UnsuitableMachine> {
    let mut teams = teams(machine)?;
    let nodes: BTreeSet<usize> = teams.iter().map(|team| team.nodes).collect();
    if machine.has_siblings() {
        teams.extend(nodes.into_iter().map(|nodes| Team {
            threads: machine.pus_of(nodes),
            nodes,
        }));
    }
    Ok(teams)
}

/// The numbers of threads, ascending.
fn counts(teams: &BTreeSet<Team>) -> Vec<usize> {
    let counts: BTreeSet<usize> = teams.iter().map(|team| team.threads).collect();
    counts.into_iter().collect()
}

/// The configurations of the teams with the request's number of threads.
fn points(request: &Request<'_>, teams: &BTreeSet<Team>) -> Selection {
    let (points, machine) = (&request.points, request.machine());
    let settings = machine.prefetcher_settings();
    let of_size = teams.iter().filter(|team| team.threads == points.threads);
    let placed = of_size.flat_map(|team| on_nodes(points, team.nodes));
    let all = placed.flat_map(|(pinning, pages)| {
        let set = settings
            .iter()
            .map(|&setting| points.point(pinning.clone(), pages, setting));
        set.collect::<Vec<_>>()
    });
    Selection::of(all)
        .without(machine.page_maps_left_out())
        .without(machine.prefetchers_left_out())
}

/// Whether a configuration is the one against which the paper's speed-ups are (section 3.1): a thread on each core,
/// scatter, locality, and all prefetchers on.
pub fn is_baseline(machine: &SpaceMachine, point: &Point) -> bool {
    point.threads == machine.cores()
        && point.threads_per_core == 1
        && point.num_nodes == machine.nodes().len()
        && point.thread_map == Some(ThreadMap::Scatter)
        && point.pages == PageMapping::Locality
        && point.prefetchers == Prefetchers::ALL
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::{simulated, uneven};
    use super::super::page_map_name;
    use super::super::point::Points;
    use super::*;
    use std::collections::BTreeMap;

    fn all(machine: &SpaceMachine, teams: &BTreeSet<Team>) -> Vec<Point> {
        let of = |threads| {
            let request = Request {
                points: Points::new(machine, threads),
                limit: None,
            };
            points(&request, teams).points
        };
        counts(teams).into_iter().flat_map(of).collect()
    }

    /// The NUMA configurations by threads and nodes, each with its number, and the number of all configurations.
    fn counted(points: &[Point]) -> (Vec<(usize, usize, usize)>, usize) {
        type Names = BTreeSet<(Option<&'static str>, &'static str)>;
        let mut numa: BTreeMap<(usize, usize), Names> = BTreeMap::new();
        for point in points {
            let name = (point.thread_map.map(ThreadMap::name), page_map_name(point.pages));
            numa.entry((point.threads, point.num_nodes)).or_default().insert(name);
        }
        let counted = numa
            .into_iter()
            .map(|((threads, nodes), names)| (threads, nodes, names.len()));
        (counted.collect(), points.len())
    }

    fn ics20(machine: &SpaceMachine) -> (Vec<(usize, usize, usize)>, usize) {
        counted(&all(machine, &teams(machine).unwrap()))
    }

    #[test]
    fn four_nodes_have_the_papers_18_and_288_configurations() {
        let numa = vec![(8, 1, 2), (16, 2, 8), (32, 4, 8)];
        assert_eq!(ics20(&simulated("e5-4650x4")), (numa, 288));
    }

    #[test]
    fn two_nodes_have_the_papers_20_and_320_configurations() {
        let numa = vec![(12, 1, 2), (24, 1, 2), (24, 2, 8), (48, 2, 8)];
        assert_eq!(ics20(&simulated("platinum-8168x2")), (numa, 320));
    }

    #[test]
    fn teams_on_siblings_are_on_the_nodes_of_the_others() {
        let two = uneven(&[&[2; 16], &[2; 16]]);
        let points = all(&two, &teams_with_siblings(&two).unwrap());
        let numa = vec![(8, 1, 2), (16, 1, 2), (16, 2, 8), (32, 1, 2), (32, 2, 8), (64, 2, 8)];
        assert_eq!(counted(&points), (numa, 30));
        for point in &points {
            let siblings = matches!((point.threads, point.num_nodes), (32, 1) | (64, 2));
            assert_eq!(point.threads_per_core, if siblings { 2 } else { 1 }, "{point:?}");
            assert!(point.thread_map.is_some(), "{point:?}");
        }
        let four = simulated("e5-4650x4");
        let points = all(&four, &teams_with_siblings(&four).unwrap());
        let numa = vec![(8, 1, 2), (16, 1, 2), (16, 2, 8), (32, 2, 8), (32, 4, 8), (64, 4, 8)];
        assert_eq!(counted(&points), (numa, 36 * 16));
    }

    #[test]
    fn a_machine_without_siblings_has_the_space_of_the_paper_and_says_why() {
        let machine = uneven(&[&[1; 4], &[1; 4]]);
        assert_eq!(teams_with_siblings(&machine).unwrap(), teams(&machine).unwrap());
        let request = Request {
            points: Points::new(&machine, 8),
            limit: None,
        };
        let found = (ICS20_AND_SMT.points)(&request).unwrap();
        assert_eq!(
            found.left_out.last().unwrap(),
            "teams on siblings are left out: each core of uneven has one CPU that may be used"
        );
    }

    #[test]
    fn one_configuration_is_the_baseline() {
        for name in ["e5-4650x4", "platinum-8168x2"] {
            let machine = simulated(name);
            for teams in [teams(&machine), teams_with_siblings(&machine)] {
                let mut points = all(&machine, &teams.unwrap());
                points.retain(|point| is_baseline(&machine, point));
                assert_eq!(points.len(), 1, "{name}");
                assert_eq!(points[0].threads, machine.cores());
                assert_eq!(points[0].prefetchers.to_string(), "0000");
            }
        }
    }

    #[test]
    fn another_number_of_threads_has_no_configuration_and_another_machine_an_error() {
        let machine = simulated("e5-4650x4");
        let request = Request {
            points: Points::new(&machine, 12),
            limit: None,
        };
        assert_eq!(points(&request, &teams(&machine).unwrap()).points, []);
        for (machine, said) in [
            (simulated("clovertown"), "clovertown has 1 nodes"),
            (
                uneven(&[&[1], &[1, 1]]),
                "uneven has 2 nodes and 3 cores: use `numa+prefetch`",
            ),
        ] {
            let error = teams(&machine).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn nodes_of_different_sizes_have_a_core_for_each_thread() {
        let machine = uneven(&[&[1, 1, 1], &[], &[1; 5]]);
        let points = all(&machine, &teams(&machine).unwrap());
        assert!(points.iter().all(|point| point.threads_per_core == 1));
        let numa = vec![(2, 1, 2), (4, 2, 8), (8, 2, 8)];
        assert_eq!(counted(&points), (numa, 18));
    }
}
