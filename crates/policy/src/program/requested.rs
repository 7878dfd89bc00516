//! The requested configuration, so that a policy requests only changes.

use crate::program::working_tasks::WorkingTasks;
use pinfold_core::{Configuration, PageMapping, Pinning};

/// The configuration that was last requested.
#[derive(Debug, Default)]
pub(crate) struct RequestedConfiguration(Option<Configuration>);

impl RequestedConfiguration {
    /// `pinning` for the working tasks, and a mapping of pages; `None` if this configuration was requested last.
    pub(crate) fn configuration(
        &mut self,
        pinning: Option<&Pinning>,
        pages: Option<PageMapping>,
        working_tasks: &WorkingTasks,
    ) -> Option<Configuration> {
        self.changed(Configuration {
            pinning: pinning.cloned(),
            pages,
            left_alone: working_tasks.left_alone(),
            ..Configuration::default()
        })
    }

    /// `wanted`; `None` if this configuration was requested last.
    pub(crate) fn changed(&mut self, wanted: Configuration) -> Option<Configuration> {
        if self.0.as_ref() == Some(&wanted) {
            return None;
        }
        self.0 = Some(wanted.clone());
        Some(wanted)
    }

    /// Requests the same configuration once more, so that it also applies to tasks that the machine left alone when
    /// they began.
    pub(crate) fn affirm(&mut self) {
        self.0 = None;
    }
}
