//! `--policy auto`: all policies as one. What earlier runs found is read from the behaviour database, and what this one
//! finds is kept there.

use super::{Built, Initial, Listener, PolicyEntry, PolicyRequest, Prepared, Program, Regions, Setting};
use super::{belief, classify, react};
use crate::behaviour;
use crate::console;
use crate::program::executable;
use crate::run::place::Where;
use crate::run::whole_runs::{self, Runs};
use anyhow::{Result, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use pinfold_calibrate::activities::thresholds_of_model;
use pinfold_core::{Finding, Metric};
use pinfold_policy::auto::{AutoOptions, AutoTimes, CountOptions, Learned, Source as Asked, Space};
use pinfold_policy::sam::Thresholds;
use pinfold_runtime::{Record, Recorder};
use pinfold_store::{MachineKey, PlacementLearner, ProgramKey, Store};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Auto;

#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options of --policy auto")]
struct Flags {
    /// Do not ask these for placements, to see what each is worth.
    #[arg(long, hide = true, value_enum, value_delimiter = ',', value_name = "LIST")]
    do_not_ask: Vec<Source>,

    /// On a simulated machine, also give each parallel region the placement in which it was fastest. On this machine
    /// that is always tried, where a program reports its regions.
    #[arg(long, hide = true)]
    by_region: bool,
}

/// Who proposes placements.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Source {
    /// The placement model.
    Model,
    /// Learned rules for affinity hints.
    Rules,
    /// What is counted: SAM's mapper, and memory that is used unevenly.
    Counts,
    /// The topology: the placements with a name, and those that differ most.
    Topology,
    /// The neighbourhood of the best placement.
    Neighbours,
    /// The times of parallel regions: each where it was fastest.
    Regions,
    /// Anybody who would move pages to another mapping.
    Pages,
}

impl Source {
    /// The same for the policy; `None` where the policy is given nothing of it.
    fn asked(self) -> Option<Asked> {
        match self {
            Self::Counts => Some(Asked::Counts),
            Self::Topology => Some(Asked::Topology),
            Self::Neighbours => Some(Asked::Neighbours),
            Self::Regions => Some(Asked::Regions),
            Self::Model | Self::Rules | Self::Pages => None,
        }
    }
}

impl Flags {
    fn asks(&self, source: Source) -> bool {
        !self.do_not_ask.contains(&source)
    }
}

impl PolicyEntry for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn about(&self) -> &'static str {
        "measures the program as it is, tries what the other policies propose in turns with that, keeps only what is faster, and \
         remembers it"
    }

    fn explained(&self) -> &'static str {
        "measures the program unpinned, compares what the other policies propose in turns with that, and keeps only what is faster"
    }

    fn flags(&self, command: Command) -> Command {
        belief::Flags::augment_args(classify::Flags::augment_args(Flags::augment_args(command)))
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let flags = Flags::from_arg_matches(request.flags)?;
        let times = times(request.flags, request.arguments);
        let of_model = classify::Flags::from_arg_matches(request.flags)?;
        let model = classify::model(of_model.placement_model.as_deref())?.map(|(_, model)| model);
        let model = model.filter(|_| flags.asks(Source::Model));
        // A machine whose events are not known has no forecasts, and everything else.
        let (counted, _) = match of_model.calibrated.as_deref() {
            None => classify::counted(request.place, None).unwrap_or_default(),
            calibrated => classify::counted(request.place, calibrated)?,
        };
        let (_, belief) = belief::Flags::from_arg_matches(request.flags)?.named()?;
        let belief = Arc::new(belief);
        let here = matches!(request.place, Where::Here);
        let thresholds = match request.place {
            Where::Here => Some(Thresholds::paper()),
            Where::Simulated(model) => Some(thresholds_of_model(model)),
            Where::Scripted(_) | Where::Table(_) => None,
        };
        // Threads are placed at the borders of regions while pinfold runs, so nothing of that can stay.
        let stays = request.arguments.changes.outlive || request.arguments.changes.keep_pinned;
        let possible = match request.place {
            Where::Here => !stays,
            Where::Simulated(_) | Where::Table(_) => flags.by_region,
            Where::Scripted(_) if flags.by_region => {
                bail!(
                    "a scripted machine has no parallel regions for --by-region; name a model (`pinfold machines` lists them)"
                )
            }
            Where::Scripted(_) => false,
        };
        let by_region = possible && flags.asks(Source::Regions);
        let optional = counted.requests;
        let counts = CountOptions {
            events: counted.events,
            thresholds,
            peaks: counted.peaks,
        };
        Ok(Prepared::new(move |setting| {
            // Near a device regions are not placed: threads that the agent releases get the program's first mask, and
            // not the whole machine's.
            let by_region = by_region && setting.near.is_none();
            let unasked = flags.do_not_ask.iter().filter_map(|source| source.asked());
            let no_regions = (!by_region).then_some(Asked::Regions);
            let options = AutoOptions {
                space: Space::Everything,
                times,
                metric: setting.common.metric.clone(),
                skip: setting.common.skip.clone(),
                threads: setting.common.threads,
                near: setting.near.cloned(),
                known: BTreeMap::new(),
                learned: Learned {
                    belief: Arc::clone(&belief),
                    rules: None,
                    model: model.clone(),
                },
                left_out: unasked.chain(no_regions).collect(),
                counts: counts.clone(),
                moves_pages: setting.pages.is_none() && flags.asks(Source::Pages),
            };
            let built = build(options, setting, flags.asks(Source::Rules))?;
            Ok(Built {
                regions: if by_region { Regions::Optional } else { Regions::No },
                optional_requests: if here { optional.clone() } else { vec![] },
                ..built
            })
        }))
    }
}

