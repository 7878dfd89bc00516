//! The cost of counting the calls of a function.

use crate::measure::Missing;
use anyhow::{Result, anyhow};
use pinfold_linux::functions;

/// Microseconds that a counted call of a function takes longer than another call.
pub(crate) fn counted_call() -> Result<f64> {
    if let Some(why) = functions::obstacle() {
        return Err(Missing(why).into());
    }
    let cost = functions::cost_of_a_call().map_err(|why| anyhow!(why))?;
    Ok(cost.as_secs_f64() * 1e6)
}
