//! The progress bar on a terminal, or lines for a program that draws its own.

use crate::{console, message};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use pinfold_core::text::one_line;
use std::cell::Cell;
use std::fmt;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Progress of something that is counted.
pub(crate) enum Progress {
    /// It is not shown.
    Hidden,
    /// A bar at the bottom of the terminal.
    Bar(ProgressBar, ProgressUnit),
    /// A line for each step, such as `3/288`.
    Lines { done: Cell<usize>, total: Cell<usize> },
}

/// What a bar counts.
#[derive(Clone, Copy)]
pub(crate) struct ProgressUnit {
    /// A noun in the plural.
    pub(crate) what: &'static str,
    /// What is shown until the first one is done.
    pub(crate) first: &'static str,
}

impl Progress {
    /// `done` of `total` were done by an earlier run.
    pub(crate) fn new(quiet: bool, counted: ProgressUnit, done: usize, total: usize) -> Self {
        if quiet || !stderr().is_terminal() {
            return Self::Hidden;
        }
        let target = ProgressDrawTarget::stderr_with_hz(4);
        let bar = ProgressBar::with_draw_target(Some(total as u64), target).with_style(style(counted, done as u64));
        bar.set_position(done as u64);
        // What was done earlier says nothing about the time that the rest takes.
        bar.reset_eta();
        Self::Bar(bar, counted)
    }

    /// Lines for a program that calls this one. The first one says how much was done by an earlier run.
    pub(crate) fn lines(done: usize, total: usize) -> Self {
        console::say(format_args!("{done}/{total}"));
        Self::Lines {
            done: Cell::new(done),
            total: Cell::new(total),
        }
    }

    /// The next one of `total` begins; `text` says which it is.
    pub(crate) fn begin(&self, total: usize, text: &str) {
        match self {
            Self::Hidden => {}
            Self::Bar(bar, _) => {
                bar.set_length(total as u64);
                bar.set_message(format!(", {}", one_line(text)));
            }
            Self::Lines { total: known, .. } => known.set(total),
        }
    }

    /// The rest takes this time, which the caller knows better than the number of steps tells.
    pub(crate) fn left(&self, time: Duration) {
        self.end_with(format!("{:#} to go", HumanDuration(time)));
    }

    /// The rest takes this time or more.
    pub(crate) fn left_at_least(&self, time: Duration) {
        self.end_with(format!("at least {:#} to go", HumanDuration(time)));
    }

    fn end_with(&self, text: String) {
        if let Self::Bar(bar, counted) = self {
            bar.set_style(template(*counted, "{prefix}"));
            bar.set_prefix(text);
        }
    }

    /// One more is done.
    pub(crate) fn step(&self) {
        match self {
            Self::Hidden => {}
            Self::Bar(bar, _) => bar.inc(1),
            Self::Lines { done, total } => {
                done.set(done.get() + 1);
                console::say(format_args!("{}/{}", done.get(), total.get()));
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Self::Bar(bar, _) = self {
            bar.finish_and_clear();
        }
    }
}

/// The form of the bar; `resumed` were done before it began.
fn style(counted: ProgressUnit, resumed: u64) -> ProgressStyle {
    let first = counted.first;
    template(counted, "{speed}").with_key("speed", move |state: &ProgressState, line: &mut dyn fmt::Write| {
        // A bar that cannot be drawn does not matter to the command.
        let _ = line.write_str(&speed(state.pos() > resumed, first, state.per_sec(), state.eta()));
    })
}

/// The form of a bar that ends with this.
fn template(counted: ProgressUnit, end: &str) -> ProgressStyle {
    let what = counted.what;
    ProgressStyle::with_template(&format!(
        "{}{{pos}}/{{len}} {what}{{msg}} {{wide_bar}} {end}",
        message::name()
    ))
    .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The speed and the time that the rest takes; neither is known before `any` is done.
fn speed(any: bool, first: &str, per_second: f64, left: Duration) -> String {
    if any {
        format!("{per_second:.1}/s, {:#} to go", HumanDuration(left))
    } else {
        first.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_the_time_left_before_one_is_done() {
        assert_eq!(speed(false, "the first one", 0.0, Duration::ZERO), "the first one");
        assert_eq!(
            speed(true, "the first one", 2.0, Duration::from_secs(90)),
            "2.0/s, 2m to go"
        );
    }
}
