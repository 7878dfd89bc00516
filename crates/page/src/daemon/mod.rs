//! The page of a daemon, from its log.

mod log;
mod scheduler;

use crate::chart::{self, Chart, Mark};
use crate::course::{Course, POINTS, Thread};
use crate::layout::Layout;
use crate::numbers::{self, counted};
use crate::shell::{self, Section, folded, table};
use crate::{machine, occupancy};
pub use log::{DaemonLog, LogError};
use log::{Move, StateLine};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// At most this many threads are drawn, and this many moves are listed.
const DRAWN: usize = 256;

/// The page of a daemon's log.
pub fn page(log: &DaemonLog) -> String {
    let course = course(log);
    let layout = log.machine.as_ref().map(Layout::from_state);
    let drawn = layout.filter(|_| !course.at.is_empty());
    let scheduled = log.states.last().and_then(scheduler::section);
    let scheduled = scheduled.map(|body| Section::open("scheduler", "The scheduler in the kernel", body));
    let sections: Vec<Section> = [
        Section::open(
            "machine",
            "The machine",
            if let Some(layout) = &drawn {
                machine::section(layout, &course)
            } else {
                html! {
                    p { "The log does not have the places of threads. Let the daemon write them: "
                        code { "pinfold daemon --log FILE --log-format json --log-state 10s" } "." }
                }
            },
        ),
        Section::open(
            "time",
            "Over time",
            html! {
                (working(log))
                @if let Some(layout) = &drawn { (occupancy::section(layout, &course)) }
            },
        ),
        Section::open("moves", "What was moved, and why", moves(log)),
    ]
    .into_iter()
    .chain(scheduled)
    .chain([
        Section::open("counters", "Counters", counters(log)),
        Section::open("notes", "Refusals and notes", notes(log)),
    ])
    .collect();
    let data = drawn
        .as_ref()
        .map(|_| serde_json::to_string(&course).unwrap_or_default());
    let title = match log.started.as_ref().map(|started| started.machine.as_str()) {
        Some(machine) if !machine.is_empty() => format!("pinfold daemon on {machine}"),
        _ => "pinfold daemon".to_owned(),
    };
    shell::page(&title, &head(log), &sections, data.as_deref(), &foot(log, &course))
}

/// The states that are drawn: every one, or of many every second, third …
fn drawn(log: &DaemonLog) -> Vec<&StateLine> {
    let step = log.states.len().div_ceil(POINTS).max(1);
    log.states.iter().step_by(step).collect()
}

/// Where the tasks ran. Those that changed their place most are not more important than others: the first ones are
/// drawn.
fn course(log: &DaemonLog) -> Course {
    let states = drawn(log);
    let mut threads: Vec<Thread> = vec![];
    let mut positions: BTreeMap<(i32, i32), usize> = BTreeMap::new();
    for (point, state) in states.iter().enumerate() {
        let mut seen = vec![false; threads.len()];
        for task in &state.tasks {
            let id = (task.process, task.thread);
            let position = match positions.get(&id) {
                Some(&position) => position,
                None if threads.len() < DRAWN => {
                    threads.push(Thread {
                        label: format!("T{}", threads.len()),
                        name: task.name.clone(),
                        number: task.thread,
                        places: vec![],
                    });
                    seen.push(false);
                    positions.insert(id, threads.len() - 1);
                    threads.len() - 1
                }
                None => continue,
            };
            seen[position] = true;
            place(&mut threads[position], point, task.pu);
        }
        // A task that does not work is not in the state.
        for (thread, _) in threads.iter_mut().zip(seen).filter(|(_, seen)| !seen) {
            place(thread, point, None);
        }
    }
    Course {
        at: states.iter().map(|state| state.at).collect(),
        end: log.lasted.max(1e-3),
        threads,
        memory: vec![],
        sums: vec![],
    }
    .completed()
}

fn place(thread: &mut Thread, point: usize, pu: Option<u32>) {
    if thread.places.last().is_none_or(|&(_, last)| last != pu) {
        thread.places.push((point, pu));
    }
}

