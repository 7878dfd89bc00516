//! Which CPUs had threads, over time: a strip for each innermost box of the machine, in it a row for each CPU.

use crate::chart;
use crate::course::Course;
use crate::layout::Layout;
use crate::shell::folded;
use maud::{Markup, html};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// The width of a strip's own coordinates.
const WIDTH: f64 = 1000.0;

/// The strips, and the same as a table.
pub(crate) fn section(layout: &Layout, course: &Course) -> Markup {
    let leaves = layout.leaves();
    let counts = counts(course);
    let pus: usize = leaves.iter().map(|(_, block)| block.own_pus().len()).sum();
    let height = match pus {
        0..=32 => 10,
        33..=128 => 6,
        _ => 4,
    };
    html! {
        figure id="places" {
            figcaption { "Where threads ran " span.quiet { "each row a CPU, from left to right the time" } }
            @for (position, (label, block)) in leaves.iter().enumerate() {
                @let rows = block.own_pus();
                @let whole = height * rows.len();
                div.strip {
                    p id={ "strip-" (position) } { (label) span.quiet { ": CPUs " (block.pus) } }
                    svg height=(whole) role="img" aria-labelledby={ "strip-" (position) " strip-" (position) "-d" } {
                        desc id={ "strip-" (position) "-d" } { (described(&rows, &counts, course)) }
                        svg width="100%" height=(whole) viewBox={ "0 0 " (WIDTH) " " (rows.len()) } preserveAspectRatio="none" {
                            @let (one, many) = paths(&rows, &counts, course);
                            path.one d=(one) {}
                            path.many d=(many) {}
                        }
                        line.cursor hidden y1="0" y2=(whole) {}
                    }
                }
            }
            (chart::times(course.end))
            ul.key {
                li { svg.swatch { rect.one {} } "one thread" }
                li { svg.swatch { rect.many {} } "several threads at once" }
            }
        }
        (table(layout, course))
    }
}

/// By PU: the number of threads at each point.
fn counts(course: &Course) -> HashMap<u32, Vec<u32>> {
    let points = course.at.len();
    let mut counts: HashMap<u32, Vec<u32>> = HashMap::new();
    for thread in &course.threads {
        for (position, &(since, pu)) in thread.places.iter().enumerate() {
            let Some(pu) = pu else { continue };
            let until = thread
                .places
                .get(position + 1)
                .map_or(points, |&(next, _)| next.min(points));
            let row = counts.entry(pu).or_insert_with(|| vec![0; points]);
            for count in row.iter_mut().take(until).skip(since) {
                *count += 1;
            }
        }
    }
    counts
}

/// The time from a point to the next, in coordinates.
fn x(course: &Course, point: usize) -> f64 {
    let at = course.at.get(point).copied().unwrap_or(course.end);
    (WIDTH * at / course.end).clamp(0.0, WIDTH)
}

/// The rectangles of one thread and of several.
fn paths(rows: &[u32], counts: &HashMap<u32, Vec<u32>>, course: &Course) -> (String, String) {
    let (mut one, mut many) = (String::new(), String::new());
    for (row, pu) in rows.iter().enumerate() {
        let Some(counts) = counts.get(pu) else { continue };
        let mut point = 0;
        while point < counts.len() {
            let kind = counts[point].min(2);
            let until = counts[point..].iter().position(|count| (*count).min(2) != kind);
            let until = until.map_or(counts.len(), |length| point + length);
            let path = match kind {
                0 => None,
                1 => Some(&mut one),
                _ => Some(&mut many),
            };
            if let Some(path) = path {
                let (from, to) = (x(course, point), x(course, until));
                let _ = write!(path, "M{from:.0} {row}H{to:.0}v.85H{from:.0}z");
            }
            point = until;
        }
    }
    (one, many)
}

fn described(rows: &[u32], counts: &HashMap<u32, Vec<u32>>, course: &Course) -> String {
    let points = course.at.len();
    let ever: Vec<String> = rows
        .iter()
        .filter_map(|pu| {
            let used = counts.get(pu)?.iter().filter(|&&count| count > 0).count();
            (used > 0).then(|| format!("CPU {pu} in {used} of {points} readings"))
        })
        .collect();
    if ever.is_empty() {
        return "No thread of the program was seen here.".to_owned();
    }
    format!("Threads were seen on {}.", ever.join(", "))
}

/// The share of its readings that each thread spent in each box.
pub(crate) fn table(layout: &Layout, course: &Course) -> Markup {
    let leaves = layout.leaves();
    let mut box_of: HashMap<u32, usize> = HashMap::new();
    for (position, (_, block)) in leaves.iter().enumerate() {
        box_of.extend(block.own_pus().into_iter().map(|pu| (pu, position)));
    }
    let shares = |thread: &crate::course::Thread| {
        let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
        let places = (0..course.at.len()).filter_map(|point| thread.at(point));
        for place in places.filter_map(|pu| box_of.get(&pu)) {
            *seen.entry(*place).or_default() += 1;
        }
        let all: usize = seen.values().sum();
        let texts: Vec<String> = seen
            .iter()
            .map(|(&place, &seen)| format!("{:.0} % {}", 100.0 * seen as f64 / all as f64, leaves[place].0))
            .collect();
        texts.join("; ")
    };
    let rows = html! {
        thead { tr { th scope="col" { "thread" } th scope="col" { "name" } th scope="col" { "where it was seen, as a share of the readings" } } }
        tbody {
            @for thread in &course.threads {
                tr { th scope="row" { (thread.label) } td { (thread.name) } td.words { (shares(thread)) } }
            }
        }
    };
    folded("where each thread was seen", &rows)
}
