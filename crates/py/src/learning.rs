//! What learning shares with the policies: each of these exists once, in the crates of the policies.

use pinfold_core::{NodeId, NumaNode, ObjectKind, PuId, PuSet, ThreadMap, TopologyBuilder, hint};
use pinfold_policy::classify::{FEATURES, OF_MACHINE, OF_STRATEGY};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The PU of each thread that a thread map places on the first nodes of a machine; `None` if it cannot.
///
/// # Errors
///
/// The thread map is unknown, or the machine has no PU.
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes a list by value")]
#[pyfunction]
pub(crate) fn map_threads(
    machine: Vec<Vec<Vec<u32>>>,
    threads: usize,
    nodes: usize,
    thread_map: &str,
) -> PyResult<Option<Vec<u32>>> {
    let wrong = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    let mut builder = TopologyBuilder::new("nodes");
    for (id, cores) in (0..).zip(&machine) {
        let package = builder.object(builder.root(), ObjectKind::Package, Some(id));
        for core in cores {
            let object = builder.object(package, ObjectKind::Core, None);
            for &pu in core {
                builder.pu(object, PuId(pu));
            }
        }
        let pus: PuSet = cores.iter().flatten().copied().map(PuId).collect();
        builder.node(NumaNode {
            id: NodeId(id),
            attached_to: package,
            pus,
            memory: None,
            subtype: None,
        });
    }
    let topology = builder.build_all().map_err(|error| wrong(&error))?;
    let pinning = pinfold_core::map_threads(&topology, threads, nodes, known_map(thread_map)?);
    Ok(pinning.map(|pinning| (0..threads).map(|rank| pinning.pu(rank).0).collect()))
}

fn known_map(name: &str) -> PyResult<ThreadMap> {
    let known = ThreadMap::ALL.into_iter().find(|map| map.name() == name);
    known.ok_or_else(|| PyValueError::new_err(format!("`{name}` is no map of threads: compact or scatter")))
}

/// The number of threads that must move so that one placement becomes another.
///
/// # Errors
///
/// The placements are not of the same threads on the same machine.
#[pyfunction]
pub(crate) fn moved_threads(mut one: Vec<Vec<usize>>, mut other: Vec<Vec<usize>>) -> PyResult<usize> {
    let threads = |loads: &[Vec<usize>]| loads.iter().flatten().sum::<usize>();
    let shape = |loads: &[Vec<usize>]| loads.iter().map(Vec::len).collect::<Vec<_>>();
    // Packages are in any order: those with equally many domains are interchangeable.
    one.sort_by_key(Vec::len);
    other.sort_by_key(Vec::len);
    if shape(&one) != shape(&other) || threads(&one) != threads(&other) {
        return Err(PyValueError::new_err(format!(
            "{one:?} and {other:?} are not placements of the same threads on the same machine"
        )));
    }
    let alike: Vec<Vec<()>> = one.iter().map(|package| vec![(); package.len()]).collect();
    Ok(hint::moved_threads(&alike, &one, &other))
}

/// The names of the features of a program, of a machine and of a strategy that a model of `classify` sees.
#[pyfunction]
pub(crate) fn classify_features() -> [Vec<&'static str>; 3] {
    let names = FEATURES.iter().map(|feature| feature.name);
    let of_program = names.filter(|name| !OF_MACHINE.contains(name)).collect();
    [of_program, OF_MACHINE.to_vec(), OF_STRATEGY.to_vec()]
}
