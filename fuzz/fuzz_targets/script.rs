//! Scripts of scripted machines.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_sim::Script;

fuzz_target!(|text: &str| {
    let _ = text.parse::<Script>();
});
