//! Reports the events of the daemon's loop: in the log, to `pinfold top` and to Prometheus.

use super::config::Config;
use super::log::Log;
use super::placed_by;
use pinfold_core::container::Container;
use pinfold_core::{HostNote, MappingComparison, Pinning, ProcessPages};
use pinfold_linux::processor_time;
use pinfold_linux::service::OnRequest;
use pinfold_linux::watch::{WatchedContainer, Watcher};
use pinfold_policy::sam::{Move, Thresholds};
use pinfold_runtime::daemon::state::{
    self, ContainerTotals, DaemonTotals, MachineState, Settings, State, TaskTotals, Totals,
};
use pinfold_runtime::daemon::{History, KnownProcess, Outcome, ProgressBy, Report, Tick};
use pinfold_scx::Preferring;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Writes the log, and supplies the state to those who request it.
pub(super) struct Reporter {
    pub(super) log: Log,
    states: Arc<OnRequest<State>>,
    machine: MachineState,
    config: Config,
    thresholds: Thresholds,
    history: History,
    /// When the state is next written into the log.
    next_state: Duration,
    pub(super) reloads: u64,
    pub(super) reloads_refused: u64,
}

impl Reporter {
    pub(super) fn new(
        log: Log,
        states: Arc<OnRequest<State>>,
        machine: MachineState,
        config: Config,
        thresholds: Thresholds,
    ) -> Self {
        Self {
            log,
            states,
            machine,
            config,
            thresholds,
            history: History::default(),
            next_state: Duration::ZERO,
            reloads: 0,
            reloads_refused: 0,
        }
    }

    /// Continues with another configuration.
    pub(super) fn reconfigure(&mut self, config: Config, thresholds: Thresholds) {
        self.config = config;
        self.thresholds = thresholds;
        self.history.reconfigured();
        self.log_machine();
    }

    /// Writes the machine's shape, which the states refer to. A log that was rotated has it at its begin.
    pub(super) fn log_machine(&mut self) {
        if self.config.log.state.is_some() {
            let (name, packages) = (&self.machine.name, &self.machine.packages);
            let fields = [("name", name.as_str().into()), ("packages", json!(packages))];
            self.log.event("machine", &fields);
            self.next_state = Duration::ZERO;
        }
    }

    /// Writes the state, if it is time.
    fn log_state(&mut self, host: &Preferring<Watcher>, tick: &Tick<'_>) {
        let now = tick.sample.sample.at;
        let Some(every) = self.config.log.state.filter(|_| now >= self.next_state) else {
            return;
        };
        self.next_state = now + every.0;
        let state = self.state(host, tick);
        let mut fields = vec![("tasks", json!(state.tasks)), ("totals", json!(state.totals))];
        if let Some(scheduler) = &state.scheduler {
            fields.push(("scheduler", json!(scheduler)));
        }
        self.log.event("state", &fields);
    }

    fn state(&self, host: &Preferring<Watcher>, tick: &Tick<'_>) -> State {
        let state = State {
            version: State::VERSION,
            pinfold: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            settings: self.settings(host),
            machine: self.machine.clone(),
            containers: host.host().containers().iter().map(container_totals).collect(),
            totals: self.totals(host.host()),
            ..State::default()
        };
        self.history.complete(state, tick)
    }

    fn settings(&self, host: &Preferring<Watcher>) -> Settings {
        Settings {
            interval: self.config.interval.0.as_secs_f64(),
            metric: self.config.metric.to_string(),
            assumed: self.config.metric.assumed(),
            dry_run: self.config.dry_run,
            children: host.host().children(),
            with: placed_by(host),
            thresholds: state::Thresholds {
                coherence: self.thresholds.coherence,
                remote: self.thresholds.remote,
                memory: self.thresholds.memory,
                package_memory: self.thresholds.package_memory,
            },
        }
    }

    /// The counts that are not in the history.
    fn totals(&self, host: &Watcher) -> Totals {
        let statistics = host.statistics();
        Totals {
            tasks: TaskTotals {
                met: statistics.found,
                ended: statistics.ended,
                freed: statistics.freed,
                changed_by_others: statistics.changed_by_others,
                not_counted: statistics.not_counted,
                not_movable: statistics.not_movable,
            },
            daemon: DaemonTotals {
                processor_seconds: processor_time::this_process()
                    .ok()
                    .map(|time| time.total().as_secs_f64()),
                log_lines_lost: self.log.lost(),
                reloads: self.reloads,
                reloads_refused: self.reloads_refused,
            },
            ..Totals::default()
        }
    }
}

/// A container in the state. The history knows its moves.
fn container_totals(watched: &WatchedContainer) -> ContainerTotals {
    ContainerTotals {
        container: watched.container.as_ref().into(),
        watched: watched.tasks,
        pinned: watched.pinned,
        moves: 0,
        processor_seconds: watched.processor_time.as_secs_f64(),
    }
}

