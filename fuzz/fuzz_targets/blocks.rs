//! Blocks of a recording with valid checksums: the first eight bytes are the frame's data, the rest is the block.

#![no_main]

#[path = "../../crates/trace/tests/support/forged.rs"]
mod forged;

use forged::Block;
use libfuzzer_sys::fuzz_target;
use pinfold_trace::{Mappings, Metrics, Recording, Summary};

fuzz_target!(|bytes: &[u8]| {
    let Some((&[a, b, c, d, e, f, g, h], raw)) = bytes.split_first_chunk() else {
        return;
    };
    let block = Block {
        raw: raw.to_vec(),
        accesses: u32::from_le_bytes([a, b, c, d]).into(),
        events: u16::from_le_bytes([e, f]).into(),
        first_instruction: 0,
        instructions: u16::from_le_bytes([g, h]).into(),
    };
    let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    std::fs::write(file.path(), forged::recording(&[block])).unwrap();
    if let Ok(recording) = Recording::open(file.path()) {
        let _ = (
            Summary::of(&recording),
            Metrics::of(&recording),
            Mappings::of(&recording),
        );
    }
});
