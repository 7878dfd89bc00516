//! `pinfold._native`: simulated machines for Python, and policies that are written in Python.
//!
//! - `topology` and `sample` are a policy's input; `decision` is its answer;
//! - `policy` lets the loop call a policy that is written in Python;
//! - `question` is what another pinfold asks such a policy;
//! - `simulation` runs it;
//! - `learning` has the functions that `pinfold learn` shares with the policies.
//!
//! Signatures and descriptions for users are in `python/pinfold/_native.pyi`.

mod decision;
mod learning;
mod policy;
mod question;
mod sample;
mod simulation;
mod topology;

use pyo3::prelude::*;

/// Simulated machines, and policies that are written in Python.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::decision::{Applied, Configuration, Decision, decision_line, failed_line, notes_line};
    #[pymodule_export]
    use super::learning::{classify_features, map_threads, moved_threads};
    #[pymodule_export]
    use super::question::{Question, question};
    #[pymodule_export]
    use super::sample::{Metric, Sample, Task};
    #[pymodule_export]
    use super::simulation::{machines, simulate};
    #[pymodule_export]
    use super::topology::{Node, Pu, Topology, topology};
}
