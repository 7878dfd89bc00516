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
mod classify;
mod fixed;
mod hint;
mod hints;
mod named;
mod none;
mod react;
mod sam;
#[cfg(test)]
mod toy;

use super::place::Where;
use super::{executable, experiments, words};
use crate::behaviour;
use anyhow::{Result, bail};
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use pinfold_core::{Finding, Metric, PageMapping, Pinning, PuSet, Topology};
use pinfold_linux::counters::Request;
use pinfold_policy::auto::Near;
use pinfold_policy::{MetricRequest, Policy, Skip, Times};
use pinfold_runtime::Record;
use pinfold_store::{MachineKey, ProgramKey};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The policies, in the order of the help text. The first is the default.
const POLICIES: &[&dyn PolicyEntry] = &[
    &auto::Auto,
    &autopin::Autopin,
    &hints::Hints,
    &classify::Classify,
    &react::React,
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
    #[cfg(test)]
    &toy::Toy,
];

/// The policy of a program that binds its own threads.
const UNPLACED: &dyn PolicyEntry = &none::None;

/// A policy as `pinfold run` uses it.
pub(super) trait PolicyEntry: Sync {
    /// The name that `--policy` takes, without the parameter.
    fn name(&self) -> &'static str;

    /// What follows the name after a colon.
    fn parameter(&self) -> Option<Parameter> {
        None
    }

    /// What the policy does, for the help text: a clause whose subject is its name.
    fn about(&self) -> &'static str;

    /// What the policy does, for `pinfold explain`: a clause whose subject is its name.
    fn explained(&self) -> &'static str;

    /// Adds the policy's own flags, under a heading with its name.
    fn flags(&self, command: Command) -> Command {
        command
    }

    /// The flags of other policies that it takes, too.
    fn also_takes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether the policy tries the pinnings of `--schedule`. They imply it where the user names no policy.
    fn tries_schedules(&self) -> bool {
        false
    }

    /// Whether the policy places threads. If not, a program may bind its own.
    fn places_threads(&self) -> bool {
        true
    }

    /// Whether it needs the agent inside the program, which only a program has that pinfold starts.
    fn needs_agent(&self) -> bool {
        false
    }

    /// Whether this value of `--metric` names events for the policy, and not what pinnings are compared by.
    fn names_events(&self, _metric: &str) -> bool {
        false
    }

    /// Whether the policy compares the CPUs that are near a device (`--near`) with others. To any other policy they are a
    /// limit.
    fn compares_near(&self) -> bool {
        false
    }

    /// Whether the policy decides something, so that `pinfold compare` takes it where the user names no policy.
    fn decides(&self) -> bool {
        true
    }

