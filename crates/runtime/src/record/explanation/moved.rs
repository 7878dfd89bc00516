//! The moves of single tasks in words.

use super::number;
use crate::{TimedComparison, TimedMove};
use pinfold_core::MoveReason;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Every move up to this number is listed; of more, the first.
const LISTED: usize = 40;

/// Why each was moved.
pub(super) fn explain(moves: &[TimedMove], comparisons: &[TimedComparison], text: &mut String) {
    if moves.is_empty() {
        let _ = writeln!(
            text,
            "No thread was moved: no activity was above its threshold where a move would have helped."
        );
        return;
    }
    let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
    for one in moves.iter().filter(|one| !one.moved.makes_room) {
        *causes.entry(one.cause()).or_default() += 1;
    }
    let causes: Vec<String> = causes
        .into_iter()
        .map(|(cause, times)| format!("{times} for {cause}"))
        .collect();
    let room = moves.iter().filter(|one| one.moved.makes_room).count();
    let room = if room == 0 {
        String::new()
    } else {
        format!("; {room} more made room for others")
    };
    let _ = writeln!(text, "Threads were moved {}{room}:", causes.join(", "));
    for one in moves.iter().take(LISTED) {
        one.explain(text);
    }
    if moves.len() > LISTED {
        let _ = writeln!(text, "  {} more are not listed.", moves.len() - LISTED);
    }
    for one in comparisons {
        let _ = writeln!(text, "At {} s: {}.", number(one.at), one.comparison);
    }
}

impl TimedMove {
    fn cause(&self) -> &'static str {
        match self.moved.reason {
            MoveReason::Coherence => "data that they share with others",
            MoveReason::RemoteMemory => "memory of another node",
            MoveReason::Bandwidth => "memory that was saturated",
            MoveReason::RollBack => "moves that did not help",
            MoveReason::Keep => "threads that were brought to them",
            MoveReason::Comparison => "the comparison with unpinned threads",
            MoveReason::Known => "a placement that is known from an earlier run",
        }
    }

    fn explain(&self, text: &mut String) {
        let (at, thread, to) = (number(self.at), self.moved.task.thread, self.moved.to);
        let _ = if self.moved.stays() {
            write!(
                text,
                "  At {at} s thread {thread} was pinned to CPU {to}, where it ran,"
            )
        } else {
            write!(
                text,
                "  At {at} s thread {thread} moved from CPU {} to CPU {to}",
                self.moved.from
            )
        };
        let with = self.moved.swapped_with.as_ref().map(|task| task.thread);
        let comparison = self.moved.excess.map_or_else(String::new, |excess| {
            let name = excess.activity.name();
            format!(
                ": {name} was {:.2e} per cycle, the threshold {:.2e}",
                excess.value, excess.threshold
            )
        });
        let _ = match (self.moved.makes_room, with) {
            (true, Some(other)) => {
                let reluctantly = if self.moved.reluctant {
                    ", leaving its memory"
                } else {
                    ""
                };
                writeln!(text, " to make room for thread {other}{reluctantly}.")
            }
            (_, Some(other)) => writeln!(
                text,
                " in exchange with thread {other}, for {}{comparison}.",
                self.cause()
            ),
            (_, None) => writeln!(text, " for {}{comparison}.", self.cause()),
        };
    }
}
