//! The paths of control groups, which any user may name, and the files in which runtimes write the names of containers.
//! What is found can be shown in one line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_core::container::{Membership, names_of_docker, names_of_oci, names_of_storage};

fuzz_target!(|text: &str| {
    for one in Membership::of(text.lines()).containers {
        let shown = one.text();
        assert!(!shown.is_empty() && !shown.chars().any(char::is_control));
    }
    let _ = (names_of_docker(text), names_of_oci(text), names_of_storage(text, "id"));
});
