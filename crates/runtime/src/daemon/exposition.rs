//! The state as Prometheus's text format, version 0.0.4. `dist/grafana.json` shows these metrics and no others.

use super::state::{Container, SchedulerState, State};
use pinfold_core::text::clean;
use pinfold_core::{Activity, ProgressCode};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One value with its labels.
type Sample<'a> = (Vec<(&'a str, String)>, f64);

/// Writes metrics one after the other.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family<'a>(&mut self, kind: &str, name: &str, help: &str, samples: impl IntoIterator<Item = Sample<'a>>) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            self.0.push_str(name);
            if !labels.is_empty() {
                let labels: Vec<String> = labels
                    .iter()
                    .map(|(key, value)| format!("{key}=\"{}\"", escaped(value)))
                    .collect();
                let _ = write!(self.0, "{{{}}}", labels.join(","));
            }
            let _ = writeln!(self.0, " {value}");
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family("gauge", name, help, [(vec![], value)]);
    }

    fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.family("counter", name, help, [(vec![], value)]);
    }
}

fn escaped(label: &str) -> String {
    clean(label)
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// All metrics of a state.
pub fn text(state: &State) -> String {
    let mut text = Text::default();
    let about = vec![
        ("version", state.pinfold.clone()),
        ("metric", state.settings.metric.clone()),
        ("dry_run", state.settings.dry_run.to_string()),
    ];
    text.family(
        "gauge",
        "pinfold_info",
        "The daemon's version, its metric, and whether it moves nothing.",
        [(about, 1.0)],
    );
    tasks_now(&mut text, state);
    text.family(
        "counter",
        "pinfold_moves_total",
        "Moves that were decided, by reason and outcome.",
        state.totals.moves.iter().map(|moves| {
            let labels = vec![
                ("reason", moves.reason.name().to_owned()),
                ("outcome", moves.outcome.name().to_owned()),
            ];
            (labels, moves.count as f64)
        }),
    );
    progress(&mut text, state);
    comparisons(&mut text, state);
    pages(&mut text, state);
    package_metrics(&mut text, state);
    container_metrics(&mut text, state);
    scheduler(&mut text, state);
    intervals(&mut text, state);
    tasks_so_far(&mut text, state);
    daemon(&mut text, state);
    text.0
}

/// Tasks at the time of the reading.
fn tasks_now(text: &mut Text, state: &State) {
    let present = &state.totals.present;
    for (name, help, value) in [
        ("pinfold_tasks_watched", "Tasks that are watched.", present.watched),
        ("pinfold_tasks_working", "Tasks that work.", present.working),
        (
            "pinfold_tasks_pinned",
            "Working tasks that are pinned by the daemon.",
            present.pinned,
        ),
    ] {
        text.gauge(name, help, value as f64);
    }
    let left_alone = present.left_alone.iter();
    text.family(
        "gauge",
        "pinfold_tasks_left_alone",
        "Working tasks that are not moved, by reason.",
        left_alone.map(|(why, &count)| (vec![("why", why.name().to_owned())], count as f64)),
    );
}

/// Comparisons of the moves with the unpinned machine.
fn comparisons(text: &mut Text, state: &State) {
    text.family(
        "counter",
        "pinfold_comparisons_total",
        "Comparisons of the moves with the unpinned machine, by outcome.",
        state.totals.comparisons.iter().map(|comparisons| {
            let labels = vec![("outcome", comparisons.outcome.name().to_owned())];
            (labels, comparisons.count as f64)
        }),
    );
    text.gauge(
        "pinfold_withdrawn",
        "Whether the moves are withdrawn, for a turn of a comparison or because they did not help.",
        f64::from(state.withdrawn),
    );
}

/// What the progress of processes is measured by.
fn progress(text: &mut Text, state: &State) {
    let mut processes: BTreeMap<ProgressCode, u64> = BTreeMap::new();
    for one in &state.progress {
        *processes.entry(one.by).or_default() += 1;
    }
    text.family(
        "gauge",
        "pinfold_processes_measured",
        "Processes by what their progress is measured by, without counters.",
        processes
            .iter()
            .map(|(by, &count)| (vec![("by", by.name().to_owned())], count as f64)),
    );
}

/// Pages that were moved, and whose.
fn pages(text: &mut Text, state: &State) {
    let pages = &state.totals.pages;
    text.counter(
        "pinfold_pages_moved_bytes_total",
        "Bytes of pages that were moved to the nodes of their tasks, or interleaved, or went back.",
        pages.bytes as f64,
    );
    text.counter(
        "pinfold_pages_moving_seconds_total",
        "The time for which pages were moved.",
        pages.seconds,
    );
    text.counter(
        "pinfold_pages_refused_total",
        "How often the pages of a process were to move and stayed.",
        pages.refused as f64,
    );
    text.gauge(
        "pinfold_processes_followed",
        "Processes whose pages are on the nodes of their tasks, or interleaved, or on the way there.",
        state.followed.len() as f64,
    );
}

/// What the scheduler in the kernel did. Without one, the metrics have no values.
fn scheduler(text: &mut Text, state: &State) {
    let value = |of: fn(&SchedulerState) -> f64| state.scheduler.iter().map(move |one| (vec![], of(one)));
    text.family(
        "counter",
        "pinfold_preferring_seconds_total",
        "How long tasks ran that the daemon let prefer a last-level cache (--with scx).",
        value(|one| one.preferring_seconds),
    );
    text.family(
        "counter",
        "pinfold_preferred_seconds_total",
        "How long they ran in a cache that they preferred.",
        value(|one| one.preferred_seconds),
    );
    text.family(
        "counter",
        "pinfold_waited_seconds_total",
        "How long they waited for a CPU.",
        value(|one| one.waited_seconds),
    );
    text.family(
        "counter",
        "pinfold_migrations_total",
        "How often they changed the last-level cache.",
        value(|one| one.migrations as f64),
    );
    text.family(
        "counter",
        "pinfold_taken_elsewhere_total",
        "How often a CPU took a task from the queue of another last-level cache, after the task's patience.",
        value(|one| one.taken_elsewhere as f64),
    );
    text.family(
        "counter",
        "pinfold_waited_beside_idle_total",
        "How often a task waited for more than 10 ms while a CPU that it may run on was idle for more than that.",
        value(|one| one.waited_beside_idle as f64),
    );
}

fn intervals(text: &mut Text, state: &State) {
    let intervals = &state.totals.intervals;
    text.counter(
        "pinfold_intervals_total",
        "How often the tasks were read.",
        intervals.intervals as f64,
    );
    text.counter(
        "pinfold_intervals_skipped_total",
        "How often nothing was decided because the time since the previous reading was too long or too short.",
        intervals.intervals_skipped as f64,
    );
    text.counter(
        "pinfold_work_seconds_total",
        "Time from the start of readings to the end of the last move.",
        intervals.work_seconds,
    );
}

/// Tasks since the daemon began.
fn tasks_so_far(text: &mut Text, state: &State) {
    let tasks = &state.totals.tasks;
    for (name, help, value) in [
        ("pinfold_tasks_met_total", "Tasks that were found.", tasks.met),
        ("pinfold_tasks_ended_total", "Tasks that have ended.", tasks.ended),
        (
            "pinfold_masks_freed_total",
            "New tasks that inherited a mask of the daemon's and got back their creator's own.",
            tasks.freed,
        ),
        (
            "pinfold_masks_changed_by_others_total",
            "Masks that another program changed after the daemon.",
            tasks.changed_by_others,
        ),
        (
            "pinfold_tasks_not_counted_total",
            "Tasks whose counters could not be opened.",
            tasks.not_counted,
        ),
        (
            "pinfold_tasks_not_movable_total",
            "Tasks that the daemon may not move.",
            tasks.not_movable,
        ),
    ] {
        text.counter(name, help, value as f64);
    }
}

/// The daemon itself.
fn daemon(text: &mut Text, state: &State) {
    let daemon = &state.totals.daemon;
    for (name, help, value) in [
        (
            "pinfold_log_lines_lost_total",
            "Lines of the log that could not be written.",
            daemon.log_lines_lost,
        ),
        (
            "pinfold_reloads_total",
            "How often the configuration was read again.",
            daemon.reloads,
        ),
        (
            "pinfold_reloads_refused_total",
            "How often the configuration was wrong and the old one stayed.",
            daemon.reloads_refused,
        ),
    ] {
        text.counter(name, help, value as f64);
    }
    text.family(
        "counter",
        "pinfold_processor_seconds_total",
        "Processor time of the daemon.",
        daemon.processor_seconds.map(|seconds| (vec![], seconds)),
    );
}

/// What the tasks of each package do together.
fn package_metrics(text: &mut Text, state: &State) {
    let mut busy: Vec<f64> = vec![0.0; state.machine.packages.len()];
    let mut rates: BTreeMap<(usize, Activity), f64> = BTreeMap::new();
    for task in &state.tasks {
        let Some(package) = task.pu.and_then(|pu| state.machine.package_of(pu)) else {
            continue;
        };
        busy[package] += task.busy.unwrap_or(0.0);
        for (&activity, value) in &task.rates {
            if let Some(value) = value {
                *rates.entry((package, activity)).or_default() += value;
            }
        }
    }
    let label = |package: usize| ("package", state.machine.packages[package].label());
    text.family(
        "gauge",
        "pinfold_package_busy",
        "Processor time of the watched tasks of a package, in PUs.",
        busy.iter()
            .enumerate()
            .map(|(package, &busy)| (vec![label(package)], busy)),
    );
    text.family(
        "gauge",
        "pinfold_package_rate",
        "Rates of the tasks of a package, added up; a rate that is not available is absent.",
        rates.iter().map(|(&(package, activity), &value)| {
            (vec![label(package), ("activity", activity.name().to_owned())], value)
        }),
    );
}

/// The most containers that have metrics of their own. Prometheus keeps each combination of labels for hours, so a
/// machine with many short-lived containers must not make one for each.
const MOST_CONTAINERS: usize = 200;

/// What the tasks of each container do together: of the first `MOST_CONTAINERS` that were found and still are there.
/// Containers with the same labels, such as one that was started again and the one that ends, are added up, because a
/// line with the same labels may be there once only.
fn container_metrics(text: &mut Text, state: &State) {
    text.gauge(
        "pinfold_containers",
        "Containers of watched tasks; the metrics of single containers have the first 200 that were found.",
        state.containers.len() as f64,
    );
    let mut sums: BTreeMap<Vec<(&str, String)>, [f64; 4]> = BTreeMap::new();
    for one in state.containers.iter().take(MOST_CONTAINERS) {
        let values = [
            one.watched as f64,
            one.pinned as f64,
            one.moves as f64,
            one.processor_seconds,
        ];
        let sum = sums.entry(container_labels(&one.container)).or_default();
        for (sum, value) in sum.iter_mut().zip(values) {
            *sum += value;
        }
    }
    for (position, (kind, name, help)) in [
        (
            "gauge",
            "pinfold_container_tasks_watched",
            "Tasks of a container that are watched.",
        ),
        (
            "gauge",
            "pinfold_container_tasks_pinned",
            "Tasks of a container that are pinned by the daemon.",
        ),
        (
            "counter",
            "pinfold_container_moves_total",
            "Moves of tasks of a container that were made.",
        ),
        (
            "counter",
            "pinfold_container_processor_seconds_total",
            "Processor time of the tasks of a container while they were watched.",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let samples = sums.iter().map(|(labels, values)| (labels.clone(), values[position]));
        text.family(kind, name, help, samples);
    }
}

/// The labels of a container. What is not known has no label; a container without a name has its short id, and a pod
/// without one its UID.
fn container_labels(one: &Container) -> Vec<(&'static str, String)> {
    let short: String = one.id.chars().take(12).collect();
    let name = one.name.clone().unwrap_or(short);
    let pod = one.pod.clone().or_else(|| one.pod_uid.clone());
    let runtime = one.runtime.map(|runtime| runtime.name().to_owned());
    let known = [("pod", pod), ("namespace", one.namespace.clone()), ("runtime", runtime)];
    let known = known.into_iter().filter_map(|(label, value)| Some((label, value?)));
    [("container", name)].into_iter().chain(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::state::ContainerTotals;
    use pinfold_core::container::Runtime;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    #[test]
    fn a_family_has_its_help_its_type_and_a_line_for_each_value() {
        let mut text = Text::default();
        text.family(
            "gauge",
            "x",
            "What.",
            [(vec![("a", "b".to_owned())], 1.5), (vec![], 2.0)],
        );
        assert_eq!(text.0, "# HELP x What.\n# TYPE x gauge\nx{a=\"b\"} 1.5\nx 2\n");
    }

    #[test]
    fn a_scheduler_that_is_not_there_has_no_values() {
        let values = |state: &State| {
            let lines = text(state);
            lines
                .lines()
                .filter(|line| line.starts_with("pinfold_preferr"))
                .map(ToOwned::to_owned)
                .collect::<Vec<_>>()
        };
        let mut state = State::default();
        assert!(values(&state).is_empty());
        state.scheduler = Some(SchedulerState {
            preferring_seconds: 2.5,
            preferred_seconds: 2.25,
            ..SchedulerState::default()
        });
        assert_eq!(
            values(&state),
            [
                "pinfold_preferring_seconds_total 2.5",
                "pinfold_preferred_seconds_total 2.25"
            ]
        );
    }

    fn container(id: &str, name: Option<&str>, watched: u64) -> ContainerTotals {
        ContainerTotals {
            container: Container {
                id: id.to_owned(),
                name: name.map(ToOwned::to_owned),
                ..Container::default()
            },
            watched,
            ..ContainerTotals::default()
        }
    }

    /// The lines of the watched tasks of containers.
    fn watched(containers: Vec<ContainerTotals>) -> Vec<String> {
        let state = State {
            containers,
            ..State::default()
        };
        let lines = text(&state);
        let lines = lines
            .lines()
            .filter(|line| line.starts_with("pinfold_container_tasks_watched"));
        lines.map(ToOwned::to_owned).collect()
    }

    #[test]
    fn a_container_has_the_labels_that_are_known_and_each_combination_is_there_once() {
        let mut in_pod = container("a", Some("n\"x"), 1);
        in_pod.container.pod_uid = Some("uid".to_owned());
        in_pod.container.namespace = Some("shop".to_owned());
        in_pod.container.runtime = Some(Runtime::CriO);
        let lines = watched(vec![
            container("0123456789abcdef", None, 2),
            container("b", Some("web"), 3),
            container("c", Some("web"), 4),
            in_pod,
        ]);
        assert_eq!(
            lines,
            [
                r#"pinfold_container_tasks_watched{container="0123456789ab"} 2"#,
                r#"pinfold_container_tasks_watched{container="n\"x",pod="uid",namespace="shop",runtime="cri_o"} 1"#,
                r#"pinfold_container_tasks_watched{container="web"} 7"#,
            ]
        );
    }

    #[test]
    fn the_number_of_containers_is_bounded() {
        let many = (0..1000)
            .map(|number| container(&number.to_string(), None, 1))
            .collect();
        assert_eq!(watched(many).len(), MOST_CONTAINERS);
    }
}
