//! The progress line: what is going on and how much of its time has passed.
//!
//! It is drawn when standard error is a terminal and standard output is not the same one: the program's own output and
//! a line that is drawn again and again would spoil each other.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
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
            let style = ProgressStyle::with_template("pinfold: {msg} {wide_bar} {pos}/{len} ms")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4)).with_style(style)
        });
        Self {
            bar,
            began: Duration::ZERO,
        }
    }

    /// Something begins that lasts so long.
    pub(super) fn step(&mut self, text: &str, began: Duration, lasts: Duration) {
        self.began = began;
        if let Some(bar) = &self.bar {
            bar.set_length(milliseconds(lasts));
            bar.set_position(0);
            bar.set_message(text.to_owned());
        }
    }

    /// Something begins that has no end.
    pub(super) fn rest(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.unset_length();
            bar.set_message(text.to_owned());
        }
    }

    /// Time has passed.
    pub(super) fn tick(&self, now: Duration) {
        if let Some(bar) = &self.bar {
            bar.set_position(milliseconds(now.saturating_sub(self.began)));
        }
    }

    /// Writes to the terminal without the line in the way.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Takes the line away.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
