//! `pinfold explain`: why each decision of a run was taken, in words, from what `pinfold run --json` wrote.
//!
//! Only what the record says is told. What a record does not hold, because nothing was measured or because another version
//! wrote it, is said to be missing.

mod moved;

use crate::console;
use crate::run::policies;
use anyhow::{Context, Result, bail};
use clap::Args;
use moved::Moved;
use pinfold_core::memory::Mismatch;
use pinfold_core::size_text;
use pinfold_sim::{COUNTS_OF_A_JOULE, ENERGY_UNIT};
use serde::Deserialize;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Explain in words what a run decided, and why.
///
/// FILE is what `pinfold run --json FILE` wrote.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The record of a run.
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let run = read(&arguments.file)?;
    console::print(&run.explained())?;
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> Result<Run> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    parse(&text).with_context(|| format!("`{}`", file.display()))
}

fn parse(text: &str) -> Result<Run> {
    let value: serde_json::Value = serde_json::from_str(text).context("this is no JSON")?;
    if value.get("policy").is_none() || value.get("candidates").is_none() {
        bail!("this is no record of a run: give a file that `pinfold run --json FILE` wrote");
    }
    serde_json::from_value(value).context("this record is of another version of pinfold, or was changed")
}

/// What is read of a record (docs/formats.md).
#[derive(Deserialize)]
struct Run {
    #[serde(default)]
    command: Vec<String>,
    topology: Option<String>,
    #[serde(default)]
    simulated: bool,
    policy: String,
    metric: Option<Metric>,
    metric_why: Option<String>,
    #[serde(flatten)]
    search: Search,
    #[serde(default)]
    earlier_searches: Vec<Search>,
    #[serde(default)]
    rates: Vec<Rate>,
    #[serde(default)]
    notes: Vec<Note>,
    #[serde(default)]
    refused: Vec<Refusal>,
    #[serde(default)]
    page_samples: Vec<Sampling>,
    #[serde(default)]
    page_profiles: Vec<Profile>,
    #[serde(default)]
    page_moves: Vec<Moves>,
    #[serde(default)]
    samples: Vec<HintSample>,
    #[serde(default)]
    moves: Vec<Moved>,
    ended_early: Option<EndedEarly>,
    ran: Option<f64>,
    exit_status: Option<i32>,
}

#[derive(Deserialize)]
struct Metric {
    name: String,
    unit: String,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Search {
    threads: Option<usize>,
    candidates_why: Option<String>,
    candidates: Vec<Candidate>,
    chosen: Option<Chosen>,
}

#[derive(Deserialize)]
struct Candidate {
    /// `None` for threads that were left to the operating system.
    pus: Option<Vec<u32>>,
    rate: Option<f64>,
    spread: Option<f64>,
    measured: Option<f64>,
    #[serde(default)]
    dropped: bool,
}

#[derive(Deserialize)]
struct Chosen {
    candidate: usize,
    gain_over_first: Option<f64>,
    gain_over_worst: Option<f64>,
    at: f64,
}

#[derive(Deserialize)]
struct Rate {
    rate: Option<f64>,
}

#[derive(Deserialize)]
struct Note {
    at: f64,
    text: String,
}

#[derive(Deserialize)]
struct Refusal {
    why: String,
}

#[derive(Deserialize)]
struct HintSample {
    at: f64,
    hint: Option<String>,
    threads: usize,
    lasted: f64,
    says: Option<String>,
    why: String,
}

#[derive(Deserialize)]
struct Sampling {
    at: f64,
    /// Of what; absent in records of pinfolds that knew page faults alone.
    #[serde(default)]
    events: Option<Vec<String>>,
    #[serde(default)]
    throttled: Option<u64>,
    lasted: f64,
    samples: u64,
    pages: u64,
    lost: u64,
    overhead: Option<f64>,
}

#[derive(Deserialize)]
struct Profile {
    at: f64,
    recording: String,
    accesses: u64,
    matched: u64,
    pages: u64,
    unmatched: Vec<Unmatched>,
}

#[derive(Deserialize)]
struct Unmatched {
    area: String,
    accesses: u64,
    why: Mismatch,
}

#[derive(Deserialize)]
struct Moves {
    at: f64,
    goal: String,
    moved: Pages,
    in_place: Pages,
    #[serde(default)]
    left: Vec<Left>,
    broken_off: Option<String>,
}

#[derive(Deserialize)]
struct Pages {
    pages: u64,
    bytes: u64,
}

#[derive(Deserialize)]
struct Left {
    pages: u64,
    text: String,
}

#[derive(Deserialize)]
struct EndedEarly {
    best: Option<usize>,
    why: String,
}

impl Run {
    fn explained(&self) -> String {
        let mut text = String::new();
        self.subject(&mut text);
        self.comparison(&mut text);
        for sample in &self.samples {
            sample.told(&mut text);
        }
        for (number, search) in self.earlier_searches.iter().enumerate() {
            let _ = writeln!(text, "\nSearch {} of {}:", number + 1, self.earlier_searches.len() + 1);
            search.told(self.metric.as_ref(), &mut text);
        }
        if !self.earlier_searches.is_empty() {
            let _ = writeln!(text, "\nThe last search:");
        }
        if self.policy == "sam" {
            moved::told(&self.moves, &mut text);
        } else {
            self.search.told(self.metric.as_ref(), &mut text);
        }
        self.afterwards(&mut text);
        text
    }

