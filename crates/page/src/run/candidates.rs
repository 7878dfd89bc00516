//! The candidates of each search, with bars from zero.

use crate::decisions::place;
use crate::numbers;
use crate::shell::table;
use maud::{Markup, html};
use pinfold_core::Pinning;
use pinfold_runtime::{Candidate, Record, Search};

pub(super) fn section(record: &Record) -> Markup {
    let unit = record.metric.as_ref().map_or("counts", |metric| &metric.unit);
    let (scale, unit) = numbers::unit(unit);
    let whose = match record.metric.as_ref().map(|metric| metric.scope) {
        Some(pinfold_core::Scope::Task) => ", the mean of the working threads",
        _ => "",
    };
    let searches: Vec<&Search> = record.earlier_searches.iter().chain([&record.search]).collect();
    html! {
        p { "Each candidate is a placement of the threads. Rates are in " (unit) (whose) ". Bars begin at zero; the line at the end of a \
             bar is the standard deviation of the readings." }
        @for (number, search) in searches.iter().enumerate() {
            @if searches.len() > 1 { h3 { "Search " (number + 1) } }
            @if let Some(why) = &search.candidates_why { p.quiet { "Candidates: " (why) "." } }
            (one(search, scale, &format!("candidates of search {}", number + 1)))
        }
    }
}

fn one(search: &Search, scale: f64, label: &str) -> Markup {
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
            @for (number, candidate) in search.candidates.iter().enumerate() {
                tr.chosen[chosen == Some(number)] {
                    th.number scope="row" { (number + 1) }
                    td.words { (place(candidate.pus.as_ref(), candidate.within.as_ref()) + &Pinning::text_of_regions(candidate.regions.len())) }
                    td { (bar(candidate, largest)) }
                    td.number { (numbers::optional(candidate.rate.map(|rate| rate / scale))) }
                    td.number { (candidate.spread.map_or_else(|| "–".to_owned(), |spread| format!("{:.1} %", 100.0 * spread))) }
                    td.number { (over(candidate.rate, first)) }
                    td.number { (candidate.measured.map_or_else(|| "–".to_owned(), numbers::seconds)) }
                    td { (result(candidate, chosen == Some(number))) }
                }
            }
        }
    };
    table(label, &rows)
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
