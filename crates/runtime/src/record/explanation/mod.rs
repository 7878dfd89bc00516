//! Why each decision of a run was taken, in words.
//!
//! The explanation uses the record only. It names the missing parts of the record: nothing was measured, or an older
//! pinfold wrote it.

mod moved;
mod proposals;
mod regions;

use super::{
    Candidate, Chosen, DecidesOn, Forecast, HintSample, MetricRecord, PolicyKind, Record, RunDocument, Search,
    TimedMoves, TimedProfile, TimedSamples,
};
use pinfold_core::memory::Sampled;
use pinfold_core::{COUNTS_OF_A_JOULE, ENERGY_UNIT, MachineKind, Pinning, PlacedBy, PuId, Scope};
use std::fmt::Write as _;

/// The explanation of a whole run.
pub(super) fn explained(document: &RunDocument, policy: PolicyKind<'_>) -> String {
    let record = &document.record;
    let metric = record.metric.as_ref();
    let mut text = String::new();
    document.subject(policy.does, &mut text);
    if let Some(why) = &record.by_policy.nothing_to_gain {
        let _ = writeln!(
            text,
            "Placement cannot matter on this machine: {why}. So nothing was measured, and the program ran as it is."
        );
        record.afterwards(&mut text);
        document.ending(&mut text);
        return text;
    }
    record.comparison(&mut text);
    for sample in &record.by_policy.samples {
        sample.explain(&mut text);
    }
    if let Some(forecast) = &record.by_policy.forecast {
        forecast.explain(&mut text);
    }
    for (number, search) in record.earlier_searches.iter().enumerate() {
        let _ = writeln!(
            text,
            "\nSearch {} of {}:",
            number + 1,
            record.earlier_searches.len() + 1
        );
        search.explain(metric, &mut text);
        proposals::explain(record, number, &mut text);
    }
    if !record.earlier_searches.is_empty() {
        let _ = writeln!(text, "\nThe last search:");
    }
    let own = &record.by_policy;
    match policy.decides_on {
        DecidesOn::Tasks => moved::explain(&own.moves, &own.mapping_comparisons, &mut text),
        DecidesOn::Regions => regions::explain(own.regions.as_ref(), &mut text),
        DecidesOn::Program | DecidesOn::Nothing => {
            record.search.explain(metric, &mut text);
            proposals::explain(record, record.earlier_searches.len(), &mut text);
            if own.regions.is_some() {
                regions::explain(own.regions.as_ref(), &mut text);
            }
        }
    }
    for one in &own.findings {
        let _ = writeln!(text, "At {} s: {}", number(one.at), one.finding.text);
    }
    record.afterwards(&mut text);
    document.ending(&mut text);
    text
}

impl Forecast {
    /// What the model said, and of what.
    fn explain(&self, text: &mut String) {
        let _ = writeln!(text, "Forecast at {:.1} s: {}", self.at, sentence(&self.why));
        for one in self.strategies.iter().skip(1) {
            let interval = match (one.low, one.high) {
                (Some(low), Some(high)) => format!(", and {low:.2} to {high:.2} for nine programs in ten"),
                _ => String::new(),
            };
            let _ = writeln!(
                text,
                "  {} with {}: {:.2} times the time of the default{interval}.",
                one.threads, one.pages, one.time_ratio
            );
        }
        let known = self.observed.iter().filter_map(|one| Some((one, one.value?)));
        for (one, value) in known {
            let _ = writeln!(text, "  {}: {value:.3} ({}).", one.name, one.unit);
        }
    }
}

impl RunDocument {
    /// What ran where, under whom.
    fn subject(&self, does: Option<&str>, text: &mut String) {
        let program = if self.command.is_empty() {
            "A program".to_owned()
        } else {
            format!("`{}`", self.command.join(" "))
        };
        let machine = match self.topology.as_str() {
            "" => "an unknown machine",
            topology => topology,
        };
        let where_ = match self.record.kind() {
            MachineKind::Live | MachineKind::Unknown => "ran on",
            MachineKind::Simulated => "was simulated, not run, on",
            MachineKind::Table => "was replayed from measured times, not run, on",
        };
        let _ = writeln!(text, "{program} {where_} {machine}.");
        if let Some(replay) = &self.replay {
            replay.explain(text);
        }
        if let Some(process) = self.attached {
            let _ = writeln!(
                text,
                "It ran before, as process {process}, and pinfold attached to it: times are counted from there."
            );
        }
        if self.with == Some(PlacedBy::Scx) {
            let _ = writeln!(
                text,
                "Threads were placed by a scheduler in the kernel: they preferred the last-level caches of the CPUs that are \
                 named here, and no mask was set."
            );
        }
        let does = does.map_or_else(String::new, |does| format!(", which {does}"));
        let _ = writeln!(text, "Policy: `{}`{does}.", self.record.policy);
    }

