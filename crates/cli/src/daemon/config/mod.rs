//! The daemon's configuration: a TOML file. The options of the command line replace its keys.
//!
//! A file with an error is refused as a whole, and the message names file, line, key and remedy. `dist/daemon.toml` is
//! a commented example with every key; a test compares the two.

mod values;

use crate::activities;
use anyhow::{Context, Result, bail};
use pinfold_calibrate::thresholds::Clock;
use pinfold_files::input;
use pinfold_linux::watch::{PageLimits, Selection};
use pinfold_policy::sam::{MapperOptions, Thresholds};
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
pub(super) use values::{Cgroup, CopyRate, Except, Loopback, MetricName, Mode, ProcessNumber, Rate, Time, UserName};

/// The default file.
pub(super) const USUAL: &str = "/etc/pinfold/daemon.toml";

/// The contents of the file; keys that are absent have their defaults.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Config {
    /// How often tasks are read and moves decided.
    pub(super) interval: Time,
    /// The sleep after which a task gets its mask back.
    pub(super) release_after: Time,
    /// Decide and log, and move nothing.
    pub(super) dry_run: bool,
    /// How tasks are placed.
    pub(super) with: With,
    /// The source of the rates of sharing.
    pub(super) metric: MetricName,
    /// Whether the calls of functions may show the progress of processes.
    pub(super) functions: bool,
    /// The behaviour database; `none` for no database.
    pub(super) db: Option<PathBuf>,
    pub(super) tasks: Tasks,
    pub(super) thresholds: ThresholdsTable,
    pub(super) mapper: MapperOptions,
    pub(super) pages: Pages,
    pub(super) log: Log,
    pub(super) export: Export,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interval: Time(Duration::from_millis(100)),
            release_after: Time(Duration::from_secs(10)),
            dry_run: false,
            with: With::Masks,
            metric: MetricName::Counters,
            functions: true,
            db: None,
            tasks: Tasks::default(),
            thresholds: ThresholdsTable::default(),
            mapper: MapperOptions::default(),
            pages: Pages::default(),
            log: Log::default(),
            export: Export::default(),
        }
    }
}

/// How tasks are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum With {
    /// Their masks are set
    Masks,
    /// A scheduler in the kernel (Linux 6.12) knows where they prefer to run; no mask is set
    Scx,
    /// scx where the kernel can and no other such scheduler runs, else masks
    Auto,
}

/// The tasks to watch.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tasks {
    pub(super) cgroups: Vec<Cgroup>,
    pub(super) users: Vec<UserName>,
    pub(super) processes: Vec<ProcessNumber>,
    pub(super) names: Vec<String>,
    pub(super) except: Vec<Except>,
}

/// The rates above which an activity is a bottleneck.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ThresholdsTable {
    /// What `pinfold calibrate --thresholds` wrote.
    pub(super) file: Option<PathBuf>,
    pub(super) coherence: Option<Rate>,
    pub(super) remote: Option<Rate>,
    pub(super) memory: Option<Rate>,
    pub(super) package_memory: Option<Rate>,
}

/// How many pages may move.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Pages {
    /// The largest rate of copying.
    pub(super) rate: CopyRate,
    /// The longest time for the pages of a process.
    pub(super) within: Time,
}

impl Default for Pages {
    fn default() -> Self {
        let limits = PageLimits::default();
        Self {
            rate: CopyRate(limits.rate),
            within: Time(limits.within),
        }
    }
}

/// The form and the file of the log.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Log {
    pub(super) format: LogFormat,
    /// Standard error if no file is named.
    pub(super) file: Option<PathBuf>,
    /// How often the state is written; never if no time is given.
    pub(super) state: Option<Time>,
}

/// The form of a line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum LogFormat {
    /// `key=value` pairs.
    #[default]
    Logfmt,
    /// An object of JSON.
    Json,
}

