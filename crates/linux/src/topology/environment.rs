//! The environment variables that hwloc reads while it loads a topology.
//!
//! In hwloc 2, `HWLOC_FSROOT` is the only parameter for the root of a file-system copy. One load must not see another
//! load's environment, so each load of any source holds one lock.

use super::Source;
use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

static LOADING: Mutex<()> = Mutex::new(());

/// Variables that would make hwloc load another topology than the requested copy.
const OTHER_SOURCES: [&str; 4] = [
    "HWLOC_XMLFILE",
    "HWLOC_SYNTHETIC",
    "HWLOC_CPUID_PATH",
    "HWLOC_COMPONENTS",
];

/// The folders that hwloc searches for plugins.
const PLUGINS: &str = "HWLOC_PLUGINS_PATH";

/// Calls `load` in the environment that hwloc needs for `source`, and then restores the environment.
pub(super) fn loading<T>(source: &Source, load: impl FnOnce() -> T) -> T {
    // The lock guards the process's environment, which is always restored, even after a panic.
    let _lock = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut changes: Vec<Change> = vec![];
    if let Source::FsRoot(root) = source {
        changes.extend(OTHER_SOURCES.map(|variable| Change::new(variable, None)));
        changes.push(Change::new("HWLOC_FSROOT", Some(root.as_os_str().to_owned())));
        changes.push(Change::new("HWLOC_THISSYSTEM", Some("0".into())));
    }
    // hwloc's plugins are for GPUs and PCI, which are not read, and for the XML parser. Loading them with all their
    // libraries takes longer than the rest.
    if !matches!(source, Source::Xml(_)) && std::env::var_os(PLUGINS).is_none() {
        changes.push(Change::new(PLUGINS, Some("/dev/null".into())));
    }
    load()
}

/// A variable with a temporary value.
struct Change {
    variable: &'static str,
    before: Option<OsString>,
}

impl Change {
    fn new(variable: &'static str, value: Option<OsString>) -> Self {
        let before = std::env::var_os(variable);
        set(variable, value);
        Self { variable, before }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        set(self.variable, self.before.take());
    }
}

fn set(variable: &str, value: Option<OsString>) {
    // SAFETY: Rust's own readers use the standard library's lock, and hwloc runs under `LOADING`. Other C code that
    // reads the environment must not run in another thread meanwhile; `super::read` requires that of its callers.
    unsafe {
        match value {
            Some(value) => std::env::set_var(variable, value),
            None => std::env::remove_var(variable),
        }
    }
}
