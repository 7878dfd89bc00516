//! The features of a placement model: figures of one sample under the default strategy, and of the machine.
//!
//! All are ratios, so that a model can be used on other machines than the ones of its training data. The events are the
//! ones that SAM counts for each task, because every event set has them, and lines from memory if the event set has
//! them: prefetchers read lines that no instruction misses. The traffic of a node's memory is not counted for a task.
//! It is estimated from remote misses: a task that finds its data in its own node's memory runs on the node of the
//! data.

use crate::sam::TaskRates;
use pinfold_core::{PuId, Topology};
use std::time::Duration;

/// The peak bandwidths and latencies of the machine. A value that is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachinePeaks {
    /// Bytes per second of one node's memory.
    pub node_bandwidth: Option<f64>,
    /// Bytes per second of the narrowest link between nodes.
    pub link_bandwidth: Option<f64>,
    /// The mean latency of remote memory over the latency of local memory.
    pub latency_ratio: Option<f64>,
    /// Cycles per second of a core.
    pub frequency: Option<f64>,
}

/// A feature: its name in model files, and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The name.
    pub name: &'static str,
    /// The meaning, for messages.
    pub meaning: &'static str,
}

macro_rules! features {
    ($($name:literal: $meaning:literal,)*) => {
        [$(Feature { name: $name, meaning: $meaning },)*]
    };
}

/// All features of a program and of its machine, in the order of [`observe`]'s values.
pub const FEATURES: [Feature; 19] = features! {
    "ipc": "instructions per unhalted cycle",
    "llc_misses_per_instruction": "misses of the last-level cache per instruction",
    "remote_share": "accesses to memory of other nodes, over all misses of the last-level cache",
    "intra_package_coherence": "transfers between caches of a package, per instruction",
    "inter_package_coherence": "transfers between packages, per instruction",
    "memory_load": "misses of the last-level cache in bytes, over what all memory can carry",
    "memory_imbalance": "what the busiest node's memory carries, over the mean of all nodes, by where tasks find their data",
    "busiest_memory_load": "what the busiest node's memory carries, over what it can carry",
    "miss_imbalance": "misses of the busiest node's tasks, over the mean of all nodes",
    "reads_per_instruction": "lines from memory, for prefetches as well, per instruction",
    "remote_reads_share": "lines from memory of other nodes, over all lines from memory",
    "read_load": "lines from memory in bytes, over what all memory can carry",
    "read_imbalance": "what the busiest node's memory sends, over the mean of all nodes, by where tasks find their data",
    "busiest_read_load": "what the busiest node's memory sends, over what it can carry",
    "nodes": "NUMA nodes",
    "cores_per_node": "cores of a node",
    "latency_ratio": "mean latency of other nodes' memory, over that of the own",
    "memory_bytes_per_cycle": "bytes that a node's memory can carry per cycle and core",
    "link_over_memory": "what the narrowest link between nodes can carry, over a node's memory",
};

/// The features that describe the machine: a model is used only within the values of its training data.
pub const OF_MACHINE: [&str; 5] = [
    "nodes",
    "cores_per_node",
    "latency_ratio",
    "memory_bytes_per_cycle",
    "link_over_memory",
];

/// The features that describe a strategy: 1 if neighbouring threads are on different nodes, and 1 if pages are
/// interleaved. [`observe`] has no values for them.
pub const OF_STRATEGY: [&str; 2] = ["scatter", "interleave"];

/// Bytes that a miss brings.
const LINE: f64 = 64.0;

/// The values of [`FEATURES`]; `None` for a value that is not known.
///
/// - `rates`: the rates of all working tasks over the sample.
/// - `lasts`: the length of the sample.
pub fn observe(
    rates: &[TaskRates],
    lasts: Duration,
    topology: &Topology,
    peaks: &MachinePeaks,
) -> [Option<f64>; FEATURES.len()] {
    let nodes = topology.nodes_with_pus().count();
    let cores = topology.objects_of(pinfold_core::ObjectKind::Core).count();
    let cores_per_node = (nodes > 0).then(|| cores as f64 / nodes as f64);
    let counted = CountedRates::of(rates, lasts, topology, peaks);
    let per_instruction = |count: Option<f64>| ratio(count?, counted.instructions?);
    let busy_of_all = peaks.node_bandwidth.map(|bytes| bytes * nodes as f64);
    let load = |lines: Option<f64>| ratio(counted.per_second(lines?)? * LINE, busy_of_all?);
    // A program without misses has no remote ones.
    let share = |some: Option<f64>, all: Option<f64>| Some(ratio(some?, all?).unwrap_or(0.0));
    let product = |load: Option<f64>, over_mean: Option<f64>| Some(load? * over_mean?);
    let (memory_load, read_load) = (load(counted.misses), load(counted.reads));
    let memory_imbalance = counted.own.as_deref().map(imbalance);
    let read_imbalance = counted.own_reads.as_deref().map(imbalance);
    [
        counted.instructions.and_then(|count| ratio(count, counted.cycles)),
        per_instruction(counted.misses),
        share(counted.remote, counted.misses),
        per_instruction(counted.intra),
        per_instruction(counted.inter),
        memory_load,
        memory_imbalance,
        product(memory_load, memory_imbalance),
        counted.missed.as_deref().map(imbalance),
        per_instruction(counted.reads),
        share(counted.remote_reads, counted.reads),
        read_load,
        read_imbalance,
        product(read_load, read_imbalance),
        Some(nodes as f64),
        cores_per_node,
        peaks.latency_ratio,
        peaks
            .node_bandwidth
            .zip(cores_per_node)
            .zip(peaks.frequency)
            .and_then(|((bytes, cores), frequency)| ratio(bytes, cores * frequency)),
        peaks
            .link_bandwidth
            .zip(peaks.node_bandwidth)
            .and_then(|(link, memory)| ratio(link, memory)),
    ]
}

