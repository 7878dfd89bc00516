//! What the binary carries: the agent, which is built here (`make -C agent`), and the recorder that `PINFOLD_RECORDER`
//! names, as `make build` and `pip install .` do. Without it the recorder that cargo builds beside the binary is used.
//! And the identity of the simulator, for results that are kept.
//!
//! The recorder is in a section of the file that the kernel does not map, because it would take 4 MiB of the address
//! space of each command (`pinfold_linux::embedded`).

#![expect(clippy::disallowed_macros, reason = "cargo reads what a build script prints")]

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let output = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agent");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", agent.display());
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(&agent)
        .arg(format!("build={output}"))
        .arg("LDFLAGS=-s");
    if let Some(compiler) = cross_compiler() {
        make.arg(format!("CC={compiler}"));
    }
    let status = make.status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "the agent cannot be built by make -C {}: {status:?}; a C compiler and make are needed",
        agent.display()
    );
    let recorder = env::var_os("PINFOLD_RECORDER");
    println!("cargo::rerun-if-env-changed=PINFOLD_RECORDER");
    if let Some(recorder) = &recorder {
        println!("cargo::rerun-if-changed={}", Path::new(recorder).display());
        let object = in_section(Path::new(recorder), Path::new(&output));
        println!("cargo::rustc-link-arg-bins={}", object.display());
    }
    println!("cargo::rustc-env=PINFOLD_SIMULATOR={:016x}", simulator());
}

/// An object file that has the recorder in a section of its own, with the flag `R` (linkers keep it) and without `a`
/// (it is in the binary, and not in memory).
fn in_section(recorder: &Path, output: &Path) -> PathBuf {
    let (source, object) = (output.join("recorder.s"), output.join("recorder.o"));
    let lines = [
        ".section .pinfold.recorder, \"R\", %progbits".to_owned(),
        format!(".incbin \"{}\"", recorder.display()),
        ".section .note.GNU-stack, \"\", %progbits\n".to_owned(),
    ];
    fs::write(&source, lines.join("\n")).expect("OUT_DIR can be written");
    let compiler = cross_compiler().unwrap_or_else(|| "cc".to_owned());
    let status = Command::new(&compiler)
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(&object)
        .status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "PINFOLD_RECORDER={} cannot be assembled by {compiler}: {status:?}",
        recorder.display()
    );
    object
}

/// The C compiler where the binary is for another machine than this one: what `CC_TARGET` names, as for the C code in
/// crates, or the compiler with Debian's name, such as aarch64-linux-gnu-gcc.
fn cross_compiler() -> Option<String> {
    let [target, host] = ["TARGET", "HOST"].map(|name| env::var(name).expect("cargo sets TARGET and HOST"));
    if target == host {
        return None;
    }
    let variable = format!("CC_{}", target.replace('-', "_"));
    println!("cargo::rerun-if-env-changed={variable}");
    Some(env::var(variable).unwrap_or_else(|_| format!("{}-gcc", target.replace("-unknown-", "-"))))
}

/// The crates whose sources determine what is simulated.
const SIMULATOR: [&str; 4] = ["code", "core", "sim", "trace"];

/// The hash of these sources.
fn simulator() -> u64 {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut hasher = DefaultHasher::new();
    for name in SIMULATOR {
        let sources = crates.join(name).join("src");
        println!("cargo::rerun-if-changed={}", sources.display());
        let mut files = vec![];
        add_files(&sources, &mut files);
        files.sort();
        for file in files {
            file.strip_prefix(&crates).expect("it is inside").hash(&mut hasher);
            fs::read(&file).expect("a source can be read").hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a source folder can be read") {
        let path = entry.expect("a source folder can be read").path();
        if path.is_dir() {
            add_files(&path, files);
        } else {
            files.push(path);
        }
    }
}
