//! `--machine data:FILE.parquet`: a data set of measured times, as rows of a table, with the topology of its machine.

use crate::machine::described_topology;
use anyhow::{Context, Result, anyhow, bail};
use pinfold_core::{Topology, text::one_line};
use pinfold_dataset::{DataSet, Row, TimeUnit};
use pinfold_linux::topology::Source;
use pinfold_sim::model;
use pinfold_sim::table::{RowConfiguration, TableRow};
use serde_json::Value;
use std::fs::File;
use std::path::PathBuf;

/// A file, and one of the machines in it if it names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableFile {
    file: PathBuf,
    machine: Option<String>,
}

/// A table that was read.
pub(crate) struct MeasuredTable {
    pub(crate) file: PathBuf,
    /// The machine in it.
    pub(crate) machine: String,
    /// What tells this machine from one that is simulated or real.
    pub(crate) key: String,
    pub(crate) topology: Topology,
    pub(crate) rows: Vec<TableRow>,
    /// Whether the times are in seconds.
    pub(crate) in_seconds: bool,
}

/// What follows the file, before the name of a machine.
const END: &str = ".parquet";

impl TableFile {
    /// Parses what follows `data:`.
    pub(crate) fn parse(text: &str) -> Self {
        let separator = format!("{END}@");
        let (file, machine) = match text.rsplit_once(&separator) {
            Some((file, machine)) => (format!("{file}{END}"), Some(machine.to_owned())),
            None => (text.to_owned(), None),
        };
        Self {
            file: file.into(),
            machine,
        }
    }

    /// Reads the table.
    pub(crate) fn read(&self) -> Result<MeasuredTable> {
        let shown = self.file.display();
        let file = File::open(&self.file).with_context(|| format!("cannot read the table `{shown}`"))?;
        let data = DataSet::read(file).with_context(|| format!("`{shown}` cannot be replayed"))?;
        let machine = self.machine(&data)?;
        let described = data.topologies.get(&machine).map(topology).transpose();
        let described = described.with_context(|| format!("`{shown}`: the topology of `{}`", one_line(&machine)))?;
        // Data sets of models name the model.
        let of_model = || Some(model::builtin(&machine)?.topology());
        let topology = described.or_else(of_model).ok_or_else(|| {
            anyhow!(
                "`{shown}` does not say where the CPUs, cores and nodes of `{}` are: import it with a topology (`pinfold learn \
                 import --topology`)",
                one_line(&machine)
            )
        })?;
        let rows = data.rows.into_iter().filter(|row| row.program.machine == machine);
        Ok(MeasuredTable {
            rows: rows.map(table_row).collect(),
            file: self.file.clone(),
            key: format!("data:{machine}"),
            machine,
            topology,
            in_seconds: data.time_unit == TimeUnit::Seconds,
        })
    }

    /// The machine that the user names, or the only one.
    fn machine(&self, data: &DataSet) -> Result<String> {
        let mut all: Vec<&str> = data.rows.iter().map(|row| row.program.machine.as_str()).collect();
        all.sort_unstable();
        all.dedup();
        let shown = self.file.display();
        let known = || {
            let names: Vec<String> = all.iter().map(|name| format!("`{}`", one_line(name))).collect();
            names.join(", ")
        };
        match (&self.machine, all.as_slice()) {
            (_, []) => bail!("`{shown}` has no rows"),
            (None, [only]) => Ok((*only).to_owned()),
            (None, [first, ..]) => bail!(
                "`{shown}` has several machines, so name one, such as --machine `data:{shown}@{}`: {}",
                one_line(first),
                known()
            ),
            (Some(asked), all) if all.contains(&asked.as_str()) => Ok(asked.clone()),
            (Some(asked), _) => bail!("`{shown}` has no machine `{asked}`; it has {}", known()),
        }
    }
}

/// The topology of a machine, as the metadata of a data set have it.
fn topology(described: &Value) -> Result<Topology> {
    match described.get("synthetic").and_then(Value::as_str) {
        Some(synthetic) => described_topology(&Source::Synthetic(synthetic.to_owned())),
        None => Topology::from_description(described.clone()).map_err(anyhow::Error::msg),
    }
}

/// A row, without what the machine does not need.
fn table_row(row: Row) -> TableRow {
    let Row {
        program,
        configuration,
        time,
        window,
        measured,
        joined,
        ..
    } = row;
    let layout = configuration.layout;
    TableRow {
        program: program.program,
        command: program.command,
        region: program.region,
        configuration: RowConfiguration {
            threads: configuration.num_threads,
            nodes: layout.as_ref().map(|layout| layout.num_nodes),
            threads_per_core: layout.as_ref().and_then(|layout| layout.threads_per_core),
            thread_map: layout.and_then(|layout| layout.thread_map),
            page_map: configuration.page_map,
            prefetch: configuration.prefetch,
            pinning: configuration.pinning,
        },
        time,
        spread: measured.and_then(|measured| measured.spread),
        footprint: window.footprint_bytes,
        baseline: joined.is_some_and(|joined| joined.baseline),
        simulated: program.simulated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_follows_the_file() {
        let parsed = |text: &str| {
            let table = TableFile::parse(text);
            (table.file.display().to_string(), table.machine)
        };
        assert_eq!(parsed("a@b.parquet"), ("a@b.parquet".to_owned(), None));
        assert_eq!(
            parsed("a.parquet@two nodes"),
            ("a.parquet".to_owned(), Some("two nodes".to_owned()))
        );
        assert_eq!(parsed("data"), ("data".to_owned(), None));
    }
}
