//! Whether placing helped, and by how much, from a record.

use super::labels::Labels;
use pinfold_core::Pinning;
use pinfold_runtime::{Candidate, Gain, Record};

/// The answer in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Help {
    Yes,
    No,
    /// It cost something.
    Worse,
    Unknown,
}

impl Help {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Yes => "Yes",
            Self::No => "No",
            Self::Worse => "No: it was slower",
            Self::Unknown => "Not known",
        }
    }
}

/// The answer, with its reasons and its figures.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) help: Help,
    /// What was done, in a sentence.
    pub(crate) sentence: String,
    /// The gain over the unpinned program; `None` if they were not compared.
    pub(crate) gain: Option<Gain>,
    /// What the gain is of, in a sentence.
    pub(crate) amount: String,
    /// The rates to be shown, each with its name.
    pub(crate) rates: Vec<(String, f64)>,
}

impl Verdict {
    /// Of a record.
    pub(crate) fn of(record: &Record, labels: &Labels) -> Self {
        if let Some(chosen) = &record.search.chosen {
            return of_choice(record, labels, chosen.candidate);
        }
        if let Some(early) = &record.program.ended_early {
            let why = early.why.trim_end_matches('.');
            return unknown(
                format!("The program ended before the search did: {why}."),
                rates(record, None, labels),
            );
        }
        if record.by_policy.regions.is_some() {
            return of_regions(record, labels);
        }
        if let Some(why) = &record.by_policy.nothing_to_gain {
            return Self {
                help: Help::No,
                amount: "There is nothing to gain.".to_owned(),
                ..unknown(format!("Placement cannot matter on this machine: {why}."), vec![])
            };
        }
        if !record.by_policy.moves.is_empty() {
            return of_moves(record);
        }
        let sentence = match record.kept_from_start() {
            Some(only) => format!("The program ran in one placement, {only}."),
            None => "Nothing was chosen.".to_owned(),
        };
        unknown(sentence, rates(record, None, labels))
    }

    /// The gain, as the large text.
    pub(crate) fn gain_text(&self) -> String {
        let Some(gain) = self.gain else {
            return if self.help == Help::No {
                "1 ×".to_owned()
            } else {
                "Not compared".to_owned()
            };
        };
        gain.to_string().replace(" times", " ×")
    }
}

fn unknown(sentence: String, rates: Vec<(String, f64)>) -> Verdict {
    Verdict {
        help: Help::Unknown,
        sentence,
        gain: None,
        amount: "Nothing was compared with the unpinned program.".to_owned(),
        rates,
    }
}

/// Beyond two standard errors a gain is no noise.
fn help(gain: Gain) -> Help {
    let noise = 2.0 * gain.error.unwrap_or(0.0);
    if gain.ratio - noise > 1.0 {
        Help::Yes
    } else if gain.ratio + noise < 1.0 {
        Help::Worse
    } else {
        Help::No
    }
}

fn of_choice(record: &Record, labels: &Labels, chosen: usize) -> Verdict {
    let last = record.earlier_searches.len();
    let candidate = record.search.candidates.get(chosen);
    let name = labels
        .get(last, chosen)
        .map_or_else(|| labels.number(last, chosen), super::Label::text);
    if let Some(why) = candidate.and_then(|candidate| candidate.not_pinned.as_ref()) {
        return unknown(
            format!("The program ran unpinned, and not in {name}: {why}."),
            rates(record, None, labels),
        );
    }
    if candidate.is_some_and(Candidate::is_left_alone) {
        return left_unpinned(record, labels);
    }
    let Some(gain) = record.gain_over_unpinned() else {
        return unknown(format!("Kept: {name}."), rates(record, Some(chosen), labels));
    };
    let sentence = match help(gain) {
        Help::No => format!("Kept: {name}. The difference is within the noise."),
        _ => format!("Kept: {name}."),
    };
    Verdict {
        help: help(gain),
        sentence,
        gain: Some(gain),
        amount: "as fast as unpinned".to_owned(),
        rates: rates(record, Some(chosen), labels),
    }
}

/// Nothing was faster, or nothing else was tried.
fn left_unpinned(record: &Record, labels: &Labels) -> Verdict {
    let last = record.earlier_searches.len();
    let unpinned = record.search.unpinned().and_then(|one| one.rate);
    let others = record.search.candidates.iter().enumerate();
    let others = others.filter(|(_, one)| !one.is_left_alone() && one.rate.is_some());
    let others: Vec<(usize, f64)> = others
        .filter_map(|(position, one)| Some((position, one.rate?)))
        .collect();
    let best = others.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1));
    let amount = match (best, unpinned) {
        (Some((position, rate)), Some(unpinned)) if unpinned > 0.0 => format!(
            "The best of {} was {}, at {:.2} × the rate.",
            crate::numbers::counted(others.len(), "other placement"),
            labels.number(last, position),
            rate / unpinned
        ),
        _ => "No other placement was measured.".to_owned(),
    };
    let mut shown = rates(record, None, labels);
    shown.extend(best.map(|(position, rate)| (labels.number(last, position), rate)));
    Verdict {
        help: Help::No,
        sentence: "The program was left unpinned: nothing that was tried was faster.".to_owned(),
        gain: None,
        amount,
        rates: shown,
    }
}

