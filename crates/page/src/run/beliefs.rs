//! What was expected of each trial before it, what it measured, and what is expected after it: a row for each trial.
//!
//! 1. All times are over the time of the other configuration, so that those below 1 are faster.
//! 2. The axis is logarithmic: half of the time is as far from 1 as twice the time. It has all intervals, up to a limit.
//! 3. Only bars are stretched to the width of the page; texts and dots keep their size.

use super::labels::Labels;
use crate::numbers;
use crate::shell::folded;
use maud::{Markup, html};
use pinfold_core::{BelievedTrial, ExpectedTime, RegionId, Tried};
use pinfold_runtime::{Record, TimedBelief};

/// At most this many trials are drawn; the table has all.
const DRAWN: usize = 40;

/// The height of a row, of the bar of each interval in it, and of the numbers below the rows, in pixels. The interval
/// after a trial is often narrower than the dot, so its bar is the taller one.
const ROW: usize = 22;
const BEFORE: usize = 10;
const AFTER: usize = 18;
const BELOW: usize = 20;

/// The least and the largest factor between 1 and an end of the axis.
const NEAREST: f64 = 1.1;
const FARTHEST: f64 = 50.0;

/// Room beside the outermost intervals, as a share of the axis.
const ROOM: f64 = 0.04;

/// A bar is not narrower than this, in percent of the axis.
const NARROWEST: f64 = 0.3;

/// The numbers of an axis in a power of ten: the first ones that are few enough.
const NUMBERS: [&[f64]; 4] = [
    &[
        1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0,
    ],
    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
    &[1.0, 2.0, 5.0],
    &[1.0],
];
const MOST_NUMBERS: usize = 7;

/// Letters of a name that have room on the left of a row.
const LETTERS: usize = 11;

/// A trial.
struct Row<'a> {
    at: f64,
    /// `#3`, or `R1` for the first parallel region.
    short: String,
    /// The configuration: `close`.
    words: String,
    /// Both, with all details.
    name: String,
    /// `unpinned`, or `#2`.
    with: String,
    trial: &'a BelievedTrial,
}

/// The drawing and its table; nothing where no trial had an expectation.
pub(super) fn section(record: &Record, labels: &Labels) -> Option<Markup> {
    let rows = rows(&record.by_policy.beliefs, labels);
    if rows.is_empty() {
        return None;
    }
    Some(html! {
        p.hint {
            "A row is a trial, in the order of time. It shows the time in the tried configuration over the time in the other one: \
             on the left of the line at 1 the tried one is faster. The low bar is what was expected before the trial, the tall bar \
             what is expected after it; each has the time with a probability of 95 %. The dot is what was measured."
        }
        (drawing(&rows[..rows.len().min(DRAWN)]))
        @if rows.len() > DRAWN { p.hint { (rows.len() - DRAWN) " more are in the table." } }
        (table(&rows))
    })
}

fn rows<'a>(beliefs: &'a [TimedBelief], labels: &Labels) -> Vec<Row<'a>> {
    let mut regions: Vec<RegionId> = vec![];
    let row = |one: &'a TimedBelief| {
        let (short, words, name, with) = match &one.trial.tried {
            &Tried::Candidate { candidate, with } => {
                let number = labels.number(one.search, candidate);
                let label = labels.get(one.search, candidate);
                let words = label.map(|label| label.words.clone()).unwrap_or_default();
                let name = label.map_or_else(|| number.clone(), super::Label::text);
                let with = with.map_or_else(|| "unpinned".to_owned(), |with| labels.number(one.search, with));
                (number, words, name, with)
            }
            Tried::Region { region, configuration } => {
                let known = regions.iter().position(|known| known == region);
                let number = known.unwrap_or_else(|| {
                    regions.push(*region);
                    regions.len() - 1
                });
                let short = format!("R{}", number + 1);
                let name = format!("{short}, region {region}: {configuration}");
                (short, region.to_string(), name, "unpinned".to_owned())
            }
        };
        Row {
            at: one.at,
            short,
            words,
            name,
            with,
            trial: &one.trial,
        }
    };
    beliefs.iter().map(row).collect()
}

