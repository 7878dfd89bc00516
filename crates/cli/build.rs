//! Builds the agent, which the binary carries: `make -C agent`.

#![expect(clippy::disallowed_macros, reason = "cargo reads what a build script prints")]

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    let output = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agent");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", agent.display());
    let status = Command::new("make")
        .arg("-C")
        .arg(&agent)
        .arg(format!("build={output}"))
        .arg("LDFLAGS=-s")
        .status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "the agent cannot be built by make -C {}: {status:?}; a C compiler and make are needed",
        agent.display()
    );
}