fn head(log: &DaemonLog) -> Markup {
    let made = log.moves.iter().filter(|one| one.outcome == "made").count();
    let started = log.started.clone().unwrap_or_default();
    html! {
        @if started.dry_run { p { span.badge { "dry run" } " Moves were decided, and none was made." } }
        p.lead { "In " (numbers::seconds(log.lasted)) " the daemon decided " (counted(log.moves.len(), "move")) " and made " (made) "." }
        dl.facts {
            @for (name, value) in [
                ("Machine", started.machine), ("CPUs", started.pus), ("Metric", started.metric),
                ("Interval", if started.interval > 0.0 { format!("{} s", started.interval) } else { String::new() }),
                ("Began", log.began.clone()),
                ("Ended", log.ended.map_or_else(|| "the log does not say".to_owned(), |signal| format!("by signal {signal}"))),
            ] {
                @if !value.is_empty() { div { dt { (name) } dd { (value) } } }
            }
        }
    }
}

/// The number of tasks that work, with a mark for each move.
fn working(log: &DaemonLog) -> Markup {
    let states = drawn(log);
    if states.is_empty() {
        return html! { p { "The log has no states over time; " code { "--log-state TIME" } " adds them." } };
    }
    let at: Vec<f64> = states.iter().map(|state| state.at).collect();
    let values: Vec<Option<f64>> = states
        .iter()
        .map(|state| Some(state.totals.present.working as f64))
        .collect();
    let marks: Vec<Mark> = log
        .moves
        .iter()
        .zip(1..)
        .take(DRAWN)
        .map(|(one, number)| Mark { at: one.at, number })
        .collect();
    let chart = Chart {
        id: "working".to_owned(),
        title: "Threads that work".to_owned(),
        unit: "of those that are watched; marks are moves".to_owned(),
        description: format!(
            "Marked: {}. The table below has the values.",
            counted(marks.len(), "move")
        ),
        end: log.lasted.max(1e-3),
        parts: chart::until_next(&at, log.lasted, &values),
        top: None,
        text: numbers::short,
        marks: &marks,
        height: 120,
    };
    let rows = html! {
        thead { tr { th.number scope="col" { "time" } th.number scope="col" { "work" } th.number scope="col" { "pinned" } th.number scope="col" { "watched" } } }
        tbody {
            @for state in states.iter().step_by(states.len().div_ceil(60)) {
                @let present = &state.totals.present;
                tr {
                    th.number scope="row" { (numbers::seconds(state.at)) }
                    td.number { (present.working) } td.number { (present.pinned) } td.number { (present.watched) }
                }
            }
        }
    };
    html! {
        (chart.markup())
        (folded("threads over time", &rows))
    }
}

/// Why a task was moved, in words. An unknown reason is shown as it is.
fn reason(one: &Move) -> &str {
    match one.reason.as_str() {
        "coherence" => "it shares data with other threads",
        "remote_memory" => "it uses the memory of another node",
        "bandwidth" => "the memory of its package was saturated",
        "undo" => "an earlier move did not help",
        "keep" => "others were brought to it",
        "comparison" => "the machine was compared with and without the moves",
        "known" => "an earlier run of its program was fastest so",
        other => other,
    }
}

fn moves(log: &DaemonLog) -> Markup {
    if log.moves.is_empty() {
        return html! { p { "No thread was moved: no activity was above its threshold where a move would have helped." } };
    }
    let compared = |one: &Move| match (one.value, one.threshold) {
        (Some(value), Some(threshold)) => format!(
            "{} {}, threshold {}",
            one.activity.replace('_', " "),
            numbers::short(value),
            numbers::short(threshold)
        ),
        _ => one.activity.replace('_', " "),
    };
    let rows = html! {
        thead { tr {
            th.number scope="col" { "mark" } th.number scope="col" { "time" } th scope="col" { "thread" } th scope="col" { "CPU" }
            th scope="col" { "why" } th scope="col" { "measured" } th scope="col" { "outcome" }
        } }
        tbody {
            @for (one, number) in log.moves.iter().zip(1..).take(DRAWN) {
                tr {
                    th.number scope="row" { (number) }
                    td.number { (numbers::seconds(one.at)) }
                    td { (one.thread) " of process " (one.process) }
                    td { (one.from) " → " (one.to) }
                    td.words {
                        @if one.makes_room { "it makes room for another thread: " }
                        (reason(one))
                        @if let Some(other) = one.swapped_with { "; in exchange with thread " (other) }
                    }
                    td { (compared(one)) }
                    td.words { (one.outcome.replace('_', " ")) @if let Some(why) = &one.why { ": " (why) } }
                }
            }
        }
    };
    html! {
        (table("moves; the numbers are those of the marks above", &rows))
        @if log.moves.len() > DRAWN { p.hint { "Not listed: " (counted(log.moves.len() - DRAWN, "more move")) "." } }
    }
}

