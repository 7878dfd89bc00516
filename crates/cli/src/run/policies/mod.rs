//! The policies that `--policy` takes, with their flags, needs and reports.
//!
//! A policy is a file of this folder with a `PolicyEntry`, and a line in `POLICIES`. What it decides is a
//! `pinfold_policy::Policy`; the entry says by which name and flags it is chosen, what it needs of a machine, how it is
//! built, and how its own findings are reported (CONTRIBUTING.md has the recipe).
//!
//! A run goes through three steps:
//!
//! 1. `Arguments::chosen` finds the entry and refuses the flags of other policies;
//! 2. `PolicyEntry::prepare` checks the flags and says what must be counted, before the program is known;
//! 3. `Prepared::build` makes the policy for one program.

mod auto;
mod autopin;
mod belief;
mod built;
mod classify;
mod fixed;
mod hint;
mod hint_rules;
mod learned;
mod named;
mod none;
mod python;
mod react;
mod sam;
#[cfg(test)]
mod toy;
mod unchanged;
mod views;

use super::experiments;
use super::place::Where;
use anyhow::{Result, bail};
use built::Initial;
pub(super) use built::{Build, Built, Common, Listener, Prepared, Program, Regions, Setting};
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use pinfold_runtime::{DecidesOn, PolicyKind};
use std::env;
use std::ffi::OsStr;

/// The policy if the user names none.
const DEFAULT: &dyn PolicyEntry = &auto::Auto;

/// The policies, in the order of the help text.
const POLICIES: &[&dyn PolicyEntry] = &[
    DEFAULT,
    &autopin::Autopin,
    &views::Hints,
    &hint_rules::HintRules,
    &views::Classify,
    &classify::ClassifyForest,
    &react::React,
    &react::ReactTree,
    &sam::Sam,
    &fixed::Fixed,
    &hint::Hint,
    &named::PACKED,
    &named::DISTRIBUTED,
    &named::CLOSE,
    &named::SPREAD,
    &named::COMPACT,
    &named::SCATTER,
    &none::None,
    &python::Python,
    #[cfg(test)]
    &toy::Toy,
];

/// The policy of a program that binds its own threads.
const UNPLACED: &dyn PolicyEntry = &none::None;

/// The default policy on a machine on which no placement differs from another.
const UNCHANGED: &dyn PolicyEntry = &unchanged::Unchanged;

/// The policy that `--schedule` and its own flags imply if the user names none.
const OF_SCHEDULES: &dyn PolicyEntry = &autopin::Autopin;

/// A policy as `pinfold run` uses it.
pub(super) trait PolicyEntry: Sync {
    /// The name that `--policy` takes, without the parameter. After a colon it may name a variant of another policy.
    fn name(&self) -> &'static str;

    /// What follows the name after a colon.
    fn parameter(&self) -> Option<Parameter> {
        None
    }

    /// What the policy does, for the help text: a clause whose subject is its name.
    fn about(&self) -> &'static str;

    /// What the policy does, for `pinfold explain`: a clause whose subject is its name.
    fn explained(&self) -> &'static str;

    /// Adds the policy's flags, under a heading with its name. A policy may also add the flags of a policy further down
    /// in `POLICIES`, whose heading they keep.
    fn flags(&self, command: Command) -> Command {
        command
    }

    /// What the policy decides on: the placement of the whole program, moves of single tasks, or parallel regions.
    fn decides_on(&self) -> DecidesOn {
        DecidesOn::Program
    }

    /// Whether `pinfold compare` takes the policy if the user names none. A policy that measures nothing answers no.
    fn is_compared(&self) -> bool {
        true
    }

    /// Whether it can decide something with these flags on this machine. An error says what is missing. A policy that
    /// runs with less, such as without learned rules, has more to check than `prepare`.
    fn ready(&self, request: &PolicyRequest<'_>) -> Result<()> {
        self.prepare(request).map(drop)
    }

    /// Checks the flags, and finds what the policy needs of the machine.
    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared>;
}

/// What follows a policy's name after a colon.
pub(super) struct Parameter {
    /// The form, as text.
    form: &'static str,
    check: fn(&str) -> Result<(), String>,
    /// The values that completion offers.
    values: fn() -> Vec<String>,
}

/// What a policy is prepared for.
pub(super) struct PolicyRequest<'a> {
    /// What followed the name after a colon; checked.
    parameter: Option<&'a str>,
    /// The command line, for the policy's own flags.
    flags: &'a ArgMatches,
    arguments: &'a super::Arguments,
    place: &'a Where<'a>,
}

/// `--policy`, and the flags of all policies.
pub(super) struct Arguments {
    selection: Selection,
    matches: ArgMatches,
}

