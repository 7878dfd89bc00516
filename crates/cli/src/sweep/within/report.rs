//! What is shown of a sweep within one run while it goes on, and what follows from its end.

use super::super::Arguments;
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
    arguments: &'a Arguments,
    progress: Option<Progress>,
    shown: u64,
    /// Ends the program; `None` if it runs on.
    end: Option<&'a dyn Fn()>,
    /// Whether the program was asked to end.
    pub(super) has_ended_program: bool,
}

impl<'a> Report<'a> {
    pub(super) fn new(arguments: &'a Arguments, end: Option<&'a dyn Fn()>) -> Self {
        Self {
            arguments,
            progress: None,
            shown: 0,
            end,
            has_ended_program: false,
        }
    }

    fn show(&mut self, own: &OwnFinding) {
        let number = |name: &str| own.values[name].as_u64().unwrap_or(0);
        let (done, planned) = (number("done"), number("planned"));
        let arguments = self.arguments;
        let total = usize::try_from(planned).unwrap_or(usize::MAX);
        let shown = &mut self.shown;
        let progress = self.progress.get_or_insert_with(|| {
            *shown = done;
            arguments.show_progress(COUNTED, usize::try_from(done).unwrap_or(0), total)
        });
        progress.begin(total, "");
        for _ in self.shown..done {
            progress.step();
        }
        self.shown = self.shown.max(done);
        if let Some(seconds) = own.values["remaining"].as_f64() {
            let left = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            if own.values["is_least"].as_bool() == Some(true) {
                progress.left_at_least(left);
            } else {
                progress.left(left);
            }
        }
    }
}

impl Recorder for Report<'_> {
    fn refused(&mut self, _at: Duration, refusal: &Refusal) {
        self.arguments.say(&refusal.why);
    }

    fn finding(&mut self, _at: Duration, finding: &Finding, _record: &Record) {
        match finding {
            Finding::Own(own) if own.name == SurveyProgress::NAME => self.show(own),
            Finding::Own(own) if own.name == SurveyEnded::NAME => {
                if let Some(progress) = self.progress.take() {
                    progress.finish();
                }
                self.arguments.say(&own.text);
                if let Some(end) = self.end.take() {
                    self.has_ended_program = true;
                    end();
                }
            }
            Finding::Note { text, .. } => self.arguments.say(text),
            Finding::MetricChosen { metric: None, why, .. } => self
                .arguments
                .say(format_args!("No metric shows the program's progress: {why}.")),
            Finding::EndedEarly { why, .. } => self.arguments.say(why),
            _ => {}
        }
    }
}
