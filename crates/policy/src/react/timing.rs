//! Times regions between samples.

use super::model::Profile;
use crate::program::meter::Measurement;
use pinfold_core::statistics::Reading;
use pinfold_core::{RegionCounts, RegionId, RegionKeeps, RegionSample, Sample};
use std::collections::BTreeMap;
use std::time::Duration;

/// The regions since a sample.
#[derive(Debug, Default)]
pub(super) struct Timing {
    began: Duration,
    now: Duration,
    first: BTreeMap<RegionId, RegionSample>,
    /// At the last reading of each region.
    last: BTreeMap<RegionId, RegionSample>,
    readings: BTreeMap<RegionId, Vec<Reading>>,
}

/// The measurement of a region.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Executions per second of the region's own time.
    pub(super) speed: Measurement,
    pub(super) profile: Profile,
}

impl Measured {
    /// Seconds of one execution.
    pub(super) fn seconds(&self) -> f64 {
        self.profile.seconds / self.profile.executions
    }

    /// The variance of the logarithm of its time; `None` for too few readings.
    pub(super) fn relative_variance(&self) -> Option<f64> {
        let (error, rate) = self.speed.error().zip(self.speed.rate)?;
        Some((error / rate).powi(2))
    }

    /// Whether it is significantly slower than another.
    pub(super) fn is_slower_than(&self, other: &Self) -> bool {
        self.speed.is_lower_than(&other.speed)
    }
}

impl Timing {
    /// Begins at `sample`.
    pub(super) fn begin(sample: &Sample) -> Self {
        let all = || sample.regions.iter().map(|region| (region.id, region.clone()));
        Self {
            began: sample.at,
            now: sample.at,
            first: all().collect(),
            last: all().collect(),
            readings: BTreeMap::new(),
        }
    }

    /// A region that had not ended before began from nothing.
    fn nothing(id: RegionId, like: &RegionSample) -> RegionSample {
        RegionSample {
            id,
            executions: 0.0,
            seconds: 0.0,
            counts: like.counts.map(|_| RegionCounts::ZERO),
            keeps: RegionKeeps::default(),
        }
    }

    /// Takes a reading of each region that has ended since its last one.
    pub(super) fn read(&mut self, sample: &Sample) {
        self.now = sample.at;
        for region in &sample.regions {
            let before = self
                .last
                .entry(region.id)
                .or_insert_with(|| Self::nothing(region.id, region));
            let (executions, seconds) = (region.executions - before.executions, region.seconds - before.seconds);
            if executions > 0.0 && seconds > 0.0 {
                *before = region.clone();
                self.readings.entry(region.id).or_default().push(Reading {
                    at: sample.at.as_secs_f64(),
                    rate: executions / seconds,
                });
            }
        }
    }

    /// How long ago it began.
    pub(super) fn lasts(&self) -> Duration {
        self.now.saturating_sub(self.began)
    }

    /// The regions that have ended since.
    pub(super) fn regions(&self) -> impl Iterator<Item = RegionId> {
        self.readings.keys().copied()
    }

    /// The readings of a region since.
    pub(super) fn readings(&self, id: RegionId) -> usize {
        self.readings.get(&id).map_or(0, Vec::len)
    }

    /// The counts of a region since; `None` if it has not ended.
    pub(super) fn profile(&self, id: RegionId) -> Option<Profile> {
        let last = self.last.get(&id)?;
        let first = self.first.get(&id).cloned();
        let first = first.unwrap_or_else(|| Self::nothing(id, last));
        let profile = Profile {
            executions: last.executions - first.executions,
            seconds: last.seconds - first.seconds,
            counts: last
                .counts
                .zip(first.counts)
                .map(|(last, first)| last.plus(-1.0, &first)),
        };
        (profile.executions > 0.0 && profile.seconds > 0.0).then_some(profile)
    }

    /// The measurement of a region since; `None` if it has not ended.
    pub(super) fn measured(&self, id: RegionId) -> Option<Measured> {
        let profile = self.profile(id)?;
        let readings = self.readings.get(&id).cloned().unwrap_or_default();
        Some(Measured {
            speed: Measurement::from_readings(readings, Some(profile.executions / profile.seconds)),
            profile,
        })
    }

    /// The measurements of all regions that have ended since.
    pub(super) fn all_measured(&self) -> BTreeMap<RegionId, Measured> {
        self.regions().filter_map(|id| Some((id, self.measured(id)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, regions: &[(u64, f64, f64)]) -> Sample {
        let region = |&(id, executions, seconds): &(u64, f64, f64)| RegionSample {
            id: RegionId(id),
            executions,
            seconds,
            counts: None,
            keeps: RegionKeeps::default(),
        };
        Sample {
            at: Duration::from_secs(at),
            regions: regions.iter().map(region).collect(),
            ..Sample::default()
        }
    }

    #[test]
    fn a_region_is_timed_from_the_start_and_a_new_one_from_nothing() {
        let mut timing = Timing::begin(&sample(1, &[(7, 10.0, 5.0)]));
        timing.read(&sample(2, &[(7, 10.0, 5.0)]));
        assert_eq!((timing.readings(RegionId(7)), timing.profile(RegionId(7))), (0, None));
        timing.read(&sample(3, &[(7, 12.0, 6.0), (9, 4.0, 1.0)]));
        timing.read(&sample(4, &[(7, 14.0, 7.0), (9, 4.0, 1.0)]));
        let seven = timing.measured(RegionId(7)).unwrap();
        assert_eq!(seven.profile.executions.to_bits(), 4f64.to_bits());
        assert_eq!(seven.seconds().to_bits(), 0.5f64.to_bits());
        assert_eq!((timing.readings(RegionId(7)), timing.readings(RegionId(9))), (2, 1));
        let nine = timing.measured(RegionId(9)).unwrap();
        assert_eq!(nine.seconds().to_bits(), 0.25f64.to_bits());
        assert_eq!(timing.lasts(), Duration::from_secs(3));
    }
}
