//! What is shown of a sweep within one run while it goes on, and what follows from its end.

use crate::console;
use crate::progress::{Progress, ProgressUnit};
use pinfold_core::{Finding, OwnFinding, PolicyFinding, Refusal};
use pinfold_policy::survey::{SurveyEnded, SurveyProgress};
use pinfold_runtime::{Record, Recorder};
use std::time::Duration;

/// What the progress bar counts.
const COUNTED: ProgressUnit = ProgressUnit {
    what: "measurements",
    first: "the program initialises",
};

/// Shows progress and notes, and ends the program if that is wanted.
pub(super) struct Report<'a> {
    quiet: bool,
    progress: Option<Progress>,
    shown: u64,
    /// Ends the program; `None` if it runs on.
    end: Option<&'a dyn Fn()>,
    /// Whether the program was asked to end.
    pub(super) has_ended_program: bool,
}

impl<'a> Report<'a> {
    pub(super) fn new(quiet: bool, end: Option<&'a dyn Fn()>) -> Self {
        Self {
            quiet,
            progress: None,
            shown: 0,
            end,
            has_ended_program: false,
        }
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            console::say(text);
        }
    }

    fn show(&mut self, own: &OwnFinding) {
        let number = |name: &str| own.values[name].as_u64().unwrap_or(0);
        let (done, planned) = (number("done"), number("planned"));
        let quiet = self.quiet;
        let total = usize::try_from(planned).unwrap_or(usize::MAX);
        let progress = self
            .progress
            .get_or_insert_with(|| Progress::new(quiet, COUNTED, 0, total));
        progress.begin(total, "");
        for _ in self.shown..done {
            progress.step();
        }
        self.shown = self.shown.max(done);
    }
}

impl Recorder for Report<'_> {
    fn refused(&mut self, _at: Duration, refusal: &Refusal) {
        self.say(&refusal.why);
    }

    fn finding(&mut self, _at: Duration, finding: &Finding, _record: &Record) {
        match finding {
            Finding::Own(own) if own.name == SurveyProgress::NAME => self.show(own),
            Finding::Own(own) if own.name == SurveyEnded::NAME => {
                if let Some(progress) = self.progress.take() {
                    progress.finish();
                }
                self.say(&own.text);
                if let Some(end) = self.end.take() {
                    self.has_ended_program = true;
                    end();
                }
            }
            Finding::Note { text, .. } => self.say(text),
            Finding::MetricChosen { metric: None, why, .. } => {
                self.say(&format!("No metric shows the program's progress: {why}."))
            }
            Finding::EndedEarly { why, .. } => self.say(why),
            _ => {}
        }
    }
}
