//! `pinfold run --policy sam`: what is counted, which thresholds are used, and which abilities are left out.

use super::PolicyName;
use crate::activities;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use pinfold_calibrate::activities::{of_machine, thresholds_of_model};
use pinfold_calibrate::thresholds::Clock;
use pinfold_linux::counters::Request;
use pinfold_policy::sam::{MapperEvents, MapperOptions, Thresholds};
use pinfold_sim::model::Model;
use std::path::PathBuf;

/// What can be said of `--policy sam`.
#[derive(Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// With --policy sam: from which rates on sharing and memory are too much [default: the paper's, and of a simulated
    /// machine's memory what the model says].
    #[arg(long, value_name = "FILE.toml")]
    thresholds: Option<PathBuf>,

    /// With --policy sam: do without what it does beyond the paper.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    without: Vec<Ability>,
}

/// What the mapper does beyond the paper.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ability {
    /// Threads that were moved stay a while.
    Hysteresis,
    /// Moves must be expected to gain more than they cost.
    CostGain,
    /// Moves for coherence that did not help are undone.
    Validation,
    /// Threads of a process share until it is seen which of them do.
    LearnGroups,
    /// Threads that share less than the threshold are brought together for a trial.
    FaintSharers,
    /// Threads that use a busy memory are spread before it is saturated, for a trial.
    FaintContention,
    /// Threads go back to where their memory was seen to be local.
    LearnHomes,
    /// The pages of threads that are moved to another node go with them.
    PagesFollow,
    /// All of these.
    All,
}

/// What the policy needs of the machine.
pub(super) struct Prepared {
    pub(super) events: MapperEvents,
    pub(super) thresholds: Thresholds,
    pub(super) mapper: MapperOptions,
    pub(super) pages_follow: bool,
}

impl Arguments {
    /// Whether `--metric` tells what stands for the activities, and not what shows progress.
    pub(super) fn names_activities(policy: PolicyName, metric: &str) -> bool {
        policy == PolicyName::Sam && metric.contains('=')
    }

    /// Options that are only for `sam` must not be given with another policy.
    pub(super) fn refuse(&self) -> Result<()> {
        let given = [
            (self.thresholds.is_some(), "--thresholds"),
            (!self.without.is_empty(), "--without"),
        ];
        match given.iter().find(|(given, _)| *given) {
            Some((_, option)) => bail!("{option} is for --policy sam; add that, or leave {option} out"),
            None => Ok(()),
        }
    }

    /// For a program that really runs here; with what must be counted.
    pub(super) fn here(&self, metric: &str) -> Result<(Prepared, Vec<Request>)> {
        let named = Self::names_activities(PolicyName::Sam, metric);
        let (events, requests) = if named {
            activities::named(metric)?
        } else {
            activities::here()?
        };
        if named && self.thresholds.is_none() {
            bail!(
                "--metric {metric} counts by the nanosecond of processor time, for which there are no thresholds; \
                 name a file of them with --thresholds (`pinfold calibrate --thresholds --metric {metric}` measures \
                 them)"
            );
        }
        let by = if named { Clock::Nanosecond } else { Clock::Cycle };
        let thresholds = self.thresholds_or(by, || Ok(Thresholds::paper()))?;
        Ok((self.prepared(events, thresholds), requests))
    }

    /// For a simulated machine.
    pub(super) fn simulated(&self, model: &Model) -> Result<Prepared> {
        let thresholds = self.thresholds_or(Clock::Cycle, || Ok(thresholds_of_model(model)))?;
        Ok(self.prepared(of_machine(&model.name)?, thresholds))
    }

    fn thresholds_or(&self, by: Clock, otherwise: impl FnOnce() -> Result<Thresholds>) -> Result<Thresholds> {
        self.thresholds
            .as_deref()
            .map_or_else(otherwise, |file| activities::read_thresholds(file, by))
    }

    fn prepared(&self, events: MapperEvents, thresholds: Thresholds) -> Prepared {
        let with = |ability| {
            !self
                .without
                .iter()
                .any(|&without| without == ability || without == Ability::All)
        };
        Prepared {
            events,
            thresholds,
            pages_follow: with(Ability::PagesFollow),
            mapper: MapperOptions {
                hysteresis: with(Ability::Hysteresis),
                cost_gain: with(Ability::CostGain),
                validation: with(Ability::Validation),
                learn_groups: with(Ability::LearnGroups),
                faint_sharers: with(Ability::FaintSharers),
                faint_contention: with(Ability::FaintContention),
                learn_homes: with(Ability::LearnHomes),
            },
        }
    }
}
