//! Costs that need several NUMA nodes, measured in the emulated machine by `tests/guest_costs.py`.

use crate::measure::Missing;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The output of the script.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Said {
    Missing { missing: String },
    Costs(Costs),
}

#[derive(Clone, Deserialize)]
struct Costs {
    migration: f64,
    sampling: Vec<Sampling>,
}

#[derive(Clone, Deserialize)]
struct Sampling {
    period_ms: u32,
    pages: String,
    slow_down: f64,
}

/// Pages per second that pinfold moves, relative to one `migrate_pages` call.
pub(crate) fn migration(root: &Path) -> Result<f64> {
    Ok(costs(root)?.migration)
}

/// The time of a streaming program in `pages`, `small` or `huge` ones, with sampled accesses, relative to that without.
pub(crate) fn sampling(root: &Path, pages: &str, period_ms: u32) -> Result<f64> {
    let costs = costs(root)?;
    let wanted = |one: &&Sampling| one.pages == pages && one.period_ms == period_ms;
    let found = costs.sampling.iter().find(wanted);
    found
        .map(|one| one.slow_down)
        .with_context(|| format!("the guest did not measure {period_ms} ms, {pages} pages"))
}

/// All costs, measured once.
fn costs(root: &Path) -> Result<Costs> {
    static SAID: OnceLock<Said> = OnceLock::new();
    if SAID.get().is_none() {
        let measured = measure(root)?;
        SAID.get_or_init(|| measured);
    }
    match SAID.get().context("nothing was measured")? {
        Said::Missing { missing } => Err(Missing(missing.clone()).into()),
        Said::Costs(costs) => Ok(costs.clone()),
    }
}

fn measure(root: &Path) -> Result<Said> {
    let output = Command::new(root.join(".venv/bin/python"))
        .arg(root.join("tests/guest_costs.py"))
        .stderr(Stdio::inherit())
        .output()
        .context(".venv/bin/python cannot be run; `make setup` makes it")?;
    if !output.status.success() {
        bail!("tests/guest_costs.py ended with {}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("the output of tests/guest_costs.py is not valid")
}