/// Counts of a sample, up to the factor of one task's cycles in it.
struct CountedRates {
    /// Cycles per second of a task that ran all the time; `None` for an empty sample, too.
    frequency: Option<f64>,
    /// The sum of the tasks' busy shares of the sample.
    cycles: f64,
    instructions: Option<f64>,
    misses: Option<f64>,
    remote: Option<f64>,
    intra: Option<f64>,
    inter: Option<f64>,
    reads: Option<f64>,
    remote_reads: Option<f64>,
    /// By node: misses of its tasks that local memory served.
    own: Option<Vec<f64>>,
    /// By node: all misses of its tasks.
    missed: Option<Vec<f64>>,
    /// By node: lines that its tasks read from local memory.
    own_reads: Option<Vec<f64>>,
}

impl CountedRates {
    fn of(rates: &[TaskRates], lasts: Duration, topology: &Topology, peaks: &MachinePeaks) -> Self {
        let sum = |of: fn(&TaskRates) -> Option<f64>| {
            let counts = rates.iter().map(|task| Some(of(task)? * task.busy));
            counts.sum::<Option<f64>>().filter(|_| !rates.is_empty())
        };
        let by_node = |of: fn(&TaskRates) -> Option<f64>| {
            let mut nodes: Vec<f64> = vec![0.0; topology.nodes().len()];
            for task in rates {
                nodes[node_of(topology, task.pu)?] += of(task)? * task.busy;
            }
            let used = topology
                .nodes()
                .iter()
                .zip(nodes)
                .filter(|(node, _)| !node.pus.is_empty());
            (!rates.is_empty()).then(|| used.map(|(_, count)| count).collect())
        };
        Self {
            frequency: peaks.frequency.filter(|_| !lasts.is_zero()),
            cycles: rates.iter().map(|task| task.busy).sum(),
            instructions: sum(|task| task.progress),
            misses: sum(|task| task.memory),
            remote: sum(|task| task.remote),
            intra: sum(|task| task.intra),
            inter: sum(|task| task.inter),
            reads: sum(|task| task.reads.map(|reads| reads.local + reads.remote)),
            remote_reads: sum(|task| task.reads.map(|reads| reads.remote)),
            // Different counters are multiplexed, so that a difference may be below zero.
            own: by_node(|task| Some((task.memory? - task.remote?).max(0.0))),
            missed: by_node(|task| task.memory),
            own_reads: by_node(|task| task.reads.map(|reads| reads.local)),
        }
    }

    /// A count of all tasks per second.
    fn per_second(&self, count: f64) -> Option<f64> {
        Some(count * self.frequency?)
    }
}

/// The largest value over the mean; 1 if all are zero.
fn imbalance(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let most = values.iter().copied().fold(0.0, f64::max);
    ratio(most * values.len() as f64, sum).unwrap_or(1.0)
}

fn ratio(one: f64, over: f64) -> Option<f64> {
    (over > 0.0).then(|| one / over)
}

