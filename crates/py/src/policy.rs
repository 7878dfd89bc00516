//! A policy of Python as one of the loop.

use crate::decision::{Applied, Decision};
use crate::sample::{Metric, Sample};
use crate::topology::Topology;
use pinfold_core::{Finding, TaskId};
use pinfold_policy::Policy;
use pinfold_policy::external::{AppliedView, MetricView, SampleView, note};
use pinfold_sim::EndSwitch;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// The first exception of a policy. The loop's trait has no place for one: the machine ends the run when there is one.
pub(crate) type Raised = Rc<RefCell<Option<PyErr>>>;

/// A policy that is written in Python.
pub(crate) struct PythonPolicy {
    policy: Py<PyAny>,
    name: &'static str,
    metrics: Vec<pinfold_core::Metric>,
    /// By serial: every task that a sample has had.
    tasks: BTreeMap<u64, TaskId>,
    topology: Option<Py<Topology>>,
    raised: Raised,
    end: EndSwitch,
}

impl PythonPolicy {
    /// The policy, what ends its program, and where its exception will be.
    pub(crate) fn new(policy: Py<PyAny>, name: &str, end: EndSwitch) -> (Self, Raised) {
        let raised = Raised::default();
        let policy = Self {
            policy,
            // The trait wants a name that lives as long as the program. Python has few policies, and each name is
            // short.
            name: Box::leak(name.to_owned().into_boxed_str()),
            metrics: vec![],
            tasks: BTreeMap::new(),
            topology: None,
            raised: Rc::clone(&raised),
            end,
        };
        (policy, raised)
    }

    /// What a call decided. After an exception nothing is changed any more.
    fn decided(
        &mut self,
        topology: &pinfold_core::Topology,
        call: impl FnOnce(&Self, Python<'_>) -> PyResult<Py<PyAny>>,
    ) -> pinfold_core::Decision {
        let decision = Python::attach(|py| {
            let answer = call(self, py)?;
            let answer = answer.bind(py);
            let decision = answer.cast::<Decision>().map_err(|_| {
                let kind = answer.get_type();
                PyTypeError::new_err(format!(
                    "the policy answers with {kind}, and must answer with a pinfold.Decision"
                ))
            })?;
            decision.get().resolved(topology, &self.tasks)
        });
        match decision {
            Ok((decision, done)) => {
                if done {
                    self.end.end();
                }
                decision
            }
            Err(error) => {
                self.raised.borrow_mut().get_or_insert(error);
                pinfold_core::Decision {
                    configuration: None,
                    wait: Duration::from_secs(1),
                    findings: vec![],
                    function: None,
                }
            }
        }
    }

    /// The topology as a Python object, which is made once.
    fn seen(&mut self, topology: &pinfold_core::Topology) -> Option<Py<Topology>> {
        Python::attach(|py| {
            if self.topology.is_none() {
                self.topology = Py::new(py, Topology::new(topology)).ok();
            }
            self.topology.as_ref().map(|seen| seen.clone_ref(py))
        })
    }
}

impl Policy for PythonPolicy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn start(&mut self, topology: &pinfold_core::Topology, metrics: &[pinfold_core::Metric]) -> pinfold_core::Decision {
        self.metrics = metrics.to_vec();
        let seen = self.seen(topology);
        self.decided(topology, |policy, py| {
            let views = policy.metrics.iter().map(MetricView::from);
            let metrics: Vec<Metric> = views.map(Metric::from).collect();
            policy.policy.call_method1(py, "start", (seen, metrics))
        })
    }

    fn decide(
        &mut self,
        topology: &pinfold_core::Topology,
        sample: &pinfold_core::Sample,
        applied: &pinfold_core::Applied,
    ) -> pinfold_core::Decision {
        self.tasks
            .extend(sample.tasks.iter().map(|task| (task.id.serial, task.id)));
        let seen = self.seen(topology);
        self.decided(topology, |policy, py| {
            let sample = Sample::from(SampleView::new(sample, &policy.metrics));
            let applied = Applied::from(AppliedView::from(applied));
            policy.policy.call_method1(py, "decide", (seen, sample, applied))
        })
    }

    fn end(&mut self) -> Vec<Finding> {
        if self.raised.borrow().is_some() {
            return vec![];
        }
        let notes = Python::attach(|py| self.policy.call_method0(py, "end")?.extract::<Vec<String>>(py));
        match notes {
            Ok(notes) => notes.iter().map(|text| note(text)).collect(),
            Err(error) => {
                self.raised.borrow_mut().get_or_insert(error);
                vec![]
            }
        }
    }
}
