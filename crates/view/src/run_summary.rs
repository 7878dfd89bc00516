//! The end of a run: its result in one line, and the summary of the program, the decision and what they cost.
//!
//! Both use the record, so they say nothing that `pinfold explain` could not explain. A gain is printed only if the
//! unpinned program was measured in the same search.

use crate::findings::{duration, name, rate_text};
use pinfold_core::size_text;
use pinfold_core::text::words;
use pinfold_runtime::{Candidate, Gain, MetricRecord, Record};
use std::fmt::Write as _;
use std::time::Duration;

/// What the record does not have.
#[derive(Clone, Debug, Default)]
pub struct Ending<'a> {
    /// The program and its arguments; empty for a scripted machine.
    pub command: &'a [String],
    /// What stays pinned after the end of the run, in words; `None` for nothing.
    pub left_pinned: Option<&'a str>,
    /// The processor time of pinfold itself; `None` if the program was simulated.
    pub cost: Option<Duration>,
}

/// How the program ended, and what stays pinned.
pub fn ending(record: &Record, ending: &Ending<'_>) -> String {
    let left = ending.left_pinned.map(|left| ("left pinned", left.to_owned()));
    with_rows(how_it_ended(record), left)
}

/// The whole summary, the first line without indentation.
pub fn text(record: &Record, ending: &Ending<'_>) -> String {
    let mut first = how_it_ended(record);
    if !ending.command.is_empty() {
        let _ = write!(first, ": {}", words(ending.command));
    }
    let lines = [
        ("threads", threads(record)),
        ("metric", record.metric.as_ref().map(MetricRecord::described)),
        ("unpinned", unpinned(record)),
        ("chosen", chosen(record)),
        ("afterwards", afterwards(record)),
        ("pages", pages(record)),
        ("left pinned", Some(ending.left_pinned.unwrap_or("nothing").to_owned())),
        ("cost", ending.cost.map(|cost| cost_text(cost, ran(record)))),
    ];
    let rows = lines.into_iter().filter_map(|(name, value)| Some((name, value?)));
    with_rows(first, rows)
}

fn ran(record: &Record) -> Duration {
    record.program.ran.map(Duration::from_secs_f64).unwrap_or_default()
}

fn how_it_ended(record: &Record) -> String {
    let ran = duration(ran(record));
    match record.program.exit_status {
        Some(status) => format!("the program ended with status {status} after {ran}"),
        None => format!("the program was let go after {ran} and runs on"),
    }
}

fn with_rows(first: String, rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    rows.into_iter().fold(first, |mut text, (name, value)| {
        let _ = write!(text, "\n  {name:<12} {value}");
        text
    })
}

fn threads(record: &Record) -> Option<String> {
    let (ranked, tasks) = (record.search.threads?, record.program.tasks);
    let working = match ranked {
        1 => "1 that works".to_owned(),
        _ => format!("{ranked} that work"),
    };
    Some(format!("{working}; {tasks} tasks in all"))
}

/// The rate of the unpinned program in the last search.
fn unpinned(record: &Record) -> Option<String> {
    let rate = record.search.unpinned()?.rate?;
    Some(rate_text(record.metric.as_ref(), Some(rate)))
}

/// The rate of the chosen placement in the last search; `None` if the program stays as it was.
fn chosen(record: &Record) -> Option<String> {
    let chosen = record.search.chosen.as_ref()?;
    let candidate = record.search.candidates.get(chosen.candidate)?;
    let rate = chosen.rate.filter(|_| !candidate.is_left_alone())?;
    Some(rate_text(record.metric.as_ref(), Some(rate)))
}

/// Whether the result is a gain: the program is faster than it was unpinned, beyond the error.
pub fn is_faster(record: &Record) -> bool {
    let of_regions = || record.by_policy.regions.as_ref()?.program_gain();
    let gain = record.gain_over_unpinned().or_else(of_regions);
    gain.is_some_and(|gain| gain.ratio - gain.error.unwrap_or(0.0) > 1.0)
}

/// What was decided, and its gain: `1.34 ± 0.02 times as fast as unpinned, on 0,1`.
pub fn result(record: &Record) -> String {
    let word = record.kind().word();
    decided(record) + &word.map_or_else(String::new, |word| format!(" ({word})"))
}

