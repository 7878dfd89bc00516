//! An analytical model of a machine for tests of the mapper: sharing and memory demand of the tasks are given, and
//! rates follow from the places of the tasks. Nothing is measured or simulated in detail.

use pinfold_core::{Cache, CacheType, NodeId, NumaNode, ObjectKind, PuId, PuSet, TaskId, Topology, TopologyBuilder};
use pinfold_policy::sam::{Mapper, Move, TaskRates, Thresholds};
use std::sync::Arc;

/// Packages with one node each, with these numbers of last-level caches, cores per cache and PUs per core. PUs are
/// numbered as on the paper's machine: the first PUs of all cores come first.
pub(crate) fn machine(packages: u32, caches: u32, cores: u32, siblings: u32) -> Topology {
    let mut builder = TopologyBuilder::new("machine");
    let all = packages * caches * cores;
    let mut core = 0;
    for package in 0..packages {
        let object = builder.object(builder.root(), ObjectKind::Package, Some(package));
        let mut pus = PuSet::new();
        for _ in 0..caches {
            let llc = Cache {
                level: 3,
                cache_type: CacheType::Unified,
                size: Some(25 << 20),
                line_size: Some(64),
                ways: Some(20),
            };
            let llc = builder.cache(object, llc);
            for _ in 0..cores {
                let object = builder.object(llc, ObjectKind::Core, Some(core));
                for sibling in 0..siblings {
                    builder.pu(object, PuId(core + sibling * all));
                    pus.insert(PuId(core + sibling * all));
                }
                core += 1;
            }
        }
        builder.node(NumaNode {
            id: NodeId(package),
            attached_to: object,
            pus,
            memory: Some(8 << 30),
            subtype: None,
        });
    }
    builder.build_all().unwrap()
}

/// The paper's: two E5-2660 v2.
pub(crate) fn paper_machine() -> Topology {
    machine(2, 1, 10, 2)
}

/// What a task does.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) process: i32,
    pub(crate) pu: PuId,
    pub(crate) allowed: Arc<PuSet>,
    /// The group with which it shares, and its coherence events per cycle.
    pub(crate) shares: Option<(u32, f64)>,
    /// Misses per cycle where the bandwidth is sufficient.
    pub(crate) memory: f64,
    /// The node of its memory.
    pub(crate) home: NodeId,
}

pub(crate) struct World {
    domains: Vec<PuSet>,
    pub(crate) topology: Topology,
    pub(crate) tasks: Vec<Task>,
    pub(crate) thresholds: Thresholds,
    pub(crate) mapper: Mapper,
    /// Whether the rates name the groups, as those of wake-ups do.
    pub(crate) names_groups: bool,
}

impl World {
    /// The serial of a task is its position.
    pub(crate) fn rates(&self) -> Vec<TaskRates> {
        (0..self.tasks.len()).map(|task| self.rates_of(task)).collect()
    }

    fn rates_of(&self, index: usize) -> TaskRates {
        let task = &self.tasks[index];
        let (inter, intra) = self.coherence(index);
        let node = self.node(task.pu);
        let demand: f64 = self
            .tasks
            .iter()
            .filter(|other| self.node(other.pu) == node)
            .map(|other| other.memory)
            .sum();
        // Memory gives a quarter more than the threshold, which is 20 % below what it can.
        let squeezed = (1.25 * self.thresholds.package_memory / demand.max(1e-12)).min(1.0);
        let memory = task.memory * squeezed;
        let remote = if node == task.home { 0.0 } else { memory };
        let slower = 1.0 + 0.05 * inter / self.thresholds.coherence + 0.3 * f64::from(remote > 0.0);
        TaskRates {
            id: self.id(index),
            pu: task.pu,
            allowed: Arc::clone(&task.allowed),
            busy: 1.0,
            inter: Some(inter),
            intra: Some(intra),
            remote: Some(remote),
            memory: Some(memory),
            progress: Some(squeezed / slower),
            group: task.shares.map(|(group, _)| group).filter(|_| self.names_groups),
            reads: None,
        }
    }

