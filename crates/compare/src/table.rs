//! The comparison for people: the command and the machine, a table, the choices of the policies, and notes.

use crate::{Choices, Comparison, Difference, Relative, Role, Simulated, Summary, Variant, notes};
use pinfold_core::MachineKind;
use pinfold_core::text::one_line;
use std::fmt::Write as _;

/// The unit of the times in a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    factor: f64,
    digits: usize,
}

impl Unit {
    const SECONDS: Self = Self {
        name: "s",
        factor: 1.0,
        digits: 3,
    };
    const MILLISECONDS: Self = Self {
        name: "ms",
        factor: 1e3,
        digits: 1,
    };

    /// Chooses the unit in which the longest mean has a few digits before the point.
    pub(crate) fn of(comparison: &Comparison) -> Self {
        let means = comparison.variants.iter().filter_map(Variant::summary);
        if means.map(|summary| summary.mean).fold(0.0, f64::max) < 1.0 {
            Self::MILLISECONDS
        } else {
            Self::SECONDS
        }
    }

    pub(crate) fn text(self, seconds: f64) -> String {
        format!("{:.*}", self.digits, seconds * self.factor)
    }

    /// A value that may be missing.
    pub(crate) fn text_or_dash(self, seconds: Option<f64>) -> String {
        seconds.map_or_else(|| "-".to_owned(), |seconds| self.text(seconds))
    }
}

/// The whole text, with a newline at its end.
pub fn text(comparison: &Comparison) -> String {
    let mut text = subject(comparison) + "\n\n";
    for line in rows(comparison) {
        text += &(line + "\n");
    }
    let choices = choices(comparison);
    if !choices.is_empty() {
        text += "\nWhat each policy chose:\n";
        for line in choices {
            let _ = writeln!(text, "  {line}");
        }
    }
    let notes = notes::notes(comparison);
    if !notes.is_empty() {
        text += "\nNotes:\n";
        for note in notes {
            let _ = writeln!(text, "  - {}", wrapped(&note).join("\n    "));
        }
    }
    text
}

