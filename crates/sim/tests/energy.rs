//! The energy that a simulated machine reports, as Linux reports RAPL's.

#[path = "common/computing.rs"]
mod computing;

use computing::Computing;
use pinfold_core::{COUNTS_OF_A_JOULE, Machine, Scope, sources};
use pinfold_sim::{Energy, Kernel, NamedProgram, Repeat, RunSettings, SimulatedMachine, model};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

fn computing_on(name: &str) -> SimulatedMachine {
    let mut model = model::builtin(name).unwrap();
    // The power of a core is that at the base clock.
    model.core.turbo = None;
    let topology = model.topology();
    let run = RunSettings {
        repeat: Repeat::Times(NonZeroU64::new(1_000_000).unwrap()),
        exit_status: 0,
        seed: 0,
        noise: 0.0,
        kernel: Kernel::default(),
        numa_balancing: false,
    };
    let name = "computing".to_owned();
    let program = Arc::new(Computing(100_000_000));
    SimulatedMachine::new(model, topology, vec![NamedProgram { name, program }], run)
}

/// The power that the event shows over ten seconds, in watts.
fn watts(machine: &mut SimulatedMachine, event: &str) -> Option<f64> {
    let name = format!("event:{event}");
    let index = machine.metrics().iter().position(|metric| metric.name == name)?;
    assert_eq!(machine.metrics()[index].source, &sources::EVENT);
    assert_eq!(machine.metrics()[index].scope, Scope::Program);
    machine.wait(Duration::from_secs(1)).unwrap();
    let before = machine.observe();
    machine.wait(Duration::from_secs(10)).unwrap();
    let after = machine.observe();
    assert_eq!(after.program.len(), machine.metrics().len());
    assert!(after.tasks[0].counts[index].is_none(), "energy belongs to no task");
    let joules = after.program[index]?.since(&before.program[index]?)? / COUNTS_OF_A_JOULE;
    Some(joules / 10.0)
}

#[test]
fn one_computing_thread_uses_the_power_of_the_idle_machine_and_of_one_busy_core() {
    let model = model::builtin("e5-2660v2x2").unwrap();
    let energy = &model.energy;
    let instructions = model.frequency().0 / model.core.base_cpi.value().0;
    let expected = 2.0 * energy.package_idle.value().0
        + energy.core_active.value().0
        + energy.instruction.value().0 * instructions;
    let package = watts(&mut computing_on("e5-2660v2x2"), Energy::Package.event_name()).unwrap();
    assert!((package / expected - 1.0).abs() < 1e-3, "{package} W of {expected} W");
    let memory = watts(&mut computing_on("e5-2660v2x2"), Energy::Memory.event_name()).unwrap();
    let idle = 2.0 * energy.memory_idle.value().0;
    assert!((memory / idle - 1.0).abs() < 1e-3, "{memory} W of {idle} W");
}

#[test]
fn a_machine_without_meters_has_no_metric_of_energy() {
    for energy in [Energy::Package, Energy::Memory] {
        assert_eq!(watts(&mut computing_on("opteron-6164x4"), energy.event_name()), None);
    }
    assert_eq!(
        watts(&mut computing_on("epyc-7763x2"), Energy::Memory.event_name()),
        None
    );
}
