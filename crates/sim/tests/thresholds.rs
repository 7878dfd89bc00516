//! The microbenchmarks of SAM's thresholds on simulated machines.

use pinfold_sim::model::builtin;
use pinfold_sim::thresholds::{copying, sharing};

#[test]
fn the_gain_of_co_location_grows_with_the_rate_of_coherence_events() {
    let points = sharing(&builtin("e5-2660v2x2").unwrap()).unwrap().unwrap();
    for pair in points.windows(2) {
        assert!(pair[1].events_per_cycle >= pair[0].events_per_cycle, "{pair:?}");
        assert!(pair[1].gain > pair[0].gain - 0.005, "{pair:?}");
    }
    assert!(points[0].gain.abs() < 0.005, "{:?}", points[0]);
}

#[test]
fn a_few_copying_tasks_saturate_the_memory_of_a_package() {
    let points = copying(&builtin("e5-2660v2x2").unwrap()).unwrap();
    let bandwidth: Vec<f64> = points.iter().map(|point| point.high.bytes_per_second).collect();
    assert!(bandwidth[1] > 1.5 * bandwidth[0], "{bandwidth:?}");
    assert!(bandwidth.last() < Some(&(1.05 * bandwidth[5])), "{bandwidth:?}");
    let last = points.last().unwrap();
    assert_eq!(last.tasks, 10);
    assert!(last.low.bytes_per_second < last.high.bytes_per_second, "{last:?}");
}

#[test]
fn a_machine_whose_cores_share_nothing_or_everything_has_no_such_gain() {
    let model = builtin("e5-2660v2x2").unwrap();
    assert!(sharing(&model).unwrap().is_some());
    for name in ["epyc-7763x2", "epyc-9654x2", "opteron-6164x4"] {
        assert!(sharing(&builtin(name).unwrap()).unwrap().is_some(), "{name}");
    }
}
