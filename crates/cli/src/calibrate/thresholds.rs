//! `pinfold calibrate --thresholds`: from which rates on sharing and memory are a bottleneck, as SAM measures it (Srikanthan,
//! Dwarkadas and Shen, USENIX ATC 2015, sections 2.1 and 2.2).
//!
//! - **Coherence**: the rate of coherence events of a thread from which it gains more than 5 % from running under the same
//!   last-level cache as the one that it shares data with; on the curve of figure 1, drawn along the logarithm of the rate.
//! - **Memory of a package**: 20 % below what is counted when all its cores copy memory. The paper takes the curve of low
//!   locality because it is the lower one, so that no program saturates memory without being seen. Here the lower one is taken,
//!   whichever it is: where prefetched lines do not count as misses, that is the curve of high locality.
//! - **Memory of a task**: the package's, divided by its cores. **Remote**: as coherence, since both fetch a line across the
//!   same link. The paper has no microbenchmark for these two.
//!
//! The curves are simulated (`simulated`) or measured on the machine at hand (`measured`, with `formula` for what it
//! counts). What follows from them (`curves`) does not depend on that, and `origin` keeps the two apart wherever they
//! are shown.

mod chart;
mod crossing;
mod curves;
mod formula;
mod measured;
mod origin;
mod simulated;

use super::json;
use crate::activities::Clock;
use crate::console;
use crate::machine::Selected;
use anyhow::{Context, Result, bail};
use curves::Curves;
use pinfold_policy::sam::Thresholds;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn run(arguments: &super::Arguments, machine: Selected) -> Result<ExitCode> {
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
                bail!("--quick is for the machine at hand; leave it out for a simulated one");
            }
            say(&format!("simulated: {}: {}", model.name, model.summary));
            simulated::measure(&model, say)?
        }
        Selected::Described(_) | Selected::Scripted(_) => bail!(
            "thresholds are measured, and of this machine only its shape is known; name a model with --machine \
             (`pinfold machines` lists them)"
        ),
    };
    let thresholds = curves.thresholds();
    // Curves that have no threshold took as long to measure, and show why.
    write_curves(arguments, &curves, thresholds.as_ref().ok())?;
    for line in curves.drawn(thresholds.as_ref().ok()) {
        say(&line);
    }
    let text = written(&thresholds?, curves.origin.clock());
    match &arguments.output {
        Some(file) => fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))?,
        None => console::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The files that have the curves.
fn write_curves(arguments: &super::Arguments, curves: &Curves, thresholds: Option<&Thresholds>) -> Result<()> {
    if let Some(file) = &arguments.plot {
        let svg = chart::svg(&curves.charts(thresholds));
        fs::write(file, svg).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    if let Some(file) = &arguments.json {
        json::write(file, &curves.json(thresholds))?;
    }
    Ok(())
}

/// The file that `--thresholds` of `pinfold run` takes. Rates are by the `clock`.
fn written(thresholds: &Thresholds, clock: Clock) -> String {
    let Thresholds {
        source,
        coherence,
        remote,
        memory,
        package_memory,
    } = thresholds;
    // Names of events, which the user may have given, and of processors can have quotes in them.
    let source = toml::Value::String(source.clone());
    let (clock, per) = (clock.in_full(), clock.name());
    format!(
        "# From which rates on a bottleneck is one, in events per {clock}: those of one task, but for package_memory.\n\
         source = {source}\n\
         per = \"{per}\"\n\
         coherence = {coherence:.3e}\n\
         remote = {remote:.3e}\n\
         memory = {memory:.3e}\n\
         package_memory = {package_memory:.3e}\n"
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activities::read_thresholds;

    #[test]
    fn what_is_written_is_read_back_whatever_its_source_says() {
        let thresholds = Thresholds {
            source: "measured with \"a\\b\" of 'c'".to_owned(),
            ..Thresholds::paper()
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("thresholds.toml");
        fs::write(&file, written(&thresholds, Clock::Cycle)).unwrap();
        assert_eq!(read_thresholds(&file, Clock::Cycle).unwrap(), thresholds);
        let error = read_thresholds(&file, Clock::Nanosecond).unwrap_err().to_string();
        assert!(error.contains("per unhalted cycle"), "{error}");
    }
}
