//! What a policy in another process wants: numbers and words, before they are checked against the machine.

use pinfold_core::{
    Configuration, Decision, Finding, NoteCode, PageMapping, Pinning, Prefetchers, PuId, TaskId, Topology,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// A policy wants something that cannot be done on any machine, or not on this one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WantedError(String);

/// A decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// What to apply; `None` changes nothing.
    #[serde(default)]
    pub configuration: Option<WantedConfiguration>,
    /// The time until the next sample, in seconds.
    #[serde(default = "second")]
    pub wait: f64,
    /// A sentence for the record of the run.
    #[serde(default)]
    pub note: Option<String>,
    /// Whether the policy has chosen. A simulated program without a number of repetitions ends then.
    #[serde(default)]
    pub done: bool,
}

fn second() -> f64 {
    1.0
}

/// Where threads and pages belong. Everything that is left out is as the operating system has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WantedConfiguration {
    /// The PU of each thread, in the order of their creation; `None` for unpinned threads.
    pub pus: Option<Vec<u32>>,
    /// A page mapping, as `--pages` takes it.
    pub pages: Option<String>,
    /// The prefetchers that are off, as four digits.
    pub prefetch: Option<String>,
    /// By serial of a task, its PU, which replaces that of `pus`.
    pub tasks: BTreeMap<u64, u32>,
    /// The serials of tasks that are not pinned.
    pub left_alone: Vec<u64>,
}

impl Wanted {
    /// Checks what does not depend on the machine.
    ///
    /// # Errors
    ///
    /// The time is no time, or the configuration is wrong on each machine.
    pub fn check(&self) -> Result<(), WantedError> {
        let wait = self.wait;
        if wait.is_nan() || wait <= 0.0 || Duration::try_from_secs_f64(wait).is_err() {
            return Err(WantedError(format!(
                "wait={wait} is no time until the next sample: give seconds, more than 0"
            )));
        }
        self.configuration.as_ref().map_or(Ok(()), WantedConfiguration::check)
    }

    /// The loop's decision. `tasks` has each task that a sample had, by its serial.
    ///
    /// # Errors
    ///
    /// As for `check`; the machine has no such PU or node, or no sample had such a task.
    pub fn resolved(&self, topology: &Topology, tasks: &BTreeMap<u64, TaskId>) -> Result<Decision, WantedError> {
        self.check()?;
        let configuration = self.configuration.as_ref();
        Ok(Decision {
            configuration: configuration
                .map(|wanted| wanted.resolved(topology, tasks))
                .transpose()?,
            wait: Duration::from_secs_f64(self.wait),
            findings: self.note.iter().map(|text| note(text)).collect(),
            function: None,
        })
    }
}

impl WantedConfiguration {
    /// Checks what does not depend on the machine.
    ///
    /// # Errors
    ///
    /// There is no PU at all, or a word is no page mapping or setting of prefetchers.
    pub fn check(&self) -> Result<(), WantedError> {
        if self.pus.as_ref().is_some_and(Vec::is_empty) {
            return Err(WantedError(
                "pus has no PU: give the PU of each thread, or None for a program that is not pinned".to_owned(),
            ));
        }
        self.pages()?;
        self.prefetchers()?;
        Ok(())
    }

    fn pages(&self) -> Result<Option<PageMapping>, WantedError> {
        self.pages.as_deref().map(|pages| parsed("pages", pages)).transpose()
    }

    fn prefetchers(&self) -> Result<Option<Prefetchers>, WantedError> {
        self.prefetch
            .as_deref()
            .map(|bits| parsed("prefetch", bits))
            .transpose()
    }

