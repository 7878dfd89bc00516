//! Answers of the process that reads a machine's description. An accepted answer can be queried, and its printed form
//! is read back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_core::Topology;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(topology) = serde_json::from_slice::<Topology>(bytes) {
        let _ = (topology.llc_domains(), pinfold_core::summary(&topology));
        let again = serde_json::to_vec(&topology).unwrap();
        assert_eq!(serde_json::from_slice::<Topology>(&again).unwrap(), topology);
    }
});
