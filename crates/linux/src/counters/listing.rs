//! The events of a PMU as a list. Each has its other names, unit masks and modifiers, and whether it can be counted on
//! this machine.

use super::{Availability, availability};
use crate::pfm::{Attribute, AttributeKind, Event, Library, Pmu, PmuKind};
use serde::Serialize;

/// A name with its explanation.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The explanation, in the words of libpfm4.
    pub description: String,
}

/// A PMU with its listed events.
#[derive(Clone, Debug, Serialize)]
pub struct PmuListing {
    /// Its name in libpfm4.
    pub name: String,
    /// Its description in libpfm4.
    pub description: String,
    /// Whether this machine has the PMU.
    pub present: bool,
    /// Whether it counts for single tasks.
    pub per_task: bool,
    /// The number of programmable counters.
    pub counters: u32,
    /// The number of counters that count only one event.
    pub fixed_counters: u32,
    /// The matching events.
    pub events: Vec<EventListing>,
}

/// An event.
#[derive(Clone, Debug, Serialize)]
pub struct EventListing {
    /// Its name in libpfm4.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// Its description in libpfm4.
    pub description: String,
    /// Whether this process can count it on this machine.
    pub can_be_counted: bool,
    /// Why it cannot be counted.
    pub why_not: Option<String>,
    /// The unit masks: `:NAME` adds one to the event's name.
    pub unit_masks: Vec<Named>,
    /// The modifiers: `:NAME` or `:NAME=N` adds one to the event's name.
    pub modifiers: Vec<Named>,
}

impl PmuListing {
    /// The events of `pmu` that have `pattern` in their names, unit masks or descriptions. Each event is tried on this
    /// process.
    pub fn of(library: &Library, pmu: &Pmu, pattern: &str) -> Self {
        let events = library.events(pmu);
        let is_alias = |event: &Event| {
            let target = event.alias_of.as_deref();
            target.is_some_and(|target| events.iter().any(|other| other.name == target))
        };
        let listed = events.iter().filter(|event| !is_alias(event)).filter_map(|event| {
            let other_names = events
                .iter()
                .filter(|other| other.alias_of.as_ref() == Some(&event.name));
            let aliases: Vec<String> = other_names.map(|other| other.name.clone()).collect();
            matches(pmu, event, &aliases, pattern).then(|| event_listing(pmu, event, aliases))
        });
        Self {
            name: pmu.name.clone(),
            description: pmu.description.clone(),
            present: pmu.present,
            per_task: pmu.kind != PmuKind::Uncore,
            counters: pmu.counters,
            fixed_counters: pmu.fixed_counters,
            events: listed.collect(),
        }
    }
}

fn matches(pmu: &Pmu, event: &Event, aliases: &[String], pattern: &str) -> bool {
    let is_unit_mask = |attribute: &&Attribute| attribute.kind == AttributeKind::UnitMask;
    contains(&format!("{}::{}", pmu.name, event.name), pattern)
        || contains(&event.description, pattern)
        || aliases.iter().any(|alias| contains(alias, pattern))
        || event
            .attributes
            .iter()
            .filter(is_unit_mask)
            .any(|mask| contains(&mask.name, pattern) || contains(&mask.description, pattern))
}

/// Whether `text` contains `pattern`, ignoring case.
pub fn contains(text: &str, pattern: &str) -> bool {
    text.to_lowercase().contains(&pattern.to_lowercase())
}

fn event_listing(pmu: &Pmu, event: &Event, aliases: Vec<String>) -> EventListing {
    let why_not = if pmu.present {
        match availability(pmu, event) {
            Availability::Available => None,
            Availability::Absent { why } | Availability::Forbidden { why } => Some(why),
        }
    } else {
        Some("this machine has another processor".to_owned())
    };
    let named = |attribute: &Attribute| Named {
        name: match attribute.kind {
            AttributeKind::UnitMask | AttributeKind::Switch => format!(":{}", attribute.name),
            AttributeKind::Number => format!(":{}=N", attribute.name),
        },
        description: attribute.description.clone(),
    };
    let (unit_masks, modifiers): (Vec<&Attribute>, Vec<&Attribute>) = event
        .attributes
        .iter()
        .partition(|attribute| attribute.kind == AttributeKind::UnitMask);
    EventListing {
        name: event.name.clone(),
        aliases,
        description: event.description.clone(),
        can_be_counted: why_not.is_none(),
        why_not,
        unit_masks: unit_masks.into_iter().map(named).collect(),
        modifiers: modifiers.into_iter().map(named).collect(),
    }
}
