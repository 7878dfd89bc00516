//! Where each thread ran, over time: a row for each thread, in the colours of the nodes, with the CPUs where there is
//! room for their numbers.

use super::bands::{self, Band};
use super::{Track, room};
use crate::chart::{self, WIDTH};
use crate::course::{Course, Thread};
use crate::layout::Layout;
use crate::nodes;
use maud::{Markup, html};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The height of a row.
const ROW: usize = 16;

/// A page that shows more rows than this cannot show anything beside them.
pub(super) const SHOWN: usize = 32;

/// More numbers of CPUs than this are too many to be read.
const NUMBERS: usize = 400;

/// The rows; nothing without threads.
pub(super) fn track(layout: &Layout, course: &Course, end: f64) -> Option<Track> {
    if course.threads.is_empty() {
        return None;
    }
    let rows = course.threads.len();
    let height = ROW * rows;
    let mut paths: BTreeMap<&str, String> = BTreeMap::new();
    let mut numbers: Vec<(usize, f64, u32, &str)> = vec![];
    for (row, thread) in course.threads.iter().enumerate() {
        for (from, until, pu) in parts(thread, course) {
            let (left, right) = (WIDTH * share(course, from, end), WIDTH * share(course, until, end));
            let path = paths.entry(nodes::class(layout.nodes.of(pu))).or_default();
            let _ = write!(path, "M{left:.0} {row}.06H{right:.0}v.88H{left:.0}z");
            let letters = pu.checked_ilog10().unwrap_or(0) as usize + 1;
            if let Some(class) = room((right - left) / WIDTH, letters).filter(|_| numbers.len() < NUMBERS) {
                numbers.push((row, f64::midpoint(left, right) / WIDTH, pu, class));
            }
        }
    }
    let spoken = course.threads.iter().map(|thread| spoken(layout, course, thread));
    let spoken: Vec<String> = spoken.take(SHOWN).collect();
    Some(Track {
        id: "threads",
        title: "Threads".to_owned(),
        note: "coloured by the node that each ran on, with the number of the CPU".to_owned(),
        description: format!("{}. The table below has all threads.", spoken.join("; ")),
        height: u32::try_from(height).unwrap_or(u32::MAX),
        left: html! {
            @for (row, thread) in course.threads.iter().enumerate() {
                text.thread-name x="100%" dx="-6" y=(ROW * row + 12) {
                    (thread.label) @if !thread.name.is_empty() { tspan.wide { " " (shortened(&thread.name)) } }
                }
            }
        },
        right: last(layout, course),
        drawing: html! {
            svg width="100%" height=(height) viewBox={ "0 0 " (WIDTH) " " (rows) } preserveAspectRatio="none" {
                @for (class, path) in &paths { path class={ "on " (class) } d=(path) {} }
            }
            @for (row, middle, pu, class) in numbers {
                text class={ "middle " (class) } x=(format!("{:.2}%", 100.0 * middle)) y=(ROW * row + 12) { (pu) }
            }
        },
        has_labels: false,
    })
}

/// The number of threads on each node.
pub(super) fn by_node(layout: &Layout, course: &Course, end: f64) -> Option<Track> {
    let nodes = layout.nodes.ids().iter().enumerate().map(|(position, node)| {
        let on = |point: usize| {
            let places = course.threads.iter().filter_map(|thread| thread.at(point));
            Some(places.filter(|&pu| layout.nodes.of(pu) == Some(position)).count() as f64)
        };
        let values: Vec<Option<f64>> = (0..course.at.len()).map(on).collect();
        Band {
            class: nodes::class(Some(position)),
            name: format!("node {node}"),
            parts: chart::until_next(&course.at, course.end, &values),
        }
    });
    let nodes: Vec<Band> = nodes.collect();
    let text = |value: f64| format!("{value:.0}");
    bands::track(
        "threads-by-node",
        "Threads by node",
        "threads that ran on each",
        &nodes,
        end,
        text,
    )
}

/// The parts of a thread's life on one CPU: their points, and the CPU.
fn parts(thread: &Thread, course: &Course) -> Vec<(usize, usize, u32)> {
    let points = course.at.len();
    let ends = thread
        .places
        .iter()
        .skip(1)
        .map(|&(next, _)| next.min(points))
        .chain([points]);
    let parts = thread
        .places
        .iter()
        .zip(ends)
        .filter_map(|(&(from, pu), until)| Some((from, until, pu?)));
    parts.filter(|(from, until, _)| from < until).collect()
}

/// The time of a point, as a share of an axis that ends at `end`.
fn share(course: &Course, point: usize, end: f64) -> f64 {
    let at = course.at.get(point).copied().unwrap_or(course.end);
    (at / end).clamp(0.0, 1.0)
}

/// The node of each thread at the end.
fn last(layout: &Layout, course: &Course) -> Markup {
    let Some(point) = course.last() else {
        return html! {};
    };
    html! {
        @for (row, thread) in course.threads.iter().enumerate() {
            @if let Some(pu) = thread.at(point) {
                @let position = layout.nodes.of(pu);
                text class={ "name " (nodes::class(position)) } x="6" y=(ROW * row + 12) {
                    @match position.and_then(|position| layout.nodes.ids().get(position)) {
                        Some(node) => { "node " (node) }
                        None => { "CPU " (pu) }
                    }
                }
            }
        }
    }
}

fn spoken(layout: &Layout, course: &Course, thread: &Thread) -> String {
    let mut on: BTreeMap<usize, f64> = BTreeMap::new();
    for (from, until, pu) in parts(thread, course) {
        if let Some(node) = layout.nodes.of(pu) {
            *on.entry(node).or_default() += share(course, until, course.end) - share(course, from, course.end);
        }
    }
    let all: f64 = on.values().sum();
    let places = on
        .iter()
        .filter(|(_, time)| **time > 0.0)
        .map(|(&node, time)| format!("{:.0} % on node {}", 100.0 * time / all, layout.nodes.ids()[node]));
    let places: Vec<String> = places.collect();
    format!(
        "{}: {}",
        thread.label,
        if places.is_empty() {
            "not seen".to_owned()
        } else {
            places.join(", ")
        }
    )
}

/// A thread's name as the column has room for it.
fn shortened(name: &str) -> String {
    const ROOM: usize = 9;
    if name.chars().count() <= ROOM {
        return name.to_owned();
    }
    name.chars().take(ROOM - 1).chain(['…']).collect()
}