    fn resolved(&self, topology: &Topology, tasks: &BTreeMap<u64, TaskId>) -> Result<Configuration, WantedError> {
        let pu = |number: u32| {
            if topology.allowed_pus().contains(PuId(number)) {
                Ok(PuId(number))
            } else {
                Err(WantedError(format!(
                    "the policy wants PU {number}, and {} has {}",
                    topology.name(),
                    topology.allowed_pus()
                )))
            }
        };
        let task = |serial: u64| {
            tasks.get(&serial).copied().ok_or_else(|| {
                WantedError(format!(
                    "the policy names task {serial}, which no sample has had: give the `serial` of a task of a sample"
                ))
            })
        };
        let pus: Option<Vec<PuId>> = self
            .pus
            .as_ref()
            .map(|pus| pus.iter().map(|&number| pu(number)).collect())
            .transpose()?;
        let pages = self.pages()?;
        if let Some(pages) = pages
            && let Some(node) = pages
                .named()
                .iter()
                .find(|node| !topology.allowed_nodes().contains(node))
        {
            return Err(WantedError(format!(
                "the policy wants pages on node {}, which {} does not have",
                node.0,
                topology.name()
            )));
        }
        Ok(Configuration {
            pinning: pus.and_then(Pinning::new),
            left_alone: self
                .left_alone
                .iter()
                .map(|&serial| task(serial))
                .collect::<Result<_, _>>()?,
            tasks: self
                .tasks
                .iter()
                .map(|(&serial, &number)| Ok((task(serial)?, pu(number)?)))
                .collect::<Result<_, _>>()?,
            pages,
            prefetchers: self.prefetchers()?,
            ..Configuration::default()
        })
    }
}

/// A text of an option, with an error that names the option.
fn parsed<T: FromStr<Err: Display>>(option: &str, text: &str) -> Result<T, WantedError> {
    text.parse()
        .map_err(|error| WantedError(format!("{option}='{text}': {error}")))
}

/// A sentence for the record of the run.
pub fn note(text: &str) -> Finding {
    Finding::Note {
        code: NoteCode::Unknown,
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::synthetic;

    fn resolved(configuration: &WantedConfiguration) -> Result<Configuration, String> {
        let task = TaskId {
            serial: 3,
            process: 10,
            thread: 11,
        };
        configuration
            .resolved(&synthetic("numa:2 core:2 pu:1"), &BTreeMap::from([(3, task)]))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_configuration_has_all_that_was_wanted() {
        let configuration = resolved(&WantedConfiguration {
            pus: Some(vec![2, 0]),
            pages: Some("interleave".to_owned()),
            prefetch: Some("0011".to_owned()),
            tasks: BTreeMap::from([(3, 1)]),
            left_alone: vec![3],
        })
        .unwrap();
        assert_eq!(configuration.pinning.unwrap().to_string(), "2,0");
        assert_eq!(configuration.pages, Some(PageMapping::Interleave));
        assert_eq!(configuration.prefetchers.unwrap().to_string(), "0011");
        assert_eq!(configuration.tasks.into_values().collect::<Vec<_>>(), [PuId(1)]);
        assert_eq!(configuration.left_alone.len(), 1);
    }

    #[test]
    fn what_the_machine_does_not_have_is_named() {
        let refused = |wanted: WantedConfiguration| resolved(&wanted).unwrap_err();
        let pus = |pus: &[u32]| WantedConfiguration {
            pus: Some(pus.to_vec()),
            ..WantedConfiguration::default()
        };
        assert!(refused(pus(&[0, 9])).contains("wants PU 9"));
        let pages = |text: &str| WantedConfiguration {
            pages: Some(text.to_owned()),
            ..WantedConfiguration::default()
        };
        assert!(refused(pages("bind:7")).contains("node 7"));
        assert!(refused(pages("elsewhere")).contains("pages='elsewhere'"));
        let tasks = WantedConfiguration {
            tasks: BTreeMap::from([(4, 0)]),
            ..WantedConfiguration::default()
        };
        assert!(refused(tasks).contains("task 4"));
    }

    #[test]
    fn a_decision_without_pus_or_time_is_wrong_on_each_machine() {
        let wanted = |text: &str| serde_json::from_str::<Wanted>(text).unwrap().check().is_err();
        assert!(!wanted("{}"));
        assert!(wanted(r#"{"wait": 0}"#));
        assert!(wanted(r#"{"wait": -1}"#));
        assert!(wanted(r#"{"configuration": {"pus": []}}"#));
        assert!(!wanted(r#"{"configuration": {}, "wait": 0.5}"#));
    }
}