/// Windows follow from the program's metric. What the user says of times are limits.
pub(super) fn times(flags: &ArgMatches, arguments: &crate::run::Arguments) -> AutoTimes {
    let given = |name: &str| flags.value_source(name) == Some(ValueSource::CommandLine);
    let usual = AutoTimes::default();
    let probe = arguments.times.probe;
    let longest = if given("probe") { probe } else { usual.longest };
    AutoTimes {
        initialise: arguments.times.initialise.unwrap_or(usual.initialise),
        settle: arguments.times.warm_up.unwrap_or(usual.settle),
        shortest: usual.shortest.min(longest),
        longest,
        line: probe,
        interval: arguments.times.interval.min(longest),
    }
}

/// The policy. `rules`: whether learned rules are asked.
fn build(mut options: AutoOptions, setting: &Setting<'_>, rules: bool) -> Result<Built> {
    let machine = MachineKey::new(setting.topology, setting.simulated);
    let key = match setting.program {
        // A program that may be executed and not read has no key, and is not remembered.
        Program::Command(command) => {
            executable(&command[0])?;
            setting.program.key(machine).ok().flatten()
        }
        _ => setting.program.key(machine)?,
    };
    let mut notes = vec![];
    let mut listener = Outcome {
        learner: None,
        runs: None,
    };
    if let Some(near) = setting.near {
        // What is known was learned from programs that began on the whole machine, and the next run may have no device.
        options.learned.model = None;
        return Ok(Built {
            first_pages: near.pages,
            within: Some(near.pus.clone()),
            listener: Box::new(listener),
            ..Built::new(pinfold_policy::auto::Auto::new(options))
        });
    }
    if let Some(key) = key {
        match remembered(setting, &key, &mut options) {
            Ok((store, more)) => {
                notes.extend(more);
                options.learned.rules = options.learned.rules.filter(|_| rules);
                match Runs::new(setting, &key, !options.known.is_empty(), store.as_ref()) {
                    Ok(runs) => {
                        let why = runs.as_ref().and_then(Runs::why_not_placed);
                        notes.extend(why.map(|why| format!("whole runs: this one is unpinned: {why}")));
                        listener.runs = runs;
                    }
                    Err(error) => notes.push(format!("Whole runs are not compared: {error}.")),
                }
                listener.learner = store.map(|store| PlacementLearner::new(store, key, behaviour::now));
            }
            // The program is placed all the same.
            Err(error) => notes.push(format!(
                "Nothing is remembered of this run: {}.",
                console::whole(&error)
            )),
        }
    }
    if whole_runs::are_requested(&setting.common.metric) && listener.runs.is_none() {
        let policy = whole_runs::not_compared("the program is not remembered, so its runs are not compared");
        return Ok(Built {
            notes,
            ..Built::new(policy)
        });
    }
    if let Some(runs) = listener.runs.as_ref().filter(|runs| runs.decides()) {
        let (policy, within) = (runs.policy(), runs.pus().cloned());
        return Ok(Built {
            within,
            claims_within: true,
            notes,
            listener: Box::new(listener),
            ..Built::new(policy)
        });
    }
    Ok(Built {
        first_pages: options.expected().and_then(|known| known.pages),
        initial: options.expected().and_then(|known| {
            Some(Initial {
                pinning: known.pinning.clone()?,
                why: "an earlier run of this program was fastest so".to_owned(),
            })
        }),
        notes,
        listener: Box::new(listener),
        ..Built::new(pinfold_policy::auto::Auto::new(options))
    })
}

/// Reads what is known of the program; with notes for the user.
fn remembered(
    setting: &Setting<'_>,
    key: &ProgramKey,
    options: &mut AutoOptions,
) -> Result<(Option<Store>, Vec<String>)> {
    let database = &setting.arguments.behaviour;
    let rules = behaviour::read_rules(None, database.rules_for_run(key.machine.simulated)?.as_deref())?;
    let (mut store, notes) = database.open_for_run(setting.topology, &key.machine)?;
    options.learned.rules = rules.map(|rules| rules.rules);
    if let Some(store) = &mut store {
        options.known = store.known_placements(key)?;
    }
    Ok((store, notes))
}

/// Reports the forecast, and keeps what was found.
struct Outcome {
    learner: Option<PlacementLearner>,
    runs: Option<Runs>,
}

impl Listener for Outcome {
    fn begin(&mut self, _metrics: &[Metric]) -> Option<String> {
        let (runs, learner) = self.runs.as_mut().zip(self.learner.as_mut())?;
        learner.keep(|store, _| runs.begin(store));
        None
    }

    fn finding(&mut self, at: Duration, finding: &Finding, record: &Record) -> Option<String> {
        if let Some(learner) = &mut self.learner {
            learner.finding(at, finding, record);
        }
        if let Some(runs) = &mut self.runs {
            runs.finding(finding);
        }
        match finding {
            Finding::Forecast { why, .. } => Some(format!("forecast: {why}")),
            Finding::RegionsChosen { regions, .. } if !regions.is_empty() => Some(react::lines(finding)?),
            _ => None,
        }
    }

    /// A forecast is one proposal of several.
    fn is_detail(&self, finding: &Finding) -> bool {
        matches!(finding, Finding::Forecast { .. })
    }

    fn program_ended(&mut self, record: &Record) -> Option<String> {
        self.runs.as_mut()?.program_ended(record);
        None
    }

    fn end(&mut self) -> Option<String> {
        let learner = self.learner.as_mut()?;
        let mut next = None;
        if let Some(runs) = &mut self.runs {
            learner.keep(|store, _| {
                next = runs.end(store)?;
                Ok(())
            });
        }
        let failed = learner.failed();
        next.or_else(|| Some(format!("What was found could not be remembered: {}.", failed?)))
    }
}
