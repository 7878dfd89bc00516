//! Policies: from a machine's shape and what was observed of a program to a decision. One file per policy, behind the
//! trait `Policy`; what several of them need (which tasks work, which metric counts, rates, statistics) has files of
//! its own. Nothing here reads a clock, a file or the environment: `clippy.toml` beside the manifest enforces it.

pub mod candidates;
pub mod sam;

mod autopin;
mod candidate_results;
mod fixed;
mod hints;
mod meter;
mod metric_choice;
mod opening;
mod options;
mod race;
mod requested;
mod rules;
mod statistics;
mod times;
mod user_settings;
mod watch;
mod working_tasks;

pub use autopin::Autopin;
pub use fixed::{Fixed, Kept};
pub use hints::{HintOptions, Hints, Known, NoHintError};
pub use metric_choice::{MetricRequest, UnknownMetric};
pub use options::{Candidates, Options, OptionsError, Search};
pub use rules::{Condition, Normalised, Operator, Outcome, Rule, RuleMetric, Rules, RulesError, Trained, Verdict};
pub use times::{Times, TimesError};
pub use user_settings::WithUserSettings;
pub use watch::Watch;
pub use working_tasks::{Skip, SkipError};

use pinfold_core::{Applied, Decision, Finding, Metric, Sample, Topology};

/// Turns what was observed into what to do. A policy keeps what it has learned in itself; time reaches it only as the
/// time at which a sample was taken.
pub trait Policy {
    /// The name that `--policy` takes.
    fn name(&self) -> &'static str;

    /// What to do before the program's first instruction. `metrics` are what the samples' counts will be.
    fn start(&mut self, topology: &Topology, metrics: &[Metric]) -> Decision;

    /// What to do after `sample`. `applied` is what the machine did of the decision before, and empty where that
    /// changed nothing.
    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision;

    /// What was learned, when the program has ended before the policy was done with it.
    fn end(&mut self) -> Vec<Finding>;
}
