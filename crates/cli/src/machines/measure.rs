//! `pinfold machines NAME --measure`: microbenchmarks on a simulated machine, beside what was published.

use anyhow::{Context, Result};
use pinfold_sim::microbenchmarks::{Row, measure, measures};
use pinfold_sim::model::{Measure, Model, Published, Target};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::thread;

/// To which of the figures a measure belongs without which a model has not been compared.
fn group(measure: Measure) -> Option<&'static str> {
    match measure {
        Measure::Latency(Target::LocalMemory) => Some("idle latency of local memory"),
        Measure::Latency(of) => of.is_memory().then_some("idle latency of remote memory"),
        Measure::Bandwidth {
            of: Target::LocalMemory,
            ..
        } => Some("bandwidth of local memory"),
        Measure::Bandwidth { .. } => Some("bandwidth of remote memory"),
    }
}

/// The published figures of a model, and the groups for which there are none.
pub(super) fn published(model: &Model) -> String {
    let mut text = "\nPublished of it:\n".to_owned();
    for published in &model.published {
        let value = show(published.measure, published.value(model));
        let _ = writeln!(
            text,
            "{}: {value}  {}{}",
            published.measure,
            published.source(),
            origin(published)
        );
    }
    for group in missing(model) {
        let _ = writeln!(text, "{group}: none found");
    }
    text
}

/// The groups that the machine has and of which nothing was published.
fn missing(model: &Model) -> Vec<&'static str> {
    let found: Vec<&str> = model.published.iter().filter_map(|one| group(one.measure)).collect();
    let mut missing: Vec<&str> = measures(model).into_iter().filter_map(group).collect();
    missing.dedup();
    missing.retain(|group| !found.contains(group));
    missing
}

/// What a figure calibrates, in brackets.
fn origin(published: &Published) -> String {
    if published.calibrates.is_empty() {
        String::new()
    } else {
        format!(" [calibrates {}]", published.calibrates.join(", "))
    }
}

/// A figure with its unit.
fn show(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Latency(_) => format!("{:.1} ns", value * 1e9),
        Measure::Bandwidth { .. } => format!("{:.1} GB/s", value / 1e9),
    }
}

/// Measures everything and compares.
pub(super) fn report(model: &Model, json: bool) -> Result<String> {
    let rows = rows(model)?;
    if json {
        let rows: Vec<Value> = rows.iter().map(|row| as_json(model, row)).collect();
        let report = json!({
            "machine": model.name,
            "simulated": true,
            "measures": rows,
            "none_found": missing(model),
        });
        return Ok(format!("{report:#}\n"));
    }
    let mut text = format!(
        "{}: {}\nSimulated by microbenchmarks, beside what was published of this machine or its nearest kin.\n\n",
        model.name, model.summary
    );
    let names: Vec<String> = rows.iter().map(|row| row.measure.to_string()).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let _ = writeln!(
        text,
        "{:width$}  {:>12}  {:>12}  {:>7}",
        "", "simulated", "published", "diff"
    );
    for (row, name) in rows.iter().zip(&names) {
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
            let source = published.source();
            let _ = write!(
                text,
                "  {value:>12}  {difference:+6.1}%  {kind}: {source}{}",
                origin(published)
            );
        }
        text.push('\n');
    }
    for group in missing(model) {
        let _ = writeln!(text, "{group}: none found that was published");
    }
    Ok(text)
}

fn as_json(model: &Model, row: &Row<'_>) -> Value {
    let (quantity, of, by, mix) = match row.measure {
        Measure::Latency(of) => ("latency", of.word(), None, None),
        Measure::Bandwidth { of, by, mix } => ("bandwidth", of.word(), Some(by.word()), Some(mix.word())),
    };
    let published = row.published.map(|published| {
        json!({
            "value": published.value(model),
            "source": published.source().to_string(),
            "calibrates": published.calibrates,
        })
    });
    json!({
        "quantity": quantity,
        "of": of,
        "by": by,
        "mix": mix,
        "unit": if quantity == "latency" { "s" } else { "bytes/s" },
        "simulated": row.simulated,
        "published": published,
        "difference_percent": row.difference_percent(model),
    })
}

/// All measures, on as many threads as this machine has; a measure of which several figures were published has several
/// rows.
fn rows(model: &Model) -> Result<Vec<Row<'_>>> {
    let measures = measures(model);
    // The long ones, bandwidths, are last in the list: they begin first.
    let left = Mutex::new((0..measures.len()).collect::<Vec<_>>());
    let done = Mutex::new(vec![None; measures.len()]);
    let work = || {
        loop {
            let Some(index) = left.lock().expect("no other thread has panicked").pop() else {
                return;
            };
            let result = measure(model, measures[index]);
            done.lock().expect("no other thread has panicked")[index] = Some(result);
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
        work();
    });
    let mut rows = vec![];
    for (measured, result) in measures.iter().zip(done.into_inner().expect("no thread has panicked")) {
        let simulated = result
            .context("a measure was left out")?
            .with_context(|| format!("cannot measure {measured} on {}", model.name))?;
        let of_it: Vec<&Published> = model.published.iter().filter(|one| one.measure == *measured).collect();
        if of_it.is_empty() {
            rows.push(Row {
                measure: *measured,
                simulated,
                published: None,
            });
        }
        rows.extend(of_it.into_iter().map(|published| Row {
            measure: *measured,
            simulated,
            published: Some(published),
        }));
    }
    Ok(rows)
}
