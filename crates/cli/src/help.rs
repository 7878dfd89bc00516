//! What the help of all commands has in common: its two forms, and its colours.
//!
//! `--help` shows everything, in groups. `-h` fits a screen: it shows the options that stand in no group.

use clap::{ColorChoice, Command};
use std::ffi::{OsStr, OsString};

/// The heading of the options that every command has.
pub(crate) const EVERYWHERE: &str = "Options of every command";

/// Leaves the options of groups out of `-h`, and says there that `--help` shows them.
pub(crate) fn in_two_forms(command: Command, path: &str) -> Command {
    let mut is_shorter = false;
    let command = command.mut_args(|argument| match argument.get_help_heading() {
        None => argument,
        Some(heading) => {
            is_shorter |= heading != EVERYWHERE && !argument.is_hide_set();
            argument.hide_short_help(true)
        }
    });
    let command = if is_shorter || command.get_after_long_help().is_some() {
        let everything = format!("`{path} --help` shows {}.", shown(is_shorter, &command));
        let long = command.get_after_long_help().cloned().unwrap_or_default();
        command.after_help(everything).after_long_help(long)
    } else {
        command
    };
    command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        in_two_forms(inner, &path)
    })
}

/// What only the long form shows.
fn shown(has_groups: bool, command: &Command) -> &'static str {
    match (has_groups, command.get_after_long_help().is_some()) {
        (true, true) => "all options, and examples",
        (true, false) => "all options",
        (false, _) => "examples",
    }
}

/// The value of `--color` among the words of the command line. It is needed before they are parsed, for errors of
/// parsing.
pub(crate) fn color(words: impl IntoIterator<Item = OsString>) -> ColorChoice {
    let mut words = words.into_iter().take_while(|word| word != "--");
    let mut choice = ColorChoice::Auto;
    while let Some(word) = words.next() {
        let value = match word.to_str() {
            Some("--color") => words.next(),
            Some(word) => word.strip_prefix("--color=").map(OsString::from),
            None => None,
        };
        choice = value.as_deref().and_then(parsed).unwrap_or(choice);
    }
    choice
}

fn parsed(value: &OsStr) -> Option<ColorChoice> {
    value.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;
    use std::process;

    /// All commands that are shown, with their names from the first.
    fn commands() -> Vec<Command> {
        fn collect(command: &Command, found: &mut Vec<Command>) {
            found.push(command.clone());
            let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
            shown.for_each(|inner| collect(inner, found));
        }
        let mut all = crate::definition(ColorChoice::Never);
        all.build();
        let mut found = vec![];
        collect(&all, &mut found);
        found.retain(|command| command.get_name() != "help");
        found
    }

    fn words_of(line: &str) -> Vec<String> {
        let split = format!("printf '%s\\n' {line}");
        let answer = process::Command::new("sh").args(["-c", &split]).output().unwrap();
        let text = String::from_utf8(answer.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn examples_are_command_lines_that_pinfold_takes() {
        let mut examples = 0;
        for command in commands() {
            let Some(text) = command.get_after_long_help() else {
                continue;
            };
            let text = text.to_string();
            for line in text.lines().filter(|line| line.starts_with("  pinfold ")) {
                let parsed = crate::definition(ColorChoice::Never).try_get_matches_from(words_of(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
                examples += 1;
            }
            assert!(text.is_empty() || text.contains("\n  pinfold "), "{text}");
        }
        assert!(examples > 20);
    }

    #[test]
    fn the_short_form_of_every_command_fits_a_screen() {
        for mut command in commands() {
            let help = command.render_help().to_string();
            assert!(help.lines().count() <= 40, "{help}");
        }
    }

    #[test]
    fn colours_are_chosen_by_the_last_option_of_pinfold_itself() {
        let choice = |line: &str| color(line.split(' ').map(OsString::from));
        assert_eq!(choice("pinfold topo"), ColorChoice::Auto);
        assert_eq!(choice("pinfold --color never topo"), ColorChoice::Never);
        assert_eq!(choice("pinfold topo --color=never --color always"), ColorChoice::Always);
        assert_eq!(choice("pinfold run -- ls --color=always"), ColorChoice::Auto);
        assert_eq!(choice("pinfold topo --color purple"), ColorChoice::Auto);
        assert!(
            Cli::command()
                .try_get_matches_from(["pinfold", "--color", "purple", "topo"])
                .is_err()
        );
    }
}
