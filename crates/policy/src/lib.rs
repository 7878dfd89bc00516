//! Policies: from a topology and an observed program to a decision. One file per policy, behind the
//! trait `Policy`; what several of them need (working tasks, the choice of the metric, rates, statistics) has files of
//! its own. Nothing here reads a clock, a file or the environment: `clippy.toml` beside the manifest enforces it.

pub mod auto;
pub mod candidates;
pub mod classify;
pub mod react;
pub mod sam;
pub mod statistics;

mod autopin;
mod candidate_results;
mod findings;
mod fixed;
mod hints;
mod known;
mod meter;
mod metric_choice;
mod observed;
mod opening;
mod options;
mod race;
mod requested;
mod roles;
mod rules;
mod times;
mod tree;
mod turns;
mod user_settings;
mod watch;
mod working_tasks;

pub use autopin::Autopin;
pub use fixed::{Fixed, Kept};
pub use hints::{HintOptions, Hints, Known, NoHintError};
pub use known::KnownPlacement;
pub use metric_choice::{MetricRequest, UnknownMetric};
pub use options::{Candidates, Options, OptionsError, Search};
pub use rules::{Condition, Normalised, Operator, Outcome, Rule, RuleMetric, Rules, RulesError, Trained, Verdict};
pub use times::{Times, TimesError};
pub use user_settings::WithUserSettings;
pub use watch::Watch;
pub use working_tasks::{Skip, SkipError};

use pinfold_core::{Applied, Decision, Finding, Metric, Sample, Topology};

#[cfg(test)]
#[path = "../../core/tests/support/synthetic.rs"]
mod synthetic;

/// Turns observations into decisions. A policy keeps its own state; the only time that it knows is the
/// time at which a sample was taken.
pub trait Policy {
    /// The name that `--policy` takes.
    fn name(&self) -> &'static str;

    /// The decision before the program's first instruction. `metrics` describe the counts of the samples, in their order.
    fn start(&mut self, topology: &Topology, metrics: &[Metric]) -> Decision;

    /// The decision after `sample`. `applied` is what the machine did of the last decision; it is empty where that
    /// changed nothing.
    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision;

    /// The findings at the end of the program, if the policy has not reported them yet.
    fn end(&mut self) -> Vec<Finding>;
}
