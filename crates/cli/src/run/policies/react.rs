//! `--policy react` and `react:tree`: what chooses the configurations of regions, and the report of what each got.

use super::{Built, Listener, PolicyEntry, PolicyRequest, Prepared, Regions, Setting, belief, learned};
use crate::run::place::Where;
use anyhow::{Context, Result, bail};
use clap::{Args, Command, FromArgMatches};
use pinfold_core::{Finding, RegionChoice};
use pinfold_policy::belief::Belief;
use pinfold_policy::react::{Chooser, ReactModel, ReactOptions};
use pinfold_runtime::{DecidesOn, Record};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// A belief plans the trials.
pub(super) struct React;

/// The tree of a model of the machine chooses.
pub(super) struct ReactTree;

#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options of --policy react:tree")]
struct Flags {
    /// The model that chooses the configuration of each parallel region, as `pinfold learn train react` writes it for a
    /// machine.
    #[arg(long, value_name = "FILE.json")]
    react_model: Option<PathBuf>,
}

impl PolicyEntry for React {
    fn name(&self) -> &'static str {
        "react"
    }

    fn about(&self) -> &'static str {
        "tries the threads, pages and prefetchers of each parallel region of an OpenMP program that a belief expects most of, \
         and gives it the fastest"
    }

    fn explained(&self) -> &'static str {
        "tries, for each parallel region, what a belief expects most of, and gives it the fastest: its threads, their number, \
         its prefetchers, and the pages of the program"
    }

    fn flags(&self, command: Command) -> Command {
        belief::Flags::augment_args(command)
    }

    fn decides_on(&self) -> DecidesOn {
        DecidesOn::Regions
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let (name, belief) = belief::Flags::from_arg_matches(request.flags)?.named()?;
        check(self, request)?;
        Ok(Prepared::new(move |setting| {
            let note = planned_by(&name, &belief, setting.topology.name());
            Ok(built(Chooser::Belief(belief.clone()), note, setting))
        }))
    }
}

impl PolicyEntry for ReactTree {
    fn name(&self) -> &'static str {
        "react:tree"
    }

    fn about(&self) -> &'static str {
        "profiles each parallel region in up to three learned configurations, and gives it what a learned tree forecasts, as \
         in the paper of Sánchez Barrera and others"
    }

    fn explained(&self) -> &'static str {
        "profiles each parallel region under up to three learned configurations, and gives it what a learned tree forecasts: \
         its threads, their number, its prefetchers, and the pages of the program"
    }

    fn flags(&self, command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn decides_on(&self) -> DecidesOn {
        DecidesOn::Regions
    }

    fn is_compared(&self) -> bool {
        false
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let flags = Flags::from_arg_matches(request.flags)?;
        check(self, request)?;
        let Some(file) = flags.react_model else {
            bail!(
                "--policy react:tree needs a model of the regions on this machine: train one with `pinfold learn train react`, \
                 and give it with --react-model FILE.json, or take --policy react, which needs none"
            );
        };
        let (name, model) = learned::read::<ReactModel>(&file, "model")?;
        Ok(Prepared::new(move |setting| {
            model
                .check(setting.topology)
                .with_context(|| format!("cannot use the model {name}"))?;
            let note = format!(
                "Regions get their configurations from the model {name}, learned for {} from {} programs. Models that are \
                 learned in the same way reach {:.0} % of the possible gain (as a logarithm) for other programs.",
                model.machine,
                model.trained.programs.len(),
                100.0 * model.score.nested
            );
            Ok(built(Chooser::Model(model.clone()), note, setting))
        }))
    }
}

/// Refuses what single regions cannot have.
fn check(entry: &dyn PolicyEntry, request: &PolicyRequest<'_>) -> Result<()> {
    let policy = entry.name();
    if matches!(request.place, Where::Scripted(_)) {
        bail!(
            "a scripted machine has no parallel regions for --policy {policy}; name a model (`pinfold machines` lists them), \
             or another policy"
        );
    }
    let stays = [
        (request.arguments.changes.outlive, "--outlive"),
        (request.arguments.changes.keep_pinned, "--keep-pinned"),
    ];
    if let Some((_, option)) = stays.into_iter().find(|(given, _)| *given) {
        bail!(
            "with --policy {policy} threads are placed at the borders of regions while pinfold runs, so nothing can stay: \
             leave {option} out"
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
        bail!("--policy {policy} {does} itself, so {option} cannot be kept; leave it out");
    }
    Ok(())
}

/// The policy, with a note for the user.
fn built(chooser: Chooser, note: String, setting: &Setting<'_>) -> Built {
    let common = setting.common.clone();
    let policy = pinfold_policy::react::React::new(ReactOptions {
        times: common.times,
        metric: common.metric,
        skip: common.skip,
        chooser,
    });
    Built {
        notes: vec![note],
        listener: Box::new(Choices),
        regions: Regions::Needed,
        ..Built::new(policy)
    }
}

/// What plans the trials, and whether it knows the machine.
fn planned_by(name: &str, belief: &Belief, machine: &str) -> String {
    if belief.origin.programs.is_empty() {
        return "Nothing is known of configurations before the first trial (--belief none).".to_owned();
    }
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
