//! A program on the command line without `--` before it, as numactl(8), taskset(1) and perf(1) take it.
//!
//! The first word of `pinfold run`, `compare` or `record` that is no option and no value of one is the program, and all
//! words after it belong to it. A recording in its place is recognised by its first bytes. `separated` writes `--` before
//! a program, and the parser of the command line then takes the words apart as it does with a `--` of the user.

use anyhow::{Context, Result};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};
use pinfold_core::text;
use pinfold_linux::launch::LaunchError;
use pinfold_trace::is_recording;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The commands whose operand is a program.
const COMMANDS: [&str; 3] = ["run", "compare", "record"];

/// `words`, with `--` before the program. `command` is all of the command line. Errors: the word is no program, and no
/// recording.
pub(crate) fn separated(mut words: Vec<OsString>, command: &Command) -> Result<Vec<OsString>> {
    let Some(name) = first_operand(&words, 1, &[command]) else {
        return Ok(words);
    };
    let Some(inner) = COMMANDS
        .iter()
        .find(|&&known| words[name] == known)
        .and_then(|known| command.find_subcommand(known))
    else {
        return Ok(words);
    };
    if let Some(operand) = first_operand(&words, name + 1, &[inner, command]) {
        let is_read = inner.get_name() != "record"
            && (is_recording(Path::new(&words[operand])) || is_named_as_one(&words[operand]));
        if !is_read {
            executable(&words[operand]).with_context(|| {
                format!(
                    "`{}` is neither a program, here or in PATH, nor a recording that `pinfold record` wrote",
                    words[operand].display()
                )
            })?;
            words.insert(operand, "--".into());
        }
    }
    Ok(words)
}

/// The position of the first word from `start` on that is neither an option nor the value of one; `None` if there is none
/// before `--`, or an option is unknown.
fn first_operand(words: &[OsString], start: usize, commands: &[&Command]) -> Option<usize> {
    let known: Vec<&Arg> = commands.iter().flat_map(|command| command.get_arguments()).collect();
    let mut at = start;
    loop {
        let word = words.get(at)?.as_bytes();
        at += match word.strip_prefix(b"--") {
            Some(b"") => return None,
            Some(long) => words_of_long(long, &known)?,
            None if word.len() > 1 && word[0] == b'-' => words_of_short(&word[1..], &known)?,
            None => return Some(at),
        };
    }
}

/// The number of words of a long option and its value; `None` for an unknown one.
fn words_of_long(long: &[u8], known: &[&Arg]) -> Option<usize> {
    let text = std::str::from_utf8(long).ok()?;
    let (name, has_value) = match text.split_once('=') {
        Some((name, _)) => (name, true),
        None => (text, false),
    };
    if matches!(name, "help" | "version") {
        return Some(1);
    }
    let is_named = |argument: &Arg| {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        argument.get_long() == Some(name) || aliases.contains(&name)
    };
    Some(if takes_value(known.iter().find(|one| is_named(one))?) && !has_value {
        2
    } else {
        1
    })
}

/// The number of words of short options in one word, and of the value of the last one; `None` for an unknown one.
fn words_of_short(letters: &[u8], known: &[&Arg]) -> Option<usize> {
    let letters = std::str::from_utf8(letters).ok()?;
    for (place, letter) in letters.char_indices() {
        if matches!(letter, 'h' | 'V') {
            continue;
        }
        let is_named = |argument: &Arg| {
            let aliases = argument.get_all_short_aliases().unwrap_or_default();
            argument.get_short() == Some(letter) || aliases.contains(&letter)
        };
        if takes_value(known.iter().find(|one| is_named(one))?) {
            return Some(if place + letter.len_utf8() < letters.len() {
                1
            } else {
                2
            });
        }
    }
    Some(1)
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_action().takes_values()
}

/// Whether a file that cannot be run was meant as a recording: its reader then says what is wrong with it.
fn is_named_as_one(word: &OsStr) -> bool {
    Path::new(word).extension().is_some_and(|extension| extension == "pft") && executable(word).is_err()
}

