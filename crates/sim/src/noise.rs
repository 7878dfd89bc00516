//! The noise of a simulated machine's counters: a policy's readings differ from the true counts.
//!
//! The growth of a metric between two readings is multiplied by a random factor. The factor is 1 plus a sum of parts,
//! one for each of `SCALES`. A part is normally distributed, keeps its value for the time of its scale, and then takes
//! an independent one. So neighbouring readings are correlated, and a longer measurement averages only the parts that
//! change within it, as on a real machine. All parts have the same variance: noise with equal power in each decade of
//! time, which is the 1/f noise of electronics. The shape is assumed; the size is an argument.
//!
//! A factor depends on the seed, the metric and the time only, so the same seed gives the same readings. The run itself
//! is exact: noise changes what a policy decides, and by that alone how long the program takes.

use pinfold_core::random::Random;

/// How long each part keeps its value, in seconds. The shortest is the default interval between two readings.
pub(crate) const SCALES: [f64; 3] = [0.1, 1.0, 10.0];

/// The least factor: counters never run backwards.
const LEAST: f64 = 0.05;

/// The noise of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noise {
    /// The standard deviation of the factor over the shortest scale.
    size: f64,
    seed: u64,
}

impl Noise {
    pub(crate) fn new(size: f64, seed: u64) -> Self {
        Self { size, seed }
    }

    /// The factor for a metric's growth from one time to a later one, in seconds. Its mean over time is 1, except for
    /// noise so large that `LEAST` is reached.
    pub(crate) fn factor(&self, metric: usize, from: f64, to: f64) -> f64 {
        if self.size == 0.0 || to <= from {
            return 1.0;
        }
        let deviation = self.size / (SCALES.len() as f64).sqrt();
        let parts: f64 = (SCALES.iter().zip(0..))
            .map(|(&lasts, scale)| self.mean(metric, scale, from / lasts, to / lasts))
            .sum();
        (1.0 + deviation * parts).max(LEAST)
    }

    /// The mean of one part between two times, in units of its scale.
    fn mean(&self, metric: usize, scale: u64, from: f64, to: f64) -> f64 {
        let mut at = from;
        let mut sum = 0.0;
        while at < to {
            let next = (at.floor() + 1.0).min(to);
            sum += self.part(metric, scale, at.floor()) * (next - at);
            at = next;
        }
        sum / (to - from)
    }

    /// The value of one part, from its number in time.
    fn part(&self, metric: usize, scale: u64, number: f64) -> f64 {
        let mixed = [metric as u64, scale, number.to_bits()]
            .into_iter()
            .fold(self.seed, |mixed, word| Random::new(mixed ^ word).next_bits());
        Random::new(mixed).normal()
    }
}

/// The counts of a metric set: a row for the program, then one for each task. A missing count is `None`.
pub(crate) type Rows = Vec<Vec<Option<f64>>>;

/// What counters have shown until now.
pub(crate) struct Readings {
    noise: Noise,
    at: f64,
    exact: Rows,
    shown: Rows,
}

impl Readings {
    pub(crate) fn new(noise: Noise) -> Self {
        Self {
            noise,
            at: 0.0,
            exact: vec![],
            shown: vec![],
        }
    }

    /// The counts as they are read at a time in seconds, for exact ones. There are as many rows and metrics at each
    /// time.
    pub(crate) fn read(&mut self, now: f64, exact: Rows) -> Rows {
        if self.noise.size == 0.0 {
            return exact;
        }
        let factors: Vec<f64> = (0..exact.first().map_or(0, Vec::len))
            .map(|metric| self.noise.factor(metric, self.at, now))
            .collect();
        let before = |rows: &Rows, row: usize, metric: usize| rows.get(row).and_then(|row| row[metric]).unwrap_or(0.0);
        let shown = exact.iter().enumerate().map(|(row, counts)| {
            let shown = counts
                .iter()
                .zip(&factors)
                .enumerate()
                .map(|(metric, (count, factor))| {
                    let growth = count.map(|count| count - before(&self.exact, row, metric));
                    growth.map(|growth| before(&self.shown, row, metric) + growth * factor)
                });
            shown.collect()
        });
        self.shown = shown.collect();
        self.exact = exact;
        self.at = now;
        self.shown.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The standard deviation of the factor over readings of this many seconds.
    fn deviation(noise: &Noise, seconds: f64) -> f64 {
        let factors: Vec<f64> = (0..2000)
            .map(|reading| noise.factor(0, f64::from(reading) * seconds, f64::from(reading + 1) * seconds))
            .collect();
        let mean = factors.iter().sum::<f64>() / factors.len() as f64;
        let squares: f64 = factors.iter().map(|factor| (factor - mean).powi(2)).sum();
        (squares / factors.len() as f64).sqrt()
    }

    #[test]
    fn a_reading_of_the_shortest_scale_has_the_given_deviation() {
        let noise = Noise::new(0.05, 1);
        assert!((deviation(&noise, SCALES[0]) - 0.05).abs() < 0.01);
    }

    #[test]
    fn a_longer_reading_has_less_noise_but_more_than_independent_readings_would() {
        let noise = Noise::new(0.05, 1);
        let long = deviation(&noise, 10.0);
        assert!(long < 0.04, "{long}");
        assert!(long > 2.0 * 0.05 / 100f64.sqrt(), "{long}");
    }

    #[test]
    fn metrics_and_seeds_differ_and_no_noise_changes_nothing() {
        let factor = |size, seed, metric| Noise::new(size, seed).factor(metric, 0.0, 0.1).to_bits();
        assert_ne!(factor(0.05, 1, 0), factor(0.05, 1, 1));
        assert_ne!(factor(0.05, 1, 0), factor(0.05, 2, 0));
        assert_eq!(factor(0.0, 1, 0), 1f64.to_bits());
    }

    #[test]
    fn readings_grow_with_the_counts_and_show_none_where_there_is_none() {
        let mut readings = Readings::new(Noise::new(0.05, 7));
        let mut before = 0.0;
        for tenth in 1..=1000u32 {
            let count = f64::from(tenth) * 100.0;
            let rows = readings.read(
                f64::from(tenth) / 10.0,
                vec![vec![Some(count), None], vec![None, Some(count)]],
            );
            assert_eq!((rows[0][1], rows[1][0]), (None, None));
            let shown = rows[0][0].unwrap();
            assert!(shown >= before);
            assert_ne!(rows[1][1].unwrap().to_bits(), shown.to_bits());
            before = shown;
        }
        assert!((before / 1e5 - 1.0).abs() < 0.05, "{before}");
    }

    proptest! {
        #[test]
        fn counters_never_run_backwards(
            size in 0.0..1.0f64, seed in 0..u64::MAX, from in 0.0..100.0f64, lasts in 0.0..100.0f64
        ) {
            prop_assert!(Noise::new(size, seed).factor(3, from, from + lasts) >= LEAST);
        }
    }
}