fn counters(log: &DaemonLog) -> Markup {
    let Some(last) = log.states.last() else {
        return html! { p { "The log has no states, and so no counts; " code { "--log-state TIME" } " adds them." } };
    };
    let (present, intervals, tasks) = (&last.totals.present, &last.totals.intervals, &last.totals.tasks);
    let counts = [
        ("threads that were watched at the end", present.watched),
        ("threads that worked at the end", present.working),
        ("threads that the daemon had pinned at the end", present.pinned),
        ("readings of all threads", intervals.intervals),
        ("readings from which nothing was decided", intervals.intervals_skipped),
        ("threads that were found", tasks.met),
        ("threads that have ended", tasks.ended),
        ("children that got back their creator's mask", tasks.freed),
        ("masks that another program changed", tasks.changed_by_others),
        ("threads whose counters could not be opened", tasks.not_counted),
        ("threads that the daemon may not move", tasks.not_movable),
    ];
    let rows = html! {
        thead { tr { th scope="col" { "count" } th.number scope="col" { "value" } } }
        tbody {
            @for (name, value) in counts { tr { th scope="row" { (name) } td.number { (value) } } }
            tr { th scope="row" { "processor time of the daemon" }
                td.number { (last.totals.daemon.processor_seconds.map_or_else(|| "–".to_owned(), numbers::seconds)) } }
        }
    };
    html! {
        (table("counts at the last state of the log", &rows))
        (rates(last))
    }
}

/// The rates of each task in the last state.
fn rates(last: &StateLine) -> Markup {
    let activities: Vec<_> = last
        .tasks
        .first()
        .map(|task| task.rates.keys().copied().collect())
        .unwrap_or_default();
    let rows = html! {
        thead { tr {
            th scope="col" { "thread" } th scope="col" { "name" } th scope="col" { "CPU" } th.number scope="col" { "busy" }
            @for activity in &activities { th.number scope="col" { (activity.name().replace('_', " ")) } }
            th scope="col" { "left alone because of" }
        } }
        tbody {
            @for task in last.tasks.iter().take(DRAWN) {
                tr {
                    th scope="row" { (task.thread) }
                    td { (task.name) }
                    td { @if let Some(pu) = task.pu { (pu) } @if task.pinned.is_some() { " (pinned)" } }
                    td.number { (task.busy.map_or_else(|| "–".to_owned(), |busy| format!("{:.0} %", 100.0 * busy))) }
                    @for activity in &activities {
                        td.number { (numbers::optional(task.rates.get(activity).copied().flatten())) }
                    }
                    td { (task.left_alone.map_or_else(String::new, |why| why.name().replace('_', " "))) }
                }
            }
        }
    };
    table("threads and their rates in the last state", &rows)
}

fn notes(log: &DaemonLog) -> Markup {
    html! {
        @if log.remarks.is_empty() { p { "There are no notes." } }
        @else {
            ul { @for one in log.remarks.iter().take(DRAWN) {
                li { span.quiet { "At " (numbers::seconds(one.at)) ", " (one.event.replace('_', " ")) ": " } (one.text) }
            } }
            @if log.remarks.len() > DRAWN { p.hint { (log.remarks.len() - DRAWN) " more are not listed." } }
        }
    }
}

fn foot(log: &DaemonLog, course: &Course) -> Markup {
    let states = course.at.len();
    html! {
        p.hint {
            "The log has " (counted(log.states.len(), "state"))
            @if states < log.states.len() { ", of which " (states) " are drawn" }
            "."
            @if log.earlier > 0 { " It also has lines of " (counted(log.earlier, "earlier daemon")) ", which are not shown." }
            @if log.damaged > 0 { " Not readable: " (counted(log.damaged, "line")) "." }
        }
        p.hint { "Written by pinfold " (env!("CARGO_PKG_VERSION"))
            @if let Some(started) = &log.started { " from the log of pinfold " (started.pinfold) } "." }
    }
}