fn of_regions(record: &Record, labels: &Labels) -> Verdict {
    let Some(regions) = &record.by_policy.regions else {
        return unknown(String::new(), vec![]);
    };
    let kept = regions.kept();
    let gain = regions.program_gain().or_else(|| {
        regions.gain.map(|gain| Gain {
            ratio: 1.0 + gain,
            error: None,
        })
    });
    let sentence = match kept {
        0 => "No parallel region kept a configuration of its own.".to_owned(),
        1 => "1 parallel region got a configuration of its own.".to_owned(),
        _ => format!("{kept} parallel regions got configurations of their own."),
    };
    let whose = match regions.program_gain() {
        Some(_) => "as fast as before, the whole program",
        None => "as fast as before, the regions together",
    };
    match gain {
        None => Verdict {
            help: if kept == 0 { Help::No } else { Help::Unknown },
            ..unknown(sentence, rates(record, None, labels))
        },
        Some(gain) => Verdict {
            help: if kept == 0 { Help::No } else { help(gain) },
            sentence,
            gain: Some(gain),
            amount: if kept == 0 {
                format!("{whose}, so it was rolled back")
            } else {
                whose.to_owned()
            },
            rates: rates(record, None, labels),
        },
    }
}

/// Moves of single threads: compared in turns, or only the rates before and after them.
fn of_moves(record: &Record) -> Verdict {
    let moves = &record.by_policy.moves;
    let sentence = match moves.len() {
        1 => "One thread was moved.".to_owned(),
        number => format!("Threads were moved {number} times."),
    };
    let compared = record.by_policy.mapping_comparisons.last().map(|one| &one.comparison);
    let gain = compared.and_then(|comparison| match comparison.processes.as_slice() {
        [process] => Some(Gain {
            ratio: 1.0 + process.gain,
            error: Some(process.error),
        }),
        _ => None,
    });
    if let Some(gain) = gain {
        return Verdict {
            help: help(gain),
            sentence,
            gain: Some(gain),
            amount: "as fast as unpinned".to_owned(),
            rates: vec![],
        };
    }
    let rates = before_and_after(record);
    Verdict {
        amount: if rates.is_empty() {
            "The moves were not compared with the unpinned program.".to_owned()
        } else {
            "Not compared in turns; the rate before the first move and at the end:".to_owned()
        },
        ..unknown(sentence, rates)
    }
}

/// The rates of the metric that decided before the first move and after the last one.
fn before_and_after(record: &Record) -> Vec<(String, f64)> {
    let series = record
        .metric
        .as_ref()
        .zip(record.timeline.as_ref())
        .and_then(|(metric, line)| {
            let series = line.metrics.iter().find(|series| series.name == metric.name)?;
            Some((line, series))
        });
    let (Some((line, series)), [first, .., last] | [first @ last]) = (series, &record.by_policy.moves[..]) else {
        return vec![];
    };
    let mean = |within: &dyn Fn(f64) -> bool| {
        let rates = line.at.iter().zip(&series.rates).filter(|(at, _)| within(**at));
        let rates: Vec<f64> = rates.filter_map(|(_, rate)| *rate).collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    };
    let ends = [
        ("before", mean(&|at| at <= first.at)),
        ("at the end", mean(&|at| at > last.at)),
    ];
    let ends = ends
        .into_iter()
        .filter_map(|(name, rate)| Some((name.to_owned(), rate?)));
    ends.collect()
}

/// The rate of the unpinned program and of the kept candidate, where they were measured.
fn rates(record: &Record, kept: Option<usize>, labels: &Labels) -> Vec<(String, f64)> {
    let unpinned = record.search.unpinned().and_then(|one| one.rate);
    let kept_rate = kept.and_then(|kept| record.search.candidates.get(kept)?.rate);
    let last = record.earlier_searches.len();
    let kept = kept
        .zip(kept_rate)
        .map(|(kept, rate)| (labels.number(last, kept), rate));
    unpinned
        .map(|rate| (Pinning::text(None), rate))
        .into_iter()
        .chain(kept)
        .collect()
}
