//! The files of the behaviour database: the database, the rules, and the program's binary.

use anyhow::{Context, Result};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use nix::unistd::geteuid;
use pinfold_core::{PuSet, Topology};
use pinfold_files::input;
use pinfold_store::{LearnedRules, MachineKey, Opened, ProgramKey, Store, StoreError};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What `--db` takes for no database.
const NONE: &str = "none";

/// Where the database is.
#[derive(Clone)]
pub(crate) struct Arguments {
    /// The value of the option, or else of the variable.
    db: Option<PathBuf>,
    /// Whether the command line has the option.
    is_given: bool,
}

#[derive(Args)]
#[group(skip)]
struct Options {
    #[arg(
        long,
        env = "PINFOLD_DB",
        hide_env_values = true,
        value_name = "FILE",
        global = true,
        help = "The behaviour database; none for no database [default: /var/lib/pinfold/behaviour.db for root, else \
                $XDG_STATE_HOME/pinfold/behaviour.db; for a simulated run: none]"
    )]
    db: Option<PathBuf>,
}

impl Args for Arguments {
    fn augment_args(command: Command) -> Command {
        Options::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Options::augment_args_for_update(command)
    }
}

impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            db: Options::from_arg_matches(matches)?.db,
            is_given: matches.value_source("db") == Some(ValueSource::CommandLine),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Arguments {
    /// Whether the user has named the file.
    pub(crate) fn is_named(&self) -> bool {
        self.db.is_some()
    }

    /// The file; `None` if the user wants no database.
    pub(crate) fn file(&self) -> Result<Option<PathBuf>> {
        match &self.db {
            Some(file) => Ok(named(file)),
            None => usual(geteuid().is_root(), |name| env::var_os(name)).map(Some),
        }
    }

    /// The file, for a command that is about it.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        self.file()?
            .context("`none` names no behaviour database; name a file with --db")
    }

    /// The file for a run. A simulated run has only the database that `--db` names: the usual one changes with each run,
    /// and the same seed has to give the same run.
    pub(crate) fn file_for_run(&self, simulated: bool) -> Result<Option<PathBuf>> {
        if simulated && !self.is_given {
            return Ok(None);
        }
        self.file()
    }

    /// The rules that were learned from the database of a run, beside it; `None` without a database.
    pub(crate) fn rules_for_run(&self, simulated: bool) -> Result<Option<PathBuf>> {
        Ok(self.file_for_run(simulated)?.map(|file| rules_beside(&file)))
    }

    /// Opens the database, or creates it; with a note for the user.
    pub(crate) fn open(&self) -> Result<(Store, Option<String>)> {
        Ok(with_note(Opened::new(&self.path()?)?))
    }

    /// Opens the database for a run on a machine with this topology. A run goes on without a database that another
    /// process keeps locked. With notes for the user.
    pub(crate) fn open_for_run(
        &self,
        topology: &Topology,
        machine: &MachineKey,
    ) -> Result<(Option<Store>, Vec<String>)> {
        let Some(file) = self.file_for_run(machine.simulated)? else {
            return Ok((None, vec![]));
        };
        match Opened::new(&file) {
            Err(error @ (StoreError::Locked { .. } | StoreError::InUse { .. })) => {
                let note = format!("Nothing is known or remembered of this run: {error}.");
                Ok((None, vec![note]))
            }
            opened => {
                let (mut store, note) = with_note(opened?);
                let adopted = store.adopt(machine, all_pus(topology))?;
                Ok((Some(store), note.into_iter().chain(known_again(adopted)).collect()))
            }
        }
    }
}

/// The file that a user names; `None` for the word for no database.
pub(crate) fn named(file: &Path) -> Option<PathBuf> {
    (file != Path::new(NONE)).then(|| file.to_owned())
}

/// The rules that were learned from a database.
pub(crate) fn rules_beside(database: &Path) -> PathBuf {
    database.with_extension("hints.json")
}

/// All PUs of a machine.
pub(crate) fn all_pus(topology: &Topology) -> &PuSet {
    &topology.object(topology.root()).pus
}

/// The note about programs that were adopted from an older identity of this machine.
pub(crate) fn known_again(programs: usize) -> Option<String> {
    let noun = if programs == 1 { "program" } else { "programs" };
    (programs > 0).then(|| {
        format!(
            "What was learned of {programs} {noun} on this machine is used again: the size of the memory does not make it \
             another machine any more."
        )
    })
}