/// The position of the node that has this PU.
fn node_of(topology: &Topology, pu: PuId) -> Option<usize> {
    topology.nodes().iter().position(|node| node.pus.contains(pu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sam::Reads;
    use crate::synthetic::synthetic;
    use pinfold_core::{PuSet, TaskId};
    use std::sync::Arc;

    const SECOND: Duration = Duration::from_secs(1);

    /// Two nodes of two cores.
    fn topology() -> Topology {
        synthetic("package:2 numa:1 core:2 pu:1")
    }

    fn task(pu: u32, memory: f64, remote: f64) -> TaskRates {
        let number = i32::try_from(pu).unwrap();
        TaskRates {
            id: TaskId {
                serial: u64::from(pu),
                process: 1,
                thread: number,
            },
            pu: PuId(pu),
            allowed: Arc::new(PuSet::new()),
            busy: 1.0,
            inter: Some(0.002),
            intra: Some(0.0),
            remote: Some(remote),
            memory: Some(memory),
            progress: Some(2.0),
            group: None,
            // Prefetchers bring three lines for each miss.
            reads: Some(Reads {
                local: 4.0 * (memory - remote),
                remote: 4.0 * remote,
            }),
        }
    }

    fn peaks() -> MachinePeaks {
        MachinePeaks {
            node_bandwidth: Some(16e9),
            link_bandwidth: Some(4e9),
            latency_ratio: Some(1.5),
            frequency: Some(2e9),
        }
    }

    fn value(rates: &[TaskRates], peaks: &MachinePeaks, name: &str) -> Option<f64> {
        let place = FEATURES.iter().position(|feature| feature.name == name).unwrap();
        observe(rates, SECOND, &topology(), peaks)[place]
    }

    #[test]
    fn a_program_whose_pages_are_on_one_node_has_its_memory_out_of_balance() {
        // The tasks of node 0 find their data there, and those of node 1 find it there, too.
        let rates = [
            task(0, 0.01, 0.0),
            task(1, 0.01, 0.0),
            task(2, 0.01, 0.01),
            task(3, 0.01, 0.01),
        ];
        let of = |name| value(&rates, &peaks(), name).unwrap();
        assert!((of("memory_imbalance") - 2.0).abs() < 1e-12);
        assert!((of("remote_share") - 0.5).abs() < 1e-12);
        assert!((of("miss_imbalance") - 1.0).abs() < 1e-12);
        // 0.04 misses a cycle of 64 bytes at 2 GHz are 5.12 GB/s, of 32.
        assert!((of("memory_load") - 0.16).abs() < 1e-12);
        assert!((of("busiest_memory_load") - 0.32).abs() < 1e-12);
        assert!((of("ipc") - 2.0).abs() < 1e-12);
        assert!((of("llc_misses_per_instruction") - 0.005).abs() < 1e-12);
        assert!((of("inter_package_coherence") - 0.001).abs() < 1e-12);
        assert!((of("reads_per_instruction") - 0.02).abs() < 1e-12);
        assert!((of("remote_reads_share") - 0.5).abs() < 1e-12 && (of("read_imbalance") - 2.0).abs() < 1e-12);
        assert!((of("read_load") - 0.64).abs() < 1e-12 && (of("busiest_read_load") - 1.28).abs() < 1e-12);
    }

    #[test]
    fn the_machine_is_described_by_ratios() {
        let of = |name| value(&[task(0, 0.0, 0.0)], &peaks(), name).unwrap();
        assert!((of("nodes") - 2.0).abs() < 1e-12 && (of("cores_per_node") - 2.0).abs() < 1e-12);
        assert!((of("memory_bytes_per_cycle") - 4.0).abs() < 1e-12);
        assert!((of("link_over_memory") - 0.25).abs() < 1e-12);
    }

    #[test]
    fn a_program_that_misses_nothing_is_in_balance() {
        let of = |name| value(&[task(0, 0.0, 0.0)], &peaks(), name);
        assert_eq!((of("memory_imbalance"), of("remote_share")), (Some(1.0), Some(0.0)));
        assert_eq!((of("read_imbalance"), of("remote_reads_share")), (Some(1.0), Some(0.0)));
    }

    #[test]
    fn what_is_not_counted_or_not_known_is_missing_and_not_zero() {
        let mut one = task(0, 0.01, 0.0);
        one.remote = None;
        let of = |name| value(&[task(1, 0.01, 0.0), one.clone()], &peaks(), name);
        assert_eq!(
            (of("remote_share"), of("memory_imbalance"), of("busiest_memory_load")),
            (None, None, None)
        );
        assert!(of("memory_load").is_some() && of("ipc").is_some() && of("read_load").is_some());
        one.reads = None;
        let of = |name| value(&[task(1, 0.01, 0.0), one.clone()], &peaks(), name);
        assert_eq!(
            (of("read_load"), of("read_imbalance"), of("remote_reads_share")),
            (None, None, None)
        );
        let unknown = MachinePeaks::default();
        assert_eq!(value(&[task(0, 0.01, 0.0)], &unknown, "memory_load"), None);
        for feature in FEATURES
            .iter()
            .filter(|feature| !["nodes", "cores_per_node"].contains(&feature.name))
        {
            assert_eq!(value(&[], &unknown, feature.name), None, "{}", feature.name);
        }
    }

    #[test]
    fn a_task_counts_for_as_long_as_it_ran() {
        let mut idle = task(1, 0.03, 0.03);
        idle.busy = 0.0;
        let rates = [task(0, 0.01, 0.0), idle];
        assert_eq!(value(&rates, &peaks(), "remote_share"), Some(0.0));
    }
}
