//! Reads the log of a daemon: one object of JSON for each event (docs/formats/daemon.md).
//!
//! 1. A log may have the lines of several daemons, one after the other. The last one counts.
//! 2. Times are in seconds since its first line.
//! 3. A line that cannot be read (a full disk cuts lines) is counted. An event that is not known is left out: a later
//!    pinfold may write more.

use pinfold_runtime::daemon::state::{MachineState, Package, SchedulerState, Task, Totals};
use serde::Deserialize;
use serde_json::Value;
use std::time::SystemTime;

/// The lines of one daemon.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DaemonLog {
    /// The first line, where the log has it.
    pub(super) started: Option<Started>,
    /// When it began, as the log has it.
    pub(super) began: String,
    /// From the first line to the last.
    pub(super) lasted: f64,
    pub(super) machine: Option<MachineState>,
    pub(super) states: Vec<StateLine>,
    pub(super) moves: Vec<Move>,
    /// Everything that has a text: notes, refusals, other events.
    pub(super) remarks: Vec<Remark>,
    /// The number of the signal that ended it.
    pub(super) ended: Option<i64>,
    /// Lines that could not be read.
    pub(super) damaged: usize,
    /// Daemons before it in the same log.
    pub(super) earlier: usize,
}

/// How a daemon began.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Started {
    pub(super) pinfold: String,
    pub(super) process: i64,
    pub(super) machine: String,
    pub(super) pus: String,
    pub(super) interval: f64,
    pub(super) metric: String,
    pub(super) dry_run: bool,
}

/// The state at one time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct StateLine {
    /// In seconds since the first line.
    #[serde(skip)]
    pub(super) at: f64,
    pub(super) tasks: Vec<Task>,
    /// `None` without a scheduler in the kernel.
    #[serde(default)]
    pub(super) scheduler: Option<SchedulerState>,
    pub(super) totals: Totals,
}

/// A move of a task.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Move {
    #[serde(skip)]
    pub(super) at: f64,
    pub(super) process: i64,
    pub(super) thread: i64,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) reason: String,
    pub(super) activity: String,
    pub(super) value: Option<f64>,
    pub(super) threshold: Option<f64>,
    pub(super) outcome: String,
    pub(super) swapped_with: Option<i64>,
    pub(super) makes_room: bool,
    pub(super) why: Option<String>,
}

/// An event in words.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Remark {
    pub(super) at: f64,
    pub(super) event: String,
    pub(super) text: String,
}

/// The line with the machine's shape.
#[derive(Deserialize)]
struct MachineLine {
    name: String,
    packages: Vec<Package>,
}

/// The text is not a log, or has a version that this pinfold cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Its lines are `key=value` pairs.
    #[error(
        "this log has `key=value` pairs, which are for people: let the daemon write it with `--log-format json`, and with \
         `--log-state 10s` for the places of threads"
    )]
    Logfmt,
    /// No line is an event.
    #[error("this is no log of a daemon: give a file that `pinfold daemon --log FILE --log-format json` wrote")]
    NoLog,
}

impl DaemonLog {
    /// Whether a text looks like a log, in either form: its first line is an event.
    pub fn is_log(text: &str) -> bool {
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
        is_logfmt(first) || event(first).is_some()
    }

    /// Reads the text of a log.
    ///
    /// # Errors
    ///
    /// No line is an event of a daemon.
    pub fn read(text: &str) -> Result<Self, LogError> {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let events: Vec<Option<Event>> = lines.iter().map(|line| event(line)).collect();
        if events.iter().all(Option::is_none) {
            let logfmt = lines.first().is_some_and(|first| is_logfmt(first));
            return Err(if logfmt { LogError::Logfmt } else { LogError::NoLog });
        }
        let starts: Vec<usize> = events
            .iter()
            .enumerate()
            .filter(|(_, event)| event.as_ref().is_some_and(|event| event.name == "started"))
            .map(|(position, _)| position)
            .collect();
        let start = starts.last().copied().unwrap_or(0);
        let mut log = Self {
            earlier: starts.len().saturating_sub(1),
            ..Self::default()
        };
        let mut first = None;
        for event in events.into_iter().skip(start) {
            let Some(event) = event else {
                log.damaged += 1;
                continue;
            };
            let first = *first.get_or_insert_with(|| {
                log.began.clone_from(&event.written);
                event.time
            });
            // The clock can be set back.
            let at = event.time.duration_since(first).map_or(0.0, |time| time.as_secs_f64());
            log.lasted = log.lasted.max(at);
            log.add(at, event);
        }
        Ok(log)
    }

    fn add(&mut self, at: f64, event: Event) {
        let text = event.fields.get("text").and_then(Value::as_str).map(str::to_owned);
        let known = match event.name.as_str() {
            "started" => read(event.fields, |started| self.started = Some(started)),
            "machine" => read(event.fields, |MachineLine { name, packages }| {
                self.machine = Some(MachineState { name, packages });
            }),
            "state" => read(event.fields, |state: StateLine| {
                self.states.push(StateLine { at, ..state });
            }),
            "move" => read(event.fields, |one: Move| self.moves.push(Move { at, ..one })),
            "ended" => {
                self.ended = event.fields.get("signal").and_then(Value::as_i64);
                true
            }
            _ => true,
        };
        self.damaged += usize::from(!known);
        if let Some(text) = text {
            let event = event.name;
            self.remarks.push(Remark { at, event, text });
        }
    }
}

/// A line of the log.
struct Event {
    time: SystemTime,
    /// The time as it is written.
    written: String,
    name: String,
    fields: Value,
}

fn event(line: &str) -> Option<Event> {
    let fields: Value = serde_json::from_str(line).ok()?;
    let written = fields.get("time")?.as_str()?.to_owned();
    Some(Event {
        time: humantime::parse_rfc3339_weak(&written).ok()?,
        written,
        name: fields.get("event")?.as_str()?.to_owned(),
        fields,
    })
}

fn is_logfmt(line: &str) -> bool {
    line.starts_with("time=") && line.contains(" event=")
}

/// Whether the fields parse as a `T`. `take` gets it.
fn read<T: for<'de> Deserialize<'de>>(fields: Value, take: impl FnOnce(T)) -> bool {
    serde_json::from_value(fields).map(take).is_ok()
}
