//! `pinfold calibrate`: measures this machine and writes its model, or SAM's thresholds of a machine (`thresholds`).
//!
//! A model, with `--model`:
//!
//! 1. `pinfold_linux::calibrate` measures; the progress goes to standard error.
//! 2. `pinfold_calibrate::model::Shape` turns the topology into the regular shape that a model has.
//! 3. `pinfold_calibrate::model` writes the model: each number with its source, `measured: ...`, what the machine
//!    reports, or `assumed: ...`.
//! 4. The text is parsed as any model is, before it is written.

mod thresholds;

use crate::console;
use crate::machine::{Selected, topology_here};
use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use pinfold_calibrate::calibration_json;
use pinfold_calibrate::model::{self, Shape};
use pinfold_core::measurement::Thoroughness;
use pinfold_files::output::Output;
use pinfold_linux::calibrate;
use pinfold_sim::model::Model;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Measure a machine.
///
/// With --model, measures this machine and writes a model of it, which `--machine FILE.toml` then simulates. It takes
/// less than two minutes; nothing else should run meanwhile.
///
/// With --thresholds, writes the rates above which sharing and memory traffic are a bottleneck, for `pinfold run
/// --policy sam` and `pinfold daemon`: on this machine, with the counters of its processor, in a minute or two; or,
/// with --machine, on a simulated one.
#[derive(Args)]
#[command(group = ArgGroup::new("mode").required(true))]
#[command(after_long_help = "\
Examples:
  pinfold calibrate --model -o here.toml
      a model of this machine, for `pinfold run --machine here.toml`
  pinfold calibrate --thresholds -o thresholds.toml
      what counts as a bottleneck here, for `pinfold daemon --thresholds thresholds.toml`")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: crate::machine::Arguments,

    /// Measure what a machine model needs: the core, caches, memory, communication between cores.
    #[arg(long, group = "mode")]
    model: bool,

    /// Measure the thresholds of SAM: two threads share data more and more often, near each other and apart; and one
    /// to all cores of a package copy memory.
    #[arg(long, group = "mode")]
    thresholds: bool,

    /// With --thresholds, on this machine: count these events instead of the processor's own, as `pinfold run
    /// --policy sam --metric` does, such as `inter_package_coherence=EVENT,memory_bandwidth=EVENT`; rates are by the
    /// nanosecond of processor time.
    #[arg(
        long,
        value_name = "METRIC",
        requires = "thresholds",
        conflicts_with_all = ["machine", "model"]
    )]
    metric: Option<String>,

    /// With --thresholds: draw both measured curves to this file, as SVG.
    #[arg(long, value_name = "FILE.svg", requires = "thresholds", conflicts_with = "model")]
    plot: Option<PathBuf>,

    /// Write the model or the thresholds to this file [default: standard output].
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,

    /// Also write all measurements to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Measure in seconds and with little memory. The figures of a model beyond the last cache are not reliable
    /// then; curves of thresholds have fewer points, each of fewer repetitions.
    #[arg(long)]
    quick: bool,

    /// Print no progress.
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let machine = arguments.machine.selected()?;
    if arguments.thresholds {
        thresholds::check_files(arguments)?;
    } else if machine != Selected::Here {
        bail!("--model measures this machine; leave --machine out");
    }
    let name = model_name(arguments.output.as_deref())?;
    // Checked before the measurement, which takes a minute.
    let files = Files::open(arguments)?;
    if arguments.thresholds {
        return thresholds::run(arguments, machine, files);
    }
    let topology = topology_here(arguments.quiet)?;
    let shape = Shape::of(&topology)?;
    let say = |text: &str| {
        if !arguments.quiet {
            console::say(text);
        }
    };
    if topology.allowed_pus().len() == 1 {
        say("only one CPU may be used: what CPUs do to each other is not measured but assumed");
    }
    let begun = Instant::now();
    let thoroughness = if arguments.quick {
        Thoroughness::Quick
    } else {
        Thoroughness::Full
    };
    let calibration = calibrate::measure(&topology, thoroughness, &mut |what| {
        say(&format!("{:5.1} s: measuring {what}", begun.elapsed().as_secs_f64()));
    })?;
    let written = model::write(&name, &topology, shape, &calibration, thoroughness);
    let shown = arguments.output.as_deref().unwrap_or(Path::new("the model"));
    Model::parse(&shown.display().to_string(), &written.text)
        .context("the measurements contradict each other; measure again while the machine does nothing else")?;
    if let Some(file) = files.json {
        file.write_json(&calibration_json(&calibration))?;
    }
    write(files.output, &written.text)?;
    for note in &written.notes {
        say(note);
    }
    say(&format!("{:5.1} s: done", begun.elapsed().as_secs_f64()));
    Ok(ExitCode::SUCCESS)
}

/// Where the results go.
struct Files {
    output: Option<Output>,
    plot: Option<Output>,
    json: Option<Output>,
}

impl Files {
    /// Checks that each can be written.
    fn open(arguments: &Arguments) -> Result<Self> {
        Ok(Self {
            output: Output::optional("--output", arguments.output.as_deref())?,
            plot: Output::optional("--plot", arguments.plot.as_deref())?,
            json: Output::optional("--json", arguments.json.as_deref())?,
        })
    }
}

/// Writes the result to its file, or to standard output.
fn write(output: Option<Output>, text: &str) -> Result<()> {
    match output {
        Some(output) => Ok(output.write(text.as_bytes())?),
        None => Ok(console::print(text)?),
    }
}

/// The name of the model, which is its file's.
fn model_name(output: Option<&Path>) -> Result<String> {
    let Some(output) = output else {
        return Ok("here".to_owned());
    };
    if output.extension().is_none_or(|extension| extension != "toml") {
        bail!(
            "{} does not end in .toml, by which --machine knows that it is a model's file; call it {}",
            output.display(),
            output.with_extension("toml").display()
        );
    }
    let stem = output.file_stem().unwrap_or_default();
    Ok(stem.to_string_lossy().into_owned())
}
