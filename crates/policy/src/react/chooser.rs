//! What chooses the configurations of regions.

use super::model::ReactModel;
use crate::belief::Belief;

/// What chooses the configurations that are tried, and the one that a region gets.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// A learned model, by a tree or by a race. It fits the machine (`ReactModel::check`).
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

    /// The model, if it has no tree: its fastest profile is taken.
    pub(super) fn race(&self) -> Option<&ReactModel> {
        self.model().filter(|model| model.tree.is_none())
    }
}
