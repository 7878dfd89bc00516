//! Reads a curve of latencies: the caches, the latency of their hits, and their capacities.
//!
//! 1. A load in more memory is not faster, and noise only adds time. So each latency is limited to the latencies of
//!    larger sizes.
//! 2. A plateau is a part of the curve where the latency stays while the memory in use grows: from point to point the
//!    latency rises with at most the power `STEEPEST` of the memory, over at least `LONG` times the memory. Plateaus
//!    with similar latencies are one. The last plateau is memory; the others are caches.
//! 3. The middle point of a plateau gives its latency.
//! 4. Between two plateaus, a share of the loads hits the nearer level and the rest the next one. The two latencies
//!    give the share, and the share gives the bytes that the level holds. The largest such number is its capacity. This
//!    is exact for a cache that keeps reused lines, and a lower bound for one that loses some of them to others.
//!
//! Known limits: a level without a plateau is not found. A last cache that is hardly larger than the nearer one, or one
//! that other programs fill, has none. The curve must not contain the cost of address translation.

use pinfold_core::measurement::CurvePoint;

/// On a plateau the latency rises with at most this power of the memory in use. At the end of a level, it rises by at
/// least half over a third of an octave, which is a power of about two.
const STEEPEST: f64 = 0.45;

/// Plateaus whose latencies differ by less than this factor are one level.
pub(super) const APART: f64 = 1.3;

/// A plateau's memory grows by at least this factor from its first to its last point.
const LONG: f64 = 1.25;

/// One level, memory included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Seconds from load to use.
    pub latency: f64,
    /// The range of the plateau's latencies, as a share of the least one.
    pub spread: f64,
    /// The bytes that it holds together with the levels nearer to the core; `None` for memory.
    pub capacity: Option<u64>,
}

/// The levels of a curve, nearest to the core first, memory last. There are fewer than two if the curve has no step.
pub fn levels(measured: &[CurvePoint]) -> Vec<Level> {
    let curve = &without_peaks(measured);
    let latency = |at: usize| curve[at].latency.value;
    let plateaus = plateaus(curve);
    let middle = |&(first, end): &(usize, usize)| first.midpoint(end);
    let mut levels = vec![];
    for (number, plateau) in plateaus.iter().enumerate() {
        let here = latency(middle(plateau));
        let range = plateau.0..plateau.1;
        let measured = measured[range].iter().map(|point| point.latency.value);
        let least = measured.clone().fold(f64::INFINITY, f64::min);
        let most = measured.fold(0.0, f64::max);
        let capacity = plateaus.get(number + 1).map(|next| {
            let there = latency(middle(next));
            held(&curve[plateau.0..middle(next)], here, there)
        });
        levels.push(Level {
            latency: here,
            spread: most / least - 1.0,
            capacity,
        });
    }
    levels
}

/// The curve, with each latency limited to the latencies of larger sizes.
fn without_peaks(curve: &[CurvePoint]) -> Vec<CurvePoint> {
    let mut curve = curve.to_vec();
    let mut least = f64::INFINITY;
    for point in curve.iter_mut().rev() {
        least = least.min(point.latency.value);
        point.latency.value = least;
    }
    curve
}

/// The plateaus, each from its first point to its end.
fn plateaus(curve: &[CurvePoint]) -> Vec<(usize, usize)> {
    let latency = |at: usize| curve[at].latency.value;
    let mut found: Vec<(usize, usize)> = vec![];
    let mut first = 0;
    for at in 1..=curve.len() {
        let grown = |from: usize, to: usize| curve[to].bytes as f64 / curve[from].bytes as f64;
        if at < curve.len() && latency(at) <= latency(at - 1) * grown(at - 1, at).powf(STEEPEST) {
            continue;
        }
        if grown(first, at - 1) >= LONG {
            let here = latency(first.midpoint(at));
            match found.last_mut() {
                Some(before) if here < APART * latency(before.0.midpoint(before.1)) => before.1 = at,
                _ => found.push((first, at)),
            }
        }
        first = at;
    }
    found
}

