//! `--policy hints:rules`: a learned rule, or what the behaviour database knows of the program, names an affinity hint.
//! Also the rules and the database, for `hints`.

use super::{Built, Initial, Listener, PolicyEntry, PolicyRequest, Prepared, Setting};
use crate::run::number;
use crate::{behaviour, rebuild};
use anyhow::{Result, bail};
use clap::{Args, Command, FromArgMatches};
use pinfold_core::hint::{AffinityHint, ParseAffinityHintError};
use pinfold_core::{Finding, Metric};
use pinfold_linux::counters::Request;
use pinfold_policy::{HintOptions, NoHintError, Normalised, RuleMetric, Rules};
use pinfold_runtime::{Record, Recorder};
use pinfold_store::{LearnedRules, Learner, MachineKey, ProgramKey, Store};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

pub(super) struct HintRules;

/// The flags of `hints` and `hints:rules`.
#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options of --policy hints:rules")]
pub(super) struct RulesFlags {
    /// The learned rules [default: those that were learned from the behaviour database].
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Rebuild the rules when the database has grown by this many percent; 0 for never.
    #[arg(long, default_value = "20", value_parser = number::parse_growth, value_name = "PERCENT")]
    rebuild: f64,
}

#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options of --policy hints:rules")]
struct Flags {
    /// Observe an unknown program in the placement of this affinity hint, such as SLP for distributed; unpinned leaves
    /// the threads to the operating system meanwhile [default: unpinned].
    #[arg(long, value_name = "WHERE")]
    observe: Option<ObserveName>,

    /// Keep the hint of the rules without a second sample that shows whether it helps.
    #[arg(long, hide = true)]
    unverified: bool,
}

/// What `--observe` takes: a hint, or nothing for `unpinned`.
#[derive(Clone, Copy)]
struct ObserveName(Option<AffinityHint>);

impl FromStr for ObserveName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unpinned" {
            return Ok(Self(None));
        }
        let hint = text.parse().map(|hint| Self(Some(hint)));
        hint.map_err(|error: ParseAffinityHintError| format!("{error}; or unpinned"))
    }
}

impl PolicyEntry for HintRules {
    fn name(&self) -> &'static str {
        "hints:rules"
    }

    fn about(&self) -> &'static str {
        "looks once and follows a learned rule, or what is known of the program, as in AutoFinity's paper"
    }

    fn explained(&self) -> &'static str {
        "looks at what the program does once and follows a learned rule, or what is known of the program"
    }

    fn flags(&self, command: Command) -> Command {
        RulesFlags::augment_args(Flags::augment_args(command))
    }

    fn is_compared(&self) -> bool {
        false
    }

    fn ready(&self, request: &PolicyRequest<'_>) -> Result<()> {
        let flags = RulesFlags::from_arg_matches(request.flags)?;
        let simulated = request.place.simulated().is_some();
        let usual = request.arguments.behaviour.rules_for_run(simulated)?;
        if behaviour::read_rules(flags.rules.as_deref(), usual.as_deref())?.is_some() {
            return Ok(());
        }
        match usual {
            Some(usual) => bail!(
                "there are no learned rules in `{}`; name some with --rules, or make them with `pinfold db rebuild`",
                usual.display()
            ),
            None => bail!("there are no learned rules without a behaviour database; name rules with --rules"),
        }
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let flags = Flags::from_arg_matches(request.flags)?;
        let of_rules = RulesFlags::from_arg_matches(request.flags)?;
        Ok(Prepared::new(move |setting| build(&flags, &of_rules, setting)))
    }
}

/// What is known for a run.
pub(super) struct Knowledge {
    pub(super) rules: Option<LearnedRules>,
    /// The file in which rules are looked for; `None` without a database.
    usual: Option<PathBuf>,
    /// `None` where the database cannot be used.
    store: Option<Store>,
    key: ProgramKey,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

impl Knowledge {
    /// Reads the rules and opens the database. `policy` is the one that needs them, in messages.
    pub(super) fn read(flags: &RulesFlags, setting: &Setting<'_>, policy: &str) -> Result<Self> {
        let database = &setting.arguments.behaviour;
        let machine = MachineKey::new(setting.topology, setting.simulated);
        let Some(key) = setting.program.key(machine.clone())? else {
            let number = setting.program.number();
            bail!(
                "--policy {policy} is about one program, and there are {number}; give one recording, or another policy"
            );
        };
        let usual = database.rules_for_run(machine.simulated)?;
        let rules = behaviour::read_rules(flags.rules.as_deref(), usual.as_deref())?;
        if let Some(learned) = &rules {
            NoHintError::check(&learned.rules)?;
        }
        let (store, notes) = database.open_for_run(setting.topology, &machine)?;
        Ok(Self {
            rules,
            usual,
            store,
            key,
            notes,
        })
    }