/// The sockets for `pinfold top` and Prometheus.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Export {
    /// A Unix socket; `daemon.sock` in the directory of the journals if none is named.
    pub(super) socket: Option<PathBuf>,
    /// The permissions of the socket.
    pub(super) mode: Mode,
    /// A port of this machine, for a Prometheus that does not speak to Unix sockets.
    pub(super) listen: Option<Loopback>,
}

impl Log {
    /// A state has tasks with keys of their own, which pairs of keys and values cannot have.
    pub(super) fn check(&self) -> Result<()> {
        if self.state.is_some() && self.format != LogFormat::Json {
            bail!(
                "the state is written into a log of JSON only: add --log-format json, or `format = \"json\"` in [log]"
            );
        }
        Ok(())
    }
}

impl Config {
    /// Reads a file. The error names the place and the remedy.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = input::text(path, input::MOST).with_context(|| {
            format!(
                "the configuration {} cannot be read; name another with --config",
                path.display()
            )
        })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads the text of a file of this name.
    fn parse(name: &str, text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| {
            let place = error.span().map(|span| place(text, &span));
            let (line, key) = place.unwrap_or((1, None));
            let key = key.map(|key| format!("`{key}`: ")).unwrap_or_default();
            let message = error.message().trim().replace('\n', " ");
            anyhow::anyhow!("{name}:{line}: {key}{message}{}", suggestion(&message))
        })
    }

    /// Which tasks are watched.
    pub(super) fn selection(&self) -> Selection {
        let except = self.tasks.except.iter();
        let name = |one: &Except| match one {
            Except::Name(name) => Some(name.clone()),
            Except::Group(_) => None,
        };
        let group = |one: &Except| match one {
            Except::Name(_) => None,
            Except::Group(group) => Some(group.clone()),
        };
        Selection {
            cgroups: self.tasks.cgroups.iter().map(|group| group.0.clone()).collect(),
            users: self.tasks.users.iter().map(|user| user.0).collect(),
            processes: self.tasks.processes.iter().map(|process| process.0).collect(),
            names: self.tasks.names.clone(),
            except: except.clone().filter_map(name).collect(),
            except_groups: except.filter_map(group).collect(),
        }
    }

    /// Whether pages may move.
    pub(super) fn moves_pages(&self) -> bool {
        let mapper = self.mapper_options();
        mapper.comparison && mapper.pages
    }

    /// Whether the bytes that processes read and write are their progress. The kernel shows those of other users to
    /// whoever may trace them.
    pub(super) fn counts_bytes(&self) -> bool {
        matches!(self.metric, MetricName::Sharing(_) | MetricName::Wakeups)
    }

    /// Whether functions are looked for whose calls show the progress of processes: only if it is compared, and nothing
    /// else counts it.
    pub(super) fn finds_functions(&self) -> bool {
        self.functions && self.counts_bytes() && self.mapper_options().comparison
    }

    /// How many pages may move.
    pub(super) fn page_limits(&self) -> PageLimits {
        PageLimits {
            rate: self.pages.rate.0,
            within: self.pages.within.0,
        }
    }

    /// The extensions of the mapper beyond the paper. An assumption is not validated, because no measurement can refute
    /// it. Its moves are compared all the same, by the progress of processes. Moves that are not made are not compared.
    pub(super) fn mapper_options(&self) -> MapperOptions {
        MapperOptions {
            validation: self.mapper.validation && !self.metric.assumed(),
            comparison: self.mapper.comparison && !self.dry_run,
            ..self.mapper
        }
    }

    /// The thresholds of the file or the defaults of the metric, with the single thresholds of the table in their
    /// place.
    pub(super) fn thresholds(&self) -> Result<Thresholds> {
        let table = &self.thresholds;
        let mut thresholds = match (&table.file, &self.metric) {
            (Some(file), metric) => activities::read_thresholds(file, clock(metric))?,
            (None, MetricName::Counters) => Thresholds::paper(),
            (None, MetricName::Sharing(None) | MetricName::Wakeups) => for_sharing(),
            (None, MetricName::Sharing(Some(_)) | MetricName::Activities(_)) => {
                let given = [table.coherence, table.remote, table.memory, table.package_memory];
                if given.iter().all(Option::is_none) {
                    bail!(
                        "--metric {} needs thresholds, from which on an event comes too often: a second of processor time for \
                         sharing:EVENT, a nanosecond of it for ACTIVITY=EVENT; write them in [thresholds], or give --thresholds \
                         FILE (`pinfold calibrate --thresholds --metric` measures those of ACTIVITY=EVENT) or \
                         --threshold RATE (of coherence)",
                        self.metric
                    );
                }
                for_sharing()
            }
        };
        for (given, field) in [
            (table.coherence, &mut thresholds.coherence),
            (table.remote, &mut thresholds.remote),
            (table.memory, &mut thresholds.memory),
            (table.package_memory, &mut thresholds.package_memory),
        ] {
            if let Some(rate) = given {
                *field = rate.0;
            }
        }
        thresholds.check().context("[thresholds]")?;
        Ok(thresholds)
    }
}

