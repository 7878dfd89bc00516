//! What users see of a survey.

use pinfold_core::PolicyFinding;
use serde::Serialize;

/// How far a survey is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SurveyProgress {
    /// The configurations.
    pub configurations: usize,
    /// The configurations that were measured at least once, for all subjects.
    pub measured: usize,
    /// The measurements of each subject so far, also in earlier runs of the program.
    pub done: usize,
    /// Those that the survey needs, by the scatter so far.
    pub planned: usize,
    /// The time that the rest needs, in seconds; `None` before the first measurement of this run.
    pub remaining: Option<f64>,
    /// Whether the rest may need more, because the scatter of some configuration is not known.
    pub is_least: bool,
}

impl SurveyProgress {
    /// "at least", or "about".
    pub(super) fn how_exact(&self) -> &'static str {
        if self.is_least { "at least" } else { "about" }
    }
}

impl PolicyFinding for SurveyProgress {
    const NAME: &'static str = "survey_progress";

    fn text(&self) -> String {
        let exact = self.how_exact();
        let remaining = self
            .remaining
            .map_or_else(String::new, |seconds| format!("; {exact} {seconds:.0} s more"));
        format!(
            "{} of {} configurations are measured, by {} of {exact} {} measurements{remaining}.",
            self.measured, self.configurations, self.done, self.planned
        )
    }
}

/// The survey is over, or the program has ended before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SurveyEnded {
    /// The configurations.
    pub configurations: usize,
    /// The configurations that were measured, for all subjects.
    pub measured: usize,
    /// Those that were measured for all subjects to the wanted interval.
    pub precise: usize,
    /// Whether everything was measured that can be.
    pub complete: bool,
    /// How long the survey took, in seconds, without the program's initialisation.
    pub lasted: f64,
    /// The largest drift of a subject: its largest time over its smallest, minus one.
    pub drift: f64,
    /// Why it is over, as a whole sentence.
    pub why: String,
}

impl PolicyFinding for SurveyEnded {
    const NAME: &'static str = "survey_ended";

    fn text(&self) -> String {
        let Self {
            configurations,
            measured,
            precise,
            lasted,
            drift,
            why,
            ..
        } = self;
        let drift = if *drift >= 0.01 {
            format!(
                " The program's speed drifted by {:.0} % meanwhile, which is removed.",
                drift * 100.0
            )
        } else {
            String::new()
        };
        format!(
            "{why} {measured} of {configurations} configurations are measured in {lasted:.1} s, {precise} of them to the \
             wanted interval.{drift}"
        )
    }
}
