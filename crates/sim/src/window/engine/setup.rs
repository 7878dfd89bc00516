//! What an engine derives from the model, the configuration and the options before it runs.

use super::super::configuration::{WindowConfiguration, working};
use super::super::counters::TeamMarks;
use super::super::directory::BLOCK_SHIFT;
use super::super::options::Options;
use super::super::restraint::Restraint;
use super::super::schedule::Waiting;
use super::super::system::System;
use super::super::thread::Settings;
use super::super::time::{Ticks, ticks};
use super::Team;
use crate::model::{Latency, Model, Sourced, SystemCosts};
use std::time::Duration;

/// For this many quanta after a line was transferred to it, a thread counts as competing for lines, and its turns are
/// short.
const COMPETING_QUANTA: f64 = 10.0;

/// The lengths of turns of threads, and the costs of the operating system.
pub(super) struct SchedulingTimes {
    pub(super) quantum: Ticks,
    pub(super) slice: Ticks,
    pub(super) switch: Ticks,
    pub(super) call: Ticks,
    pub(super) poll: Ticks,
}

impl SchedulingTimes {
    pub(super) fn new(model: &Model, options: &Options) -> Self {
        let frequency = model.frequency();
        let time = |duration: Duration| ticks(duration.as_secs_f64() * frequency.0);
        let cost = |pick: fn(&SystemCosts) -> &Sourced<Latency>, default: Duration| {
            let costs = model.system.as_ref();
            costs.map_or_else(|| time(default), |costs| ticks(pick(costs).value().cycles(frequency)))
        };
        Self {
            quantum: ticks(options.quantum_cycles),
            slice: time(options.time_slice),
            switch: cost(|costs| &costs.switch, options.switch),
            call: cost(|costs| &costs.call, options.call),
            poll: cost(|costs| &costs.poll, options.poll),
        }
    }
}

/// The settings of all turns under a configuration: of a thread that runs alone on its core, and of one beside others.
pub(super) fn settings<const W: usize>(
    model: &Model,
    configuration: &WindowConfiguration,
    options: &Options,
    system: &System<W>,
) -> [Settings; 2] {
    let alone = Settings {
        prefetchers: working(configuration.prefetchers, model),
        restraint: Restraint::new(model),
        reorder_buffer: u64::from(model.core.reorder_buffer.value().0),
        store_buffer: u64::from(model.core.store_buffer.value().0),
        serial: model.core.locked_at_once() == 1,
        quantum: ticks(options.quantum_cycles),
        competing_time: ticks(options.quantum_cycles * COMPETING_QUANTA),
        transfer_margin: ticks(options.quantum_cycles).saturating_sub(system.topology.shortest_transfer()),
        most_blocks: (system.caches.highest_line() as usize + 1) >> BLOCK_SHIFT,
    };
    let beside_others = Settings {
        reorder_buffer: model.entries_beside_others(alone.reorder_buffer),
        store_buffer: model.entries_beside_others(alone.store_buffer),
        ..alone
    };
    [alone, beside_others]
}

/// One team for each program, whose threads are numbered one after the other.
pub(super) fn teams(threads: impl Iterator<Item = usize>) -> Vec<Team> {
    let mut first = 0;
    threads
        .map(|number| {
            let threads = first..first + number;
            first += number;
            Team {
                threads,
                waiting: Waiting::default(),
                at_mark: vec![],
                marks: TeamMarks::default(),
                released: 0,
            }
        })
        .collect()
}
