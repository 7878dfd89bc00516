//! Lists the microarchitectures. To add one, add its file to the folder.

#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "cargo reads what a build script prints, and a build script reads folders and writes code"
)]

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../microarchitectures");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a folder can be read to its end").path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    let rows: Vec<String> = files
        .iter()
        .map(|file| {
            let name = file.file_stem().expect("it has an extension").display().to_string();
            format!("    ({name:?}, include_str!({:?})),", file.display().to_string())
        })
        .collect();
    let text = format!(
        "const FILES: [(&str, &str); {}] = [\n{}\n];\n",
        files.len(),
        rows.join("\n")
    );
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("microarchitectures.rs");
    fs::write(&output, text).unwrap_or_else(|error| panic!("{}: {error}", output.display()));
}
