//! One metric as the kernel counts it, and the permission that it needs.

use crate::pfm::sys;
use pinfold_core::Metric;
use std::ffi::CString;

/// One metric, resolved for the kernel.
pub(super) struct Source {
    /// The requested metric.
    pub(super) name: String,
    pub(super) metric: Metric,
    pub(super) attributes: sys::perf_event_attr,
    /// The attributes for user space only, if the kernel may not be counted. `None` if that would count nothing.
    pub(super) user_only: Option<sys::perf_event_attr>,
    /// The binary of a uprobe. `config1` of the attributes points to it while the counter is opened.
    pub(super) probed_path: Option<CString>,
}

/// The permission that the kernel requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// To count the user's own tasks in user space.
    UserSpace,
    /// To count the user's own tasks in the kernel.
    Kernel,
    /// To observe all tasks on a CPU.
    AllCpus,
    /// `CAP_PERFMON`. Uprobes change a program's code for all users, so `perf_event_paranoid` does not matter.
    Capability,
}

impl Source {
    /// Whether it is a software event, without a hardware counter.
    pub(super) fn is_software(&self) -> bool {
        self.probed_path.is_some()
            || matches!(
                self.attributes.type_,
                sys::PERF_TYPE_SOFTWARE | sys::PERF_TYPE_TRACEPOINT
            )
    }

    pub(super) fn permission(&self) -> Permission {
        if self.probed_path.is_some() {
            Permission::Capability
        } else if self.attributes.exclude_kernel() == 0 {
            Permission::Kernel
        } else {
            Permission::UserSpace
        }
    }
}
