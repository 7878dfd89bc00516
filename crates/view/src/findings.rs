//! The findings of a run as lines: the metric, every candidate, the choice, the rate.

use pinfold_core::{
    COUNTS_OF_A_JOULE, CandidatesCode, ComparedCode, ENERGY_UNIT, Finding, Metric, NoteCode, Scope, Tried, sources,
};
use pinfold_runtime::{MetricRate, MetricRecord, Record, Search};
use std::fmt::Write as _;
use std::time::Duration;

/// The remedy if nothing can be measured.
const REMEDY: &str = "Remedy: --metric run compares whole runs, --metric uprobe:SYMBOL counts calls of a function, and the program can \
                      report heartbeats (docs/metrics.md)";

/// The same for a process that ran before.
const REMEDY_ATTACHED: &str = "Remedy: --metric uprobe:SYMBOL counts calls of a function that shows progress";

/// Puts the findings of one run into words.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The metrics of the machine.
    pub metrics: Vec<Metric>,
    /// Why hardware counters cannot be used; `None` if they can.
    pub without_counters: Option<String>,
    /// The events that are shown beside the metric; `None` for all that are counted.
    pub events: Option<Vec<String>>,
    /// Whether threads are pinned.
    pub pins: bool,
    /// Whether the program ran before, so that nothing of pinfold's is inside it.
    pub attached: bool,
    /// Whether the line about the metric says why it was chosen.
    pub with_reasons: bool,
}

/// The step of a search that begins with a finding, as a progress line shows it, and its length.
pub fn step(finding: &Finding, search: &Search) -> Option<(String, Duration)> {
    let (candidate, step, lasts) = match finding {
        Finding::Initialising { lasts } => return Some(("the program initialises".to_owned(), *lasts)),
        Finding::Screening { candidate, lasts } => (*candidate, "is screened", *lasts),
        Finding::WarmingUp { candidate, lasts } => (*candidate, "warms up", *lasts),
        Finding::Probing { candidate, lasts } => (*candidate, "is measured", *lasts),
        _ => return None,
    };
    let of = search.candidates.len();
    let text = format!(
        "candidate {} of {of} {step}: {}",
        candidate + 1,
        name(search, candidate)
    );
    Some((text, lasts))
}

/// Whether a finding changes something for the program or asks something of the user. The others are steps on the way.
pub fn is_change(finding: &Finding, search: &Search) -> bool {
    match finding {
        // The first candidate is how the program runs already.
        Finding::Chosen { .. } => search.candidates.len() > 1,
        Finding::CandidatesChosen { code, .. } => matches!(
            code,
            CandidatesCode::KnownProgram | CandidatesCode::NoDifference | CandidatesCode::SearchLimit
        ),
        Finding::Probed { .. }
        | Finding::Compared { .. }
        | Finding::Rate { .. }
        | Finding::Note {
            code: NoteCode::LooksForFunction,
            ..
        } => false,
        // A comparison has a line of its own; the times of a region have none.
        Finding::Believed(trial) => matches!(trial.tried, Tried::Region { .. }),
        _ => true,
    }
}

impl Findings {
    /// A finding in words; `None` for one that only moves a progress line, or that a policy reports itself.
    pub fn line(&self, at: Duration, finding: &Finding, record: &Record) -> Option<String> {
        let (metric, search) = (record.metric.as_ref(), &record.search);
        Some(match finding {
            Finding::NothingToGain { why } => nothing_to_gain(why),
            Finding::MetricChosen { why, .. } => match metric {
                Some(metric) if self.with_reasons => format!("metric: {}: {}{why}", metric.name, found(metric)),
                Some(MetricRecord {
                    name,
                    function: Some(function),
                    ..
                }) => format!("metric: {name}: {function}"),
                Some(metric) => format!("metric: {}, in {}", metric.name, unit(metric)),
                None => self.nothing_measured(why),
            },
            Finding::CandidatesChosen {
                threads, pinnings, why, ..
            } => candidates(*threads, pinnings.len(), why),
            Finding::Probed { .. } => self.probed(finding, record)?,
            Finding::Chosen {
                candidate,
                gain_over_first,
                gain_over_worst,
                ..
            } => chosen(record, *candidate, *gain_over_first, *gain_over_worst),
            Finding::Compared { .. } => compared(finding, search)?,
            Finding::Believed(trial) => trial.to_string(),
            Finding::Rate { rate, spread } => {
                let metrics = record.rates.last().map_or(&[][..], |line| &line.metrics);
                format!(
                    "at {}: {}{}{}",
                    duration(at),
                    rate_text(metric, *rate),
                    spread_text(*spread),
                    self.beside(metric, metrics)
                )
            }
            Finding::SearchAgain { chosen_at, now } => format!(
                "the rate fell from {} to {} and stayed down: searching again",
                rate_text(metric, Some(*chosen_at)),
                rate_text(metric, Some(*now))
            ),
            Finding::EndedEarly { best, rate, why, .. } => {
                let best = best.map_or_else(
                    || "No candidate was measured.".to_owned(),
                    |best| format!("The best so far: {}: {}.", name(search, best), rate_text(metric, *rate)),
                );
                format!("{why} {best}")
            }
            Finding::Note { text, .. } => text.clone(),
            Finding::Own(own) => own.text.clone(),
            Finding::MappingCompared(comparison) => comparison.to_string(),
            Finding::Initialising { .. }
            | Finding::Proposed { .. }
            | Finding::Screening { .. }
            | Finding::WarmingUp { .. }
            | Finding::Probing { .. }
            | Finding::Sampled { .. }
            | Finding::Forecast { .. }
            | Finding::RegionsChosen { .. }
            | Finding::Moved(_) => return None,
        })
    }

