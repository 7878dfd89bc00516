//! How pages are moved and accesses are sampled: the options of `pinfold pages`, which `pinfold run` takes as one list.

use crate::page_mapping::Migration;
use crate::sampling;
use clap::{Args, Command, FromArgMatches};
use std::str::FromStr;

/// The options of `pinfold pages` about moving pages and sampling accesses.
#[derive(Args, Clone)]
#[group(skip)]
pub(super) struct Moving {
    #[command(flatten)]
    pub(super) migration: Migration,

    #[command(flatten)]
    pub(super) sampling: sampling::Arguments,
}

/// The identifiers of these options, which the list replaces.
pub(super) const OPTIONS: [&str; 8] = [
    "rate", "shared", "files", "source", "period", "events", "time", "profile",
];

impl Moving {
    /// The first option that was given, if any.
    pub(super) fn given(&self) -> Option<&'static str> {
        self.migration.given().or(self.sampling.given())
    }
}

/// Parses a list such as `migrate-rate=500MB/s,migrate-files`.
impl FromStr for Moving {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let words = list.split(',');
        if words.clone().any(|word| word.starts_with('-') || word.is_empty()) {
            return Err(
                "the options of the list have no dashes, and commas between, as in sample-time=5s,migrate-files".into(),
            );
        }
        let command = Command::new("page-options").no_binary_name(true);
        let command = Self::augment_args(command.disable_help_flag(true).disable_version_flag(true));
        command
            .try_get_matches_from(words.map(|word| format!("--{word}")))
            .and_then(|matches| Self::from_arg_matches(&matches))
            .map_err(|error| {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                first.trim_start_matches("error: ").to_owned()
            })
    }
}

/// The same options, each spelled out. They are parsed and not shown in help, so that older scripts work.
pub(super) struct SpelledOut(pub(super) Moving);

impl Args for SpelledOut {
    fn augment_args(command: Command) -> Command {
        let options = Moving::augment_args(Command::new("page-options"));
        command.args(options.get_arguments().map(|option| option.clone().hide(true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SpelledOut {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        Moving::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::PageMapping;
    use std::time::Duration;

    #[test]
    fn a_list_has_the_meaning_of_the_options() {
        let list: Moving = "migrate-rate=500MB/s,migrate-files,sample-time=5s,sample-period=50ms"
            .parse()
            .unwrap();
        assert_eq!(list.migration.rate(), Some(5e8));
        assert!(list.migration.selection(false).unwrap().files);
        let sampling = list.sampling.sampling(Some(PageMapping::Balance)).unwrap();
        assert_eq!(
            (sampling.lasts, sampling.period),
            (Duration::from_secs(5), Duration::from_millis(50))
        );
        assert_eq!(list.given(), Some("--migrate-rate"));
    }

    #[test]
    fn a_list_with_an_option_that_does_not_exist_or_has_a_wrong_value_is_refused() {
        for (list, part) in [
            ("migrate-rate=fast", "fast"),
            ("interleave=all", "--interleave"),
            ("migrate-files,", "no dashes"),
            ("--migrate-files", "no dashes"),
            ("", "no dashes"),
        ] {
            let error = list.parse::<Moving>().err().unwrap();
            assert!(error.contains(part), "{list}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn the_list_replaces_every_option() {
        let command = Moving::augment_args(Command::new("page-options"));
        let ids: Vec<&str> = command.get_arguments().map(|option| option.get_id().as_str()).collect();
        assert_eq!(ids, OPTIONS);
    }
}
