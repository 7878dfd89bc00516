//! The data set: one Parquet file (docs/formats/data-sets.md). Only this module writes it.
//!
//! The same rows give the same bytes: the file has no time, path or name of the current machine.

use crate::joined::{Member, Regions};
use crate::journal::{Outcome, Row as SweptRow};
use crate::parquet_table::{self, Values};
use crate::plan::{Job, Machine, Plan};
use anyhow::Result;
use pinfold_sim::sweep::{MetricColumn, likwid_columns, page_map_name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;

/// The version in docs/formats/data-sets.md that describes the file.
pub const VERSION: &str = "2";

/// One program, or one parallel region of it, in one configuration on one machine.
pub struct Row {
    /// The machine's name.
    pub machine: String,
    /// The program's file name.
    pub program: String,
    /// The region's address, as hexadecimal digits; `None` for the whole program.
    pub region: Option<String>,
    /// The number of placed threads.
    pub num_threads: usize,
    /// The layout of the threads on nodes; `None` for a program that ran, whose threads have no given layout.
    pub layout: Option<Layout>,
    /// The page mapping.
    pub page_map: String,
    /// The prefetchers that are off.
    pub prefetch: String,
    /// Seconds of a repetition; of a program that ran, seconds per unit of its progress.
    pub time_s: f64,
    /// The PU of each rank.
    pub pinning: String,
    /// Whether the row is simulated.
    pub simulated: bool,
    /// The program and its arguments.
    pub command: String,
    /// The identity of the recording or the binary.
    pub recording: String,
    /// How much of the program the row represents.
    pub window: WindowColumns,
    /// How much of it was simulated, and how certain the time is.
    pub sampling: SamplingColumns,
    /// The bytes by node and by link.
    pub traffic: TrafficColumns,
    /// What joins it to rows with other numbers of threads, in a space in which that number is a part of the configuration.
    pub joined: Option<JoinedColumns>,
    /// By metric of the data set; `None` where it is not available.
    pub metrics: Vec<Option<f64>>,
}

/// How much of the program the simulated window represents: the memory that it accesses, in bytes, and its waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowColumns {
    /// The cache lines that the window accesses.
    pub window_bytes: Option<u64>,
    /// The memory that the program uses.
    pub footprint_bytes: Option<u64>,
    /// All last-level caches of the machine together.
    pub llc_bytes: Option<u64>,
    /// Whether the window represents the program ([`pinfold_sim::Coverage::is_enough`]); `None` where it is not known.
    pub covers: Option<bool>,
    /// The share of the threads' time for which they waited for what is not in the recording; `None` where it is not known.
    pub unrecorded_wait_share: Option<f64>,
}

/// How much of the program was simulated, and how certain its time is; `None` for a program that ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct SamplingColumns {
    /// Half of the width of the interval that has the time with a probability of 95 %, over the time.
    pub time_error: Option<f64>,
    /// The share of the accesses that was simulated.
    pub simulated_share: Option<f64>,
}

/// The bytes that single memories and links carried; `None` where they were not counted.
#[derive(Clone, Debug, Default)]
pub struct TrafficColumns {
    /// By node: the bytes that its memory read and wrote.
    pub node_bytes: Option<Vec<u64>>,
    /// By link, in the order of the machine's: the bytes that crossed it.
    pub link_bytes: Option<Vec<u64>>,
}

/// What joins a row to those of the same program and region with other numbers of threads.
pub struct JoinedColumns {
    /// The program and its arguments; `{threads}` is in place of the number of threads.
    pub command: String,
    /// The name of the file with the region's code; `None` for the whole program, and for code in no file.
    pub region_object: Option<String>,
    /// The region's offset in it, as hexadecimal digits.
    pub region_offset: Option<String>,
    /// Whether there are rows with all numbers of threads.
    pub region_complete: bool,
    /// Whether it is the configuration with which others are compared.
    pub baseline: bool,
}

