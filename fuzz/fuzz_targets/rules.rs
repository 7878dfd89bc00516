//! Files of learned rules.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_policy::Rules;

fuzz_target!(|text: &str| {
    let _ = text.parse::<Rules>();
});
