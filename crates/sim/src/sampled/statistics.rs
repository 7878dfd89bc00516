//! Estimates of totals from samples of strata, and their confidence intervals (Cochran, Sampling Techniques, 3rd ed.,
//! chapters 5 and 6; SMARTS: Wunderlich et al., ISCA 2003, section 2).

/// A sample of a stratum: the size of each sampled member, and the quantity that is estimated.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// Members of the stratum.
    pub(super) members: usize,
    /// The sum of the sizes of all members.
    pub(super) size: f64,
    /// Size and quantity of each sampled member.
    pub(super) sampled: Vec<(f64, f64)>,
}

/// The variance of an estimated total, and its degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Variance {
    pub(super) value: f64,
    pub(super) freedom: f64,
}

impl Sample {
    /// The factor of the sample's quantities: the size of all pieces over the size of the sampled ones (a ratio
    /// estimate).
    pub(super) fn factor(&self) -> f64 {
        let sampled: f64 = self.sampled.iter().map(|(size, _)| size).sum();
        if sampled > 0.0 {
            self.size / sampled
        } else {
            self.members as f64 / self.sampled.len().max(1) as f64
        }
    }

    /// The estimated total.
    pub(super) fn total(&self) -> f64 {
        self.factor() * self.sampled.iter().map(|(_, value)| value).sum::<f64>()
    }

    /// The variance of the estimated total; `None` if one member of several was sampled, which says nothing about it.
    pub(super) fn variance(&self) -> Option<Variance> {
        let number = self.sampled.len() as f64;
        if self.sampled.len() == self.members {
            return Some(Variance {
                value: 0.0,
                freedom: f64::INFINITY,
            });
        }
        if self.sampled.len() < 2 {
            return None;
        }
        let (sizes, values) = self.sampled.iter().fold((0.0, 0.0), |(sizes, values), (size, value)| {
            (sizes + size, values + value)
        });
        let ratio = if sizes > 0.0 { values / sizes } else { 0.0 };
        let mean = values / number;
        let residual = |&(size, value): &(f64, f64)| {
            if sizes > 0.0 {
                value - ratio * size
            } else {
                value - mean
            }
        };
        let squares: f64 = self.sampled.iter().map(|member| residual(member).powi(2)).sum();
        let spread = squares / (number - 1.0);
        let unsampled = 1.0 - number / self.members as f64;
        Some(Variance {
            value: (self.factor() * number).powi(2) * unsampled * spread / number,
            freedom: number - 1.0,
        })
    }
}

/// The half-width of the interval that has the sum of some totals with a probability of 95 %. The degrees of freedom
/// are Satterthwaite's.
pub(super) fn half_width(variances: &[Variance]) -> f64 {
    let sum: f64 = variances.iter().map(|variance| variance.value).sum();
    let parts: f64 = variances
        .iter()
        .map(|variance| variance.value.powi(2) / variance.freedom)
        .sum();
    if sum <= 0.0 {
        return 0.0;
    }
    student(sum * sum / parts) * sum.sqrt()
}

/// The same, as a share of the total, including errors that the sample does not show.
pub(super) fn relative_half_width(variances: &[Variance], total: f64) -> f64 {
    (half_width(variances) / total).hypot(BIAS)
}

/// A share of the time by which estimates may differ from the whole simulation although all pieces are alike: a piece
/// begins with idle memory and buffers, and with caches that are reconstructed. With it the intervals have the time of
/// the whole simulation for 95 % of the programs that sampling was developed with (docs/design/simulation.md). SMARTS
/// reports at most 2 % after functional warming (section 4.3).
const BIAS: f64 = 0.06;

/// The quantile of Student's t-distribution that leaves 2.5 % above it. The expansion of Abramowitz and Stegun,
/// Handbook of Mathematical Functions, formula 26.7.5; exact values below four degrees of freedom.
pub(super) fn student(freedom: f64) -> f64 {
    // Table 26.10 of the same book.
    const FEW: [(f64, f64); 4] = [(1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (4.0, 2.776)];
    const NORMAL: f64 = 1.959_964;
    let between = FEW.windows(2).find(|pair| freedom < pair[1].0);
    if let Some(&[(below, lower), (_, upper)]) = between {
        return lower + (upper - lower) * (freedom - below).max(0.0);
    }
    let power = |exponent: i32| NORMAL.powi(exponent);
    let terms = [
        (power(3) + power(1)) / 4.0,
        (5.0 * power(5) + 16.0 * power(3) + 3.0 * power(1)) / 96.0,
        (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * power(1)) / 384.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| (sum + term) / freedom) + NORMAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::random::Random;

    #[test]
    fn the_quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [(1.0, 12.706), (4.0, 2.776), (10.0, 2.228), (30.0, 2.042), (1e9, 1.960)] {
            let found = student(freedom);
            assert!((found - expected).abs() < 0.01, "{freedom}: {found}");
        }
    }

    #[test]
    fn a_stratum_of_which_all_is_known_has_no_variance_and_one_member_of_several_says_nothing() {
        let sample = |members, number| Sample {
            members,
            size: members as f64,
            sampled: vec![(1.0, 5.0); number],
        };
        assert_eq!(sample(3, 3).variance().map(|variance| variance.value), Some(0.0));
        assert_eq!(sample(1, 1).variance().map(|variance| variance.value), Some(0.0));
        assert_eq!(sample(3, 1).variance(), None);
        assert!((sample(3, 1).total() - 15.0).abs() < 1e-9);
    }

    #[test]
    fn nineteen_of_twenty_intervals_have_the_true_total() {
        let mut random = Random::new(7);
        let mut uniform = move || (random.next_bits() >> 11) as f64 / (1u64 << 53) as f64;
        let (mut held, trials) = (0, 1000);
        for _ in 0..trials {
            // Two strata. The time of a member is proportional to its size, with noise.
            let mut total = 0.0;
            let (mut estimate, mut variances) = (0.0, vec![]);
            for (slope, noise) in [(3.0, 1.0), (10.0, 6.0)] {
                let members: Vec<(f64, f64)> = (0..200)
                    .map(|_| {
                        let size = 1.0 + uniform();
                        (size, slope * size + noise * (uniform() - 0.5))
                    })
                    .collect();
                total += members.iter().map(|(_, value)| value).sum::<f64>();
                let sample = Sample {
                    members: members.len(),
                    size: members.iter().map(|(size, _)| size).sum(),
                    sampled: members[..8].to_vec(),
                };
                estimate += sample.total();
                variances.extend(sample.variance());
            }
            held += u32::from((estimate - total).abs() <= half_width(&variances));
        }
        let share = f64::from(held) / f64::from(trials);
        assert!((0.93..=0.98).contains(&share), "{share}");
    }
}
