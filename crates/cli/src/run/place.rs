//! The machine and the CPUs of a program.

use pinfold_sim::model::Model;

/// The kind of machine that a program runs on.
pub(super) enum Where<'a> {
    Here,
    /// On a scripted machine, whose script names this topology.
    Scripted(&'a str),
    /// On a simulated machine.
    Simulated(&'a Model),
}

impl Where<'_> {
    /// The name of a machine that is simulated.
    pub(super) fn simulated(&self) -> Option<&str> {
        match self {
            Self::Here => None,
            Self::Scripted(topology) => Some(topology),
            Self::Simulated(model) => Some(&model.name),
        }
    }
}