/// The clock of the rates of a metric.
fn clock(metric: &MetricName) -> Clock {
    match metric {
        MetricName::Counters => Clock::Cycle,
        MetricName::Sharing(_) | MetricName::Wakeups => Clock::Second,
        MetricName::Activities(_) => Clock::Nanosecond,
    }
}

/// With the metric `sharing` a rate is the share of a task's group that is elsewhere: a task moves from a quarter on.
fn for_sharing() -> Thresholds {
    Thresholds {
        source: "assumed: a quarter of a task's group elsewhere".to_owned(),
        coherence: 0.25,
        ..Thresholds::paper()
    }
}

/// The line of a place in the text, counted from 1, and the key that stands there, with its table.
fn place(text: &str, span: &Range<usize>) -> (usize, Option<String>) {
    let start = span.start.min(text.len());
    let before = &text[..start];
    let line = before.matches('\n').count() + 1;
    let whole = text.lines().nth(line - 1).unwrap_or_default().trim();
    let table = text.lines().take(line).filter_map(|line| {
        let line = line.trim();
        line.strip_prefix('[')?.split(']').next()
    });
    let table = table.last();
    let key = whole
        .split_once('=')
        .map(|(key, _)| key.trim())
        .filter(|key| !key.is_empty());
    let key = match (table, key) {
        (Some(table), Some(key)) => Some(format!("{table}.{key}")),
        (None, Some(key)) => Some(key.to_owned()),
        (Some(table), None) => Some(table.to_owned()),
        (None, None) => None,
    };
    (line, key)
}

/// Names whose Jaro-Winkler similarity is lower are not mistaken for each other.
const SIMILAR: f64 = 0.8;

