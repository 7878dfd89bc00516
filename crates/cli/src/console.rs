//! Standard output and standard error: answers go to the first, messages to the second. No other module writes to either.
//!
//! An answer whose reader has gone (`pinfold topo | head`) is no error. An answer that cannot be written for another reason,
//! such as a full disk, is.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use thiserror::Error;

/// Standard output cannot be written.
#[derive(Debug, Error)]
#[error("standard output: {0}")]
pub(crate) struct Unwritable(#[source] io::Error);

/// Writes a whole answer to standard output.
pub(crate) fn print(text: &str) -> Result<(), Unwritable> {
    stream(|out| out.write_all(text.as_bytes())).map(drop)
}

/// Writes a document to standard output, as JSON with a newline at its end.
pub(crate) fn print_json(document: &impl serde::Serialize) -> anyhow::Result<()> {
    Ok(print(&(serde_json::to_string_pretty(document)? + "\n"))?)
}

/// Writes an answer to standard output in parts. The result is whether its reader stayed until the end.
pub(crate) fn stream(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<bool, Unwritable> {
    read_to_the_end(to(&mut io::stdout().lock(), write))
}

fn to(out: &mut impl Write, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    write(&mut out)?;
    // Standard output has a buffer of its own; at the end of the process its errors would be lost.
    out.flush()
}

fn read_to_the_end(written: io::Result<()>) -> Result<bool, Unwritable> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Unwritable(error)),
    }
}

/// Prints clap's answer to a command line that it did not parse: help and version to standard output, errors to standard
/// error. The result is the exit status.
pub(crate) fn print_parsed(answer: &clap::Error) -> Result<i32, Unwritable> {
    let written = answer.print().and_then(|()| io::stdout().flush());
    if !answer.use_stderr() {
        read_to_the_end(written)?;
    }
    Ok(answer.exit_code())
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
    for line in message.to_string().lines() {
        // One call: standard error has no buffer, and the observed program may write there at the same time. A message
        // that cannot be written does not end the command.
        let _ = err.write_all(format!("pinfold: {line}\n").as_bytes());
    }
}

/// Writes one line of the daemon's log to standard error.
pub(crate) fn log(line: &str) -> io::Result<()> {
    io::stderr().lock().write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn a_cause_that_the_error_has_named_is_said_once() {
        let cause = Unwritable(io::Error::other("no space"));
        let error = anyhow::Error::new(cause).context("the answer");
        assert_eq!(whole(&error), "the answer: standard output: no space");
        assert_eq!(whole(&anyhow!("why").context("what")), "what: why");
    }
}
