//! A policy's decision, and the part of it that the machine applied, as Python objects.

use pinfold_core::{Finding, NoteCode, PageMapping, Pinning, Prefetchers, PuId, TaskId, Topology};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where threads and pages belong.
#[pyclass(frozen, get_all, from_py_object, module = "pinfold")]
#[derive(Clone)]
pub(crate) struct Configuration {
    pus: Option<Vec<u32>>,
    pages: Option<String>,
    prefetch: Option<String>,
    tasks: BTreeMap<u64, u32>,
    left_alone: Vec<u64>,
}

#[pymethods]
impl Configuration {
    #[new]
    #[pyo3(signature = (pus=None, *, pages=None, prefetch=None, tasks=BTreeMap::new(), left_alone=vec![]))]
    fn new(
        pus: Option<Vec<u32>>,
        pages: Option<String>,
        prefetch: Option<String>,
        tasks: BTreeMap<u64, u32>,
        left_alone: Vec<u64>,
    ) -> PyResult<Self> {
        if pus.as_ref().is_some_and(Vec::is_empty) {
            return Err(PyValueError::new_err(
                "pus has no PU: give the PU of each thread, or None for a program that is not pinned",
            ));
        }
        if let Some(pages) = &pages {
            parsed::<PageMapping>("pages", pages)?;
        }
        if let Some(prefetch) = &prefetch {
            parsed::<Prefetchers>("prefetch", prefetch)?;
        }
        Ok(Self {
            pus,
            pages,
            prefetch,
            tasks,
            left_alone,
        })
    }

    fn __repr__(&self) -> String {
        let pus = self
            .pus
            .as_ref()
            .map_or_else(|| "None".to_owned(), |pus| format!("{pus:?}"));
        let pages = self
            .pages
            .as_ref()
            .map_or_else(|| "None".to_owned(), |pages| format!("'{pages}'"));
        format!("Configuration({pus}, pages={pages})")
    }
}

/// A text of an option, with an error that names the option.
fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(option: &str, text: &str) -> PyResult<T> {
    text.parse()
        .map_err(|error| PyValueError::new_err(format!("{option}='{text}': {error}")))
}

impl Configuration {
    /// The loop's configuration. Errors: a PU, a node or a task that is not there.
    fn resolved(&self, topology: &Topology, tasks: &BTreeMap<u64, TaskId>) -> PyResult<pinfold_core::Configuration> {
        let pu = |number: u32| {
            if topology.allowed_pus().contains(PuId(number)) {
                Ok(PuId(number))
            } else {
                Err(PyValueError::new_err(format!(
                    "the policy wants PU {number}, and {} has {}",
                    topology.name(),
                    topology.allowed_pus()
                )))
            }
        };
        let task = |serial: u64| {
            tasks.get(&serial).copied().ok_or_else(|| {
                PyValueError::new_err(format!(
                    "the policy names task {serial}, which no sample has had: give the `serial` of a task of a sample"
                ))
            })
        };
        let pus: Option<Vec<PuId>> = self
            .pus
            .as_ref()
            .map(|pus| pus.iter().map(|&number| pu(number)).collect())
            .transpose()?;
        let pages: Option<PageMapping> = self.pages.as_deref().map(|pages| parsed("pages", pages)).transpose()?;
        if let Some(pages) = pages
            && let Some(node) = pages
                .named()
                .iter()
                .find(|node| !topology.allowed_nodes().contains(node))
        {
            return Err(PyValueError::new_err(format!(
                "the policy wants pages on node {}, which {} does not have",
                node.0,
                topology.name()
            )));
        }
        Ok(pinfold_core::Configuration {
            pinning: pus.and_then(Pinning::new),
            left_alone: self
                .left_alone
                .iter()
                .map(|&serial| task(serial))
                .collect::<PyResult<_>>()?,
            tasks: self
                .tasks
                .iter()
                .map(|(&serial, &number)| Ok((task(serial)?, pu(number)?)))
                .collect::<PyResult<_>>()?,
            pages,
            prefetchers: self
                .prefetch
                .as_deref()
                .map(|bits| parsed("prefetch", bits))
                .transpose()?,
            ..pinfold_core::Configuration::default()
        })
    }
}

/// The answer to a sample.
#[pyclass(frozen, module = "pinfold")]
pub(crate) struct Decision {
    configuration: Option<Configuration>,
    #[pyo3(get)]
    wait: f64,
    #[pyo3(get)]
    note: Option<String>,
    #[pyo3(get)]
    done: bool,
}

#[pymethods]
impl Decision {
    #[new]
    #[pyo3(signature = (configuration=None, *, wait=1.0, note=None, done=false))]
    fn new(configuration: Option<Configuration>, wait: f64, note: Option<String>, done: bool) -> PyResult<Self> {
        if wait.is_nan() || wait <= 0.0 || Duration::try_from_secs_f64(wait).is_err() {
            return Err(PyValueError::new_err(format!(
                "wait={wait} is no time until the next sample: give seconds, more than 0"
            )));
        }
        Ok(Self {
            configuration,
            wait,
            note,
            done,
        })
    }

    #[getter]
    fn configuration(&self) -> Option<Configuration> {
        self.configuration.clone()
    }

    fn __repr__(&self) -> String {
        let configuration = self
            .configuration
            .as_ref()
            .map_or_else(|| "None".to_owned(), Configuration::__repr__);
        format!("Decision({configuration}, wait={})", self.wait)
    }
}

impl Decision {
    /// The loop's decision, and whether the program may end.
    pub(crate) fn resolved(
        &self,
        topology: &Topology,
        tasks: &BTreeMap<u64, TaskId>,
    ) -> PyResult<(pinfold_core::Decision, bool)> {
        let configuration = self.configuration.as_ref();
        let decision = pinfold_core::Decision {
            configuration: configuration
                .map(|wanted| wanted.resolved(topology, tasks))
                .transpose()?,
            wait: Duration::from_secs_f64(self.wait),
            findings: self.note.iter().map(|text| note(text)).collect(),
            function: None,
        };
        Ok((decision, self.done))
    }
}

/// A note for the record of the run.
pub(crate) fn note(text: &str) -> Finding {
    Finding::Note {
        code: NoteCode::Unknown,
        text: text.to_owned(),
    }
}

/// What the machine did of the last decision.
#[pyclass(frozen, get_all, module = "pinfold")]
pub(crate) struct Applied {
    moved: Vec<u64>,
    refused: Vec<String>,
}

impl From<&pinfold_core::Applied> for Applied {
    fn from(applied: &pinfold_core::Applied) -> Self {
        Self {
            moved: applied.moved.iter().map(|task| task.serial).collect(),
            refused: applied.refused.iter().map(|refusal| refusal.why.clone()).collect(),
        }
    }
}

#[pymethods]
impl Applied {
    fn __repr__(&self) -> String {
        format!("Applied(moved={:?}, refused={:?})", self.moved, self.refused)
    }
}
