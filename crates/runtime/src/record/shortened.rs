//! A record within bounds, for pages and texts: anybody may have written it, and each list may be as long as the file.
//!
//! 1. Each list keeps its first `MOST` parts, and each text its first `LONGEST` characters.
//! 2. The time line is thinned as one that grows: neighbouring points become one, with the mean of their rates.
//! 3. Omitted parts are counted by the key of the list.
//!
//! Limits: lists of PUs and the machine stay whole, because their parts refer to each other.

use super::document::{ReadError, RunDocument};
use super::timeline::Timeline;
use serde_json::Value;
use std::collections::BTreeMap;

/// More parts of a list than anybody reads.
const MOST: usize = 512;

/// More characters than the longest text of pinfold, the findings of rules.
const LONGEST: usize = 4096;

/// More keys than a record has, and longer ones.
const KEYS: usize = 100;
const LONGEST_KEY: usize = 40;

/// Lists whose parts refer to each other, or are read together.
const WHOLE: [&str; 2] = ["pus", "timeline"];

/// What was left out: the number of parts, by the key of their list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<String, u64>);

impl LeftOut {
    /// Keys that no record has are counted together: a file may have many.
    fn add(&mut self, key: &str, number: usize) {
        let known = self.0.contains_key(key) || self.0.len() < KEYS && key.len() < LONGEST_KEY;
        let key = if known { key } else { "other keys" };
        *self.0.entry(key.to_owned()).or_default() += number as u64;
    }

    /// What was left out, as a sentence; `None` for nothing.
    pub fn sentence(&self) -> Option<String> {
        let parts: Vec<String> = self
            .0
            .iter()
            .map(|(key, number)| format!("{number} of `{key}`"))
            .collect();
        (!parts.is_empty()).then(|| {
            format!(
                "Left out, because the record has more than is shown: {}.",
                parts.join(", ")
            )
        })
    }
}

impl RunDocument {
    /// Reads a file's text within bounds, with the numbers of omitted parts.
    ///
    /// # Errors
    ///
    /// As `read`.
    pub fn read_shortened(text: &str) -> Result<(Self, LeftOut), ReadError> {
        let mut left_out = LeftOut::default();
        let mut value = Self::value(text)?;
        shorten(&mut value, "", &mut left_out);
        let mut document = Self::from_value(value)?;
        if let Some(line) = &mut document.record.timeline {
            let points = line.at.len();
            line.shorten(MOST, &mut left_out);
            if line.at.len() < points {
                left_out.add("points", points - line.at.len());
            }
        }
        Ok((document, left_out))
    }
}

/// Shortens the lists and texts of a value, which has this key.
fn shorten(value: &mut Value, key: &str, left_out: &mut LeftOut) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(LONGEST) {
                left_out.add(key, text[end..].chars().count());
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(parts) => {
            if parts.len() > MOST {
                left_out.add(key, parts.len() - MOST);
                parts.truncate(MOST);
            }
            for part in parts {
                shorten(part, key, left_out);
            }
        }
        Value::Object(parts) => {
            for (key, part) in parts {
                if !WHOLE.contains(&key.as_str()) {
                    shorten(part, key, left_out);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl Timeline {
    /// Thins the points as often as necessary, and limits the length of each list.
    fn shorten(&mut self, most: usize, left_out: &mut LeftOut) {
        // A changed file may have more or fewer values than points.
        let points = self.at.len();
        self.metrics
            .iter_mut()
            .for_each(|series| series.rates.resize(points, None));
        self.nodes
            .iter_mut()
            .for_each(|series| series.bytes.resize(points, None));
        self.traffic
            .iter_mut()
            .for_each(|series| series.rates.resize(points, None));
        while self.at.len() > most {
            self.thin();
        }
        let tasks = self.tasks.len().saturating_sub(most);
        self.tasks.truncate(most);
        self.tasks_left_out = self.tasks_left_out.saturating_add(tasks as u64);
        let lists = [
            ("metrics", cut(&mut self.metrics, most)),
            ("nodes", cut(&mut self.nodes, most)),
            ("traffic", cut(&mut self.traffic, most)),
            ("configurations", cut(&mut self.configurations, most)),
            (
                "places",
                self.tasks.iter_mut().map(|task| cut(&mut task.places, most)).sum(),
            ),
        ];
        for (key, number) in lists.into_iter().filter(|&(_, number)| number > 0) {
            left_out.add(key, number);
        }
    }
}

/// Keeps the first parts up to a number; returns the number of the others.
fn cut<T>(list: &mut Vec<T>, most: usize) -> usize {
    let beyond = list.len().saturating_sub(most);
    list.truncate(most);
    beyond
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{PuId, TopologyBuilder};
    use serde_json::json;

    fn record(changes: &[(&str, Value)]) -> String {
        let mut value = json!({"policy": "none", "candidates": []});
        for (key, change) in changes {
            value[*key] = change.clone();
        }
        value.to_string()
    }

    #[test]
    fn long_lists_and_texts_are_cut_and_counted() {
        let note = json!({"at": 1.0, "text": "x".repeat(5000)});
        let text = record(&[("notes", json!(vec![note; 600])), ("command", json!(["a", "b"]))]);
        let (document, left_out) = RunDocument::read_shortened(&text).unwrap();
        assert_eq!((document.record.notes.len(), document.command.len()), (512, 2));
        assert_eq!(document.record.notes[0].text.chars().count(), 4097);
        let expected = format!("88 of `notes`, {} of `text`.", 512 * (5000 - 4096));
        let sentence = left_out.sentence().unwrap();
        assert!(sentence.ends_with(&expected), "{sentence}");
        let (whole, nothing) = RunDocument::read_shortened(&record(&[])).unwrap();
        assert_eq!(
            (whole, nothing.sentence()),
            (RunDocument::read(&record(&[])).unwrap(), None)
        );
    }

    #[test]
    fn a_time_line_is_thinned_to_the_mean_of_its_points() {
        let mut machine = TopologyBuilder::new("test");
        machine.pu(machine.root(), PuId(0));
        let mut line = Timeline {
            topology: machine.build_all().unwrap(),
            readings: 1,
            at: (1..=2000).map(f64::from).collect(),
            metrics: vec![],
            tasks: vec![],
            tasks_left_out: 0,
            nodes: vec![],
            traffic: vec![],
            configurations: vec![],
        };
        line.metrics.push(super::super::MetricSeries {
            name: "regions".to_owned(),
            unit: "region".to_owned(),
            rates: (1..=2000).map(|rate| Some(f64::from(rate % 2))).collect(),
        });
        let mut left_out = LeftOut::default();
        line.shorten(MOST, &mut left_out);
        assert_eq!((line.at.len(), line.readings), (500, 4));
        let rates = &line.metrics[0].rates;
        assert_eq!(rates.len(), 500);
        assert!(rates[1..].iter().all(|rate| *rate == Some(0.5)), "{:?}", &rates[..5]);
    }
}
