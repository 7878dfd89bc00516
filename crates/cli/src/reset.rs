//! `pinfold reset`: rolls back the changes that a killed pinfold has left.

use crate::{console, journals};
use anyhow::Result;
use clap::Args;
use pinfold_core::text::one_line;
use pinfold_linux::journal::{Action, Directory, FoundJournal, Left, RolledBack, Roots};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Roll back what a killed pinfold left changed: affinity masks of threads, prefetchers.
///
/// Changes of a pinfold that still runs are left alone, and so is what another program has changed since. A journal of
/// another container is left alone too; how to roll it back is printed. The exit status is 1 if something could not be
/// rolled back, or was left to another container.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold reset --dry-run
      what a killed pinfold has left, and the calls that would roll it back
  pinfold reset
      roll it back")]
pub(crate) struct Arguments {
    #[command(flatten)]
    journals: journals::Arguments,

    /// Only print the calls that would be made.
    #[arg(long)]
    dry_run: bool,

    /// Also roll back changes that were left on purpose (`run --keep-pinned`).
    #[arg(long)]
    kept: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints (docs/formats/run.md).
#[derive(Serialize)]
struct Document {
    dry_run: bool,
    journals: Vec<Entry>,
}

/// One journal.
#[derive(Serialize)]
struct Entry {
    file: PathBuf,
    state: State,
    /// Why it cannot be read, wholly or to its end.
    damage: Option<String>,
    /// The new path of a damaged one.
    set_aside: Option<PathBuf>,
    calls: Vec<Step>,
    /// What another program has changed since.
    left_alone: Vec<String>,
    /// What could not be looked at.
    unknown: Vec<String>,
    /// For a journal of other namespaces: these namespaces, and the command that rolls it back.
    elsewhere: Option<String>,
}

/// The state of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// Its pinfold runs.
    Running,
    /// It was left on purpose.
    Kept,
    /// It cannot be opened.
    Unreadable,
    /// It has the name of a journal and is not one.
    NotOurs,
    /// It is about threads of another PID or time namespace.
    Elsewhere,
    /// All its changes are rolled back, or would be.
    #[serde(rename = "undone")]
    RolledBack,
    /// Some of its changes could not be rolled back.
    Failed,
}

