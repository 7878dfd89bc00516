//! `--policy react`: the model of regions, and the report of what each region got.

use super::{Built, Listener, PolicyEntry, PolicyRequest, Prepared, Regions, belief, learned};
use crate::run::place::Where;
use anyhow::{Context, Result, bail};
use clap::{Args, Command, FromArgMatches};
use pinfold_core::{Finding, RegionChoice};
use pinfold_policy::belief::Belief;
use pinfold_policy::react::{Chooser, ReactModel, ReactOptions};
use pinfold_runtime::{DecidesOn, Record};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) struct React;

/// The models that are part of pinfold, by simulated machine.
const SHIPPED: [(&str, &str); 2] = [
    ("e5-4650x4", include_str!("../../../../../models/react-e5-4650x4.json")),
    (
        "platinum-8168x2",
        include_str!("../../../../../models/react-platinum-8168x2.json"),
    ),
];

#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options of --policy react")]
struct Flags {
    /// The model that chooses the configuration of each parallel region, as `pinfold learn train react` writes it for a
    /// machine [default: for a simulated machine the model that pinfold ships, if it has one].
    #[arg(long, value_name = "FILE.json")]
    react_model: Option<PathBuf>,
}

impl PolicyEntry for React {
    fn name(&self) -> &'static str {
        "react"
    }

    fn about(&self) -> &'static str {
        "profiles each parallel region of an OpenMP program in a few learned configurations, and gives it the threads, pages and \
         prefetchers with which it is fastest, or which a learned tree forecasts"
    }

    fn explained(&self) -> &'static str {
        "profiles each parallel region under a few learned configurations, and gives it the fastest, or what a learned tree \
         forecasts: its threads, their number, its prefetchers, and the pages of the program"
    }

    fn flags(&self, command: Command) -> Command {
        belief::Flags::augment_args(Flags::augment_args(command))
    }

    fn decides_on(&self) -> DecidesOn {
        DecidesOn::Regions
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let flags = Flags::from_arg_matches(request.flags)?;
        if matches!(request.place, Where::Scripted(_)) {
            bail!(
                "a scripted machine has no parallel regions for --policy react; name a model (`pinfold machines` lists them), or \
                 another policy"
            );
        }
        let planner = belief::Flags::from_arg_matches(request.flags)?;
        let (name, chooser) = match (planner.file(), flags.react_model.as_deref()) {
            (Some(_), Some(_)) => {
                bail!(
                    "a belief and a model of regions cannot both plan the trials; leave --belief or --react-model out"
                )
            }
            (Some(file), None) => {
                let (name, belief) = belief::read(file)?;
                (name, Chooser::Belief(belief))
            }
            (None, requested) => model(requested, request.place)?,
        };
        let stays = [
            (request.arguments.changes.outlive, "--outlive"),
            (request.arguments.changes.keep_pinned, "--keep-pinned"),
        ];
        if let Some((_, option)) = stays.into_iter().find(|(given, _)| *given) {
            bail!(
                "with --policy react threads are placed at the borders of regions while pinfold runs, so nothing can stay: leave \
                 {option} out"
            );
        }
        let given = [
            (request.arguments.pages.mapping.given(), "places pages"),
            (
                request.arguments.simulated.prefetch.map(|_| "--prefetch"),
                "sets prefetchers",
            ),
        ];
        if let Some((option, does)) = given.into_iter().find_map(|(option, does)| Some((option?, does))) {
            bail!("--policy react {does} itself, so {option} cannot be kept; leave it out");
        }
        Ok(Prepared::new(move |setting| {
            if let Chooser::Model(model) = &chooser {
                model
                    .check(setting.topology)
                    .with_context(|| format!("cannot use the model {name}"))?;
            }
            let common = setting.common.clone();
            let policy = pinfold_policy::react::React::new(ReactOptions {
                times: common.times,
                metric: common.metric,
                skip: common.skip,
                chooser: chooser.clone(),
            });
            Ok(Built {
                notes: vec![match &chooser {
                    Chooser::Model(model) => format!(
                        "Regions get their configurations from the model {name}, learned for {} from {} programs. Models that \
                         are learned in the same way reach {:.0} % of the possible gain (as a logarithm) for other programs.",
                        model.machine,
                        model.trained.programs.len(),
                        100.0 * model.score.nested
                    ),
                    Chooser::Belief(belief) => planned_by(&name, belief, setting.topology.name()),
                }],
                listener: Box::new(Choices),
                regions: Regions::Needed,
                ..Built::new(policy)
            })
        }))
    }
}

