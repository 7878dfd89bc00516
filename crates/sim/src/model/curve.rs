//! Curves: pairs of numbers that stand for a number that depends on another one.

use super::{Frequency, Latency, Quantity, RawValue};
use serde::Serialize;

/// The highest latency or wait, in nanoseconds.
const LONGEST: f64 = 1e6;

/// The wait of a line behind others, while a share of the bandwidth is in use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WaitAtShare {
    /// Of the bandwidth.
    pub share: f64,
    /// The wait in nanoseconds.
    pub ns: f64,
}

/// How long a line waits behind others, by ascending share of the bandwidth.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Queueing(Vec<WaitAtShare>);

impl Queueing {
    /// Pairs of a share and the wait in cycles, by ascending share.
    pub(crate) fn waits(&self, frequency: Frequency) -> Vec<(f64, f64)> {
        let point = |point: &WaitAtShare| (point.share, Latency::Nanoseconds(point.ns).cycles(frequency));
        self.0.iter().map(point).collect()
    }
}

impl Quantity for Queueing {
    const UNITS: &'static [&'static str] = &["ns_at_share"];

    fn from_raw(_unit: &str, raw: RawValue) -> Result<Self, String> {
        let pairs = pairs(
            raw,
            "a share of the bandwidth and the wait in ns, such as [[0.5, 25], [0.9, 60]]",
        )?;
        for &[share, wait] in &pairs {
            if !(share > 0.0 && share <= 1.0) {
                return Err(format!(
                    "{share} is not a share of the bandwidth: give numbers above 0, at most 1"
                ));
            }
            if !(0.0..=LONGEST).contains(&wait) {
                return Err(format!(
                    "{wait} ns is out of range: give a wait from 0 to {LONGEST:e} ns"
                ));
            }
        }
        ascending(&pairs)?;
        if let Some(pair) = pairs.windows(2).find(|pair| pair[0][1] > pair[1][1]) {
            let ([_, wait], [share, less]) = (pair[0], pair[1]);
            return Err(format!(
                "the wait falls from {wait} to {less} ns at {share}: leave out the points where it falls"
            ));
        }
        Ok(Self(
            pairs.into_iter().map(|[share, ns]| WaitAtShare { share, ns }).collect(),
        ))
    }
}

/// The latency of memory under load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadedLatency {
    /// Pairs of a bandwidth in 10^9 bytes a second and the latency in nanoseconds, by ascending bandwidth.
    ns_at_gb_per_s: Vec<[f64; 2]>,
}

impl LoadedLatency {
    /// A curve of one point.
    pub(super) fn point(gb_per_s: f64, nanoseconds: f64) -> Self {
        Self {
            ns_at_gb_per_s: vec![[gb_per_s, nanoseconds]],
        }
    }

    /// Its points.
    pub(super) fn points(&self) -> &[[f64; 2]] {
        &self.ns_at_gb_per_s
    }
}

impl Quantity for LoadedLatency {
    const UNITS: &'static [&'static str] = &["ns_at_gb_per_s"];

    fn from_raw(_unit: &str, raw: RawValue) -> Result<Self, String> {
        let pairs = pairs(
            raw,
            "a bandwidth in GB/s and the latency in ns, such as [[10, 90], [100, 140]]",
        )?;
        for &[bandwidth, latency] in &pairs {
            if !(1e-3..=1e6).contains(&bandwidth) {
                return Err(format!(
                    "{bandwidth} GB/s is out of range: give a number from 1e-3 to 1e6"
                ));
            }
            if !(latency > 0.0 && latency <= LONGEST) {
                return Err(format!(
                    "{latency} ns is out of range: give a latency above 0, at most {LONGEST:e} ns"
                ));
            }
        }
        ascending(&pairs)?;
        Ok(Self { ns_at_gb_per_s: pairs })
    }
}

/// The pairs of a list that has at least one. `what` says what a pair is.
fn pairs(raw: RawValue, what: &str) -> Result<Vec<[f64; 2]>, String> {
    match raw {
        RawValue::Pairs(pairs) => Ok(pairs),
        _ => Err(format!("give a list of pairs of {what}")),
    }
}

/// Checks that the first numbers of pairs ascend.
fn ascending(pairs: &[[f64; 2]]) -> Result<(), String> {
    match pairs.windows(2).find(|pair| pair[0][0] >= pair[1][0]) {
        Some(pair) => Err(format!(
            "{} does not exceed the {} of the pair before it: list the pairs by ascending first number",
            pair[1][0], pair[0][0]
        )),
        None => Ok(()),
    }
}
