//! Texts that come from users and from files never make a parser panic.

#[path = "support/hostile.rs"]
mod hostile;

use hostile::{INPUTS, spoiled_text};
use pinfold_core::{PageMapping, Prefetchers, PuSet};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(INPUTS))]

    #[test]
    fn a_list_of_cpus_is_understood_or_refused(list in spoiled_text(&["0-3,8,10-12", "0,1,6-9", "0-1023"])) {
        // The longest lists are as long as machines are large.
        if let Ok(set) = list.parse::<PuSet>() {
            prop_assert_eq!(set.to_string().parse::<PuSet>(), Ok(set));
        }
        let _ = PuSet::parse_ordered(&list);
    }

    #[test]
    fn a_configuration_s_words_are_understood_or_refused(
        word in spoiled_text(&["first_touch", "single:3", "interleave", "0101", "1111", "locality"]),
    ) {
        if let Ok(mapping) = word.parse::<PageMapping>() {
            prop_assert_eq!(mapping.to_string().parse(), Ok(mapping));
        }
        if let Ok(prefetchers) = word.parse::<Prefetchers>() {
            prop_assert_eq!(prefetchers.to_string().parse(), Ok(prefetchers));
        }
    }
}
