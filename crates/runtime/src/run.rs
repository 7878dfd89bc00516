//! The loop: observe, decide, apply, verify, record.

use crate::Recorder;
use pinfold_core::{Applied, Finding, Machine, MachineError, Sample, Wait};
use pinfold_policy::Policy;
use std::collections::BTreeSet;

/// Runs `policy` on `machine` until the program ends, and returns the program's exit status.
pub fn run(
    machine: &mut impl Machine,
    policy: &mut dyn Policy,
    recorder: &mut impl Recorder,
) -> Result<i32, MachineError> {
    let mut told = BTreeSet::new();
    let mut decision = policy.start(machine.topology(), machine.metrics());
    let exit_status = loop {
        for finding in &decision.findings {
            recorder.finding(machine.now(), finding);
        }
        let applied = match &decision.configuration {
            None => Applied::default(),
            Some(configuration) => {
                let applied = machine.apply(configuration);
                recorder.applied(machine.now(), configuration, &applied);
                for refusal in &applied.refused {
                    if told.insert(refusal.why.clone()) {
                        recorder.refused(machine.now(), refusal);
                    }
                }
                applied
            }
        };
        if let Wait::Ended(exit_status) = machine.wait(decision.wait)? {
            break exit_status;
        }
        let sample = observe(machine, recorder);
        decision = policy.decide(machine.topology(), &sample, &applied);
    };
    observe(machine, recorder);
    for finding in &policy.end() {
        recorder.finding(machine.now(), finding);
    }
    recorder.ended(machine.now(), exit_status);
    Ok(exit_status)
}

/// Reads everything once, and hands on what the machine has to say.
fn observe(machine: &mut impl Machine, recorder: &mut impl Recorder) -> Sample {
    let sample = machine.observe();
    recorder.sample(&sample);
    for text in machine.take_notes() {
        recorder.finding(machine.now(), &Finding::Note { text });
    }
    sample
}
