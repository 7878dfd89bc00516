//! What chooses the configurations of regions.

use super::model::ReactModel;
use crate::belief::Belief;

/// What chooses the configurations that are tried, and the one that a region gets.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// The tree of a learned model. It fits the machine (`ReactModel::check`).
    Model(ReactModel),
    /// A belief plans trials over the configurations of react's paper. A region gets the fastest.
    Belief(Belief),
}

impl Chooser {
    pub(super) fn model(&self) -> Option<&ReactModel> {
        match self {
            Self::Model(model) => Some(model),
            Self::Belief(_) => None,
        }
    }
}
