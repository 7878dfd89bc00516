//! The data set of a sweep within one run.

use super::space::WithinConfiguration;
use crate::joined::CodePlace;
use pinfold_core::{LIKWID, RegionCounts, RegionId};
use pinfold_dataset::{
    DataSet, JoinedColumns, MachineState, MeasuredColumns, ProgramColumns, Row, SamplingColumns, TimeUnit,
    TrafficColumns, WindowColumns,
};
use pinfold_sim::sweep::likwid_columns;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The program of the rows.
#[derive(Clone, Debug)]
pub struct WithinProgram {
    /// The machine's name.
    pub machine: String,
    /// Whether the machine is simulated.
    pub simulated: bool,
    /// The hash of a simulated machine's model.
    pub model: Option<String>,
    /// The machine's topology, as `pinfold topo --json` writes it.
    pub topology: Value,
    /// All last-level caches of the machine together, in bytes; `None` if they are not known.
    pub llc_bytes: Option<u64>,
    /// The program's file name.
    pub name: String,
    /// The program and its arguments.
    pub command: String,
    /// The identity of the binary or of the recording.
    pub identity: String,
    /// The machine while the program ran.
    pub state: MachineState,
    /// The code of its regions.
    pub code: BTreeMap<RegionId, CodePlace>,
}

/// The whole program, or a region of it, in one configuration.
#[derive(Clone, Debug)]
pub struct MeasuredPart {
    /// The region; `None` for the whole program.
    pub region: Option<RegionId>,
    /// The position of the configuration.
    pub configuration: usize,
    /// Seconds of one execution, or of one unit of the program's metric.
    pub seconds: f64,
    /// Half the 95 % interval of `seconds`, over `seconds`.
    pub error: Option<f64>,
    /// The robust relative standard deviation of the measurements.
    pub spread: Option<f64>,
    /// The number of measurements.
    pub measurements: usize,
    /// What was counted of one unit.
    pub counts: Option<RegionCounts>,
}

/// The data set. `configurations` are in their positions.
pub fn within_data_set(
    program: &WithinProgram,
    configurations: &[WithinConfiguration],
    measured: &[MeasuredPart],
) -> DataSet {
    let counters = counters(program, measured);
    let by_region = measured.iter().any(|one| one.region.is_some());
    let mut order: Vec<&MeasuredPart> = measured.iter().collect();
    order.sort_by_key(|one| (one.configuration, one.region));
    let rows = order.into_iter().map(|one| Row {
        joined: by_region.then(|| joined(program, configurations, measured, one)),
        metrics: counters.iter().map(|&counter| value(one, counter)).collect(),
        ..row(program, &configurations[one.configuration], one)
    });
    DataSet {
        schema: "sweep".to_owned(),
        metrics: counters
            .iter()
            .map(|&counter| likwid_columns().swap_remove(counter))
            .collect(),
        models: program
            .model
            .iter()
            .map(|model| (program.machine.clone(), model.clone()))
            .collect(),
        topologies: BTreeMap::from([(program.machine.clone(), program.topology.clone())]),
        time_unit: TimeUnit::Seconds,
        rows: rows.collect(),
    }
}

/// A row without metrics.
fn row(program: &WithinProgram, configuration: &WithinConfiguration, one: &MeasuredPart) -> Row {
    Row {
        program: ProgramColumns {
            machine: program.machine.clone(),
            program: program.name.clone(),
            region: one.region.map(|id| id.to_string()),
            simulated: program.simulated,
            command: program.command.clone(),
            recording: Some(program.identity.clone()),
        },
        configuration: configuration.columns.clone(),
        time: one.seconds,
        window: WindowColumns {
            llc_bytes: program.llc_bytes,
            ..WindowColumns::default()
        },
        sampling: SamplingColumns {
            time_error: one.error,
            simulated_share: None,
        },
        measured: (!program.simulated).then(|| MeasuredColumns {
            runs: Some(one.measurements),
            spread: one.spread,
            state: program.state.clone(),
        }),
        traffic: TrafficColumns::default(),
        joined: None,
        metrics: vec![],
    }
}

