//! Files of beliefs, and what they say of their own configurations.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_policy::belief::Belief;

fuzz_target!(|text: &str| {
    if let Ok(belief) = text.parse::<Belief>() {
        let _ = belief.over(belief.points.clone(), "machine");
    }
});
