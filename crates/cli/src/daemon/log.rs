//! The log: a line for each event, as `key=value` pairs or as JSON, to standard error or a file.
//!
//! A line that cannot be written (a full disk, a closed pipe) is counted and lost; the daemon goes on.

use super::config::{self, LogFormat};
use crate::console;
use anyhow::{Context, Result};
use pinfold_core::text::clean;
use pinfold_files::output::open_growing;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::SystemTime;

/// Where lines go.
enum Sink {
    StandardError,
    File(File),
}

/// The log.
pub(super) struct Log {
    sink: Sink,
    format: LogFormat,
    lost: u64,
    /// Whether the last line was lost, and perhaps written in part.
    broken: bool,
}

impl Log {
    /// Opens the log; a file is written at its end.
    pub(super) fn open(config: &config::Log) -> Result<Self> {
        let sink =
            match &config.file {
                None => Sink::StandardError,
                Some(path) => {
                    let mut options = OpenOptions::new();
                    let file = open_growing(path, options.append(true).create(true));
                    Sink::File(file.with_context(|| {
                        format!("the log {} cannot be opened; name another with --log", path.display())
                    })?)
                }
            };
        Ok(Self {
            sink,
            format: config.format,
            lost: 0,
            broken: false,
        })
    }

    /// Continues in another file; the count of lost lines stays.
    pub(super) fn replace(&mut self, other: Self) {
        *self = Self {
            lost: self.lost,
            ..other
        };
    }

    /// How many lines could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Writes one event.
    pub(super) fn event(&mut self, name: &str, fields: &[(&str, Value)]) {
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let mut line = match self.format {
            LogFormat::Json => json(&time, name, fields),
            LogFormat::Logfmt => logfmt(&time, name, fields),
        };
        if self.broken {
            line.insert(0, '\n');
        }
        line.push('\n');
        // JSON's escapes leave DEL, C1 and overrides of direction as they are.
        let line = clean(&line);
        let written = match &mut self.sink {
            Sink::StandardError => console::log(&line),
            Sink::File(file) => file.write_all(line.as_bytes()),
        };
        self.broken = written.is_err();
        self.lost += u64::from(self.broken);
    }
}

fn json(time: &str, name: &str, fields: &[(&str, Value)]) -> String {
    let mut object = Map::new();
    object.insert("time".to_owned(), time.into());
    object.insert("event".to_owned(), name.into());
    for (key, value) in fields {
        object.insert((*key).to_owned(), value.clone());
    }
    Value::Object(object).to_string()
}

fn logfmt(time: &str, name: &str, fields: &[(&str, Value)]) -> String {
    let mut line = format!("time={time} event={name}");
    for (key, value) in fields {
        let _ = match value {
            Value::String(text) if is_plain(text) => write!(line, " {key}={text}"),
            // JSON's quotes are logfmt's as well.
            value => write!(line, " {key}={value}"),
        };
    }
    line
}

/// Whether a value needs no quotes.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|character| character.is_ascii_graphic() && !matches!(character, '"' | '=' | '\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_keep_each_event_on_one_line() {
        let fields = [("text", Value::from("two\nlines = \"one\"")), ("pu", 3.into())];
        assert_eq!(
            logfmt("T", "note", &fields),
            r#"time=T event=note text="two\nlines = \"one\"" pu=3"#
        );
        let json: Value = serde_json::from_str(&json("T", "note", &fields)).unwrap();
        assert_eq!((&json["event"], &json["pu"]), (&"note".into(), &3.into()));
    }

    #[test]
    fn a_full_disk_loses_lines_and_counts_them() {
        let mut log = Log::open(&config::Log {
            file: Some("/dev/full".into()),
            ..config::Log::default()
        })
        .unwrap();
        log.event("note", &[]);
        log.event("note", &[]);
        assert_eq!(log.lost(), 2);
    }
}