fn with_note(opened: Opened) -> (Store, Option<String>) {
    let Opened { store, set_aside } = opened;
    let note = set_aside.map(|aside| {
        format!(
            "The behaviour database was damaged. It lies in `{}` now, and a new one is begun.",
            aside.display()
        )
    });
    (store, note)
}

/// The default file of the database. Without a home directory the user has no folder that persists.
fn usual(root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    if root {
        return Ok(PathBuf::from("/var/lib/pinfold/behaviour.db"));
    }
    let absolute = |name| variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    let folder = absolute("XDG_STATE_HOME").or_else(home);
    let folder = folder.context(
        "there is no place for the behaviour database, since neither XDG_STATE_HOME nor HOME names a folder; name a file with --db",
    )?;
    Ok(folder.join("pinfold/behaviour.db"))
}

/// Reads rules. The default file may be absent; `None` for no such file.
pub(crate) fn read_rules(named: Option<&Path>, usual: Option<&Path>) -> Result<Option<LearnedRules>> {
    let Some(file) = named.or(usual.filter(|usual| usual.exists())) else {
        return Ok(None);
    };
    let text = match named {
        Some(_) => input::text(file, input::MOST),
        None => input::text_of_regular(file, input::MOST),
    };
    let text = text.with_context(|| format!("cannot read the rules `{}`", file.display()))?;
    let rules = LearnedRules::parse(&text).with_context(|| format!("`{}` holds no rules", file.display()))?;
    Ok(Some(rules))
}

/// The identity of a program.
pub(crate) fn program_key(file: &Path, command: &[String], machine: MachineKey) -> Result<ProgramKey> {
    let binary = fs::read(file).with_context(|| format!("cannot read the program `{}`", file.display()))?;
    let program = command.first().map_or(file, Path::new);
    Ok(ProgramKey::new(
        &binary,
        program,
        command.get(1..).unwrap_or_default(),
        machine,
    ))
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Arguments {
        let command = Arguments::augment_args(Command::new("run").no_binary_name(true));
        Arguments::from_arg_matches(&command.mut_arg("db", |db| db.env(None)).get_matches_from(words)).unwrap()
    }

    #[test]
    fn none_is_no_database() {
        let none = arguments(&["--db", "none"]);
        assert_eq!(none.file().unwrap(), None);
        assert_eq!(none.rules_for_run(false).unwrap(), None);
        let refused = none.path().unwrap_err().to_string();
        assert!(refused.contains("--db"), "{refused}");
        let file = arguments(&["--db", "./none"]).file().unwrap();
        assert_eq!(file.as_deref(), Some(Path::new("./none")));
    }

    #[test]
    fn a_simulated_run_takes_only_the_database_that_the_command_line_names() {
        let named = arguments(&["--db", "some.db"]);
        assert_eq!(named.file_for_run(true).unwrap(), Some("some.db".into()));
        let variable = Arguments {
            db: Some("usual.db".into()),
            is_given: false,
        };
        assert_eq!(variable.file_for_run(true).unwrap(), None);
        assert_eq!(variable.file_for_run(false).unwrap(), Some("usual.db".into()));
    }

    #[test]
    fn the_usual_place_is_the_users_own_or_there_is_none() {
        let place = |root, variables: &[(&str, &str)]| {
            let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
            usual(root, |name| find(name).map(|(_, value)| value.into()))
        };
        assert_eq!(place(true, &[]).unwrap(), Path::new("/var/lib/pinfold/behaviour.db"));
        let state = ("XDG_STATE_HOME", "/state");
        assert_eq!(
            place(false, &[state]).unwrap(),
            Path::new("/state/pinfold/behaviour.db")
        );
        let (home, relative) = (("HOME", "/home/a"), ("XDG_STATE_HOME", "state"));
        let expected = Path::new("/home/a/.local/state/pinfold/behaviour.db");
        assert_eq!(place(false, &[home, relative]).unwrap(), expected);
        for variables in [&[][..], &[("HOME", "")]] {
            let refused = place(false, variables).unwrap_err().to_string();
            assert!(refused.contains("HOME") && refused.contains("--db"), "{refused}");
        }
    }
}