fn decided(record: &Record) -> String {
    if let (Some(regions), None) = (&record.by_policy.regions, &record.search.chosen) {
        let of_regions = regions.gain.map(|gain| Gain {
            ratio: gain + 1.0,
            error: None,
        });
        return match (regions.kept(), regions.program_gain(), of_regions) {
            (0, Some(program), Some(regions)) => format!(
                "unpinned: with other configurations parallel regions were {regions} as fast, and the whole program {program}"
            ),
            (0, ..) => "unpinned: no configuration of parallel regions was faster".to_owned(),
            (_, Some(program), Some(regions)) => {
                format!("the program is {program} as fast as before, and its parallel regions {regions}")
            }
            (_, _, Some(regions)) => format!("parallel regions are {regions} as fast as before they were configured"),
            _ => "parallel regions were configured; not compared with unpinned".to_owned(),
        };
    }
    if record.by_policy.nothing_to_gain.is_some() {
        return "placement cannot matter on this machine".to_owned();
    }
    let moves = record.by_policy.moves.len();
    if moves > 0 {
        return format!("{moves} moves of single threads; not compared with unpinned");
    }
    let search = &record.search;
    let Some(chosen) = &search.chosen else {
        return undecided(record);
    };
    let name = name(search, chosen.candidate);
    let candidate = search.candidates.get(chosen.candidate);
    if let Some(text) = candidate.and_then(not_pinned) {
        return text;
    }
    if chosen.pus.is_none() && candidate.is_none_or(Candidate::is_left_alone) {
        let measured = search.candidates.iter().filter(|one| one.rate.is_some()).count();
        return match measured {
            0 | 1 => format!("{name}: nothing else was measured"),
            _ => format!("{name}: no pinning was better"),
        };
    }
    let place = if chosen.pus.is_some() {
        format!("on {name}")
    } else {
        name
    };
    match record.gain_over_unpinned() {
        Some(gain) => format!("{gain} as fast as unpinned, {place}"),
        None => format!("{place}; not compared with unpinned"),
    }
}

/// The result if a candidate's threads ran unpinned although it names CPUs.
fn not_pinned(candidate: &Candidate) -> Option<String> {
    let why = candidate.not_pinned.as_ref()?;
    let wanted = candidate
        .pus
        .as_ref()
        .map_or_else(String::new, |pus| format!(", and not on CPUs {pus}"));
    Some(format!("unpinned{wanted}: {why}"))
}

/// The result of a run that chose nothing.
fn undecided(record: &Record) -> String {
    let kept = record.kept_from_start();
    if let Some(text) = kept.and_then(not_pinned) {
        return text;
    }
    match kept {
        Some(kept) if kept.pus.is_some() => format!("on {kept}; not compared with unpinned"),
        Some(kept) => format!("{kept}; not compared with unpinned"),
        None if record.program.ended_early.is_some() => "nothing was decided before the program ended".to_owned(),
        None => "nothing was decided; not compared with unpinned".to_owned(),
    }
}

