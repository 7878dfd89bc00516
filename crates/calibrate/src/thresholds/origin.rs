//! The origin of curves, for readers and for JSON. It distinguishes simulated from measured curves.

use super::file::Clock;
use super::formula::Formula;
use crate::Places;
use pinfold_core::measurement::Relation;
use pinfold_core::{PuId, PuSet};
use serde_json::{Value, json};

/// The thresholds that are always derived: the paper has no microbenchmark for these two.
const DERIVED: &str = "remote equals coherence, memory is a core's share of the package's";

/// The origin of curves.
pub enum Origin {
    /// A simulated machine.
    Simulated {
        /// The model's name.
        machine: String,
    },
    /// This machine.
    Measured(Box<MeasuredOrigin>),
}

/// The events and PUs of a measurement.
pub struct MeasuredOrigin {
    /// The processor's name.
    pub machine: String,
    /// The name of the event set; `None` for events that the user named.
    pub set: Option<String>,
    /// The events that count coherence.
    pub coherence: Formula,
    /// The events that count memory traffic.
    pub memory: Formula,
    /// The PUs that were used.
    pub places: Places,
    /// Whether few repetitions were made.
    pub quick: bool,
    /// The share of the copied arrays that was on other nodes than their tasks. `None` if the kernel does not report
    /// it.
    pub elsewhere: Option<f64>,
}

impl Origin {
    /// The machine's name.
    pub fn machine(&self) -> &str {
        match self {
            Self::Simulated { machine } => machine,
            Self::Measured(measured) => &measured.machine,
        }
    }

    /// For the title of a plot.
    pub fn title(&self) -> String {
        match self {
            Self::Simulated { machine } => format!("simulated: {machine}"),
            Self::Measured(measured) => format!("measured: {}", measured.machine),
        }
    }

    /// The clock of the rates.
    pub fn clock(&self) -> Clock {
        match self {
            Self::Measured(measured) if measured.set.is_none() => Clock::Nanosecond,
            _ => Clock::Cycle,
        }
    }

    /// The events that show coherence, for a reader.
    pub fn coherence_events(&self) -> String {
        match self {
            Self::Simulated { .. } => "its counters".to_owned(),
            Self::Measured(measured) => measured.coherence.to_string(),
        }
    }

    /// The events that show traffic to memory, for a reader.
    pub fn memory_events(&self) -> String {
        match self {
            Self::Simulated { .. } => "its counters".to_owned(),
            Self::Measured(measured) => measured.memory.to_string(),
        }
    }

    /// The source in the file of thresholds.
    pub fn source(&self) -> String {
        match self {
            Self::Simulated { machine } => {
                format!("simulated: pinfold calibrate --thresholds --machine {machine}; {DERIVED}")
            }
            Self::Measured(measured) => measured.source(),
        }
    }

    /// The keys of its JSON.
    pub fn json(&self) -> Value {
        match self {
            Self::Simulated { machine } => json!({ "machine": machine, "simulated": true }),
            Self::Measured(measured) => measured.json(),
        }
    }
}

impl MeasuredOrigin {
    fn source(&self) -> String {
        let options = if self.quick { " --quick" } else { "" };
        let set = self.set.as_ref().map_or_else(
            || "events named by --metric".to_owned(),
            |set| format!("events of {set}"),
        );
        let Places {
            together,
            apart,
            relation,
            package,
            cores,
        } = &self.places;
        let elsewhere = match self.elsewhere {
            Some(share) if share > 0.0 => {
                format!(", with {:.0} % of what they copied on other nodes", share * 100.0)
            }
            Some(_) => String::new(),
            None => ", and the kernel does not report on which nodes their arrays were".to_owned(),
        };
        format!(
            "measured: pinfold calibrate --thresholds{options} on {}, {set}: coherence {}, memory {}; two threads on \
             CPUs {} together and on CPUs {} apart ({}); copying tasks on CPUs {}, {} of {cores} cores of a \
             package{elsewhere}; {DERIVED}",
            self.machine,
            self.coherence,
            self.memory,
            cpu_list(together),
            cpu_list(apart),
            relation.words(),
            cpu_list(package),
            package.len(),
        )
    }

    fn json(&self) -> Value {
        let numbers = |pus: &[PuId]| -> Vec<u32> { pus.iter().map(|pu| pu.0).collect() };
        let places = &self.places;
        json!({
            "machine": self.machine,
            "simulated": false,
            "quick": self.quick,
            "event_set": self.set,
            "events": {
                "inter_package_coherence": self.coherence.json(),
                "memory_bandwidth": self.memory.json(),
            },
            "together": numbers(&places.together),
            "apart": numbers(&places.apart),
            "apart_in": match places.relation {
                Relation::OtherPackage => "other_package",
                _ => "same_package",
            },
            "package": numbers(&places.package),
            "package_cores": places.cores,
            "elsewhere_share": self.elsewhere,
        })
    }
}

/// PUs as a CPU list.
pub fn cpu_list(pus: &[PuId]) -> String {
    pus.iter().copied().collect::<PuSet>().to_string()
}