/// What plans the trials, and whether it knows the machine.
fn planned_by(name: &str, belief: &Belief, machine: &str) -> String {
    let doubt = if belief.knows(machine) {
        ""
    } else {
        " This machine is not one of these, so less is certain before a trial."
    };
    format!(
        "Trials of regions are planned by the belief {name}, learned from {} programs on {}.{doubt}",
        belief.origin.programs.len(),
        belief.origin.machines.join(", ")
    )
}

/// The requested model, or that which pinfold ships for this machine, with its name.
fn model(requested: Option<&Path>, place: &Where<'_>) -> Result<(String, Chooser)> {
    let shipped = || SHIPPED.iter().find(|(machine, _)| place.named() == Some(machine));
    let (name, model): (String, ReactModel) = match (requested, shipped()) {
        (Some(file), _) => learned::read(file, "model")?,
        (None, Some((machine, text))) => {
            let name = format!("models/react-{machine}.json, which pinfold ships");
            let model = text.parse().with_context(|| format!("cannot use the model {name}"))?;
            (name, model)
        }
        (None, None) => bail!(
            "--policy react needs a model of the regions on this machine: train one with `pinfold learn train react`, and give it \
             with --react-model FILE.json, or give a belief with --belief FILE.json (pinfold ships models for the simulated {})",
            SHIPPED.map(|(machine, _)| machine).join(" and ")
        ),
    };
    Ok((name, Chooser::Model(model)))
}

/// Reports what each region got.
struct Choices;

impl Listener for Choices {
    fn finding(&mut self, _at: Duration, finding: &Finding, _record: &Record) -> Option<String> {
        lines(finding)
    }
}

/// What each region got, as lines; `None` for any other finding.
pub(super) fn lines(finding: &Finding) -> Option<String> {
    let Finding::RegionsChosen {
        pages,
        gain,
        program,
        regions,
    } = finding
    else {
        return None;
    };
    let pages = pages.map_or_else(|| "left alone".to_owned(), |pages| pages.to_string());
    let gain = gain.map_or_else(String::new, |gain| {
        format!("; all regions take {:.3} of their time before", 1.0 / (1.0 + gain))
    });
    let program = program.map_or_else(String::new, |program| {
        let (times, error) = (1.0 + program.gain, program.error);
        format!("; the whole program is {times:.2} ± {error:.2} times as fast as before")
    });
    let mut text = format!("regions: pages {pages}{gain}{program}");
    for choice in regions {
        let _ = write!(text, "\n  {}", line(choice));
    }
    Some(text)
}

fn line(choice: &RegionChoice) -> String {
    let threads = match (choice.threads, &choice.pus) {
        (_, None) => "unpinned".to_owned(),
        (Some(threads), Some(_)) => format!("{threads} threads"),
        (None, Some(pus)) => format!("on the CPUs {pus}"),
    };
    let prefetch = choice
        .prefetch
        .map_or_else(String::new, |prefetch| format!(", prefetchers {prefetch}"));
    let times = match (choice.before, choice.after) {
        (Some(before), Some(after)) => format!(" {:.3} of the time before", after / before),
        _ => String::new(),
    };
    format!(
        "{} ({:.1} %): {threads}{prefetch}{times}; {}",
        choice.region,
        choice.share * 100.0,
        choice.why
    )
}