fn drawing(rows: &[Row<'_>]) -> Markup {
    let axis = Axis::new(rows);
    let bottom = rows.len() * ROW;
    let middle = |row: usize| row * ROW + ROW / 2;
    let measured = |row: &Row<'_>| {
        format!(
            "{} took {} of the time of {}",
            row.short,
            number(row.trial.measured),
            row.with
        )
    };
    let spoken: Vec<String> = rows.iter().map(measured).collect();
    html! {
        figure.beliefs {
            figcaption { "Expected and measured times " span.quiet { "over the time of the other configuration, logarithmic" } }
            div.track {
                div.side aria-hidden="true" { svg height=(bottom + BELOW) {
                    @for (position, row) in rows.iter().enumerate() {
                        text x="100%" dx="-6" y=(middle(position) + 4) {
                            (row.short) @if !row.words.is_empty() { tspan.wide { " " (shortened(&row.words)) } }
                        }
                    }
                } }
                svg height=(bottom + BELOW) role="img" aria-labelledby="beliefs-t beliefs-d" {
                    title id="beliefs-t" { "Expected and measured times of " (numbers::counted(rows.len(), "trial")) }
                    desc id="beliefs-d" { (spoken.join("; ")) ". The table below has what was expected." }
                    @for value in axis.numbers() {
                        @let x = percent(axis.at(value));
                        line.grid x1=(x) x2=(x) y1="0" y2=(bottom) {}
                        text.middle x=(x) y=(bottom + 16) { (numbers::short(value)) }
                    }
                    @let one = percent(axis.at(1.0));
                    line.ceiling x1=(one) x2=(one) y1="0" y2=(bottom) {}
                    @for (position, row) in rows.iter().enumerate() {
                        g.trial {
                            title { (row.trial) }
                            (axis.bar("before", row.trial.before, middle(position), BEFORE))
                            (axis.bar("after", row.trial.after, middle(position), AFTER))
                            circle.measured cx=(percent(axis.at(row.trial.measured))) cy=(middle(position)) r="3.5" {}
                        }
                    }
                }
                div."side end" aria-hidden="true" { svg height=(bottom + BELOW) {
                    @for (position, row) in rows.iter().enumerate() {
                        text x="6" y=(middle(position) + 4) { (number(row.trial.measured)) tspan.wide { " of " (row.with) } }
                    }
                } }
            }
        }
    }
}

