//! `--policy classify`: the model, the events that it needs, and the report of its forecast.

use super::{Built, Listener, PolicyEntry, PolicyRequest, Prepared};
use crate::activities;
use crate::run::place::Where;
use anyhow::{Context, Result};
use clap::{Args, Command, FromArgMatches};
use pinfold_calibrate::activities::of_machine;
use pinfold_calibrate::peaks_of_model;
use pinfold_core::Finding;
use pinfold_linux::counters::Request;
use pinfold_policy::classify::{ClassifyOptions, MachinePeaks, PlacementModel};
use pinfold_policy::sam::MapperEvents;
use pinfold_runtime::Record;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) struct Classify;

#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options of --policy classify")]
struct Flags {
    /// The model that forecasts the program, as `pinfold learn train classify` writes it. Without one, the program is
    /// observed and stays where it is.
    #[arg(long, value_name = "FILE.json")]
    placement_model: Option<PathBuf>,
}

impl PolicyEntry for Classify {
    fn name(&self) -> &'static str {
        "classify"
    }

    fn about(&self) -> &'static str {
        "observes the program once and moves its threads and pages only if a learned model says that it is worth it"
    }

    fn explained(&self) -> &'static str {
        "asks a learned model, after one sample, whether placement matters to the program and which strategy suits it"
    }

    fn flags(&self, command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let flags = Flags::from_arg_matches(request.flags)?;
        let model = flags.placement_model.as_deref().map(read).transpose()?;
        let (counted, why_not) = match request.place {
            Where::Here => match activities::here() {
                Ok((events, requests)) => (Counted::here(events, requests), None),
                Err(error) => (Counted::default(), Some(format!("{error:#}"))),
            },
            Where::Simulated(machine) => (
                Counted {
                    events: Some(of_machine(&machine.name)?),
                    peaks: peaks_of_model(machine),
                    requests: vec![],
                },
                None,
            ),
            Where::Scripted(_) => (
                Counted::default(),
                Some("a scripted machine counts no events".to_owned()),
            ),
        };
        let notes: Vec<String> = why_not
            .map(|why| format!("What a placement model sees cannot be counted, so no program is moved: {why}."))
            .into_iter()
            .collect();
        let (events, peaks) = (counted.events, counted.peaks);
        Ok(Prepared {
            requests: counted.requests,
            build: Box::new(move |setting| {
                let common = setting.common.clone();
                let policy = pinfold_policy::classify::Classify::new(ClassifyOptions {
                    times: common.times,
                    metric: common.metric,
                    skip: common.skip,
                    threads: common.threads,
                    model: model.clone(),
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
struct Counted {
    events: Option<MapperEvents>,
    peaks: MachinePeaks,
    requests: Vec<Request>,
}

impl Counted {
    fn here(events: MapperEvents, requests: Vec<Request>) -> Self {
        Self {
            events: Some(events),
            peaks: MachinePeaks::default(),
            requests,
        }
    }
}

fn read(file: &Path) -> Result<PlacementModel> {
    let name = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the placement model `{name}`"))?;
    text.parse()
        .with_context(|| format!("cannot use the placement model `{name}`"))
}

/// Reports what the model says.
struct Forecasts;

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
