//! What a data set shows of an evaluation: the machine's events under their own names, and figures that have the same
//! meaning on every machine.

use super::evaluate::RegionFigures;
use crate::events::{EventDefinition, EventSet};
use crate::model::{LINE_BYTES, Model};
use crate::timeline::Counter;
use crate::window::{LevelCounters, Served};
use pinfold_core::MetricColumn;

/// The metrics of a machine.
pub struct Metrics {
    events: Vec<EventDefinition>,
}

/// A value of a part that is not an event, on a machine with `levels` levels of cache. `None` if the divisor is
/// zero.
type Formula = fn(&RegionFigures, levels: usize) -> Option<f64>;

/// The metrics that all machines have.
///
/// The six in capitals are those of table 1 of Denoyelle, Goglin, Jeannot and Ropars (ICPP 2019), with the paper's
/// names; "memory (load or store) instruction" is an access here.
const COMMON: [(&str, &str, Formula); 22] = [
    ("cold_time_s", "s", |part, _| part.cold_seconds),
    ("executions", "execution", |part, _| Some(part.totals.executions as f64)),
    ("ipc", "instruction per cycle", |part, _| {
        ratio(
            part.totals.counters.instructions as f64,
            part.totals.counters.core_cycles,
        )
    }),
    ("l1_miss_ratio", "miss per access", |part, _| {
        missed(&part.totals.counters.levels[0])
    }),
    ("l2_miss_ratio", "miss per access", |part, _| {
        missed(&part.totals.counters.levels[1])
    }),
    ("llc_miss_ratio", "miss per access", |part, levels| {
        missed(&part.totals.counters.levels[levels - 1])
    }),
    ("local_dram_bytes_per_s", "byte per second", |part, _| {
        bytes_per_second(part, Served::LocalMemory)
    }),
    ("remote_dram_bytes_per_s", "byte per second", |part, _| {
        bytes_per_second(part, Served::RemoteMemory)
    }),
    ("memory_bytes_per_s", "byte per second", |part, _| {
        ratio(part.totals.memory_bytes as f64, part.totals.seconds)
    }),
    ("package_power_w", "watt", |part, _| {
        ratio(part.totals.package_joules, part.totals.seconds)
    }),
    ("dram_power_w", "watt", |part, _| {
        ratio(part.totals.memory_joules, part.totals.seconds)
    }),
    ("loads", "access", |part, _| Some(part.totals.counters.reads as f64)),
    ("stores", "access", |part, _| Some(part.totals.counters.writes as f64)),
    ("stall_cycles", "cycle", |part, _| {
        Some(part.totals.counters.stall_cycles)
    }),
    ("intra_package_coherence", "transfer per access", |part, _| {
        per_access(
            part,
            served(
                part,
                &[
                    Served::SameDomainClean,
                    Served::SameDomainModified,
                    Served::SamePackageClean,
                    Served::SamePackageModified,
                ],
            ),
        )
    }),
    ("inter_package_coherence", "transfer per access", |part, _| {
        per_access(
            part,
            served(part, &[Served::OtherPackageClean, Served::OtherPackageModified]),
        )
    }),
    ("LD_INSTANT", "load per cycle", |part, _| {
        per_cycle(part, part.totals.counters.reads)
    }),
    ("SR_INSTANT", "store per cycle", |part, _| {
        per_cycle(part, part.totals.counters.writes)
    }),
    ("L1_MISS_REL", "miss per access", |part, _| misses_per_access(part, 0)),
    ("L2_MISS_REL", "miss per access", |part, _| misses_per_access(part, 1)),
    ("L3_MISS_REL", "miss per access", |part, levels| {
        (levels > 2).then(|| misses_per_access(part, 2)).flatten()
    }),
    ("NODE_MISS_REL", "remote access per access", |part, _| {
        per_access(part, part.totals.counters.served[Served::RemoteMemory])
    }),
];

fn ratio(count: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| count / of)
}

