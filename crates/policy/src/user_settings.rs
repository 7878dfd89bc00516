//! A policy that places threads, with pages and prefetchers as the user gave them.

use crate::Policy;
use pinfold_core::{Applied, Decision, Finding, Metric, PageMapping, Prefetchers, Sample, Topology};
use std::time::Duration;

/// Has the given page mapping and prefetcher setting in every configuration that another policy asks for.
pub struct WithUserSettings {
    policy: Box<dyn Policy>,
    pages: Option<PageMapping>,
    prefetchers: Option<Prefetchers>,
    following_within: Option<Duration>,
}

impl WithUserSettings {
    /// `policy`, with these; `None` leaves to `policy` what it says. Pages follow threads that change their node where that
    /// takes no longer than `following_within`, unless `policy` says otherwise.
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
