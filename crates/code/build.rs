//! Lists the microarchitectures.

#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "cargo reads what a build script prints, and a build script reads folders and writes code"
)]

#[path = "build/table.rs"]
mod table;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/table.rs");
    table::write_table("microarchitectures", "FILES");
}
