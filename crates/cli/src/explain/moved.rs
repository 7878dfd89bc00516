//! The moves of single tasks in words.

use super::number;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// So many moves are told one by one; of more, the first.
const TOLD: usize = 40;

/// One task that was moved by itself.
#[derive(Deserialize)]
pub(super) struct Moved {
    at: f64,
    task: Task,
    from: u32,
    to: u32,
    reason: String,
    makes_room: bool,
    reluctant: bool,
    activity: String,
    value: f64,
    threshold: f64,
    swapped_with: Option<Task>,
}

#[derive(Deserialize)]
struct Task {
    thread: i32,
}

/// Why each was moved.
pub(super) fn told(moves: &[Moved], text: &mut String) {
    if moves.is_empty() {
        let _ = writeln!(
            text,
            "No thread was moved: nothing was above its threshold that a move would have helped."
        );
        return;
    }
    let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
    for one in moves.iter().filter(|one| !one.makes_room) {
        *causes.entry(one.cause()).or_default() += 1;
    }
    let causes: Vec<String> = causes
        .into_iter()
        .map(|(cause, times)| format!("{times} for {cause}"))
        .collect();
    let room = moves.iter().filter(|one| one.makes_room).count();
    let room = if room == 0 {
        String::new()
    } else {
        format!("; {room} more made room for others")
    };
    let _ = writeln!(text, "Threads were moved {}{room}:", causes.join(", "));
    for one in moves.iter().take(TOLD) {
        one.told(text);
    }
    if moves.len() > TOLD {
        let _ = writeln!(text, "  and so on: {} more.", moves.len() - TOLD);
    }
}

impl Moved {
    fn cause(&self) -> &str {
        match self.reason.as_str() {
            "coherence" => "data that they share with others",
            "remote_memory" => "memory of another node",
            "bandwidth" => "memory that was saturated",
            "undo" => "moves that did not help",
            other => other,
        }
    }

    fn told(&self, text: &mut String) {
        let _ = write!(
            text,
            "  At {} s thread {} went from CPU {} to CPU {}",
            number(self.at),
            self.task.thread,
            self.from,
            self.to
        );
        let with = self.swapped_with.as_ref().map(|task| task.thread);
        let comparison = format!(
            "{} was {:.2e} a cycle, against {:.2e}",
            self.activity, self.value, self.threshold
        );
        let _ = match (self.makes_room, with) {
            (true, Some(other)) => {
                let reluctantly = if self.reluctant { ", leaving its memory" } else { "" };
                writeln!(text, " to make room for thread {other}{reluctantly}.")
            }
            (_, Some(other)) => writeln!(
                text,
                " in the place of thread {other}, for {}: {comparison}.",
                self.cause()
            ),
            (_, None) => writeln!(text, " for {}: {comparison}.", self.cause()),
        };
    }
}
