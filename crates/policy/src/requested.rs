//! What a policy has asked for, so that it asks again only when that changes.

use crate::working_tasks::WorkingTasks;
use pinfold_core::{Configuration, Pinning};

/// The configuration that was last asked for.
#[derive(Debug, Default)]
pub(crate) struct RequestedConfiguration(Option<Configuration>);

impl RequestedConfiguration {
    /// `pinning` for the tasks that `working_tasks` does not leave alone; `None` where that was asked for last.
    pub(crate) fn configuration(
        &mut self,
        pinning: Option<&Pinning>,
        working_tasks: &WorkingTasks,
    ) -> Option<Configuration> {
        let wanted = Configuration {
            pinning: pinning.cloned(),
            left_alone: working_tasks.left_alone(),
            ..Configuration::default()
        };
        if self.0.as_ref() == Some(&wanted) {
            return None;
        }
        self.0 = Some(wanted.clone());
        Some(wanted)
    }

    /// Has the configuration asked for once more, so that it is in force for tasks too that the machine left to themselves
    /// when they began.
    pub(crate) fn affirm(&mut self) {
        self.0 = None;
    }
}
