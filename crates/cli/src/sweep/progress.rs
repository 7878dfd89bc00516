//! The progress bar: on a terminal only.

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// A bar at the bottom of the terminal, or nothing.
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// `done` of `total` configurations were done by an earlier run.
    pub(super) fn new(quiet: bool, done: usize, total: usize) -> Self {
        let drawn = !quiet && stderr().is_terminal();
        Self(drawn.then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(4);
            let bar = ProgressBar::with_draw_target(Some(total as u64), target).with_style(style(done as u64));
            bar.set_position(done as u64);
            // Earlier configurations say nothing about the time that the rest takes.
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

    /// Removes the bar.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// The form of the bar; `resumed` configurations were done before it began.
fn style(resumed: u64) -> ProgressStyle {
    ProgressStyle::with_template("pinfold: {pos}/{len} configurations {wide_bar} {speed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("speed", move |state: &ProgressState, line: &mut dyn fmt::Write| {
            // A bar that cannot be drawn does not matter to the sweep.
            let _ = line.write_str(&speed(state.pos() > resumed, state.per_sec(), state.eta()));
        })
}

/// The speed of the sweep and the time that the rest takes; neither is known before `any` configuration is done.
fn speed(any: bool, per_second: f64, left: Duration) -> String {
    if any {
        format!("{per_second:.1}/s, {:#} to go", HumanDuration(left))
    } else {
        "the first one is being simulated".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_the_time_left_before_a_configuration_is_done() {
        assert_eq!(speed(false, 0.0, Duration::ZERO), "the first one is being simulated");
        assert_eq!(speed(true, 2.0, Duration::from_secs(90)), "2.0/s, 2m to go");
    }
}
