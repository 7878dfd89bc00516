//! The page of two runs side by side: which one was faster, and what differs between them.
//!
//! 1. Runs of different programs, or of a measured, a simulated and a replayed one, have no verdict; the page says why.
//! 2. On a simulated machine the repetitions per second are compared, otherwise the times of the whole programs. If
//!    these are not known, the rates of the kept candidates are compared.
//! 3. Each run then has its own answers and its own time line, over the same time axis.

use super::{Labels, answers, decisions, drawn, rate};
use crate::numbers;
use crate::shell::{self, Section, table};
use crate::timeline::Tracks;
use maud::{Markup, html};
use pinfold_runtime::{Gain, RunDocument};

/// Differences below this share of a measured time are the noise of a single run. Assumed.
const NOISE: f64 = 0.02;

/// A run of the page.
#[derive(Clone, Copy, Debug)]
pub struct NamedRun<'a> {
    /// The name of its file.
    pub name: &'a str,
    /// The record.
    pub document: &'a RunDocument,
}

/// What the comparison gives.
#[derive(Clone, Debug, PartialEq)]
struct Comparison {
    /// Which one was faster, or why there is no answer.
    word: String,
    sentence: String,
    /// How many times as fast the second one is.
    gain: Option<Gain>,
    /// What was compared, and its two values in words.
    of: &'static str,
    values: [String; 2],
}

