//! Everything that was counted: a small curve for each of the first counters, and a table of all.

use crate::chart::{self, Chart};
use crate::numbers;
use crate::shell::table;
use maud::{Markup, html};
use pinfold_runtime::{MetricRate, MetricSeries, Record, Timeline};

/// More curves than this cannot be compared at a glance.
const CURVES: usize = 12;

/// What there is to see, in a few words.
pub(super) fn says(record: &Record) -> String {
    match &record.timeline {
        Some(line) => numbers::counted(line.metrics.len(), "counter"),
        None => "What was counted after the choice".to_owned(),
    }
}

pub(super) fn section(record: &Record) -> Markup {
    match record.timeline.as_ref().filter(|line| !line.at.is_empty()) {
        Some(line) => over_time(record, line),
        None => last_values(record),
    }
}

/// The values in a series that are known.
fn known(series: &MetricSeries) -> Vec<f64> {
    let (scale, _) = numbers::unit(&series.unit);
    series.rates.iter().flatten().map(|rate| rate / scale).collect()
}

fn over_time(record: &Record, line: &Timeline) -> Markup {
    let end = record
        .program
        .ran
        .unwrap_or(0.0)
        .max(line.at.last().copied().unwrap_or(0.0))
        .max(1e-3);
    let counted: Vec<&MetricSeries> = line
        .metrics
        .iter()
        .filter(|series| known(series).iter().any(|&value| value > 0.0))
        .collect();
    if line.metrics.is_empty() {
        return html! { p { "Nothing was counted." } };
    }
    let charts = counted.iter().take(CURVES).enumerate().map(|(number, series)| {
        let (scale, unit) = numbers::unit(&series.unit);
        let rates: Vec<Option<f64>> = series.rates.iter().map(|rate| rate.map(|rate| rate / scale)).collect();
        Chart {
            id: format!("counter-{number}"),
            title: series.name.clone(),
            unit,
            description: format!("{}. The table below has all counters.", numbers::range(&known(series))),
            end,
            parts: chart::since_before(&line.at, &rates),
            top: None,
            text: numbers::short,
            marks: &[],
            height: 64,
        }
    });
    let charts: Vec<Chart<'_>> = charts.collect();
    let rows = html! {
        thead { tr {
            th scope="col" { "counter" }
            th scope="col" { "unit" }
            th.number scope="col" { "least" }
            th.number scope="col" { "mean" }
            th.number scope="col" { "most" }
        } }
        tbody {
            @for series in &line.metrics {
                @let values = known(series);
                @let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
                tr {
                    th scope="row" { (series.name) }
                    td { (numbers::unit(&series.unit).1) }
                    td.number { (numbers::optional(values.iter().copied().reduce(f64::min))) }
                    td.number { (numbers::optional(mean)) }
                    td.number { (numbers::optional(values.iter().copied().reduce(f64::max))) }
                }
            }
        }
    };
    html! {
        p { "Rates are of all threads together. A dash is a value that was not available." }
        @if counted.len() > CURVES {
            p.hint { "The first " (CURVES) " of " (counted.len()) " counters that counted anything have curves; the table has all." }
        }
        div.few { @for chart in &charts { (chart.markup()) } }
        (table("all counters over the run", &rows))
    }
}

/// What an older record has: the rates of the kept candidate, or of the last line.
fn last_values(record: &Record) -> Markup {
    let search = &record.search;
    let chosen = search
        .chosen
        .as_ref()
        .and_then(|chosen| search.candidates.get(chosen.candidate));
    let last = record
        .rates
        .iter()
        .rev()
        .map(|rate| &rate.metrics)
        .find(|metrics| !metrics.is_empty());
    let metrics: &[MetricRate] = last.or(chosen.map(|chosen| &chosen.metrics)).map_or(&[], Vec::as_slice);
    if metrics.is_empty() {
        return html! { p { "The record has no counters." } };
    }
    let rows = html! {
        thead { tr { th scope="col" { "counter" } th.number scope="col" { "counts per second" } th scope="col" { "note" } } }
        tbody {
            @for metric in metrics {
                tr {
                    th scope="row" { (metric.name) }
                    td.number { (numbers::optional(metric.rate)) }
                    td { @if metric.multiplexed { "scaled from a part of the time" } }
                }
            }
        }
    };
    table("counters after the choice, of all threads together", &rows)
}
