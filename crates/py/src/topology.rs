//! Topologies as Python objects.

use crate::simulation::model;
use pinfold_core::{ObjectKind, PuId};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A processing unit.
#[pyclass(frozen, get_all, eq, module = "pinfold")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pu {
    /// The operating system's number.
    number: u32,
    /// The position of its core among all cores, of its last-level cache, and of its package.
    core: usize,
    llc: usize,
    package: usize,
    /// Its NUMA node, if it has one.
    node: Option<u32>,
}

#[pymethods]
impl Pu {
    fn __repr__(&self) -> String {
        let Self {
            number,
            core,
            llc,
            package,
            ..
        } = self;
        let node = self.node.map_or_else(|| "None".to_owned(), |node| node.to_string());
        format!("Pu(number={number}, core={core}, llc={llc}, package={package}, node={node})")
    }
}

/// A NUMA node.
#[pyclass(frozen, get_all, eq, module = "pinfold")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// The operating system's number.
    number: u32,
    /// Its memory in bytes, if known.
    memory: Option<u64>,
    /// The numbers of its PUs.
    pus: Vec<u32>,
}

#[pymethods]
impl Node {
    fn __repr__(&self) -> String {
        format!("Node(number={}, {} PUs)", self.number, self.pus.len())
    }
}

/// A machine's PUs and NUMA nodes.
#[pyclass(frozen, module = "pinfold")]
pub(crate) struct Topology(pinfold_core::Topology);

impl Topology {
    pub(crate) fn new(topology: &pinfold_core::Topology) -> Self {
        Self(topology.clone())
    }
}

#[pymethods]
impl Topology {
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn pus(&self) -> Vec<Pu> {
        let position =
            |kind: ObjectKind, pu: PuId| self.0.objects_of(kind).position(|(_, object)| object.pus.contains(pu));
        let domains = self.0.llc_domains();
        let domain = |pu: PuId| domains.iter().position(|&id| self.0.object(id).pus.contains(pu));
        let node = |pu: PuId| self.0.nodes().iter().find(|node| node.pus.contains(pu));
        self.0
            .allowed_pus()
            .iter()
            .map(|pu| Pu {
                number: pu.0,
                core: position(ObjectKind::Core, pu).unwrap_or(0),
                llc: domain(pu).unwrap_or(0),
                package: position(ObjectKind::Package, pu).unwrap_or(0),
                node: node(pu).map(|node| node.id.0),
            })
            .collect()
    }

    #[getter]
    fn nodes(&self) -> Vec<Node> {
        self.0
            .nodes()
            .iter()
            .map(|node| Node {
                number: node.id.0,
                memory: node.memory,
                pus: node.pus.iter().map(|pu| pu.0).collect(),
            })
            .collect()
    }

    fn hops(&self, one: u32, other: u32) -> PyResult<usize> {
        for pu in [one, other] {
            if !self.0.allowed_pus().contains(PuId(pu)) {
                return Err(PyValueError::new_err(format!(
                    "{} has no PU {pu}: its PUs are {}",
                    self.0.name(),
                    self.0.allowed_pus()
                )));
            }
        }
        Ok(self.0.hops(PuId(one), PuId(other)))
    }

    fn __repr__(&self) -> String {
        format!("<Topology: {}>", pinfold_core::summary(&self.0))
    }
}

/// The topology of a model.
#[pyfunction]
pub(crate) fn topology(machine: &str) -> PyResult<Topology> {
    Ok(Topology(model(machine)?.topology()))
}
