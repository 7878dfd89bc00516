//! From the behaviour database to rules: its samples as a data set, and `pinfold learn train hints` on that.
//!
//! Beside the database lie `NAME.hints.json`, the rules in use, and `NAME.training.parquet`, a data set of a sweep that was given
//! to learn from as well.

use crate::behaviour::Arguments;
use crate::learn;
use crate::output::Output;
use crate::parquet_table::{self, Values};
use crate::sweep::DATA_SET_VERSION;
use anyhow::{Context, Result, bail};
use pinfold_policy::Rules;
use pinfold_store::{Program, SampleRow, Store};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The name of a metric in the file's metadata.
#[derive(Serialize)]
struct MetricEntry<'a> {
    name: &'a str,
    unit: &'a str,
}

/// Makes rules of everything that was observed, and of `data`, which is kept for the next time; what there is to tell.
pub(crate) fn rebuild(store: &mut Store, behaviour: &Arguments, data: Option<&Path>) -> Result<String> {
    let training = beside(behaviour, "training.parquet")?;
    if let Some(data) = data {
        let mut read = File::open(data).with_context(|| format!("`{}` cannot be read", data.display()))?;
        let kept = Output::open("the data set", &training)?;
        kept.write_with(|kept| Ok(io::copy(&mut read, kept).map(drop)?))?;
    }
    let programs = store.programs(None)?;
    let exported = beside(behaviour, "samples.parquet")?;
    let rows = export(&programs, &exported)?;
    let rules = behaviour.rules_path()?;
    let made = beside(behaviour, "hints.json.new")?;
    let mut command = learn::command()?;
    command.args([
        "train",
        "hints",
        "--method",
        "paper",
        "--threads",
        "all",
        "--incomplete",
    ]);
    if training.exists() {
        command.arg("--data").arg(&training);
    }
    if rows > 0 {
        command.arg("--data").arg(&exported);
    }
    command.arg("--output").arg(&made);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{}` cannot be started", Path::new(command.get_program()).display()));
    let _ = fs::remove_file(&exported);
    let output = output?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        // Not to be tried at every run: only when there is more to learn from.
        store.built("", crate::behaviour::now())?;
        bail!("no rules could be made of what was observed: {}", said.trim());
    }
    let text = fs::read_to_string(&made).with_context(|| format!("`{}`", made.display()))?;
    let _: Rules = text.parse().with_context(|| format!("`{}`", made.display()))?;
    fs::rename(&made, &rules).with_context(|| format!("`{}` cannot be replaced", rules.display()))?;
    store.built(&crate::behaviour::version(&text), crate::behaviour::now())?;
    Ok(format!("{said}rules: {}\n", rules.display()))
}

fn beside(behaviour: &Arguments, extension: &str) -> Result<PathBuf> {
    Ok(behaviour.path()?.with_extension(extension))
}

/// Writes the samples as a data set, in which a row is a sample; how many.
pub(crate) fn export(programs: &[Program], file: &Path) -> Result<usize> {
    let rows: Vec<(&Program, &SampleRow)> = programs.iter().flat_map(comparable).collect();
    let text = |value: &dyn Fn(&Program, &SampleRow) -> String| {
        Values::Text(rows.iter().map(|(program, sample)| value(program, sample)).collect())
    };
    let times = rows.iter().filter_map(|(_, sample)| Some(1.0 / sample.rate?)).collect();
    let threads = rows
        .iter()
        .map(|(_, sample)| i32::try_from(sample.threads).unwrap_or(i32::MAX));
    let mut columns = vec![
        ("machine", text(&|program, _| program.key.machine.name.clone())),
        ("program", text(&|program, _| program.key.name.clone())),
        ("region", Values::OptionalText(vec![None; rows.len()])),
        ("num_threads", Values::Number(threads.collect())),
        ("page_map", text(&|_, _| "first_touch".to_owned())),
        ("prefetch", text(&|_, _| "0000".to_owned())),
        ("time_s", Values::Float(times)),
        ("pinning", text(&|_, sample| sample.pus.clone())),
        (
            "simulated",
            Values::Flag(rows.iter().map(|(program, _)| program.key.machine.simulated).collect()),
        ),
        (
            "command",
            text(&|program, _| format!("{} {}", program.key.name, program.key.shape)),
        ),
        ("recording", text(&|program, _| program.key.identity.clone())),
    ]
    .into_iter()
    .map(|(name, values)| (name.to_owned(), values))
    .collect::<Vec<_>>();
    let mut units: BTreeMap<&str, &str> = BTreeMap::new();
    for observed in rows.iter().flat_map(|(_, sample)| &sample.observed) {
        if observed.name.starts_with("event:") || observed.name == "ipc" {
            units.insert(&observed.name, &observed.unit);
        }
    }
    for &name in units.keys() {
        let value = |sample: &SampleRow| sample.observed.iter().find(|one| one.name == name)?.value;
        let values = rows.iter().map(|(_, sample)| value(sample)).collect();
        columns.push((name.to_owned(), Values::OptionalFloat(values)));
    }
    let metrics: Vec<MetricEntry<'_>> = units.iter().map(|(name, unit)| MetricEntry { name, unit }).collect();
    let simulated = rows.iter().any(|(program, _)| program.key.machine.simulated);
    let metadata = vec![
        ("dataset", DATA_SET_VERSION.to_owned()),
        ("simulated", simulated.to_string()),
        ("models", "{}".to_owned()),
        ("metrics", serde_json::to_string(&metrics)?),
    ];
    parquet_table::write(Output::open("--data", file)?, "samples", &columns, metadata)?;
    Ok(rows.len())
}

/// A program's samples that can be compared with each other: those with a rate, of the metric that most of them have, and with
/// a place.
fn comparable(program: &Program) -> Vec<(&Program, &SampleRow)> {
    let rated = |sample: &&SampleRow| sample.rate.is_some_and(|rate| rate > 0.0) && !sample.pus.is_empty();
    let mut times: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for sample in program.samples.iter().filter(rated) {
        *times.entry(sample.metric.as_deref()).or_default() += 1;
    }
    let most = times
        .into_iter()
        .max_by_key(|&(_, times)| times)
        .and_then(|(metric, _)| metric);
    let samples = program.samples.iter().filter(rated);
    samples
        .filter(|sample| sample.metric.as_deref() == most)
        .map(|sample| (program, sample))
        .collect()
}
