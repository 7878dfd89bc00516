//! `pinfold calibrate --thresholds`: the thresholds of SAM's mapper, simulated with `--machine` or measured on this
//! machine (`measured`). `pinfold_calibrate::thresholds` describes the curves and what follows from them.

mod measured;

use crate::console;
use crate::machine::Selected;
use anyhow::{Result, bail};
use pinfold_calibrate::thresholds::{self, Curves};
use pinfold_policy::sam::Thresholds;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn run(arguments: &super::Arguments, machine: Selected, mut files: super::Files) -> Result<ExitCode> {
    let say = |text: &str| {
        if !arguments.quiet {
            console::say(text);
        }
    };
    let curves = match machine {
        Selected::Here => {
            let begun = Instant::now();
            let say = |what: &str| say(&format!("{:5.1} s: {what}", begun.elapsed().as_secs_f64()));
            let curves = measured::measure(arguments.metric.as_deref(), arguments.quick, &say)?;
            say("done");
            curves
        }
        selected @ (Selected::Builtin(_) | Selected::ModelFile(_)) => {
            let model = selected.model()?;
            if arguments.quick {
                bail!("--quick is for this machine; leave it out for a simulated one");
            }
            say(&format!("simulated: {}: {}", model.name, model.summary));
            thresholds::simulate(&model, say)?
        }
        Selected::Described(_) | Selected::Scripted(_) | Selected::Table(_) => bail!(
            "thresholds are measured, and of this machine only its shape is known; name a model with --machine \
             (`pinfold machines` lists them)"
        ),
    };
    let thresholds = curves.thresholds();
    // Curves that have no threshold took as long to measure, and show why.
    write_curves(&mut files, &curves, thresholds.as_ref().ok())?;
    for line in curves.drawn(thresholds.as_ref().ok()) {
        say(&line);
    }
    let text = thresholds::text(&thresholds?, curves.origin.clock());
    super::write(files.output, &text)?;
    Ok(ExitCode::SUCCESS)
}

/// The files that have the curves.
fn write_curves(files: &mut super::Files, curves: &Curves, thresholds: Option<&Thresholds>) -> Result<()> {
    if let Some(file) = files.plot.take() {
        file.write(thresholds::svg(&curves.charts(thresholds)).as_bytes())?;
    }
    if let Some(file) = files.json.take() {
        file.write_json(&curves.json(thresholds))?;
    }
    Ok(())
}

/// Where the figures go must be known before they are made.
pub(super) fn check_files(arguments: &super::Arguments) -> Result<()> {
    let svg = |file: &&Path| file.extension().is_none_or(|extension| extension != "svg");
    if let Some(file) = arguments.plot.as_deref().filter(svg) {
        bail!(
            "--plot {}: the plot is SVG; call it {}",
            file.display(),
            file.with_extension("svg").display()
        );
    }
    Ok(())
}
