//! The program of a measured sweep: its command line for a number of threads, and what its time depends on.

use super::super::Arguments;
use crate::behaviour::program_key;
use crate::program::executable;
use crate::run;
use anyhow::{Context, Result, bail};
use pinfold_store::MachineKey;
use pinfold_sweep::measured::MeasuredProgram;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// In the command: the number of threads.
const THREADS: &[u8] = b"{threads}";
/// In the command: the folder of a run.
const OUTPUT: &[u8] = b"{output}";

/// The program that is measured.
pub(super) struct Program<'a> {
    words: &'a [OsString],
    /// Whether OMP_NUM_THREADS of the environment stays.
    keeps_variable: bool,
}

impl<'a> Program<'a> {
    /// The program of the command line. `varies_threads`: each configuration has a number of threads of its own. Errors:
    /// it cannot be executed, or it places its own threads.
    pub(super) fn new(arguments: &'a Arguments, varies_threads: bool) -> Result<Self> {
        let words = arguments.command.as_slice();
        executable(words.first().map_or(OsStr::new(""), OsString::as_os_str))?;
        if let Some(variable) = run::binding_variables().first() {
            bail!(
                "{variable} binds the program's threads, so that no configuration could place them: unset it for the sweep"
            );
        }
        let has = |placeholder: &[u8]| words.iter().any(|word| find(word.as_bytes(), placeholder).is_some());
        if has(OUTPUT) && arguments.measured.output_dir.is_none() {
            bail!("`{{output}}` in the command is the folder of a run, and there is none without --output-dir DIR");
        }
        Ok(Self {
            words,
            keeps_variable: !varies_threads && env::var_os("OMP_NUM_THREADS").is_some(),
        })
    }

    /// The identity of the program on a machine.
    pub(super) fn identity(&self, arguments: &Arguments, machine: MachineKey) -> Result<MeasuredProgram> {
        let words: Vec<String> = self
            .words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let key = program_key(&executable(&self.words[0])?, &words, machine)?;
        let options = &arguments.measured;
        let folder = env::current_dir().context("the working directory cannot be read")?;
        let text = |name: &str, value: Option<&OsStr>| Some(format!("{name} {}", value?.display()));
        let around = [
            text("in", Some(folder.as_os_str())),
            text("input", options.input.as_deref().map(Path::as_os_str)),
            text("before", options.before.as_deref()),
            text("page options", options.page_options.as_deref().map(OsStr::new)),
        ];
        Ok(MeasuredProgram {
            name: key.name,
            command: words.join(" "),
            identity: key.identity,
            context: around.into_iter().flatten().chain(run::deciding_variables()).collect(),
        })
    }

    /// The command for a number of threads. `threads` is `None` if the program decides on it; `output` is the folder of
    /// the run.
    pub(super) fn command(&self, threads: Option<usize>, output: Option<&Path>) -> Vec<OsString> {
        let words = self.words.iter().map(|word| {
            let threads = threads.map(|threads| threads.to_string());
            let word = replaced(word.as_bytes(), THREADS, threads.as_deref().map(str::as_bytes));
            OsString::from_vec(replaced(
                &word,
                OUTPUT,
                output.map(|folder| folder.as_os_str().as_bytes()),
            ))
        });
        words.collect()
    }

    /// Whether the command names the number of threads.
    pub(super) fn names_threads(&self) -> bool {
        self.words.iter().any(|word| find(word.as_bytes(), THREADS).is_some())
    }

    /// The variable that sets the number of threads, unless the user has set it.
    pub(super) fn variable(&self, threads: Option<usize>) -> Option<(&'static str, String)> {
        let threads = threads.filter(|_| !self.keeps_variable)?;
        Some(("OMP_NUM_THREADS", threads.to_string()))
    }
}

/// The position of a text in another one.
fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// The text with each `placeholder` replaced; unchanged without a value.
fn replaced(text: &[u8], placeholder: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    let Some(value) = value else { return text.to_vec() };
    let mut done = vec![];
    let mut rest = text;
    while let Some(at) = find(rest, placeholder) {
        done.extend_from_slice(&rest[..at]);
        done.extend_from_slice(value);
        rest = &rest[at + placeholder.len()..];
    }
    done.extend_from_slice(rest);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_threads_and_the_folder_take_the_places_of_their_names() {
        let words = ["solver", "-t{threads}", "--out={output}/a", "{other}"].map(OsString::from);
        let program = Program {
            words: &words,
            keeps_variable: false,
        };
        let expected = ["solver", "-t8", "--out=/r/1/a", "{other}"].map(OsString::from);
        assert_eq!(program.command(Some(8), Some(Path::new("/r/1"))), expected);
        assert_eq!(program.command(None, None), words);
        assert_eq!(program.variable(Some(8)), Some(("OMP_NUM_THREADS", "8".to_owned())));
        assert_eq!(program.variable(None), None);
        assert!(program.names_threads());
    }

    #[test]
    fn a_variable_of_the_user_stays() {
        let program = Program {
            words: &[],
            keeps_variable: true,
        };
        assert_eq!(program.variable(Some(8)), None);
    }
}
