//! The counts of the program: the counters of each task, the program's own reports, and what the kernel has of it.
//!
//! A probe counts progress of the program, whichever task enters the function: also a task that hardly works and is not
//! placed. So the counts of a probe are added up over all tasks, ended ones included.
//!
//! If a counter cannot be opened, its value is missing, and a note reports that. The run never ends for it.

use super::io_bytes::IoBytes;
use super::task_sum::TaskSum;
use crate::channel::Channel;
use crate::counters::{Plan, TaskCounters};
use crate::functions::{FunctionCounters, SearchRequest};
use crate::procfs::Procfs;
use pinfold_core::function::FunctionSearch;
use pinfold_core::{Count, Metric, Scope, TaskId, sources};
use std::collections::HashMap;

/// The program is the only subject of its search for a function.
const PROGRAM: i32 = 0;

/// What is counted of a program.
#[derive(Default)]
pub struct Counted {
    /// The events and probes to count for each task.
    pub plan: Option<Plan>,
    /// The channel for the program's own reports. Its variables must be in the program's environment.
    pub channel: Option<Channel>,
    /// Whether the bytes are counted that the program reads and writes.
    pub io: bool,
}

/// The sources of counts, and the open counters.
pub(crate) struct Counting {
    plan: Option<Plan>,
    channel: Option<Channel>,
    io: Option<IoBytes>,
    metrics: Vec<Metric>,
    open: HashMap<u64, TaskCounters>,
    /// The totals of the plan's probes, by the position in `metrics`.
    probes: Vec<(usize, TaskSum)>,
    /// The function that is found in the program, the last metric; `None` if none is looked for.
    function: Option<FunctionCounters>,
    /// Whether a failure to open a task's counters was already reported.
    noted: bool,
}

impl Counting {
    pub(crate) fn new(counted: Counted) -> Self {
        let Counted { plan, channel, io } = counted;
        let io = io.then(IoBytes::new).flatten();
        // The order of `task` and `program`.
        let mut metrics: Vec<Metric> = channel.iter().flat_map(|_| Channel::metrics()).collect();
        metrics.extend(io.iter().map(|_| sources::IO.metric(Scope::Program)));
        let mut probes = vec![];
        for metric in plan.iter().flat_map(Plan::metrics) {
            let mut metric = metric.clone();
            if *metric.source == sources::UPROBE {
                metric.scope = Scope::Program;
                probes.push((metrics.len(), TaskSum::default()));
            }
            metrics.push(metric);
        }
        Self {
            plan,
            channel,
            io,
            metrics,
            open: HashMap::new(),
            probes,
            function: None,
            noted: false,
        }
    }

    /// Adds the metric `function`.
    pub(crate) fn find_functions(&mut self, procfs: Procfs) {
        self.metrics.push(sources::FUNCTION.metric(Scope::Program));
        self.function = Some(FunctionCounters::new(procfs, None));
    }

    /// Begins to look for a function, unless a search runs or has found one.
    pub(crate) fn search_function(&mut self, request: SearchRequest) {
        if let Some(function) = &mut self.function {
            function.search(PROGRAM, request);
        }
    }

    /// Ends the search, and stops to count the found function.
    pub(crate) fn stop_function(&mut self) {
        if let Some(function) = &mut self.function {
            function.stop(PROGRAM);
        }
    }

    /// How far the search for a function is.
    pub(crate) fn function_search(&self) -> FunctionSearch {
        let state = |function: &FunctionCounters| function.state(PROGRAM);
        self.function.as_ref().map(state).unwrap_or_default()
    }

    /// The metrics, the program's own reports first.
    pub(crate) fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The position of the plan's first metric.
    fn first_of_plan(&self) -> usize {
        self.metrics.len() - self.plan.as_ref().map_or(0, |plan| plan.metrics().len())
    }

    /// Opens the counters of a task. The first failure is reported.
    pub(crate) fn open(&mut self, task: TaskId) -> Option<String> {
        match self.plan.as_ref()?.open(task.thread) {
            Ok(counters) => {
                self.open.insert(task.serial, counters);
                None
            }
            Err(error) => (!std::mem::replace(&mut self.noted, true))
                .then(|| format!("{task} is not counted, and others may not be either: {error}")),
        }
    }

    /// Closes the counters of a task, whose last counts were read.
    pub(crate) fn close(&mut self, task: TaskId) {
        self.open.remove(&task.serial);
        for (_, sum) in &mut self.probes {
            sum.end(task.serial);
        }
        if let Some(io) = &mut self.io {
            io.end(task);
        }
    }

    /// The counts of a task, one per metric.
    pub(crate) fn task(&mut self, task: TaskId, alive: bool) -> Vec<Option<Count>> {
        if let Some(io) = &mut self.io {
            io.read(task, alive);
        }
        let mut counts = vec![None; self.first_of_plan()];
        if let Some(counters) = self.open.get_mut(&task.serial) {
            counts.extend(counters.read());
        }
        counts.resize(self.metrics.len(), None);
        for (metric, sum) in &mut self.probes {
            if let Some(count) = counts[*metric].take() {
                sum.read(task.serial, count.value);
            }
        }
        counts
    }

    /// The counts of the program, one per metric, after `task` has read all living tasks.
    pub(crate) fn program(&mut self) -> Vec<Option<Count>> {
        let mut counts = vec![];
        if let Some(channel) = &self.channel {
            counts.extend(channel.totals().counts().map(|total| total.map(Count::exact)));
        }
        if let Some(io) = &mut self.io {
            let sockets = self.channel.as_ref().map_or(0, Channel::socket_bytes);
            counts.push(io.total().map(|bytes| Count::exact(bytes.wrapping_add(sockets))));
        }
        counts.resize(self.metrics.len(), None);
        for (metric, sum) in &self.probes {
            counts[*metric] = sum.total().map(Count::exact);
        }
        if let (Some(function), Some(count)) = (&self.function, counts.last_mut()) {
            *count = function.calls(PROGRAM).map(Count::exact);
        }
        counts
    }
}
