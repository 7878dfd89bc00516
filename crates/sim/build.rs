//! Lists the machine models and the event sets.

#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "cargo reads what a build script prints, and a build script reads folders and writes code"
)]

#[path = "../code/build/table.rs"]
mod table;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../code/build/table.rs");
    for (folder, constant) in [("machines", "MODELS"), ("events", "SETS")] {
        table::write_table(folder, constant);
    }
}
