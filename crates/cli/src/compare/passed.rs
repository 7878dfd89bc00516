//! The options of `pinfold run` that `pinfold compare` takes too, and passes on to each run.

use crate::run::{BalancingName, checked, policies};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use pinfold_sim::Kernel;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The options that all policies have in common. The others can be given to one policy, as in `--policy "none
/// --interleave all"`. Options that limit the CPUs are not among them: they would limit all variants but the program
/// alone.
const COMMON: [&str; 18] = [
    "threads",
    "metric",
    "event",
    "schedule",
    "probe",
    "warm_up",
    "initialise",
    "interval",
    "skip",
    "overrides",
    "db",
    "noise",
    "kernel",
    "numa_balancing",
    "program",
    "region",
    "unit",
    "move_cost",
];

const HEADING: &str = "Options of `pinfold run`, for all variants under pinfold";

/// The options that the user gave, as words.
#[derive(Default)]
pub(super) struct Passed {
    common: Vec<OsString>,
    /// By policy.
    own: BTreeMap<&'static str, Vec<OsString>>,
    /// The value of `--threads`.
    pub(super) threads: Option<usize>,
    /// The value of `--program`.
    pub(super) program: Option<OsString>,
    /// The value of `--kernel`.
    pub(super) kernel: Option<Kernel>,
    /// Whether `--numa-balancing on` was given.
    pub(super) balances: bool,
}

impl Passed {
    /// The words for a policy, by its name with or without a parameter.
    pub(super) fn words(&self, policy: &str) -> Vec<OsString> {
        let name = policy.split(':').next().unwrap_or(policy);
        let own = self.own.get(name).into_iter().flatten();
        self.common.iter().chain(own).cloned().collect()
    }
}

/// The options of `pinfold run` that are taken, with the name of the policy of those that only one has.
fn options() -> Vec<(Option<&'static str>, Arg)> {
    let definition = checked::definition();
    let common = |id: &&str| definition.get_arguments().find(|arg| arg.get_id() == *id).cloned();
    let common = COMMON
        .iter()
        .filter_map(common)
        .map(|arg| (None, arg.help_heading(HEADING)));
    let own = policies::flags().map(|(policy, arg)| (Some(policy), arg));
    common.chain(own).collect()
}

impl clap::Args for Passed {
    fn augment_args(command: Command) -> Command {
        command.args(options().into_iter().map(|(_, arg)| arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Passed {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut passed = Self {
            threads: matches.get_one("threads").copied(),
            program: matches.get_one::<String>("program").map(OsString::from),
            kernel: matches.get_one("kernel").copied(),
            balances: matches.get_one("numa_balancing") == Some(&BalancingName::On),
            ..Self::default()
        };
        for (policy, arg) in options() {
            let words = given(&arg, matches);
            match policy {
                None => passed.common.extend(words),
                Some(policy) => passed.own.entry(policy).or_default().extend(words),
            }
        }
        Ok(passed)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The user's words for an option; empty if it was not given.
fn given(arg: &Arg, matches: &ArgMatches) -> Vec<OsString> {
    let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else {
        return vec![];
    };
    if matches.value_source(id) != Some(ValueSource::CommandLine) {
        return vec![];
    }
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return vec![format!("--{long}").into()];
    }
    let word = |value: &std::ffi::OsStr| {
        let mut word = OsString::from(format!("--{long}="));
        word.push(value);
        word
    };
    matches.get_raw(id).into_iter().flatten().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;

    fn passed(words: &[&str]) -> Passed {
        let command = Passed::augment_args(Command::new("compare").no_binary_name(true));
        Passed::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    #[test]
    fn every_common_option_is_one_of_run() {
        let options = options();
        let common: Vec<&str> = options
            .iter()
            .filter(|(policy, _)| policy.is_none())
            .map(|(_, arg)| arg.get_id().as_str())
            .collect();
        assert_eq!(common, COMMON);
    }

    #[test]
    fn options_are_passed_as_they_were_given_and_defaults_are_not() {
        let given = passed(&[
            "-t",
            "2s",
            "--threads",
            "3",
            "--override",
            "-e",
            "cycles",
            "-e",
            "instructions",
        ]);
        let expected = [
            "--threads=3",
            "--event=cycles",
            "--event=instructions",
            "--probe=2s",
            "--override",
        ];
        assert_eq!(given.words("none"), expected.map(OsString::from));
        assert_eq!(given.threads, Some(3));
        assert_eq!(passed(&[]).words("autopin"), [""; 0].map(OsString::from));
    }

    #[test]
    fn the_flags_of_a_policy_go_to_that_policy() {
        let given = passed(&["--candidates", "3", "--without", "hysteresis,validation"]);
        assert_eq!(given.words("autopin"), [OsString::from("--candidates=3")]);
        let without = ["--without=hysteresis", "--without=validation"];
        assert_eq!(given.words("sam"), without.map(OsString::from));
        assert_eq!(given.words("hint:SLP"), [""; 0].map(OsString::from));
    }
}
