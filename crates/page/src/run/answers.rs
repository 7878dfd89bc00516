//! The head of the page: the program, the machine, and the result.

use crate::decisions::place;
use crate::numbers;
use maud::{Markup, html};
use pinfold_core::Pinning;
use pinfold_runtime::{Chosen, Record, RunDocument};

/// The program, as the title.
pub(super) fn title(document: &RunDocument) -> String {
    if document.command.is_empty() {
        return format!("A run on {}", machine(document));
    }
    document.command.join(" ")
}

fn machine(document: &RunDocument) -> &str {
    match (document.record.machine.as_str(), document.topology.as_str()) {
        ("", "") => "an unknown machine",
        ("", topology) => topology,
        (machine, _) => machine,
    }
}

pub(super) fn head(document: &RunDocument) -> Markup {
    let record = &document.record;
    let ran = record.program.ran;
    html! {
        @if record.simulated {
            p { span.badge { "simulated" } " Nothing on this page was measured: the machine is a model." }
        }
        p.lead { (outcome(record)) }
        dl.facts {
            (fact("Machine", machine(document)))
            (fact("Policy", &record.policy))
            (fact("Metric", record.metric.as_ref().map_or("none", |metric| &metric.name)))
            (fact(if record.simulated { "Run time, simulated" } else { "Run time" }, &ran.map_or_else(|| "not known".to_owned(), numbers::seconds)))
            (fact("Exit status", &record.program.exit_status.map_or_else(|| "not known".to_owned(), |status| status.to_string())))
            (fact("Threads", &record.program.tasks.to_string()))
            (fact("Allowed CPUs", &document.allowed_pus))
            @if !document.topology.is_empty() { div.wide { dt { "Topology" } dd { (document.topology) } } }
        }
    }
}

/// A fact; nothing where the record does not have it.
fn fact(name: &str, value: &str) -> Markup {
    html! { @if !value.is_empty() { div { dt { (name) } dd { (value) } } } }
}

/// What came of the run, in a sentence.
fn outcome(record: &Record) -> String {
    if let Some(chosen) = &record.search.chosen {
        return kept(record, chosen);
    }
    if let Some(early) = &record.program.ended_early {
        return format!(
            "The program ended before the search did: {}.",
            early.why.trim_end_matches('.')
        );
    }
    if let Some(regions) = &record.by_policy.regions {
        let kept = regions.kept();
        let program = regions.program_gain();
        let gain = match (program, regions.gain) {
            (Some(program), _) => format!("the program ran {program} as fast with them as before"),
            (None, Some(gain)) => format!("together they are {:.2} times as fast as before", 1.0 + gain),
            (None, None) => "the effect was not measured".to_owned(),
        };
        return match (kept, program) {
            (0, None) => {
                "No parallel region kept a configuration of its own: none was faster than unpinned.".to_owned()
            }
            (0, Some(_)) => format!("No parallel region kept a configuration of its own: {gain}."),
            _ => format!("{kept} parallel regions got configurations of their own; {gain}."),
        };
    }
    if let Some(why) = &record.by_policy.nothing_to_gain {
        return format!("Placement cannot matter on this machine: {why}.");
    }
    match record.by_policy.moves.len() {
        0 => "Nothing was chosen.".to_owned(),
        1 => "One thread was moved.".to_owned(),
        moves => format!("Threads were moved {moves} times."),
    }
}

fn kept(record: &Record, chosen: &Chosen) -> String {
    let unpinned = record
        .search
        .candidates
        .first()
        .is_some_and(|first| first.pus.is_none());
    if chosen.candidate == 0 && unpinned {
        return "The program was left unpinned.".to_owned();
    }
    let first = if unpinned { "unpinned" } else { "the first candidate" };
    let gain = chosen
        .gain_over_first
        .filter(|_| chosen.candidate > 0)
        .map_or_else(String::new, |gain| {
            format!("; its rate was {:.2} times that of {first}", 1.0 + gain)
        });
    let candidate = record.search.candidates.get(chosen.candidate);
    let regions = Pinning::text_of_regions(candidate.map_or(0, |candidate| candidate.regions.len()));
    format!(
        "Kept: candidate {}, {}{gain}.",
        chosen.candidate.saturating_add(1),
        place(chosen.pus.as_ref(), chosen.within.as_ref()) + &regions
    )
}
