//! Compiles the scheduler with clang. A build without it works; `PINFOLD_SCHEDULER_MISSING` says what it lacks.

#![expect(clippy::disallowed_macros, reason = "cargo reads what a build script prints")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: [&str; 5] = ["pinfold.bpf.c", "kernel.h", "queues.h", "shared.h", "some.h"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_scheduler)");
    println!("cargo::rerun-if-env-changed=CLANG");
    for source in SOURCES {
        println!("cargo::rerun-if-changed=bpf/{source}");
    }
    match compile() {
        Ok(()) => println!("cargo::rustc-cfg=has_scheduler"),
        Err(missing) => println!("cargo::rustc-env=PINFOLD_SCHEDULER_MISSING={missing}"),
    }
}

/// Compiles the scheduler to `OUT_DIR`.
///
/// # Errors
/// What is missing.
fn compile() -> Result<(), String> {
    let Some(headers) = env::var_os("DEP_BPF_INCLUDE") else {
        return Err("libbpf: build it with the feature `scheduler`".to_owned());
    };
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let object = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR")?).join("pinfold.bpf.o");
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-g", "-O2", "-nostdinc"])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .arg("-I")
        .arg(&headers)
        .arg("-c")
        .arg(Path::new("bpf").join(SOURCES[0]))
        .arg("-o")
        .arg(&object)
        .output()
        .map_err(|error| format!("clang: {} cannot be run: {error}", clang.display()))?;
    if output.status.success() {
        return Ok(());
    }
    // A clang that cannot compile it is an error of ours, or too old a clang: a person has to see it.
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    println!("cargo::warning=clang cannot compile the scheduler of pinfold-scx");
    Err("a clang that compiles for BPF (14 or later)".to_owned())
}
