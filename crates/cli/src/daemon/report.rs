//! What is remembered of the loop for the log, for `pinfold top` and for Prometheus.

use super::config::Config;
use super::log::Log;
use super::server::Board;
use super::state::{LastMove, Machine, Moves, State, Task, Totals};
use pinfold_core::{Host, LeftAlone, TaskId, TaskSample};
use pinfold_linux::own;
use pinfold_linux::watch::Watcher;
use pinfold_policy::sam::{Activity, Move, Reason, TaskRates, Thresholds};
use pinfold_runtime::daemon::{Beat, Outcome, Report};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Hears of everything that happens.
pub(super) struct Reporter {
    pub(super) log: Log,
    board: Arc<Board>,
    machine: Machine,
    config: Config,
    thresholds: Thresholds,
    last_moves: HashMap<TaskId, LastMove>,
    moves: BTreeMap<(&'static str, &'static str), u64>,
    /// Reasons for which a task stays, that were written down already.
    told: HashSet<(TaskId, String)>,
    beats: u64,
    skipped: u64,
    busy: Duration,
    pub(super) reloads: u64,
    pub(super) reloads_refused: u64,
}

impl Reporter {
    pub(super) fn new(log: Log, board: Arc<Board>, machine: Machine, config: Config, thresholds: Thresholds) -> Self {
        Self {
            log,
            board,
            machine,
            config,
            thresholds,
            last_moves: HashMap::new(),
            moves: BTreeMap::new(),
            told: HashSet::new(),
            beats: 0,
            skipped: 0,
            busy: Duration::ZERO,
            reloads: 0,
            reloads_refused: 0,
        }
    }

    /// Goes on by another configuration.
    pub(super) fn reconfigure(&mut self, config: Config, thresholds: Thresholds) {
        self.config = config;
        self.thresholds = thresholds;
        self.told.clear();
    }

    fn state(&self, host: &Watcher, beat: &Beat<'_>) -> State {
        let mut rates: HashMap<TaskId, &TaskRates> = beat.rates.iter().map(|rates| (rates.id, rates)).collect();
        let tasks = beat.sample.sample.tasks.iter().zip(&beat.sample.standings);
        let mut tasks: Vec<Task> = tasks
            .map(|(task, standing)| Task {
                process: task.id.process,
                thread: task.id.thread,
                name: task.name.clone(),
                pu: task.last_pu.map(|pu| pu.0),
                pinned: standing.pinned.map(|pu| pu.0),
                allowed: standing.allowed.to_string(),
                left_alone: standing.left_alone.map(left_alone_name).map(str::to_owned),
                busy: standing.busy,
                rates: rates.remove(&task.id).map_or_else(BTreeMap::new, named_rates),
                last_move: self.last_moves.get(&task.id).cloned(),
            })
            .collect();
        tasks.sort_by_key(|task| (task.process, task.thread));
        let thresholds = [
            ("coherence", self.thresholds.coherence),
            ("remote", self.thresholds.remote),
            ("memory", self.thresholds.memory),
            ("package_memory", self.thresholds.package_memory),
        ];
        let totals = self.totals(host, beat, &tasks);
        State {
            pinfold: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            at: beat.sample.sample.at.as_secs_f64(),
            interval: self.config.interval.0.as_secs_f64(),
            metric: self.config.metric.to_string(),
            assumed: self.config.metric.assumed(),
            dry_run: self.config.dry_run,
            children: super::state::freed(host.frees_at_birth()).to_owned(),
            thresholds: thresholds.map(|(name, value)| (name.to_owned(), value)).into(),
            machine: self.machine.clone(),
            tasks,
            totals,
        }
    }

    fn totals(&self, host: &Watcher, beat: &Beat<'_>, tasks: &[Task]) -> Totals {
        let statistics = host.statistics();
        let mut left_alone: BTreeMap<String, u64> = BTreeMap::new();
        for why in tasks.iter().filter_map(|task| task.left_alone.as_ref()) {
            *left_alone.entry(why.clone()).or_default() += 1;
        }
        let moves = self.moves.iter().map(|(&(reason, outcome), &count)| Moves {
            reason: reason.to_owned(),
            outcome: outcome.to_owned(),
            count,
        });
        Totals {
            watched: beat.sample.watched as u64,
            working: tasks.len() as u64,
            pinned: tasks.iter().filter(|task| task.pinned.is_some()).count() as u64,
            left_alone,
            moves: moves.collect(),
            beats: self.beats,
            beats_skipped: self.skipped,
            beat_seconds: self.busy.as_secs_f64(),
            processor_seconds: own::processor_time().ok().map(|time| time.as_secs_f64()),
            met: statistics.met,
            ended: statistics.ended,
            freed: statistics.freed,
            changed_by_others: statistics.changed_by_others,
            not_counted: statistics.not_counted,
            not_movable: statistics.not_movable,
            log_lines_lost: self.log.lost(),
            reloads: self.reloads,
            reloads_refused: self.reloads_refused,
        }
    }