    /// The rate of a candidate.
    fn probed(&self, finding: &Finding, record: &Record) -> Option<String> {
        let Finding::Probed {
            candidate,
            rate,
            spread,
            measured,
            dropped,
            ..
        } = finding
        else {
            return None;
        };
        let (metric, search) = (record.metric.as_ref(), &record.search);
        let metrics = search.candidates.get(*candidate).map_or(&[][..], |one| &one.metrics);
        let dropped = if *dropped { ", dropped" } else { "" };
        Some(format!(
            "  {:>2}/{}  {:<16} {}{}, in {}{dropped}{}",
            candidate + 1,
            search.candidates.len(),
            name(search, *candidate),
            rate_text(metric, *rate),
            spread_text(*spread),
            duration(*measured),
            self.beside(metric, metrics),
        ))
    }

    /// The rates of the events that the user named beside the metric, and whether a count is scaled.
    fn beside(&self, deciding: Option<&MetricRecord>, rates: &[MetricRate]) -> String {
        let deciding = deciding.map(|metric| metric.name.as_str());
        let mut text = String::new();
        for (metric, rate) in self.metrics.iter().zip(rates) {
            let scaled = if rate.multiplexed { " (scaled)" } else { "" };
            if deciding == Some(metric.name.as_str()) {
                text.insert_str(0, scaled);
            } else if metric.source == &sources::EVENT && self.shows(&metric.name) {
                let rate = rate
                    .rate
                    .map_or_else(|| "not measured".to_owned(), |rate| event_rate(&metric.unit, rate));
                let _ = write!(text, "; {}: {rate}{scaled}", metric.name);
            }
        }
        text
    }

    fn shows(&self, event: &str) -> bool {
        self.events
            .as_ref()
            .is_none_or(|events| events.iter().any(|shown| shown == event))
    }

    /// Nothing can be measured: the reason, the consequence, and the remedy.
    fn nothing_measured(&self, why: &str) -> String {
        let means = if self.pins { "" } else { ", so nothing is pinned" };
        let counters = self.without_counters.as_ref().filter(|_| self.with_reasons);
        let counters = counters.map_or_else(String::new, |counters| format!("\n  {counters}"));
        let remedy = if self.attached { REMEDY_ATTACHED } else { REMEDY };
        format!("nothing is measured{means}: {why}{counters}\n  {remedy}")
    }
}

/// The answer on a machine whose placements are all alike: why, the consequence, and where placement would show.
pub fn nothing_to_gain(why: &str) -> String {
    format!(
        "Placement cannot matter here: {why};\n  the program runs as it is, and `pinfold run --machine e5-4650x4 -- CMD` \
         shows\n  what placement does for it on a simulated machine of four packages."
    )
}

/// The function whose calls a metric counts, if pinfold found it.
fn found(metric: &MetricRecord) -> String {
    let function = metric.function.as_ref();
    function.map_or_else(String::new, |function| format!("{function}; "))
}