impl JoinedColumns {
    fn of(machine: usize, member: &Member, regions: &Regions, region: Option<u64>) -> Self {
        let place = region.and_then(|region| member.place(region));
        Self {
            command: member.command.clone(),
            region_complete: regions.complete(machine, member, region),
            baseline: member.baseline,
            region_offset: place.map(|place| format!("{:#x}", place.offset)),
            region_object: place.map(|place| place.object.clone()),
        }
    }
}

/// The layout of threads on nodes.
pub struct Layout {
    /// The number of nodes.
    pub num_nodes: usize,
    /// `compact` or `scatter`, where the threads follow one of them.
    pub thread_map: Option<String>,
}

/// A data set.
pub struct DataSet {
    /// The name of the table's schema.
    pub schema: &'static str,
    /// The metrics.
    pub metrics: Vec<MetricColumn>,
    /// The hash of each simulated machine's model.
    pub models: BTreeMap<String, String>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// What a data set has of a machine, besides its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MachineEntry {
    /// Its name.
    pub(crate) name: String,
    /// The hash of its model.
    pub(crate) model: String,
    /// The metrics of its counters.
    pub(crate) metrics: Vec<MetricColumn>,
}

/// What the rows of a job have in common, besides its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// The position of the machine.
    pub(crate) machine: usize,
    pub(crate) program: String,
    pub(crate) command: String,
    pub(crate) recording: String,
    pub(crate) num_threads: usize,
    pub(crate) num_nodes: usize,
    pub(crate) thread_map: Option<String>,
    pub(crate) page_map: String,
    pub(crate) prefetch: String,
    pub(crate) pinning: String,
    pub(crate) window_bytes: u64,
    pub(crate) footprint_bytes: Option<u64>,
    pub(crate) llc_bytes: u64,
    pub(crate) window_covers: Option<bool>,
    /// Where the number of threads is a part of the configuration.
    pub(crate) joined: Option<Member>,
}

impl MachineEntry {
    pub(crate) fn of(machine: &Machine) -> Self {
        Self {
            name: machine.model.name.clone(),
            model: format!("{:032x}", machine.content),
            metrics: machine.columns.clone(),
        }
    }
}

impl Subject {
    pub(crate) fn of(plan: &Plan, job: &Job) -> Self {
        let (machine, program) = (&plan.machines[job.machine], &plan.programs[job.program]);
        let configuration = &job.point.configuration;
        let coverage = program.coverage();
        Self {
            machine: job.machine,
            program: program.name.clone(),
            command: program.command.clone(),
            recording: format!("{:032x}", program.content),
            num_threads: program.threads,
            num_nodes: job.point.num_nodes,
            thread_map: job.point.thread_map.map(|map| map.name().to_owned()),
            page_map: page_map_name(configuration.pages).to_owned(),
            prefetch: configuration.prefetchers.to_string(),
            pinning: configuration.pinning.to_string(),
            window_bytes: coverage.window_bytes,
            footprint_bytes: coverage.footprint_bytes,
            llc_bytes: machine.model.llc_bytes(),
            window_covers: coverage.is_enough(&machine.model),
            joined: plan.joined.as_ref().map(|joined| Member::of(joined, plan, job)),
        }
    }
}

impl DataSet {
    /// The data set of a plan's results, by the positions of their jobs and in the order of these.
    pub fn of_sweep(plan: &Plan, outcomes: &BTreeMap<usize, Outcome>) -> Self {
        let machines: Vec<MachineEntry> = plan.machines.iter().map(MachineEntry::of).collect();
        let outcomes = outcomes.iter();
        let jobs = outcomes.map(|(&job, outcome)| (Subject::of(plan, &plan.jobs[job]), outcome));
        Self::of_jobs(&machines, jobs)
    }

