//! No space that a user writes makes the parser panic.

#[path = "../../core/tests/support/hostile.rs"]
mod hostile;

use hostile::{INPUTS, spoiled_text};
use pinfold_sim::model::builtin;
use pinfold_sweep::spaces::{SpaceFile, SpaceMachine};
use proptest::prelude::*;
use std::sync::LazyLock;

static MACHINE: LazyLock<SpaceMachine> = LazyLock::new(|| SpaceMachine::of_model(&builtin("opteron-6164x4").unwrap()));

const SPACE: &str = r#"
[[configurations]]
pinnings = ["0-7", "0,6,12,18,24,30,36,42"]
page_map = ["first_touch", "interleave"]

[[configurations]]
nodes = [1, 2, 4]
thread_map = ["compact", "scatter"]
prefetch = ["0000", "1111"]
"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(INPUTS))]

    #[test]
    fn a_space_is_accepted_or_refused(text in spoiled_text(&[SPACE])) {
        match SpaceFile::parse("space.toml", &text) {
            Ok(space) => {
                let _ = space.points(&MACHINE, 8);
            }
            Err(error) => prop_assert!(error.line >= 1),
        }
    }
}
