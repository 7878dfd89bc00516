//! The requested configuration, so that a policy requests only changes.

use pinfold_core::Configuration;

/// The configuration that was last requested.
#[derive(Debug, Default)]
pub(crate) struct RequestedConfiguration(Option<Configuration>);

impl RequestedConfiguration {
    /// Returns `wanted`, or `None` if it was requested last. Limits of time alone are not a
    /// change, but a change has them.
    pub(crate) fn changed(&mut self, wanted: Configuration) -> Option<Configuration> {
        let without_limits = Configuration {
            following_within: None,
            mapping_within: None,
            ..wanted.clone()
        };
        if self.0.as_ref() == Some(&without_limits) {
            return None;
        }
        self.0 = Some(without_limits);
        Some(wanted)
    }

    /// Forgets the last request, so that the same configuration is requested once more.
    pub(crate) fn request_again(&mut self) {
        self.0 = None;
    }
}