    /// The data set of jobs, in their order.
    pub(crate) fn of_jobs<'a>(machines: &[MachineEntry], jobs: impl Iterator<Item = (Subject, &'a Outcome)>) -> Self {
        // Those of the first machine first.
        let mut metrics: Vec<MetricColumn> = vec![];
        for column in machines.iter().flat_map(|machine| &machine.metrics) {
            if metrics.iter().all(|known| known.name != column.name) {
                metrics.push(column.clone());
            }
        }
        // By machine: the position of each metric among its own.
        let places: Vec<Vec<Option<usize>>> = machines
            .iter()
            .map(|machine| {
                let place =
                    |metric: &MetricColumn| machine.metrics.iter().position(|column| column.name == metric.name);
                metrics.iter().map(place).collect()
            })
            .collect();
        let jobs: Vec<(Subject, &Outcome)> = jobs.collect();
        let regions = Regions::of(jobs.iter().map(|(subject, outcome)| (subject, *outcome)));
        let mut rows = vec![];
        for (subject, outcome) in &jobs {
            let (machine, places) = (&machines[subject.machine].name, &places[subject.machine]);
            for row in &outcome.rows {
                let mut made = swept(machine, subject, row, outcome, places);
                if let Some(member) = &subject.joined {
                    made.joined = Some(JoinedColumns::of(subject.machine, member, &regions, row.region));
                    let likwid = row.likwid.iter().map(|value| value.map(|value| value.0));
                    made.metrics.extend(likwid);
                }
                rows.push(made);
            }
        }
        if jobs.iter().any(|(subject, _)| subject.joined.is_some()) {
            metrics.extend(likwid_columns());
        }
        Self {
            schema: "sweep",
            metrics,
            models: machines
                .iter()
                .map(|machine| (machine.name.clone(), machine.model.clone()))
                .collect(),
            rows,
        }
    }

    /// Writes the data set.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, file: impl Write + Send) -> Result<()> {
        let simulated = self.rows.iter().any(|row| row.simulated) || !self.models.is_empty();
        let metadata = vec![
            ("dataset", VERSION.to_owned()),
            ("simulated", simulated.to_string()),
            ("models", serde_json::to_string(&self.models)?),
            ("metrics", serde_json::to_string(&self.metrics)?),
        ];
        parquet_table::write(self.schema, &self.columns(), metadata, file)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "numbers of threads and nodes are small"
    )]
    fn columns(&self) -> Vec<(String, Values)> {
        let rows = &self.rows;
        let text = |value: fn(&Row) -> &String| Values::Text(rows.iter().map(|row| value(row).clone()).collect());
        let bytes = |value: fn(&WindowColumns) -> Option<u64>| {
            Values::OptionalFloat(
                rows.iter()
                    .map(|row| value(&row.window).map(|bytes| bytes as f64))
                    .collect(),
            )
        };
        let counts = |value: fn(&TrafficColumns) -> &Option<Vec<u64>>| {
            let floats = |counts: &Vec<u64>| counts.iter().map(|&count| count as f64).collect();
            Values::OptionalFloats(
                rows.iter()
                    .map(|row| value(&row.traffic).as_ref().map(floats))
                    .collect(),
            )
        };
        let region = rows.iter().map(|row| row.region.clone()).collect();
        let threads = rows.iter().map(|row| row.num_threads as i32).collect();
        let mut columns = vec![
            ("machine", text(|row| &row.machine)),
            ("program", text(|row| &row.program)),
            ("region", Values::OptionalText(region)),
            ("num_threads", Values::Number(threads)),
        ];
        if let Some(layouts) = rows.iter().map(|row| row.layout.as_ref()).collect::<Option<Vec<_>>>() {
            let nodes = layouts.iter().map(|layout| layout.num_nodes as i32).collect();
            let maps = layouts.iter().map(|layout| layout.thread_map.clone()).collect();
            columns.push(("num_nodes", Values::Number(nodes)));
            columns.push(("thread_map", Values::OptionalText(maps)));
        }
        columns.extend([
            ("page_map", text(|row| &row.page_map)),
            ("prefetch", text(|row| &row.prefetch)),
            ("time_s", Values::Float(rows.iter().map(|row| row.time_s).collect())),
            ("pinning", text(|row| &row.pinning)),
            (
                "simulated",
                Values::Flag(rows.iter().map(|row| row.simulated).collect()),
            ),
            ("command", text(|row| &row.command)),
            ("recording", text(|row| &row.recording)),
            ("window_bytes", bytes(|window| window.window_bytes)),
            ("footprint_bytes", bytes(|window| window.footprint_bytes)),
            ("llc_bytes", bytes(|window| window.llc_bytes)),
            (
                "window_covers",
                Values::OptionalFlag(rows.iter().map(|row| row.window.covers).collect()),
            ),
            (
                "unrecorded_wait_share",
                Values::OptionalFloat(rows.iter().map(|row| row.window.unrecorded_wait_share).collect()),
            ),
            (
                "time_error",
                Values::OptionalFloat(rows.iter().map(|row| row.sampling.time_error).collect()),
            ),
            (
                "simulated_share",
                Values::OptionalFloat(rows.iter().map(|row| row.sampling.simulated_share).collect()),
            ),
            ("node_bytes", counts(|traffic| &traffic.node_bytes)),
            ("link_bytes", counts(|traffic| &traffic.link_bytes)),
        ]);
        let joined: Option<Vec<&JoinedColumns>> = rows.iter().map(|row| row.joined.as_ref()).collect();
        if let Some(joined) = joined.filter(|joined| !joined.is_empty()) {
            let text = |value: fn(&JoinedColumns) -> &Option<String>| {
                Values::OptionalText(joined.iter().map(|one| value(one).clone()).collect())
            };
            let flags = |value: fn(&JoinedColumns) -> bool| Values::Flag(joined.iter().map(|one| value(one)).collect());
            let commands = joined.iter().map(|one| one.command.clone()).collect();
            columns.extend([
                ("joined_command", Values::Text(commands)),
                ("region_object", text(|one| &one.region_object)),
                ("region_offset", text(|one| &one.region_offset)),
                ("region_complete", flags(|one| one.region_complete)),
                ("baseline", flags(|one| one.baseline)),
            ]);
        }
        let mut columns: Vec<_> = columns
            .into_iter()
            .map(|(name, values)| (name.to_owned(), values))
            .collect();
        for (place, metric) in self.metrics.iter().enumerate() {
            let values = rows.iter().map(|row| row.metrics[place]).collect();
            columns.push((metric.name.clone(), Values::OptionalFloat(values)));
        }
        columns
    }
}