#[derive(Clone)]
struct Selection {
    entry: &'static dyn PolicyEntry,
    parameter: Option<String>,
}

/// The flags of all policies, each with the name of its policy. A flag of several policies is listed under the last
/// one.
pub(crate) fn flags() -> impl Iterator<Item = (&'static str, Arg)> {
    POLICIES.iter().enumerate().flat_map(|(position, entry)| {
        let later: Vec<Arg> = POLICIES[position + 1..]
            .iter()
            .flat_map(|later| flags_of(*later))
            .collect();
        let is_own = move |flag: &Arg| later.iter().all(|later| later.get_id() != flag.get_id());
        let own = flags_of(*entry).into_iter().filter(is_own);
        own.map(|flag| (entry.name(), flag))
    })
}

/// The flags that a policy takes.
fn flags_of(entry: &dyn PolicyEntry) -> Vec<Arg> {
    let command = entry.flags(Command::new(entry.name()));
    command.get_arguments().cloned().collect()
}

/// The values of `--policy`.
pub(crate) fn values() -> impl Iterator<Item = String> {
    POLICIES.iter().flat_map(|entry| {
        let name = entry.name();
        match entry.parameter() {
            Some(parameter) => {
                let values = (parameter.values)().into_iter();
                values.map(|value| format!("{name}:{value}")).collect()
            }
            None => vec![name.to_owned()],
        }
    })
}

/// The names of the policies that `pinfold compare` takes if the user names none, in the order of the help text.
pub(crate) fn deciding() -> impl Iterator<Item = &'static str> {
    let named = |entry: &&&dyn PolicyEntry| entry.is_compared() && entry.parameter().is_none();
    POLICIES.iter().filter(named).map(|entry| entry.name())
}

impl Arguments {
    /// The chosen policy. The flags of other policies are refused.
    pub(super) fn chosen(&self) -> Result<Chosen<'_>> {
        let entry = self.implied().unwrap_or(self.selection.entry);
        let taken = flags_of(entry);
        let is_taken = |flag: &Arg| taken.iter().any(|taken| taken.get_id() == flag.get_id());
        let mut others = flags().filter(|(_, flag)| !is_taken(flag));
        if let Some((_, flag)) = others.find(|(_, flag)| self.is_given(flag.get_id().as_str())) {
            let takes = |entry: &&&dyn PolicyEntry| flags_of(**entry).iter().any(|own| own.get_id() == flag.get_id());
            let policies: Vec<&str> = POLICIES.iter().filter(takes).map(|entry| entry.name()).collect();
            let flag = flag.get_long().unwrap_or_default();
            match policies.split_last() {
                Some((last, [])) => bail!("--{flag} is for --policy {last}; add that, or leave --{flag} out"),
                Some((last, rest)) => bail!(
                    "--{flag} is for --policy {} or {last}; take one of these, or leave --{flag} out",
                    rest.join(", ")
                ),
                None => {}
            }
        }
        Ok(Chosen {
            entry,
            arguments: self,
            leaves_threads: false,
        })
    }

    fn is_given(&self, flag: &str) -> bool {
        self.matches.value_source(flag) == Some(ValueSource::CommandLine)
    }

    /// Whether the user asks for a placement or a measurement: by an option that is not in `options`, or by `SCHEDULE`.
    pub(super) fn asks_for_more_than(&self, options: &[&str]) -> bool {
        let mut given = self.matches.ids().map(clap::Id::as_str).filter(|id| self.is_given(id));
        given.any(|id| !options.contains(&id)) || self.implied().is_some()
    }

    /// The policy of `--schedule`, if the user names no policy, and gives that or one of its flags.
    fn implied(&self) -> Option<&'static dyn PolicyEntry> {
        if self.is_given("policy") {
            return None;
        }
        let schedules = self.is_given("schedule") || env::var_os("SCHEDULE").is_some_and(|value| !value.is_empty());
        let means = |flag: &Arg| self.is_given(flag.get_id().as_str());
        (schedules || flags_of(OF_SCHEDULES).iter().any(means)).then_some(OF_SCHEDULES)
    }
}

/// The policy of a run.
#[derive(Clone, Copy)]
pub(super) struct Chosen<'a> {
    entry: &'static dyn PolicyEntry,
    arguments: &'a Arguments,
    /// Whether the program binds its own threads.
    leaves_threads: bool,
}

