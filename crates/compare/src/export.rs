//! The comparison as CSV and as Markdown. The first columns are the same as in hyperfine's exports.

use crate::table::{Unit, mean, ratio};
use crate::{Comparison, Difference, Variant};
use pinfold_core::text::one_line;
use std::fmt::Write as _;

/// CSV (RFC 4180 with line feeds), times in seconds. Unknown values are empty.
pub fn csv(comparison: &Comparison) -> String {
    let mut text =
        "command,mean,stddev,median,user,system,min,max,runs,times_as_fast,standard_error,p_value,simulated\n"
            .to_owned();
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for variant in &comparison.variants {
        let (summary, relative) = (variant.summary(), comparison.relative(variant));
        let cells = [
            quoted(&variant.name),
            number(summary.map(|summary| summary.mean)),
            number(summary.and_then(|summary| summary.deviation)),
            number(summary.map(|summary| summary.median)),
            number(variant.mean(|run| run.user)),
            number(variant.mean(|run| run.system)),
            number(summary.map(|summary| summary.min)),
            number(summary.map(|summary| summary.max)),
            variant.runs.len().to_string(),
            number(relative.map(|relative| relative.ratio)),
            number(relative.and_then(|relative| relative.standard_error)),
            number(relative.and_then(|relative| relative.p_value)),
            comparison.simulated.is_some().to_string(),
        ];
        text += &(cells.join(",") + "\n");
    }
    text
}

/// A cell of CSV.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A table in Markdown.
pub fn markdown(comparison: &Comparison) -> String {
    let unit = Unit::of(comparison);
    let word = comparison
        .simulated
        .as_ref()
        .and_then(|simulated| simulated.kind.word());
    let simulated = word.map_or_else(String::new, |word| format!(", {word}"));
    let name = unit.name;
    let mut text = format!(
        "| Variant | Mean [{name}{simulated}] | Min [{name}] | Max [{name}] | Runs | Times as fast as alone |\n\
         |:---|---:|---:|---:|---:|---:|\n"
    );
    for variant in &comparison.variants {
        let _ = writeln!(text, "{}", markdown_row(comparison, variant, unit));
    }
    text
}

fn markdown_row(comparison: &Comparison, variant: &Variant, unit: Unit) -> String {
    let summary = variant.summary();
    let mean = summary.map_or_else(|| "-".to_owned(), |summary| mean(summary, unit));
    let relative = comparison.relative(variant).map_or_else(
        || "-".to_owned(),
        |relative| match relative.difference() {
            Difference::TooFewRuns(more) => format!("{} (too few runs: {more} more would tell)", ratio(relative)),
            Difference::WithinNoise => format!("{} (within noise)", ratio(relative)),
            _ => ratio(relative),
        },
    );
    let [min, max] = [summary.map(|summary| summary.min), summary.map(|summary| summary.max)];
    format!(
        "| `{}` | {mean} | {} | {} | {} | {relative} |",
        one_line(&variant.name).replace('|', "\\|"),
        unit.text_or_dash(min),
        unit.text_or_dash(max),
        variant.runs.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;
    use crate::comparison::tests::{comparison, variant};

    fn example() -> Comparison {
        comparison(vec![
            variant("alone", Role::Alone, &[2.0, 2.2, 1.8]),
            variant("sam --without a,b", Role::Policy, &[1.0]),
        ])
    }

    #[test]
    fn csv_has_hyperfines_columns_first_and_quotes_commas() {
        let text = csv(&example());
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("command,mean,stddev,median,user,system,min,max,"),
            "{text}"
        );
        assert_eq!(lines[1], "alone,2,0.20000000000000007,2,4,0,1.8,2.2,3,,,,false");
        assert_eq!(lines[2], "\"sam --without a,b\",1,,1,2,0,1,1,1,2,,,false");
    }

    #[test]
    fn markdown_is_a_table_with_a_row_for_each_variant() {
        let expected = "\
| Variant | Mean [s] | Min [s] | Max [s] | Runs | Times as fast as alone |
|:---|---:|---:|---:|---:|---:|
| `alone` | 2.000 ± 0.200 | 1.800 | 2.200 | 3 | - |
| `sam --without a,b` | 1.000 | 1.000 | 1.000 | 1 | 2.00 |
";
        assert_eq!(markdown(&example()), expected);
    }
}
