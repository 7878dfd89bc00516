//! `--policy hints` and `classify`: views of `auto`. They have its belief, its turns and its budget, and fewer candidates:
//! the affinity hints, or the strategies of threads and pages. The papers' own algorithms are `hints:rules` and
//! `classify:forest`.

use super::{Built, PolicyEntry, PolicyRequest, Prepared, Setting};
use super::{auto, belief, classify, hint_rules};
use crate::run::place::Where;
use anyhow::Result;
use clap::{Args, Command, FromArgMatches};
use pinfold_policy::auto::{Auto, AutoOptions, AutoTimes, CountOptions, Learned, Space};
use pinfold_policy::belief::Belief;
use std::sync::Arc;

/// The affinity hints.
pub(super) struct Hints;

/// The strategies of threads and pages.
pub(super) struct Classify;

impl PolicyEntry for Hints {
    fn name(&self) -> &'static str {
        "hints"
    }

    fn about(&self) -> &'static str {
        "as auto, with the placements of the eight affinity hints"
    }

    fn explained(&self) -> &'static str {
        "compares the placements of affinity hints in turns with the unpinned program, in the order in which a belief expects \
         most of them"
    }

    fn flags(&self, command: Command) -> Command {
        belief::Flags::augment_args(hint_rules::RulesFlags::augment_args(command))
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let flags = hint_rules::RulesFlags::from_arg_matches(request.flags)?;
        let view = View::new(Space::Hints, request)?;
        Ok(Prepared::new(move |setting| {
            let known = hint_rules::Knowledge::read(&flags, setting, "hints")?;
            let mut options = view.options(setting);
            options.learned.rules = known.rules.as_ref().map(|learned| learned.rules.clone());
            Ok(Built {
                optional_requests: known.requests(),
                notes: known.notes.clone(),
                listener: known.listener(&flags, setting),
                ..Built::new(Auto::new(options))
            })
        }))
    }
}

impl PolicyEntry for Classify {
    fn name(&self) -> &'static str {
        "classify"
    }

    fn about(&self) -> &'static str {
        "as auto, with four strategies of threads and pages, and a learned model that says whether any of them matters"
    }

    fn explained(&self) -> &'static str {
        "compares four strategies of threads and pages in turns with the unpinned program, in the order in which a belief and a \
         learned model expect most of them"
    }

    fn flags(&self, command: Command) -> Command {
        belief::Flags::augment_args(classify::Flags::augment_args(command))
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let flags = classify::Flags::from_arg_matches(request.flags)?;
        let view = View::new(Space::Strategies, request)?;
        let model = classify::model(flags.placement_model.as_deref())?.map(|(_, model)| model);
        // Without events there is no forecast, and everything else.
        let (counted, _) = classify::counted(request.place, flags.calibrated.as_deref())?;
        let here = matches!(request.place, Where::Here);
        Ok(Prepared::new(move |setting| {
            let mut options = view.options(setting);
            options.learned.model.clone_from(&model);
            options.counts = CountOptions {
                events: counted.events.clone(),
                thresholds: None,
                peaks: counted.peaks,
            };
            Ok(Built {
                optional_requests: if here { counted.requests.clone() } else { vec![] },
                listener: Box::new(classify::Forecasts),
                ..Built::new(Auto::new(options))
            })
        }))
    }
}

/// What both have in common.
struct View {
    space: Space,
    times: AutoTimes,
    belief: Arc<Belief>,
}

impl View {
    fn new(space: Space, request: &PolicyRequest<'_>) -> Result<Self> {
        let (_, belief) = belief::Flags::from_arg_matches(request.flags)?.named()?;
        Ok(Self {
            space,
            times: auto::times(request.flags, request.arguments),
            belief: Arc::new(belief),
        })
    }

    fn options(&self, setting: &Setting<'_>) -> AutoOptions {
        let common = setting.common.clone();
        AutoOptions {
            space: self.space,
            times: self.times,
            metric: common.metric,
            skip: common.skip,
            threads: common.threads,
            moves_pages: setting.pages.is_none(),
            learned: Learned {
                belief: Arc::clone(&self.belief),
                ..Learned::default()
            },
            ..AutoOptions::default()
        }
    }
}
