//! The course of a run as tracks over one time axis: the rate with the decisions, the candidates that were tried, each
//! thread by the node that it ran on, the pages and the traffic of each node.
//!
//! Every track has its name on the left and what it ends with on the right, so that no key is needed. Only curves are
//! stretched to the width of the page; texts keep their size.

mod bands;
mod candidates;
mod marks;
mod threads;

use crate::chart::{self, Part};
use crate::course::Course;
use crate::decisions::Decision;
use crate::layout::Layout;
use crate::numbers;
use crate::run::Labels;
use bands::Band;
use maud::{Markup, html};
use pinfold_runtime::{Record, Timeline};

/// The height of the rate's track, in pixels.
const RATE: u32 = 128;

/// A letter of the labels is about this wide, in pixels.
const LETTER: f64 = 7.5;

/// What a track's drawing is wide on a screen of 1280 pixels, and on a phone.
const WIDE: f64 = 900.0;
const NARROW: f64 = 220.0;

/// The rate that is drawn above everything.
pub(crate) struct Rate {
    pub(crate) title: String,
    pub(crate) unit: String,
    pub(crate) parts: Vec<Part>,
}

/// What the tracks are made of.
pub(crate) struct Tracks<'a> {
    pub(crate) record: &'a Record,
    /// `None` without a rate.
    pub(crate) rate: Option<Rate>,
    pub(crate) decisions: &'a [Decision],
    pub(crate) labels: &'a Labels,
    /// The end of the time axis.
    pub(crate) end: f64,
    /// Begins the anchors of the tracks, so that a page can have the tracks of two runs.
    pub(crate) prefix: &'static str,
}

/// One track.
struct Track {
    /// Its anchor, unique on the page.
    id: &'static str,
    title: String,
    /// The unit, or what the drawing means.
    note: String,
    description: String,
    height: u32,
    left: Markup,
    right: Markup,
    drawing: Markup,
    /// Whether it is the topmost one, which has the labels of the marks.
    has_labels: bool,
}

