//! Whole files that may be recordings.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_trace::{Recording, Summary};

fuzz_target!(|bytes: &[u8]| {
    let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    if let Ok((recording, _)) = Recording::salvage(file.path()) {
        let _ = Summary::of(&recording);
    }
});
