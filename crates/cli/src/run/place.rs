//! The machine and the CPUs of a program.

use crate::table::MeasuredTable;
use pinfold_sim::model::Model;

/// The kind of machine that a program runs on.
pub(super) enum Where<'a> {
    Here,
    /// On a scripted machine, whose script names this topology.
    Scripted(&'a str),
    /// On a simulated machine.
    Simulated(&'a Model),
    /// On a table of measurements, which is replayed.
    Table(&'a MeasuredTable),
}

impl Where<'_> {
    /// What identifies the machine of a program that does not really run; `None` for this machine.
    pub(super) fn simulated(&self) -> Option<&str> {
        match self {
            Self::Here => None,
            Self::Scripted(topology) => Some(topology),
            Self::Simulated(model) => Some(&model.name),
            Self::Table(table) => Some(&table.key),
        }
    }
}
