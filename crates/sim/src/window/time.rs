//! Simulated time in whole ticks. A cycle of the base clock has 1024 ticks. So sums do not depend on their order, and
//! the service time of a line at a given bandwidth is exact to a thousandth of a cycle. Sixty-four bits last for 10^16
//! cycles.

/// A time or a duration.
pub(crate) type Ticks = u64;

const PER_CYCLE: f64 = 1024.0;

/// The nearest number of ticks.
pub(crate) fn ticks(cycles: f64) -> Ticks {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "durations are positive; `as` saturates"
    )]
    let ticks = (cycles * PER_CYCLE).round() as Ticks;
    ticks
}

/// The time in cycles.
pub(crate) fn cycles(ticks: Ticks) -> f64 {
    ticks as f64 / PER_CYCLE
}