impl Chosen<'_> {
    pub(super) fn name(&self) -> &'static str {
        self.entry.name()
    }

    /// Whether it is the default policy.
    pub(super) fn is_default(&self) -> bool {
        self.name() == DEFAULT.name()
    }

    pub(super) fn decides_on(&self) -> DecidesOn {
        self.entry.decides_on()
    }

    /// Leaves the threads to the operating system instead.
    pub(super) fn leave_threads(&mut self) {
        self.entry = UNPLACED;
        self.leaves_threads = true;
    }

    /// Leaves the program as it is, and measures nothing.
    pub(super) fn leave_program(&mut self) {
        self.entry = UNCHANGED;
    }

    pub(super) fn prepare(&self, arguments: &super::Arguments, place: &Where<'_>) -> Result<Prepared> {
        let prepared = self.entry.prepare(&self.request(arguments, place))?;
        Ok(Prepared {
            // The user may have named events for the policy that does not run.
            names_events: prepared.names_events || self.leaves_threads,
            ..prepared
        })
    }

    /// Whether it can decide something. An error says what is missing.
    pub(super) fn ready(&self, arguments: &super::Arguments, place: &Where<'_>) -> Result<()> {
        self.entry.ready(&self.request(arguments, place))
    }

    fn request<'r>(&'r self, arguments: &'r super::Arguments, place: &'r Where<'r>) -> PolicyRequest<'r> {
        PolicyRequest {
            parameter: self.arguments.selection.parameter.as_deref(),
            flags: &self.arguments.matches,
            arguments,
            place,
        }
    }
}

/// The policy of a record, for its readers.
pub(crate) fn kind(name: &str) -> PolicyKind<'static> {
    let entry = POLICIES.iter().find(|entry| entry.name() == name);
    entry.map_or_else(PolicyKind::default, |entry| PolicyKind {
        does: Some(entry.explained()),
        decides_on: entry.decides_on(),
    })
}

impl clap::Args for Arguments {
    fn augment_args(command: Command) -> Command {
        let policy = Arg::new("policy")
            .long("policy")
            .value_name("POLICY")
            .default_value(DEFAULT.name())
            .value_parser(PolicyParser)
            .help(format!("Who decides where threads run; `{LIST}` lists them"))
            .long_help(help());
        let command = command.arg(policy).args(flags().map(|(_, flag)| flag));
        command
            .arg(experiments::option())
            .next_help_heading(None::<&'static str>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let selection = matches.get_one("policy").cloned();
        Ok(Self {
            selection: selection.ok_or_else(|| clap::Error::new(clap::error::ErrorKind::MissingRequiredArgument))?,
            matches: matches.clone(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What `--policy` takes to list the policies.
const LIST: &str = "help";

fn help() -> String {
    format!("Who decides where threads run; `{LIST}` lists them alone:\n{}", list())
}

/// A line for each policy.
fn list() -> String {
    let lines = POLICIES
        .iter()
        .map(|entry| format!("- {} {}", written(*entry), entry.about()));
    lines.collect::<Vec<String>>().join("\n")
}

/// Parses the value of `--policy`. A request for the list is answered at once, as `--help` is.
#[derive(Clone)]
struct PolicyParser;

impl TypedValueParser for PolicyParser {
    type Value = Selection;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<Selection, clap::Error> {
        if value == LIST {
            let lists = Command::new(LIST).override_help(list());
            return Err(lists.try_get_matches_from([LIST, "--help"]).err().unwrap_or_else(|| {
                // A command always answers --help.
                clap::Error::new(ErrorKind::DisplayHelp)
            }));
        }
        (parse as fn(&str) -> Result<Selection, String>).parse_ref(command, argument, value)
    }
}

/// How a policy is written on the command line.
fn written(entry: &dyn PolicyEntry) -> String {
    match entry.parameter() {
        Some(parameter) => format!("{}:{}", entry.name(), parameter.form),
        None => entry.name().to_owned(),
    }
}

fn parse(text: &str) -> Result<Selection, String> {
    let named = |name: &str| POLICIES.iter().copied().find(|entry| entry.name() == name);
    let (name, parameter) = match text.split_once(':') {
        Some((name, parameter)) if named(text).is_none() => (name, Some(parameter)),
        _ => (text, None),
    };
    let entry = named(name);
    match (entry, entry.and_then(PolicyEntry::parameter), parameter) {
        (Some(entry), None, None) => Ok(Selection { entry, parameter: None }),
        (Some(entry), Some(known), Some(parameter)) => {
            (known.check)(parameter)?;
            Ok(Selection {
                entry,
                parameter: Some(parameter.to_owned()),
            })
        }
        _ => {
            let names: Vec<String> = POLICIES.iter().map(|entry| written(*entry)).collect();
            let near: Vec<&str> = POLICIES
                .iter()
                .map(|entry| entry.name())
                .filter(|near| *near != name && strsim::damerau_levenshtein(near, name) <= 2)
                .collect();
            let guess = match near.as_slice() {
                [] => String::new(),
                near => format!("did you mean {}? ", near.join(" or ")),
            };
            Err(format!("{guess}there are {}", names.join(", ")))
        }
    }
}
