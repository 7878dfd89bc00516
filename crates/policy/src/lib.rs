//! Policies: from a topology and an observed program to a decision. Each policy has a folder, and implements the trait
//! `Policy`. `program` is their common view of a program, and `comparison` has the tests that compare rates. Nothing
//! here reads a clock, a file or the environment: `clippy.toml` beside the manifest enforces it.

pub mod auto;
pub mod belief;
pub mod classify;
pub mod external;
pub mod react;
pub mod sam;
pub mod survey;
pub mod whole_runs;

mod autopin;
mod comparison;
mod findings;
mod fixed;
mod hints;
mod known;
mod program;
mod rules;
mod tree;

pub use autopin::{Autopin, Candidates, Options, OptionsError, Search};
pub use comparison::change::Watch;
pub use fixed::{Fixed, Kept, Unchanged, WithUserSettings};
pub use hints::{HintOptions, Hints, Known, NoHintError};
pub use known::KnownPlacement;
pub use program::flow::sets_pace;
pub use program::metric_choice::{MetricRequest, UnknownMetric};
pub use program::times::{Times, TimesError};
pub use program::working_tasks::{Skip, SkipError};
pub use rules::{Condition, Normalised, Operator, Outcome, Rule, RuleMetric, Rules, RulesError, Trained, Verdict};

use pinfold_core::{Applied, Decision, Finding, Metric, Sample, Topology};

#[cfg(test)]
#[path = "../../core/tests/support/synthetic.rs"]
mod synthetic;

/// Turns observations into decisions. A policy keeps its own state; the only time that it knows is the
/// time of a sample.
pub trait Policy {
    /// The name that `--policy` takes.
    fn name(&self) -> &'static str;

    /// The decision before the program's first instruction. `metrics` describe the counts of the samples, in their
    /// order.
    fn start(&mut self, topology: &Topology, metrics: &[Metric]) -> Decision;

    /// The decision after `sample`. `applied` says how the machine applied the last decision; it is empty if
    /// nothing changed.
    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision;

    /// The findings at the end of the program, if the policy has not reported them yet.
    fn end(&mut self) -> Vec<Finding>;
}