    /// Whether it can decide something with these flags on this machine. An error says what is missing.
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

/// A policy whose flags are valid.
pub(super) struct Prepared {
    /// The events that must be counted.
    pub(super) requests: Vec<Request>,
    /// Makes the policy.
    pub(super) build: Box<Build>,
}

/// Makes a policy for one program.
pub(super) type Build = dyn Fn(&Setting<'_>) -> Result<Built>;

impl Prepared {
    /// A policy that needs no events of its own.
    fn new(build: impl Fn(&Setting<'_>) -> Result<Built> + 'static) -> Self {
        Self {
            requests: vec![],
            build: Box::new(build),
        }
    }
}

/// The settings that all policies have in common, and the program.
pub(super) struct Setting<'a> {
    pub(super) topology: &'a Topology,
    /// The name of the machine, where it is simulated.
    pub(super) simulated: Option<&'a str>,
    pub(super) common: &'a Common,
    /// Where the user wants the program, as far as the policy compares that with other places.
    pub(super) near: Option<&'a Near>,
    /// The user's page mapping.
    pub(super) pages: Option<PageMapping>,
    pub(super) program: &'a Program<'a>,
    pub(super) arguments: &'a super::Arguments,
}

/// The options that all policies have in common, checked.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) times: Times,
    /// The metric whose rate is reported.
    pub(super) metric: MetricRequest,
    /// The tasks that are left alone.
    pub(super) skip: Skip,
    /// The number of threads to place; `None` for those that work.
    pub(super) threads: Option<usize>,
    /// The pinnings that the user names; often none.
    pub(super) schedules: Vec<Pinning>,
}

/// The program of a run.
pub(super) enum Program<'a> {
    /// The binary of a command.
    Command(&'a [OsString]),
    /// A file that stands for the program, such as a recording, and the command.
    File(&'a Path, &'a [String]),
    /// The files that stand for programs side by side, with their commands.
    Several(&'a [(PathBuf, Vec<String>)]),
}

impl Program<'_> {
    /// How many there are.
    fn number(&self) -> usize {
        match self {
            Self::Command(_) | Self::File(..) => 1,
            Self::Several(programs) => programs.len(),
        }
    }

    /// The identity of the program on this machine; `None` for several.
    fn key(&self, machine: MachineKey) -> Result<Option<ProgramKey>> {
        match self {
            Self::File(file, command) => behaviour::program_key(file, command, machine).map(Some),
            Self::Command(command) => {
                behaviour::program_key(&executable(&command[0])?, &words(command), machine).map(Some)
            }
            Self::Several(_) => Ok(None),
        }
    }
}

/// A policy before the run, with its listener and notes.
pub(super) struct Built {
    pub(super) policy: Box<dyn Policy>,
    /// Where ranks run from the first instruction on; `None` leaves them to the operating system.
    pub(super) initial: Option<Initial>,
    /// The CPUs on which unpinned threads run from the first instruction on; `None` for all.
    pub(super) within: Option<PuSet>,
    /// Where pages are from the first instruction on, unless the user says so; `None` leaves them to the operating system.
    pub(super) first_pages: Option<PageMapping>,
    /// Events that the policy can do without. They are counted where that is possible here.
    pub(super) optional_requests: Vec<Request>,
    /// Notes for the user, before the program starts.
    pub(super) notes: Vec<String>,
    pub(super) listener: Box<dyn Listener>,
    /// Whether it configures single parallel regions.
    pub(super) regions: Regions,
}

/// Whether a policy configures single parallel regions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Regions {
    /// It does not.
    No,
    /// Where that is possible.
    Optional,
    /// It does nothing else.
    Needed,
}

impl Built {
    fn new(policy: impl Policy + 'static) -> Self {
        Self {
            policy: Box::new(policy),
            initial: None,
            within: None,
            first_pages: None,
            optional_requests: vec![],
            notes: vec![],
            listener: Box::new(Silent),
            regions: Regions::No,
        }
    }

    /// Where ranks run from the first instruction on.
    pub(super) fn first_pinning(&self) -> Option<&Pinning> {
        self.initial.as_ref().map(|initial| &initial.pinning)
    }
}

/// Where ranks run from the first instruction on, and why there.
pub(super) struct Initial {
    pinning: Pinning,
    why: String,
}

impl fmt::Display for Initial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pus: PuSet = self.pinning.pus().iter().copied().collect();
        let why = &self.why;
        write!(
            f,
            "threads are pinned from the start, each to one of the CPUs {pus}: {why}"
        )
    }
}

/// Follows a run for its policy: reports the findings that only this policy has, and keeps results. A method returns a message
/// for the user.
pub(super) trait Listener {
    /// The machine counts these metrics.
    fn begin(&mut self, _metrics: &[Metric]) -> Option<String> {
        None
    }

    /// The policy found something, which `record` has already.
    fn finding(&mut self, _at: Duration, _finding: &Finding, _record: &Record) -> Option<String> {
        None
    }

    /// The program has ended.
    fn program_ended(&mut self, _record: &Record) -> Option<String> {
        None
    }

    /// The run is over, whether it failed or not.
    fn end(&mut self) -> Option<String> {
        None
    }
}

/// Reports nothing.
struct Silent;

impl Listener for Silent {}

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

