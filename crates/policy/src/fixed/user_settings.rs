//! Another policy's pinnings, with the pages and prefetchers that the user chose.

use crate::Policy;
use pinfold_core::{Applied, Decision, Finding, Metric, PageMapping, Prefetchers, Sample, Topology};
use std::time::Duration;

/// Adds the user's page mapping and prefetcher setting to each configuration that another policy requests.
pub struct WithUserSettings {
    policy: Box<dyn Policy>,
    pages: Option<PageMapping>,
    prefetchers: Option<Prefetchers>,
    following_within: Option<Duration>,
}

impl WithUserSettings {
    /// `policy` with these settings; `None` keeps what `policy` says. Pages follow threads that change their node if
    /// that takes at most `following_within`, unless `policy` says otherwise.
    pub fn new(
        policy: Box<dyn Policy>,
        pages: Option<PageMapping>,
        prefetchers: Option<Prefetchers>,
        following_within: Option<Duration>,
    ) -> Self {
        Self {
            policy,
            pages,
            prefetchers,
            following_within,
        }
    }

    fn with_user_settings(&self, mut decision: Decision) -> Decision {
        if let Some(configuration) = &mut decision.configuration {
            configuration.pages = self.pages.or(configuration.pages);
            configuration.prefetchers = self.prefetchers.or(configuration.prefetchers);
            configuration.following_within = configuration.following_within.or(self.following_within);
        }
        decision
    }
}

impl Policy for WithUserSettings {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn start(&mut self, topology: &Topology, metrics: &[Metric]) -> Decision {
        let decision = self.policy.start(topology, metrics);
        self.with_user_settings(decision)
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        let decision = self.policy.decide(topology, sample, applied);
        self.with_user_settings(decision)
    }

    fn end(&mut self) -> Vec<Finding> {
        self.policy.end()
    }
}
