//! The PUs of the threads, the nodes of the program's memory, and the counts, over the whole run.
//!
//! 1. Each reading of the counts is a point, as long as there are few.
//! 2. When there are `POINTS` points, every second one is dropped, and from then on a point stands for twice as many
//!    readings. So the size is limited, however long the program runs.
//! 3. A rate is over the time since the last point with a rate: a count that is missing at a point leaves a gap. A PU is
//!    the one at the point. Only a task's changes of PU are kept.
//!
//! Limits: events between two points show in the rates only. Tasks beyond the first `TASKS` are only counted.

use crate::{MetricRate, Totals};
use pinfold_core::{
    Configuration, Metric, NodeId, PageMapping, Pinning, Prefetchers, PuId, PuSet, Sample, TaskId, TaskSample, Topology,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// A page is at most a thousand dots wide, and three dots are the least that the eye separates.
const POINTS: usize = 301;

/// Twice the CPUs of the largest machine model.
const TASKS: usize = 256;

/// The time line of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The machine.
    pub topology: Topology,
    /// The number of readings that a point stands for.
    pub readings: u64,
    /// When each point was read.
    pub at: Vec<f64>,
    /// The rates of every metric.
    pub metrics: Vec<MetricSeries>,
    /// The first tasks of the program, in the order of their creation.
    pub tasks: Vec<TaskPlaces>,
    /// The number of further tasks.
    pub tasks_left_out: u64,
    /// The program's memory on each node; empty if unknown.
    pub nodes: Vec<NodeSeries>,
    /// What the memory of each node carried; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<NodeTraffic>,
    /// What was applied, without settings of single tasks, which change often.
    pub configurations: Vec<TimedConfiguration>,
}

/// The rates of one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricSeries {
    /// The name that `--metric` takes.
    pub name: String,
    /// What one count is.
    pub unit: String,
    /// By point: counts per second since the last point with a rate, of all tasks together; `None` if missing.
    pub rates: Vec<Option<f64>>,
}

/// The PUs of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskPlaces {
    /// The task.
    #[serde(flatten)]
    pub id: TaskId,
    /// Its last known name.
    pub name: String,
    /// The points whose PU differs from the previous point's, each with the PU; `None` after the task's end, and while
    /// the PU is unknown.
    pub places: Vec<(usize, Option<PuId>)>,
}

impl TaskPlaces {
    /// The PU at a point; `None` before the task's start, after its end, and while the PU is unknown.
    pub fn at(&self, point: usize) -> Option<PuId> {
        let later = self.places.partition_point(|&(since, _)| since <= point);
        self.places[..later].last().and_then(|&(_, pu)| pu)
    }
}

/// The program's memory on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSeries {
    /// The node.
    pub node: NodeId,
    /// By point: bytes; `None` if it was not read.
    pub bytes: Vec<Option<u64>>,
}

/// The traffic of the memory of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeTraffic {
    /// The node.
    pub node: NodeId,
    /// By point: bytes per second that it read and wrote since the previous point; `None` if unknown.
    pub rates: Vec<Option<f64>>,
}

/// A configuration that was applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedConfiguration {
    /// When.
    pub at: f64,
    /// The search, from 0, and the position of its candidate; `None` if no candidate has this configuration.
    pub candidate: Option<(usize, usize)>,
    /// The PU of each rank; `None` for unpinned threads.
    pub pus: Option<Pinning>,
    /// The PUs that unpinned threads may use; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<PuSet>,
    /// The mapping of the pages; `None` if they are left alone.
    pub pages: Option<PageMapping>,
    /// The prefetchers that are on; `None` if they are left alone.
    pub prefetch: Option<Prefetchers>,
    /// The number of parallel regions with settings of their own.
    pub regions: usize,
}

impl TimedConfiguration {
    fn is_like(&self, other: &Self) -> bool {
        Self {
            at: 0.0,
            ..self.clone()
        } == Self {
            at: 0.0,
            ..other.clone()
        }
    }
}

/// Makes the time line of the events of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimelineBuilder {
    line: Timeline,
    /// By metric: the growth since the last point.
    totals: Totals,
    metrics: Vec<Metric>,
    /// The bytes that the memory of each node had carried when they were read last, and when that was.
    carried: (f64, BTreeMap<NodeId, f64>),
    positions: HashMap<TaskId, usize>,
    /// Readings since the last point.
    since: u64,
    /// The last reading, if it is not a point.
    pending: Option<Sample>,
}

