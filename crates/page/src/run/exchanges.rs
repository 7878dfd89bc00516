//! Who shares with whom: a cell for each pair of threads, the darker the more data they exchange.
//!
//! 1. Both directions of a pair are added.
//! 2. Where there are more threads than rows, neighbouring threads share a row.
//! 3. A cell's shade is its share of the largest cell, in five steps.

use super::additions::Exchanges;
use crate::course::Course;
use crate::layout::Layout;
use crate::shell::folded;
use crate::{nodes, numbers};
use maud::{Markup, html};
use pinfold_runtime::Record;
use std::fmt::Write as _;

/// The most rows.
const ROWS: usize = 48;

/// The least share of the largest cell for each shade.
const SHADES: [f64; 5] = [0.0, 0.1, 0.25, 0.5, 0.75];

/// Pairs in the table.
const LISTED: usize = 30;

/// Room for the names of rows, in pixels.
const NAMES: usize = 44;

/// The heat map, a sentence on it, and the largest pairs as a table; nothing for fewer than two threads.
pub(super) fn section(exchanges: &Exchanges, drawn: Option<(&Layout, &Course)>) -> Option<Markup> {
    let pairs = symmetric(&exchanges.pairs);
    let threads = pairs.len();
    if threads < 2 {
        return None;
    }
    let node = |thread: usize| -> Option<usize> {
        let (layout, course) = drawn?;
        layout.nodes.of(course.threads.get(thread)?.at(course.last()?)?)
    };
    let all: u64 = sum(&pairs, |_, _| true);
    let together = sum(&pairs, |one, other| node(one).is_some() && node(one) == node(other));
    let name = |thread: usize| format!("T{thread}");
    let mut largest: Vec<(u64, usize, usize)> = vec![];
    for (one, row) in pairs.iter().enumerate() {
        largest.extend(
            row.iter()
                .enumerate()
                .skip(one + 1)
                .map(|(other, &count)| (count, one, other)),
        );
    }
    largest.retain(|&(count, ..)| count > 0);
    largest.sort_unstable_by_key(|&(count, one, other)| (std::cmp::Reverse(count), one, other));
    let rows = html! {
        thead { tr { th scope="col" { "threads" } th.number scope="col" { (exchanges.unit) @if exchanges.unit.ends_with('s') { "es" } @else { "s" } } th.number scope="col" { "share" } } }
        tbody {
            @for &(count, one, other) in largest.iter().take(LISTED) {
                tr {
                    th scope="row" { (name(one)) " and " (name(other)) }
                    td.number { (numbers::short(count as f64)) }
                    td.number { (format!("{:.1} %", 100.0 * count as f64 / all as f64)) }
                }
            }
        }
    };
    Some(html! {
        p {
            (exchanges.counted) " "
            @if all == 0 { "There are none." }
            @else if drawn.is_some() {
                (format!("{:.0} %", 100.0 * together as f64 / all as f64)) " of them are between threads that were on the same node at the end."
            }
        }
        (map(&pairs, exchanges.unit, &node))
        (folded("the pairs of threads that exchange most", &rows))
    })
}

/// What a real run knows: which threads accessed the same pages, from its last sampling that saw any.
pub(super) fn sampled(record: &Record) -> Option<Exchanges> {
    let tasks = &record.timeline.as_ref()?.tasks;
    let samples = record.pages.page_samples.iter().rev();
    let sampled = samples
        .map(|one| &one.sampled)
        .find(|sampled| !sampled.shared.is_empty())?;
    let position = |thread: u32| tasks.iter().position(|task| task.id.thread.cast_unsigned() == thread);
    let mut pairs = vec![vec![0u64; tasks.len()]; tasks.len()];
    for pair in &sampled.shared {
        if let [Some(one), Some(other)] = pair.threads.map(position) {
            pairs[one][other] = pairs[one][other].saturating_add(pair.accesses);
        }
    }
    let by: Vec<String> = sampled.by.iter().map(ToString::to_string).collect();
    Some(Exchanges {
        counted: format!(
            "Accesses of two threads to the same pages, from samples by {}.",
            by.join(" and ")
        ),
        unit: "access",
        pairs,
    })
}

