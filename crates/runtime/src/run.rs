//! The loop: observe, decide, apply, verify, record.

use crate::{RecordBuilder, Recorder};
use pinfold_core::{Applied, Configuration, Finding, Machine, MachineError, NoteCode, Sample, Wait};
use pinfold_policy::Policy;
use std::collections::BTreeSet;
use std::time::Duration;

/// Runs `policy` on `machine` until the program ends, and returns the program's exit status; `None` if the user ended
/// the run and the program continues. Each event goes into `record` first, then to `recorder`.
pub fn run(
    machine: &mut impl Machine,
    policy: &mut dyn Policy,
    record: &mut RecordBuilder,
    recorder: &mut impl Recorder,
) -> Result<Option<i32>, MachineError> {
    let mut reported = BTreeSet::new();
    let mut decision = policy.start(machine.topology(), machine.metrics());
    let exit_status = loop {
        for finding in &decision.findings {
            found(machine.now(), finding, record, recorder);
        }
        let applied = match &decision.configuration {
            None => Applied::default(),
            Some(configuration) => {
                let applied = machine.apply(configuration);
                was_applied(machine, configuration, &applied, &mut reported, record, recorder);
                applied
            }
        };
        if let Some(request) = &decision.function {
            machine.look_for_function(request);
        }
        match machine.wait(decision.wait)? {
            Wait::Elapsed => {}
            Wait::Ended(exit_status) => break Some(exit_status),
            Wait::Left => break None,
        }
        let sample = observe(machine, record, recorder);
        decision = policy.decide(machine.topology(), &sample, &applied);
    };
    observe(machine, record, recorder);
    for finding in &policy.end() {
        found(machine.now(), finding, record, recorder);
    }
    if exit_status.is_none() {
        let applied = machine.let_go();
        was_applied(
            machine,
            &Configuration::default(),
            &applied,
            &mut reported,
            record,
            recorder,
        );
    }
    record.ended(machine.now(), exit_status);
    recorder.ended(machine.now(), exit_status, record.record());
    Ok(exit_status)
}

/// Records the part of a configuration that the machine applied.
fn was_applied(
    machine: &impl Machine,
    configuration: &Configuration,
    applied: &Applied,
    reported: &mut BTreeSet<String>,
    record: &mut RecordBuilder,
    recorder: &mut impl Recorder,
) {
    record.applied(machine.now(), configuration, applied);
    let done = applied
        .instead
        .as_ref()
        .map_or(configuration, |instead| &instead.configuration);
    recorder.applied(machine.now(), done, applied);
    for refusal in &applied.refused {
        if reported.insert(refusal.why.clone()) {
            record.refused(refusal);
            recorder.refused(machine.now(), refusal);
        }
    }
}

/// Reads all counts once, and records the notes of the machine.
fn observe(machine: &mut impl Machine, record: &mut RecordBuilder, recorder: &mut impl Recorder) -> Sample {
    let sample = machine.observe();
    if record.sample(&sample) {
        if let Some(by_node) = machine.memory_by_node() {
            record.memory(&by_node);
        }
        if let Some(by_node) = machine.memory_traffic() {
            record.traffic(&by_node);
        }
    }
    recorder.sample(&sample);
    for text in machine.take_notes() {
        let note = Finding::Note {
            code: NoteCode::Machine,
            text,
        };
        found(machine.now(), &note, record, recorder);
    }
    sample
}

/// Records a finding, and passes it to the recorder.
fn found(at: Duration, finding: &Finding, record: &mut RecordBuilder, recorder: &mut impl Recorder) {
    record.finding(at, finding);
    recorder.finding(at, finding, record.record());
}
