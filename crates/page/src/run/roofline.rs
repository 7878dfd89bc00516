//! The roofline of the machine, with a point for each candidate (Williams, Waterman and Patterson, "Roofline: an
//! insightful visual performance model for multicore architectures", CACM 2009). Instructions stand for operations, as
//! in the instruction roofline (Ding and Williams, PMBS 2019): processors do not count floating-point operations alike.
//!
//! 1. The time line has the rate of instructions, and the traffic of each node's memory. Without traffic the misses of
//!    the last-level cache stand for it, a line for each.
//! 2. A point is the mean of both over the time that the program ran in the candidate.
//! 3. The ceilings are the instructions of all cores, and the memory of one node and of all nodes.

use super::additions::Ceilings;
use super::labels::Labels;
use crate::numbers;
use crate::shell::folded;
use maud::{Markup, html};
use pinfold_runtime::{Record, Timeline};
use std::collections::BTreeMap;

/// The bytes of a line of a cache, on every machine that pinfold knows.
const LINE: f64 = 64.0;

/// The height of the drawing, in pixels.
const HEIGHT: f64 = 260.0;

/// A point.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    name: String,
    is_kept: bool,
    /// Per second.
    instructions: f64,
    bytes: f64,
}

/// The drawing; nothing without ceilings or without points.
pub(super) fn section(record: &Record, labels: &Labels, ceilings: Option<&Ceilings>) -> Option<Markup> {
    let ceilings = ceilings.filter(|one| one.instructions > 0.0 && one.node_bandwidth > 0.0 && one.nodes > 0)?;
    let line = record.timeline.as_ref()?;
    let points = points(record, line, labels)?;
    let axes = Axes::new(&points, ceilings);
    let rows = html! {
        thead { tr {
            th scope="col" { "candidate" }
            th.number scope="col" { "instructions per second" }
            th.number scope="col" { "bytes per second" }
            th.number scope="col" { "instructions per byte" }
        } }
        tbody {
            @for point in &points {
                tr {
                    th scope="row" { (point.name) }
                    td.number { (numbers::short(point.instructions)) }
                    td.number { (numbers::short(point.bytes)) }
                    td.number { (numbers::short(point.instructions / point.bytes)) }
                }
            }
        }
    };
    let traffic = if line.traffic.is_empty() {
        "misses of the last-level cache, a line each"
    } else {
        "the traffic of all memory"
    };
    Some(html! {
        p.hint {
            "A point is a candidate: how fast it computes, by how much it computes with each byte from memory (" (traffic)
            "). Below the sloping line memory is the limit, below the flat line the cores are. Ceilings are those of "
            (ceilings.source) "."
        }
        (axes.markup(&points, ceilings))
        (folded("roofline", &rows))
    })
}

/// The means of each candidate; `None` without any.
fn points(record: &Record, line: &Timeline, labels: &Labels) -> Option<Vec<Point>> {
    let rates = |name: &str| {
        line.metrics
            .iter()
            .find(|series| series.name == name)
            .map(|series| &series.rates)
    };
    let instructions = rates("event:instructions").or_else(|| rates("event:INST_RETIRED:ANY_P"))?;
    let misses = rates("event:cache-misses");
    let bytes = |point: usize| -> Option<f64> {
        if line.traffic.is_empty() {
            return Some(LINE * misses?.get(point).copied().flatten()?);
        }
        let nodes = line
            .traffic
            .iter()
            .map(|series| series.rates.get(point).copied().flatten());
        nodes.sum()
    };
    let mut means: BTreeMap<Option<(usize, usize)>, (f64, f64, f64)> = BTreeMap::new();
    let mut before = 0.0;
    for (point, &at) in line.at.iter().enumerate() {
        let since = std::mem::replace(&mut before, at);
        let present = line.configurations.iter().rev().find(|one| one.at <= since);
        // What is between two candidates belongs to neither.
        let changes = line.configurations.iter().any(|one| one.at > since && one.at < at);
        let rate = instructions.get(point).copied().flatten();
        if let (Some(rate), Some(bytes), false) = (rate, bytes(point), changes) {
            let mean = means.entry(present.and_then(|one| one.candidate)).or_default();
            let lasted = at - since;
            *mean = (mean.0 + lasted, mean.1 + lasted * rate, mean.2 + lasted * bytes);
        }
    }
    let chosen = record
        .search
        .chosen
        .as_ref()
        .map(|one| (record.earlier_searches.len(), one.candidate));
    let points = means
        .into_iter()
        .filter(|(_, (lasted, done, bytes))| *lasted > 0.0 && *done > 0.0 && *bytes > 0.0);
    let points = points.map(|(candidate, (lasted, done, bytes))| Point {
        name: candidate.map_or_else(
            || "unpinned".to_owned(),
            |(search, candidate)| labels.number(search, candidate),
        ),
        is_kept: candidate.is_some() && candidate == chosen,
        instructions: done / lasted,
        bytes: bytes / lasted,
    });
    let points: Vec<Point> = points.collect();
    (!points.is_empty()).then_some(points)
}

