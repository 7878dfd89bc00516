//! The latency of a load depending on the memory in use. The loads are dependent: each takes its address from the
//! previous one. They visit all lines in random order, so that neither prefetchers nor the core can run ahead.

use super::memory::{Chain, LINE, Memory, PAGE, lines, one_line_a_page};
use super::runs::{Effort, seconds};
use pinfold_core::measurement::{CurvePoint, Measured, TranslationPoint};

/// Loads of a run: some ten microseconds in a cache, some hundred microseconds in memory.
const LOADS: usize = 4096;

/// The most loads of a warm-up. A small chain is warmed up by two rounds.
const WARM_UP: usize = 6 << 20;

/// Above this size, sizes are further apart: few caches are so large, and measuring them takes long.
const LARGE: usize = 64 << 20;

/// The sizes from `first` to `last` in whole pages: six per octave, and two per octave above `LARGE`.
pub(super) fn sizes(first: usize, last: usize) -> Vec<usize> {
    let mut sizes = vec![];
    let mut octave = first;
    while octave <= last {
        let steps: &[usize] = if octave < LARGE {
            &[16, 18, 20, 22, 25, 28]
        } else {
            &[16, 22]
        };
        sizes.extend(steps.iter().map(|sixteenths| octave / 16 * sixteenths / PAGE * PAGE));
        octave *= 2;
    }
    sizes.retain(|&size| size <= last);
    sizes.dedup();
    sizes
}

/// The latencies for these sizes. Other programs that share a cache disturb it for a while. So there are several rounds
/// through the sizes that are not large, and a point is the minimum of its rounds.
pub(super) fn curve(memory: &Memory, sizes: &[usize], rounds: usize, effort: Effort) -> Vec<CurvePoint> {
    let mut points: Vec<CurvePoint> = sizes.iter().map(|&bytes| at_size(memory, bytes, effort)).collect();
    for _ in 1..rounds {
        for (point, &bytes) in points.iter_mut().zip(sizes).filter(|(_, bytes)| **bytes < LARGE) {
            let again = at_size(memory, bytes, effort);
            if again.latency.value < point.latency.value {
                *point = again;
            }
        }
    }
    points
}

/// The latency of a load with `bytes` in use, in huge pages.
pub(super) fn at_size(memory: &Memory, bytes: usize, effort: Effort) -> CurvePoint {
    CurvePoint {
        bytes: bytes as u64,
        latency: of_chain(memory.chain(&lines(bytes)), bytes / LINE, effort),
    }
}

fn of_chain(mut chain: Chain<'_>, length: usize, effort: Effort) -> Measured {
    chain.follow((2 * length).clamp(LOADS, WARM_UP));
    effort
        .least(|| seconds(|| chain.follow(LOADS)))
        .scaled(1.0 / LOADS as f64)
}

/// The number of independent loads that a core has in flight at once: the latency of one load divided by the time per
/// load of many. All loads go to lines of `bytes`, which must be larger than the caches.
pub(super) fn parallelism(memory: &Memory, bytes: usize, effort: Effort) -> Measured {
    fn together<const N: usize>(memory: &Memory, places: &[usize], effort: Effort) -> Measured {
        let length = places.len() / N;
        let mut chains: [Chain<'_>; N] =
            std::array::from_fn(|chain| memory.chain(&places[chain * length..(chain + 1) * length]));
        let loads = LOADS / N;
        effort
            .least(|| seconds(|| Chain::follow_together(&mut chains, loads)))
            .scaled(1.0 / (loads * N) as f64)
    }
    let places = lines(bytes);
    let one = together::<1>(memory, &places, effort);
    let many = [
        together::<8>(memory, &places, effort),
        together::<12>(memory, &places, effort),
        together::<16>(memory, &places, effort),
        together::<24>(memory, &places, effort),
        together::<32>(memory, &places, effort),
        together::<48>(memory, &places, effort),
    ];
    let quickest = many
        .into_iter()
        .min_by(|a, b| a.value.total_cmp(&b.value))
        .expect("there are six");
    quickest.rate(one.value)
}

/// The additional time of a load with a TLB miss: one line of each of this many pages, in small pages and in huge
/// pages.
pub(super) fn translation(small: &Memory, huge: &Memory, pages: usize, effort: Effort) -> TranslationPoint {
    let places = one_line_a_page(pages);
    TranslationPoint {
        pages: pages as u64,
        small: of_chain(small.chain(&places), pages, effort),
        huge: of_chain(huge.chain(&places), pages, effort),
    }
}

/// Seconds per load of a walk through lines in ascending order, which prefetchers predict.
pub(super) fn foreseen(memory: &Memory, bytes: usize, effort: Effort) -> Measured {
    let places: Vec<usize> = (0..bytes / LINE).map(|line| line * LINE).collect();
    of_chain(memory.chain(&places), 0, effort)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_pages_and_grow() {
        let sizes = sizes(4 << 10, 1 << 20);
        assert!(sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
        assert!(sizes.iter().all(|size| size % PAGE == 0));
        assert_eq!((sizes[0], *sizes.last().unwrap()), (4 << 10, 1 << 20));
    }
}
