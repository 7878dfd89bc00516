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

mod chart;

use super::json;
use crate::machine::Selected;
use anyhow::{Context, Result, bail};
use chart::{Chart, Line};
use pinfold_linux::counters::{self, Availability};
use pinfold_policy::sam::Thresholds;
use pinfold_sim::model::Model;
use pinfold_sim::thresholds::{CopyPoint, SharingPoint, copying, sharing};
use serde_json::json;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// What is a substantial gain (section 2.1).
const GAIN: f64 = 0.05;
/// The threshold of memory is this share of what saturates it (section 2.2).
const BELOW_SATURATION: f64 = 0.8;

/// Both curves of a machine.
struct Curves {
    sharing: Vec<SharingPoint>,
    copying: Vec<CopyPoint>,
}

pub(super) fn run(arguments: &super::Arguments, machine: Selected) -> Result<ExitCode> {
    let model = match machine {
        selected @ (Selected::Builtin(_) | Selected::ModelFile(_)) => selected.model()?,
        Selected::Here => bail!(refusal()),
        Selected::Described(_) | Selected::Scripted(_) => bail!(
            "thresholds are measured, and of this machine only its shape is known; name a model with --machine (`pinfold \
             machines` lists them)"
        ),
    };
    if arguments.quick {
        bail!("--quick is for --model; on a simulated machine thresholds take seconds");
    }
    let say = |text: &str| {
        if !arguments.quiet {
            eprintln!("pinfold: {text}");
        }
    };
    say(&format!("simulated: {}: {}", model.name, model.summary));
    let curves = measure(&model, say)?;
    let thresholds = curves.thresholds(&model)?;
    for line in curves.drawn(&thresholds) {
        say(&line);
    }
    let text = written(&thresholds);
    match &arguments.output {
        Some(file) => fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))?,
        None => io::stdout().write_all(text.as_bytes())?,
    }
    if let Some(file) = &arguments.plot {
        let svg = chart::svg(&curves.charts(&model, &thresholds));
        fs::write(file, svg).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    if let Some(file) = &arguments.json {
        json::write(file, &curves.json(&model, &thresholds))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Why thresholds cannot be measured on the machine at hand, and what can be done.
fn refusal() -> String {
    let lacking = match counters::hardware_counters() {
        Availability::Absent { why } | Availability::Forbidden { why } => {
            format!("it shows no hardware counters: {why}")
        }
        Availability::Available => "measuring them with its own counters is not there yet".to_owned(),
    };
    format!(
        "the thresholds of this machine cannot be measured: {lacking}; name a model of its kind with --machine (`pinfold \
         machines` lists them), or measure one: `pinfold calibrate --model -o mine.toml`, then `pinfold calibrate --thresholds \
         --machine mine.toml`"
    )
}

fn measure(model: &Model, say: impl Fn(&str)) -> Result<Curves> {
    say("two threads that share data, near each other and apart");
    let Some(sharing) = sharing(model)? else {
        bail!(
            "{} has one last-level cache, or one a core, so that no place is nearer than another: there is no threshold of \
             coherence, and nothing for SAM to do",
            model.name
        );
    };
    say("tasks that copy memory, from one to all cores of a package");
    let copying = copying(model)?;
    Ok(Curves { sharing, copying })
}

impl Curves {
    fn thresholds(&self, model: &Model) -> Result<Thresholds> {
        let Some(coherence) = crossing(&self.sharing) else {
            bail!(
                "two sharing threads on {} never gain more than {:.0} % from a common last-level cache: there is no threshold \
                 of coherence",
                model.name,
                GAIN * 100.0
            );
        };
        let saturated = self.copying.last().context("a package has cores")?;
        let lower = saturated.high.misses_per_cycle.min(saturated.low.misses_per_cycle);
        let package_memory = BELOW_SATURATION * lower;
        Ok(Thresholds {
            source: format!(
                "simulated: pinfold calibrate --thresholds --machine {}; remote as coherence, memory a core's share of the \
                 package's",
                model.name
            ),
            coherence,
            remote: coherence,
            memory: package_memory / saturated.tasks as f64,
            package_memory,
        })
    }

    /// Both curves in lines for a terminal.
    fn drawn(&self, thresholds: &Thresholds) -> Vec<String> {
        let mut lines = vec!["coherence events a cycle   gain under one last-level cache".to_owned()];
        let most = self.sharing.iter().map(|point| point.gain).fold(GAIN, f64::max);
        lines.extend(self.sharing.iter().map(|point| {
            let mark = if point.events_per_cycle >= thresholds.coherence {
                '#'
            } else {
                '-'
            };
            let bar = bar(point.gain / most, mark);
            format!(
                "  {:>10.1e}  {:>+7.1} %  {bar}",
                point.events_per_cycle,
                point.gain * 100.0
            )
        }));
        lines.push("tasks   LLC misses a cycle, high and low locality".to_owned());
        let misses = |point: &CopyPoint| point.high.misses_per_cycle.max(point.low.misses_per_cycle);
        let most = self.copying.iter().map(misses).fold(0.0, f64::max);
        for point in &self.copying {
            for (name, copied) in [("high", point.high), ("low", point.low)] {
                let mark = if copied.misses_per_cycle > thresholds.package_memory {
                    '#'
                } else {
                    '-'
                };
                lines.push(format!(
                    "  {:>3}  {name:<4}  {:>8.4}  {:>6.1} GB/s  {}",
                    point.tasks,
                    copied.misses_per_cycle,
                    copied.bytes_per_second / 1e9,
                    bar(copied.misses_per_cycle / most, mark)
                ));
            }
        }
        lines.push("# is above the threshold".to_owned());
        lines
    }

    fn charts(&self, model: &Model, thresholds: &Thresholds) -> Vec<Chart> {
        let simulated = format!("simulated: {}", model.name);
        let copied = |pick: fn(&CopyPoint) -> f64| {
            let points = self.copying.iter();
            points.map(|point| (point.tasks as f64, pick(point))).collect()
        };
        vec![
            Chart {
                title: format!("Two sharing threads under one last-level cache, {simulated}"),
                x: "coherence events between last-level caches, a cycle and thread".to_owned(),
                y: "speed-up".to_owned(),
                logarithmic: true,
                lines: vec![Line {
                    name: "speed-up".to_owned(),
                    points: self
                        .sharing
                        .iter()
                        .map(|point| (point.events_per_cycle, 1.0 + point.gain))
                        .collect(),
                }],
                vertical: Some((thresholds.coherence, "threshold".to_owned())),
                horizontal: Some((1.0 + GAIN, "+5 %".to_owned())),
            },
            Chart {
                title: format!("Copying tasks in one package, {simulated}"),
                x: "tasks".to_owned(),
                y: "LLC misses a cycle".to_owned(),
                logarithmic: false,
                lines: vec![
                    Line {
                        name: "high locality".to_owned(),
                        points: copied(|point| point.high.misses_per_cycle),
                    },
                    Line {
                        name: "low locality".to_owned(),
                        points: copied(|point| point.low.misses_per_cycle),
                    },
                ],
                vertical: None,
                horizontal: Some((thresholds.package_memory, "threshold".to_owned())),
            },
        ]
    }

    fn json(&self, model: &Model, thresholds: &Thresholds) -> serde_json::Value {
        let copied = |copied: pinfold_sim::thresholds::Copied| {
            json!({
                "bytes_per_second": copied.bytes_per_second,
                "misses_per_cycle": copied.misses_per_cycle,
            })
        };
        json!({
            "machine": model.name,
            "simulated": true,
            "thresholds": thresholds,
            "sharing": self.sharing.iter().map(|point| json!({
                "instructions": point.instructions,
                "events_per_cycle": point.events_per_cycle,
                "gain": point.gain,
            })).collect::<Vec<_>>(),
            "copying": self.copying.iter().map(|point| json!({
                "tasks": point.tasks,
                "high": copied(point.high),
                "low": copied(point.low),
            })).collect::<Vec<_>>(),
        })
    }
}

/// A bar of up to forty characters.
fn bar(share: f64, mark: char) -> String {
    const WIDTH: usize = 40;
    let marks = (1..=WIDTH).filter(|&place| place as f64 <= share * WIDTH as f64 + 0.5);
    marks.map(|_| mark).collect()
}

/// The rate at which the gain passes `GAIN`, by interpolation along the logarithm of the rate; `None` where it never does.
fn crossing(points: &[SharingPoint]) -> Option<f64> {
    points.windows(2).find_map(|pair| {
        let (one, other) = (pair[0], pair[1]);
        (one.gain < GAIN && GAIN <= other.gain).then(|| {
            let share = (GAIN - one.gain) / (other.gain - one.gain);
            let (low, high) = (one.events_per_cycle.ln(), other.events_per_cycle.ln());
            (low + share * (high - low)).exp()
        })
    })
}

/// The file that `--thresholds` of `pinfold run` takes.
fn written(thresholds: &Thresholds) -> String {
    let Thresholds {
        source,
        coherence,
        remote,
        memory,
        package_memory,
    } = thresholds;
    format!(
        "# From which rates on a bottleneck is one, in events per unhalted cycle: those of one task, but for package_memory.\n\
         source = \"{source}\"\n\
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

    fn point(events_per_cycle: f64, gain: f64) -> SharingPoint {
        SharingPoint {
            instructions: 0,
            events_per_cycle,
            gain,
        }
    }

    #[test]
    fn the_threshold_is_where_the_curve_passes_five_percent() {
        let points = [point(1e-5, 0.0), point(1e-4, 0.02), point(1e-2, 0.08), point(2e-2, 0.2)];
        let threshold = crossing(&points).unwrap();
        assert!((threshold / 1e-3 - 1.0).abs() < 1e-9, "{threshold}");
        assert_eq!(crossing(&points[..2]), None);
    }
}
