//! Standard output and standard error: answers go to the first, messages to the second. No other module writes to
//! either.
//!
//! It is not an error when the reader of an answer closes the pipe (`pinfold topo | head`). An answer that cannot be written
//! for another reason, such as a full disk, is an error.
//!
//! Names and files of others are in answers and messages, so all text is cleaned here (`pinfold_core::text`): a
//! terminal obeys nothing of it, whether standard output is one or not. clap's help and errors have colours, whose
//! sequences go through, and so have results and errors of pinfold (`colour`). `ratatui` (`pinfold top`) and
//! `indicatif` (`progress`) draw by themselves.

use crate::colour::{self, Tone};
use crate::message::{self, NAME_ALONE, WIDTH};
use pinfold_core::text::clean;
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
pub(crate) fn print_parsed(answer: &clap::Error) -> Result<bool, Unwritable> {
    if answer.use_stderr() {
        // A message that cannot be written makes no difference to the exit status.
        let _ = io::stderr().write_all(in_colour(answer, io::stderr().is_terminal()).as_bytes());
    } else {
        let text = in_colour(answer, io::stdout().is_terminal());
        read_to_the_end(to(&mut io::stdout().lock(), |out| out.write_all(text.as_bytes())))?;
    }
    Ok(answer.use_stderr())
}

/// clap's answer, with colours where the command line and the terminal allow them.
fn in_colour(answer: &clap::Error, is_terminal: bool) -> String {
    let rendered = answer.render();
    if colour::allowed(is_terminal) {
        clean_but_for_colours(&rendered.ansi().to_string())
    } else {
        clean(&rendered.to_string()).into_owned()
    }
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
    say_in(Tone::Plain, message);
}

/// Writes a message in a colour.
pub(crate) fn say_in(tone: Tone, message: impl Display) {
    write(tone, message::name(), &message.to_string(), true);
}

/// Writes one line for a launcher. It names its rank itself, and stays one line for programs that read it.
pub(crate) fn say_to_launcher(line: impl Display) {
    write(Tone::Plain, NAME_ALONE, &line.to_string(), false);
}

/// Writes an error to standard error. Programs that read it find each of its sentences on one line.
pub(crate) fn fail(message: impl Display) {
    let is_read_by_people = io::stderr().is_terminal();
    write(Tone::Failure, message::name(), &message.to_string(), is_read_by_people);
}

fn write(tone: Tone, name: &str, message: &str, wraps: bool) {
    let columns = wraps.then(|| WIDTH.saturating_sub(name.len()));
    let stderr = io::stderr();
    let tone = if colour::allowed(stderr.is_terminal()) {
        tone
    } else {
        Tone::Plain
    };
    let mut err = stderr.lock();
    for line in message::lines(message, columns) {
        // One call: standard error has no buffer, and the observed program may write there at the same time. A message
        // that cannot be written does not end the command.
        let _ = err.write_all((colour::painted(tone, name, &line) + "\n").as_bytes());
    }
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