/// The columns of regions. A region is complete if it was measured with each number of threads.
fn joined(
    program: &WithinProgram,
    configurations: &[WithinConfiguration],
    measured: &[MeasuredPart],
    one: &MeasuredPart,
) -> JoinedColumns {
    let code = one.region.and_then(|id| program.code.get(&id));
    let threads_of = |configuration: usize| configurations[configuration].columns.num_threads;
    let all: BTreeSet<usize> = (0..configurations.len()).map(threads_of).collect();
    let of_region = measured.iter().filter(|other| other.region == one.region);
    let measured: BTreeSet<usize> = of_region.map(|other| threads_of(other.configuration)).collect();
    JoinedColumns {
        command: program.command.clone(),
        region_object: code.map(|code| code.object.clone()),
        region_offset: code.map(|code| format!("{:#x}", code.offset)),
        region_complete: measured == all,
        baseline: configurations[one.configuration].baseline,
    }
}

/// The positions of LIKWID's counters that have columns: all that a simulated machine counts, and those that were
/// measured at least once.
fn counters(program: &WithinProgram, measured: &[MeasuredPart]) -> Vec<usize> {
    let simulated = program.simulated && measured.iter().any(|one| one.counts.is_some());
    let has_column = |&counter: &usize| simulated || measured.iter().any(|one| value(one, counter).is_some());
    (0..LIKWID.len()).filter(has_column).collect()
}

/// A counter of one unit.
fn value(one: &MeasuredPart, counter: usize) -> Option<f64> {
    LIKWID[counter].value(one.counts.as_ref()?, one.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spaces::SpaceMachine;
    use crate::within::WithinSpace;
    use pinfold_sim::model::builtin;

    fn program(simulated: bool) -> WithinProgram {
        WithinProgram {
            machine: "machine".to_owned(),
            simulated,
            model: None,
            topology: Value::Null,
            llc_bytes: None,
            name: "solver".to_owned(),
            command: "solver".to_owned(),
            identity: "xxh3:1".to_owned(),
            state: MachineState::default(),
            code: BTreeMap::new(),
        }
    }

    /// A data set of the whole program in two configurations with these counts.
    fn data_set(simulated: bool, counts: &[Option<RegionCounts>; 2]) -> DataSet {
        let space = WithinSpace {
            names: vec!["threads".to_owned()],
            limit: Some(2),
            machine: SpaceMachine::of_model(&builtin("e5-4650x4").unwrap()),
            no_accesses: None,
        };
        let configurations = space.configurations(2).unwrap().configurations;
        let part = |(configuration, counts)| MeasuredPart {
            region: None,
            configuration,
            seconds: 2.0,
            error: None,
            spread: None,
            measurements: 1,
            counts,
        };
        let parts: Vec<MeasuredPart> = counts.iter().copied().enumerate().map(part).collect();
        within_data_set(&program(simulated), &configurations, &parts)
    }

    #[test]
    fn measured_rows_have_only_counters_that_one_of_them_has_and_simulated_rows_all() {
        let energy = RegionCounts {
            package_joules: Some(60.0),
            ..RegionCounts::default()
        };
        let measured = data_set(false, &[Some(energy), Some(RegionCounts::default())]);
        let names: Vec<&str> = measured.metrics.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(names, ["likwid:Energy", "likwid:Power"]);
        assert_eq!(measured.rows[0].metrics, [Some(60.0), Some(30.0)]);
        assert_eq!(measured.rows[1].metrics, [None, None]);
        assert!(data_set(false, &[None, None]).metrics.is_empty());
        assert_eq!(data_set(true, &[Some(energy), None]).metrics.len(), LIKWID.len());
    }
}
