//! The first steps of `react`: the program's regions are timed as they are, and profiled under the model's configurations.

use super::{EXECUTIONS, LEAST_SHARE, Phase, React, Region, Step, note, percent, shares};
use crate::react::plan::Plan;
use crate::react::timing::Timing;
use pinfold_core::{Finding, RegionCode, Sample};
use std::time::Duration;

/// The least interval between two readings.
const LEAST_INTERVAL: Duration = Duration::from_millis(2);

impl React {
    /// The regions that matter are known, and how long they take unpinned.
    pub(super) fn baseline(&mut self, timing: &Timing, sample: &Sample, findings: &mut Vec<Finding>) {
        for (id, share) in shares(timing) {
            let measured = timing
                .measured(id)
                .filter(|measured| share >= LEAST_SHARE && measured.profile.executions >= EXECUTIONS);
            if let Some(baseline) = measured {
                self.regions.insert(
                    id,
                    Region {
                        share,
                        baseline,
                        profiles: vec![],
                        profiled: vec![],
                        wanted: None,
                        own: vec![],
                        shared: vec![],
                        after: None,
                        choice: (
                            RegionCode::Rare,
                            "it was not executed often enough to be measured".to_owned(),
                        ),
                    },
                );
            }
        }
        if self.regions.is_empty() {
            if !std::mem::replace(&mut self.told_nothing, true) {
                let text = if timing.regions().next().is_none() {
                    "No parallel region has ended yet, so there is nothing to profile. Regions are seen in programs that use \
                     GCC's or LLVM's OpenMP; a region that lasts as long as the program has no second execution."
                } else {
                    "No parallel region is executed often enough to be profiled; -t gives each step more time."
                };
                findings.push(note(text.to_owned()));
            }
            self.phase = Phase::Measuring(Step::Baseline, Timing::begin(sample));
            return;
        }
        // Every region is executed once in this time.
        let slowest = self
            .regions
            .values()
            .map(|region| timing.lasts().as_secs_f64() / region.baseline.profile.executions)
            .fold(0.0, f64::max);
        self.reading = Duration::from_secs_f64(slowest)
            .max(LEAST_INTERVAL)
            .min(self.options.times.probe);
        let neighbours = if self.options.model.tree.is_none() {
            "; then under configurations that differ from the fastest by one choice"
        } else {
            ""
        };
        findings.push(note(format!(
            "{} of the time in regions: {}. They are profiled under {}{neighbours}.",
            percent(self.regions.values().map(|region| region.share).sum()),
            self.ordered()
                .iter()
                .map(|id| {
                    let region = &self.regions[id];
                    format!(
                        "region {id} {}, {:.3e} s each",
                        percent(region.share),
                        region.baseline.seconds()
                    )
                })
                .collect::<Vec<_>>()
                .join("; "),
            self.profiles
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", and under "),
        )));
        self.profile(0, sample);
    }

    /// All regions go to one of the profiled configurations.
    pub(super) fn profile(&mut self, number: usize, sample: &Sample) {
        let configuration = &self.profiles[number];
        self.plan = Plan::of_all(self.regions.keys().copied(), configuration);
        self.change(Step::Profile(number), sample);
    }
}
