//! Notes for the user about a plan and its results.

use crate::journal::Outcome;
use crate::plan::{Plan, SweptMachine, SweptProgram};
use crate::regions::JoinedRegions;
use crate::subject::Subject;
use pinfold_sim::{MUCH_UNRECORDED_WAIT, RECORD_REGIONS};
use std::collections::BTreeMap;

/// Notes about configurations that machines do not have, and about recordings that do not fit their machines.
pub fn plan_notes(plan: &Plan) -> Vec<String> {
    let mut notes = plan.left_out.clone();
    for program in &plan.programs {
        for machine in &plan.machines {
            let pus = machine.model.pus();
            if program.threads > pus {
                notes.push(format!(
                        "{} has {} threads at the same time, and {} has {pus} CPUs: the threads take turns, in time slices of 3 ms",
                        program.file().display(),
                        program.threads,
                        machine.model.name,
                    ));
            }
            if program.coverage().is_enough(&machine.model) == Some(false) {
                notes.push(too_small_a_window(program, machine));
            }
        }
    }
    notes
}

/// Notes about results. `outcomes` has the outcome of each job by the job's position.
pub fn outcome_notes(plan: &Plan, outcomes: &BTreeMap<usize, Outcome>) -> Vec<String> {
    let mut notes = vec![];
    for (number, program) in plan.programs.iter().enumerate() {
        notes.extend(wait_note(plan, number, program, outcomes));
        notes.extend(uncertainty_note(plan, number, program, outcomes));
    }
    // One shard does not show which regions lack a number of threads.
    if plan.joined.is_some() && outcomes.len() == plan.jobs.len() {
        let subjects: Vec<Subject> = plan.jobs.iter().map(|job| Subject::new(plan, job)).collect();
        let names: Vec<&str> = plan
            .machines
            .iter()
            .map(|machine| machine.model.name.as_str())
            .collect();
        notes.extend(JoinedRegions::new(subjects.iter().zip(outcomes.values())).notes(&names));
    }
    notes
}

/// The outcomes of one program.
fn program_outcomes<'a>(
    plan: &'a Plan,
    program: usize,
    outcomes: &'a BTreeMap<usize, Outcome>,
) -> impl Iterator<Item = &'a Outcome> {
    let outcomes = outcomes.iter();
    outcomes
        .filter(move |(job, _)| plan.jobs[**job].program == program)
        .map(|(_, outcome)| outcome)
}

/// A note on configurations with long waits of a program's threads for events outside the recording. The share of the
/// waits is not known for a sampled program: the note then counts the configurations with an awaited event that never
/// came.
fn wait_note(
    plan: &Plan,
    number: usize,
    program: &SweptProgram,
    outcomes: &BTreeMap<usize, Outcome>,
) -> Option<String> {
    let shares = program_outcomes(plan, number, outcomes).filter_map(|outcome| outcome.unrecorded_wait_share);
    let long: Vec<f64> = shares
        .map(|share| share.0)
        .filter(|&share| share > MUCH_UNRECORDED_WAIT)
        .collect();
    if !long.is_empty() {
        let most = long.iter().copied().fold(0.0, f64::max);
        return Some(format!(
            "{}: in {} configurations threads wait for what is not in the recording, in up to {:.0} % of their time (column \
                 unrecorded_wait_share): the times are not those of the program. {RECORD_REGIONS}",
            program.file().display(),
            long.len(),
            most * 100.0,
        ));
    }
    let released = |outcome: &Outcome| outcome.unrecorded_wait_share.is_none() && outcome.released > 0;
    let unordered = program_outcomes(plan, number, outcomes)
        .filter(|outcome| released(outcome))
        .count();
    (unordered > 0).then(|| {
            format!(
                "{}: in {unordered} configurations threads waited for what is not in the recording, and went on when no other \
                 could: the order of threads is not that of the program there",
                program.file().display()
            )
        })
}

/// A note on the configurations of a program whose time is uncertain.
fn uncertainty_note(
    plan: &Plan,
    number: usize,
    program: &SweptProgram,
    outcomes: &BTreeMap<usize, Outcome>,
) -> Option<String> {
    let wide = |outcome: &&Outcome| {
        let whole = outcome.rows.first().and_then(|row| row.time_error);
        whole.is_none_or(|error| error.0 > WIDE)
    };
    let uncertain = program_outcomes(plan, number, outcomes).filter(wide).count();
    (uncertain > 0).then(|| {
            format!(
                "{}: in {uncertain} configurations the time of the sampled pieces is uncertain by more than {:.0} % or by an \
                 unknown amount (column time_error): without --sampled the whole recording is simulated",
                program.file().display(),
                WIDE * 100.0,
            )
        })
}

/// The user gets a note if half the width of a time's confidence interval, over the time, exceeds this. Configurations
/// often differ by this much.
const WIDE: f64 = 0.05;

fn too_small_a_window(program: &SweptProgram, machine: &SweptMachine) -> String {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let coverage = program.coverage();
    format!(
        "{}, `{}`: the recorded window accesses {:.1} MiB of the {:.1} MiB that the program uses, and may fit the caches of {} \
         although the program does not: its rows have window_covers = false, and nothing is learned from them; record a longer \
         window",
        program.file().display(),
        program.name,
        mebibytes(coverage.window_bytes),
        mebibytes(coverage.footprint_bytes.unwrap_or(0)),
        machine.model.name,
    )
}
