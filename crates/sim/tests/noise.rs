//! Noise changes what is read of a simulated machine, and not how fast its programs run. Reading takes time.

#[path = "common/computing.rs"]
mod computing;

use computing::Computing;
use pinfold_core::{Configuration, Machine, Pinning, PuId};
use pinfold_sim::{EndSwitch, Kernel, NamedProgram, Repeat, RunSettings, SimulatedMachine, model};
use std::sync::Arc;
use std::time::Duration;

fn machine(noise: f64, seed: u64) -> SimulatedMachine {
    let model = model::builtin("e5-2660v2x2").unwrap();
    let topology = model.topology();
    let program = NamedProgram {
        name: "computing".to_owned(),
        program: Arc::new(Computing(1_000_000)),
    };
    let run = RunSettings {
        repeat: Repeat::UntilAsked(EndSwitch::default()),
        exit_status: 0,
        seed,
        noise,
        kernel: Kernel::default(),
        numa_balancing: false,
    };
    let mut machine = SimulatedMachine::new(model, topology, vec![program], run);
    machine.apply(&Configuration {
        pinning: Pinning::new(vec![PuId(0)]),
        ..Configuration::default()
    });
    machine
}

/// The greatest count of the first task, in readings that are a tenth of a second apart.
fn readings(machine: &mut SimulatedMachine, number: u32) -> Vec<f64> {
    let read = |_| {
        machine.wait(Duration::from_millis(100)).unwrap();
        let sample = machine.observe();
        let counts = sample.tasks[0].counts.iter().flatten();
        counts.map(|count| count.value).max().unwrap() as f64
    };
    (0..number).map(read).collect()
}

#[test]
fn noise_changes_readings_and_not_the_run() {
    let (mut exact, mut noisy) = (machine(0.0, 1), machine(0.05, 1));
    let shown = (readings(&mut exact, 50), readings(&mut noisy, 50));
    assert_ne!(shown.0, shown.1);
    let off = shown.1[49] / shown.0[49] - 1.0;
    assert!(off.abs() < 0.1, "{off}");
    assert_eq!(exact.programs(), noisy.programs());
}

#[test]
fn the_same_seed_gives_the_same_readings() {
    let of = |seed| readings(&mut machine(0.05, seed), 20);
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn a_program_that_is_read_often_does_less() {
    let (mut often, mut once) = (machine(0.0, 0), machine(0.0, 0));
    readings(&mut often, 50);
    once.wait(Duration::from_secs(5)).unwrap();
    let lost = 1.0 - often.programs()[0].repetitions / once.programs()[0].repetitions;
    assert!(lost > 0.0 && lost < 1e-3, "{lost}");
}