/// A row of a sweep. `places` has the position of each metric of the data set among those of the machine.
fn swept(machine: &str, subject: &Subject, row: &SweptRow, outcome: &Outcome, places: &[Option<usize>]) -> Row {
    Row {
        machine: machine.to_owned(),
        program: subject.program.clone(),
        region: row.region.map(|region| format!("{region:#x}")),
        num_threads: subject.num_threads,
        layout: Some(Layout {
            num_nodes: subject.num_nodes,
            thread_map: subject.thread_map.clone(),
        }),
        page_map: subject.page_map.clone(),
        prefetch: subject.prefetch.clone(),
        time_s: row.time.0,
        pinning: subject.pinning.clone(),
        simulated: true,
        command: subject.command.clone(),
        recording: subject.recording.clone(),
        window: WindowColumns {
            window_bytes: Some(subject.window_bytes),
            footprint_bytes: subject.footprint_bytes,
            llc_bytes: Some(subject.llc_bytes),
            covers: subject.window_covers,
            unrecorded_wait_share: outcome.unrecorded_wait_share.map(|share| share.0),
        },
        sampling: SamplingColumns {
            time_error: row.time_error.map(|error| error.0),
            simulated_share: Some(outcome.simulated_share.0),
        },
        traffic: TrafficColumns {
            node_bytes: row.node_bytes.clone(),
            link_bytes: row.link_bytes.clone(),
        },
        joined: None,
        metrics: places
            .iter()
            .map(|place| row.metrics[(*place)?].map(|value| value.0))
            .collect(),
    }
}
