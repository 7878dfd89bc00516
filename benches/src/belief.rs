//! The cost of a decision by a belief: learning from a trial, and choosing the next one. The best of several turns
//! counts, because other programs on the host can only make them slower.

use anyhow::{Result, ensure};
use pinfold_core::{PageMapping, Prefetcher, ThreadMap};
use pinfold_policy::belief::{Account, Belief, Cost, Next, Point, Posterior, Trial, View, next};
use serde_json::json;
use std::hint;
use std::sync::Arc;
use std::time::Instant;

/// The configurations of the decision, those that the belief lists, and its factors.
const CONFIGURATIONS: usize = 1000;
const LISTED: usize = 288;
const FACTORS: usize = 6;

/// The trials before the decision.
const TRIALS: usize = 20;

const TURNS: usize = 20;
const NOISE: f64 = 4e-4;

/// Milliseconds for a decision among 1,000 configurations after 20 trials.
pub(crate) fn of_a_decision() -> Result<f64> {
    let belief = belief(&points().take(LISTED).collect::<Vec<_>>())?;
    let among: Vec<Point> = points().take(CONFIGURATIONS).collect();
    ensure!(
        among.len() == CONFIGURATIONS,
        "there are {} configurations",
        among.len()
    );
    let mut posterior = Posterior::new(Arc::new(belief.over(among, "another machine")));
    for of in 0..TRIALS - 1 {
        posterior.learn(trial(of))?;
    }
    let mut best = f64::INFINITY;
    for _ in 0..TURNS {
        let mut posterior = posterior.clone();
        let began = Instant::now();
        posterior.learn(trial(TRIALS - 1))?;
        let kept = posterior.best().unwrap_or(0);
        let view = View {
            posterior: &posterior,
            share: 1.0,
            best: kept,
            against: Some(kept),
            noise: NOISE,
        };
        let account = Account {
            horizon: 60.0,
            may_lose: 0.6,
        };
        let cost = |_| {
            Some(Cost {
                measuring: 0.3,
                moving: 0.05,
            })
        };
        let chosen = hint::black_box(next(&[view], cost, account));
        best = best.min(began.elapsed().as_secs_f64() * 1e3);
        ensure!(!matches!(chosen, Next::Enough(None)), "there is nothing to try");
    }
    Ok(best)
}

fn trial(of: usize) -> Trial {
    Trial {
        of,
        against: (of > 0).then_some(0),
        log: -0.01 * (of % 7) as f64,
        variance: NOISE,
    }
}

/// Different configurations.
fn points() -> impl Iterator<Item = Point> {
    let shares = (1..=16).map(|sixteenths| f64::from(sixteenths) / 16.0);
    let pages = [
        PageMapping::Locality,
        PageMapping::Balance,
        PageMapping::Interleave,
        PageMapping::FirstTouch,
    ];
    let placed = shares.flat_map(move |share| pages.map(|page_map| (share, page_map)));
    let ordered = placed.flat_map(|placed| ThreadMap::ALL.map(|thread_map| (placed, thread_map)));
    ordered.flat_map(|((share, page_map), thread_map)| {
        (0..16u8).map(move |switched| Point {
            threads: share,
            cores: share,
            nodes: share,
            llcs: None,
            thread_map,
            page_map,
            prefetch: Prefetcher::ALL
                .into_iter()
                .filter(|&prefetcher| switched >> (prefetcher as u8) & 1 == 0)
                .collect(),
        })
    })
}

/// A belief that lists these, with invented numbers.
fn belief(points: &[Point]) -> Result<Belief> {
    let written = |point: &Point| {
        json!({"threads": point.threads, "cores": point.cores, "nodes": point.nodes,
            "thread_map": point.thread_map.name(), "page_map": point.page_map.to_string(),
            "prefetch": point.prefetch.to_string()})
    };
    let wave = |place: usize, speed: usize| ((place * speed) as f64).sin();
    let numbers = || 0..points.len();
    let row = |place| {
        (0..FACTORS)
            .map(|factor| 0.2 * wave(place, factor + 2))
            .collect::<Vec<_>>()
    };
    let file = json!({
        "pinfold": "belief",
        "version": 1,
        "origin": {"simulated": true, "machines": ["invented"], "programs": ["invented"], "rows": 1, "learner": "none"},
        "points": points.iter().map(written).collect::<Vec<_>>(),
        "mean": numbers().map(|place| 0.3 * wave(place, 1)).collect::<Vec<_>>(),
        "factors": numbers().map(row).collect::<Vec<_>>(),
        "residual": numbers().map(|_| 0.01).collect::<Vec<_>>(),
        "kernel": {"weight": 0.3, "variance": 0.2, "lengths": {"threads": 1.0, "cores": 1.0, "nodes": 1.0,
            "thread_map": 1.0, "page_map": 1.0, "prefetch": 1.0}},
        "noise": NOISE,
        "doubt": {"machine": 0.02}
    });
    Ok(file.to_string().parse()?)
}
