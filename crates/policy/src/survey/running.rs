//! The state of a survey while it runs.

use super::outlook::Outlook;
use super::schedule::{Schedule, Stage};
use super::subjects::Subjects;
use super::walk::Walk;
use std::collections::VecDeque;
use std::time::Duration;

/// A survey that has begun.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) began: Duration,
    pub(super) subjects: Subjects,
    pub(super) schedule: Schedule,
    pub(super) references: Vec<usize>,
    pub(super) outlook: Outlook,
    pub(super) passes: usize,
    pub(super) stages: VecDeque<Stage>,
    pub(super) stage: Stage,
    pub(super) walk: Walk,
    /// When progress was reported last.
    pub(super) reported: Duration,
}

/// The phase of the run.
#[derive(Debug)]
pub(super) enum Phase {
    Initialising,
    Running(Box<Running>),
    Over,
}
