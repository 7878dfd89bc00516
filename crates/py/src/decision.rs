//! A policy's decision, and the part of it that the machine applied, as Python objects.

use pinfold_core::{TaskId, Topology};
use pinfold_policy::external::{Answer, AppliedView, Wanted, WantedConfiguration, WantedError};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::collections::BTreeMap;

fn refused(error: &WantedError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Where threads and pages belong.
#[pyclass(frozen, from_py_object, module = "pinfold")]
#[derive(Clone)]
pub(crate) struct Configuration(WantedConfiguration);

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
        let wanted = WantedConfiguration {
            pus,
            pages,
            prefetch,
            tasks,
            left_alone,
        };
        wanted.check().map_err(|error| refused(&error))?;
        Ok(Self(wanted))
    }

    #[getter]
    fn pus(&self) -> Option<Vec<u32>> {
        self.0.pus.clone()
    }

    #[getter]
    fn pages(&self) -> Option<&str> {
        self.0.pages.as_deref()
    }

    #[getter]
    fn prefetch(&self) -> Option<&str> {
        self.0.prefetch.as_deref()
    }

    #[getter]
    fn tasks(&self) -> BTreeMap<u64, u32> {
        self.0.tasks.clone()
    }

    #[getter]
    fn left_alone(&self) -> Vec<u64> {
        self.0.left_alone.clone()
    }

    fn __repr__(&self) -> String {
        let pus = self
            .0
            .pus
            .as_ref()
            .map_or_else(|| "None".to_owned(), |pus| format!("{pus:?}"));
        let pages = self
            .0
            .pages
            .as_ref()
            .map_or_else(|| "None".to_owned(), |pages| format!("'{pages}'"));
        format!("Configuration({pus}, pages={pages})")
    }
}

/// The answer to a sample.
#[pyclass(frozen, module = "pinfold")]
pub(crate) struct Decision(Wanted);

#[pymethods]
impl Decision {
    #[new]
    #[pyo3(signature = (configuration=None, *, wait=1.0, note=None, done=false))]
    fn new(configuration: Option<Configuration>, wait: f64, note: Option<String>, done: bool) -> PyResult<Self> {
        let wanted = Wanted {
            configuration: configuration.map(|configuration| configuration.0),
            wait,
            note,
            done,
        };
        wanted.check().map_err(|error| refused(&error))?;
        Ok(Self(wanted))
    }

    #[getter]
    fn configuration(&self) -> Option<Configuration> {
        self.0.configuration.clone().map(Configuration)
    }

    #[getter]
    fn wait(&self) -> f64 {
        self.0.wait
    }

    #[getter]
    fn note(&self) -> Option<&str> {
        self.0.note.as_deref()
    }

    #[getter]
    fn done(&self) -> bool {
        self.0.done
    }

    fn __repr__(&self) -> String {
        let configuration = self
            .configuration()
            .map_or_else(|| "None".to_owned(), |configuration| configuration.__repr__());
        format!("Decision({configuration}, wait={})", self.0.wait)
    }
}

impl Decision {
    /// The loop's decision, and whether the program may end.
    pub(crate) fn resolved(
        &self,
        topology: &Topology,
        tasks: &BTreeMap<u64, TaskId>,
    ) -> PyResult<(pinfold_core::Decision, bool)> {
        let decision = self.0.resolved(topology, tasks).map_err(|error| refused(&error))?;
        Ok((decision, self.0.done))
    }
}

/// A decision as the line that answers a pinfold which asks this process.
#[pyfunction]
pub(crate) fn decision_line(decision: &Decision) -> PyResult<String> {
    line(&Answer::Decision(decision.0.clone()))
}

/// Sentences for the record, as the line that answers a pinfold which asks this process.
#[pyfunction]
pub(crate) fn notes_line(notes: Vec<String>) -> PyResult<String> {
    line(&Answer::Notes(notes))
}

/// That the policy has failed, as the line that answers a pinfold which asks this process.
#[pyfunction]
pub(crate) fn failed_line(why: String) -> PyResult<String> {
    line(&Answer::Failed(why))
}

fn line(answer: &Answer) -> PyResult<String> {
    serde_json::to_string(answer).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// What the machine did of the last decision.
#[pyclass(frozen, get_all, module = "pinfold")]
pub(crate) struct Applied {
    moved: Vec<u64>,
    refused: Vec<String>,
}

impl From<AppliedView> for Applied {
    fn from(applied: AppliedView) -> Self {
        let AppliedView { moved, refused } = applied;
        Self { moved, refused }
    }
}

#[pymethods]
impl Applied {
    fn __repr__(&self) -> String {
        format!("Applied(moved={:?}, refused={:?})", self.moved, self.refused)
    }
}
