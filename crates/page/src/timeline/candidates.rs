//! Which candidate the program ran in, over time.

use super::{Track, Tracks, room};
use crate::chart::WIDTH;
use maud::html;
use pinfold_runtime::{TimedConfiguration, Timeline};

const HEIGHT: u32 = 18;

/// The track; nothing where nothing was applied.
pub(super) fn track(tracks: &Tracks<'_>, line: &Timeline) -> Option<Track> {
    let chosen = tracks.record.search.chosen.as_ref();
    let last_search = tracks.record.earlier_searches.len();
    // A candidate is often applied before it is chosen.
    let is_kept = |one: &TimedConfiguration, until: f64| {
        chosen.is_some_and(|chosen| one.candidate == Some((last_search, chosen.candidate)) && until > chosen.at)
    };
    let text = |one: &TimedConfiguration| match one.candidate {
        Some((search, candidate)) => tracks.labels.number(search, candidate),
        None if one.regions > 0 => "regions".to_owned(),
        None if one.pus.is_none() && one.within.is_none() => "unpinned".to_owned(),
        None => "pinned".to_owned(),
    };
    // The same candidate twice in a row is one part.
    let mut parts: Vec<(f64, f64, String, bool)> = vec![];
    let ended = tracks
        .record
        .program
        .ran
        .or(line.at.last().copied())
        .unwrap_or(tracks.end);
    let nexts = line.configurations.iter().skip(1).map(|next| next.at).chain([ended]);
    for (one, next) in line.configurations.iter().zip(nexts) {
        let (name, kept) = (text(one), is_kept(one, next));
        match parts.last_mut() {
            Some(last) if last.2 == name && last.3 == kept => last.1 = next,
            _ => parts.push((one.at, next, name, kept)),
        }
    }
    if parts.is_empty() {
        return None;
    }
    let share = |at: f64| (at / tracks.end).clamp(0.0, 1.0);
    let spoken: Vec<String> = parts
        .iter()
        .map(|(from, _, name, kept)| {
            let kept = if *kept { ", kept" } else { "" };
            format!("{name} from {}{kept}", crate::numbers::seconds(*from))
        })
        .collect();
    Some(Track {
        id: "tried",
        title: "Candidates".to_owned(),
        note: "what the program ran in, by the numbers of the candidates".to_owned(),
        description: format!("{}.", spoken.join("; ")),
        height: HEIGHT,
        left: html! {},
        right: html! {
            @if let Some((_, _, name, kept)) = parts.last() {
                text x="6" y="13" { (name) @if *kept { " kept" } }
            }
        },
        drawing: html! {
            svg width="100%" height=(HEIGHT) viewBox={ "0 0 " (WIDTH) " 1" } preserveAspectRatio="none" {
                @for (from, until, _, kept) in &parts {
                    rect class={ "try" @if *kept { " kept" } } x=(format!("{:.1}", WIDTH * share(*from)))
                        width=(format!("{:.1}", WIDTH * (share(*until) - share(*from)).max(0.001))) height="1" {}
                }
            }
            @for (from, until, name, _) in &parts {
                @if let Some(class) = room(share(*until) - share(*from), name.chars().count()) {
                    text class={ "middle " (class) } x=(format!("{:.2}%", 50.0 * (share(*from) + share(*until)))) y="13" { (name) }
                }
            }
        },
        has_labels: false,
    })
}
