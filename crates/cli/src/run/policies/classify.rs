//! `--policy classify:forest`: the model, the events that it needs, what the machine can carry, and the report of the
//! forecast.

use super::{Built, Listener, PolicyEntry, PolicyRequest, Prepared, learned};
use crate::activities;
use crate::run::place::Where;
use anyhow::{Context, Result, bail};
use clap::{Args, Command, FromArgMatches};
use pinfold_calibrate::activities::{set_of_machine, with_reads};
use pinfold_calibrate::peaks_of_model;
use pinfold_core::Finding;
use pinfold_files::input;
use pinfold_linux::counters::Request;
use pinfold_policy::classify::{ClassifyOptions, MachinePeaks, PlacementModel};
use pinfold_policy::sam::MapperEvents;
use pinfold_runtime::Record;
use pinfold_sim::model::Model;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) struct ClassifyForest;

#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options of --policy classify:forest")]
pub(super) struct Flags {
    /// The model that forecasts the program, as `pinfold learn train classify` writes it; none only observes the
    /// program [default: the model that pinfold ships].
    #[arg(long, value_name = "FILE.json|none")]
    pub(super) placement_model: Option<PathBuf>,

    /// The model of this machine, as `pinfold calibrate --model` writes it: what its memory and links can carry.
    /// Simulated machines know that of themselves.
    #[arg(long, value_name = "FILE.toml")]
    pub(super) calibrated: Option<PathBuf>,
}

/// The model that pinfold ships, and its name in messages.
const SHIPPED: &str = include_str!("../../../../../models/classify.json");
const SHIPPED_NAME: &str = "models/classify.json, which pinfold ships";

/// What `--placement-model` takes for no model.
const NONE: &str = "none";

impl PolicyEntry for ClassifyForest {
    fn name(&self) -> &'static str {
        "classify:forest"
    }

    fn is_compared(&self) -> bool {
        false
    }

    fn about(&self) -> &'static str {
        "observes the program once and moves its threads and pages only if a learned model says that it is worth it, as in \
         the paper of Denoyelle and others"
    }

    fn explained(&self) -> &'static str {
        "asks a learned model, after one sample, whether placement matters to the program and which strategy suits it"
    }

    fn flags(&self, command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn ready(&self, request: &PolicyRequest<'_>) -> Result<()> {
        if matches!(request.place, Where::Here) {
            activities::here_with_reads()?;
        }
        self.prepare(request).map(drop)
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let flags = Flags::from_arg_matches(request.flags)?;
        let model = model(flags.placement_model.as_deref())?;
        let (counted, why_not) = counted(request.place, flags.calibrated.as_deref())?;
        let notes: Vec<String> = why_not
            .map(|why| format!("What a placement model sees cannot be counted, so no strategy is forecast: {why}."))
            .into_iter()
            .chain(model.as_ref().map(|(name, model)| {
                format!(
                    "Forecasts come from the placement model {name}, learned from {}.",
                    model.learned_from()
                )
            }))
            .collect();
        let (events, peaks) = (counted.events, counted.peaks);
        Ok(Prepared {
            requests: counted.requests,
            names_events: false,
            counts: true,
            build: Box::new(move |setting| {
                let common = setting.common.clone();
                let policy = pinfold_policy::classify::Classify::new(ClassifyOptions {
                    times: common.times,
                    metric: common.metric,
                    skip: common.skip,
                    threads: common.threads,
                    model: model.as_ref().map(|(_, model)| model.clone()),
                    peaks,
                    events: events.clone(),
                });
                Ok(Built {
                    notes: notes.clone(),
                    listener: Box::new(Forecasts),
                    ..Built::new(policy)
                })
            }),
        })
    }
}

/// What can be counted, and what the machine can carry.
#[derive(Default)]
pub(super) struct CountedEvents {
    pub(super) events: Option<MapperEvents>,
    pub(super) peaks: MachinePeaks,
    pub(super) requests: Vec<Request>,
}

/// What a placement model can see at a place, and why it sees less than it could. `calibrated` is the model of this
/// machine.
pub(super) fn counted(place: &Where<'_>, calibrated: Option<&Path>) -> Result<(CountedEvents, Option<String>)> {
    if calibrated.is_some() && !matches!(place, Where::Here) {
        bail!("--calibrated is for this machine, and another one is simulated: leave --calibrated or --machine out");
    }
    Ok(match place {
        Where::Here => {
            let peaks = calibrated.map(peaks).transpose()?.unwrap_or_default();
            match activities::here_with_reads() {
                Ok((events, requests)) => (CountedEvents::here(events, requests, peaks), None),
                Err(error) => (CountedEvents::default(), Some(format!("{error:#}"))),
            }
        }
        Where::Simulated(machine) => (
            CountedEvents {
                events: Some(with_reads(&set_of_machine(&machine.name)?)?),
                peaks: peaks_of_model(machine),
                requests: vec![],
            },
            None,
        ),
        Where::Scripted(_) => (
            CountedEvents::default(),
            Some("a scripted machine counts no events".to_owned()),
        ),
        Where::Table(_) => (
            CountedEvents::default(),
            Some("a table of measurements has times and no counts of events".to_owned()),
        ),
    })
}

impl CountedEvents {
    fn here(events: MapperEvents, requests: Vec<Request>, peaks: MachinePeaks) -> Self {
        Self {
            events: Some(events),
            peaks,
            requests,
        }
    }
}

/// The requested model with its name; `None` for none.
pub(super) fn model(requested: Option<&Path>) -> Result<Option<(String, PlacementModel)>> {
    match requested {
        None => {
            let model = SHIPPED.parse();
            let model = model.with_context(|| format!("cannot use the placement model {SHIPPED_NAME}"))?;
            Ok(Some((SHIPPED_NAME.to_owned(), model)))
        }
        Some(none) if none == Path::new(NONE) => Ok(None),
        Some(file) => Ok(Some(learned::read(file, "placement model")?)),
    }
}

/// What a machine can carry, by the file of its model.
fn peaks(file: &Path) -> Result<MachinePeaks> {
    let name = file.display().to_string();
    let text =
        input::text(file, input::MOST).with_context(|| format!("cannot read the model `{name}` of this machine"))?;
    let model = Model::parse(&name, &text).context("`pinfold calibrate --model` writes the model of this machine")?;
    Ok(peaks_of_model(&model))
}

/// Reports what the model says.
pub(super) struct Forecasts;

impl Listener for Forecasts {
    fn finding(&mut self, _at: Duration, finding: &Finding, _record: &Record) -> Option<String> {
        let Finding::Forecast { strategies, why, .. } = finding else {
            return None;
        };
        let mut text = format!("forecast: {why}");
        for one in strategies.iter().skip(1) {
            let interval = match (one.low, one.high) {
                (Some(low), Some(high)) => format!(" ({low:.2} to {high:.2})"),
                _ => String::new(),
            };
            let (threads, pages, ratio) = (one.threads, one.pages, one.time_ratio);
            let _ = write!(text, "\n  {threads} with {pages}: {ratio:.2}{interval} of the time");
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_that_ships_can_be_read_and_is_small() {
        let (_, model) = model(None).unwrap().unwrap();
        assert!(SHIPPED.len() <= 200 << 10, "{} bytes", SHIPPED.len());
        assert!(model.trained.programs.len() >= 40, "{}", model.learned_from());
    }

    #[test]
    fn none_is_no_model() {
        assert!(model(Some(Path::new(NONE))).unwrap().is_none());
    }
}
