//! Notes for the user about the runs of a sweep.

use super::runs::Runs;

/// A drift of this size is worth a sentence.
const WORTH: f64 = 0.005;

/// Runs that become faster by this much from the first to the last quarter are probably not the machine's doing.
const FASTER: f64 = -0.02;

/// What the user should know of these runs.
pub fn notes(runs: &Runs) -> Vec<String> {
    let (drift, _) = runs.estimates();
    let mut notes = vec![];
    if drift.size >= WORTH {
        notes.push(format!(
            "times changed by up to {:.1} % in the course of the sweep, for all configurations alike: this is removed from the \
             times",
            drift.size * 100.0
        ));
    }
    if drift.trend <= FASTER {
        notes.push(format!(
            "runs became {:.1} % faster from the first quarter of the sweep to the last: if the program finds files or caches \
             that earlier runs left, --before COMMAND can remove them, and --warm-up N makes N runs first",
            -drift.trend * 100.0
        ));
    }
    let disturbed = runs.runs().iter().filter(|(_, run)| run.disturbed.is_some()).count();
    let counted = runs
        .runs()
        .iter()
        .filter(|(_, run)| run.counts && run.disturbed.is_some())
        .count();
    if disturbed > 0 {
        notes.push(format!(
            "{disturbed} of {} runs were disturbed by other programs, the hypervisor or the temperature; {} were repeated, and \
             {counted} count because their repetitions were disturbed too",
            runs.runs().len(),
            disturbed - counted,
        ));
    }
    notes
}