/// A comparison in turns: `  3/9  0-7: 1.340 ± 0.020 times as fast as unpinned, in 4 turns`.
fn compared(finding: &Finding, search: &Search) -> Option<String> {
    let Finding::Compared {
        candidate,
        with,
        gain,
        error,
        turns,
        code,
        ..
    } = finding
    else {
        return None;
    };
    let result = match (gain, error) {
        (Some(gain), Some(error)) => format!(
            "{:.3} ± {error:.3} times as fast as {}, in {turns} turn{}",
            1.0 + gain,
            name(search, *with),
            if *turns == 1 { "" } else { "s" }
        ),
        _ => format!("could not be compared with {}", name(search, *with)),
    };
    let noise = match code {
        ComparedCode::NotKnown => "; the noise is larger than the difference",
        _ => "",
    };
    let (number, of) = (candidate + 1, search.candidates.len());
    Some(format!(
        "  {number:>2}/{of}  {:<16} {result}{noise}",
        name(search, *candidate)
    ))
}

fn candidates(threads: usize, candidates: usize, why: &str) -> String {
    let number = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    };
    let tried = if candidates > 1 {
        "; each is in force while it is measured"
    } else {
        ""
    };
    format!(
        "{} for {}: {why}{tried}",
        number(candidates, "candidate"),
        number(threads, "thread")
    )
}

fn chosen(record: &Record, candidate: usize, over_first: Option<f64>, over_worst: Option<f64>) -> String {
    let search = &record.search;
    let rate = search.chosen.as_ref().and_then(|chosen| chosen.rate);
    let mut text = format!("chosen: {}", name(search, candidate));
    if rate.is_some() {
        let _ = write!(text, ": {}", rate_text(record.metric.as_ref(), rate));
    }
    if search.candidates.len() < 2 {
        return text;
    }
    let unpinned = search.candidates.first().is_some_and(|first| first.pus.is_none());
    match over_first {
        _ if unpinned && candidate == 0 => text += "; no pinning was better, so nothing is pinned",
        Some(_) if candidate == 0 => text += "; it is the first",
        Some(share) => {
            let first = if unpinned { "unpinned" } else { "the first" };
            let _ = write!(text, "; {}", gain(share, first));
        }
        None => {}
    }
    if let Some(share) = over_worst {
        let _ = write!(text, ", {}", gain(share, "the worst"));
    }
    text
}

fn spread_text(spread: Option<f64>) -> String {
    spread.map_or_else(String::new, |spread| format!(", spread {:.1} %", spread * 100.0))
}

/// A time in a suitable unit.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        let seconds = seconds.round();
        format!("{:.0} min {:.0} s", (seconds / 60.0).floor(), seconds % 60.0)
    }
}

/// The placement of a candidate's threads and pages, as text.
pub(crate) fn name(search: &Search, candidate: usize) -> String {
    let known = search.candidates.get(candidate);
    known.map_or_else(String::new, ToString::to_string)
}

/// A rate with its unit: `123.4 regions/s`.
pub(crate) fn rate_text(metric: Option<&MetricRecord>, rate: Option<f64>) -> String {
    let Some(rate) = rate else {
        return "not measured".to_owned();
    };
    match metric {
        Some(metric) if metric.unit == ENERGY_UNIT => event_rate(&metric.unit, rate),
        Some(metric) => format!("{} {}", significant(rate), unit(metric)),
        None => format!("{} counts/s", significant(rate)),
    }
}

/// The unit of a metric's rate: `regions/s`.
fn unit(metric: &MetricRecord) -> String {
    let per_thread = if metric.scope == Scope::Task { " and thread" } else { "" };
    match metric.unit.as_str() {
        ENERGY_UNIT => "W".to_owned(),
        unit => format!("{unit}s/s{per_thread}"),
    }
}

/// The rate of an event. Energy is in watts, and not in the kernel's unit.
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

/// The gain of a rate over another: in percent, or as a factor if it is large.
fn gain(share: f64, other: &str) -> String {
    if share < 9.0 {
        format!("{:+.1} % over {other}", share * 100.0)
    } else {
        format!("{} times {other}", significant(share + 1.0))
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

    #[test]
    fn times_are_in_the_unit_that_fits() {
        assert_eq!(duration(Duration::from_millis(250)), "250 ms");
        assert_eq!(duration(Duration::from_millis(2500)), "2.5 s");
        assert_eq!(duration(Duration::from_secs(125)), "2 min 5 s");
        assert_eq!(duration(Duration::from_millis(2_999_900)), "50 min 0 s");
    }
}
