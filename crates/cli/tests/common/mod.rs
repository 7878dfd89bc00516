//! What the tests of the command line share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Runs `pinfold ARGUMENTS` as a user who has never run it: with an empty behaviour database, and without the variables
/// that choose threads or placements.
pub(crate) fn pinfold(arguments: &[&str]) -> Output {
    let state = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
    for variable in ["SCHEDULE", "OMP_NUM_THREADS"] {
        command.env_remove(variable);
    }
    if let Some(plugin) = plugin() {
        command.env("PINFOLD_PLUGIN", plugin);
    }
    command.env("PINFOLD_DB", state.path().join("behaviour.db"));
    command.args(arguments).output().unwrap()
}

/// pinfold's lines as they were before they were made to fit a terminal.
pub(crate) fn unwrapped(text: &str) -> String {
    let mut parts = text.split("\npinfold:     ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + " " + part.trim_start())
}

/// The plugin; `None`, with the reason printed, where programs cannot be recorded.
pub(crate) fn plugin() -> Option<&'static Path> {
    static PLUGIN: OnceLock<Option<PathBuf>> = OnceLock::new();
    let plugin = PLUGIN.get_or_init(|| {
        Command::new("qemu-x86_64").arg("--version").output().ok()?;
        // Cargo does not build another package's library for a test.
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "pinfold-plugin"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success());
        let binary = Path::new(env!("CARGO_BIN_EXE_pinfold"));
        Some(binary.with_file_name("libpinfold_record.so"))
    });
    if plugin.is_none() {
        pinfold_testing::skip("qemu-x86_64 is not installed (apt install qemu-user)");
    }
    plugin.as_deref()
}
