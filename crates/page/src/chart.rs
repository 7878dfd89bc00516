//! A curve over time.
//!
//! Only the curve is stretched to the width of the page. Texts, grid and marks have positions in percent of it, so
//! that they keep their size on every screen. The axis begins at zero.

use crate::numbers;
use maud::{Markup, html};
use std::fmt::Write as _;

/// The width of the curve's own coordinates.
pub(crate) const WIDTH: f64 = 1000.0;

/// Room for the numbers of marks above the curve.
const ABOVE: u32 = 18;

/// Numbers of marks need this share of the width.
const APART: f64 = 0.045;

/// A part of a curve: its start, its end, and its value, or `None` if that is unknown.
pub(crate) type Part = (f64, f64, Option<f64>);

/// A vertical line at the time of a decision.
pub(crate) struct Mark {
    pub(crate) at: f64,
    /// Its number in the list of decisions.
    pub(crate) number: usize,
}

/// A curve.
pub(crate) struct Chart<'a> {
    /// Its anchor, unique on the page.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) unit: String,
    /// In words, for those who do not see it.
    pub(crate) description: String,
    /// The end of the time axis.
    pub(crate) end: f64,
    pub(crate) parts: Vec<Part>,
    /// The upper end of the axis; `None` for a round number above the largest value.
    pub(crate) top: Option<f64>,
    /// How values are written.
    pub(crate) text: fn(f64) -> String,
    pub(crate) marks: &'a [Mark],
    pub(crate) height: u32,
}

impl Chart<'_> {
    pub(crate) fn markup(&self) -> Markup {
        let largest = self.parts.iter().filter_map(|part| part.2).fold(0.0, f64::max);
        let top = self.top.unwrap_or_else(|| numbers::round_up(largest));
        let above = if self.marks.is_empty() { 6 } else { ABOVE };
        let whole = self.height + above + 1;
        let levels =
            [1.0, 0.5, 0.0].map(|share| (f64::from(above) + f64::from(self.height) * (1.0 - share), share * top));
        let (curve, area) = paths(&self.parts, self.end, top);
        html! {
            figure id=(self.id) {
                figcaption { (self.title) " " span.quiet { (self.unit) } }
                div.plot {
                    div.levels aria-hidden="true" {
                        svg height=(whole) {
                            @for (y, value) in levels {
                                text x="90%" y=(y + 4.0) { ((self.text)(value)) }
                            }
                        }
                    }
                    svg height=(whole) role="img" aria-labelledby={ (self.id) "-t " (self.id) "-d" } {
                        title id={ (self.id) "-t" } { (self.title) ", " (self.unit) }
                        desc id={ (self.id) "-d" } { (self.description) }
                        @for (y, _) in levels {
                            line.grid x1="0" x2="100%" y1=(y) y2=(y) {}
                        }
                        svg y=(above) width="100%" height=(self.height) viewBox={ "0 0 " (WIDTH) " 100" } preserveAspectRatio="none" {
                            path.area d=(area) {}
                            path.curve d=(curve) {}
                        }
                        (self.marks(whole))
                        line.cursor hidden y1=(above) y2=(whole) {}
                    }
                    (times(self.end))
                }
            }
        }
    }

    fn marks(&self, bottom: u32) -> Markup {
        let mut free_from = f64::NEG_INFINITY;
        let marks: Vec<(f64, Option<usize>)> = self
            .marks
            .iter()
            .map(|mark| {
                let share = (mark.at / self.end).clamp(0.0, 1.0);
                let number = (share >= free_from).then_some(mark.number);
                if number.is_some() {
                    free_from = share + APART;
                }
                (100.0 * share, number)
            })
            .collect();
        html! {
            @for (x, number) in marks {
                line.mark x1={ (format!("{x:.2}")) "%" } x2={ (format!("{x:.2}")) "%" } y1=(ABOVE - 3) y2=(bottom) {}
                @if let Some(number) = number {
                    text.mark-number x={ (format!("{x:.2}")) "%" } y="11" { (number) }
                }
            }
        }
    }
}

/// The curve, and the area below it. Parts without a value interrupt both.
pub(crate) fn paths(parts: &[Part], end: f64, top: f64) -> (String, String) {
    let (mut curve, mut area) = (String::new(), String::new());
    let x = |at: f64| (WIDTH * at / end).clamp(0.0, WIDTH);
    let mut last: Option<f64> = None;
    for &(from, until, value) in parts {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            last = None;
            continue;
        };
        let y = 100.0 * (1.0 - (value / top).clamp(0.0, 1.0));
        let (from, until) = (x(from), x(until));
        let joined = last.is_some_and(|last| (last - from).abs() < 0.1);
        let _ = write!(curve, "{}{from:.1} {y:.1}H{until:.1}", if joined { "L" } else { "M" });
        let _ = write!(area, "M{from:.1} 100V{y:.1}H{until:.1}V100Z");
        last = Some(until);
    }
    (curve, area)
}

/// The labels of the time axis.
pub(crate) fn times(end: f64) -> Markup {
    html! {
        div.times aria-hidden="true" {
            @for share in [0.0, 0.5, 1.0] {
                span { (numbers::seconds(share * end)) }
            }
        }
    }
}

/// The parts of a series whose values are of the time since the point before.
pub(crate) fn since_before(at: &[f64], values: &[Option<f64>]) -> Vec<Part> {
    let mut before = 0.0;
    let parts = at.iter().zip(values).map(|(&at, &value)| {
        let part = (before, at, value);
        before = at;
        part
    });
    parts.collect()
}

/// The parts of a series whose values hold from their point to the next.
pub(crate) fn until_next(at: &[f64], end: f64, values: &[Option<f64>]) -> Vec<Part> {
    let next = at.iter().skip(1).copied().chain([end]);
    at.iter()
        .zip(next)
        .zip(values)
        .map(|((&at, next), &value)| (at, next, value))
        .collect()
}