/// One call, and its result.
#[derive(Serialize)]
struct Step {
    call: String,
    #[serde(flatten)]
    about: About,
    failure: Option<String>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum About {
    Mask {
        process: i32,
        thread: i32,
        now: String,
        to: String,
    },
    Register {
        pu: u32,
        register: u32,
        now: u64,
        to: u64,
    },
    Probe {
        name: String,
    },
}

impl From<&Action> for About {
    fn from(action: &Action) -> Self {
        match action {
            Action::Mask {
                process,
                thread,
                now,
                to,
            } => Self::Mask {
                process: *process,
                thread: *thread,
                now: now.to_set().to_string(),
                to: to.to_string(),
            },
            &Action::Register { pu, register, now, to } => Self::Register {
                pu: pu.0,
                register,
                now,
                to,
            },
            Action::Probe { name } => Self::Probe { name: name.clone() },
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let found = match Directory::find(&arguments.journals.path())? {
        Some(directory) => directory.survey()?,
        None => vec![],
    };
    let mut journals = vec![];
    for found in found {
        journals.push(match found {
            FoundJournal::Running(file) => Entry::untouched(file, State::Running, None),
            FoundJournal::Unreadable(file, error) => Entry::untouched(file, State::Unreadable, Some(error.to_string())),
            FoundJournal::NotOurs(file, why) => Entry::untouched(file, State::NotOurs, Some(why.to_owned())),
            FoundJournal::Elsewhere(file, elsewhere) => Entry {
                elsewhere: Some(elsewhere.to_string()),
                ..Entry::untouched(file, State::Elsewhere, None)
            },
            FoundJournal::Left(left) if left.kept() && !arguments.kept => {
                Entry::untouched(left.path().to_path_buf(), State::Kept, None)
            }
            FoundJournal::Left(left) => reset(left, arguments.dry_run)?,
        });
    }
    let failed = journals.iter().any(|entry| {
        matches!(
            entry.state,
            State::Failed | State::Unreadable | State::NotOurs | State::Elsewhere
        )
    });
    let document = Document {
        dry_run: arguments.dry_run,
        journals,
    };
    let text = if arguments.json {
        format!("{}\n", serde_json::to_string_pretty(&document)?)
    } else {
        for_a_person(&document)
    };
    console::print(&text)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Rolls one journal back, and removes it or sets it aside, unless a change could not be rolled back.
fn reset(left: Left, dry_run: bool) -> Result<Entry> {
    let rolled_back = left.roll_back(&Roots::default(), dry_run);
    let state = if rolled_back.failed() == 0 {
        State::RolledBack
    } else {
        State::Failed
    };
    let mut entry = Entry::of(&left, state, rolled_back);
    if state == State::RolledBack && !dry_run {
        entry.set_aside = left.settle()?;
    }
    Ok(entry)
}

impl Entry {
    fn untouched(file: PathBuf, state: State, damage: Option<String>) -> Self {
        Self {
            file,
            state,
            damage,
            set_aside: None,
            calls: vec![],
            left_alone: vec![],
            unknown: vec![],
            elsewhere: None,
        }
    }

    fn of(left: &Left, state: State, rolled_back: RolledBack) -> Self {
        let damage = left.damage().map(str::to_owned);
        let calls = rolled_back.calls.into_iter().map(|call| Step {
            call: call.action.to_string(),
            about: About::from(&call.action),
            failure: call.failure,
        });
        Self {
            calls: calls.collect(),
            left_alone: rolled_back.left_alone,
            unknown: rolled_back.unknown,
            ..Self::untouched(left.path().to_path_buf(), state, damage)
        }
    }
}

/// A line for each call and each note.
fn for_a_person(document: &Document) -> String {
    let mut text = String::new();
    for entry in &document.journals {
        let file = entry.file.display().to_string();
        let file = one_line(&file);
        let _ = match entry.state {
            State::Running => writeln!(text, "{file}: its pinfold runs; left alone"),
            State::Kept => writeln!(text, "{file}: left on purpose (--keep-pinned); --kept rolls it back"),
            State::NotOurs => writeln!(
                text,
                "{file} is no journal of this user's pinfold: {}; left alone",
                entry.damage.as_deref().unwrap_or_default()
            ),
            State::Unreadable | State::Elsewhere | State::RolledBack | State::Failed => Ok(()),
        };
        if let Some(elsewhere) = &entry.elsewhere {
            let _ = writeln!(text, "{file}: left alone: {elsewhere}");
        }
        if let Some(damage) = entry.damage.as_ref().filter(|_| entry.state != State::NotOurs) {
            let _ = match &entry.set_aside {
                Some(aside) => writeln!(text, "{file} is damaged: {damage}; it is {} now", aside.display()),
                None => writeln!(text, "{file} is damaged: {damage}"),
            };
        }
        for call in &entry.calls {
            let _ = match &call.failure {
                Some(failure) => writeln!(text, "{}: {failure}", call.call),
                None => writeln!(text, "{}", call.call),
            };
        }
        for unknown in &entry.unknown {
            let _ = writeln!(text, "{}", one_line(unknown));
        }
        for left_alone in &entry.left_alone {
            let _ = writeln!(text, "left alone: {}", one_line(left_alone));
        }
        if entry.state == State::Failed {
            let _ = writeln!(text, "{file} stays, because of changes that could not be rolled back");
        }
    }
    let calls = document.journals.iter().flat_map(|entry| &entry.calls);
    let done = calls.filter(|call| call.failure.is_none()).count();
    let noun = if done == 1 { "change" } else { "changes" };
    let _ = match (done, document.dry_run) {
        (0, _) => writeln!(text, "nothing to roll back"),
        (_, true) => writeln!(text, "{done} {noun} would be rolled back"),
        (_, false) => writeln!(text, "{done} {noun} rolled back"),
    };
    text
}
