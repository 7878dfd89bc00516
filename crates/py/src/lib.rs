//! `pinfold._native`: simulated machines for Python, and policies that are written in Python.
//!
//! - `topology` and `sample` are a policy's input; `decision` is its answer;
//! - `policy` lets the loop call a policy that is written in Python;
//! - `simulation` runs it.
//!
//! Signatures and descriptions for users are in `python/pinfold/_native.pyi`.

mod decision;
mod policy;
mod sample;
mod simulation;
mod topology;

use pyo3::prelude::*;

/// Simulated machines, and policies that are written in Python.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::decision::{Applied, Configuration, Decision};
    #[pymodule_export]
    use super::sample::{Metric, Sample, Task};
    #[pymodule_export]
    use super::simulation::{machines, simulate};
    #[pymodule_export]
    use super::topology::{Node, Pu, Topology, topology};
}