/// How a program is run whose name stands where a command of pinfold belongs; `None` if it is no program. `given` is the
/// command line.
pub(crate) fn hint(error: &clap::Error, given: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let at = given.iter().position(|word| word.to_str() == Some(name))?;
    executable(&given[at]).ok()?;
    let command: Vec<String> = given[at..]
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    Some(format!(
        "`{name}` is a program; to run it: pinfold run {}",
        text::words(&command)
    ))
}

/// The file that `command` names, found as execvp(3) would find it.
pub(crate) fn executable(command: &OsStr) -> Result<PathBuf, LaunchError> {
    let not_found = || LaunchError::NotFound {
        command: command.to_owned(),
    };
    let not_executable = |why: &str| LaunchError::NotExecutable {
        command: command.to_owned(),
        why: why.to_owned(),
    };
    let given = Path::new(command);
    if command.as_bytes().contains(&b'/') {
        return match given.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(not_found()),
            Ok(metadata) if metadata.is_dir() => Err(not_executable("it is a directory")),
            Ok(metadata) if !may_execute(&metadata) => Err(not_executable("Permission denied (os error 13)")),
            _ => Ok(given.to_path_buf()),
        };
    }
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|directory| directory.join(given))
        .find(|file| {
            file.metadata()
                .is_ok_and(|metadata| metadata.is_file() && may_execute(&metadata))
        })
        .ok_or_else(not_found)
}

fn may_execute(metadata: &std::fs::Metadata) -> bool {
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ColorChoice;

    /// The words after `pinfold` with what `separated` adds.
    fn read(line: &str) -> Result<String> {
        let words = format!("pinfold {line}").split(' ').map(OsString::from).collect();
        let words = separated(words, &crate::definition(ColorChoice::Never))?;
        let words: Vec<_> = words[1..].iter().map(|word| word.to_string_lossy()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn the_program_is_the_first_word_that_is_neither_an_option_nor_its_value() {
        for (line, expected) in [
            ("run sh -c true", "run -- sh -c true"),
            ("run -qt 5s --policy auto sh -x", "run -qt 5s --policy auto -- sh -x"),
            (
                "run --policy=auto --color never /bin/sh --color",
                "run --policy=auto --color never -- /bin/sh --color",
            ),
            (
                "--color never run --machine e5-4650x4 sh",
                "--color never run --machine e5-4650x4 -- sh",
            ),
            ("compare -r 2 sh -- a", "compare -r 2 -- sh -- a"),
            ("record -o sh sh", "record -o sh -- sh"),
        ] {
            assert_eq!(read(line).unwrap(), expected);
        }
    }

    #[test]
    fn other_command_lines_stay_as_they_are() {
        for line in [
            "run -- sh -c true",
            "run -p 4711 --for 1m",
            "run --no-such-option sh",
            "run --machine e5-4650x4 none.pft",
            "topo sh",
            "trace info a.pft",
            "sh -c true",
            "",
        ] {
            assert_eq!(read(line).unwrap(), line);
        }
    }

    #[test]
    fn recordings_are_recognised_by_their_first_bytes_whatever_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sh");
        std::fs::write(&file, b"PINFTRC\nmore").unwrap();
        let line = format!("run --machine e5-4650x4 {} a.pft", file.display());
        assert_eq!(read(&line).unwrap(), line);
    }

    #[test]
    fn a_word_that_is_neither_is_an_error_with_the_status_of_env() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notes.txt");
        std::fs::write(&file, "notes").unwrap();
        let status = |error: &anyhow::Error| error.downcast_ref().map(LaunchError::exit_status);
        let error = read("run no-such-program -x").unwrap_err();
        assert_eq!(status(&error), Some(127));
        assert!(
            error
                .to_string()
                .contains("`no-such-program` is neither a program, here or in PATH, nor a recording")
        );
        assert_eq!(
            status(&read(&format!("run {}", file.display())).unwrap_err()),
            Some(126)
        );
    }
}
