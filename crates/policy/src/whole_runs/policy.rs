//! One run in the placement of its plan, from its first instruction on.
//!
//! Nothing is measured while the program runs. A run that takes longer than its plan allows is unpinned.

use super::plan::{Place, Plan};
use crate::Policy;
use pinfold_core::{
    Applied, ChoiceCode, ComparedCode, Configuration, Decision, Finding, Metric, MetricCode, NoteCode, ProposerCode,
    PuSet, Sample, Topology, sources,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The interval of readings, for the record.
const READING: Duration = Duration::from_secs(1);

/// What a run is given.
#[derive(Clone, Debug)]
pub struct WholeRunOptions {
    /// The plan.
    pub plan: Plan,
    /// The PUs of its area; `None` for an unpinned run.
    pub pus: Option<PuSet>,
    /// Whether the user has asked for `--metric run`.
    pub is_requested: bool,
}

/// The policy.
#[derive(Debug)]
pub struct WholeRun {
    options: WholeRunOptions,
    /// When the run is unpinned; `None` for never, or after that.
    stop_at: Option<Duration>,
}

impl WholeRun {
    /// The policy of one run.
    pub fn new(options: WholeRunOptions) -> Self {
        let place = options.plan.place.as_ref().filter(|_| options.pus.is_some());
        Self {
            stop_at: place.map(|place| place.stop_after),
            options,
        }
    }

    /// The area that is kept or tried, with its PUs.
    fn place(&self) -> Option<(&Place, &PuSet)> {
        self.options.plan.place.as_ref().zip(self.options.pus.as_ref())
    }

    /// The findings at the start: the metric, the area and what is known of it.
    fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![Finding::MetricChosen {
            metric: Some(sources::RUN.code.to_owned()),
            code: if self.options.is_requested {
                MetricCode::AskedFor
            } else {
                MetricCode::EarlierRuns
            },
            why: self.options.plan.why.clone(),
            function: None,
        }];
        let Some((place, pus)) = self.place() else {
            return findings;
        };
        let propose = |within: Option<&PuSet>| Finding::Proposed {
            pus: None,
            within: within.cloned(),
            pages: None,
            regions: BTreeMap::new(),
            by: if within.is_some() {
                ProposerCode::Topology
            } else {
                ProposerCode::Known
            },
            gain: None,
            why: self.options.plan.why.clone(),
        };
        findings.extend([propose(None), propose(Some(pus))]);
        if let Some(gained) = &place.gained {
            findings.push(Finding::Compared {
                candidate: 1,
                with: 0,
                gain: Some(gained.times - 1.0),
                error: Some(gained.error),
                turns: gained.turns,
                rate: Some(gained.rate),
                measured: Duration::ZERO,
                code: ComparedCode::Faster,
            });
            findings.push(Finding::Chosen {
                candidate: 1,
                gain_over_first: Some(gained.times - 1.0),
                gain_over_worst: None,
                code: ChoiceCode::KnownProgram,
                why: self.options.plan.why.clone(),
            });
        }
        findings
    }
}

impl Policy for WholeRun {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn start(&mut self, _topology: &Topology, _metrics: &[Metric]) -> Decision {
        Decision {
            configuration: Some(Configuration {
                within: self.options.pus.clone(),
                ..Configuration::default()
            }),
            function: None,
            wait: self.stop_at.unwrap_or(READING).min(READING),
            findings: self.findings(),
        }
    }

    fn decide(&mut self, _topology: &Topology, sample: &Sample, _applied: &Applied) -> Decision {
        let is_over = self.stop_at.is_some_and(|stop_at| sample.at >= stop_at);
        if !is_over {
            let left = self
                .stop_at
                .map_or(READING, |stop_at| stop_at.saturating_sub(sample.at));
            return Decision {
                configuration: None,
                function: None,
                wait: left.clamp(Duration::from_millis(1), READING),
                findings: vec![],
            };
        }
        self.stop_at = None;
        let area = self
            .place()
            .map_or_else(String::new, |(place, _)| place.area.to_string());
        Decision {
            configuration: Some(Configuration::default()),
            function: None,
            wait: READING,
            findings: vec![Finding::Note {
                code: NoteCode::Stopped,
                text: format!(
                    "The run takes longer than expected in {area}, so the program is unpinned: the area is slow, or the \
                     program does another work than in earlier runs."
                ),
            }],
        }
    }

    fn end(&mut self) -> Vec<Finding> {
        vec![]
    }
}
