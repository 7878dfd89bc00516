//! What was decided when: the marks on the time line, and the log.

use maud::{Markup, html};
use pinfold_core::{NoteCode, Pinning, PuSet};
use pinfold_runtime::{Candidate, Comparison, Record, Search, TimedConfiguration, TimedMove, TimedNote};
use std::collections::BTreeMap;

use crate::numbers;
use crate::shell::table;

/// At most this many rows are listed.
const LISTED: usize = 200;

/// One decision.
pub(crate) struct Decision {
    pub(crate) at: f64,
    pub(crate) what: String,
    /// The label of its mark; `None` for a decision that only the log has.
    pub(crate) mark: Option<String>,
}

/// The decisions of a run, the first one first.
pub(crate) fn decisions(record: &Record) -> Vec<Decision> {
    let mut found = vec![];
    let searches: Vec<&Search> = record.earlier_searches.iter().chain([&record.search]).collect();
    for (number, search) in searches.iter().enumerate() {
        found.extend(chosen(number, searches.len(), search));
    }
    if let Some(line) = &record.timeline {
        // A search ends with the configuration that it keeps.
        let kept = |one: &TimedConfiguration| {
            let mut chosen = searches.iter().filter_map(|search| search.chosen.as_ref());
            chosen.any(|chosen| chosen.at.to_bits() == one.at.to_bits() && chosen.pus == one.pus)
        };
        let applied = |one| applied(one, searches.len());
        found.extend(line.configurations.iter().filter(|one| !kept(one)).map(applied));
    }
    let policy = &record.by_policy;
    found.extend(policy.samples.iter().filter_map(|sample| {
        let says = sample.says.as_ref()?;
        Some(Decision::new(sample.at, format!("The rules asked for hint {says}.")).marked(format!("hint {says}")))
    }));
    found.extend(
        policy
            .forecast
            .iter()
            .map(|one| Decision::new(one.at, format!("Forecast: {}.", one.why.trim_end_matches('.')))),
    );
    found.extend(policy.regions.iter().map(|one| {
        Decision::new(
            one.at,
            format!(
                "{} parallel regions got configurations of their own.",
                one.choices.len()
            ),
        )
        .marked("regions")
    }));
    found.extend(moved(&policy.moves));
    found.extend(policy.mapping_comparisons.iter().map(|one| {
        let what = format!("Compared with unpinned threads: {}.", one.comparison);
        Decision::new(one.at, what).marked("compared")
    }));
    found.extend(
        record
            .pages
            .page_moves
            .iter()
            .filter(|one| one.moves.moved.pages > 0)
            .map(|one| Decision::new(one.at, format!("{} moved: {}.", one.moves.moved, one.moves.goal))),
    );
    let own = policy.findings.iter();
    found.extend(own.map(|one| Decision::new(one.at, one.finding.text.clone())));
    found.extend(policy.comparisons.iter().map(|one| compared(one, searches.len())));
    let again = |note: &&TimedNote| matches!(note.code, NoteCode::SearchAgain | NoteCode::Phase);
    let again = record.notes.iter().filter(again);
    found.extend(again.map(|note| Decision::new(note.at, note.text.clone()).marked("search again")));
    found.sort_by(|one, other| one.at.total_cmp(&other.at));
    found
}

impl Decision {
    fn new(at: f64, what: String) -> Self {
        Self { at, what, mark: None }
    }

    fn marked(self, label: impl Into<String>) -> Self {
        Self {
            mark: Some(label.into()),
            ..self
        }
    }
}

/// `search 2, ` if the run had several searches.
fn search_prefix(number: usize, searches: usize) -> String {
    if searches > 1 {
        format!("search {}, ", number.saturating_add(1))
    } else {
        String::new()
    }
}

/// The short name of a candidate: `#3`, or `#2.3` for the third one of the second of several searches.
pub(crate) fn candidate_number(search: usize, searches: usize, candidate: usize) -> String {
    let candidate = candidate.saturating_add(1);
    if searches > 1 {
        format!("#{}.{candidate}", search.saturating_add(1))
    } else {
        format!("#{candidate}")
    }
}

