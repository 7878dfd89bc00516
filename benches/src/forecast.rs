//! The cost of a forecast of a placement model. The best of several turns counts, because other programs on the host can
//! only make them slower.

use anyhow::{Context, Result, ensure};
use pinfold_policy::classify::{FEATURES, PlacementModel};
use std::collections::BTreeMap;
use std::hint;
use std::path::Path;
use std::time::Instant;

/// Boosted trees, which are the slowest of all learners.
const MODEL: &str = "crates/policy/tests/data/placement-model.json";

/// The number of forecasts in a turn, and of turns.
const FORECASTS: u32 = 1000;
const TURNS: usize = 20;

/// Microseconds for each configuration that is forecast.
pub(crate) fn of_a_configuration(root: &Path) -> Result<f64> {
    let text = std::fs::read_to_string(root.join(MODEL)).with_context(|| format!("{MODEL} cannot be read"))?;
    let model: PlacementModel = text.parse()?;
    let values: BTreeMap<&str, f64> = FEATURES.iter().map(|feature| (feature.name, 1.5)).collect();
    let mut best = f64::INFINITY;
    let mut configurations = 0;
    for _ in 0..TURNS {
        let began = Instant::now();
        for _ in 0..FORECASTS {
            let said = model.predict(|name| hint::black_box(&values).get(name).copied(), |_| false)?;
            configurations = hint::black_box(said).logs.len() - 1;
        }
        best = best.min(began.elapsed().as_secs_f64() * 1e6 / f64::from(FORECASTS));
    }
    ensure!(configurations > 0, "{MODEL} forecasts nothing");
    Ok(best / configurations as f64)
}
