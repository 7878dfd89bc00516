//! The head of the page: what ran, and the answers to three questions: did it help, by how much, and where are threads
//! and pages now.

use super::labels::Labels;
use super::verdict::{Help, Verdict};
use crate::course::Course;
use crate::layout::Layout;
use crate::{nodes, numbers};
use maud::{Markup, html};
use pinfold_core::{MachineKind, PuId, PuSet};
use pinfold_runtime::{Record, RunDocument};

/// At most this many nodes have a line of their own.
const NODES: usize = 8;

/// The program, as the title: without the folder that it is in.
pub(crate) fn title(document: &RunDocument) -> String {
    let Some((program, arguments)) = document.command.split_first() else {
        return format!("A run on {}", machine(document));
    };
    let name = program
        .rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or(program);
    let words = [name].into_iter().chain(arguments.iter().map(String::as_str));
    words.collect::<Vec<_>>().join(" ")
}

pub(crate) fn machine(document: &RunDocument) -> &str {
    match (document.record.machine.as_str(), document.topology.as_str()) {
        ("", "") => "an unknown machine",
        ("", topology) => topology,
        (machine, _) => machine,
    }
}

/// The three answers.
pub(super) fn head(document: &RunDocument, labels: &Labels, drawn: Option<(&Layout, &Course)>) -> Markup {
    let record = &document.record;
    html! {
        (about(document))
        (answers(record, labels, drawn))
    }
}

/// Why nothing was measured in this run; `None` where the program really ran.
fn not_measured(kind: MachineKind) -> Option<&'static str> {
    match kind {
        MachineKind::Live | MachineKind::Unknown => None,
        MachineKind::Simulated => Some("Nothing on this page was measured: the machine is a model."),
        MachineKind::Table => {
            Some("Nothing was measured in this run: its times were measured before, and are replayed.")
        }
    }
}

/// What ran where, in a line.
pub(crate) fn about(document: &RunDocument) -> Markup {
    let record = &document.record;
    let kind = record.kind();
    let policy = (!record.policy.is_empty()).then(|| format!("policy {}", record.policy));
    let ran = record.program.ran.map(numbers::seconds);
    let status = record.program.exit_status.filter(|&status| status != 0);
    let facts = [
        Some(machine(document).to_owned()),
        policy,
        ran.map(|ran| match kind.word() {
            Some(word) => format!("{ran} {word}"),
            None => format!("ran {ran}"),
        }),
        Some(numbers::counted(
            usize::try_from(record.program.tasks).unwrap_or(usize::MAX),
            "thread",
        )),
        status.map(|status| format!("exit status {status}")),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    html! {
        p.about {
            @if let Some(word) = kind.word() { span.badge { (word) } " " }
            (facts.join(" · "))
            @if let Some(note) = not_measured(kind) { span.wide.quiet { " · " (note) } }
        }
    }
}

/// The answers, each a heading with its words.
pub(crate) fn answers(record: &Record, labels: &Labels, drawn: Option<(&Layout, &Course)>) -> Markup {
    let verdict = Verdict::of(record, labels);
    html! {
        div.answers {
            div.answer {
                h2 { "Did it help?" }
                p class={ "big " (class(verdict.help)) } { (verdict.help.word()) }
                p { (verdict.sentence) }
            }
            div.answer {
                h2 { "By how much?" }
                p.big { (verdict.gain_text()) }
                (rates(record, &verdict))
            }
            div.answer {
                h2 { "Where are threads and pages now?" }
                (now(record, labels, drawn))
            }
        }
    }
}

fn class(help: Help) -> &'static str {
    match help {
        Help::Yes => "yes",
        Help::No | Help::Worse => "no",
        Help::Unknown => "unknown",
    }
}

/// Both rates as bars from zero.
fn rates(record: &Record, verdict: &Verdict) -> Markup {
    let unit = record.metric.as_ref().map(|metric| numbers::unit(&metric.unit));
    let Some((scale, unit)) = unit.filter(|_| !verdict.rates.is_empty()) else {
        return html! { p { (verdict.amount) } };
    };
    let largest = verdict.rates.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
    html! {
        p { (verdict.amount) }
        dl.bars {
            @for (name, rate) in &verdict.rates {
                div {
                    dt { (name) }
                    dd {
                        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                            rect width=(format!("{:.1}", if largest > 0.0 { 100.0 * rate / largest } else { 0.0 })) height="10" {}
                        }
                        (numbers::short(rate / scale)) " " span.quiet { (unit) }
                    }
                }
            }
        }
    }
}

/// The threads and the memory of each node at the end.
fn now(record: &Record, labels: &Labels, drawn: Option<(&Layout, &Course)>) -> Markup {
    let Some((layout, course, point)) = drawn.and_then(|(layout, course)| Some((layout, course, course.last()?)))
    else {
        let place = record.search.chosen.as_ref();
        let place = place.and_then(|chosen| labels.get(record.earlier_searches.len(), chosen.candidate));
        return html! { p { (place.map_or_else(|| "The record does not say.".to_owned(), super::Label::text)) } };
    };
    let sum = course.sums.get(point).copied().unwrap_or(0);
    let lines = layout.nodes.ids().iter().enumerate().map(|(position, &node)| {
        let on = course
            .threads
            .iter()
            .enumerate()
            .filter(|(_, thread)| thread.at(point).is_some_and(|pu| layout.nodes.of(pu) == Some(position)));
        let on: PuSet = on
            .filter_map(|(number, _)| Some(PuId(u32::try_from(number).ok()?)))
            .collect();
        let memory = course.memory.iter().find(|series| series.node == node);
        let bytes = memory.and_then(|series| series.bytes.get(point).copied().flatten());
        (position, node, on, bytes)
    });
    let is_used =
        |(_, _, on, bytes): &(usize, u32, PuSet, Option<u64>)| !on.is_empty() || bytes.is_some_and(|bytes| bytes > 0);
    let (mut lines, empty): (Vec<_>, Vec<_>) = lines.partition(is_used);
    let rest = lines.len().saturating_sub(NODES);
    lines.truncate(NODES);
    let empty: PuSet = empty.iter().map(|&(_, node, ..)| PuId(node)).collect();
    html! {
        ul.nodes {
            @for (position, node, on, bytes) in &lines {
                li class=(nodes::class(Some(*position))) {
                    span.node { "node " (node) }
                    span.threads {
                        @if on.is_empty() { span.quiet { "no thread" } }
                        @else { (if on.len() == 1 { "thread " } else { "threads " }) (on.to_string().replace(',', ", ")) }
                    }
                    @if let Some(bytes) = bytes {
                        @let share = if sum > 0 { 100.0 * *bytes as f64 / sum as f64 } else { 0.0 };
                        svg.share viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                            rect width=(format!("{share:.1}")) height="10" {}
                        }
                        span.bytes { (numbers::bytes(*bytes)) }
                    }
                }
            }
        }
        @if rest > 0 { p.hint { (rest) " more nodes are not listed." } }
        @if !empty.is_empty() {
            p.hint { (if empty.len() == 1 { "node " } else { "nodes " }) (empty.to_string().replace(',', ", ")) ": no thread and no page" }
        }
        @if course.memory.is_empty() { p.hint { "Where its pages were is not known." } }
    }
}
