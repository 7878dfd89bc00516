//! The agent, the interposer of MPI and the recorder, which the binary carries (docs/design/embedded-agent.md); `build.rs` says how.

use anyhow::{Context, Result};
use nix::unistd::geteuid;
use pinfold_linux::channel::named_agent;
use pinfold_linux::embedded::{install, section};
use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libpinfold_agent.so"));

/// The interposer for programs with MPI.
const MPI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libpinfold_mpi.so"));

/// The section with the recorder. A binary that was built by `cargo build` alone has none, and neither has the one of
/// `make aarch64`.
const RECORDER: &str = ".pinfold.recorder";

/// The file of the agent: the one that `PINFOLD_AGENT` names, or the binary's own.
pub(crate) fn agent() -> Result<PathBuf> {
    if let Some(named) = env::var_os("PINFOLD_AGENT") {
        return Ok(named_agent(&named)?);
    }
    let installed = install("agent.so", AGENT, &folders());
    installed.context("the agent cannot be given to the program; name a copy of it in PINFOLD_AGENT")
}

/// The file of the interposer for programs with MPI: the one beside the agent that `PINFOLD_AGENT` names, or the
/// binary's own. `None` if there is none beside the named agent.
pub(crate) fn mpi() -> Result<Option<PathBuf>> {
    if let Some(named) = env::var_os("PINFOLD_AGENT") {
        let beside = named_agent(&named)?.with_file_name("libpinfold_mpi.so");
        return Ok(beside.is_file().then_some(beside));
    }
    let installed = install("mpi.so", MPI, &folders());
    installed.map(Some).context(
        "the library that counts MPI calls cannot be given to the program; name a copy of the agent in PINFOLD_AGENT",
    )
}

/// The file of QEMU's recording plugin: the one that `PINFOLD_PLUGIN` names, the one in the binary, or, if the binary
/// has none, the one that cargo built beside it.
pub(crate) fn recorder() -> Result<PathBuf> {
    if let Some(named) = env::var_os("PINFOLD_PLUGIN") {
        return Ok(named.into());
    }
    let Some(recorder) = section(RECORDER).context("the recorder inside of pinfold cannot be read")? else {
        return built_beside().context(NO_RECORDER);
    };
    let installed = install("record.so", &recorder, &folders());
    installed.context("the recorder cannot be given to QEMU; name a copy of it in PINFOLD_PLUGIN")
}

const NO_RECORDER: &str = if cfg!(target_arch = "x86_64") {
    "this pinfold was built without the recorder, and no libpinfold_record.so that only you or root can write to lies \
     beside it; build pinfold with `make build`, or name the file in PINFOLD_PLUGIN"
} else {
    "this pinfold has no recorder, because programs of x86-64 alone can be recorded; record on such a machine, and \
     copy the recording"
};

/// The folders for libraries that other programs load.
fn folders() -> Vec<PathBuf> {
    let user = geteuid();
    // Some systems mount /run so that nothing can be executed there.
    if user.is_root() {
        return vec!["/run/pinfold-agent".into(), "/var/lib/pinfold-agent".into()];
    }
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|runtime| runtime.is_absolute());
    let runtime = runtime.map(|runtime| runtime.join("pinfold-agent"));
    let own = format!("/tmp/pinfold-agent-{user}");
    runtime.into_iter().chain([own.into()]).collect()
}

/// The recorder of the same build, if only root or this user could have written it: QEMU runs it with the rights of
/// this user.
fn built_beside() -> Option<PathBuf> {
    let file = env::current_exe().ok()?.with_file_name("libpinfold_record.so");
    let folder = file.parent()?;
    (file.is_file() && is_trusted(&file) && is_trusted(folder)).then_some(file)
}

fn is_trusted(path: &Path) -> bool {
    let user = geteuid();
    // Write access of the group is a user's own choice, but not root's.
    let others = if user.is_root() { 0o022 } else { 0o002 };
    path.metadata()
        .is_ok_and(|there| [0, user.as_raw()].contains(&there.uid()) && there.mode() & others == 0)
}