    /// What ran where, under whom.
    fn subject(&self, text: &mut String) {
        let program = if self.command.is_empty() {
            "A program".to_owned()
        } else {
            format!("`{}`", self.command.join(" "))
        };
        let machine = self
            .topology
            .as_deref()
            .unwrap_or("a machine of which nothing is known");
        let where_ = if self.simulated {
            "was simulated, not run, on"
        } else {
            "ran on"
        };
        let _ = writeln!(text, "{program} {where_} {machine}.");
        let does = policies::explained(&self.policy).map_or_else(String::new, |does| format!(", which {does}"));
        let _ = writeln!(text, "Who decided: the policy `{}`{does}.", self.policy);
    }

    /// By what pinnings were compared.
    fn comparison(&self, text: &mut String) {
        let why = self.metric_why.as_deref().unwrap_or("the record does not say why");
        match &self.metric {
            None => {
                let _ = writeln!(text, "Nothing was measured: {why}.");
            }
            Some(metric) => {
                let whose = match metric.scope.as_deref() {
                    Some("task") => ", on average over the threads that work",
                    Some("program") => ", of the whole program",
                    _ => "",
                };
                let _ = writeln!(
                    text,
                    "What counted: {}, in {}s a second{whose}: {why}.",
                    metric.name, metric.unit
                );
            }
        }
    }