/// A note as lines that fit a terminal.
fn wrapped(note: &str) -> Vec<String> {
    const WIDTH: usize = 96;
    let mut lines = vec![String::new()];
    for word in note.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        match lines.last_mut() {
            Some(last) if line == 0 || line + 1 + word.chars().count() <= WIDTH => {
                if line > 0 {
                    last.push(' ');
                }
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The command and the machine.
fn subject(comparison: &Comparison) -> String {
    let words: Vec<String> = comparison.command.iter().map(|word| quoted(word)).collect();
    let (command, machine) = (words.join(" "), &comparison.machine);
    let ended = if comparison.ended_early.is_some() {
        "; the comparison is not complete"
    } else {
        ""
    };
    match &comparison.simulated {
        None => format!("{command}\nmeasured on {machine}\nall variants in turns{ended}"),
        Some(Simulated {
            kind: MachineKind::Table,
            repeat,
            ..
        }) => format!(
            "{command}\nreplayed from a table of measurements of {machine}\nnothing was measured in these runs; each repeats the \
             program {repeat} times, each round with another seed{ended}"
        ),
        Some(Simulated {
            repeat,
            kernel,
            numa_balancing,
            ..
        }) => {
            let balancing = match numa_balancing {
                Some(true) => ", and automatic NUMA balancing is on for all",
                _ => "",
            };
            let alone = kernel.as_ref().map_or_else(String::new, |kernel| {
                format!("\nalone is unpinned on a simulated Linux {kernel}{balancing}")
            });
            format!(
                "{command}\nsimulated on {machine}\nnothing was measured; each run does {repeat} times what was recorded, each \
                 round with another seed{ended}{alone}"
            )
        }
    }
}

/// A word, quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", one_line(&word.replace('\'', "'\\''")))
    }
}

/// The lines of the table. The headings come first.
fn rows(comparison: &Comparison) -> Vec<String> {
    let unit = Unit::of(comparison);
    let headings = [
        "variant".to_owned(),
        format!("mean ± deviation [{}]", unit.name),
        format!("min … max [{}]", unit.name),
        format!("user [{}]", unit.name),
        format!("system [{}]", unit.name),
        "runs".to_owned(),
        "times as fast as alone".to_owned(),
    ];
    let times: Vec<&Variant> = comparison.variants.iter().collect();
    let cells = times.iter().map(|variant| cells(comparison, variant, unit));
    let mut table: Vec<[String; 7]> = [headings].into_iter().chain(cells).collect();
    if comparison.simulated.is_some() {
        // A simulation measures no processor time.
        for row in &mut table {
            row[3].clear();
            row[4].clear();
        }
    }
    let widths: Vec<usize> = (0..7)
        .map(|column| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let line = |row: &[String; 7]| {
        let mut line = String::new();
        for (column, (cell, width)) in row
            .iter()
            .zip(&widths)
            .enumerate()
            .filter(|(_, (_, width))| **width > 0)
        {
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                // The judgement follows the number.
                6 => write!(line, "  {cell}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        line.trim_end().to_owned()
    };
    table.iter().map(line).collect()
}

fn cells(comparison: &Comparison, variant: &Variant, unit: Unit) -> [String; 7] {
    let summary = variant.summary();
    let processor = |figure: Option<f64>| unit.text_or_dash(figure);
    [
        variant.name.clone(),
        summary.map_or_else(|| "-".to_owned(), |summary| mean(summary, unit)),
        summary.map_or_else(
            || "-".to_owned(),
            |summary| format!("{} … {}", unit.text(summary.min), unit.text(summary.max)),
        ),
        processor(variant.mean(|run| run.user)),
        processor(variant.mean(|run| run.system)),
        variant.runs.len().to_string(),
        comparison.relative(variant).map_or_else(String::new, relative),
    ]
}

/// A mean, with its deviation if it is known.
pub(crate) fn mean(summary: Summary, unit: Unit) -> String {
    let deviation = summary
        .deviation
        .map(|deviation| format!(" ± {}", unit.text(deviation)));
    unit.text(summary.mean) + &deviation.unwrap_or_default()
}

/// The ratio with its standard error, and the judgement of the difference.
fn relative(relative: Relative) -> String {
    let judged = match relative.difference() {
        Difference::Faster => "faster".to_owned(),
        Difference::Slower => "slower".to_owned(),
        Difference::TooFewRuns(more) => format!("too few runs: {more} more would tell"),
        Difference::WithinNoise => "within noise".to_owned(),
        Difference::Unknown => "noise not known".to_owned(),
    };
    format!("{}, {judged}", ratio(relative))
}

/// The ratio with its standard error.
pub(crate) fn ratio(relative: Relative) -> String {
    match relative.standard_error {
        // Two digits are enough unless the error needs a third.
        Some(error) if error < 0.005 => format!("{:.3} ± {error:.3}", relative.ratio),
        Some(error) => format!("{:.2} ± {error:.2}", relative.ratio),
        None => format!("{:.2}", relative.ratio),
    }
}

/// One line for each policy, with its choices.
fn choices(comparison: &Comparison) -> Vec<String> {
    let policies = || {
        comparison
            .variants
            .iter()
            .filter(|variant| variant.role == Role::Policy)
    };
    let width = policies().map(|policy| policy.name.chars().count()).max().unwrap_or(0);
    let line = |policy: &Variant| {
        let counted = Choices::count(policy.choices());
        let texts: Vec<String> = counted
            .iter()
            .map(|one| format!("{one} ({} of {})", one.runs, policy.runs.len()))
            .collect();
        (!texts.is_empty()).then(|| format!("{:<width$}  {}", policy.name, texts.join("; ")))
    };
    policies().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;
    use crate::comparison::tests::{comparison, variant};

    fn example() -> Comparison {
        let mut policy = variant("autopin", Role::Policy, &[1.0, 1.1, 0.9]);
        for run in &mut policy.runs {
            run.choice = Some(Choice::UNPINNED);
        }
        comparison(vec![variant("alone", Role::Alone, &[2.0, 2.2, 1.8]), policy])
    }

    #[test]
    fn the_table_has_a_line_for_each_variant_and_the_choices() {
        let expected = "\
program 'input file'
measured on 2 packages
all variants in turns

variant  mean ± deviation [s]  min … max [s]  user [s]  system [s]  runs  times as fast as alone
alone           2.000 ± 0.200  1.800 … 2.200     4.000       0.000     3
autopin         1.000 ± 0.100  0.900 … 1.100     2.000       0.000     3  2.00 ± 0.16, faster

What each policy chose:
  autopin  unpinned (3 of 3)
";
        assert_eq!(text(&example()), expected);
    }

    #[test]
    fn a_simulated_table_says_so_and_has_no_processor_time() {
        let mut simulated = example();
        simulated.simulated = Some(Simulated {
            kind: MachineKind::Simulated,
            recording: None,
            repeat: 7,
            first_seed: 0,
            kernel: Some("7.2".to_owned()),
            numa_balancing: Some(false),
        });
        let off = text(&simulated);
        if let Some(simulated) = &mut simulated.simulated {
            simulated.numa_balancing = Some(true);
        }
        let on = text(&simulated);
        let line = "alone is unpinned on a simulated Linux 7.2, and automatic NUMA balancing is on for all\n";
        assert!(on.contains(line), "{on}");
        let text = off;
        assert!(
            text.contains("simulated on 2 packages\nnothing was measured; each run does 7 times"),
            "{text}"
        );
        assert!(
            text.contains("\nalone is unpinned on a simulated Linux 7.2\n"),
            "{text}"
        );
        assert!(!text.contains("user") && !text.contains("measured on"), "{text}");
    }

    #[test]
    fn a_replayed_table_is_neither_measured_nor_simulated() {
        let mut replayed = example();
        replayed.simulated = Some(Simulated {
            kind: MachineKind::Table,
            recording: None,
            repeat: 7,
            first_seed: 0,
            kernel: None,
            numa_balancing: None,
        });
        let text = text(&replayed);
        assert!(
            text.contains("replayed from a table of measurements of 2 packages"),
            "{text}"
        );
        assert!(!text.contains("user") && !text.contains("simulated"), "{text}");
    }

    #[test]
    fn a_variant_without_runs_has_dashes_and_one_with_a_single_run_no_deviation() {
        let mut early = example();
        early.variants[1].runs.clear();
        early.variants[0].runs.truncate(1);
        early.ended_early = Some("interrupted".to_owned());
        let text = text(&early);
        assert!(text.contains("the comparison is not complete"), "{text}");
        let alone = text.lines().find(|line| line.starts_with("alone")).unwrap();
        assert!(alone.contains(" 2.000  2.000 … 2.000 "), "{text}");
        let autopin = text.lines().find(|line| line.starts_with("autopin")).unwrap();
        assert_eq!(
            autopin.split_whitespace().collect::<Vec<_>>(),
            ["autopin", "-", "-", "-", "-", "0"]
        );
    }

    #[test]
    fn notes_are_wrapped_between_words() {
        let note = "word ".repeat(40);
        let lines = wrapped(&note);
        assert!(
            lines.len() == 3 && lines.iter().all(|line| line.len() <= 96),
            "{lines:?}"
        );
        assert_eq!(lines.join(" "), note.trim());
    }

    #[test]
    fn short_times_are_in_milliseconds() {
        let short = comparison(vec![variant("alone", Role::Alone, &[0.020, 0.022])]);
        assert!(text(&short).contains("21.0 ± 1.4"), "{}", text(&short));
    }
}
