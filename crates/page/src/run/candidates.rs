//! The candidates of each search: a drawing of each on the machine with its rate from zero, and a table.

use super::labels::Labels;
use super::miniature::Miniature;
use crate::decisions::place;
use crate::numbers;
use crate::shell::folded;
use maud::{Markup, html};
use pinfold_core::{Pinning, Topology};
use pinfold_runtime::{Candidate, Comparison, Gain, Record, Search};

pub(super) fn section(record: &Record, labels: &Labels) -> Markup {
    let unit = record.metric.as_ref().map_or("counts", |metric| &metric.unit);
    let (scale, unit) = numbers::unit(unit);
    let whose = match record.metric.as_ref().map(|metric| metric.scope) {
        Some(pinfold_core::Scope::Task) => ", the mean of the working threads",
        _ => "",
    };
    let topology = record.timeline.as_ref().map(|line| &line.topology);
    let searches: Vec<&Search> = record.earlier_searches.iter().chain([&record.search]).collect();
    let last = searches.len() - 1;
    let one = |number: usize, search: &Search| {
        html! {
            @if let Some(why) = &search.candidates_why { p.hint { "Candidates: " (why) "." } }
            (cards(record, search, number, labels, topology))
            (one(search, scale, number, labels))
        }
    };
    html! {
        p.hint { "Each candidate is a placement of the threads; the coloured cells are its CPUs. Rates are in " (unit) (whose)
                 ", and bars begin at zero." }
        (one(last, searches[last]))
        @if last > 0 {
            details {
                summary { (numbers::counted(last, "earlier search").replace("searchs", "searches")) }
                @for (number, search) in searches.iter().enumerate().take(last) {
                    h3 { "Search " (number + 1) }
                    (one(number, search))
                }
            }
        }
    }
}

/// At most this many candidates are drawn; the table has all.
const DRAWN: usize = 24;

/// A drawing of each candidate on the machine, with its rate.
fn cards(record: &Record, search: &Search, number: usize, labels: &Labels, topology: Option<&Topology>) -> Markup {
    let end = |one: &Candidate| one.rate.map(|rate| rate * (1.0 + one.spread.unwrap_or(0.0)));
    let largest = search.candidates.iter().filter_map(end).fold(0.0, f64::max);
    let first = search.candidates.first().and_then(|first| first.rate);
    let chosen = search.chosen.as_ref().map(|chosen| chosen.candidate);
    let miniature = topology.map(Miniature::new);
    let one = |position: usize, candidate: &Candidate| {
        let kept = chosen == Some(position);
        html! {
            @if let Some(label) = labels.get(number, position) {
                li class={ "candidate" @if kept { " kept" } } {
                    h3 { (label.number) " " (label.words) @if kept { span.badge-kept { "kept" } } }
                    p.cpus { (if label.cpus.is_empty() { "the kernel places the threads" } else { &label.cpus }) }
                    @if let Some(miniature) = &miniature { (miniature.markup(candidate, &label.text())) }
                    @if candidate.rate.is_some() {
                        p.rate { (bar(candidate, largest)) " " strong { (over(candidate.rate, first)) } " " (result(candidate, false)) }
                    }
                    @if let Some(turns) = in_turns(record, number, position, labels) { p.hint { (turns) } }
                }
            }
        }
    };
    let all = search.candidates.iter().enumerate();
    let (measured, others): (Vec<_>, Vec<_>) = all.partition(|(_, candidate)| candidate.rate.is_some());
    html! {
        ol.candidates { @for &(position, candidate) in measured.iter().take(DRAWN) { (one(position, candidate)) } }
        @if measured.len() > DRAWN { p.hint { (measured.len() - DRAWN) " more are in the table." } }
        @if !others.is_empty() {
            details {
                summary { (numbers::counted(others.len(), "candidate")) " not measured" }
                ol.candidates { @for &(position, candidate) in others.iter().take(DRAWN) { (one(position, candidate)) } }
            }
        }
    }
}

/// The last comparison of a candidate in turns with another one.
fn in_turns(record: &Record, search: usize, candidate: usize, labels: &Labels) -> Option<String> {
    let of_candidate = |one: &&Comparison| one.search == search && one.candidate == candidate;
    let compared = record.by_policy.comparisons.iter().rev().find(of_candidate)?;
    let gain = Gain {
        ratio: 1.0 + compared.gain?,
        error: compared.error,
    };
    let gain = gain.to_string().replace(" times", " ×");
    Some(format!("{gain} {}, in turns", labels.number(search, compared.with)))
}

fn one(search: &Search, scale: f64, number: usize, labels: &Labels) -> Markup {
    let end = |one: &Candidate| one.rate.map(|rate| rate * (1.0 + one.spread.unwrap_or(0.0)));
    let largest = search.candidates.iter().filter_map(end).fold(0.0, f64::max);
    let first = search.candidates.first().and_then(|first| first.rate);
    let chosen = search.chosen.as_ref().map(|chosen| chosen.candidate);
    let rows = html! {
        thead { tr {
            th.number scope="col" { "candidate" }
            th scope="col" { "placement" }
            th scope="col" { "rate from zero" }
            th.number scope="col" { "rate" }
            th.number scope="col" { "deviation" }
            th.number scope="col" { "over the first" }
            th.number scope="col" { "measured for" }
            th scope="col" { "result" }
        } }
        tbody {
            @for (position, candidate) in search.candidates.iter().enumerate() {
                tr.chosen[chosen == Some(position)] {
                    th.number scope="row" { (labels.number(number, position)) }
                    td.words { (place(candidate.pus.as_ref(), candidate.within.as_ref()) + &Pinning::text_of_regions(candidate.regions.len())) }
                    td { (bar(candidate, largest)) }
                    td.number { (numbers::optional(candidate.rate.map(|rate| rate / scale))) }
                    td.number { (candidate.spread.map_or_else(|| "–".to_owned(), |spread| format!("{:.1} %", 100.0 * spread))) }
                    td.number { (over(candidate.rate, first)) }
                    td.number { (candidate.measured.map_or_else(|| "–".to_owned(), numbers::seconds)) }
                    td { (result(candidate, chosen == Some(position))) }
                }
            }
        }
    };
    folded(&format!("candidates of search {}", number + 1), &rows)
}

fn over(rate: Option<f64>, first: Option<f64>) -> String {
    let times = rate.zip(first).filter(|&(_, first)| first > 0.0);
    times.map_or_else(|| "–".to_owned(), |(rate, first)| format!("{:.3} ×", rate / first))
}

fn result(candidate: &Candidate, kept: bool) -> &'static str {
    if candidate.not_pinned.is_some() {
        return "ran unpinned";
    }
    match (kept, candidate.dropped, candidate.rate) {
        (true, _, _) => "kept",
        (false, true, _) => "dropped early, because it had lost",
        (false, false, None) => "not measured",
        (false, false, Some(_)) => "",
    }
}

/// The table has the numbers, so the bar is only for the eye.
fn bar(candidate: &Candidate, largest: f64) -> Markup {
    let Some(rate) = candidate.rate.filter(|_| largest > 0.0) else {
        return html! {};
    };
    let width = 100.0 * rate / largest;
    let deviation = width * candidate.spread.unwrap_or(0.0);
    html! {
        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect y="1" height="8" width=(format!("{width:.2}")) {}
            line x1=(format!("{:.2}", width - deviation)) x2=(format!("{:.2}", width + deviation)) y1="5" y2="5" {}
        }
    }
}