/// The highest number of bytes that a level of latency `here` holds, if loads beyond it have latency `there`.
pub fn held(points: &[CurvePoint], here: f64, there: f64) -> u64 {
    let held = |point: &CurvePoint| {
        let hits = ((there - point.latency.value) / (there - here)).clamp(0.0, 1.0);
        hits * point.bytes as f64
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the bytes of a point"
    )]
    let most = points.iter().map(held).fold(0.0, f64::max) as u64;
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::measurement::Measured;
    use proptest::prelude::*;

    /// Six sizes per octave from 4 KiB to at most `largest`.
    fn sizes(largest: u64) -> Vec<u64> {
        let octaves = (0..)
            .map(|octave| 4096u64 << octave)
            .take_while(|&octave| octave <= largest);
        let sizes = octaves.flat_map(|octave| [16, 18, 20, 22, 25, 28].map(|sixteenths| octave / 16 * sixteenths));
        sizes.filter(|&size| size <= largest).collect()
    }

    /// The curve of caches that keep what fits. Beyond their capacity they keep an even share of the memory in use.
    /// Each point is up to `noise` too slow.
    fn curve(caches: &[(u64, f64)], memory: f64, noise: &[f64]) -> Vec<CurvePoint> {
        let largest = caches.last().unwrap().0 * 8;
        sizes(largest)
            .into_iter()
            .enumerate()
            .map(|(number, bytes)| {
                let mut left = 1.0;
                let mut latency = 0.0;
                for &(capacity, hit) in caches {
                    // Cyclic use of more than a cache's capacity leaves little of it in the cache for reuse.
                    let share = (capacity as f64 / bytes as f64).min(1.0).powi(8);
                    let hits: f64 = (share - (1.0 - left)).max(0.0);
                    latency += hits * hit;
                    left -= hits;
                }
                let value = (latency + left * memory) * (1.0 + noise[number % noise.len()]);
                CurvePoint {
                    bytes,
                    latency: Measured {
                        value,
                        spread: 0.0,
                        runs: 1,
                    },
                }
            })
            .collect()
    }

    proptest! {
        #[test]
        fn the_levels_of_a_generated_curve_are_found(
            first in 4u32..7,
            second in 4u32..6,
            third in 3u32..6,
            ratios in (2.5f64..4.0, 2.0f64..5.0, 1.8f64..5.0),
            noise in proptest::collection::vec(0.0f64..0.03, 7),
        ) {
            let sizes = [12 + first, 12 + first + second, 12 + first + second + third].map(|power| 1u64 << power);
            let latencies = [1e-9, 1e-9 * ratios.0, 1e-9 * ratios.0 * ratios.1];
            let memory = latencies[2] * ratios.2;
            let caches: Vec<_> = sizes.into_iter().zip(latencies).collect();
            let found = levels(&curve(&caches, memory, &noise));
            prop_assert_eq!(found.len(), 4, "{:?}", found);
            for (level, (size, latency)) in found.iter().zip(&caches) {
                prop_assert!((level.latency / latency - 1.0).abs() < 0.12, "{:?}", found);
                let capacity = level.capacity.unwrap() as f64;
                prop_assert!((0.7..1.35).contains(&(capacity / *size as f64)), "{:?} {}", found, size);
            }
            prop_assert!((found[3].latency / memory - 1.0).abs() < 0.12);
            prop_assert_eq!(found[3].capacity, None);
        }

        #[test]
        fn any_curve_has_levels_in_ascending_order(
            values in proptest::collection::vec(1e-9f64..1e-6, 0..60),
        ) {
            let points: Vec<CurvePoint> = values
                .iter()
                .zip(1u64..)
                .map(|(&value, number)| CurvePoint {
                    bytes: number << 12,
                    latency: Measured { value, spread: 0.0, runs: 1 },
                })
                .collect();
            let found = levels(&points);
            prop_assert!(found.iter().rev().skip(1).all(|level| level.capacity.is_some()));
            prop_assert!(found.is_sorted_by(|nearer, farther| nearer.latency < farther.latency), "{:?}", found);
        }
    }

    #[test]
    fn a_flat_curve_has_one_level_of_unknown_capacity() {
        let point = |number: u64| CurvePoint {
            bytes: number << 12,
            latency: Measured {
                value: 1e-9,
                spread: 0.0,
                runs: 1,
            },
        };
        let flat: Vec<CurvePoint> = (1..10).map(point).collect();
        let found = levels(&flat);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].capacity, None);
    }
}