fn chosen(number: usize, searches: usize, search: &Search) -> Option<Decision> {
    let chosen = search.chosen.as_ref()?;
    let gain = chosen
        .gain_over_first
        .filter(|_| chosen.candidate > 0)
        .map_or_else(String::new, |gain| {
            format!(", {} over the first candidate", numbers::signed_percent(gain))
        });
    let regions = search
        .candidates
        .get(chosen.candidate)
        .map_or(0, |one| one.regions.len());
    let place = place(chosen.pus.as_ref(), chosen.within.as_ref()) + &Pinning::text_of_regions(regions);
    let what = format!(
        "Kept: {}candidate {}, {place}{gain}.",
        search_prefix(number, searches),
        chosen.candidate.saturating_add(1)
    );
    let left_alone = search
        .candidates
        .get(chosen.candidate)
        .is_some_and(Candidate::is_left_alone);
    let mark = if left_alone {
        "left unpinned".to_owned()
    } else {
        format!("kept {}", candidate_number(number, searches, chosen.candidate))
    };
    Some(Decision::new(chosen.at, what).marked(mark))
}

fn compared(one: &Comparison, searches: usize) -> Decision {
    let result = match (one.gain, one.error) {
        (Some(gain), Some(error)) => format!("{:.3} ± {error:.3} times as fast", 1.0 + gain),
        _ => "not measured".to_owned(),
    };
    let what = format!(
        "Compared: {}candidate {} in turns with candidate {}: {result}.",
        search_prefix(one.search, searches),
        one.candidate.saturating_add(1),
        one.with.saturating_add(1)
    );
    Decision::new(one.at, what)
}

fn applied(one: &TimedConfiguration, searches: usize) -> Decision {
    let candidate = one.candidate.map_or_else(
        || "Applied: ".to_owned(),
        |(search, candidate)| {
            format!(
                "Applied: {}candidate {}, ",
                search_prefix(search, searches),
                candidate.saturating_add(1)
            )
        },
    );
    let pages = one.pages.map_or_else(String::new, |pages| format!(", pages {pages}"));
    let prefetch = one
        .prefetch
        .map_or_else(String::new, |prefetch| format!(", prefetchers {prefetch}"));
    let regions = match one.regions {
        0 => String::new(),
        1 => ", 1 region with settings of its own".to_owned(),
        several => format!(", {several} regions with settings of their own"),
    };
    Decision::new(
        one.at,
        format!(
            "{candidate}{}{pages}{prefetch}{regions}.",
            place(one.pus.as_ref(), one.within.as_ref())
        ),
    )
}

/// The CPUs of the ranks, in words; `within` has the CPUs that unpinned ranks may use.
pub(crate) fn place(pus: Option<&Pinning>, within: Option<&PuSet>) -> String {
    match (pus, within) {
        (Some(pus), _) => format!("CPUs {pus} by rank"),
        (None, Some(within)) => format!("unpinned on CPUs {within}"),
        (None, None) => "unpinned".to_owned(),
    }
}

/// One decision for all moves of the same time.
fn moved(moves: &[TimedMove]) -> Vec<Decision> {
    let mut together: Vec<(f64, Vec<&TimedMove>)> = vec![];
    for one in moves {
        match together.last_mut() {
            Some((at, group)) if at.to_bits() == one.at.to_bits() => group.push(one),
            _ => together.push((one.at, vec![one])),
        }
    }
    let decisions = together.into_iter().map(|(at, group)| {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for one in &group {
            *reasons.entry(one.moved.reason.name()).or_default() += 1;
        }
        let reasons: Vec<String> = reasons
            .iter()
            .map(|(reason, times)| format!("{times} for {reason}"))
            .collect();
        let threads = if group.len() == 1 { "thread" } else { "threads" };
        Decision::new(at, format!("{} {threads} moved: {}.", group.len(), reasons.join(", ")))
            .marked(format!("{} moved", group.len()))
    });
    decisions.collect()
}

/// The log.
pub(crate) fn list(decisions: &[Decision]) -> Markup {
    if decisions.is_empty() {
        return html! { p { "Nothing was decided." } };
    }
    let rows = html! {
        thead { tr { th.number scope="col" { "time" } th scope="col" { "decision" } } }
        tbody {
            @for decision in decisions.iter().take(LISTED) {
                tr { th.number scope="row" { (numbers::seconds(decision.at)) } td.words { (decision.what) } }
            }
        }
    };
    html! {
        (table("decisions", &rows))
        @if decisions.len() > LISTED {
            p.hint { (decisions.len() - LISTED) " more decisions are not listed." }
        }
    }
}
