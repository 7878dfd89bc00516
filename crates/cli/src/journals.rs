//! The folder of the journals, and the changes that an earlier pinfold left in them.

use clap::Args;
use pinfold_linux::journal::{Directory, Found, JournalError, Roots};
use std::env;
use std::path::PathBuf;

/// Where journals are.
#[derive(Args)]
#[group(skip)]
pub(crate) struct Arguments {
    #[arg(
        long,
        env = "PINFOLD_JOURNALS",
        hide_env_values = true,
        value_name = "DIR",
        help = "The directory of journals, where pinfold notes each change of the machine before it makes it, so that \
                `pinfold reset` can roll it back [default: /run/pinfold for root, else $XDG_RUNTIME_DIR/pinfold]"
    )]
    journals: Option<PathBuf>,
}

impl Arguments {
    /// The directory.
    pub(crate) fn path(&self) -> PathBuf {
        let usual = || Directory::usual(env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
        self.journals.clone().unwrap_or_else(usual)
    }

    /// A note on the changes that are left there. Journals without changes to roll back are removed.
    pub(crate) fn left_behind(&self) -> Option<String> {
        self.survey().unwrap_or_else(|error| {
            Some(format!(
                "What an earlier pinfold may have left changed is not known: {error}."
            ))
        })
    }

    fn survey(&self) -> Result<Option<String>, JournalError> {
        let Some(directory) = Directory::find(&self.path())? else {
            return Ok(None);
        };
        let (mut changes, mut unreadable) = (0, 0);
        let mut sentences = vec![];
        for found in directory.survey()? {
            let left = match found {
                Found::Left(left) => left,
                Found::Elsewhere(file, elsewhere) => {
                    sentences.push(format!(
                        "{} was left by a pinfold elsewhere: {elsewhere}.",
                        file.display()
                    ));
                    continue;
                }
                Found::Running(_) | Found::Unreadable(..) | Found::NotOurs(..) => continue,
            };
            let rolled_back = left.roll_back(&Roots::default(), true);
            let open = rolled_back.calls.len() + rolled_back.unknown.len();
            if left.damage().is_some() {
                unreadable += 1;
            } else if open == 0 {
                // If that fails, `pinfold reset` reports it.
                let _ = left.settle();
                continue;
            }
            if !left.kept() {
                changes += open;
            }
        }
        let mut parts = vec![];
        if changes > 0 {
            let noun = if changes == 1 {
                "mask or register"
            } else {
                "masks or registers"
            };
            parts.push(format!("{changes} {noun} changed"));
        }
        if unreadable > 0 {
            let noun = if unreadable == 1 { "journal" } else { "journals" };
            parts.push(format!("{unreadable} damaged {noun}"));
        }
        if !parts.is_empty() {
            sentences.push(format!(
                "An earlier pinfold that was killed has left {}; `pinfold reset` rolls that back.",
                parts.join(" and ")
            ));
        }
        Ok((!sentences.is_empty()).then(|| sentences.join(" ")))
    }
}
