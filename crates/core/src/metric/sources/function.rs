//! A function that pinfold finds in the running program.

use super::{Listed, MetricSource};

/// The kernel counts the calls of a function that pinfold has chosen, because many threads call it at a steady rate
/// (`crate::function`). It is a guess about the program's progress. So every count that the program reports itself comes
/// before it. It comes before instructions: a thread that spins at a lock retires more of them and enters no function of
/// the work. `auto` looks for a function only if no other source counts.
pub static FUNCTION: MetricSource = MetricSource {
    code: "function",
    unit: Some("call"),
    listed: Some(Listed {
        name: "function",
        about: "calls of a function that pinfold finds in the running program: many threads call it steadily",
    }),
    automatic: |_| true,
    measures_idle_programs: false,
    is_flow: false,
    follows_demand: true,
    absent: |_| "no function was looked for".to_owned(),
    counter: None,
};
