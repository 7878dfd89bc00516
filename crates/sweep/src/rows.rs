//! From the outcomes of jobs to a data set.

use crate::journal::{Outcome, OutcomeRow};
use crate::plan::Plan;
use crate::regions::JoinedRegions;
use crate::subject::{MachineEntry, Member, Subject};
use pinfold_core::MetricColumn;
use pinfold_dataset::{
    DataSet, JoinedColumns, ProgramColumns, Row, SamplingColumns, TimeUnit, TrafficColumns, WindowColumns,
};
use pinfold_sim::sweep::likwid_columns;
use std::collections::BTreeMap;

/// The data set of a plan. `outcomes` has the outcome of each job by the job's position; the rows have the same order.
pub fn data_set(plan: &Plan, outcomes: &BTreeMap<usize, Outcome>) -> DataSet {
    let machines: Vec<MachineEntry> = plan.machines.iter().map(MachineEntry::new).collect();
    let outcomes = outcomes.iter();
    let jobs = outcomes.map(|(&job, outcome)| (Subject::new(plan, &plan.jobs[job]), outcome));
    data_set_from_jobs(&machines, jobs)
}

/// The data set of jobs, in their order.
pub(crate) fn data_set_from_jobs<'a>(
    machines: &[MachineEntry],
    jobs: impl Iterator<Item = (Subject, &'a Outcome)>,
) -> DataSet {
    // The metrics of the first machine come first.
    let mut metrics: Vec<MetricColumn> = vec![];
    for column in machines.iter().flat_map(|machine| &machine.metrics) {
        if metrics.iter().all(|known| known.name != column.name) {
            metrics.push(column.clone());
        }
    }
    // By machine: the position of each metric of the data set among the machine's metrics.
    let positions: Vec<Vec<Option<usize>>> = machines
        .iter()
        .map(|machine| {
            let position = |metric: &MetricColumn| machine.metrics.iter().position(|column| column.name == metric.name);
            metrics.iter().map(position).collect()
        })
        .collect();
    let jobs: Vec<(Subject, &Outcome)> = jobs.collect();
    let regions = JoinedRegions::new(jobs.iter().map(|(subject, outcome)| (subject, *outcome)));
    let mut rows = vec![];
    for (subject, outcome) in &jobs {
        let (machine, positions) = (&machines[subject.machine].name, &positions[subject.machine]);
        for result in &outcome.rows {
            let mut row = row(machine, subject, result, outcome, positions);
            if let Some(member) = &subject.joined {
                row.joined = Some(joined_columns(subject.machine, member, &regions, result.region));
                let likwid = result.likwid.iter().map(|value| value.map(|value| value.0));
                row.metrics.extend(likwid);
            }
            rows.push(row);
        }
    }
    if jobs.iter().any(|(subject, _)| subject.joined.is_some()) {
        metrics.extend(likwid_columns());
    }
    DataSet {
        schema: "sweep".to_owned(),
        metrics,
        models: machines
            .iter()
            .map(|machine| (machine.name.clone(), machine.model.clone()))
            .collect(),
        topologies: BTreeMap::new(),
        time_unit: TimeUnit::Seconds,
        rows,
    }
}

/// One row. `positions` has the position of each metric of the data set among the machine's metrics.
fn row(machine: &str, subject: &Subject, result: &OutcomeRow, outcome: &Outcome, positions: &[Option<usize>]) -> Row {
    Row {
        program: ProgramColumns {
            machine: machine.to_owned(),
            program: subject.program.clone(),
            region: result.region.map(|region| format!("{region:#x}")),
            simulated: true,
            command: subject.command.clone(),
            recording: Some(subject.recording.clone()),
        },
        configuration: subject.configuration.clone(),
        time: result.time.0,
        window: WindowColumns {
            unrecorded_wait_share: outcome.unrecorded_wait_share.map(|share| share.0),
            ..subject.window
        },
        sampling: SamplingColumns {
            time_error: result.time_error.map(|error| error.0),
            simulated_share: Some(outcome.simulated_share.0),
        },
        measured: None,
        traffic: TrafficColumns {
            node_bytes: result.node_bytes.clone(),
            link_bytes: result.link_bytes.clone(),
        },
        joined: None,
        metrics: positions
            .iter()
            .map(|position| result.metrics[(*position)?].map(|value| value.0))
            .collect(),
    }
}

fn joined_columns(machine: usize, member: &Member, regions: &JoinedRegions, region: Option<u64>) -> JoinedColumns {
    let code = region.and_then(|region| member.code(region));
    JoinedColumns {
        command: member.command.clone(),
        region_complete: regions.is_complete(machine, member, region),
        baseline: member.baseline,
        region_offset: code.map(|code| format!("{:#x}", code.offset)),
        region_object: code.map(|code| code.object.clone()),
    }
}