impl TimelineBuilder {
    pub(super) fn new(topology: &Topology, metrics: &[Metric]) -> Self {
        Self {
            line: Timeline {
                topology: topology.clone(),
                readings: 1,
                at: vec![],
                metrics: metrics
                    .iter()
                    .map(|metric| MetricSeries {
                        name: metric.name.clone(),
                        unit: metric.unit.clone(),
                        rates: vec![],
                    })
                    .collect(),
                tasks: vec![],
                tasks_left_out: 0,
                nodes: vec![],
                traffic: vec![],
                configurations: vec![],
            },
            totals: Totals::default(),
            metrics: metrics.to_vec(),
            carried: (0.0, BTreeMap::new()),
            positions: HashMap::new(),
            since: 0,
            pending: None,
        }
    }

    /// Adds a reading. Returns whether it is a point, so that the memory is to be read as well.
    pub(super) fn sample(&mut self, sample: &Sample) -> bool {
        self.totals.add(sample);
        self.since += 1;
        let is_point = self.line.at.is_empty() || self.since >= self.line.readings;
        if is_point {
            self.point(sample);
        } else {
            self.pending = Some(sample.clone());
        }
        is_point
    }

    /// Adds the memory on each node at the last point.
    pub(super) fn memory(&mut self, by_node: &BTreeMap<NodeId, u64>) {
        let points = self.line.at.len();
        for &node in by_node.keys() {
            if !self.line.nodes.iter().any(|known| known.node == node) {
                let bytes = vec![None; points];
                self.line.nodes.push(NodeSeries { node, bytes });
            }
        }
        self.line.nodes.sort_by_key(|series| series.node);
        for series in &mut self.line.nodes {
            if let Some(last) = series.bytes.last_mut() {
                // A node without any of the program's pages is not listed.
                *last = Some(by_node.get(&series.node).copied().unwrap_or(0));
            }
        }
    }

    /// Adds the bytes that the memory of each node has carried until the last point.
    pub(super) fn traffic(&mut self, carried: &BTreeMap<NodeId, f64>) {
        let points = self.line.at.len();
        let Some(&now) = self.line.at.last() else {
            return;
        };
        let (before, known) = &self.carried;
        let lasted = now - before;
        for (&node, bytes) in carried {
            let rate = (lasted > 0.0).then(|| (bytes - known.get(&node).copied().unwrap_or(0.0)) / lasted);
            let position = self.line.traffic.iter().position(|series| series.node == node);
            let position = position.unwrap_or_else(|| {
                let rates = vec![None; points];
                self.line.traffic.push(NodeTraffic { node, rates });
                self.line.traffic.len() - 1
            });
            if let Some(last) = self.line.traffic[position].rates.last_mut() {
                *last = rate.map(rounded);
            }
        }
        self.carried = (now, carried.clone());
    }

    /// A configuration was applied, for this candidate.
    pub(super) fn applied(&mut self, at: Duration, candidate: Option<(usize, usize)>, configuration: &Configuration) {
        let configuration = TimedConfiguration {
            at: at.as_secs_f64(),
            candidate,
            pus: configuration.pinning.clone(),
            within: configuration.within.clone(),
            pages: configuration.pages,
            prefetch: configuration.prefetchers,
            regions: configuration.regions.len(),
        };
        let last = self.line.configurations.last();
        if !last.is_some_and(|last| last.is_like(&configuration)) {
            self.line.configurations.push(configuration);
        }
    }

    /// The whole time line. The last reading is its last point.
    pub(super) fn finish(mut self) -> Timeline {
        if let Some(last) = self.pending.take() {
            self.point(&last);
        }
        self.smooth_end();
        self.line
    }

    /// The program may end shortly after a reading. A count in so short a time says little: the last two points get the
    /// rate of both parts together.
    fn smooth_end(&mut self) {
        let [.., first, before, last] = self.line.at[..] else {
            return;
        };
        if 2.0 * (last - before) >= before - first {
            return;
        }
        let metrics = self.line.metrics.iter_mut().map(|series| &mut series.rates);
        // The traffic is not read at the last point of a program that ended between two points.
        let traffic = self.line.traffic.iter_mut().map(|series| &mut series.rates);
        let traffic = traffic.filter(|rates| rates.last().is_some_and(Option::is_some));
        for rates in metrics.chain(traffic) {
            if let [.., begin, middle, end] = &mut rates[..]
                && let Some(&both) = merged(&[first, before, last], &[*begin, *middle, *end]).last()
            {
                (*middle, *end) = (both, both);
            }
        }
    }

