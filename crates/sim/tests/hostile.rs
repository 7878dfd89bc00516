//! No text that a user writes for simulated machines makes a parser panic.

#[path = "../../core/tests/support/hostile.rs"]
mod hostile;

use hostile::{INPUTS, spoiled_text};
use pinfold_sim::Script;
use pinfold_sim::model::Model;
use proptest::prelude::*;

/// Two models without optional keys and one with all of them.
const MODELS: [&str; 3] = [
    include_str!("../../../machines/clovertown.toml"),
    include_str!("../../../machines/opteron-6164x4.toml"),
    include_str!("../../../machines/xeon-8480x2.toml"),
];

const SCRIPT: &str = r#"
topology = "synthetic:package:2 pu:2"
threads = 4
duration = 100.0
noise = 0.03

[[phase]]
start = 0.0
rate = 100.0
"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(INPUTS))]

    #[test]
    fn a_machine_model_is_accepted_or_refused(text in spoiled_text(&MODELS)) {
        match Model::parse("model.toml", &text) {
            Ok(model) => {
                // An accepted model can be used.
                let _ = model.routes();
                prop_assert!(model.pus() >= model.cores() && model.core_of_pu(u32::MAX).is_none());
            }
            Err(error) => prop_assert!(error.to_string().starts_with("model.toml")),
        }
    }

    #[test]
    fn a_script_is_accepted_or_refused(text in spoiled_text(&[SCRIPT])) {
        let _ = text.parse::<Script>();
    }
}
