//! Event sets: under which names a processor's counters are known, and which of a simulated machine's counters stand for
//! them. One file a microarchitecture in events/, with the events' names in libpfm4, what each is made of, and what it
//! tells; `generic.toml` has the events that the kernel names alike on every processor. What is counted of the whole
//! machine and not of a thread, its energy, has the names of Linux's PMU `power`, as `perf` takes them.

use crate::timeline::{Counter, Energy};
use serde::Deserialize;

const GENERIC: &str = include_str!("../../../events/generic.toml");

const SETS: [&str; 10] = [
    include_str!("../../../events/amd-family-10h.toml"),
    include_str!("../../../events/amd-zen3.toml"),
    include_str!("../../../events/amd-zen4.toml"),
    include_str!("../../../events/broadwell-ep.toml"),
    include_str!("../../../events/core2.toml"),
    include_str!("../../../events/haswell-ep.toml"),
    include_str!("../../../events/ivybridge-ep.toml"),
    include_str!("../../../events/sandybridge-ep.toml"),
    include_str!("../../../events/sapphire-rapids.toml"),
    include_str!("../../../events/skylake-sp.toml"),
];

/// The events of a processor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSet {
    /// The microarchitecture.
    pub name: String,
    /// libpfm4's name of its PMU; `None` for the kernel's generic events.
    pub pmu: Option<String>,
    /// The machine models that have it.
    #[serde(default)]
    pub machines: Vec<String>,
    /// The energy that the processor meters (RAPL) and Linux shows as the PMU `power`.
    #[serde(default)]
    pub energy: Vec<Energy>,
    /// The events.
    #[serde(rename = "event")]
    pub events: Vec<EventDefinition>,
}

/// One event.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventDefinition {
    /// Its name in libpfm4, as `--event` takes it.
    pub name: String,
    /// What one count is, in the singular.
    pub unit: String,
    /// A simulated machine shows the sum of these.
    pub counters: Vec<Counter>,
    /// What it tells, and where simulated and real counts differ.
    pub explanation: String,
}

impl EventSet {
    /// All sets, the generic one first.
    pub fn all() -> Vec<Self> {
        std::iter::once(GENERIC)
            .chain(SETS)
            .map(|text| toml::from_str(text).expect("the event sets are tested"))
            .collect()
    }

    /// The events that the machine of this name shows: the generic ones, and those of its processor where a set is known.
    pub fn of_machine(machine: &str) -> Vec<EventDefinition> {
        Self::all()
            .into_iter()
            .filter(|set| set.pmu.is_none() || set.machines.iter().any(|name| name == machine))
            .flat_map(|set| set.events)
            .collect()
    }

    /// The energy that the machine of this name meters; none where no set is known.
    pub fn energy_of_machine(machine: &str) -> Vec<Energy> {
        Self::all()
            .into_iter()
            .filter(|set| set.machines.iter().any(|name| name == machine))
            .flat_map(|set| set.energy)
            .collect()
    }
}

/// What one count of an energy event is. The kernel counts in it, whatever unit the processor has, and gives `perf` the
/// scale of 2.3283064365386962890625e-10 to multiply with.
pub const ENERGY_UNIT: &str = "2^-32 joule";

/// Counts of an energy event in a joule.
pub const COUNTS_OF_A_JOULE: f64 = 4_294_967_296.0;

impl Energy {
    /// The event's name as `perf` and `--event` take it. Linux has one for each package; this is their sum.
    pub fn event_name(self) -> &'static str {
        match self {
            Self::Package => "power/energy-pkg/",
            Self::Memory => "power/energy-ram/",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::builtin_names;

    #[test]
    fn every_built_in_model_has_events_of_its_processor() {
        let generic = EventSet::of_machine("no such machine").len();
        for name in builtin_names() {
            assert!(EventSet::of_machine(name).len() > generic, "{name}");
        }
    }

    #[test]
    fn every_event_is_made_of_something_and_its_name_is_there_once() {
        for name in builtin_names() {
            let events = EventSet::of_machine(name);
            for event in &events {
                assert!(!event.counters.is_empty(), "{}", event.name);
                assert_eq!(
                    events.iter().filter(|other| other.name == event.name).count(),
                    1,
                    "{}",
                    event.name
                );
            }
        }
    }

    #[test]
    fn energy_is_metered_where_the_processor_has_rapl_and_nowhere_else() {
        for name in ["clovertown", "caneland", "barcelona", "opteron-6164x4"] {
            assert_eq!(EventSet::energy_of_machine(name), [], "{name} is older than RAPL");
        }
        for name in ["epyc-7763x2", "epyc-9654x2"] {
            assert_eq!(
                EventSet::energy_of_machine(name),
                [Energy::Package],
                "AMD does not meter memory"
            );
        }
        for name in [
            "e5-4650x4",
            "e5-2660v2x2",
            "e5-2680v3x2",
            "e5-2650lv4x2",
            "gold-6140x2",
            "xeon-8480x2",
        ] {
            assert_eq!(
                EventSet::energy_of_machine(name),
                [Energy::Package, Energy::Memory],
                "{name}"
            );
        }
    }
}
