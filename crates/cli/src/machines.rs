//! `pinfold machines`: the models of machines that can be simulated.

use crate::console;
use crate::machine::Selected;
use anyhow::Result;
use clap::Args;
use pinfold_core::summary;
use pinfold_sim::microbenchmarks::Comparison;
use pinfold_sim::model::{Model, builtin, builtin_names};
use pinfold_view::model as view;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// List the machines that can be simulated, or print all numbers of one with their sources and what was published of
/// its latencies and bandwidths.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold machines
      all of them
  pinfold machines e5-4650x4 --measure
      the latencies and bandwidths that one has, beside the published ones")]
pub(crate) struct Arguments {
    /// A model's name, or a file of your own (FILE.toml).
    #[arg(value_name = "NAME|FILE.toml")]
    name: Option<String>,

    /// Run microbenchmarks on the simulated machine, and print the latencies and bandwidths that come out beside the
    /// published ones.
    #[arg(long, requires = "name")]
    measure: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let text = match &arguments.name {
        Some(name) => {
            let model = Selected::parse(name)?.model()?;
            if arguments.measure {
                measured(&model, arguments.json)?
            } else if arguments.json {
                format!("{:#}\n", serde_json::to_value(&model)?)
            } else {
                view::page(&model)?
            }
        }
        None => list(arguments.json)?,
    };
    console::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The microbenchmarks of a machine, beside the published figures.
fn measured(model: &Model, json: bool) -> Result<String> {
    let comparison = Comparison::of(model)?;
    Ok(if json {
        serde_json::to_string_pretty(&comparison)? + "\n"
    } else {
        view::comparison(&comparison)
    })
}

fn list(json: bool) -> Result<String> {
    let mut text = String::new();
    let mut all = vec![];
    for model in builtin_names().filter_map(builtin) {
        let numbers = view::numbers(&model)?;
        let assumed = numbers.iter().filter(|number| number.assumed).count();
        let sourced = numbers.len() - assumed;
        if json {
            all.push(json!({
                "name": model.name,
                "summary": model.summary,
                "packages": model.packages(),
                "nodes": model.nodes(),
                "llc_domains": model.cores() / model.cores_per_domain(),
                "cores": model.cores(),
                "pus": model.pus(),
                "sourced": sourced,
                "assumed": assumed,
            }));
        } else {
            let _ = writeln!(text, "{}\n    {}", model.name, summary(&model.topology()));
            let _ = writeln!(text, "    {}", model.summary);
            let _ = writeln!(text, "    {sourced} numbers with a source, {assumed} assumed");
        }
    }
    Ok(if json {
        format!("{:#}\n", Value::Array(all))
    } else {
        text
    })
}