    /// The events that the rules use.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.rules
            .as_ref()
            .map(|learned| requests(&learned.rules))
            .unwrap_or_default()
    }

    /// Keeps what is sampled in the database.
    pub(super) fn listener(self, flags: &RulesFlags, setting: &Setting<'_>) -> Box<dyn Listener> {
        let Self { rules, store, key, .. } = self;
        Box::new(Learning {
            learner: store.map(|store| Learner::new(store, key, rules.as_ref(), behaviour::now)),
            rules: rules.map(|learned| learned.rules),
            database: setting.arguments.behaviour.clone(),
            // Rules that the user names are not learned from the database.
            rebuild: (flags.rules.is_none() && flags.rebuild != 0.0).then_some(flags.rebuild),
        })
    }
}

fn build(flags: &Flags, of_rules: &RulesFlags, setting: &Setting<'_>) -> Result<Built> {
    let mut known = Knowledge::read(of_rules, setting, "hints:rules")?;
    let common = setting.common.clone();
    let options = HintOptions {
        times: common.times,
        metric: common.metric,
        skip: common.skip,
        threads: common.threads,
        observe: flags.observe.and_then(|observe| observe.0),
        known: match &mut known.store {
            Some(store) => store.known_hints(&known.key, known.rules.as_ref())?,
            None => BTreeMap::new(),
        },
        rules: known.rules.as_ref().map(|learned| learned.rules.clone()),
        verify: !flags.unverified,
    };
    if options.rules.is_none() {
        known.notes.push(match &known.usual {
            Some(usual) => format!(
                "There are no learned rules in `{}`, so a program that is not known stays where it is observed. `pinfold db \
                 rebuild` makes rules of what was observed; --rules names others.",
                usual.display()
            ),
            None => "There are no learned rules without a behaviour database, so the program stays where it is observed. --rules \
                     names rules, and --db a database."
                .to_owned(),
        });
    }
    let expected = options.expected().map(|known| known.why.clone());
    Ok(Built {
        initial: options.first_pinning(setting.topology).map(|pinning| Initial {
            pinning,
            why: expected.unwrap_or_else(|| "--observe asks for it".to_owned()),
        }),
        optional_requests: known.requests(),
        notes: std::mem::take(&mut known.notes),
        listener: known.listener(of_rules, setting),
        ..Built::new(pinfold_policy::Hints::new(options))
    })
}

/// The metric by which the metrics of rules are divided.
const INSTRUCTIONS: &str = "event:instructions";

/// The metrics that rules use, and the one by which they are divided.
fn looked_at(rules: &Rules) -> Vec<&str> {
    let mut names: Vec<&str> = rules.metrics().iter().map(|metric| metric.name.as_str()).collect();
    let divided = |metric: &RuleMetric| metric.normalised == Normalised::PerInstruction;
    if rules.metrics().iter().any(divided) && !names.contains(&INSTRUCTIONS) {
        names.push(INSTRUCTIONS);
    }
    names
}

/// The events that rules use.
fn requests(rules: &Rules) -> Vec<Request> {
    let events = looked_at(rules)
        .into_iter()
        .filter_map(|name| name.strip_prefix("event:"));
    events.map(|event| Request::Event(event.to_owned())).collect()
}

/// Writes the run to the behaviour database.
struct Learning {
    rules: Option<Rules>,
    /// `None` where the database cannot be used.
    learner: Option<Learner>,
    database: behaviour::Arguments,
    /// The growth of the database in percent after which the rules are learned again; `None` for never.
    rebuild: Option<f64>,
}

impl Listener for Learning {
    fn begin(&mut self, metrics: &[Metric]) -> Option<String> {
        let rules = self.rules.as_ref()?;
        let counted = |name: &str| !name.starts_with("event:") || metrics.iter().any(|metric| metric.name == name);
        let lacking: Vec<&str> = looked_at(rules).into_iter().filter(|name| !counted(name)).collect();
        (!lacking.is_empty()).then(|| {
            format!(
                "The rules look at {}, which is not counted here; they were made for {}. A condition on it never holds.",
                lacking.join(" and "),
                rules.trained().machines.join(", ")
            )
        })
    }

    fn finding(&mut self, at: Duration, finding: &Finding, record: &Record) -> Option<String> {
        if let Some(learner) = &mut self.learner {
            learner.finding(at, finding, record);
        }
        match finding {
            Finding::Sampled {
                says: Some(says), why, ..
            } => Some(format!("the sample asks for {says}: {}", why.replace('\n', "\n  "))),
            _ => None,
        }
    }

    fn end(&mut self) -> Option<String> {
        rebuild::after_run(self.learner.as_mut()?.end(self.rebuild), &self.database)
    }
}
