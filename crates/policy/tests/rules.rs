//! Rules mean here what they mean where they were learned.

use pinfold_policy::Rules;
use serde::Deserialize;
use std::collections::HashMap;

#[derive(Deserialize)]
struct Case {
    policy: String,
    samples: Vec<Sample>,
}

#[derive(Deserialize)]
struct Sample {
    values: HashMap<String, f64>,
    class: String,
    rule: Option<usize>,
}

/// The file is written by `tests/python/rule_cases.py`: policies as Python writes them, and samples with thresholds
/// themselves, the numbers beside them, and gaps.
#[test]
fn rust_evaluates_rules_as_python_does() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("data/rule_cases.json")).unwrap();
    assert!(cases.len() > 10);
    let mut fired = [0, 0];
    for case in cases {
        let rules: Rules = case.policy.parse().unwrap();
        for sample in case.samples {
            let values = rules
                .metrics()
                .iter()
                .map(|metric| sample.values.get(&metric.name).copied());
            let values: Vec<_> = values.collect();
            let verdict = rules.evaluate(&values);
            let result = (verdict.fired, &verdict.outcome.class);
            assert_eq!(result, (sample.rule, &sample.class), "{:?}: {verdict}", sample.values);
            fired[usize::from(verdict.fired.is_some())] += 1;
        }
    }
    assert!(fired.iter().all(|&count| count > 50), "{fired:?}");
}
