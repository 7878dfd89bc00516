//! Lets the unit tests link: QEMU's functions exist only in QEMU, and no unit test calls them.

#![expect(clippy::disallowed_macros, reason = "Cargo reads what a build script prints")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg=-Wl,--unresolved-symbols=ignore-all");
}