    fn point(&mut self, sample: &Sample) {
        if self.line.at.len() >= POINTS {
            self.line.thin();
        }
        let point = self.line.at.len();
        self.line.at.push(rounded(sample.at.as_secs_f64()));
        let rates = self.totals.rates(&self.metrics);
        for (series, MetricRate { rate, .. }) in self.line.metrics.iter_mut().zip(rates) {
            series.rates.push(rate.map(rounded));
        }
        for series in &mut self.line.nodes {
            series.bytes.push(None);
        }
        for series in &mut self.line.traffic {
            series.rates.push(None);
        }
        for task in &sample.tasks {
            self.place(point, task);
        }
        self.totals.restart();
        self.pending = None;
        self.since = 0;
    }

    fn place(&mut self, point: usize, task: &TaskSample) {
        let pu = task.last_pu.filter(|_| task.alive);
        let tasks = &mut self.line.tasks;
        let position = match self.positions.get(&task.id) {
            Some(&position) => position,
            None if tasks.len() < TASKS => {
                self.positions.insert(task.id, tasks.len());
                tasks.push(TaskPlaces {
                    id: task.id,
                    name: String::new(),
                    places: vec![],
                });
                tasks.len() - 1
            }
            None => {
                // Serials count the tasks.
                let beyond = (task.id.serial + 1).saturating_sub(TASKS as u64);
                self.line.tasks_left_out = self.line.tasks_left_out.max(beyond);
                return;
            }
        };
        let known = &mut tasks[position];
        if known.name != task.name {
            known.name.clone_from(&task.name);
        }
        if known.places.last().is_none_or(|&(_, last)| last != pu) {
            known.places.push((point, pu));
        }
    }
}

impl Timeline {
    /// Drops every second point, and adds its time to the next one. Each series has a value for each point.
    pub(super) fn thin(&mut self) {
        let times = self.at.clone();
        for series in &mut self.metrics {
            series.rates = merged(&times, &series.rates);
        }
        for series in &mut self.traffic {
            series.rates = merged(&times, &series.rates);
        }
        for series in &mut self.nodes {
            series.bytes = series.bytes.iter().copied().step_by(2).collect();
        }
        for task in &mut self.tasks {
            task.places = every_second_point(&task.places);
        }
        self.at = times.iter().copied().step_by(2).collect();
        self.readings = self.readings.saturating_mul(2);
    }
}

/// The changes of a task's place where every second point is dropped, from the second one on.
pub fn every_second_point<Position: PartialEq + Copy>(places: &[(usize, Position)]) -> Vec<(usize, Position)> {
    let mut kept: Vec<(usize, Position)> = vec![];
    for &(point, place) in places {
        // A change at a point that is dropped is seen at the next one.
        let point = point.div_ceil(2);
        if kept.last().is_some_and(|&(last, _)| last == point) {
            kept.pop();
        }
        if kept.last().is_none_or(|&(_, last)| last != place) {
            kept.push((point, place));
        }
    }
    kept
}

/// The rates of every second point, over the time since the previous point that is kept. If one of the merged points
/// has no rate, neither has the result.
fn merged(times: &[f64], rates: &[Option<f64>]) -> Vec<Option<f64>> {
    let kept = (0..rates.len()).step_by(2);
    kept.map(|point| {
        let Some(before) = point.checked_sub(1) else {
            return rates[point];
        };
        let [begin, middle, end] = [times[before - 1], times[before], times[point]];
        let (first, second) = (rates[before]?, rates[point]?);
        let whole = end - begin;
        (whole > 0.0).then(|| rounded((first * (middle - begin) + second * (end - middle)) / whole))
    })
    .collect()
}

/// A small value with three decimals, a large one as an integer: more digits are noise, and make the file larger.
fn rounded(value: f64) -> f64 {
    if value.abs() >= 10_000.0 {
        value.round()
    } else {
        (value * 1000.0).round() / 1000.0
    }
}

#[cfg(test)]
mod tests;
