//! What the scheduler in the kernel did, and which tasks wake each other.

use super::log::StateLine;
use crate::numbers::{self, counted};
use crate::shell::table;
use maud::{Markup, html};
use pinfold_runtime::daemon::state::SchedulerState;

/// The most pairs in the table.
const LISTED: usize = 30;

/// The section of the last state; `None` if no scheduler was loaded.
pub(super) fn section(last: &StateLine) -> Option<Markup> {
    let scheduler = last.scheduler.as_ref()?;
    Some(html! {
        (table("tasks that were placed, since the scheduler started", &times(scheduler)))
        @if scheduler.pairs.is_empty() { p { "No two tasks woke each other as often as once a second." } }
        @else {
            (table("tasks that wake each other most often", &pairs(scheduler, last)))
            @if scheduler.pairs_found > scheduler.pairs.len().min(LISTED) as u64 {
                p.hint { "In all: " (counted(usize::try_from(scheduler.pairs_found).unwrap_or(usize::MAX), "pair")) "." }
            }
        }
    })
}

fn times(scheduler: &SchedulerState) -> Markup {
    let share = scheduler.preferred_share();
    let rows = [
        (
            "run time with a preference",
            numbers::seconds(scheduler.preferring_seconds),
        ),
        (
            "of that in a preferred last-level cache",
            share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share)),
        ),
        ("waiting for a CPU", numbers::seconds(scheduler.waited_seconds)),
        ("the longest wait", numbers::seconds(scheduler.longest_wait)),
        ("changes of the last-level cache", scheduler.migrations.to_string()),
        (
            "taken by a CPU of another cache, after their patience (all tasks)",
            scheduler.taken_elsewhere.to_string(),
        ),
        (
            "waited in a queue for more than 10 ms beside an idle CPU (all tasks)",
            scheduler.waited_beside_idle.to_string(),
        ),
    ];
    html! {
        thead { tr { th scope="col" { "what" } th.number scope="col" { "value" } } }
        tbody { @for (name, value) in rows { tr { th scope="row" { (name) } td.number { (value) } } } }
    }
}

fn pairs(scheduler: &SchedulerState, last: &StateLine) -> Markup {
    let named = |thread: i32| {
        let task = last.tasks.iter().find(|task| task.thread == thread);
        task.map_or_else(|| thread.to_string(), |task| format!("{} ({thread})", task.name))
    };
    html! {
        thead { tr { th scope="col" { "thread" } th scope="col" { "thread" } th.number scope="col" { "wake-ups a second" } } }
        tbody {
            @for pair in scheduler.pairs.iter().take(LISTED) {
                tr {
                    td { (named(pair.threads.0)) }
                    td { (named(pair.threads.1)) }
                    td.number { (format!("{:.0}", pair.per_second)) }
                }
            }
        }
    }
}
