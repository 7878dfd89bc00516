//! The page of a run, from its record.

mod candidates;
mod counters;
mod summary;

use crate::chart::{self, Chart};
use crate::course::Course;
use crate::decisions::{self, Decision};
use crate::layout::Layout;
use crate::numbers::{self, counted};
use crate::shell::{self, Section, folded};
use crate::{machine, occupancy, words};
use maud::{Markup, html};
use pinfold_runtime::{PolicyKind, Record, RunDocument, Timeline};

/// The page of a run. `left_out` says what of the record the document lacks.
pub fn page(document: &RunDocument, policy: PolicyKind<'_>, left_out: Option<&str>) -> String {
    let record = &document.record;
    let drawn = record.timeline.as_ref().filter(|line| !line.at.is_empty());
    let drawn = drawn.map(|line| (Layout::new(&line.topology), Course::new(line, record.program.ran)));
    let decisions = decisions::decisions(record);
    let mut sections = vec![Section {
        id: "machine",
        title: "The machine",
        body: match &drawn {
            Some((layout, course)) => machine::section(layout, course),
            None => without_timeline(),
        },
    }];
    sections.push(Section {
        id: "time",
        title: "Over time",
        body: html! {
            (rate(record, &decisions))
            (decisions::list(&decisions))
            @if let Some((layout, course)) = &drawn {
                (occupancy::section(layout, course))
                (memory(course))
            }
        },
    });
    if record.search.candidates.len() > 1 || !record.earlier_searches.is_empty() {
        sections.push(Section {
            id: "candidates",
            title: "What was measured",
            body: candidates::section(record),
        });
    }
    sections.push(Section {
        id: "counters",
        title: "Counters",
        body: counters::section(record),
    });
    sections.push(Section {
        id: "why",
        title: "Who proposed what, and why",
        body: words::markup(&document.explanation(policy)),
    });
    sections.push(Section {
        id: "notes",
        title: "Refusals and notes",
        body: html! {
            (notes(record))
            @if let Some(left_out) = left_out { p { (left_out) } }
        },
    });
    let data = drawn
        .as_ref()
        .map(|(_, course)| serde_json::to_string(course).unwrap_or_default());
    shell::page(
        &summary::title(document),
        &summary::head(document),
        &sections,
        data.as_deref(),
        &foot(document, drawn.as_ref().map(|(_, course)| course.at.len())),
    )
}

fn without_timeline() -> Markup {
    html! {
        p { "The record does not have the machine and the places of threads: an older pinfold wrote it. Run the program again with "
            code { "pinfold run --json FILE" } "." }
    }
}

/// The metric that decided, as a series over the whole run.
fn deciding<'a>(record: &'a Record, line: &'a Timeline) -> Option<&'a [Option<f64>]> {
    let name = &record.metric.as_ref()?.name;
    let series = line.metrics.iter().find(|series| series.name == *name)?;
    series.rates.iter().any(Option::is_some).then_some(&series.rates[..])
}

/// The rate of the metric that decided, with the decisions.
fn rate(record: &Record, decisions: &[Decision]) -> Markup {
    let Some(metric) = &record.metric else {
        let alike = record.by_policy.nothing_to_gain.as_deref();
        let why = record.metric_reason.metric_why.as_deref().or(alike);
        return html! { p { "No rate was measured: " (why.unwrap_or("the record does not say why")) "." } };
    };
    let line = record.timeline.as_ref();
    let whole = line.and_then(|line| {
        Some((
            chart::since_before(&line.at, deciding(record, line)?),
            "of all threads together",
        ))
    });
    let (parts, whose) = whole.unwrap_or_else(|| {
        let at: Vec<f64> = record.rates.iter().map(|rate| rate.at).collect();
        let rates: Vec<Option<f64>> = record.rates.iter().map(|rate| rate.rate).collect();
        (chart::since_before(&at, &rates), "after the choice")
    });
    if parts.is_empty() {
        return html! { p { "The record has no rates over time." } };
    }
    let marks = decisions::marks(decisions);
    let (scale, unit) = numbers::unit(&metric.unit);
    let parts: Vec<_> = parts
        .into_iter()
        .map(|(from, to, value)| (from, to, value.map(|value| value / scale)))
        .collect();
    let end = parts
        .last()
        .map_or(0.0, |part| part.1)
        .max(record.program.ran.unwrap_or(0.0))
        .max(1e-3);
    let known: Vec<f64> = parts.iter().filter_map(|part| part.2).collect();
    let chart = Chart {
        id: "rate".to_owned(),
        title: format!("Rate of {}", metric.name),
        unit: format!("{unit}, {whose}"),
        description: format!(
            "{}. Marked: {}. The table below has the values.",
            numbers::range(&known),
            counted(marks.len(), "decision")
        ),
        end,
        parts,
        top: None,
        text: numbers::short,
        marks: &marks,
        height: 160,
    };
    let rows = html! {
        thead { tr { th.number scope="col" { "until" } th.number scope="col" { (unit) } } }
        tbody {
            @for (_, until, value) in chart.parts.iter().step_by(chart.parts.len().div_ceil(ROWS)) {
                tr { th.number scope="row" { (numbers::seconds(*until)) } td.number { (numbers::optional(*value)) } }
            }
        }
    };
    html! {
        (chart.markup())
        (folded("rate over time", &rows))
    }
}

