//! The state as Prometheus's text format, version 0.0.4. `dist/grafana.json` shows these metrics and no others.

use super::state::State;
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
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// All metrics of a state.
pub fn text(state: &State) -> String {
    let totals = &state.totals;
    let mut text = Text::default();
    let about = vec![
        ("version", state.pinfold.clone()),
        ("metric", state.metric.clone()),
        ("dry_run", state.dry_run.to_string()),
    ];
    text.family(
        "gauge",
        "pinfold_info",
        "What runs, and by which metric.",
        [(about, 1.0)],
    );
    for (name, help, value) in [
        ("pinfold_tasks_watched", "Tasks that are watched.", totals.watched),
        ("pinfold_tasks_working", "Tasks that work.", totals.working),
        (
            "pinfold_tasks_pinned",
            "Working tasks that are pinned by the daemon.",
            totals.pinned,
        ),
    ] {
        text.gauge(name, help, value as f64);
    }
    let left_alone = totals.left_alone.iter();
    text.family(
        "gauge",
        "pinfold_tasks_left_alone",
        "Working tasks that are not moved, by reason.",
        left_alone.map(|(why, &count)| (vec![("why", why.clone())], count as f64)),
    );
    text.family(
        "counter",
        "pinfold_moves_total",
        "Moves that were decided, by reason and by what became of them.",
        totals.moves.iter().map(|moves| {
            let labels = vec![("reason", moves.reason.clone()), ("outcome", moves.outcome.clone())];
            (labels, moves.count as f64)
        }),
    );
    by_package(&mut text, state);
    for (name, help, value) in [
        ("pinfold_beats_total", "Times that the tasks were read.", totals.beats),
        (
            "pinfold_beats_skipped_total",
            "Times that nothing was decided because the stretch before was too long or too short.",
            totals.beats_skipped,
        ),
        ("pinfold_tasks_met_total", "Tasks that were met.", totals.met),
        ("pinfold_tasks_ended_total", "Tasks that have ended.", totals.ended),
        (
            "pinfold_masks_freed_total",
            "Newcomers that were born with a mask of the daemon's and got back their creator's own.",
            totals.freed,
        ),
        (
            "pinfold_masks_changed_by_others_total",
            "Masks that somebody else changed after the daemon.",
            totals.changed_by_others,
        ),
        (
            "pinfold_tasks_not_counted_total",
            "Tasks whose counters could not be opened.",
            totals.not_counted,
        ),
        (
            "pinfold_tasks_not_movable_total",
            "Tasks that the daemon may not move.",
            totals.not_movable,
        ),
        (
            "pinfold_log_lines_lost_total",
            "Lines of the log that could not be written.",
            totals.log_lines_lost,
        ),
        (
            "pinfold_reloads_total",
            "Times that the configuration was read again.",
            totals.reloads,
        ),
        (
            "pinfold_reloads_refused_total",
            "Times that the configuration was wrong and the old one stayed.",
            totals.reloads_refused,
        ),
    ] {
        text.counter(name, help, value as f64);
    }
    text.counter(
        "pinfold_beat_seconds_total",
        "Time from the begin of readings to the end of the last move.",
        totals.beat_seconds,
    );
    text.family(
        "counter",
        "pinfold_processor_seconds_total",
        "Processor time of the daemon.",
        totals.processor_seconds.map(|seconds| (vec![], seconds)),
    );
    text.0
}

/// What the tasks of each package do together.
fn by_package(text: &mut Text, state: &State) {
    let mut busy: Vec<f64> = vec![0.0; state.machine.packages.len()];
    let mut rates: BTreeMap<(usize, &str), f64> = BTreeMap::new();
    for task in &state.tasks {
        let Some(package) = task.pu.and_then(|pu| state.machine.package_of(pu)) else {
            continue;
        };
        busy[package] += task.busy.unwrap_or(0.0);
        for (name, value) in &task.rates {
            if let Some(value) = value {
                *rates.entry((package, name)).or_default() += value;
            }
        }
    }
    let label = |package: usize| ("package", state.machine.packages[package].label());
    text.family(
        "gauge",
        "pinfold_package_busy",
        "How many PUs' worth of time the watched tasks of a package take.",
        busy.iter()
            .enumerate()
            .map(|(package, &busy)| (vec![label(package)], busy)),
    );
    text.family(
        "gauge",
        "pinfold_package_rate",
        "Rates of the tasks of a package, added up; none for what could not be had.",
        rates
            .iter()
            .map(|(&(package, name), &value)| (vec![label(package), ("activity", name.to_owned())], value)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