/// Both axes are logarithmic, from one power of ten to another.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    fn new(points: &[Point], ceilings: &Ceilings) -> Self {
        let all = ceilings.node_bandwidth * ceilings.nodes as f64;
        let intensities = || points.iter().map(|point| point.instructions / point.bytes);
        let ridge = ceilings.instructions / all;
        let rates = points.iter().map(|point| point.instructions);
        Self {
            x: logarithms(&intensities().chain([ridge]).collect::<Vec<f64>>(), 4.0),
            y: logarithms(&rates.chain([ceilings.instructions]).collect::<Vec<f64>>(), 2.0),
        }
    }

    fn at_x(&self, value: f64) -> f64 {
        100.0 * (value.log10() - self.x.0) / (self.x.1 - self.x.0)
    }

    fn at_y(&self, value: f64) -> f64 {
        HEIGHT * (1.0 - (value.log10() - self.y.0) / (self.y.1 - self.y.0))
    }

    /// A ceiling of this bandwidth, from the left edge or the bottom to its ridge or the right edge.
    fn slope(&self, bandwidth: f64, instructions: f64) -> [f64; 4] {
        let left = 10f64.powf(self.x.0).max(10f64.powf(self.y.0) / bandwidth);
        let right = (instructions / bandwidth).min(10f64.powf(self.x.1));
        let y = |intensity: f64| self.at_y(intensity * bandwidth);
        [self.at_x(left), y(left), self.at_x(right), y(right)]
    }

    /// Whether each point has room for its name: the kept candidate first. The table has all.
    fn named(&self, points: &[Point]) -> Vec<bool> {
        let place = |point: &Point| {
            (
                self.at_x(point.instructions / point.bytes),
                self.at_y(point.instructions),
            )
        };
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.sort_by_key(|&point| !points[point].is_kept);
        let mut taken: Vec<(f64, f64)> = vec![];
        let mut named = vec![false; points.len()];
        for point in order {
            let (x, y) = place(&points[point]);
            let is_free = |&(other_x, other_y): &(f64, f64)| (y - other_y).abs() >= 13.0 || (x - other_x).abs() >= 10.0;
            named[point] = taken.iter().all(is_free);
            if named[point] {
                taken.push((x, y));
            }
        }
        named
    }

    fn markup(&self, points: &[Point], ceilings: &Ceilings) -> Markup {
        let all = ceilings.node_bandwidth * ceilings.nodes as f64;
        let mut slopes = vec![(
            all,
            if ceilings.nodes == 1 {
                "memory".to_owned()
            } else {
                format!("all {} nodes", ceilings.nodes)
            },
        )];
        if ceilings.nodes > 1 {
            slopes.push((ceilings.node_bandwidth, "1 node".to_owned()));
        }
        let flat = self.at_y(ceilings.instructions);
        let spoken = points
            .iter()
            .map(|point| format!("{} at {}", point.name, numbers::short(point.instructions)));
        let spoken: Vec<String> = spoken.collect();
        html! {
            figure.roofline {
                figcaption { "Instructions per second " span.quiet { "by instructions per byte, both logarithmic" } }
                div.track {
                    div.side aria-hidden="true" { svg height=(HEIGHT + 20.0) {
                        @for power in ticks(self.y) { text x="100%" dx="-6" y=(self.at_y(power) + 4.0) { (numbers::short(power)) } }
                    } }
                    svg height=(HEIGHT + 20.0) role="img" aria-label={ "Roofline. " (spoken.join("; ")) ". The table below has the values." } {
                        @for power in ticks(self.y) { line.grid x1="0" x2="100%" y1=(self.at_y(power)) y2=(self.at_y(power)) {} }
                        @for power in ticks(self.x) {
                            @let x = format!("{:.2}%", self.at_x(power));
                            line.grid x1=(x) x2=(x) y1="0" y2=(HEIGHT) {}
                            text.middle x=(x) y=(HEIGHT + 16.0) { (numbers::short(power)) }
                        }
                        @for (bandwidth, name) in &slopes {
                            @let [x1, y1, x2, y2] = self.slope(*bandwidth, ceilings.instructions);
                            line.ceiling x1=(format!("{x1:.2}%")) y1=(format!("{y1:.1}")) x2=(format!("{x2:.2}%")) y2=(format!("{y2:.1}")) {}
                            text.quiet x=(format!("{:.2}%", f64::midpoint(x1, x2))) dx="8" y=(format!("{:.0}", f64::midpoint(y1, y2) + 14.0)) {
                                (name) ": " (numbers::bytes_per_second(*bandwidth))
                            }
                        }
                        @let ridge = self.at_x(ceilings.instructions / all);
                        line.ceiling x1=(format!("{ridge:.2}%")) x2="100%" y1=(flat) y2=(flat) {}
                        text.late x="100%" y=(flat - 6.0) { "all cores: " (numbers::short(ceilings.instructions)) "/s" }
                        @for (point, named) in points.iter().zip(self.named(points)) {
                            @let x = format!("{:.2}%", self.at_x(point.instructions / point.bytes));
                            circle class={ "point" @if point.is_kept { " kept" } } cx=(x) cy=(format!("{:.1}", self.at_y(point.instructions))) r="4" {}
                            @if named {
                                text.point-name x=(x) dx="7" y=(format!("{:.0}", self.at_y(point.instructions) + 4.0)) { (point.name) }
                            }
                        }
                    }
                    div {}
                }
            }
        }
    }
}

/// The logarithms of the least value and the largest one, with room for this factor on both sides.
fn logarithms(values: &[f64], room: f64) -> (f64, f64) {
    let logarithms = || {
        values
            .iter()
            .map(|value| value.log10())
            .filter(|value| value.is_finite())
    };
    let least = logarithms().fold(f64::INFINITY, f64::min) - room.log10();
    let most = logarithms().fold(f64::NEG_INFINITY, f64::max) + room.log10();
    (least, most.max(least + 1.0))
}

/// The powers of ten of an axis.
fn ticks(axis: (f64, f64)) -> Vec<f64> {
    let mut ticks = vec![];
    let mut power = axis.0.ceil();
    // A damaged record may have any number.
    while power <= axis.1 && ticks.len() < 40 {
        ticks.push(10f64.powf(power));
        power += 1.0;
    }
    ticks
}