/// The flags of all policies, each with the name of its policy.
pub(crate) fn flags() -> impl Iterator<Item = (&'static str, Arg)> {
    POLICIES.iter().flat_map(|entry| {
        let command = entry.flags(Command::new(entry.name()));
        let flags: Vec<Arg> = command.get_arguments().cloned().collect();
        flags.into_iter().map(|flag| (entry.name(), flag))
    })
}

/// The names of the policies that decide something, in the order of the help text.
pub(crate) fn deciding() -> impl Iterator<Item = &'static str> {
    let named = |entry: &&&dyn PolicyEntry| entry.decides() && entry.parameter().is_none();
    POLICIES.iter().filter(named).map(|entry| entry.name())
}

impl Arguments {
    /// The chosen policy. The flags of other policies are refused.
    pub(super) fn chosen(&self) -> Result<Chosen<'_>> {
        let entry = self.implied().unwrap_or(self.selection.entry);
        let is_own =
            |policy: &str, flag: &Arg| policy == entry.name() || entry.also_takes().contains(&flag.get_id().as_str());
        let mut others = flags().filter(|(policy, flag)| !is_own(policy, flag));
        if let Some((policy, flag)) = others.find(|(_, flag)| self.is_given(flag.get_id().as_str())) {
            let flag = flag.get_long().unwrap_or_default();
            bail!("--{flag} is for --policy {policy}; add that, or leave --{flag} out");
        }
        Ok(Chosen { entry, arguments: self })
    }

    fn is_given(&self, flag: &str) -> bool {
        self.matches.value_source(flag) == Some(ValueSource::CommandLine)
    }

    /// The policy that tries `--schedule`, where the user names none and gives that or one of its flags.
    fn implied(&self) -> Option<&'static dyn PolicyEntry> {
        if self.is_given("policy") {
            return None;
        }
        let entry = POLICIES.iter().copied().find(|entry| entry.tries_schedules())?;
        let schedules = self.is_given("schedule") || env::var_os("SCHEDULE").is_some_and(|value| !value.is_empty());
        let mut own = flags().filter(|(policy, _)| *policy == entry.name());
        let means = schedules || own.any(|(_, flag)| self.is_given(flag.get_id().as_str()));
        means.then_some(entry)
    }
}

/// The policy of a run.
#[derive(Clone, Copy)]
pub(super) struct Chosen<'a> {
    entry: &'static dyn PolicyEntry,
    arguments: &'a Arguments,
}

impl Chosen<'_> {
    pub(super) fn name(&self) -> &'static str {
        self.entry.name()
    }

    pub(super) fn compares_near(&self) -> bool {
        self.entry.compares_near()
    }

    pub(super) fn needs_agent(&self) -> bool {
        self.entry.needs_agent()
    }

    pub(super) fn places_threads(&self) -> bool {
        self.entry.places_threads()
    }

    pub(super) fn names_events(&self, metric: &str) -> bool {
        self.entry.names_events(metric)
    }

    /// Leaves the threads to the operating system instead.
    pub(super) fn leave_threads(&mut self) {
        self.entry = UNPLACED;
    }

    pub(super) fn prepare(&self, arguments: &super::Arguments, place: &Where<'_>) -> Result<Prepared> {
        self.entry.prepare(&self.request(arguments, place))
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

/// What the policy of a record does: a clause whose subject is the policy. `None` where the policy is unknown.
pub(crate) fn explained(name: &str) -> Option<&'static str> {
    let entry = POLICIES.iter().find(|entry| entry.name() == name)?;
    Some(entry.explained())
}

impl clap::Args for Arguments {
    fn augment_args(command: Command) -> Command {
        let policy = Arg::new("policy")
            .long("policy")
            .value_name("POLICY")
            .default_value(POLICIES[0].name())
            .value_parser(PolicyParser)
            .help(format!("Who decides where threads run; `{LIST}` lists them"))
            .long_help(help());
        let command = POLICIES
            .iter()
            .fold(command.arg(policy), |command, entry| entry.flags(command));
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
    let (name, parameter) = match text.split_once(':') {
        Some((name, parameter)) => (name, Some(parameter)),
        None => (text, None),
    };
    let entry = POLICIES.iter().copied().find(|entry| entry.name() == name);
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