fn table(rows: &[Row<'_>]) -> Markup {
    let interval = |expected: ExpectedTime| format!("{} to {}", number(expected.low), number(expected.high));
    let rows = html! {
        thead { tr {
            th.number scope="col" { "time" }
            th scope="col" { "tried" }
            th scope="col" { "compared with" }
            th.number scope="col" { "expected before" }
            th.number scope="col" { "95 %" }
            th.number scope="col" { "measured" }
            th.number scope="col" { "expected after" }
            th.number scope="col" { "95 %" }
        } }
        tbody {
            @for row in rows {
                tr {
                    td.number { (numbers::seconds(row.at)) }
                    th.words scope="row" { (row.name) }
                    td { (row.with) }
                    td.number { (number(row.trial.before.time)) }
                    td.number { (interval(row.trial.before)) }
                    td.number { (number(row.trial.measured)) }
                    td.number { (number(row.trial.after.time)) }
                    td.number { (interval(row.trial.after)) }
                }
            }
        }
    };
    folded("what was expected of each trial", &rows)
}

/// A time over another, with the digits that the explanation has.
fn number(time: f64) -> String {
    if time.abs() < 1000.0 {
        format!("{time:.2}")
    } else {
        numbers::short(time)
    }
}

fn percent(share: f64) -> String {
    format!("{share:.2}%")
}

fn shortened(words: &str) -> String {
    if words.chars().count() <= LETTERS {
        return words.to_owned();
    }
    words.chars().take(LETTERS - 1).chain(['…']).collect()
}

/// The logarithms of the ends.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    fn new(rows: &[Row<'_>]) -> Self {
        let ends = rows.iter().flat_map(|row| {
            let BelievedTrial {
                before,
                measured,
                after,
                ..
            } = row.trial;
            [before.low, before.high, *measured, after.low, after.high]
        });
        // A damaged record may have any number.
        let ends = ends.map(f64::ln).filter(|end| end.is_finite());
        let (nearest, farthest) = (NEAREST.ln(), FARTHEST.ln());
        let (mut from, mut to) = (-nearest, nearest);
        for end in ends {
            from = from.min(end.max(-farthest));
            to = to.max(end.min(farthest));
        }
        let room = ROOM * (to - from);
        Self {
            from: from - room,
            to: to + room,
        }
    }

    /// Where a time is, in percent.
    fn at(&self, time: f64) -> f64 {
        let at = 100.0 * (time.max(f64::MIN_POSITIVE).ln() - self.from) / (self.to - self.from);
        at.clamp(0.0, 100.0)
    }

    fn numbers(&self) -> Vec<f64> {
        let within = |number: &f64| (self.from..=self.to).contains(&number.ln());
        let numbers = NUMBERS.into_iter().map(|numbers| -> Vec<f64> {
            let all = (-2..=1).flat_map(|power| numbers.iter().map(move |number| number * 10f64.powi(power)));
            all.filter(within).collect()
        });
        let mut few = numbers.skip_while(|numbers| numbers.len() > MOST_NUMBERS);
        few.next().unwrap_or_default()
    }

    /// An interval, in the middle of its row.
    fn bar(&self, class: &str, expected: ExpectedTime, middle: usize, height: usize) -> Markup {
        let (from, to) = (self.at(expected.low), self.at(expected.high));
        html! {
            rect class=(class) x=(percent(from)) width=(percent((to - from).max(NARROWEST))) y=(middle - height / 2) height=(height) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn trial(low: f64, high: f64) -> BelievedTrial {
        let expected = ExpectedTime {
            time: 1.0,
            low,
            high,
            faster: 0.5,
        };
        BelievedTrial {
            tried: Tried::Candidate {
                candidate: 1,
                with: None,
            },
            before: expected,
            measured: 1.0,
            error: 0.01,
            after: expected,
        }
    }

    fn axis(low: f64, high: f64) -> Axis {
        let row = Row {
            at: 1.0,
            short: String::new(),
            words: String::new(),
            name: String::new(),
            with: String::new(),
            trial: &trial(low, high),
        };
        Axis::new(&[row])
    }

    #[test]
    fn half_of_the_time_is_as_far_from_one_as_twice_the_time() {
        let axis = axis(0.5, 2.0);
        assert!((axis.at(1.0) - 50.0).abs() < 1e-9);
        assert!((axis.at(0.5) + axis.at(2.0) - 100.0).abs() < 1e-9);
        assert!(axis.at(0.5) > 3.0 && axis.at(2.0) < 97.0);
    }

    #[test]
    fn an_axis_has_few_round_numbers_and_one_is_among_them() {
        let shown = |low, high| {
            let numbers = axis(low, high).numbers();
            numbers.into_iter().map(numbers::short).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(0.99, 1.01), "1 1.1");
        assert_eq!(shown(0.6, 1.2), "0.6 0.7 0.8 0.9 1 1.1 1.2");
        assert_eq!(shown(0.3, 3.0), "0.3 0.5 0.7 1 1.5 2 3");
        assert_eq!(shown(0.1, 10.0), "0.1 0.2 0.5 1 2 5 10");
        assert_eq!(shown(1e-9, 1e9), "0.1 1 10");
    }

    proptest! {
        #[test]
        fn all_is_within_the_axis(low in any::<f64>(), high in any::<f64>(), time in any::<f64>()) {
            prop_assume!(!time.is_nan());
            let axis = axis(low, high);
            prop_assert!((0.0..=100.0).contains(&axis.at(time)), "{:?} {}", axis, axis.at(time));
            prop_assert!(axis.numbers().len() <= MOST_NUMBERS);
            prop_assert!(axis.numbers().iter().any(|&number| (number - 1.0).abs() < 1e-9));
        }
    }
}