    /// What happened after the choice.
    fn afterwards(&self, text: &mut String) {
        let after: Vec<f64> = self.rates.iter().filter_map(|rate| rate.rate).collect();
        let chosen = self.search.chosen.as_ref();
        let promised = chosen.and_then(|chosen| self.search.candidates.get(chosen.candidate)?.rate);
        if let (Some(promised), false) = (promised, after.is_empty()) {
            let mean = after.iter().sum::<f64>() / after.len() as f64;
            let _ = writeln!(
                text,
                "Whether it helped: after the choice the rate was {} on average, {}.",
                rate(self.metric.as_ref(), mean),
                compared(mean / promised - 1.0, "than when it was tried")
            );
        }
        if let Some(early) = &self.ended_early {
            let best = early.best.map_or_else(String::new, |best| {
                format!(" The best so far was candidate {}.", best.saturating_add(1))
            });
            let _ = writeln!(text, "Ended early: {}{best}", sentence(&early.why));
        }
        for samples in &self.page_samples {
            samples.told(text);
        }
        for profile in &self.page_profiles {
            profile.told(text);
        }
        for moves in &self.page_moves {
            moves.told(text);
        }
        for refusal in &self.refused {
            let _ = writeln!(text, "Not done: {}", sentence(&refusal.why));
        }
        for note in &self.notes {
            let _ = writeln!(text, "At {} s: {}", number(note.at), note.text);
        }
        if let (Some(ran), Some(status)) = (self.ran, self.exit_status) {
            let _ = writeln!(
                text,
                "The program {} {} s and ended with status {status}.",
                if self.simulated { "would have run" } else { "ran" },
                number(ran)
            );
        }
    }
}

impl Search {
    /// `metric` is what the rates are of.
    fn told(&self, metric: Option<&Metric>, text: &mut String) {
        if let Some(threads) = self.threads {
            let _ = writeln!(text, "{} had ranks.", counted(threads, "thread"));
        }
        if self.candidates.is_empty() {
            let _ = writeln!(text, "No pinning was tried.");
            return;
        }
        let why = self
            .candidates_why
            .as_deref()
            .unwrap_or("the record does not say from where");
        let _ = writeln!(text, "{}: {why}.", counted(self.candidates.len(), "candidate"));
        let best = self
            .candidates
            .iter()
            .filter_map(|candidate| candidate.rate)
            .fold(f64::NEG_INFINITY, f64::max);
        for (number, candidate) in self.candidates.iter().enumerate() {
            let _ = writeln!(
                text,
                "  {}. {}: {}",
                number + 1,
                candidate.place(),
                candidate.told(metric, best)
            );
        }
        if let Some(chosen) = &self.chosen {
            let _ = writeln!(text, "{}", chosen.told(self));
        }
    }
}

impl HintSample {
    /// Only a sample of which rules were asked.
    fn told(&self, text: &mut String) {
        let Some(says) = &self.says else { return };
        let _ = writeln!(
            text,
            "Until {} s {} were observed for {} s where {}, and the rules asked for hint {says}:",
            number(self.at),
            counted(self.threads, "thread"),
            number(self.lasted),
            match &self.hint {
                Some(hint) => format!("hint {hint} puts them"),
                None => "the operating system ran them".to_owned(),
            }
        );
        for line in self.why.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
}

impl Sampling {
    fn told(&self, text: &mut String) {
        let _ = write!(
            text,
            "At {} s accesses had been sampled for {} s: {} samples of {} pages",
            number(self.at),
            number(self.lasted),
            self.samples,
            self.pages
        );
        if let Some(events) = &self.events {
            let _ = write!(text, " by {}", events.join(" and "));
        }
        if self.lost > 0 {
            let _ = write!(text, ", {} more were lost", self.lost);
        }
        if let Some(throttled @ 1..) = self.throttled {
            let _ = write!(text, ", and the kernel held them back {throttled} times");
        }
        if let Some(overhead) = self.overhead {
            let by = if self.events.is_some() {
                "taking them took about"
            } else {
                "page faults took"
            };
            let _ = write!(text, "; {by} {:.1} % of the threads' time", overhead * 100.0);
        }
        text.push_str(".\n");
    }
}

impl Profile {
    fn told(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "At {} s {} of the {} accesses in {} were brought to {} pages.",
            number(self.at),
            self.matched,
            self.accesses,
            self.recording,
            self.pages
        );
        for area in &self.unmatched {
            let _ = writeln!(text, "  {} to {} were not: {}.", area.accesses, area.area, area.why);
        }
    }
}

impl Moves {
    fn told(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "At {} s pages were to be {}: {} moved, {} were there already.",
            number(self.at),
            self.goal,
            self.moved.told(),
            self.in_place.told()
        );
        for left in &self.left {
            let pages = usize::try_from(left.pages).unwrap_or(usize::MAX);
            let _ = writeln!(text, "  {} stayed: {}", counted(pages, "page"), sentence(&left.text));
        }
        if let Some(why) = &self.broken_off {
            let _ = writeln!(text, "  It was broken off: {}", sentence(why));
        }
    }
}

impl Pages {
    fn told(&self) -> String {
        let pages = usize::try_from(self.pages).unwrap_or(usize::MAX);
        format!("{} ({})", counted(pages, "page"), size_text(self.bytes))
    }
}

impl Candidate {
    fn place(&self) -> String {
        let Some(pus) = &self.pus else {
            return "unpinned, as the operating system runs them".to_owned();
        };
        let pus: Vec<String> = pus.iter().map(u32::to_string).collect();
        let plural = if pus.len() == 1 { "" } else { "s" };
        format!("rank by rank on CPU{plural} {}", pus.join(","))
    }

    fn told(&self, metric: Option<&Metric>, best: f64) -> String {
        let Some(measured_rate) = self.rate else {
            return "not measured".to_owned();
        };
        let mut text = rate(metric, measured_rate);
        if let Some(measured) = self.measured {
            let _ = write!(text, " over {} s", number(measured));
        }
        if let Some(spread) = self.spread {
            let _ = write!(text, ", readings {:.1} % apart", 100.0 * spread);
        }
        let behind = measured_rate / best - 1.0;
        if self.dropped {
            let _ = write!(
                text,
                "; dropped before its time was up, since it had lost with 99 % confidence ({})",
                compared(behind, "than the best")
            );
        } else if behind < 0.0 {
            let _ = write!(text, "; {}", compared(behind, "than the best"));
        } else {
            text.push_str("; the best");
        }
        text
    }
}

