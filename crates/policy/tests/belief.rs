//! A belief says here what it says in Python (`tests/python/test_belief_file.py`), before and after trials.

use pinfold_core::{NodeId, PageMapping, ThreadMap};
use pinfold_policy::belief::{Belief, Point, Posterior, Trial};
use serde_json::Value;
use std::sync::Arc;

/// Both programs compute the same sums, perhaps in another order.
const SAME: f64 = 1e-9;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn point(value: &Value) -> Point {
    let text = |key: &str| value[key].as_str().unwrap();
    Point {
        threads: number(&value["threads"]),
        cores: number(&value["cores"]),
        nodes: number(&value["nodes"]),
        llcs: value["llcs"].as_f64(),
        thread_map: match text("thread_map") {
            "compact" => ThreadMap::Compact,
            _ => ThreadMap::Scatter,
        },
        // Beliefs have the kind of a page mapping, without its nodes.
        page_map: match text("page_map") {
            "single" => PageMapping::Single(NodeId(0)),
            kind => kind.parse().unwrap(),
        },
        prefetch: text("prefetch").parse().unwrap(),
    }
}

#[track_caller]
fn assert_same(what: &str, ours: f64, theirs: &Value) {
    let theirs = number(theirs);
    assert!((ours - theirs).abs() < SAME, "{what}: {ours} {theirs}");
}

#[test]
fn a_belief_says_what_it_says_in_python() {
    let belief: Belief = include_str!("data/belief.json").parse().unwrap();
    let cases: Value = serde_json::from_str(include_str!("data/belief-cases.json")).unwrap();
    assert_eq!(list(&cases).len(), 4);
    for case in list(&cases) {
        let points: Vec<Point> = list(&case["points"]).iter().map(point).collect();
        let number_of_points = points.len();
        let prior = belief.over(points, case["machine"].as_str().unwrap());
        for one in 0..number_of_points {
            assert_same("mean", prior.mean()[one], &case["mean"][one]);
            for other in 0..number_of_points {
                let theirs = &case["covariance"][one][other];
                assert_same("covariance", prior.covariance(one, other), theirs);
            }
        }
        let mut posterior = Posterior::new(Arc::new(prior));
        let trials = list(&case["trials"]);
        assert_eq!(trials.len(), 3);
        for (trial, after) in trials.iter().zip(list(&case["after"])) {
            let of = usize::try_from(trial["of"].as_u64().unwrap()).unwrap();
            posterior
                .learn(Trial {
                    of,
                    against: None,
                    log: number(&trial["log"]),
                    variance: number(&trial["variance"]),
                })
                .unwrap();
            for one in 0..number_of_points {
                let believed = posterior.believed(one);
                assert_same("mean after trials", believed.mean, &after["mean"][one]);
                assert_same("variance after trials", believed.variance, &after["variance"][one]);
            }
            assert_same("spread", posterior.spread(), &after["spread"]);
        }
    }
}
