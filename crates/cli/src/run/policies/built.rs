//! A policy on its way into a run: what it needs (`Prepared`), what all policies are given (`Setting`), and the policy
//! with its listener (`Built`).

use super::super::{Arguments, words};
use crate::behaviour;
use crate::program::executable;
use anyhow::Result;
use pinfold_core::{Finding, Metric, PageMapping, Pinning, PuSet, Topology};
use pinfold_linux::counters::Request;
use pinfold_policy::auto::Near;
use pinfold_policy::{MetricRequest, Policy, Skip, Times};
use pinfold_runtime::Record;
use pinfold_store::{MachineKey, ProgramKey};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A policy whose flags are valid.
pub(in crate::run) struct Prepared {
    /// The events that must be counted.
    pub(in crate::run) requests: Vec<Request>,
    /// Whether `--metric NAME=EVENT` names events for the policy, and not the metric of comparisons.
    pub(in crate::run) names_events: bool,
    /// Whether anything is counted.
    pub(in crate::run) counts: bool,
    /// Makes the policy.
    pub(in crate::run) build: Box<Build>,
}

/// Makes a policy for one program.
pub(in crate::run) type Build = dyn Fn(&Setting<'_>) -> Result<Built>;

impl Prepared {
    /// A policy that needs no events of its own.
    pub(super) fn new(build: impl Fn(&Setting<'_>) -> Result<Built> + 'static) -> Self {
        Self {
            requests: vec![],
            names_events: false,
            counts: true,
            build: Box::new(build),
        }
    }
}

/// The settings that all policies have in common, and the program.
pub(in crate::run) struct Setting<'a> {
    pub(in crate::run) topology: &'a Topology,
    /// The same with the PUs of other runs of pinfold.
    pub(in crate::run) machine: &'a Topology,
    /// The name of a simulated machine.
    pub(in crate::run) simulated: Option<&'a str>,
    pub(in crate::run) common: &'a Common,
    /// The surroundings of a device, if the policy compares them with the whole machine.
    pub(in crate::run) near: Option<&'a Near>,
    /// The user's page mapping.
    pub(in crate::run) pages: Option<PageMapping>,
    pub(in crate::run) program: &'a Program<'a>,
    pub(in crate::run) arguments: &'a Arguments,
}

/// The options that all policies have in common, checked.
#[derive(Clone)]
pub(in crate::run) struct Common {
    pub(in crate::run) times: Times,
    /// The metric whose rate is reported.
    pub(in crate::run) metric: MetricRequest,
    /// The tasks that are left alone.
    pub(in crate::run) skip: Skip,
    /// The number of threads to place; `None` for those that work.
    pub(in crate::run) threads: Option<usize>,
    /// The pinnings that the user names; often none.
    pub(in crate::run) schedules: Vec<Pinning>,
}

/// The program of a run.
pub(in crate::run) enum Program<'a> {
    /// The binary of a command.
    Command(&'a [OsString]),
    /// A file that stands for the program, such as a recording, and the command.
    File(&'a Path, &'a [String]),
    /// The files that stand for programs side by side, with their commands.
    Several(&'a [(PathBuf, Vec<String>)]),
}

impl Program<'_> {
    /// How many there are.
    pub(super) fn number(&self) -> usize {
        match self {
            Self::Command(_) | Self::File(..) => 1,
            Self::Several(programs) => programs.len(),
        }
    }

    /// The identity of the program on this machine; `None` for several.
    pub(super) fn key(&self, machine: MachineKey) -> Result<Option<ProgramKey>> {
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
pub(in crate::run) struct Built {
    pub(in crate::run) policy: Box<dyn Policy>,
    /// The PUs of ranks from the first instruction on; `None` leaves them to the operating system.
    pub(in crate::run) initial: Option<Initial>,
    /// The CPUs on which unpinned threads run from the first instruction on; `None` for all.
    pub(in crate::run) within: Option<PuSet>,
    /// Whether other runs of pinfold leave these CPUs alone.
    pub(in crate::run) claims_within: bool,
    /// The page mapping from the first instruction on, unless the user gives one; `None` leaves pages to the operating
    /// system.
    pub(in crate::run) first_pages: Option<PageMapping>,
    /// Events that the policy can do without. They are counted if that is possible on this machine.
    pub(in crate::run) optional_requests: Vec<Request>,
    /// Notes for the user, before the program starts.
    pub(in crate::run) notes: Vec<String>,
    pub(in crate::run) listener: Box<dyn Listener>,
    /// Whether it configures single parallel regions.
    pub(in crate::run) regions: Regions,
}

/// Whether a policy configures single parallel regions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Regions {
    /// It does not.
    No,
    /// If that is possible.
    Optional,
    /// That is all it does.
    Needed,
}

impl Built {
    pub(super) fn new(policy: impl Policy + 'static) -> Self {
        Self {
            policy: Box::new(policy),
            initial: None,
            within: None,
            claims_within: false,
            first_pages: None,
            optional_requests: vec![],
            notes: vec![],
            listener: Box::new(Silent),
            regions: Regions::No,
        }
    }

    /// The PUs of ranks from the first instruction on.
    pub(in crate::run) fn first_pinning(&self) -> Option<&Pinning> {
        self.initial.as_ref().map(|initial| &initial.pinning)
    }

    /// The PUs that no other run of pinfold may take from the first instruction on; `None` for none.
    pub(in crate::run) fn claimed(&self) -> Option<PuSet> {
        let pinned = self
            .first_pinning()
            .map(|pinning| pinning.pus().iter().copied().collect());
        pinned.or_else(|| self.within.clone().filter(|_| self.claims_within))
    }
}

/// The PUs of ranks from the first instruction on, and the reason.
pub(in crate::run) struct Initial {
    pub(super) pinning: Pinning,
    pub(super) why: String,
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

/// Follows a run for its policy: reports findings in the policy's words, and keeps results. A method returns a message
/// for the user.
pub(in crate::run) trait Listener {
    /// The machine counts these metrics.
    fn begin(&mut self, _metrics: &[Metric]) -> Option<String> {
        None
    }

    /// The policy found something, which `record` has already.
    fn finding(&mut self, _at: Duration, _finding: &Finding, _record: &Record) -> Option<String> {
        None
    }

    /// Whether what it says of this finding is for `--verbose` only.
    fn is_detail(&self, _finding: &Finding) -> bool {
        false
    }

    /// The program has ended. The message is for `--verbose`.
    fn program_ended(&mut self, _record: &Record) -> Option<String> {
        None
    }

    /// The run is over, whether it failed or not.
    fn end(&mut self) -> Option<String> {
        None
    }
}

/// Reports nothing.
pub(super) struct Silent;

impl Listener for Silent {}
