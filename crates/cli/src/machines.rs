//! `pinfold machines`: the models of machines that can be simulated.

mod measure;

use crate::console;
use crate::machine::Selected;
use anyhow::Result;
use clap::Args;
use pinfold_core::summary;
use pinfold_sim::model::{Model, builtin, builtin_names};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// List the machines that can be simulated, or print all numbers of one with their sources and what was published of its
/// latencies and bandwidths.
#[derive(Args)]
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
                measure::report(&model, arguments.json)?
            } else if arguments.json {
                format!("{:#}\n", serde_json::to_value(&model)?)
            } else {
                numbers_of(&model)?
            }
        }
        None => list(arguments.json)?,
    };
    console::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> Result<String> {
    let mut text = String::new();
    let mut all = vec![];
    for model in builtin_names().filter_map(builtin) {
        let numbers = numbers(&model)?;
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

/// One number of a model.
struct Number {
    key: String,
    value: String,
    source: String,
    assumed: bool,
}

/// All numbers of a model, in the order of their keys within each part.
fn numbers(model: &Model) -> Result<Vec<Number>> {
    let mut found = vec![];
    let mut value = serde_json::to_value(model)?;
    if let Value::Object(tables) = &mut value {
        // What the model is compared with is no part of it.
        tables.remove("published");
    }
    collect("", &value, &mut found);
    Ok(found)
}

/// A number is an object with a value and where it is from.
fn collect(key: &str, value: &Value, found: &mut Vec<Number>) {
    match value {
        Value::Object(object) => {
            if let (Some(number), Some(Value::Object(source))) = (object.get("value"), object.get("source")) {
                let assumed = source.get("assumed").and_then(Value::as_str);
                let published = source.get("published").and_then(Value::as_str);
                found.push(Number {
                    key: key.to_owned(),
                    value: plain(number),
                    source: match (assumed, published) {
                        (Some(""), _) => "assumed".to_owned(),
                        (Some(why), _) => format!("assumed: {why}"),
                        (None, source) => source.unwrap_or_default().to_owned(),
                    },
                    assumed: assumed.is_some(),
                });
                return;
            }
            for (name, inside) in object {
                let key = if key.is_empty() {
                    name.clone()
                } else {
                    format!("{key}.{name}")
                };
                collect(&key, inside, found);
            }
        }
        Value::Array(list) => {
            for (index, inside) in list.iter().enumerate() {
                collect(&format!("{key}[{index}]"), inside, found);
            }
        }
        _ => {}
    }
}

/// A value for a person: a latency with its unit, a list as words.
fn plain(value: &Value) -> String {
    match value {
        Value::String(word) => word.clone(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(object) => object
            .iter()
            .map(|(unit, number)| format!("{number} {unit}"))
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    }
}

fn numbers_of(model: &Model) -> Result<String> {
    let numbers = numbers(model)?;
    let mut text = format!(
        "{}: {}\n{}\n\nIn bytes, hertz, bytes a second, joules and watts.\n",
        model.name,
        model.summary,
        summary(&model.topology())
    );
    let width = numbers.iter().map(|number| number.key.len()).max().unwrap_or(0);
    let values = numbers.iter().map(|number| number.value.len()).max().unwrap_or(0);
    for number in &numbers {
        let _ = writeln!(
            text,
            "{:width$}  {:>values$}  {}",
            number.key, number.value, number.source
        );
    }
    let assumed = numbers.iter().filter(|number| number.assumed).count();
    let sourced = numbers.len() - assumed;
    let _ = writeln!(text, "{sourced} numbers with a source, {assumed} assumed");
    text.push_str(&measure::published(model));
    Ok(text)
}