/// Tables of values over time have at most this many rows.
const ROWS: usize = 60;

/// The memory on each node.
fn memory(course: &Course) -> Markup {
    if course.memory.is_empty() {
        return html! {
            h3 { "Memory on each NUMA node" }
            p { "The record does not have it: the machine has one node, it could not be read, or the program ended before." }
        };
    }
    let largest = course
        .memory
        .iter()
        .flat_map(|node| &node.bytes)
        .flatten()
        .copied()
        .max()
        .unwrap_or(0);
    let charts = course.memory.iter().map(|node| {
        let values: Vec<Option<f64>> = node.bytes.iter().map(|bytes| bytes.map(|bytes| bytes as f64)).collect();
        let last = node.bytes.iter().rev().find_map(|bytes| *bytes);
        Chart {
            id: format!("memory-{}", node.node),
            title: format!("NUMA node {}", node.node),
            unit: last.map_or_else(String::new, |last| format!("{} at the end", numbers::bytes(last))),
            description: "The program's memory on this node. The table below has the values.".to_owned(),
            end: course.end,
            parts: chart::until_next(&course.at, course.end, &values),
            top: Some((largest as f64).max(1.0)),
            text: bytes,
            marks: &[],
            height: 56,
        }
    });
    let charts: Vec<Chart<'_>> = charts.collect();
    let rows = html! {
        thead { tr { th.number scope="col" { "time" } @for node in &course.memory { th.number scope="col" { "node " (node.node) } } } }
        tbody {
            @for point in (0..course.at.len()).step_by(course.at.len().div_ceil(ROWS / 2)) {
                tr {
                    th.number scope="row" { (numbers::seconds(course.at[point])) }
                    @for node in &course.memory {
                        td.number { (node.bytes[point].map_or_else(|| "–".to_owned(), numbers::bytes)) }
                    }
                }
            }
        }
    };
    html! {
        h3 { "Memory on each NUMA node" }
        div.few { @for chart in &charts { (chart.markup()) } }
        (folded("memory on each NUMA node", &rows))
    }
}

fn bytes(value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bytes are not negative"
    )]
    numbers::bytes(value.round() as u64)
}

fn notes(record: &Record) -> Markup {
    html! {
        h3 { "Refusals" }
        @if record.refused.is_empty() { p { "The machine refused nothing." } }
        @else {
            ul { @for refusal in &record.refused {
                li { @if let Some(task) = refusal.task { "Thread " (task.thread) ": " } (refusal.why) }
            } }
        }
        h3 { "Notes" }
        @if record.notes.is_empty() { p { "There are no notes." } }
        @else {
            ul { @for note in &record.notes { li { span.quiet { "At " (numbers::seconds(note.at)) ": " } (note.text) } } }
        }
    }
}

/// `drawn` limits the number of points that show the places of threads.
fn foot(document: &RunDocument, drawn: Option<usize>) -> Markup {
    let line = document.record.timeline.as_ref();
    html! {
        @if let Some(line) = line {
            p.hint {
                "The time line has " (counted(line.at.len(), "point"))
                @if line.readings > 1 { ", one for " (line.readings) " readings: places between them are left out, and rates are averages" }
                "."
                @if let Some(drawn) = drawn.filter(|&drawn| drawn < line.at.len()) {
                    " Threads change their places so often that these are drawn for " (drawn) " of the points."
                }
                @if line.tasks_left_out > 0 { " Not drawn: " (line.tasks_left_out) " more of the program's threads." }
            }
        }
        p.hint { "Written by pinfold " (env!("CARGO_PKG_VERSION"))
            @if !document.pinfold.is_empty() { " from the record of pinfold " (document.pinfold) } "." }
    }
}
