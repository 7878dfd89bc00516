//! Colours of messages. `--color` decides whether a stream has any; by default it has them on a terminal, unless one of
//! the variables `NO_COLOR`, `CLICOLOR` and `TERM` says otherwise. `CLICOLOR_FORCE` asks for them everywhere.

use clap::ColorChoice;
use std::env;
use std::ffi::OsString;
use std::sync::OnceLock;

/// The kind of a message. Its colour shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    /// The result of a run that made the program faster.
    Faster,
    /// The result of any other run.
    NotFaster,
    /// An error.
    Failure,
}

/// Sequences that set a colour (SGR): green, yellow, bold red as in clap's errors, and none.
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const RED: &str = "\u{1b}[1m\u{1b}[31m";
const NONE: &str = "\u{1b}[0m";

/// A line with the name before it, in colours. Of an error the name is coloured, of a result its text.
pub(crate) fn painted(tone: Tone, name: &str, line: &str) -> String {
    let colour = match tone {
        Tone::Plain => return format!("{name}{line}"),
        Tone::Faster => GREEN,
        Tone::NotFaster => YELLOW,
        Tone::Failure => {
            let text = name.trim_end();
            return format!("{RED}{text}{NONE}{}{line}", &name[text.len()..]);
        }
    };
    format!("{name}{colour}{line}{NONE}")
}

/// The value of `--color`.
static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Notes the value of `--color`. The first one holds.
pub(crate) fn choose(choice: ColorChoice) {
    CHOICE.get_or_init(|| choice);
}

/// Whether a stream has colours.
pub(crate) fn allowed(is_terminal: bool) -> bool {
    let choice = CHOICE.get().copied().unwrap_or(ColorChoice::Auto);
    wanted(choice, is_terminal, |name| env::var_os(name))
}

fn wanted(choice: ColorChoice, is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if set("NO_COLOR").is_some() => false,
        ColorChoice::Auto if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
        // A terminal whose kind is not known may show no colours.
        ColorChoice::Auto => {
            let shows = set("TERM").is_some_and(|name| name != "dumb");
            is_terminal && shows && set("CLICOLOR").is_none_or(|value| value != "0")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_show_them_and_users_who_want_them() {
        let wanted = |choice, is_terminal, variables: &[(&str, &str)]| {
            let variable = |name: &str| variables.iter().find(|one| one.0 == name).map(|one| one.1.into());
            wanted(choice, is_terminal, variable)
        };
        let term = ("TERM", "xterm");
        assert!(wanted(ColorChoice::Auto, true, &[term]));
        assert!(!wanted(ColorChoice::Auto, false, &[term]));
        for against in [("NO_COLOR", "1"), ("CLICOLOR", "0")] {
            assert!(!wanted(ColorChoice::Auto, true, &[term, against]));
            assert!(wanted(ColorChoice::Always, true, &[term, against]));
        }
        assert!(wanted(ColorChoice::Auto, true, &[term, ("NO_COLOR", "")]));
        assert!(!wanted(ColorChoice::Auto, true, &[("TERM", "dumb")]));
        assert!(!wanted(ColorChoice::Auto, true, &[]));
        assert!(wanted(ColorChoice::Auto, false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!wanted(ColorChoice::Never, true, &[term, ("CLICOLOR_FORCE", "1")]));
    }

    #[test]
    fn an_errors_name_is_red_and_a_results_text_has_its_colour() {
        let error = painted(Tone::Failure, "pinfold: ", "no such file");
        assert_eq!(error, "\u{1b}[1m\u{1b}[31mpinfold:\u{1b}[0m no such file");
        let result = painted(Tone::Faster, "pinfold: ", "2 times as fast");
        assert_eq!(result, "pinfold: \u{1b}[32m2 times as fast\u{1b}[0m");
        assert_eq!(painted(Tone::Plain, "pinfold: ", "a"), "pinfold: a");
    }
}
