//! `pinfold events`: what can be counted.
//!
//! pinfold's own metrics come first, then the PMUs of this machine and their events, each tried on ourselves so that
//! the list says what can really be counted. Other names of an event are folded into it, and its unit masks into one
//! line, unless so few events are left that there is room to explain each. Between the two are the metrics that event
//! sets make of a processor's events (`sets`).

mod sets;

use crate::console;
use anyhow::Result;
use clap::Args;
use pinfold_core::sources::SOURCES;
use pinfold_linux::counters;
use pinfold_linux::counters::listing::{EventListing, Named, PmuListing, contains};
use pinfold_linux::pfm;
use serde::Serialize;
use sets::SetListing;
use std::fmt::Write as _;
use std::process::ExitCode;

/// List what can be counted: pinfold's own metrics, and the events of this machine.
#[derive(Args, Default)]
pub(crate) struct Arguments {
    /// Only what has this text in its name, its unit masks or its description; upper and lower case are alike.
    pattern: Option<String>,

    /// Also list the events of other processors.
    #[arg(long)]
    all: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The exit status when nothing matches the pattern, as grep has it.
const NOTHING_FOUND: u8 = 1;

/// Unit masks are explained one by one when no more events than this are listed.
const EXPLAINED_EVENTS: usize = 3;

/// The width of a line of the list, in columns.
const LINE_WIDTH: usize = 100;

/// What is listed; also the form of the JSON.
#[derive(Serialize)]
struct Listing {
    metrics: Vec<Named>,
    sets: Vec<SetListing>,
    pmus: Vec<PmuListing>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let library = pfm::library()?;
    let pattern = arguments.pattern.as_deref().unwrap_or("");
    let present = |name: &str| library.pmus().iter().any(|pmu| pmu.present && pmu.name == name);
    let listing = Listing {
        metrics: own_metrics(pattern),
        sets: sets::list(|pmu| arguments.all || present(pmu), present, pattern),
        pmus: library
            .pmus()
            .iter()
            .filter(|pmu| pmu.present || arguments.all)
            .map(|pmu| PmuListing::of(library, pmu, pattern))
            .filter(|pmu| !pmu.events.is_empty())
            .collect(),
    };
    let text = if arguments.json {
        serde_json::to_string_pretty(&listing)? + "\n"
    } else {
        display(&listing)
    };
    console::print(&text)?;
    if listing.metrics.is_empty() && listing.sets.is_empty() && listing.pmus.is_empty() {
        let nearest = counters::nearest_events(pattern)?;
        let suggestion = match nearest.as_slice() {
            [] => String::new(),
            names => format!("; the nearest names: {}", names.join(", ")),
        };
        let elsewhere = if arguments.all {
            ""
        } else {
            "; --all also looks at other processors"
        };
        console::say(format_args!(
            "nothing that can be counted matches `{pattern}`{suggestion}{elsewhere}"
        ));
        return Ok(ExitCode::from(NOTHING_FOUND));
    }
    Ok(ExitCode::SUCCESS)
}

/// The metrics that need no performance counter.
fn own_metrics(pattern: &str) -> Vec<Named> {
    SOURCES
        .iter()
        .filter_map(|source| source.listed)
        .filter(|listed| contains(listed.name, pattern) || contains(listed.about, pattern))
        .map(|listed| Named {
            name: listed.name.to_owned(),
            description: listed.about.to_owned(),
        })
        .collect()
}

/// The list for a person.
fn display(listing: &Listing) -> String {
    let mut text = String::new();
    if !listing.metrics.is_empty() {
        text.push_str("Metrics that --metric takes:\n");
        for metric in &listing.metrics {
            let _ = writeln!(text, "  {:<14} {}", metric.name, metric.description);
        }
    }
    for set in &listing.sets {
        if !text.is_empty() {
            text.push('\n');
        }
        set.display(&mut text);
    }
    let events: usize = listing.pmus.iter().map(|pmu| pmu.events.len()).sum();
    for pmu in &listing.pmus {
        if !text.is_empty() {
            text.push('\n');
        }
        display_pmu(&mut text, pmu, events <= EXPLAINED_EVENTS);
    }
    text
}

fn display_pmu(text: &mut String, pmu: &PmuListing, explained: bool) {
    let _ = write!(text, "{}: {}", pmu.name, pmu.description);
    if pmu.counters + pmu.fixed_counters > 0 {
        let _ = write!(
            text,
            ", {} programmable and {} fixed counters",
            pmu.counters, pmu.fixed_counters
        );
    }
    let countable = pmu.events.iter().filter(|event| event.can_be_counted).count();
    let _ = writeln!(
        text,
        "; {countable} of {} events can be counted here (+)",
        pmu.events.len()
    );
    if let Some(why_not) = pmu.events.iter().find_map(|event| event.why_not.as_deref()) {
        wrap(text, "  ", &format!("not the others (-): {why_not}"));
    }
    // Nearly all events of a PMU have the same modifiers: they are listed once, and then only the different ones.
    let usual = pmu
        .events
        .first()
        .map(|event| names(&event.modifiers))
        .unwrap_or_default();
    if !explained && !usual.is_empty() {
        let words = format!("modifiers, where an event has no others: {usual}");
        wrap(text, "  ", &words);
    }
    for event in &pmu.events {
        display_event(text, event, (!explained).then_some(usual.as_str()));
    }
}

/// The names of unit masks or modifiers, on one line.
fn names(attributes: &[Named]) -> String {
    let names: Vec<&str> = attributes.iter().map(|attribute| attribute.name.as_str()).collect();
    names.join(" ")
}

/// An event with its unit masks and modifiers: each with its explanation, or where the `usual` modifiers are given
/// their names only, without these modifiers.
fn display_event(text: &mut String, event: &EventListing, usual: Option<&str>) {
    let mark = if event.can_be_counted { '+' } else { '-' };
    let _ = write!(text, "  {mark} {}", event.name);
    for alias in &event.aliases {
        let _ = write!(text, ", {alias}");
    }
    text.push('\n');
    if event.description != event.name {
        wrap(text, "      ", &event.description);
    }
    for (title, attributes) in [("unit masks", &event.unit_masks), ("modifiers", &event.modifiers)] {
        if attributes.is_empty() {
            continue;
        }
        let folded = names(attributes);
        match usual {
            Some(usual) if folded == usual => {}
            Some(_) => wrap(text, "      ", &format!("{title}: {folded}")),
            None => {
                let _ = writeln!(text, "      {title}:");
                for attribute in attributes {
                    let words = format!("{}  {}", attribute.name, attribute.description);
                    wrap(text, "        ", &words);
                }
            }
        }
    }
}

/// Adds `words` to `text` in lines that begin with `indent`, the second and later ones with two spaces more.
fn wrap(text: &mut String, indent: &str, words: &str) {
    let mut line = indent.to_owned();
    let mut begun = false;
    for word in words.split_whitespace() {
        if begun && line.len() + 1 + word.len() > LINE_WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = format!("{indent}  ");
            begun = false;
        }
        if begun {
            line.push(' ');
        }
        line.push_str(word);
        begun = true;
    }
    text.push_str(&line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_between_words() {
        let mut text = String::new();
        wrap(&mut text, "  ", &"word ".repeat(40));
        assert!(text.lines().all(|line| line.len() <= LINE_WIDTH));
        assert_eq!(text.split_whitespace().count(), 40);
        assert!(text.lines().nth(1).unwrap().starts_with("    word"));
    }
}