    /// How the run ended.
    fn ending(&self, text: &mut String) {
        let Some(ran) = self.record.program.ran else { return };
        let ran = number(ran);
        let did = match (self.attached, self.record.kind().is_live()) {
            (Some(_), _) => "was followed for",
            (None, false) => "would have run",
            (None, true) => "ran",
        };
        let _ = match self.record.program.exit_status {
            Some(status) => writeln!(text, "The program {did} {ran} s and ended with status {status}."),
            None => writeln!(
                text,
                "The program {did} {ran} s. Then pinfold let it go, and it ran on."
            ),
        };
    }
}

impl Record {
    /// The metric that pinnings were compared by.
    fn comparison(&self, text: &mut String) {
        let why = self
            .metric_reason
            .metric_why
            .as_deref()
            .unwrap_or("the record does not say why");
        match &self.metric {
            None => {
                let _ = writeln!(text, "Nothing was measured: {why}.");
            }
            Some(metric) => {
                let whose = match metric.scope {
                    Scope::Task => ", the mean of the working threads",
                    Scope::Program => ", of the whole program",
                };
                let _ = writeln!(
                    text,
                    "Metric: {}, in {}s per second{whose}: {why}.",
                    metric.described(),
                    metric.unit
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
                "Effect: after the choice the mean rate was {}, {}.",
                rate(self.metric.as_ref(), mean),
                compared(mean / promised - 1.0, "the rate in its probe")
            );
        }
        if let Some(early) = &self.program.ended_early {
            let best = early.best.map_or_else(String::new, |best| {
                format!(" The best so far was candidate {}.", best.saturating_add(1))
            });
            let _ = writeln!(text, "Ended early: {}{best}", sentence(&early.why));
        }
        for samples in &self.pages.page_samples {
            samples.explain(text);
        }
        for profile in &self.pages.page_profiles {
            profile.explain(text);
        }
        for moves in &self.pages.page_moves {
            moves.explain(text);
        }
        for refusal in &self.refused {
            let _ = writeln!(text, "Refused: {}", sentence(&refusal.why));
        }
        for (at, said) in self.told() {
            let _ = writeln!(text, "At {} s: {said}", number(at));
        }
    }

    /// The notes, and what was believed of trials, in the order of time. What follows from a trial comes after it.
    fn told(&self) -> Vec<(f64, String)> {
        let beliefs = self.by_policy.beliefs.iter();
        let beliefs = beliefs.map(|one| (one.at, one.trial.to_string()));
        let notes = self.notes.iter().map(|note| (note.at, note.text.clone()));
        let mut told: Vec<(f64, String)> = beliefs.chain(notes).collect();
        told.sort_by(|one, other| one.0.total_cmp(&other.0));
        told
    }
}

impl Search {
    /// `metric` is the metric of the rates.
    fn explain(&self, metric: Option<&MetricRecord>, text: &mut String) {
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
                candidate.explain(metric, best)
            );
        }
        if let Some(chosen) = &self.chosen {
            let _ = writeln!(text, "{}", chosen.explain(self));
        }
    }
}

impl HintSample {
    /// A sample, and nothing else: rules were asked about it.
    fn explain(&self, text: &mut String) {
        let Some(says) = &self.says else { return };
        let _ = writeln!(
            text,
            "Until {} s {} were observed for {} s while {}; the rules asked for hint {says}:",
            number(self.at),
            counted(self.threads, "thread"),
            number(self.lasted),
            match &self.hint {
                Some(hint) => format!("hint {hint} placed them"),
                None => "the operating system placed them".to_owned(),
            }
        );
        for line in self.why.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
}

impl TimedSamples {
    fn explain(&self, text: &mut String) {
        let Sampled {
            lasted,
            samples,
            pages,
            lost,
            events,
            ..
        } = &self.sampled;
        let _ = write!(
            text,
            "At {} s accesses had been sampled for {} s: {} samples of {} pages",
            number(self.at),
            number(lasted.as_secs_f64()),
            samples,
            pages
        );
        if let Some(events) = events {
            let _ = write!(text, " by {}", events.names.join(" and "));
        }
        if *lost > 0 {
            let _ = write!(text, ", {lost} more were lost");
        }
        if let Some(throttled @ 1..) = events.as_ref().map(|events| events.throttled) {
            let _ = write!(text, ", and the kernel throttled them {throttled} times");
        }
        if let Some(overhead) = self.sampled.overhead() {
            let by = if events.is_some() {
                "sampling took about"
            } else {
                "page faults took"
            };
            let _ = write!(text, "; {by} {:.1} % of the threads' time", overhead * 100.0);
        }
        text.push_str(".\n");
    }
}

impl TimedProfile {
    fn explain(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "At {} s {} of the {} accesses in {} were brought to {} pages.",
            number(self.at),
            self.profiled.matched,
            self.profiled.accesses,
            self.profiled.recording,
            self.profiled.pages
        );
        for area in &self.profiled.unmatched {
            let _ = writeln!(text, "  {} to {} were not: {}.", area.accesses, area.area, area.why);
        }
    }
}

