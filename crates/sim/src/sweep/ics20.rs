//! The space `ics20` of Sánchez Barrera et al. (ICS 2020, section 2). The number of threads is a part of a
//! configuration.
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
//! Known limits: machines have two or four nodes, as the paper's, and a number of cores that four divides.

use super::point::Point;
use super::space::{distinct, on_nodes, prefetcher_settings};
use crate::model::Model;
use crate::window::{PageMapping, Prefetchers};
use pinfold_core::ThreadMap;

/// The space does not define configurations of this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--space ics20 is for machines with two or four nodes, and cores that four divides; {machine} has {nodes} nodes and \
     {cores} cores: use `numa+prefetch`, which keeps the recording's number of threads"
)]
pub struct UnsuitableMachine {
    machine: String,
    nodes: usize,
    cores: usize,
}

/// The numbers of threads of its configurations, ascending.
///
/// # Errors
///
/// The machine is unsuitable.
pub fn thread_counts(model: &Model) -> Result<[usize; 3], UnsuitableMachine> {
    let (nodes, cores) = (model.nodes(), model.cores());
    if !matches!(nodes, 2 | 4) || !cores.is_multiple_of(4) {
        return Err(UnsuitableMachine {
            machine: model.name.clone(),
            nodes,
            cores,
        });
    }
    Ok([cores / 4, cores / 2, cores])
}

/// The configurations with `threads` threads; none for a number that the space does not have.
///
/// # Errors
///
/// The machine is unsuitable.
pub fn points(model: &Model, threads: usize) -> Result<Vec<Point>, UnsuitableMachine> {
    let [quarter, half, all] = thread_counts(model)?;
    let fewest = threads.div_ceil(model.cores() / model.nodes());
    let nodes = match threads {
        _ if threads == half && fewest == 1 => vec![1, 2],
        _ if [quarter, half, all].contains(&threads) => vec![fewest],
        _ => vec![],
    };
    let settings = prefetcher_settings(model);
    let placed = nodes.into_iter().flat_map(|nodes| on_nodes(model, threads, nodes));
    Ok(distinct(placed.flat_map(|(pinning, pages)| {
        let point = |&setting| Point::new(model, threads, pinning.clone(), pages, setting);
        settings.iter().map(point).collect::<Vec<_>>()
    })))
}

/// Whether a configuration of `threads` threads is the one against which the paper's speed-ups are (section 3.1): all
/// cores, scatter, locality, and all prefetchers on.
pub fn is_baseline(model: &Model, threads: usize, point: &Point) -> bool {
    threads == model.cores()
        && point.num_nodes == model.nodes()
        && point.thread_map == Some(ThreadMap::Scatter)
        && point.configuration.pages == PageMapping::Locality
        && point.configuration.prefetchers == Prefetchers::ALL
}

#[cfg(test)]
mod tests {
    use super::super::page_map_name;
    use super::*;
    use crate::model::builtin;
    use std::collections::BTreeSet;

    /// The NUMA configurations by threads and nodes, each with its number, and the number of all configurations.
    fn counted(machine: &str) -> (Vec<(usize, usize, usize)>, usize) {
        let model = builtin(machine).unwrap();
        let mut counted = vec![];
        let mut all = 0;
        for threads in thread_counts(&model).unwrap() {
            let points = points(&model, threads).unwrap();
            all += points.len();
            for nodes in 1..=model.nodes() {
                let numa: BTreeSet<(Option<&str>, &str)> = points
                    .iter()
                    .filter(|point| point.num_nodes == nodes)
                    .map(|point| {
                        let pages = page_map_name(point.configuration.pages);
                        (point.thread_map.map(ThreadMap::name), pages)
                    })
                    .collect();
                if !numa.is_empty() {
                    counted.push((threads, nodes, numa.len()));
                }
            }
        }
        (counted, all)
    }

    #[test]
    fn four_nodes_have_the_papers_18_and_288_configurations() {
        let numa = vec![(8, 1, 2), (16, 2, 8), (32, 4, 8)];
        assert_eq!(counted("e5-4650x4"), (numa, 288));
    }

    #[test]
    fn two_nodes_have_the_papers_20_and_320_configurations() {
        let numa = vec![(12, 1, 2), (24, 1, 2), (24, 2, 8), (48, 2, 8)];
        assert_eq!(counted("platinum-8168x2"), (numa, 320));
    }

    #[test]
    fn one_configuration_is_the_baseline() {
        for machine in ["e5-4650x4", "platinum-8168x2"] {
            let model = builtin(machine).unwrap();
            let baselines: Vec<(usize, Point)> = thread_counts(&model)
                .unwrap()
                .into_iter()
                .flat_map(|threads| {
                    points(&model, threads)
                        .unwrap()
                        .into_iter()
                        .map(move |one| (threads, one))
                })
                .filter(|(threads, point)| is_baseline(&model, *threads, point))
                .collect();
            assert_eq!(baselines.len(), 1, "{machine}");
            let (threads, point) = &baselines[0];
            assert_eq!(*threads, model.cores());
            assert_eq!(point.configuration.prefetchers.to_string(), "0000");
        }
    }

    #[test]
    fn another_number_of_threads_has_no_configuration_and_another_machine_an_error() {
        let model = builtin("e5-4650x4").unwrap();
        assert_eq!(points(&model, 12).unwrap(), []);
        let model = builtin("clovertown").unwrap();
        let error = points(&model, 8).unwrap_err().to_string();
        assert!(error.contains("clovertown has 1 nodes"), "{error}");
    }
}