/// The page of two runs.
pub fn page(runs: [NamedRun<'_>; 2]) -> String {
    let comparison = compared(runs);
    let ends = runs.map(|run| {
        let ran = run.document.record.program.ran.unwrap_or(0.0);
        let line = run.document.record.timeline.as_ref();
        ran.max(line.and_then(|line| line.at.last().copied()).unwrap_or(0.0))
    });
    let end = ends.into_iter().fold(1e-3, f64::max);
    let sections = [
        Section::open("first", "The first run", one(runs[0], "first-", end)),
        Section::open("second", "The second run", one(runs[1], "second-", end)),
        Section::open("differences", "What differs", facts(runs)),
    ];
    let title = format!("{} and {}", runs[0].name, runs[1].name);
    let foot = html! { p.hint { "Written by pinfold " (env!("CARGO_PKG_VERSION")) "." } };
    shell::page(&title, &head(runs, &comparison), &sections, None, &foot)
}

fn head(runs: [NamedRun<'_>; 2], comparison: &Comparison) -> Markup {
    let words = runs.map(|run| run.document.record.kind().word());
    let badge = match words {
        [Some(one), Some(other)] if one == other => one.to_owned(),
        [Some(one), Some(other)] => format!("one is {one}, one is {other}"),
        [one, other] => one.or(other).map_or_else(String::new, |word| format!("one is {word}")),
    };
    html! {
        p.about {
            @if !badge.is_empty() { span.badge { (badge) } " " }
            (answers::title(runs[0].document)) @if runs[0].document.command != runs[1].document.command {
                " and " (answers::title(runs[1].document))
            }
        }
        div.answers {
            div.answer {
                h2 { "Which one was faster?" }
                p.big { (comparison.word) }
                p { (comparison.sentence) }
            }
            div.answer {
                h2 { "By how much?" }
                p.big {
                    @match comparison.gain {
                        Some(gain) => (gain.to_string().replace(" times", " ×")),
                        None => "Not compared",
                    }
                }
                @if comparison.gain.is_some() { p { "the second run as fast as the first, by " (comparison.of) } }
            }
            div.answer {
                h2 { (capital(comparison.of)) }
                ul.nodes {
                    @for (run, value) in runs.iter().zip(&comparison.values) {
                        li.pair { span.node { (run.name) } span { (value) } }
                    }
                }
            }
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The times, the speeds or the rates of two runs.
fn compared(runs: [NamedRun<'_>; 2]) -> Comparison {
    let [first, second] = runs.map(|run| run.document);
    let (of, values, larger_is_better) = measures(first, second);
    let shown = values.map(|value| match (value, of) {
        (None, _) => "not known".to_owned(),
        (Some((value, _)), "run time") => numbers::seconds(value),
        (Some((value, _)), _) => format!("{} per second", numbers::short(value)),
    });
    let none = |sentence: String| Comparison {
        word: "No answer".to_owned(),
        sentence,
        gain: None,
        of,
        values: shown.clone(),
    };
    if first.command != second.command {
        return none("They are runs of different programs, so their speeds say nothing about placement.".to_owned());
    }
    let kinds = [first, second].map(|document| document.record.kind());
    if kinds[0] != kinds[1] {
        let [one, other] = kinds.map(|kind| kind.word().unwrap_or("measured"));
        return none(format!("One run was {one}, and the other one {other}."));
    }
    let [Some(one), Some(other)] = values else {
        return none("A run has no time and no rate that the other one has as well.".to_owned());
    };
    let gain = if larger_is_better {
        Gain::new(other, one)
    } else {
        Gain::new(one, other)
    };
    let Some(gain) = gain else {
        return none("A run lasted no time.".to_owned());
    };
    let noise = match gain.error {
        Some(error) => 2.0 * error,
        None if !kinds[0].is_live() => 0.0,
        None => NOISE,
    };
    let word = if gain.ratio > 1.0 + noise {
        runs[1].name.to_owned()
    } else if gain.ratio < 1.0 - noise {
        runs[0].name.to_owned()
    } else {
        "Neither".to_owned()
    };
    let machines = [first, second].map(answers::machine);
    let mut sentences = vec![];
    if machines[0] != machines[1] {
        sentences.push(format!(
            "They ran on different machines, {} and {}.",
            machines[0], machines[1]
        ));
    }
    if kinds[0].is_live() && gain.error.is_none() {
        sentences.push("Each is one run; `pinfold compare` repeats them and says what is noise.".to_owned());
    }
    if sentences.is_empty() {
        sentences.push("The same program on the same machine.".to_owned());
    }
    Comparison {
        word,
        sentence: sentences.join(" "),
        gain: Some(gain),
        of,
        values: shown,
    }
}

/// A value with its standard error.
type Value = Option<(f64, Option<f64>)>;

/// What can be compared: its name, the values, and whether more is better.
fn measures(first: &RunDocument, second: &RunDocument) -> (&'static str, [Value; 2], bool) {
    let speed = |document: &RunDocument| {
        let ran = document.record.program.ran.filter(|&ran| ran > 0.0)?;
        Some((document.repetitions()? / ran, None))
    };
    if let [Some(one), Some(other)] = [speed(first), speed(second)] {
        return ("repetitions of the recorded part", [Some(one), Some(other)], true);
    }
    let time = |document: &RunDocument| {
        let ended = document.record.program.exit_status == Some(0) && document.attached.is_none();
        document
            .record
            .program
            .ran
            .filter(|&ran| ended && ran > 0.0 && document.repetitions().is_none())
            .map(|ran| (ran, None))
    };
    let times = [time(first), time(second)];
    if times.iter().all(Option::is_some) {
        return ("run time", times, false);
    }
    let kept = |document: &RunDocument| {
        let search = &document.record.search;
        let kept = search.candidates.get(search.chosen.as_ref()?.candidate)?;
        Some((kept.rate?, kept.error))
    };
    let unit = |document: &RunDocument| document.record.metric.as_ref().map(|metric| metric.name.clone());
    if unit(first).is_some() && unit(first) == unit(second) {
        return ("rate of the kept placement", [kept(first), kept(second)], true);
    }
    ("run time", times, false)
}

/// The answers and the time line of one run.
fn one(run: NamedRun<'_>, prefix: &'static str, end: f64) -> Markup {
    let record = &run.document.record;
    let labels = Labels::new(record);
    let drawn = drawn(record);
    let both = drawn.as_ref().map(|(layout, course)| (layout, course));
    let decisions = decisions::decisions(record);
    let tracks = Tracks {
        record,
        rate: rate(record),
        decisions: &decisions,
        labels: &labels,
        end,
        prefix,
    };
    html! {
        p { strong { (run.name) } ": " (answers::title(run.document)) }
        (answers::about(run.document))
        (answers::answers(record, &labels, both))
        (tracks.markup(both))
    }
}

/// The facts of both, those that differ in bold.
fn facts(runs: [NamedRun<'_>; 2]) -> Markup {
    let facts = |document: &RunDocument| {
        let record = &document.record;
        let chosen = record.search.chosen.as_ref();
        let kept = chosen.and_then(|chosen| record.search.candidates.get(chosen.candidate));
        let counted = |event: &str| {
            let line = record.timeline.as_ref()?;
            let series = line.metrics.iter().find(|series| series.name == event)?;
            let rates: Vec<f64> = series.rates.iter().flatten().copied().collect();
            (!rates.is_empty()).then(|| {
                format!(
                    "{} per second",
                    numbers::short(rates.iter().sum::<f64>() / rates.len() as f64)
                )
            })
        };
        [
            ("program", document.command.join(" ")),
            ("machine", answers::machine(document).to_owned()),
            (
                "measured or simulated",
                record.kind().word().unwrap_or("measured").to_owned(),
            ),
            ("policy", record.policy.clone()),
            (
                "threads placed by",
                document
                    .with
                    .map_or_else(|| "–".to_owned(), |with| with.name().to_owned()),
            ),
            ("allowed CPUs", document.allowed_pus.clone()),
            (
                "metric",
                record
                    .metric
                    .as_ref()
                    .map_or_else(|| "none".to_owned(), |metric| metric.name.clone()),
            ),
            ("threads", record.program.tasks.to_string()),
            (
                "run time",
                record.program.ran.map_or_else(|| "–".to_owned(), numbers::seconds),
            ),
            (
                "exit status",
                record
                    .program
                    .exit_status
                    .map_or_else(|| "–".to_owned(), |status| status.to_string()),
            ),
            (
                "kept",
                kept.map_or_else(|| "nothing was chosen".to_owned(), ToString::to_string),
            ),
            (
                "gain over unpinned",
                record
                    .gain_over_unpinned()
                    .map_or_else(|| "–".to_owned(), |gain| gain.to_string()),
            ),
            (
                "candidates measured",
                record
                    .search
                    .candidates
                    .iter()
                    .filter(|one| one.rate.is_some())
                    .count()
                    .to_string(),
            ),
            (
                "migrations of pages",
                record
                    .pages
                    .page_moves
                    .iter()
                    .filter(|one| one.moves.moved.pages > 0)
                    .count()
                    .to_string(),
            ),
            (
                "instructions",
                counted("event:instructions").unwrap_or_else(|| "–".to_owned()),
            ),
            (
                "cache misses",
                counted("event:cache-misses").unwrap_or_else(|| "–".to_owned()),
            ),
        ]
    };
    let [first, second] = runs.map(|run| facts(run.document));
    let rows = html! {
        thead { tr { th scope="col" { "" } @for run in &runs { th scope="col" { (run.name) } } } }
        tbody {
            @for ((name, one), (_, other)) in first.iter().zip(&second) {
                tr.chosen[one != other] {
                    th scope="row" { (name) }
                    td.words { (one) }
                    td.words { (other) }
                }
            }
        }
    };
    html! {
        p.hint { "Rows that differ are marked." }
        (table("facts of both runs", &rows))
    }
}