impl Tracks<'_> {
    /// All tracks. Without the machine there is the rate alone.
    pub(crate) fn markup(&self, machine: Option<(&Layout, &Course)>) -> Markup {
        let mut tracks: Vec<Track> = self.rate_track().into_iter().collect();
        let line = self.record.timeline.as_ref();
        tracks.extend(line.and_then(|line| candidates::track(self, line)));
        let mut folded = None;
        if let Some((layout, course)) = machine {
            let threads = threads::track(layout, course, self.end);
            if course.threads.len() > threads::SHOWN {
                tracks.extend(threads::by_node(layout, course, self.end));
                folded = threads;
            } else {
                tracks.extend(threads);
            }
            tracks.extend(pages(layout, course, self.end));
            tracks.extend(line.and_then(|line| traffic(layout, line, self.end)));
        }
        let first = tracks.first_mut();
        if let Some(first) = first {
            first.has_labels = true;
        }
        html! {
            div.tracks {
                @for track in &tracks { (self.one(track)) }
                (self.times())
            }
            @if let (Some(track), Some((_, course))) = (&folded, machine) {
                details {
                    summary { "Each of the " (course.threads.len()) " threads" }
                    div.tracks { (self.one(track)) (self.times()) }
                }
            }
        }
    }

    fn times(&self) -> Markup {
        html! { div.track { div {} (chart::times(self.end)) div {} } }
    }

    fn one(&self, track: &Track) -> Markup {
        let above = if track.has_labels { marks::ABOVE } else { 2 };
        let whole = track.height + above;
        html! {
            @let id = format!("{}{}", self.prefix, track.id);
            figure id=(id) {
                figcaption { (track.title) " " span.quiet { (track.note) } }
                div.track {
                    div.side aria-hidden="true" { svg height=(whole) { svg y=(above) overflow="visible" { (track.left) } } }
                    svg height=(whole) role="img" aria-labelledby={ (id) "-t " (id) "-d" } {
                        title id={ (id) "-t" } { (track.title) ", " (track.note) }
                        desc id={ (id) "-d" } { (track.description) }
                        svg y=(above) width="100%" height=(track.height) overflow="visible" { (track.drawing) }
                        (marks::markup(self.decisions, self.end, whole, track.has_labels))
                        line.cursor hidden y1=(above) y2=(whole) {}
                    }
                    div."side end" aria-hidden="true" { svg height=(whole) { svg y=(above) overflow="visible" { (track.right) } } }
                }
            }
        }
    }

    fn rate_track(&self) -> Option<Track> {
        let rate = self.rate.as_ref()?;
        let known: Vec<f64> = rate.parts.iter().filter_map(|part| part.2).collect();
        let top = numbers::round_up(known.iter().copied().fold(0.0, f64::max));
        let (curve, area) = chart::paths(&rate.parts, self.end, top);
        let levels = [1.0, 0.5, 0.0].map(|share| (f64::from(RATE) * (1.0 - share), share * top));
        let last = rate.parts.iter().rev().find_map(|part| part.2);
        let y = |value: f64| f64::from(RATE) * (1.0 - (value / top).clamp(0.0, 1.0));
        Some(Track {
            id: "rate",
            title: rate.title.clone(),
            note: rate.unit.clone(),
            description: format!(
                "{}. Marked: {}. The table below has the values.",
                numbers::range(&known),
                numbers::counted(
                    self.decisions.iter().filter(|one| one.mark.is_some()).count(),
                    "decision"
                )
            ),
            height: RATE,
            left: html! {
                @for (y, value) in levels { text x="100%" dx="-6" y=(y + 4.0) { (numbers::short(value)) } }
            },
            right: html! {
                @if let Some(last) = last { text x="6" y=(format!("{:.0}", y(last) + 4.0)) { (numbers::short(last)) } }
            },
            drawing: html! {
                @for (y, _) in levels { line.grid x1="0" x2="100%" y1=(y) y2=(y) {} }
                svg width="100%" height=(RATE) viewBox={ "0 0 " (chart::WIDTH) " 100" } preserveAspectRatio="none" {
                    path.area d=(area) {}
                    path.curve d=(curve) {}
                }
            },
            has_labels: false,
        })
    }
}

/// The memory on each node.
fn pages(layout: &Layout, course: &Course, end: f64) -> Option<Track> {
    let bands = course.memory.iter().map(|node| {
        let values: Vec<Option<f64>> = node.bytes.iter().map(|bytes| bytes.map(|bytes| bytes as f64)).collect();
        Band {
            class: crate::nodes::class(layout.nodes.position(node.node)),
            name: format!("node {}", node.node),
            parts: chart::until_next(&course.at, course.end, &values),
        }
    });
    let bands: Vec<Band> = bands.collect();
    bands::track("pages", "Pages by node", "one colour for each node", &bands, end, bytes)
}

/// The traffic of each node's memory; nothing if it is not known.
fn traffic(layout: &Layout, line: &Timeline, end: f64) -> Option<Track> {
    let bands = line.traffic.iter().map(|series| Band {
        class: crate::nodes::class(layout.nodes.position(series.node.0)),
        name: format!("node {}", series.node),
        parts: chart::since_before(&line.at, &series.rates),
    });
    let bands: Vec<Band> = bands.collect();
    bands::track(
        "traffic",
        "Memory bandwidth by node",
        "bytes read and written in a second",
        &bands,
        end,
        numbers::bytes_per_second,
    )
}

/// Bytes, as text.
pub(crate) fn bytes(value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bytes are not negative"
    )]
    numbers::bytes(value.round() as u64)
}

/// The class of a label in a part of the width: shown everywhere, on wide screens only, or `None` if it never fits.
fn room(share: f64, letters: usize) -> Option<&'static str> {
    let width = LETTER * letters as f64 + 4.0;
    if share * NARROW >= width {
        Some("")
    } else {
        (share * WIDE >= width).then_some("wide")
    }
}