fn symmetric(pairs: &[Vec<u64>]) -> Vec<Vec<u64>> {
    let count = |one: usize, other: usize| pairs.get(one).and_then(|row| row.get(other)).copied().unwrap_or(0);
    let both = |one: usize, other: usize| {
        if one == other {
            0
        } else {
            count(one, other).saturating_add(count(other, one))
        }
    };
    let threads = pairs.len();
    (0..threads)
        .map(|one| (0..threads).map(|other| both(one, other)).collect())
        .collect()
}

/// The exchanges of the pairs that are wanted, each pair once.
fn sum(pairs: &[Vec<u64>], wanted: impl Fn(usize, usize) -> bool) -> u64 {
    let pairs = pairs.iter().enumerate().flat_map(|(one, row)| {
        row.iter()
            .enumerate()
            .skip(one + 1)
            .map(move |(other, &count)| (one, other, count))
    });
    let wanted = pairs.filter(|&(one, other, _)| wanted(one, other));
    wanted.map(|(.., count)| count).fold(0, u64::saturating_add)
}

fn map(pairs: &[Vec<u64>], unit: &str, node: &dyn Fn(usize) -> Option<usize>) -> Markup {
    let threads = pairs.len();
    let in_row = threads.div_ceil(ROWS);
    let rows = threads.div_ceil(in_row);
    let mut cells = vec![vec![0u64; rows]; rows];
    for (one, row) in pairs.iter().enumerate() {
        for (other, &count) in row.iter().enumerate() {
            let cell = &mut cells[one / in_row][other / in_row];
            *cell = cell.saturating_add(count);
        }
    }
    let most = cells.iter().flatten().copied().max().unwrap_or(0);
    let size = match rows {
        0..=12 => 24,
        13..=24 => 18,
        _ => 14,
    };
    let mut paths: [String; SHADES.len()] = Default::default();
    for (one, row) in cells.iter().enumerate() {
        for (other, &count) in row.iter().enumerate().filter(|(_, count)| **count > 0) {
            let share = count as f64 / most as f64;
            let shade = SHADES.iter().rposition(|&least| share >= least).unwrap_or(0);
            let _ = write!(
                paths[shade],
                "M{} {}h{size}v{size}h-{size}z",
                NAMES + other * size,
                one * size
            );
        }
    }
    let name = |row: usize| {
        let (first, last) = (row * in_row, ((row + 1) * in_row).min(threads) - 1);
        if first == last {
            format!("T{first}")
        } else {
            format!("T{first}–{last}")
        }
    };
    let side = rows * size;
    // Numbers below columns have room in every second or fourth one.
    let step = 36usize.div_ceil(size);
    html! {
        div.table role="region" aria-label="exchanges between threads" tabindex="0" {
            svg.heat width=(NAMES + side + 1) height=(side + 18) role="img"
                aria-label={ "Exchanges between " (threads) " threads. The table below has the largest." } {
                rect.frame x=(NAMES) y="0" width=(side) height=(side) {}
                @for (shade, path) in paths.iter().enumerate() {
                    path.heat-cell fill-opacity=(format!("{:.2}", 0.15 + 0.85 * shade as f64 / (SHADES.len() - 1) as f64)) d=(path) {}
                }
                @for row in 0..rows {
                    text class={ "row name " (nodes::class(node(row * in_row))) } x=(NAMES - 4) y=(row * size + size / 2 + 4) { (name(row)) }
                    @if row % step == 0 {
                        text class={ "name " (nodes::class(node(row * in_row))) } x=(NAMES + row * size) y=(side + 14) { (name(row)) }
                    }
                }
            }
        }
        p.hint { "The darkest cell is " (numbers::short(most as f64)) " " (unit) (if unit.ends_with('s') { "es" } else { "s" }) "; a name has the colour of the node that the thread was on at the end." }
    }
}
