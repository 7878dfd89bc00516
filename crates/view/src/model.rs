//! A machine model as text: its numbers with their sources, and simulated figures compared with published ones.

use pinfold_core::summary;
use pinfold_core::text::one_line;
use pinfold_sim::microbenchmarks::{Comparison, none_found};
use pinfold_sim::model::{Measure, Model, Published};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// One number of a model.
pub struct Number {
    /// Its key in the model's file.
    pub key: String,
    /// Its value with the unit.
    pub value: String,
    /// The publication that has it, or the word "assumed".
    pub source: String,
    /// Whether it is assumed.
    pub assumed: bool,
}

/// All numbers of a model, in the order of their keys within each part.
pub fn numbers(model: &Model) -> Result<Vec<Number>, serde_json::Error> {
    let mut found = vec![];
    let mut value = serde_json::to_value(model)?;
    if let Value::Object(tables) = &mut value {
        // These figures are for comparison only.
        tables.remove("published");
    }
    collect("", &value, &mut found);
    Ok(found)
}

/// Collects the numbers: each is an object with a value and a source. The rows of a table have its source.
fn collect(key: &str, value: &Value, found: &mut Vec<Number>) {
    match value {
        Value::Object(object) => {
            if let (Some(number), Some(Value::Object(source))) = (object.get("value"), object.get("source")) {
                if let Value::Array(list) = number
                    && list.first().is_some_and(Value::is_object)
                {
                    for (index, row) in list.iter().enumerate() {
                        let row = json!({ "value": row, "source": source });
                        collect(&format!("{key}[{index}]"), &row, found);
                    }
                    return;
                }
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

/// A value for a reader: a latency with its unit, a list as words.
fn plain(value: &Value) -> String {
    match value {
        Value::String(word) => one_line(word).into_owned(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(object) => object
            .iter()
            .map(|(unit, number)| format!("{number} {unit}"))
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    }
}

/// All numbers of a model with their sources, and the published figures of the machine.
pub fn page(model: &Model) -> Result<String, serde_json::Error> {
    let numbers = numbers(model)?;
    let mut text = format!(
        "{}: {}\n{}\n\nIn bytes, hertz, bytes a second, joules and watts.\n",
        one_line(&model.name),
        one_line(&model.summary),
        summary(&model.topology())
    );
    let width = numbers.iter().map(|number| number.key.len()).max().unwrap_or(0);
    let values = numbers.iter().map(|number| number.value.len()).max().unwrap_or(0);
    for number in &numbers {
        let _ = writeln!(
            text,
            "{:width$}  {:>values$}  {}",
            number.key,
            number.value,
            one_line(&number.source)
        );
    }
    let assumed = numbers.iter().filter(|number| number.assumed).count();
    let sourced = numbers.len() - assumed;
    let _ = writeln!(text, "{sourced} numbers with a source, {assumed} assumed");
    text.push_str(&published(model));
    Ok(text)
}

/// The published figures of a model, and the groups without any figure.
fn published(model: &Model) -> String {
    let mut text = "\nPublished of it:\n".to_owned();
    for published in &model.published {
        let value = show(published.measure, published.value(model));
        let _ = writeln!(
            text,
            "{}: {value}  {}{}",
            published.measure,
            one_line(&published.source().to_string()),
            origin(published)
        );
    }
    for group in none_found(model) {
        let _ = writeln!(text, "{group}: none found");
    }
    text
}

/// The numbers that a figure calibrates, in brackets.
fn origin(published: &Published) -> String {
    if published.calibrates.is_empty() {
        String::new()
    } else {
        one_line(&format!(" [calibrates {}]", published.calibrates.join(", "))).into_owned()
    }
}

/// A figure with its unit.
fn show(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Latency(_) | Measure::LoadedLatency { .. } => format!("{:.1} ns", value * 1e9),
        Measure::Bandwidth { .. } => format!("{:.1} GB/s", value / 1e9),
    }
}

/// The figures of microbenchmarks, compared with the published ones.
pub fn comparison(comparison: &Comparison<'_>) -> String {
    let model = comparison.model;
    let mut text = format!(
        "{}: {}\nSimulated by microbenchmarks, beside what was published of this machine or of a similar one.\n\n",
        one_line(&model.name),
        one_line(&model.summary)
    );
    let names: Vec<String> = comparison.rows.iter().map(|row| row.measure.to_string()).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let _ = writeln!(
        text,
        "{:width$}  {:>12}  {:>12}  {:>7}",
        "", "simulated", "published", "diff"
    );
    for (row, name) in comparison.rows.iter().zip(&names) {
        let simulated = show(row.measure, row.simulated);
        let _ = write!(text, "{name:width$}  {simulated:>12}");
        if let Some(published) = row.published {
            let value = show(row.measure, published.value(model));
            let difference = row.difference_percent(model).unwrap_or(0.0);
            let kind = if published.calibrates.is_empty() {
                "check"
            } else {
                "input"
            };
            let source = published.source().to_string();
            let source = one_line(&source);
            let _ = write!(
                text,
                "  {value:>12}  {difference:+6.1}%  {kind}: {source}{}",
                origin(published)
            );
        }
        text.push('\n');
    }
    for group in &comparison.none_found {
        let _ = writeln!(text, "{group}: none found");
    }
    text
}