impl TimedMoves {
    fn explain(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "At {} s pages were to be {}: {} moved, {} were there already.",
            number(self.at),
            self.moves.goal,
            self.moves.moved,
            self.moves.in_place
        );
        for (left, count) in &self.moves.left {
            let pages = usize::try_from(count.pages).unwrap_or(usize::MAX);
            let _ = writeln!(
                text,
                "  {} stayed: {}",
                counted(pages, "page"),
                sentence(&left.to_string())
            );
        }
        if let Some(broken_off) = &self.moves.broken_off {
            let _ = writeln!(text, "  The migration ended early: {}", sentence(&broken_off.why));
        }
    }
}

impl Candidate {
    fn place(&self) -> String {
        let regions = Pinning::text_of_regions(self.regions.len());
        let Some(pus) = &self.pus else {
            return match &self.within {
                Some(within) => format!("unpinned, on the CPUs {within} alone{regions}"),
                None => format!("unpinned, placed by the operating system{regions}"),
            };
        };
        let pus: Vec<String> = pus.pus().iter().map(PuId::to_string).collect();
        let plural = if pus.len() == 1 { "" } else { "s" };
        format!("rank by rank on CPU{plural} {}{regions}", pus.join(","))
    }

    fn explain(&self, metric: Option<&MetricRecord>, best: f64) -> String {
        let text = self.explain_rate(metric, best);
        match &self.not_pinned {
            Some(why) => format!("{text}; threads ran unpinned, because {why}"),
            None => text,
        }
    }

    fn explain_rate(&self, metric: Option<&MetricRecord>, best: f64) -> String {
        let Some(measured_rate) = self.rate else {
            return "not measured".to_owned();
        };
        let mut text = rate(metric, measured_rate);
        if let Some(measured) = self.measured {
            let _ = write!(text, " over {} s", number(measured));
        }
        if let Some(spread) = self.spread {
            let _ = write!(text, ", spread {:.1} %", 100.0 * spread);
        }
        let behind = measured_rate / best - 1.0;
        if self.dropped {
            let _ = write!(
                text,
                "; dropped early, because it was worse with 99 % confidence ({})",
                compared(behind, "the best")
            );
        } else if behind < 0.0 {
            let _ = write!(text, "; {}", compared(behind, "the best"));
        } else {
            text.push_str("; the best");
        }
        text
    }
}

impl Chosen {
    fn explain(&self, search: &Search) -> String {
        let mut reasons = vec![];
        if search.candidates.len() == 1 {
            reasons.push("it was the only candidate".to_owned());
        }
        let unpinned = search.candidates.first().is_some_and(|first| first.pus.is_none());
        if unpinned && self.candidate == 0 && search.candidates.len() > 1 {
            reasons.push("no pinning was better beyond the noise, so nothing was pinned".to_owned());
        }
        let than_first = if unpinned {
            "unpinned, the program's first placement"
        } else {
            "the first candidate, the program's first placement"
        };
        let gains = [
            (
                self.gain_over_first.filter(|_| !unpinned || self.candidate > 0),
                than_first,
            ),
            (self.gain_over_worst, "the worst"),
        ];
        for (gain, than) in gains {
            match gain {
                Some(gain) if search.candidates.len() > 1 => reasons.push(compared(gain, than)),
                _ => {}
            }
        }
        let why = if reasons.is_empty() {
            let why = self.why.as_deref();
            why.unwrap_or("the record does not say why").to_owned()
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
fn compared(share: f64, other: &str) -> String {
    if !share.is_finite() {
        return format!("not comparable with {other}");
    }
    let percent = 100.0 * share.abs();
    if percent < 0.05 {
        return format!("equal to {other}");
    }
    let how = if share > 0.0 { "higher" } else { "lower" };
    format!("{percent:.1} % {how} than {other}")
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A rate with its unit: `12.5 regions per second`.
fn rate(metric: Option<&MetricRecord>, value: f64) -> String {
    match metric {
        Some(metric) if metric.unit == ENERGY_UNIT => format!("{} watts", number(value / COUNTS_OF_A_JOULE)),
        Some(metric) => format!("{} {}s per second", number(value), metric.unit),
        None => format!("{} per second", number(value)),
    }
}

/// A large number as an integer, a small one with four digits.
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
