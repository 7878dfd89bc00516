//! Writes the list of a folder's TOML files, for the build scripts of `code` and `sim`. To add a model, an event set or
//! a microarchitecture, add its file to the folder.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Writes `FOLDER.rs` for the crate that is built: a constant with the files of a folder of the project's root.
pub(crate) fn write_table(folder: &str, constant: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    println!("cargo::rerun-if-changed={}", path.display());
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let file = output.join(folder).with_extension("rs");
    fs::write(&file, table(&path, constant)).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

/// A constant with the name and the text of each TOML file of `folder`, sorted by name.
fn table(folder: &Path, constant: &str) -> String {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
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
    format!(
        "const {constant}: [(&str, &str); {}] = [\n{}\n];\n",
        files.len(),
        rows.join("\n")
    )
}