/// The mean of the rate lines.
fn afterwards(record: &Record) -> Option<String> {
    let rates: Vec<f64> = record.rates.iter().filter_map(|line| line.rate).collect();
    if rates.is_empty() {
        return None;
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let lines = match rates.len() {
        1 => "1 measurement".to_owned(),
        number => format!("{number} measurements"),
    };
    Some(format!("{} in {lines}", rate_text(record.metric.as_ref(), Some(mean))))
}

fn pages(record: &Record) -> Option<String> {
    let moves = record.pages.page_moves.iter().map(|timed| &timed.moves);
    let bytes: u64 = moves.clone().map(|moves| moves.moved.bytes).sum();
    let times = moves.filter(|moves| moves.moved.bytes > 0).count();
    let noun = if times == 1 { "time" } else { "times" };
    (bytes > 0).then(|| format!("{} moved, at {times} {noun}", size_text(bytes)))
}

fn cost_text(cost: Duration, ran: Duration) -> String {
    let seconds = cost.as_secs_f64();
    let share = 100.0 * seconds / ran.as_secs_f64().max(seconds).max(f64::MIN_POSITIVE);
    format!(
        "{} of processor time for pinfold itself, {share:.1} % of one CPU",
        duration(cost)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::function::FoundFunction;
    use pinfold_core::{ChoiceCode, PageMapping, Pinning, PuId, Scope};
    use pinfold_runtime::{Chosen, RateLine};

    fn candidate(pus: Option<&[u32]>, rate: f64) -> Candidate {
        let pus = pus.and_then(|pus| Pinning::new(pus.iter().copied().map(PuId).collect()));
        Candidate {
            within: None,
            pus,
            pages: None,
            regions: vec![],
            rate: Some(rate),
            spread: Some(0.1),
            error: Some(rate / 100.0),
            measured: Some(1.0),
            dropped: false,
            not_pinned: None,
            metrics: vec![],
        }
    }

    /// A run with two candidates that chose this one.
    fn record(first: Candidate, chosen: usize) -> Record {
        let mut record = Record {
            metric: Some(MetricRecord {
                name: "regions".to_owned(),
                unit: "region".to_owned(),
                scope: Scope::Program,
                function: None,
            }),
            ..Record::default()
        };
        record.search.threads = Some(2);
        record.search.candidates = vec![first, candidate(Some(&[0, 1]), 134.0)];
        let one = record.search.candidates[chosen].clone();
        record.search.chosen = Some(Chosen {
            within: None,
            candidate: chosen,
            pus: one.pus,
            rate: one.rate,
            spread: one.spread,
            gain_over_first: Some(0.34),
            gain_over_worst: Some(0.34),
            at: 3.0,
            code: ChoiceCode::HighestRate,
            why: None,
        });
        record.program.tasks = 5;
        record.program.ran = Some(10.0);
        record.program.exit_status = Some(0);
        record
    }

    #[test]
    fn a_found_function_is_named_beside_the_metric() {
        let mut record = record(candidate(None, 100.0), 1);
        let metric = record.metric.as_mut().unwrap();
        metric.name = "function".to_owned();
        metric.function = Some(FoundFunction {
            name: "step".to_owned(),
            file: "solver".to_owned(),
            calls_per_second: 100.0,
            threads: 2,
            spread: 0.1,
            cost: 0.001,
        });
        assert_eq!(
            metric.described(),
            "function (step of solver, 100 calls/s by 2 threads)"
        );
    }

    #[test]
    fn a_result_has_the_gain_with_its_error() {
        let mut record = record(candidate(None, 100.0), 1);
        assert_eq!(result(&record), "1.34 ± 0.02 times as fast as unpinned, on 0,1");
        assert!(is_faster(&record));
        record.simulated = true;
        let simulated = "1.34 ± 0.02 times as fast as unpinned, on 0,1 (simulated)";
        assert_eq!(result(&record), simulated);
    }

    #[test]
    fn a_gain_within_its_error_is_none() {
        let uncertain = Candidate {
            error: Some(40.0),
            ..candidate(None, 100.0)
        };
        assert!(!is_faster(&record(uncertain, 1)));
    }

    #[test]
    fn a_summary_has_what_was_measured_and_what_it_cost() {
        let mut record = record(candidate(None, 100.0), 1);
        record.rates = vec![RateLine {
            at: 4.0,
            rate: Some(133.0),
            spread: None,
            metrics: vec![],
        }];
        let command = ["./solver".to_owned(), "data".to_owned()];
        let ending = Ending {
            command: &command,
            left_pinned: None,
            cost: Some(Duration::from_millis(50)),
        };
        let expected = "the program ended with status 0 after 10.0 s: ./solver data\n  \
                        threads      2 that work; 5 tasks in all\n  \
                        metric       regions\n  \
                        unpinned     100.0 regions/s\n  \
                        chosen       134.0 regions/s\n  \
                        afterwards   133.0 regions/s in 1 measurement\n  \
                        left pinned  nothing\n  \
                        cost         50 ms of processor time for pinfold itself, 0.5 % of one CPU";
        assert_eq!(text(&record, &ending), expected);
        let short = "the program ended with status 0 after 10.0 s";
        assert_eq!(super::ending(&record, &ending), short);
        let left = Ending {
            left_pinned: Some("all threads"),
            ..ending
        };
        assert_eq!(
            super::ending(&record, &left),
            format!("{short}\n  left pinned  all threads")
        );
    }

    #[test]
    fn without_a_measured_baseline_there_is_no_gain() {
        let unmeasured = Candidate {
            rate: None,
            ..candidate(None, 0.0)
        };
        for first in [unmeasured, candidate(Some(&[1, 0]), 100.0)] {
            let shown = result(&record(first, 1));
            assert_eq!(shown, "on 0,1; not compared with unpinned");
        }
        let nothing = result(&Record::default());
        assert_eq!(nothing, "nothing was decided; not compared with unpinned");
    }

    #[test]
    fn an_unpinned_choice_is_no_gain() {
        let unpinned = record(candidate(None, 100.0), 0);
        assert_eq!(result(&unpinned), "unpinned: no pinning was better");
        assert!(!is_faster(&unpinned));
    }

    #[test]
    fn unpinned_threads_whose_pages_were_moved_are_a_choice() {
        let mut record = record(candidate(None, 100.0), 1);
        let chosen = &mut record.search.candidates[1];
        (chosen.pus, chosen.pages) = (None, Some(PageMapping::Interleave));
        record.search.chosen.as_mut().unwrap().pus = None;
        let expected = "1.34 ± 0.02 times as fast as unpinned, unpinned with pages interleave";
        assert_eq!(result(&record), expected);
    }

    #[test]
    fn a_program_that_still_runs_is_shown_as_let_go() {
        let mut record = record(candidate(None, 100.0), 1);
        record.program.exit_status = None;
        let shown = text(&record, &Ending::default());
        assert!(
            shown.starts_with("the program was let go after 10.0 s and runs on\n"),
            "{shown}"
        );
    }
}
