//! Standard output and standard error: answers go to the first, messages to the second. No other module writes to
//! either.
//!
//! It is not an error when the reader of an answer closes the pipe (`pinfold topo | head`). An answer that cannot be written
//! for another reason, such as a full disk, is an error.
//!
//! Names and files of others are in answers and messages, so all text is cleaned here (`pinfold_core::text`): a
//! terminal obeys nothing of it, whether standard output is one or not. Only clap's help and errors have colours; of
//! their sequences, those that set them go through. `ratatui` (`pinfold top`) and `indicatif` (`progress`) draw by
//! themselves.

use clap::ColorChoice;
use pinfold_core::text::clean;
use std::env;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};
use thiserror::Error;

/// Standard output cannot be written.
#[derive(Debug, Error)]
#[error("standard output: {0}")]
pub(crate) struct Unwritable(#[source] io::Error);

/// Writes a whole answer to standard output.
pub(crate) fn print(text: &str) -> Result<(), Unwritable> {
    read_to_the_end(to(&mut io::stdout().lock(), |out| {
        out.write_all(clean(text).as_bytes())
    }))
    .map(drop)
}

/// Writes a document to standard output, as JSON with a newline at its end.
pub(crate) fn print_json(document: &impl serde::Serialize) -> anyhow::Result<()> {
    Ok(print(&(serde_json::to_string_pretty(document)? + "\n"))?)
}

/// Writes an answer to standard output in parts, each of whole characters. The result is whether its reader stayed
/// until the end.
pub(crate) fn stream(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<bool, Unwritable> {
    read_to_the_end(to(&mut io::stdout().lock(), |out| write(&mut Clean(out))))
}

/// Cleans the text and writes it.
struct Clean<'a>(&'a mut dyn Write);

impl Write for Clean<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.0.write_all(clean(&String::from_utf8_lossy(part)).as_bytes())?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn to(out: &mut impl Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    write(&mut out)?;
    // Standard output is buffered; at the end of the process its errors would be lost.
    out.flush()
}

fn read_to_the_end(written: io::Result<()>) -> Result<bool, Unwritable> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Unwritable(error)),
    }
}

/// Prints clap's answer to a command line that it did not parse: help and version to standard output, errors to
/// standard error. The result is whether it is an error.
pub(crate) fn print_parsed(answer: &clap::Error, color: ColorChoice) -> Result<bool, Unwritable> {
    if answer.use_stderr() {
        // A message that cannot be written makes no difference to the exit status.
        let _ = io::stderr().write_all(in_colour(answer, color, io::stderr().is_terminal()).as_bytes());
    } else {
        let text = in_colour(answer, color, io::stdout().is_terminal());
        read_to_the_end(to(&mut io::stdout().lock(), |out| out.write_all(text.as_bytes())))?;
    }
    Ok(answer.use_stderr())
}

/// clap's answer, with colours where the command line and the terminal allow them.
fn in_colour(answer: &clap::Error, color: ColorChoice, is_terminal: bool) -> String {
    let rendered = answer.render();
    let colours = match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => is_terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && !is_dumb(),
    };
    if colours {
        clean_but_for_colours(&rendered.ansi().to_string())
    } else {
        clean(&rendered.to_string()).into_owned()
    }
}

/// Whether the terminal shows no colours (terminfo's `dumb`), or it is not known which one it is.
fn is_dumb() -> bool {
    env::var_os("TERM").is_none_or(|name| name == "dumb")
}

/// The text without control sequences, but for those that set colours and weights (SGR): `ESC [`, numbers, `m`.
fn clean_but_for_colours(text: &str) -> String {
    let mut cleaned = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("\u{1b}[") {
        let (before, sequence) = rest.split_at(start);
        cleaned.push_str(&clean(before));
        let numbers = sequence[2..].trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';');
        let end = if numbers.starts_with('m') {
            let end = sequence.len() - numbers.len() + 1;
            cleaned.push_str(&sequence[..end]);
            end
        } else {
            cleaned.push_str(&clean(&sequence[..1]));
            1
        };
        rest = &sequence[end..];
    }
    cleaned + &clean(rest)
}

/// An error with its causes. A cause that the text of an error contains already is left out.
pub(crate) fn whole(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error
        .chain()
        .map(|cause| cause.to_string().trim_end_matches('\n').to_owned())
    {
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

/// Writes a message to standard error, each line with the program's name before it.
pub(crate) fn say(message: impl Display) {
    let mut err = io::stderr().lock();
    for line in lines(&message.to_string()) {
        // One call: standard error has no buffer, and the observed program may write there at the same time. A message
        // that cannot be written does not end the command.
        let _ = err.write_all(format!("pinfold: {line}\n").as_bytes());
    }
}

/// The lines of a message. All but the first one are indented, so a newline in a name makes no line that looks like
/// another message.
pub(crate) fn lines(message: &str) -> Vec<String> {
    let indented = |(number, line): (usize, &str)| {
        let begins = number == 0 || line.is_empty() || line.starts_with("  ");
        let indent = if begins { "" } else { "  " };
        format!("{indent}{}", clean(line))
    };
    message.lines().enumerate().map(indented).collect()
}

/// Writes one line of the daemon's log to standard error.
pub(crate) fn log(line: &str) -> io::Result<()> {
    io::stderr().lock().write_all(clean(line).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}";

    #[test]
    fn a_part_of_an_answer_reaches_the_terminal_with_its_control_characters_escaped() {
        let mut out = vec![];
        to(&mut out, |out| writeln!(Clean(out), "{HOSTILE}\tb")).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "a\\x1b[2J\\x1b]0;owned\\x07\\u009b31m\\u202e\tb\n"
        );
    }

    #[test]
    fn a_newline_in_a_name_makes_no_message_of_its_own() {
        assert_eq!(
            lines("attached to solver\nnothing was changed\n  threads 3\u{7}"),
            ["attached to solver", "  nothing was changed", "  threads 3\\x07"]
        );
    }

    #[test]
    fn sequences_that_set_colours_go_through_in_claps_answers() {
        let text = "\u{1b}[1m\u{1b}[4mUsage:\u{1b}[0m pinfold \u{1b}[2J\u{1b}]0;a\u{7}\u{1b}[31";
        let expected = "\u{1b}[1m\u{1b}[4mUsage:\u{1b}[0m pinfold \\x1b[2J\\x1b]0;a\\x07\\x1b[31";
        assert_eq!(clean_but_for_colours(text), expected);
    }

    #[test]
    fn a_cause_that_the_error_has_named_is_said_once() {
        let cause = Unwritable(io::Error::other("no space"));
        let error = anyhow::Error::new(cause).context("the answer");
        assert_eq!(whole(&error), "the answer: standard output: no space");
        assert_eq!(whole(&anyhow!("why").context("what")), "what: why");
    }
}
