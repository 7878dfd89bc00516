//! Tells a person what happens: one line each for the machine, the metric, every candidate, the choice, the rate.
//!
//! Lines go to standard error and begin with `pinfold: `, so that they can be told from the program's own. Whether
//! they can be written makes no difference to the run.

use super::duration;
use super::lines::Lines;
use super::plan::Plan;
use super::policies::Listener;
use super::progress::Progress;
use pinfold_core::{
    Applied, COUNTS_OF_A_JOULE, Configuration, ENERGY_UNIT, Finding, Machine, Metric, Pinning, Refusal, Sample, Scope,
    sources,
};
use pinfold_runtime::{MetricRate, MetricRecord, Record, Recorder, Search};
use std::fmt::Write as _;
use std::time::Duration;

/// What a user can do where nothing can be measured.
const REMEDY: &str = "Remedy: report heartbeats from the program (docs/metrics.md), name a function that stands for progress by \
                      --metric uprobe:SYMBOL, or pin without measuring by --policy fixed";

/// The teller.
pub(super) struct Report {
    quiet: bool,
    lines: Lines,
    progress: Progress,
    metrics: Vec<Metric>,
    without_counters: Option<String>,
    /// The events that a person hears of; `None` for all that are counted.
    events: Option<Vec<String>>,
    /// Whether threads are pinned.
    pins: bool,
    /// Reports the findings that only the policy has.
    listener: Box<dyn Listener>,
}

impl Report {
    /// Begins with the machine in one line and what the plan has to say.
    pub(super) fn new(
        plan: &Plan,
        machine: &impl Machine,
        quiet: bool,
        lines: Lines,
        listener: Box<dyn Listener>,
    ) -> Self {
        let mut report = Self {
            quiet,
            progress: Progress::new(quiet || !lines.are_shown()),
            lines,
            metrics: machine.metrics().to_vec(),
            without_counters: plan.without_counters.clone(),
            events: None,
            pins: false,
            listener,
        };
        let simulated = if machine.simulated() { "simulated: " } else { "" };
        report.say(&format!("{simulated}{}", pinfold_core::summary(&plan.topology)));
        for note in &plan.notes {
            report.say(note);
        }
        let note = report.listener.begin(machine.metrics());
        report.say_any(note);
        report
    }

    /// The run is over, and its policy with it.
    pub(super) fn policy_ends(&mut self) {
        let note = self.listener.end();
        self.say_any(note);
    }

    /// Of the events that are counted, tells only of these: a simulated machine counts all that it has.
    pub(super) fn only(&mut self, events: Vec<String>) {
        self.events = Some(events);
    }

    /// Tells a person, line by line.
    pub(super) fn say(&self, text: &str) {
        if self.quiet {
            return;
        }
        self.progress.suspend(|| self.lines.say(text));
    }

    fn say_any(&self, text: Option<String>) {
        if let Some(text) = text {
            self.say(&text);
        }
    }

    /// What the events did that were asked for beside the one that decides, and whether any count is scaled.
    fn beside(&self, deciding: Option<&MetricRecord>, rates: &[MetricRate]) -> String {
        let deciding = deciding.map(|metric| metric.name.as_str());
        let mut text = String::new();
        for (metric, rate) in self.metrics.iter().zip(rates) {
            let scaled = if rate.multiplexed { " (scaled)" } else { "" };
            if deciding == Some(metric.name.as_str()) {
                text.insert_str(0, scaled);
            } else if metric.source == &sources::EVENT && self.wanted(&metric.name) {
                let rate = rate
                    .rate
                    .map_or_else(|| "not measured".to_owned(), |rate| event_rate(&metric.unit, rate));
                let _ = write!(text, "; {}: {rate}{scaled}", metric.name);
            }
        }
        text
    }

    fn wanted(&self, event: &str) -> bool {
        self.events
            .as_ref()
            .is_none_or(|events| events.iter().any(|wanted| wanted == event))
    }

    /// A step of a candidate's begins.
    fn begin(&mut self, search: &Search, candidate: usize, step: &str, at: Duration, lasts: Duration) {
        let of = search.candidates.len();
        let text = format!(
            "candidate {} of {of} {step}: {}",
            candidate + 1,
            name(search, candidate)
        );
        self.progress.step(&text, at, lasts);
    }