fn missed(level: &LevelCounters) -> Option<f64> {
    ratio(level.misses as f64, (level.hits + level.misses) as f64)
}

fn served(part: &RegionFigures, by: &[Served]) -> u64 {
    by.iter().map(|&by| part.totals.counters.served[by]).sum()
}

fn per_cycle(part: &RegionFigures, count: u64) -> Option<f64> {
    ratio(count as f64, part.totals.counters.core_cycles)
}

fn per_access(part: &RegionFigures, count: u64) -> Option<f64> {
    let counters = &part.totals.counters;
    ratio(count as f64, (counters.reads + counters.writes) as f64)
}

fn misses_per_access(part: &RegionFigures, level: usize) -> Option<f64> {
    per_access(part, part.totals.counters.levels[level].misses)
}

/// Bytes per second that demand misses brought from this memory.
fn bytes_per_second(part: &RegionFigures, served: Served) -> Option<f64> {
    let bytes = part.totals.counters.served[served] * LINE_BYTES;
    ratio(bytes as f64, part.totals.seconds)
}

impl Metrics {
    /// The metrics of a model.
    pub fn of(model: &Model) -> Self {
        Self {
            events: EventSet::for_machine(&model.name),
        }
    }

    /// Their columns, first those that all machines have.
    pub fn columns(&self) -> Vec<MetricColumn> {
        let common = COMMON.iter().map(|&(name, unit, _)| MetricColumn {
            name: name.to_owned(),
            unit: unit.to_owned(),
        });
        let events = self.events.iter().map(|event| MetricColumn {
            name: format!("event:{}", event.name),
            unit: format!("{} per thread and second", event.unit),
        });
        common.chain(events).collect()
    }

    /// The values of a part of a program of `threads` threads, one for each column. Events are rates per second and
    /// thread, as `pinfold run` reports them and as `AutoFinity` uses them (2012, section 3.1).
    pub fn values(&self, model: &Model, threads: usize, part: &RegionFigures) -> Vec<Option<f64>> {
        let levels = model.caches.len();
        let counts = Counter::all(&part.totals.counters, levels);
        let rates = self.events.iter().map(|event| {
            let count: f64 = event.counters.iter().map(|&counter| counts[counter as usize]).sum();
            ratio(count, threads as f64 * part.totals.seconds)
        });
        let common = COMMON.iter().map(|(_, _, formula)| formula(part, levels));
        common.chain(rates).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::builtin;
    use crate::window::{Counters, RegionTotals};

    fn value(part: &RegionFigures, name: &str) -> Option<f64> {
        let model = builtin("opteron-6164x4").unwrap();
        let metrics = Metrics::of(&model);
        let column = metrics.columns().iter().position(|column| column.name == name).unwrap();
        metrics.values(&model, 4, part)[column]
    }

    #[test]
    fn an_event_is_a_rate_per_thread_and_second() {
        let part = RegionFigures {
            region: None,
            cold_seconds: Some(3.0),
            time_error: None,
            totals: RegionTotals {
                executions: 1,
                seconds: 2.0,
                counters: Counters {
                    instructions: 800,
                    core_cycles: 1600.0,
                    ..Counters::default()
                },
                package_joules: 10.0,
                ..RegionTotals::default()
            },
        };
        assert_eq!(value(&part, "event:instructions"), Some(100.0));
        assert_eq!(value(&part, "ipc"), Some(0.5));
        assert_eq!(value(&part, "package_power_w"), Some(5.0));
    }

    #[test]
    fn a_ratio_with_a_divisor_of_zero_is_missing() {
        let part = RegionFigures {
            region: Some(1),
            cold_seconds: None,
            time_error: None,
            totals: RegionTotals::default(),
        };
        for name in ["ipc", "llc_miss_ratio", "event:instructions", "dram_power_w"] {
            assert_eq!(value(&part, name), None, "{name}");
        }
    }
}
