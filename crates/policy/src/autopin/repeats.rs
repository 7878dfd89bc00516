//! Which measurements are repeated because threads began or ended meanwhile.

use pinfold_core::{Finding, NoteCode};

/// The number of repetitions of one candidate's measurement. The last one counts, whatever its threads do.
const REPEATS: u32 = 2;

/// The repetitions so far in a search.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Repetitions for the candidate that is measured.
    number: u32,
    /// Threads begin and end all the time, so nothing is repeated until the next search.
    given_up: bool,
}

impl Repeats {
    /// The next candidate is measured.
    pub(super) fn begin_candidate(&mut self) {
        self.number = 0;
    }

    /// Whether a disturbed measurement is repeated. The first time that it is not, a finding says so.
    pub(super) fn repeat(&mut self, findings: &mut Vec<Finding>) -> bool {
        if self.given_up {
            return false;
        }
        if self.number < REPEATS {
            self.number += 1;
            return true;
        }
        self.given_up = true;
        findings.push(Finding::Note {
            code: NoteCode::ThreadsChange,
            text: "Threads begin and end all the time; the rates are measured nevertheless.".to_owned(),
        });
        false
    }
}
