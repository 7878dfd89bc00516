//! The decisions as vertical lines through all tracks, with short labels above the topmost track.

use super::{LETTER, NARROW, WIDE};
use crate::decisions::Decision;
use maud::{Markup, html};

/// Room for the labels.
pub(super) const ABOVE: u32 = 18;

/// The lines of a track of this height, and the labels of those that have room.
pub(super) fn markup(decisions: &[Decision], end: f64, bottom: u32, has_labels: bool) -> Markup {
    let shares = decisions
        .iter()
        .filter_map(|one| Some((one.mark.as_deref()?, (one.at / end).clamp(0.0, 1.0))));
    let mut free = [f64::NEG_INFINITY; 2];
    let mut marks: Vec<(f64, &str, Option<&str>)> = vec![];
    for (label, share) in shares {
        let width = |screen: f64| (LETTER * label.chars().count() as f64 + 8.0) / screen;
        // Near the right end a label is to the left of its line.
        let from = |screen: f64| if is_late(share) { share - width(screen) } else { share };
        let [narrow, wide] = [NARROW, WIDE].map(|screen| (from(screen), from(screen) + width(screen)));
        let fits = [narrow.0 >= free[0] && narrow.0 >= 0.0, wide.0 >= free[1]];
        for (free, (fits, (_, until))) in free.iter_mut().zip(fits.into_iter().zip([narrow, wide])) {
            if fits {
                *free = until;
            }
        }
        let class = match fits {
            [true, true] => Some(""),
            [false, true] => Some(" wide"),
            _ => None,
        };
        marks.push((100.0 * share, label, class));
    }
    let top = if has_labels { ABOVE - 4 } else { 0 };
    html! {
        @for (x, label, class) in marks {
            @let x_text = format!("{x:.2}%");
            line.mark x1=(x_text) x2=(x_text) y1=(top) y2=(bottom) {}
            @if let Some(class) = class.filter(|_| has_labels) {
                text class={ "mark-label" @if is_late(x / 100.0) { " late" } (class) } x=(x_text) y="10" { (label) }
            }
        }
    }
}

/// Whether a label is to the left of its line.
fn is_late(share: f64) -> bool {
    share > 0.8
}
