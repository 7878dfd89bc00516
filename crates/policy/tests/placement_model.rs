//! A model that the Python package wrote says here what it says there (`tests/python/test_classify_file.py`).

use pinfold_policy::classify::PlacementModel;
use serde_json::Value;

/// Both programs compute the same sums, perhaps in another order.
const SAME: f64 = 1e-6;

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_f64().unwrap())
        .collect()
}

#[test]
fn a_model_says_what_it_says_in_python() {
    let model: PlacementModel = include_str!("data/placement-model.json").parse().unwrap();
    let cases: Value = serde_json::from_str(include_str!("data/placement-model-cases.json")).unwrap();
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 20);
    for case in cases {
        // The drawn machines need not be within the training data.
        let said = model.predict(|name| case["values"][name].as_f64(), |_| false).unwrap();
        for (ours, theirs) in said.logs.iter().zip(numbers(&case["logs"])) {
            assert!((ours - theirs).abs() < SAME, "{ours} {theirs}");
        }
        for (ours, theirs) in said.widths.iter().zip(numbers(&case["widths"])) {
            assert!((ours.unwrap() - theirs).abs() < SAME, "{ours:?} {theirs}");
        }
        assert!((said.doubt - case["doubt"].as_f64().unwrap()).abs() < SAME);
        assert_eq!(said.is_sure, case["is_sure"].as_bool().unwrap());
        assert_eq!(said.choice() as u64, case["choice"].as_u64().unwrap());
        assert_eq!(said.second as u64, case["second"].as_u64().unwrap());
        assert_eq!(said.is_sensitive, case["is_sensitive"].as_bool().unwrap());
    }
}
