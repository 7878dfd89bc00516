//! Small beliefs for tests, whose numbers a reader can follow.

use super::kernel::{Kernel, Lengths};
use super::point::Point;
use super::posterior::{Posterior, Trial};
use super::prior::Belief;
use super::worth::{Account, Cost, View};
use crate::rules::Trained;
use pinfold_core::{PageMapping, Prefetchers, ThreadMap};
use serde_json::json;
use std::sync::Arc;

pub(super) const LENGTHS: Lengths = Lengths {
    threads: 1.0,
    cores: 1.0,
    nodes: 1.0,
    llcs: None,
    thread_map: 1.0,
    page_map: 1.0,
    prefetch: 1.0,
};

/// The variance of a trial.
pub(super) const NOISE: f64 = 1e-4;

/// A trial measures for 0.3 s, and its pages move for 0.05 s.
pub(super) const COST: Cost = Cost {
    measuring: 0.3,
    moving: 0.05,
};

/// A thread for each core of this share of the machine, on as few nodes.
pub(super) fn point(share: f64) -> Point {
    Point {
        threads: share,
        cores: share,
        nodes: share,
        llcs: None,
        thread_map: ThreadMap::Compact,
        page_map: PageMapping::Locality,
        prefetch: Prefetchers::ALL,
    }
}

/// All cores, which is the baseline, and half of them, where the training programs took 0.6 of its time.
pub(super) fn belief() -> Belief {
    Belief {
        origin: Trained {
            simulated: Some(true),
            machines: vec!["known".to_owned()],
            programs: vec!["one".to_owned(), "two".to_owned(), "three".to_owned()],
            rows: 6,
            learner: "by hand".to_owned(),
            measured_rows: Some(0),
            simulated_rows: Some(6),
        },
        points: vec![point(1.0), point(0.5)],
        mean: vec![0.0, -0.5],
        factors: vec![vec![0.2], vec![-0.4]],
        residual: vec![0.01, 0.02],
        kernel: Kernel {
            weight: 0.25,
            variance: 0.4,
            lengths: LENGTHS,
        },
        noise: NOISE,
        doubt: 0.05,
    }
}

/// Configurations with this mean and variance each, which have nothing to do with each other.
pub(super) fn of(each: &[(f64, f64)]) -> Belief {
    let places = 0..u8::try_from(each.len()).unwrap();
    Belief {
        points: places.map(|place| point(0.5f64.powi(4 * i32::from(place)))).collect(),
        mean: each.iter().map(|(mean, _)| *mean).collect(),
        factors: vec![vec![]; each.len()],
        residual: each.iter().map(|(_, variance)| *variance).collect(),
        kernel: Kernel {
            weight: 0.0,
            ..belief().kernel
        },
        ..belief()
    }
}

/// The belief about its own configurations. The first one is the baseline.
pub(super) fn first_is_baseline(belief: &Belief) -> Posterior {
    let prior = belief.over(belief.points.clone(), "known");
    let mut posterior = Posterior::new(Arc::new(prior));
    posterior.learn(trial(0, 0.0)).unwrap();
    posterior
}

/// A trial against the baseline of before.
pub(super) fn trial(of: usize, log: f64) -> Trial {
    Trial {
        of,
        against: None,
        log,
        variance: NOISE,
    }
}

/// A whole program, whose first configuration is the best so far.
pub(super) fn view(posterior: &Posterior) -> View<'_> {
    View {
        posterior,
        share: 1.0,
        best: 0,
        against: Some(0),
        noise: NOISE,
    }
}

/// A program that runs on for these seconds, and whose trials may lose a fortieth of them.
pub(super) fn account(seconds: f64) -> Account {
    Account {
        horizon: seconds,
        may_lose: 0.025 * seconds,
    }
}

/// The file of `belief`.
pub(super) fn document() -> serde_json::Value {
    let point = |share: f64| {
        json!({"threads": share, "cores": share, "nodes": share, "thread_map": "compact", "page_map": "locality",
            "prefetch": "0000"})
    };
    json!({
        "pinfold": "belief",
        "version": 1,
        "origin": {"simulated": true, "machines": ["known"], "programs": ["one", "two", "three"], "rows": 6,
            "learner": "by hand", "measured_rows": 0, "simulated_rows": 6},
        "points": [point(1.0), point(0.5)],
        "mean": [0.0, -0.5],
        "factors": [[0.2], [-0.4]],
        "residual": [0.01, 0.02],
        "kernel": {"weight": 0.25, "variance": 0.4, "lengths": {"threads": 1.0, "cores": 1.0, "nodes": 1.0,
            "thread_map": 1.0, "page_map": 1.0, "prefetch": 1.0}},
        "noise": 0.0001,
        "doubt": {"machine": 0.05}
    })
}
