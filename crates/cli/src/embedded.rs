//! The agent, which the binary carries (docs/design/embedded-agent.md); `build.rs` makes it.

use anyhow::{Context, Result};
use nix::unistd::geteuid;
use pinfold_linux::channel::named_agent;
use pinfold_linux::embedded::install;
use std::env;
use std::path::PathBuf;

const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libpinfold_agent.so"));

/// The file of the agent: the one that `PINFOLD_AGENT` names, or the binary's own.
pub(crate) fn agent() -> Result<PathBuf> {
    if let Some(named) = env::var_os("PINFOLD_AGENT") {
        return Ok(named_agent(&named)?);
    }
    let user = geteuid();
    // Some systems mount /run so that nothing can be executed there.
    let folders = if user.is_root() {
        vec!["/run/pinfold-agent".into(), "/var/lib/pinfold-agent".into()]
    } else {
        let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let runtime = runtime.filter(|runtime| runtime.is_absolute());
        let runtime = runtime.map(|runtime| runtime.join("pinfold-agent"));
        runtime
            .into_iter()
            .chain([format!("/tmp/pinfold-agent-{user}").into()])
            .collect()
    };
    let installed = install("agent.so", AGENT, &folders);
    installed.context("the agent cannot be given to the program; name a copy of it in PINFOLD_AGENT")
}