    /// That nothing can be measured, why, what that means, and what the user can do.
    fn nothing_measured(&self, why: &str) -> String {
        let means = if self.pins { "" } else { ", so nothing is pinned" };
        let counters = self.without_counters.as_ref();
        let counters = counters.map_or_else(String::new, |counters| format!("\n  {counters}"));
        format!("nothing is measured{means}: {why}{counters}\n  {REMEDY}")
    }
}

/// What a candidate is called.
fn name(search: &Search, candidate: usize) -> String {
    let known = search.candidates.get(candidate);
    known.map_or_else(String::new, |known| Pinning::text(known.pus.as_ref()))
}

/// A rate with its unit: `123.4 regions/s`.
fn rate_text(metric: Option<&MetricRecord>, rate: Option<f64>) -> String {
    let Some(rate) = rate else {
        return "not measured".to_owned();
    };
    let (unit, average) = match metric {
        Some(metric) => (metric.unit.as_str(), metric.scope == Scope::Task),
        None => ("count", false),
    };
    if unit == ENERGY_UNIT {
        return event_rate(unit, rate);
    }
    let per_thread = if average { " and thread" } else { "" };
    format!("{} {unit}s/s{per_thread}", significant(rate))
}

/// The rate of an event. Energy is told in watts, since nobody thinks in what the kernel counts it in.
fn event_rate(unit: &str, rate: f64) -> String {
    if unit == ENERGY_UNIT {
        format!("{} W", significant(rate / COUNTS_OF_A_JOULE))
    } else {
        format!("{}/s", significant(rate))
    }
}

/// Four significant digits, with thousands as k, M, G as usual.
fn significant(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let decimals = match scaled.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    format!("{scaled:.decimals$}{suffix}")
}

/// A rate's gain over another: in percent, and as a factor where that is large.
fn gain(share: f64, other: &str) -> String {
    if share < 9.0 {
        format!("{:+.1} % over {other}", share * 100.0)
    } else {
        format!("{} times {other}", significant(share + 1.0))
    }
}

impl Recorder for Report {
    fn sample(&mut self, sample: &Sample) {
        if !self.lines.are_kept() {
            self.progress.tick(sample.at);
        }
    }

    fn applied(&mut self, _at: Duration, configuration: &Configuration, applied: &Applied) {
        self.pins = configuration.pins();
        if let Some(sampled) = &applied.sampled {
            self.say(&format!("accesses: {sampled}"));
        }
        for profiled in &applied.profiled {
            self.say(&format!("accesses: {profiled}"));
        }
        if let Some(moves) = applied.pages.as_ref().filter(|moves| moves.is_worth_telling()) {
            self.say(&moves.to_string());
        }
    }

    fn refused(&mut self, _at: Duration, refusal: &Refusal) {
        match refusal.task {
            Some(task) => self.say(&format!("{task} stays where it is: {}", refusal.why)),
            None => self.say(&refusal.why),
        }
    }

