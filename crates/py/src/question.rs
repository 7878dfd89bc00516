//! The questions of a pinfold that asks this process what its policy decides.

use crate::decision::Applied;
use crate::sample::{Metric, Sample};
use crate::topology::Topology;
use pinfold_policy::external;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A question: the name of the policy's method, and its arguments.
#[pyclass(frozen, get_all, module = "pinfold")]
pub(crate) struct Question {
    method: &'static str,
    topology: Option<Py<Topology>>,
    metrics: Option<Vec<Metric>>,
    sample: Option<Py<Sample>>,
    applied: Option<Py<Applied>>,
}

/// The question in a line.
#[pyfunction]
pub(crate) fn question(py: Python<'_>, line: &str) -> PyResult<Question> {
    let asked = serde_json::from_str(line)
        .map_err(|error| PyValueError::new_err(format!("this is no question of pinfold: {error}")))?;
    let nothing = Question {
        method: "end",
        topology: None,
        metrics: None,
        sample: None,
        applied: None,
    };
    Ok(match asked {
        external::Question::Start { topology, metrics } => Question {
            method: "start",
            topology: Some(Py::new(py, Topology::new(&topology))?),
            metrics: Some(metrics.into_iter().map(Metric::from).collect()),
            ..nothing
        },
        external::Question::Decide { sample, applied } => Question {
            method: "decide",
            sample: Some(Py::new(py, Sample::from(sample))?),
            applied: Some(Py::new(py, Applied::from(applied))?),
            ..nothing
        },
        external::Question::End => nothing,
    })
}