    /// Forgets tasks that do not work any more.
    fn forget(&mut self, tasks: &[TaskSample]) {
        /// Before that so few are remembered that it is not worth looking.
        const MANY: usize = 1000;
        if self.last_moves.len() + self.told.len() > MANY {
            let there: HashSet<TaskId> = tasks.iter().map(|task| task.id).collect();
            self.last_moves.retain(|task, _| there.contains(task));
            self.told.retain(|(task, _)| there.contains(task));
        }
    }
}

impl Report<Watcher> for Reporter {
    fn note(&mut self, text: &str) {
        self.log.event("note", &[("text", text.into())]);
    }

    fn moved(&mut self, at: Duration, one: &Move, outcome: &Outcome) {
        let (name, why) = match outcome {
            Outcome::Made => ("made", None),
            Outcome::Shown => ("shown", None),
            Outcome::Gone => ("gone", None),
            Outcome::Refused(why) => ("refused", Some(why.as_str())),
            Outcome::PartnerStays => ("partner_stays", None),
        };
        let reason = reason_name(one.reason);
        *self.moves.entry((reason, name)).or_default() += 1;
        let last = LastMove {
            at: at.as_secs_f64(),
            from: one.from.0,
            to: one.to.0,
            reason: reason.to_owned(),
            makes_room: one.makes_room,
            activity: one.activity.name().to_owned(),
            value: one.value,
            threshold: one.threshold,
            outcome: name.to_owned(),
        };
        self.last_moves.insert(one.task, last);
        // What is decided again and again and never done is written once.
        let again = *outcome != Outcome::Made
            && !self
                .told
                .insert((one.task, format!("{name} {} {}", one.to, why.unwrap_or_default())));
        if again {
            return;
        }
        let mut fields: Vec<(&str, Value)> = vec![
            ("process", one.task.process.into()),
            ("thread", one.task.thread.into()),
            ("from", one.from.0.into()),
            ("to", one.to.0.into()),
            ("reason", reason.into()),
            ("activity", one.activity.name().into()),
            ("value", one.value.into()),
            ("threshold", one.threshold.into()),
            ("outcome", name.into()),
        ];
        if let Some(other) = one.swapped_with {
            fields.push(("swapped_with", other.thread.into()));
        }
        for (field, holds) in [("makes_room", one.makes_room), ("reluctant", one.reluctant)] {
            if holds {
                fields.push((field, true.into()));
            }
        }
        if let Some(why) = why {
            fields.push(("why", why.into()));
        }
        self.log.event("move", &fields);
    }

    fn beat(&mut self, host: &Watcher, beat: &Beat<'_>) {
        self.beats += 1;
        self.busy += beat.took;
        if beat.skipped {
            self.skipped += 1;
            let text = "the stretch since the last reading was too long or too short: nothing is decided of it";
            self.log.event("skipped", &[("text", text.into())]);
        }
        self.forget(&beat.sample.sample.tasks);
        if self.board.wanted() {
            self.board.post(self.state(host, beat));
        }
    }
}

fn named_rates(rates: &TaskRates) -> BTreeMap<String, Option<f64>> {
    let named = [
        (Activity::InterPackageCoherence, rates.inter),
        (Activity::IntraPackageCoherence, rates.intra),
        (Activity::RemoteDram, rates.remote),
        (Activity::MemoryBandwidth, rates.memory),
    ];
    named.map(|(activity, rate)| (activity.name().to_owned(), rate)).into()
}

fn left_alone_name(why: LeftAlone) -> &'static str {
    match why {
        LeftAlone::OwnMask => "own_mask",
        LeftAlone::Forbidden => "forbidden",
        LeftAlone::OnePu => "one_pu",
        LeftAlone::RealTime => "real_time",
    }
}

fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::Coherence => "coherence",
        Reason::RemoteMemory => "remote_memory",
        Reason::Bandwidth => "bandwidth",
        Reason::Undo => "undo",
    }
}

/// What a machine looks like to those who draw it.
pub(super) fn machine(host: &impl Host) -> Machine {
    Machine::of(host.topology())
}