    fn finding(&mut self, at: Duration, finding: &Finding, record: &Record) {
        let (metric, search) = (record.metric.as_ref(), &record.search);
        match finding {
            Finding::Initialising { lasts } => {
                self.progress.step("the program initialises", at, *lasts);
            }
            Finding::MetricChosen { why, .. } => match metric {
                Some(metric) => self.say(&format!("metric: {}: {why}", metric.name)),
                None => self.say(&self.nothing_measured(why)),
            },
            Finding::CandidatesChosen {
                threads, pinnings, why, ..
            } => {
                let candidates = match pinnings.len() {
                    1 => "1 candidate".to_owned(),
                    number => format!("{number} candidates"),
                };
                let threads = match threads {
                    1 => "1 thread".to_owned(),
                    number => format!("{number} threads"),
                };
                let tried = if pinnings.len() > 1 {
                    "; each is in force while it is measured"
                } else {
                    ""
                };
                self.say(&format!("{candidates} for {threads}: {why}{tried}"));
            }
            Finding::Screening { candidate, lasts } => self.begin(search, *candidate, "is looked at", at, *lasts),
            Finding::WarmingUp { candidate, lasts } => self.begin(search, *candidate, "warms up", at, *lasts),
            Finding::Probing { candidate, lasts } => self.begin(search, *candidate, "is measured", at, *lasts),
            Finding::Probed {
                candidate,
                rate,
                spread,
                measured,
                dropped,
            } => {
                let metrics = search.candidates.get(*candidate).map_or(&[][..], |one| &one.metrics);
                let spread = spread.map_or_else(String::new, |spread| format!(", spread {:.1} %", spread * 100.0));
                let dropped = if *dropped { ", dropped" } else { "" };
                self.say(&format!(
                    "  {:>2}/{}  {:<16} {}{spread}, in {}{dropped}{}",
                    candidate + 1,
                    search.candidates.len(),
                    name(search, *candidate),
                    rate_text(metric, *rate),
                    duration::text(*measured),
                    self.beside(metric, metrics),
                ));
            }
            Finding::Chosen {
                candidate,
                gain_over_first,
                gain_over_worst,
                ..
            } => {
                let rate = search.chosen.as_ref().and_then(|chosen| chosen.rate);
                let mut text = format!("chosen: {}", name(search, *candidate));
                if rate.is_some() {
                    let _ = write!(text, ": {}", rate_text(metric, rate));
                }
                let rivals = search.candidates.len() > 1;
                let unpinned = search.candidates.first().is_some_and(|first| first.pus.is_none());
                match gain_over_first {
                    _ if rivals && unpinned && *candidate == 0 => {
                        text += "; no pinning was better, so nothing is pinned";
                    }
                    Some(_) if rivals && *candidate == 0 => text += "; it is the first",
                    Some(gain) if rivals => {
                        let first = if unpinned { "unpinned" } else { "the first" };
                        let _ = write!(text, "; {}", self::gain(*gain, first));
                    }
                    _ => {}
                }
                if let Some(gain) = gain_over_worst.filter(|_| rivals) {
                    let _ = write!(text, ", {}", self::gain(gain, "the worst"));
                }
                self.say(&text);
                self.progress.rest("watching the rate");
            }
            Finding::Rate { rate, spread } => {
                let spread = spread.map_or_else(String::new, |spread| format!(", spread {:.1} %", spread * 100.0));
                let metrics = record.rates.last().map_or(&[][..], |line| &line.metrics);
                self.say(&format!(
                    "at {}: {}{spread}{}",
                    duration::text(at),
                    rate_text(metric, *rate),
                    self.beside(metric, metrics)
                ));
            }
            Finding::SearchAgain { chosen_at, now } => {
                self.say(&format!(
                    "the rate fell from {} to {} and stayed down: searching again",
                    rate_text(metric, Some(*chosen_at)),
                    rate_text(metric, Some(*now))
                ));
            }
            Finding::EndedEarly { best, rate, why, .. } => {
                let best = best.map_or_else(
                    || "No candidate was measured.".to_owned(),
                    |best| format!("The best so far: {}: {}.", name(search, best), rate_text(metric, *rate)),
                );
                self.say(&format!("{why} {best}"));
            }
            // Reported below, by the listener.
            Finding::Sampled { .. } | Finding::Moved(_) => {}
            Finding::Note { text, .. } => self.say(text),
        }
        let text = self.listener.finding(at, finding, record);
        self.say_any(text);
    }

    fn ended(&mut self, at: Duration, exit_status: i32, record: &Record) {
        self.progress.finish();
        self.lines.end();
        let text = self.listener.program_ended(record);
        self.say_any(text);
        self.say(&format!(
            "the program ended with status {exit_status} after {}",
            duration::text(at)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_four_digits_and_a_suffix_that_people_know() {
        let shown: Vec<String> = [0.0, 1.2345, 123.45, 9876.5, 12345.0, 2.5e9].map(significant).to_vec();
        assert_eq!(shown, ["0.000", "1.234", "123.5", "9876", "12.35 k", "2.500 G"]);
    }

    #[test]
    fn a_large_gain_is_a_factor() {
        assert_eq!(gain(0.125, "the first"), "+12.5 % over the first");
        assert_eq!(gain(9722.0, "the worst"), "9723 times the worst");
    }
}
