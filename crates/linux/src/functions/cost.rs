//! The time that the kernel takes for one counted call, measured on a function of pinfold itself. It depends on the
//! processor and on its mitigations of speculation: an interrupt to the kernel, and the execution of the instruction
//! that the breakpoint replaced.

use super::areas::Areas;
use super::probes::Definitions;
use crate::procfs::Procfs;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Calls in a batch. The fastest of several batches was not interrupted.
const CALLS: u32 = 200;
const BATCHES: usize = 5;

/// A function that does nothing.
#[inline(never)]
extern "C" fn nothing(of: u64) -> u64 {
    black_box(of)
}

fn time_of_a_call() -> Duration {
    let batch = |_| {
        let begun = Instant::now();
        for call in 0..u64::from(CALLS) {
            let function: extern "C" fn(u64) -> u64 = black_box(nothing);
            black_box(function(call));
        }
        begun.elapsed() / CALLS
    };
    (0..BATCHES).map(batch).min().unwrap_or_default()
}

/// The cost of a counted call. Fails if no call of pinfold's own function is counted; the error is a clause.
pub(super) fn of_a_call(procfs: &Procfs, definitions: &mut Definitions) -> Result<Duration, String> {
    let own = std::process::id().cast_signed();
    let address = nothing as *const () as u64;
    let areas = Areas::read(procfs, own).ok_or("the memory areas of pinfold itself cannot be read")?;
    let area = areas.at(address).ok_or("pinfold does not find its own code")?;
    let refused = |error: &dyn std::fmt::Display| format!("a function of pinfold itself cannot be probed ({error})");
    let file = areas.open(procfs, area).map_err(|error| refused(&error))?;
    let mut probe = definitions
        .define(&file, area.offset(address))
        .map_err(|error| refused(&error))?;
    let alone = time_of_a_call();
    let opened = probe.count(0);
    let counted = time_of_a_call();
    let calls: u64 = probe.calls().map(|(_, calls)| calls).sum();
    definitions.remove(probe);
    opened.map_err(|error| refused(&error))?;
    if calls == 0 {
        return Err("the kernel counted no call of a function of pinfold itself".to_owned());
    }
    Ok(counted.saturating_sub(alone))
}
