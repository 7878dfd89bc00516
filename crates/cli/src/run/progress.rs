//! The progress line: the current step, and how much of its time has passed.
//!
//! It is drawn when standard error is a terminal and standard output is not the same one: otherwise the
//! program's output and a line that is redrawn would overwrite each other.

use crate::message;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use pinfold_core::text::one_line;
use std::fmt;
use std::io::{IsTerminal, stderr, stdout};
use std::time::Duration;

/// One line at the bottom of the terminal, or nothing.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    began: Duration,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let drawn = !quiet && stderr().is_terminal() && !stdout().is_terminal();
        let bar = drawn.then(|| {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4)).with_style(style("{msg}"))
        });
        Self {
            bar,
            began: Duration::ZERO,
        }
    }

    /// Begins a step of this length.
    pub(super) fn step(&mut self, text: &str, began: Duration, lasts: Duration) {
        self.began = began;
        if let Some(bar) = &self.bar {
            bar.set_style(style("{msg} {wide_bar} {times}"));
            bar.set_length(milliseconds(lasts));
            bar.set_position(0);
            bar.set_message(one_line(text).into_owned());
        }
    }

    /// Begins a step without an end.
    pub(super) fn rest(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_style(style("{msg}"));
            bar.set_message(one_line(text).into_owned());
        }
    }

    /// Time has passed.
    pub(super) fn tick(&self, now: Duration) {
        if let Some(bar) = &self.bar {
            bar.set_position(milliseconds(now.saturating_sub(self.began)));
        }
    }

    /// Removes the line while `write` writes to the terminal.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Removes the line.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The form of the line; `{times}` is how much of the time has passed.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(&format!("{}{template}", message::name()))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("times", |state: &ProgressState, line: &mut dyn fmt::Write| {
            let seconds = |milliseconds: u64| Duration::from_millis(milliseconds).as_secs_f64();
            let lasts = state.len().unwrap_or(0);
            // A line that cannot be drawn does not matter to the run.
            let _ = write!(
                line,
                "{:.1} of {:.1} s",
                seconds(state.pos().min(lasts)),
                seconds(lasts)
            );
        })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
