//! `pinfold run --help-experiments`: the options that vary one part of a policy, for studies
//! (docs/design/experiments.md).
//!
//! They are the hidden flags of the policies. They are parsed as all others.

use super::policies;
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use std::ffi::OsStr;

/// The option that shows the experiments.
const LONG: &str = "help-experiments";

const ABOUT: &str = "Options for experiments: each varies one part of a policy, to measure what that part is worth. \
                     docs/design/experiments.md says which study uses which.";

pub(super) fn option() -> Arg {
    Arg::new(LONG)
        .long(LONG)
        .hide(true)
        .action(ArgAction::SetTrue)
        .value_parser(Shown)
}

/// Answers the option at once, as `--help` is answered.
#[derive(Clone)]
struct Shown;

impl TypedValueParser for Shown {
    type Value = bool;

    fn parse_ref(&self, _command: &Command, _option: Option<&Arg>, value: &OsStr) -> Result<bool, clap::Error> {
        // Without the option, clap parses its default.
        if value == "false" {
            return Ok(false);
        }
        let flags = policies::flags().map(|(_, flag)| flag).filter(Arg::is_hide_set);
        let help = Command::new("pinfold run")
            .about(ABOUT)
            .disable_help_flag(true)
            .args(flags.map(|flag| flag.hide(false)))
            .render_long_help();
        let shows = Command::new(LONG).override_help(help);
        let answer = shows.try_get_matches_from([LONG, "--help"]).err();
        // A command always answers --help.
        Err(answer.unwrap_or_else(|| clap::Error::new(ErrorKind::DisplayHelp)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::checked;

    const EXPERIMENTS: [&str; 6] = [
        "--do-not-ask",
        "--by-region",
        "--unverified",
        "--without",
        "--compared",
        "--known",
    ];

    #[test]
    fn experiments_are_shown_by_their_own_help_alone() {
        let answer = checked::definition()
            .try_get_matches_from(["--help-experiments"])
            .unwrap_err();
        assert_eq!(answer.kind(), clap::error::ErrorKind::DisplayHelp);
        let experiments = answer.to_string();
        let help = checked::definition().render_long_help().to_string();
        for option in EXPERIMENTS {
            assert!(
                experiments.contains(&format!("{option}\n")) || experiments.contains(&format!("{option} <")),
                "{option}"
            );
            assert!(!help.contains(option), "{option}");
        }
        assert!(experiments.contains("Options of --policy sam"), "{experiments}");
    }
}
