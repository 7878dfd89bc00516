//! What the binary carries: the agent, which is built here (`make -C agent`), and the recorder that `PINFOLD_RECORDER` names, as
//! `make build` and `pip install .` do. Without it the file is empty, and the recorder that cargo builds beside the binary is used.

#![expect(clippy::disallowed_macros, reason = "cargo reads what a build script prints")]

use std::env;
use std::fs;
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
    let recorder = env::var_os("PINFOLD_RECORDER");
    println!("cargo::rerun-if-env-changed=PINFOLD_RECORDER");
    if let Some(recorder) = &recorder {
        println!("cargo::rerun-if-changed={}", Path::new(recorder).display());
    }
    let content = recorder.map(|file| {
        fs::read(&file).unwrap_or_else(|error| panic!("PINFOLD_RECORDER={}: {error}", Path::new(&file).display()))
    });
    let carried = Path::new(&output).join("libpinfold_record.so");
    fs::write(carried, content.unwrap_or_default()).expect("OUT_DIR can be written");
}
