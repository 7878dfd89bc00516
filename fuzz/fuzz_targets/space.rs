//! Spaces of a sweep. An accepted space is enumerated on a model.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_sim::model::builtin;
use pinfold_sweep::spaces::{SpaceFile, SpaceMachine};

fuzz_target!(|text: &str| {
    if let Ok(space) = SpaceFile::parse("space.toml", text) {
        let _ = space.points(&SpaceMachine::of_model(&builtin("e5-4650x4").unwrap()), 8);
    }
});
