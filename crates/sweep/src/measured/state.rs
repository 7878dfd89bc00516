//! The state of the machine while the program ran, and whether it disturbed the run.

use crate::journal::Exact;
use pinfold_core::measurement::Median;
use serde::{Deserialize, Serialize};

/// What the machine did beside the program; `None` if it is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineState {
    /// The PUs that other programs kept busy, on average.
    pub load_of_others: Option<Exact>,
    /// The share of the time of all PUs that a hypervisor took.
    pub steal_share: Option<Exact>,
    /// The clock frequency at the end of the run, the mean of all PUs, in hertz.
    pub frequency_hz: Option<Exact>,
    /// Whether a core or a package was throttled because of its temperature.
    pub throttled: Option<bool>,
    /// By NUMA node, in the order of the topology: free bytes before the run.
    pub free_memory_bytes: Option<Vec<u64>>,
}

/// Daemons of an idle server use about this many PUs, and this share of all of them.
const USUAL_PUS: f64 = 0.15;
const USUAL_SHARE: f64 = 0.005;

/// A smaller share of the time that a hypervisor takes is usual on virtual machines.
const USUAL_STEAL: f64 = 0.02;

/// The kernel counts time in ticks of 10 ms: the load of a run is known up to about a tick on each PU.
const TICK: f64 = 0.01;

impl MachineState {
    /// What disturbed a run of `seconds` on a machine with `pus` PUs, in words; `None` for an undisturbed run.
    pub fn disturbance(&self, pus: usize, seconds: f64) -> Option<String> {
        let uncertain = TICK * pus as f64 / seconds;
        let load = self.load_of_others.map_or(0.0, |load| load.0);
        if load > USUAL_PUS + USUAL_SHARE * pus as f64 + uncertain {
            return Some(format!("other programs kept {load:.1} CPUs busy"));
        }
        let steal = self.steal_share.map_or(0.0, |share| share.0);
        if steal > USUAL_STEAL + TICK / seconds {
            return Some(format!("the hypervisor took {:.0} % of the time", steal * 100.0));
        }
        if self.throttled == Some(true) {
            return Some("the processor was throttled because of its temperature".to_owned());
        }
        None
    }
}

/// The state of the machine over several runs: medians, whether any of them was throttled, and the least free memory of
/// each node. `None` if no run knows it.
pub fn joint<'a>(states: impl Iterator<Item = &'a MachineState>) -> pinfold_dataset::MachineState {
    let states: Vec<&MachineState> = states.collect();
    let median = |value: fn(&MachineState) -> Option<Exact>| {
        let values = states.iter().filter_map(|state| value(state)).map(|value| value.0);
        Median::of(values).map(|median| median.value)
    };
    let free = states.iter().filter_map(|state| state.free_memory_bytes.clone());
    let least = |one: Vec<u64>, other: Vec<u64>| one.iter().zip(&other).map(|(one, other)| *one.min(other)).collect();
    pinfold_dataset::MachineState {
        load_of_others: median(|state| state.load_of_others),
        steal_share: median(|state| state.steal_share),
        frequency_hz: median(|state| state.frequency_hz),
        throttled: states
            .iter()
            .filter_map(|state| state.throttled)
            .reduce(|one, other| one || other),
        free_memory_bytes: free.reduce(least),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(load: f64) -> MachineState {
        MachineState {
            load_of_others: Some(Exact(load)),
            ..MachineState::default()
        }
    }

    #[test]
    fn a_busy_program_disturbs_and_daemons_do_not() {
        assert_eq!(loaded(0.1).disturbance(2, 1.0), None);
        assert_eq!(loaded(0.4).disturbance(128, 1e3), None);
        let why = loaded(1.0).disturbance(2, 1.0).unwrap();
        assert!(why.contains("1.0 CPUs"), "{why}");
        assert!(loaded(1.0).disturbance(128, 1e3).is_some());
    }

    #[test]
    fn the_load_of_a_short_run_is_uncertain() {
        assert!(loaded(0.5).disturbance(2, 10.0).is_some());
        assert_eq!(loaded(0.5).disturbance(2, 0.02), None);
    }

    #[test]
    fn steal_and_temperature_disturb_and_the_unknown_does_not() {
        assert_eq!(MachineState::default().disturbance(2, 1.0), None);
        let stolen = MachineState {
            steal_share: Some(Exact(0.1)),
            ..MachineState::default()
        };
        assert!(stolen.disturbance(2, 1.0).unwrap().contains("10 %"));
        let hot = MachineState {
            throttled: Some(true),
            ..MachineState::default()
        };
        assert!(hot.disturbance(2, 1.0).unwrap().contains("temperature"));
    }
}