    pub(crate) fn id(&self, index: usize) -> TaskId {
        let process = self.tasks[index].process;
        TaskId {
            serial: index as u64,
            process,
            thread: process + 1 + i32::try_from(index).unwrap(),
        }
    }

    /// Coherence events of a task with those that are under other last-level caches, and with those under its own.
    fn coherence(&self, index: usize) -> (f64, f64) {
        let Some((group, rate)) = self.tasks[index].shares else {
            return (0.0, 0.0);
        };
        let with = |other: &&Task| other.shares.is_some_and(|(theirs, _)| theirs == group);
        let others: Vec<&Task> = self.tasks.iter().filter(with).collect();
        let here = self.domain(self.tasks[index].pu);
        let near = others.iter().filter(|other| self.domain(other.pu) == here).count() - 1;
        let all = (others.len() - 1).max(1) as f64;
        let share = near as f64 / all;
        (rate * (1.0 - share), rate * share)
    }

    pub(crate) fn domain(&self, pu: PuId) -> usize {
        self.domains.iter().position(|pus| pus.contains(pu)).unwrap()
    }

    pub(crate) fn node(&self, pu: PuId) -> NodeId {
        self.topology
            .nodes()
            .iter()
            .find(|node| node.pus.contains(pu))
            .unwrap()
            .id
    }

    /// One interval: the mapper decides and its moves are made.
    pub(crate) fn step(&mut self) -> Vec<Move> {
        let rates = self.rates();
        let moves = self.mapper.decide(&rates).to_vec();
        for made in &moves {
            let index = usize::try_from(made.task.serial).unwrap();
            assert_eq!(self.tasks[index].pu, made.from, "a move begins where the task is");
            self.tasks[index].pu = made.to;
        }
        moves
    }

    /// So many intervals; all moves, with the interval of each.
    pub(crate) fn run(&mut self, intervals: usize) -> Vec<(usize, Move)> {
        (0..intervals)
            .flat_map(|interval| self.step().into_iter().map(move |made| (interval, made)))
            .collect()
    }

    /// By domain: how many tasks of these are there.
    pub(crate) fn spread(&self, tasks: std::ops::Range<usize>) -> Vec<usize> {
        let mut spread = vec![0; self.domains.len()];
        for task in &self.tasks[tasks] {
            spread[self.domain(task.pu)] += 1;
        }
        spread
    }
}

/// Builds a world task by task.
#[derive(Clone, Debug)]
pub(crate) struct Builder {
    topology: Topology,
    tasks: Vec<Task>,
}

impl Builder {
    pub(crate) fn new(topology: Topology) -> Self {
        Self {
            topology,
            tasks: vec![],
        }
    }

    /// A task on this PU that shares with those of a group.
    pub(crate) fn sharer(mut self, process: i32, pu: u32, group: u32, rate: f64) -> Self {
        self.push(process, pu, Some((group, rate)), 0.0);
        self
    }

    /// A task that needs memory.
    pub(crate) fn streamer(mut self, process: i32, pu: u32, memory: f64) -> Self {
        self.push(process, pu, None, memory);
        self
    }

    /// A task that computes.
    pub(crate) fn computer(mut self, process: i32, pu: u32) -> Self {
        self.push(process, pu, None, 0.0);
        self
    }

    fn push(&mut self, process: i32, pu: u32, shares: Option<(u32, f64)>, memory: f64) {
        let pu = PuId(pu);
        let home = self
            .topology
            .nodes()
            .iter()
            .find(|node| node.pus.contains(pu))
            .unwrap()
            .id;
        let allowed = Arc::new(self.topology.allowed_pus().clone());
        self.tasks.push(Task {
            process,
            pu,
            allowed,
            shares,
            memory,
            home,
        });
    }

    pub(crate) fn world(self, options: pinfold_policy::sam::MapperOptions) -> World {
        let thresholds = Thresholds::paper();
        let domains = self.topology.llc_domains();
        World {
            domains: domains.iter().map(|&id| self.topology.object(id).pus.clone()).collect(),
            mapper: Mapper::new(&self.topology, thresholds.clone(), options),
            topology: self.topology,
            tasks: self.tasks,
            thresholds,
            names_groups: false,
        }
    }
}
