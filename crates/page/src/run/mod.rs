//! The page of a run, from its record: the answers to three questions, then the machine, the time line, the candidates,
//! and what else is known; the log and the reasons in words are folded.

mod additions;
mod answers;
mod beliefs;
mod candidates;
mod counters;
mod exchanges;
mod labels;
mod miniature;
mod pair;
mod roofline;
mod verdict;

use crate::chart;
use crate::course::Course;
use crate::decisions::{self, Decision};
use crate::layout::Layout;
use crate::numbers::{self, counted};
use crate::shell::{self, Section, folded};
use crate::timeline::{Rate, Tracks};
use crate::{machine, occupancy, words};
pub use additions::{Additions, Ceilings, Exchanges};
pub(crate) use labels::{Label, Labels};
use maud::{Markup, html};
pub use pair::{NamedRun, page as pair_page};
use pinfold_runtime::{PolicyKind, Record, RunDocument, Timeline};

/// Tables of values over time have at most this many rows.
const ROWS: usize = 60;

/// The page of a run.
pub fn page(document: &RunDocument, policy: PolicyKind<'_>, additions: &Additions) -> String {
    let record = &document.record;
    let labels = Labels::new(record);
    let drawn = drawn(record);
    let both = drawn.as_ref().map(|(layout, course)| (layout, course));
    let decisions = decisions::decisions(record);
    let mut sections = vec![Section::open(
        "time",
        "Over time",
        html! {
            @match both {
                Some((layout, course)) => (machine::section(layout, course)),
                None => (without_timeline()),
            }
            (tracks(record, &labels, &decisions, both))
        },
    )];
    if record.search.candidates.len() > 1 || !record.earlier_searches.is_empty() {
        sections.push(Section::open(
            "candidates",
            "What was tried",
            candidates::section(record, &labels),
        ));
    }
    if let Some(body) = beliefs::section(record, &labels) {
        sections.push(Section::open("beliefs", "What was expected", body));
    }
    let exchanges = additions.exchanges.clone().or_else(|| exchanges::sampled(record));
    if let Some(body) = exchanges.and_then(|exchanges| exchanges::section(&exchanges, both)) {
        sections.push(Section::open("sharing", "Who shares with whom", body));
    }
    if let Some(body) = roofline::section(record, &labels, additions.ceilings.as_ref()) {
        sections.push(Section::open("roofline", "What limits it", body));
    }
    sections.extend([
        Section::folded(
            "log",
            "Log",
            counted(decisions.len(), "decision"),
            decisions::list(&decisions),
        ),
        Section::folded(
            "counters",
            "Counters",
            counters::says(record),
            counters::section(record),
        ),
        Section::folded(
            "why",
            "Who proposed what, and why",
            "The reasons in words, as `pinfold explain` prints them",
            words::markup(&document.explanation(policy)),
        ),
        Section::folded(
            "notes",
            "Refusals and notes",
            format!(
                "{}, {}",
                counted(record.refused.len(), "refusal"),
                counted(record.notes.len(), "note")
            ),
            html! {
                (notes(record))
                @if let Some(left_out) = &additions.left_out { p { (left_out) } }
            },
        ),
    ]);
    let data = both.map(|(_, course)| serde_json::to_string(course).unwrap_or_default());
    shell::page(
        &answers::title(document),
        &answers::head(document, &labels, both),
        &sections,
        data.as_deref(),
        &foot(document, both.map(|(_, course)| course.at.len())),
    )
}

/// The machine and the course of a record that has them.
fn drawn(record: &Record) -> Option<(Layout, Course)> {
    let line = record.timeline.as_ref().filter(|line| !line.at.is_empty())?;
    Some((Layout::new(&line.topology), Course::new(line, record.program.ran)))
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

/// The rate of the metric that decided: of the whole run, or of an older record what was measured after the choice.
fn rate(record: &Record) -> Option<Rate> {
    let metric = record.metric.as_ref()?;
    let whole = record.timeline.as_ref().and_then(|line| {
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
    let (scale, unit) = numbers::unit(&metric.unit);
    let parts = parts
        .into_iter()
        .map(|(from, to, value)| (from, to, value.map(|value| value / scale)));
    let parts: Vec<_> = parts.collect();
    (!parts.is_empty()).then(|| Rate {
        title: format!("Rate of {}", metric.name),
        unit: format!("{unit}, {whose}"),
        parts,
    })
}

/// The time line, and its values as tables.
fn tracks(record: &Record, labels: &Labels, decisions: &[Decision], drawn: Option<(&Layout, &Course)>) -> Markup {
    let rate = rate(record);
    let ends = [
        rate.as_ref().and_then(|rate| rate.parts.last()).map(|part| part.1),
        record.program.ran,
        drawn.map(|(_, course)| course.end),
    ];
    let end = ends.into_iter().flatten().fold(1e-3, f64::max);
    let alike = record.by_policy.nothing_to_gain.as_deref();
    let why = record.metric_reason.metric_why.as_deref().or(alike);
    let tables = html! {
        @if let Some(rate) = &rate { (rate_table(rate)) }
        @if let Some((layout, course)) = drawn {
            (occupancy::table(layout, course))
            (memory_table(course))
        }
    };
    let without_rate = rate.is_none();
    let tracks = Tracks {
        record,
        rate,
        decisions,
        labels,
        end,
        prefix: "",
    };
    html! {
        @if record.metric.is_none() {
            p { "No rate was measured: " (why.unwrap_or("the record does not say why")) "." }
        } @else if without_rate {
            p { "The record has no rates over time." }
        }
        @if !without_rate || drawn.is_some() { (tracks.markup(drawn)) }
        (tables)
    }
}

fn rate_table(rate: &Rate) -> Markup {
    let rows = html! {
        thead { tr { th.number scope="col" { "until" } th.number scope="col" { (rate.unit) } } }
        tbody {
            @for (_, until, value) in rate.parts.iter().step_by(rate.parts.len().div_ceil(ROWS)) {
                tr { th.number scope="row" { (numbers::seconds(*until)) } td.number { (numbers::optional(*value)) } }
            }
        }
    };
    folded("rate over time", &rows)
}

/// The memory on each node.
fn memory_table(course: &Course) -> Markup {
    if course.memory.is_empty() {
        return html! {
            p.hint {
                "The record does not have the memory on each node: the machine has one node, it could not be read, or the program \
                 ended before."
            }
        };
    }
    let rows = html! {
        thead { tr { th.number scope="col" { "time" } @for node in &course.memory { th.number scope="col" { "node " (node.node) } } } }
        tbody {
            @for point in (0..course.at.len()).step_by(course.at.len().div_ceil(ROWS / 2)) {
                tr {
                    th.number scope="row" { (numbers::seconds(course.at[point])) }
                    @for node in &course.memory {
                        td.number { (node.bytes.get(point).copied().flatten().map_or_else(|| "–".to_owned(), numbers::bytes)) }
                    }
                }
            }
        }
    };
    folded("memory on each NUMA node", &rows)
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