impl Report<Preferring<Watcher>> for Reporter {
    fn note(&mut self, note: &HostNote) {
        let fields = [("code", note.code.name().into()), ("text", note.text.as_str().into())];
        self.log.event("note", &fields);
    }

    fn moved(&mut self, at: Duration, one: &Move, outcome: &Outcome, container: Option<&Container>) {
        if !self.history.moved(at, one, outcome, container) {
            return;
        }
        let mut fields: Vec<(&str, Value)> = vec![
            ("process", one.task.process.into()),
            ("thread", one.task.thread.into()),
            ("from", one.from.0.into()),
            ("to", one.to.0.into()),
            ("reason", one.reason.name().into()),
        ];
        if let Some(excess) = one.excess {
            fields.push(("activity", excess.activity.name().into()));
            fields.push(("value", excess.value.into()));
            fields.push(("threshold", excess.threshold.into()));
        }
        fields.push(("outcome", outcome.code().name().into()));
        if let Some(container) = container {
            fields.push(("container", container.text().into()));
        }
        if let Some(other) = one.swapped_with {
            fields.push(("swapped_with", other.thread.into()));
        }
        for (field, holds) in [("makes_room", one.makes_room), ("reluctant", one.reluctant)] {
            if holds {
                fields.push((field, true.into()));
            }
        }
        if let Some(refused) = outcome.refused() {
            fields.push(("code", refused.code.name().into()));
            fields.push(("why", refused.why.as_str().into()));
        }
        self.log.event("move", &fields);
    }

    fn compared(&mut self, at: Duration, comparison: MappingComparison) {
        let mut fields: Vec<(&str, Value)> = vec![
            ("outcome", comparison.outcome.name().into()),
            ("turns", comparison.turns.into()),
        ];
        if let Some(one) = comparison.slowest() {
            fields.push(("slowest", one.process.into()));
            fields.push(("gain", one.gain.into()));
            fields.push(("error", one.error.into()));
        }
        if let Some(pause) = comparison.pause {
            fields.push(("pause", pause.into()));
        }
        fields.push(("text", comparison.to_string().into()));
        self.log.event("compared", &fields);
        self.history.compared(at, comparison);
    }

    fn progress(&mut self, at: Duration, process: i32, by: &ProgressBy) {
        let mut fields: Vec<(&str, Value)> = vec![
            ("at", at.as_secs_f64().into()),
            ("process", process.into()),
            ("by", by.code().name().into()),
        ];
        match by {
            ProgressBy::Bytes => {}
            ProgressBy::Function(function) => {
                fields.push(("function", function.name.as_str().into()));
                fields.push(("file", function.file.as_str().into()));
                fields.push(("calls_per_second", function.calls_per_second.into()));
                fields.push(("cost", function.cost.into()));
            }
            ProgressBy::Nothing { why } => fields.extend(why.iter().map(|why| ("why", why.as_str().into()))),
        }
        self.log.event("progress", &fields);
    }

    fn known(&mut self, at: Duration, known: &KnownProcess) {
        for (threads, one) in &known.placements {
            let place = Pinning::text_of_place(one.pinning.as_ref(), None, one.pages, 0);
            let fields = [
                ("at", at.as_secs_f64().into()),
                ("process", known.process.into()),
                ("program", known.program.as_str().into()),
                ("threads", (*threads).into()),
                ("placement", place.into()),
                ("gain", one.gain.into()),
                ("other_build", one.other_build.into()),
            ];
            self.log.event("known", &fields);
        }
    }

    fn pages(&mut self, at: Duration, pages: &ProcessPages) {
        self.history.pages(pages);
        let mut fields: Vec<(&str, Value)> = vec![("at", at.as_secs_f64().into()), ("process", pages.process.into())];
        match &pages.result {
            Ok(moves) if moves.is_worth_telling() => {
                fields.push(("goal", moves.goal.as_str().into()));
                fields.push(("bytes", moves.moved.bytes.into()));
                fields.push(("seconds", moves.lasted.as_secs_f64().into()));
                fields.push(("text", moves.to_string().replace("\n ", ";").into()));
            }
            Ok(_) => return,
            Err(reason) => {
                fields.push(("code", reason.code.name().into()));
                fields.push(("why", reason.why.as_str().into()));
            }
        }
        self.log.event("pages", &fields);
    }

    fn tick(&mut self, host: &Preferring<Watcher>, tick: &Tick<'_>) {
        if tick.skipped {
            let text = "the time since the last reading was too long or too short: nothing is decided from it";
            self.log.event("skipped", &[("text", text.into())]);
        }
        self.history.tick(tick);
        self.log_state(host, tick);
        if self.states.is_requested() {
            self.states.supply(self.state(host, tick));
        }
    }
}
