//! The time line of readings that the tests make.

use super::*;
use pinfold_core::{Count, ObjectKind, Scope, TopologyBuilder, sources};

/// A builder on a machine of four PUs with one metric.
fn builder() -> TimelineBuilder {
    let mut machine = TopologyBuilder::new("test");
    let package = machine.object(machine.root(), ObjectKind::Package, Some(0));
    for pu in 0..4 {
        machine.pu(package, PuId(pu));
    }
    let metric = Metric {
        name: "regions".to_owned(),
        unit: "region".to_owned(),
        source: &sources::EVENT,
        scope: Scope::Program,
    };
    TimelineBuilder::new(&machine.build_all().unwrap(), &[metric])
}

/// A reading of `tasks` tasks, the first one on this PU.
fn sample(second: u64, count: Option<u64>, pu: u32, tasks: u64) -> Sample {
    let task = |serial| TaskSample {
        id: TaskId {
            serial,
            process: 1,
            thread: 1,
        },
        name: "app".to_owned(),
        alive: true,
        cpu_time: None,
        run_delay: None,
        last_pu: Some(PuId(if serial == 0 { pu } else { 3 })),
        counts: vec![None],
    };
    Sample {
        at: Duration::from_secs(second),
        tasks: (0..tasks).map(task).collect(),
        program: vec![count.map(Count::exact)],
        ..Sample::default()
    }
}

#[test]
fn a_long_run_has_few_points_and_its_rates_and_places_stay_right() {
    let mut builder = builder();
    let seconds = 10 * POINTS as u64;
    for second in 0..=seconds {
        // The rate doubles, and the task moves, in the middle.
        let half = seconds / 2;
        let count = 100 * second + 100 * second.saturating_sub(half);
        builder.sample(&sample(second, Some(count), u32::from(second >= half), 1));
    }
    let line = builder.finish();
    assert!(
        line.at.len() <= POINTS + 1 && line.at.len() > POINTS / 2,
        "{}",
        line.at.len()
    );
    assert_eq!(line.readings, 16);
    assert_eq!(line.at.last(), Some(&(seconds as f64)));
    let rates = &line.metrics[0].rates;
    assert_eq!(
        (rates[0], rates[1], rates.last()),
        (None, Some(100.0), Some(&Some(200.0)))
    );
    let task = &line.tasks[0];
    assert_eq!(task.places.len(), 2);
    for (point, &at) in line.at.iter().enumerate() {
        assert_eq!(
            task.at(point),
            Some(PuId(u32::from(at >= seconds as f64 / 2.0))),
            "{at}"
        );
    }
}

#[test]
fn a_short_part_at_the_end_has_no_rate_of_its_own() {
    let mut builder = builder();
    for (milliseconds, count) in [(0, 0), (1000, 100), (2000, 200), (2001, 203)] {
        let at = Duration::from_millis(milliseconds);
        builder.sample(&Sample {
            at,
            ..sample(0, Some(count), 0, 1)
        });
    }
    let rates = &builder.finish().metrics[0].rates;
    assert_eq!(rates[1], Some(100.0));
    assert_eq!((rates[2], rates[3]), (Some(102.897), Some(102.897)));
}

#[test]
fn a_count_that_is_missing_in_a_part_leaves_no_rate() {
    assert_eq!(
        merged(&[0.0, 1.0, 2.0], &[None, Some(1.0), Some(3.0)]),
        [None, Some(2.0)]
    );
    assert_eq!(merged(&[0.0, 1.0, 2.0], &[None, None, Some(3.0)]), [None, None]);
}

#[test]
fn a_node_without_pages_has_zero_and_a_reading_without_memory_has_none() {
    let mut builder = builder();
    builder.sample(&sample(0, None, 0, 1));
    builder.memory(&BTreeMap::from([(NodeId(1), 4096)]));
    builder.sample(&sample(1, None, 0, 1));
    builder.sample(&sample(2, None, 0, 1));
    builder.memory(&BTreeMap::from([(NodeId(0), 8192)]));
    let line = builder.finish();
    assert_eq!(line.nodes[0].bytes, [None, None, Some(8192)]);
    assert_eq!(line.nodes[1].bytes, [Some(4096), None, Some(0)]);
}

#[test]
fn the_first_of_many_tasks_are_kept_and_the_others_counted() {
    let mut builder = builder();
    builder.sample(&sample(0, None, 0, TASKS as u64 + 5));
    let line = builder.finish();
    assert_eq!((line.tasks.len(), line.tasks_left_out), (TASKS, 5));
}

#[test]
fn a_configuration_that_is_applied_again_is_one() {
    let mut builder = builder();
    let pinned = Configuration {
        pinning: Pinning::new(vec![PuId(1)]),
        ..Configuration::default()
    };
    for (second, configuration) in [(1, &pinned), (2, &pinned), (3, &Configuration::default())] {
        builder.applied(Duration::from_secs(second), Some((0, 1)), configuration);
    }
    let at: Vec<f64> = builder.finish().configurations.iter().map(|one| one.at).collect();
    assert_eq!(at, [1.0, 3.0]);
}

#[test]
fn the_traffic_of_a_node_is_a_rate_since_the_point_before() {
    let mut builder = builder();
    for (second, bytes) in [(1, 100.0), (2, 300.0), (4, 900.0)] {
        assert!(builder.sample(&sample(second, Some(second), 0, 1)));
        builder.traffic(&BTreeMap::from([(NodeId(0), bytes)]));
    }
    let line = builder.finish();
    assert_eq!(line.traffic.len(), 1);
    assert_eq!(line.traffic[0].rates, [Some(100.0), Some(200.0), Some(300.0)]);
}