impl Chosen {
    fn told(&self, search: &Search) -> String {
        let mut reasons = vec![];
        if search.candidates.len() == 1 {
            reasons.push("it was the only one".to_owned());
        }
        let unpinned = search.candidates.first().is_some_and(|first| first.pus.is_none());
        if unpinned && self.candidate == 0 && search.candidates.len() > 1 {
            reasons.push("no pinning was better beyond the noise, so nothing was pinned".to_owned());
        }
        let than_first = if unpinned {
            "than unpinned, which is how the program began"
        } else {
            "than the first, which is where the program began"
        };
        let gains = [
            (
                self.gain_over_first.filter(|_| !unpinned || self.candidate > 0),
                than_first,
            ),
            (self.gain_over_worst, "than the worst"),
        ];
        for (gain, than) in gains {
            match gain {
                Some(gain) if search.candidates.len() > 1 => reasons.push(compared(gain, than)),
                _ => {}
            }
        }
        let why = if reasons.is_empty() {
            "the record does not say why".to_owned()
        } else {
            reasons.join(", ")
        };
        format!(
            "The choice, at {} s: candidate {}: {why}.",
            number(self.at),
            self.candidate.saturating_add(1)
        )
    }
}

/// A share in words: `9.2 % higher than the worst`.
fn compared(share: f64, than: &str) -> String {
    if !share.is_finite() {
        return format!("with nothing to compare {than}");
    }
    let percent = 100.0 * share.abs();
    if percent < 0.05 {
        return format!("no other {than}");
    }
    let how = if share > 0.0 { "higher" } else { "lower" };
    format!("{percent:.1} % {how} {than}")
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A rate with its unit: `12.5 regions a second`.
fn rate(metric: Option<&Metric>, value: f64) -> String {
    match metric {
        Some(metric) if metric.unit == ENERGY_UNIT => format!("{} watts", number(value / COUNTS_OF_A_JOULE)),
        Some(metric) => format!("{} {}s a second", number(value), metric.unit),
        None => format!("{} a second", number(value)),
    }
}

/// Whole where it is large, with four digits where it is not.
fn number(value: f64) -> String {
    if value.abs() >= 1000.0 || value.fract().abs() < 5e-4 {
        format!("{value:.0}")
    } else {
        let digits = format!("{value:.3}");
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let begin: String = letters
        .next()
        .map(|first| first.to_uppercase().collect())
        .unwrap_or_default();
    let end = if words.ends_with('.') { "" } else { "." };
    format!("{begin}{}{end}", letters.as_str())
}

#[cfg(test)]
#[path = "../../core/tests/support/hostile.rs"]
mod hostile;

#[cfg(test)]
mod tests {
    use super::hostile::{INPUTS, spoiled_text};
    use super::*;
    use proptest::prelude::*;

    const RECORD: &str = r#"{
        "command": ["app", "--fast"], "topology": "small: 2 packages", "machine": "small", "simulated": false,
        "policy": "autopin", "metric": {"name": "regions", "unit": "region", "scope": "program"},
        "metric_why": "the nearest to the program's own progress", "threads": 2,
        "candidates_why": "the pinnings that were asked for",
        "candidates": [
            {"pus": [0, 1], "rate": 80.0, "spread": 0.01, "measured": 30.0, "dropped": false},
            {"pus": [0, 2], "rate": 100.0, "spread": 0.02, "measured": 30.0, "dropped": false},
            {"pus": [0, 3], "rate": 60.0, "spread": 0.02, "measured": 1.5, "dropped": true}
        ],
        "chosen": {"candidate": 1, "gain_over_first": 0.25, "gain_over_worst": 0.6667, "at": 75.0},
        "earlier_searches": [], "rates": [{"rate": 99.0}, {"rate": null}],
        "notes": [{"at": 2.0, "text": "A note."}], "refused": [{"task": null, "why": "pages stay where they are"}],
        "page_samples": [{"at": 11.0, "lasted": 3.0, "samples": 90, "pages": 4, "lost": 2, "overhead": 0.05},
            {"at": 21.0, "lasted": 3.0, "samples": 80, "pages": 5, "lost": 0, "overhead": 0.01,
            "events": ["cpu/mem-loads/", "cpu/mem-stores/"], "throttled": 7}],
        "page_profiles": [{"at": 5.0, "recording": "a.pft", "threads": 2, "accesses": 100, "matched": 90, "pages": 7, "areas": 3,
            "unmatched": [{"area": "[heap]", "bytes": 8192, "accesses": 10, "why": "not_mapped"}]}],
        "page_moves": [{"at": 12.0, "goal": "after their threads", "processes": 1, "moved": {"pages": 3, "bytes": 12288},
            "in_place": {"pages": 1, "bytes": 4096}, "left": [{"why": "busy", "errno": "EBUSY", "node": null, "pages": 2,
            "bytes": 8192, "text": "the kernel could not take them out of use"}], "lasted": 0.1, "broken_off": null}],
        "ended_early": {"best": 1, "rate": 99.5, "why": "the second search was not done"}, "ran": 120.5, "exit_status": 0
    }"#;

    #[test]
    fn every_decision_is_told_with_its_reason() {
        let text = parse(RECORD).unwrap().explained();
        for words in [
            "`app --fast` ran on small: 2 packages.",
            "What counted: regions, in regions a second, of the whole program: the nearest to the program's own progress.",
            "2 threads had ranks.",
            "3 candidates: the pinnings that were asked for.",
            "1. rank by rank on CPUs 0,1: 80 regions a second over 30 s, readings 1.0 % apart; 20.0 % lower than the best",
            "2. rank by rank on CPUs 0,2: 100 regions a second over 30 s, readings 2.0 % apart; the best",
            "dropped before its time was up, since it had lost with 99 % confidence (40.0 % lower than the best)",
            "The choice, at 75 s: candidate 2: 25.0 % higher than the first, which is where the program began, 66.7 % higher \
             than the worst.",
            "after the choice the rate was 99 regions a second on average, 1.0 % lower than when it was tried.",
            "At 11 s accesses had been sampled for 3 s: 90 samples of 4 pages, 2 more were lost; page faults took 5.0 % of the \
             threads' time.",
            "At 5 s 90 of the 100 accesses in a.pft were brought to 7 pages.\n  10 to [heap] were not: the running program",
            "At 21 s accesses had been sampled for 3 s: 80 samples of 5 pages by cpu/mem-loads/ and cpu/mem-stores/, and the \
             kernel held them back 7 times; taking them took about 1.0 % of the threads' time.",
            "At 12 s pages were to be after their threads: 3 pages (12 KiB) moved, 1 page (4 KiB) were there already.",
            "2 pages stayed: The kernel could not take them out of use.",
            "Ended early: The second search was not done. The best so far was candidate 2.",
            "Not done: Pages stay where they are.",
            "At 2 s: A note.",
            "The program ran 120.5 s and ended with status 0.",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
    }

    #[test]
    fn a_choice_is_compared_with_the_program_as_it_was_unpinned() {
        let unpinned = RECORD.replacen("[0, 1]", "null", 1);
        let text = parse(&unpinned).unwrap().explained();
        assert!(
            text.contains("1. unpinned, as the operating system runs them: 80 a second"),
            "{text}"
        );
        assert!(text.contains("25.0 % higher than unpinned"), "{text}");
        let back = unpinned.replace(
            r#""candidate": 1, "gain_over_first": 0.25"#,
            r#""candidate": 0, "gain_over_first": 0.0"#,
        );
        let text = parse(&back).unwrap().explained();
        assert!(
            text.contains("no pinning was better beyond the noise, so nothing was pinned"),
            "{text}"
        );
    }

    #[test]
    fn what_was_not_measured_is_said_to_be_missing() {
        let text =
            parse(r#"{"policy": "none", "candidates": [], "simulated": true, "metric_why": "no source counted"}"#)
                .unwrap()
                .explained();
        assert!(text.contains("Nothing was measured: no source counted."), "{text}");
        assert!(text.contains("No pinning was tried."), "{text}");
        assert!(text.contains("was simulated, not run"), "{text}");
    }

    #[test]
    fn what_is_no_record_is_refused_with_the_command_that_makes_one() {
        for (text, words) in [
            ("{", "this is no JSON"),
            ("[1]", "pinfold run --json FILE"),
            (r#"{"policy": "x", "candidates": 3}"#, "another version"),
        ] {
            let Err(error) = parse(text) else {
                panic!("{text} is taken for a record");
            };
            assert!(format!("{error:#}").contains(words), "{error:#}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(INPUTS))]

        #[test]
        fn a_record_is_explained_or_refused(text in spoiled_text(&[RECORD])) {
            if let Ok(run) = parse(&text) {
                prop_assert!(!run.explained().is_empty());
            }
        }
    }
}
