//! The progress bar: on a terminal alone.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// A bar at the bottom of the terminal, or nothing.
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// `done` of `total` configurations are there already.
    pub(super) fn new(quiet: bool, done: usize, total: usize) -> Self {
        let drawn = !quiet && stderr().is_terminal();
        Self(drawn.then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(4);
            let bar = ProgressBar::with_draw_target(Some(total as u64), target).with_style(style());
            bar.set_position(done as u64);
            // What was there already says nothing about how long the rest takes.
            bar.reset_eta();
            bar
        }))
    }

    /// One more is done.
    pub(super) fn step(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("pinfold: {pos}/{len} configurations {wide_bar} {per_sec}, {eta} to go")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}
