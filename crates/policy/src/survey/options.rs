//! The options of a survey, and its configurations.

use super::configuration::SurveyConfiguration;
use super::results::{Subject, Turn};
use crate::program::metric_choice::MetricRequest;
use crate::program::times::Times;
use crate::program::working_tasks::Skip;
use std::time::Duration;

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Parallel regions where some repeat, and otherwise the program.
    #[default]
    Auto,
    /// Parallel regions.
    Regions,
    /// The whole program.
    Program,
}

/// What is going to be measured, when the program has initialised.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// The number of threads that the configurations are for.
    pub threads: usize,
    /// The regions, or the program.
    pub subjects: Vec<Subject>,
    /// The metric of a program that is measured as a whole.
    pub metric: Option<String>,
}

/// The configurations for a number of threads.
#[derive(Clone, Debug, Default)]
pub struct Configurations {
    /// The configurations.
    pub list: Vec<SurveyConfiguration>,
    /// The positions of those that are measured in every pass, so that drift is seen.
    pub references: Vec<usize>,
    /// What earlier runs of the program have measured.
    pub earlier: Vec<Turn>,
}

/// The options of a survey.
#[derive(Clone, Debug)]
pub struct SurveyOptions {
    /// The initialisation; the other times are those of the survey.
    pub times: Times,
    /// The metric of a program that is measured as a whole.
    pub metric: MetricRequest,
    /// The tasks that are left alone.
    pub skip: Skip,
    /// The number of threads; `None` for those that work.
    pub threads: Option<usize>,
    /// What is measured.
    pub by: By,
    /// A configuration is known well enough if half of its 95 % interval is at most this share of its time.
    pub interval: f64,
    /// The fewest and the most measurements of a configuration.
    pub rounds: (usize, usize),
    /// The longest time of the survey; `None` for no limit.
    pub limit: Option<Duration>,
    /// How long the program lasted in an earlier run; `None` if no run has ended by itself.
    pub lasted: Option<Duration>,
    /// The seed of the random order.
    pub seed: u64,
}
