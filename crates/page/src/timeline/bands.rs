//! Values of several nodes over time, on top of each other: the sum is the upper edge.

use super::Track;
use crate::chart::{Part, WIDTH};
use crate::numbers;
use maud::{Markup, html};
use std::fmt::Write as _;

/// The least height of a track, and the height of a label in it.
const HEIGHT: u32 = 72;
const LINE: f64 = 14.0;

/// One node.
pub(super) struct Band {
    /// Its colour.
    pub(super) class: &'static str,
    pub(super) name: String,
    /// The parts of all bands have the same times.
    pub(super) parts: Vec<Part>,
}

/// The track; nothing without a value.
pub(super) fn track(
    id: &'static str,
    title: &str,
    note: &str,
    bands: &[Band],
    end: f64,
    text: fn(f64) -> String,
) -> Option<Track> {
    let used = |band: &&Band| band.parts.iter().any(|part| part.2.is_some_and(|value| value > 0.0));
    let bands: Vec<&Band> = bands.iter().filter(used).collect();
    let parts = bands.iter().map(|band| band.parts.len()).max()?;
    let value = |band: &Band, part: usize| {
        band.parts
            .get(part)
            .and_then(|part| part.2)
            .filter(|value| value.is_finite())
    };
    let sums: Vec<f64> = (0..parts)
        .map(|part| bands.iter().filter_map(|band| value(band, part)).sum())
        .collect();
    let largest = sums.iter().copied().fold(0.0, f64::max);
    if largest <= 0.0 {
        return None;
    }
    let labels = u32::try_from(bands.len()).unwrap_or(0).saturating_mul(14) + 4;
    let height = HEIGHT.max(labels);
    let mut below = vec![0.0; parts];
    let mut paths: Vec<String> = vec![];
    for band in &bands {
        let mut path = String::new();
        for (part, below) in below.iter_mut().enumerate() {
            let (Some(&(from, until, _)), Some(value)) = (band.parts.get(part), value(band, part)) else {
                continue;
            };
            let x = |at: f64| (WIDTH * at / end).clamp(0.0, WIDTH);
            let y = |value: f64| 100.0 * (1.0 - value / largest);
            if value > 0.0 {
                let _ = write!(
                    path,
                    "M{:.0} {:.1}V{:.1}H{:.0}V{:.1}Z",
                    x(from),
                    y(*below),
                    y(*below + value),
                    x(until),
                    y(*below)
                );
            }
            *below += value;
        }
        paths.push(path);
    }
    // The last time when anything was there.
    let last = sums.iter().rposition(|&sum| sum > 0.0).unwrap_or(0);
    let ends: Vec<f64> = bands.iter().map(|band| value(band, last).unwrap_or(0.0)).collect();
    let spoken = bands
        .iter()
        .zip(&ends)
        .map(|(band, &end)| format!("{} {}", band.name, text(end)));
    let spoken: Vec<String> = spoken.collect();
    Some(Track {
        id,
        title: title.to_owned(),
        note: format!("{note}; at the end, and the most at once: {}", text(largest)),
        description: format!("At the end {}. The table below has the values.", spoken.join(", ")),
        height,
        left: html! { text x="100%" dx="-6" y="10" { (text(largest)) } text x="100%" dx="-6" y=(height) { "0" } },
        right: names(&bands, &ends, largest, height, text),
        drawing: html! {
            line.grid x1="0" x2="100%" y1=(height) y2=(height) {}
            svg width="100%" height=(height) viewBox={ "0 0 " (WIDTH) " 100" } preserveAspectRatio="none" {
                @for (band, path) in bands.iter().zip(&paths) { path class={ "band " (band.class) } d=(path) {} }
            }
        },
        has_labels: false,
    })
}

/// The names beside the ends of the bands, none above another. The height has room for all.
fn names(bands: &[&Band], ends: &[f64], largest: f64, height: u32, text: fn(f64) -> String) -> Markup {
    let mut below = 0.0;
    let height = f64::from(height);
    let mut places: Vec<f64> = vec![];
    for &end in ends {
        places.push(height * (1.0 - (below + end / 2.0) / largest) + 4.0);
        below += end;
    }
    // Bands are drawn from the bottom up. Each label is at least a line above the one before.
    let mut limit = height;
    for place in &mut places {
        *place = place.min(limit);
        limit = *place - LINE;
    }
    let missing = (LINE - 4.0 - places.last().copied().unwrap_or(height)).max(0.0);
    let mut floor = f64::NEG_INFINITY;
    for place in places.iter_mut().rev() {
        // The topmost ones go down where there is no room above.
        *place = place.max(if missing > 0.0 {
            (floor + LINE).max(LINE - 4.0)
        } else {
            f64::NEG_INFINITY
        });
        floor = *place;
    }
    html! {
        @for ((band, &end), place) in bands.iter().zip(ends).zip(&places) {
            text class={ "name " (band.class) } x="6" y=(format!("{place:.0}")) {
                (band.name) tspan.wide { " " (numbers::unbroken(&text(end))) }
            }
        }
    }
}
