//! The output of a run's lines: standard error, or with `--log` a file.
//!
//! A program that draws its screen itself, such as an editor or `top`, takes the terminal out of its line mode
//! (`ICANON`). Lines would damage its display, so they are kept until the terminal is in line mode again, or the
//! program has ended. A program that draws in line mode is not recognised; `--log` is for that.

use crate::colour::Tone;
use crate::console;
use crate::message::{self, WIDTH};
use anyhow::{Context, Result};
use nix::sys::termios::{LocalFlags, tcgetattr};
use pinfold_files::output::open_growing;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Writes the lines.
pub(super) struct Lines {
    file: Option<File>,
    kept: RefCell<Vec<(Tone, String)>>,
    ended: Cell<bool>,
}

impl Lines {
    /// To standard error, or to the end of `log`.
    pub(super) fn new(log: Option<&Path>) -> Result<Self> {
        let open = |file: &Path| {
            let opened = open_growing(file, File::options().append(true).create(true));
            opened.with_context(|| format!("--log {} cannot be written", file.display()))
        };
        Ok(Self {
            file: log.map(open).transpose()?,
            kept: RefCell::default(),
            ended: Cell::new(false),
        })
    }

    /// Whether they go to standard error.
    pub(super) fn are_shown(&self) -> bool {
        self.file.is_none()
    }

    /// Whether the program draws on the whole terminal at this moment.
    pub(super) fn are_kept(&self) -> bool {
        let stderr = io::stderr();
        let draws = || tcgetattr(&stderr).is_ok_and(|terminal| !terminal.local_flags.contains(LocalFlags::ICANON));
        self.file.is_none() && !self.ended.get() && stderr.is_terminal() && draws()
    }

    /// Writes a message, after the lines that were kept.
    pub(super) fn say(&self, tone: Tone, text: &str) {
        if let Some(mut file) = self.file.as_ref() {
            // Several ranks may have one log.
            let rank = message::own_rank().map_or_else(String::new, |rank| format!("rank {rank}: "));
            let lines = message::lines(text, Some(WIDTH - rank.len())).into_iter();
            let lines: Vec<String> = lines.map(|line| rank.clone() + &line).collect();
            // A line that cannot be written does not end the run, as with standard error.
            let _ = file.write_all((lines.join("\n") + "\n").as_bytes());
        } else if self.are_kept() {
            self.kept.borrow_mut().push((tone, text.to_owned()));
        } else {
            for (tone, kept) in self.kept.take() {
                console::say_in(tone, kept);
            }
            console::say_in(tone, text);
        }
    }

    /// The program has ended: nothing is kept any longer.
    pub(super) fn end(&self) {
        self.ended.set(true);
    }
}
