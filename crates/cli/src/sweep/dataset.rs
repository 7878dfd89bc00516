//! The data set: one Parquet file (docs/formats.md).
//!
//! The same rows give the same bytes: there is no time, place or name of this machine in it.

use super::journal::Row;
use super::plan::Plan;
use crate::output::Output;
use crate::parquet_table::{self, Values};
use anyhow::Result;
use pinfold_sim::sweep::page_map_name;
use serde::Serialize;
use std::collections::BTreeMap;

/// Which version of docs/formats.md describes the file.
pub(crate) const VERSION: &str = "1";

/// A metric of some of the machines.
#[derive(Serialize)]
struct MetricEntry<'a> {
    name: &'a str,
    unit: &'a str,
}

/// Writes the rows of all jobs, given in the order of the plan's jobs; how many there are.
pub(super) fn write(plan: &Plan, outcomes: &[&[Row]], output: Output) -> Result<usize> {
    let columns = columns(plan, outcomes);
    let rows = outcomes.iter().map(|rows| rows.len()).sum();
    parquet_table::write(output, "sweep", &columns, metadata(plan)?)?;
    Ok(rows)
}

/// One row with the job that it is of.
fn each<T>(plan: &Plan, outcomes: &[&[Row]], value: impl Fn(&super::plan::Job, &Row) -> T) -> Vec<T> {
    plan.jobs
        .iter()
        .zip(outcomes)
        .flat_map(|(job, rows)| rows.iter().map(move |row| (job, row)))
        .map(|(job, row)| value(job, row))
        .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "numbers of threads and nodes are small"
)]
fn columns(plan: &Plan, outcomes: &[&[Row]]) -> Vec<(String, Values)> {
    let program = |job: &super::plan::Job| &plan.programs[job.program];
    let machine = |job: &super::plan::Job| &plan.machines[job.machine];
    let text = |value: &dyn Fn(&super::plan::Job) -> String| Values::Text(each(plan, outcomes, |job, _| value(job)));
    let number =
        |value: &dyn Fn(&super::plan::Job) -> usize| Values::Number(each(plan, outcomes, |job, _| value(job) as i32));
    let region = each(plan, outcomes, |_, row| row.region.map(|region| format!("{region:#x}")));
    let thread_map = each(plan, outcomes, |job, _| {
        job.point.thread_map.map(|map| map.name().to_owned())
    });
    let mut columns = vec![
        ("machine", text(&|job| machine(job).model.name.clone())),
        ("program", text(&|job| program(job).name.clone())),
        ("region", Values::OptionalText(region)),
        ("num_threads", number(&|job| program(job).threads)),
        ("num_nodes", number(&|job| job.point.num_nodes)),
        ("thread_map", Values::OptionalText(thread_map)),
        (
            "page_map",
            text(&|job| page_map_name(job.point.configuration.pages).to_owned()),
        ),
        ("prefetch", text(&|job| job.point.configuration.prefetchers.to_string())),
        ("time_s", Values::Float(each(plan, outcomes, |_, row| row.time.0))),
        ("pinning", text(&|job| job.point.configuration.pinning.to_string())),
        ("simulated", Values::Flag(each(plan, outcomes, |_, _| true))),
        ("command", text(&|job| program(job).command.clone())),
        ("recording", text(&|job| format!("{:032x}", program(job).content))),
    ]
    .into_iter()
    .map(|(name, values)| (name.to_owned(), values))
    .collect::<Vec<_>>();
    for (name, _) in plan.metric_columns() {
        let place: Vec<Option<usize>> = plan
            .machines
            .iter()
            .map(|machine| machine.columns.iter().position(|column| column.name == name))
            .collect();
        let values = each(plan, outcomes, |job, row| {
            place[job.machine]
                .and_then(|place| row.metrics[place])
                .map(|value| value.0)
        });
        columns.push((name, Values::OptionalFloat(values)));
    }
    columns
}

fn metadata(plan: &Plan) -> Result<Vec<(&'static str, String)>> {
    let columns = plan.metric_columns();
    let metrics: Vec<MetricEntry<'_>> = columns.iter().map(|(name, unit)| MetricEntry { name, unit }).collect();
    let models: BTreeMap<&str, String> = plan
        .machines
        .iter()
        .map(|machine| (machine.model.name.as_str(), format!("{:032x}", machine.content)))
        .collect();
    Ok(vec![
        ("dataset", VERSION.to_owned()),
        ("simulated", "true".to_owned()),
        ("models", serde_json::to_string(&models)?),
        ("metrics", serde_json::to_string(&metrics)?),
    ])
}