/// For an unknown key: the known one that is most like it.
fn suggestion(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let (Some(unknown), true) = (names.next(), message.contains("unknown ")) else {
        return String::new();
    };
    let near = names
        .map(|name| (strsim::jaro_winkler(unknown, name), name))
        .filter(|&(similarity, _)| similarity >= SIMILAR)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    near.map_or_else(String::new, |(_, name)| format!("; did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Config::parse("daemon.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Config::parse("daemon.toml", "").unwrap(), Config::default());
    }

    #[test]
    fn an_error_names_line_key_and_remedy() {
        for (text, expected) in [
            ("\n\ninterval = \"fast\"\n", ["daemon.toml:3: `interval`: ", "500ms"]),
            (
                "[export]\nlisten = \"0.0.0.0:80\"\n",
                ["daemon.toml:2: `export.listen`: ", "127.0.0.1:9798"],
            ),
            ("[log]\nformat = \"xml\"\n", ["daemon.toml:2: `log.format`: ", "logfmt"]),
            (
                "metric = \"luck\"\n",
                ["daemon.toml:1: `metric`: ", "sharing:context-switches"],
            ),
            (
                "[tasks]\nprocesses = [0]\n",
                ["daemon.toml:2: `tasks.processes`: ", "number of a process"],
            ),
            (
                "[tasks]\ncgroups = [\"containr:web\"]\n",
                [
                    "daemon.toml:2: `tasks.cgroups`: `containr:web` names no control group",
                    "container:NAME",
                ],
            ),
            (
                "[tasks]\nexcept = [\"pod:a/b/c\"]\n",
                ["daemon.toml:2: `tasks.except`: ", "pod:NAMESPACE/NAME"],
            ),
            (
                "[thresholds]\ncoherence = -1.0\n",
                ["daemon.toml:2: `thresholds.coherence`: ", "above zero"],
            ),
            (
                "intervall = \"1s\"\n",
                ["daemon.toml:1: `intervall`: ", "did you mean `interval`?"],
            ),
            (
                "[tasks]\nuser = [\"root\"]\n",
                ["daemon.toml:2: `tasks.user`: ", "did you mean `users`?"],
            ),
            ("interval = \n", ["daemon.toml:1: `interval`: ", ""]),
            (
                "[mapper]\nhysteresis = 1\n",
                ["daemon.toml:2: `mapper.hysteresis`: ", "boolean"],
            ),
        ] {
            let error = error(text);
            assert!(error.starts_with(expected[0]) && error.contains(expected[1]), "{error}");
        }
    }

    #[test]
    fn an_exception_is_a_name_or_a_group() {
        let config = Config::parse("x", "[tasks]\nexcept = [\"ssh*\", \"container:web\", \"/user.slice\"]").unwrap();
        let selection = config.selection();
        assert_eq!(selection.except, ["ssh*"]);
        let groups: Vec<String> = selection.except_groups.iter().map(ToString::to_string).collect();
        assert_eq!(groups, ["container:web", "/user.slice"]);
    }

    #[test]
    fn an_event_without_a_threshold_is_refused() {
        let config = Config::parse("x", "metric = \"sharing:context-switches\"").unwrap();
        let error = config.thresholds().unwrap_err().to_string();
        assert!(error.contains("--threshold"), "{error}");
        let config = Config::parse("x", "metric = \"sharing:faults\"\n[thresholds]\ncoherence = 5").unwrap();
        assert!((config.thresholds().unwrap().coherence - 5.0).abs() < 1e-9);
    }

    #[test]
    fn the_example_has_every_key_and_says_the_defaults() {
        let text = include_str!("../../../../../dist/daemon.toml");
        // Keys are commented out, with one `#` and no space.
        let lines = text.lines().map(|line| match line.strip_prefix('#') {
            Some(key) if !key.starts_with([' ', '#']) => key,
            _ => line,
        });
        let uncommented = lines.collect::<Vec<_>>().join("\n");
        let all = Config::parse("dist/daemon.toml", &uncommented).unwrap();
        assert_eq!(Config::parse("dist/daemon.toml", text).unwrap(), Config::default());
        let table: toml::Table = toml::from_str(&uncommented).unwrap();
        let mut keys: Vec<String> = vec![];
        for (key, value) in &table {
            match value {
                toml::Value::Table(table) => keys.extend(table.keys().map(|inner| format!("{key}.{inner}"))),
                _ => keys.push(key.clone()),
            }
        }
        // The message of an unknown key lists those that are known.
        for table in ["", "tasks", "thresholds", "mapper", "pages", "log", "export"] {
            let header = if table.is_empty() {
                String::new()
            } else {
                format!("[{table}]\n")
            };
            let message = Config::parse("x", &format!("{header}zzz = 1\n"))
                .unwrap_err()
                .to_string();
            let known: Vec<&str> = message
                .split('`')
                .skip(1)
                .step_by(2)
                .filter(|name| !name.contains("zzz"))
                .collect();
            assert!(!known.is_empty(), "{message}");
            for name in known {
                let whole = if table.is_empty() {
                    name.to_owned()
                } else {
                    format!("{table}.{name}")
                };
                let there = keys.contains(&whole) || table.is_empty() && uncommented.contains(&format!("[{name}]"));
                assert!(there, "dist/daemon.toml lacks {whole}");
            }
        }
        assert_eq!(all.interval, Config::default().interval);
    }
}
