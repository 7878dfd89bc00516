//! The last steps of `react`: what is not faster than in the baseline goes back, and the result is reported.

use super::{Earlier, Phase, React, Region, Step, note};
use crate::react::model::Profile;
use crate::react::plan::Plan;
use crate::react::timing::{Measured, Timing};
use pinfold_core::{Finding, NoteCode, ProgramGain, RegionChoice, RegionCode, RegionId, Sample};

impl React {
    /// The regions were timed in the configurations that they are to keep: those that are not faster go back.
    pub(super) fn conclude(&mut self, timing: &Timing, sample: &Sample, findings: &mut Vec<Finding>) {
        self.timed_again(timing);
        if self.goes_uniform(findings) {
            self.change(Step::Result { again: false }, sample);
            return;
        }
        let cross_evaluated = self.places.len() > 1;
        let plan = self.plan.clone();
        let mut back = vec![];
        for (&id, region) in &mut self.regions {
            if !cross_evaluated && let Some((_, code, why)) = &region.wanted {
                region.choice = (*code, why.clone());
            }
            let faster = region
                .after
                .as_ref()
                .is_some_and(|after| region.baseline.is_slower_than(after));
            let placed = self.plan.regions.get(&id).is_some_and(Option::is_some);
            if placed && !faster {
                back.push(id);
                self.plan.regions.insert(id, None);
                region.choice = (
                    RegionCode::NotFaster,
                    match &region.after {
                        Some(after) => format!(
                            "it goes back to unpinned: it took {:.3e} s an execution, which is not less than before beyond the noise",
                            after.seconds()
                        ),
                        None => "it goes back to unpinned: it was not executed in time".to_owned(),
                    },
                );
            }
        }
        if !self.plan.places() {
            self.roll_back("no region was faster than unpinned beyond the noise", sample, findings);
        } else if !back.is_empty() {
            let after = |(&id, region): (&RegionId, &Region)| Some((id, region.after.clone()?));
            self.before_going_back = Some(Earlier {
                plan,
                time: self.times().1,
                after: self.regions.iter().filter_map(after).collect(),
                back,
            });
            self.change(Step::Result { again: true }, sample);
        } else {
            self.settle(timing, sample, findings);
        }
    }

    fn timed_again(&mut self, timing: &Timing) {
        for (&id, region) in &mut self.regions {
            region.after = timing.measured(id);
        }
    }

    /// Whether all regions were faster in one of the profiled configurations than they were last, in what was chosen for
    /// each. It is then the plan.
    fn goes_uniform(&mut self, findings: &mut Vec<Finding>) -> bool {
        if std::mem::replace(&mut self.uniform, true) {
            return false;
        }
        let (all, (_, chosen)) = (self.ordered(), self.times());
        let Some((number, uniform)) = self.fastest_together(&all).filter(|&(_, uniform)| uniform < chosen) else {
            return false;
        };
        let configuration = self.profiles[number].clone();
        let plan = Plan::of_all(all.into_iter(), &configuration);
        if plan == self.plan {
            return false;
        }
        let why = format!(
            "all regions together take {:.3} of the time in this one configuration that they take in what was chosen for each",
            uniform / chosen
        );
        findings.push(note(format!("All regions: {configuration}. Why: {why}.")));
        for region in self.regions.values_mut() {
            region.wanted = Some((configuration.clone(), RegionCode::Uniform, why.clone()));
        }
        self.plan = plan;
        self.places = vec![configuration];
        true
    }

    /// The configurations stay for the comparison of the whole program, if all regions together are faster.
    pub(super) fn settle(&mut self, timing: &Timing, sample: &Sample, findings: &mut Vec<Finding>) {
        self.timed_again(timing);
        let (before, mut after) = self.times();
        if let Some(earlier) = self.before_going_back.take().filter(|earlier| earlier.time < after) {
            after = earlier.time;
            for id in earlier.back {
                if let Some(region) = self.regions.get_mut(&id) {
                    let why =
                        "alone it is not faster than unpinned, but with it unpinned all regions together take longer";
                    region.choice = (RegionCode::Together, why.to_owned());
                }
            }
            for (id, measured) in earlier.after {
                if let Some(region) = self.regions.get_mut(&id) {
                    region.after = Some(measured);
                }
            }
            self.plan = earlier.plan;
        }
        if after >= before {
            self.roll_back("all regions together were not faster than unpinned", sample, findings);
            return;
        }
        self.compare_whole_program(before / after - 1.0, sample);
    }

    /// The time of all regions in the baseline, and the time of as many executions as they were timed last, in seconds. A
    /// region that was not executed counts as in the baseline.
    fn times(&self) -> (f64, f64) {
        let all = self.regions.values();
        all.fold((0.0, 0.0), |(before, after), region| {
            let Profile {
                executions, seconds, ..
            } = region.baseline.profile;
            let now = region
                .after
                .as_ref()
                .map_or(seconds, |measured| executions * measured.seconds());
            (before + seconds, after + now)
        })
    }

    /// Nothing stays, and the whole program needs no comparison.
    pub(super) fn roll_back(&mut self, why: &str, sample: &Sample, findings: &mut Vec<Finding>) {
        self.leave_alone(why, findings);
        self.report(None, None, findings);
        self.watch(sample);
    }

    /// Everything goes back, for this reason.
    pub(super) fn leave_alone(&mut self, why: &str, findings: &mut Vec<Finding>) {
        self.plan = Plan::default();
        for region in self.regions.values_mut() {
            region.choice = (RegionCode::NotFaster, format!("the program is left alone: {why}"));
            region.after = None;
        }
        findings.push(Finding::Note {
            code: NoteCode::RolledBack,
            text: format!("Everything was rolled back, because {why}: nothing is pinned."),
        });
    }

    /// Nothing changes any more, and only the rate is reported.
    pub(super) fn watch(&mut self, sample: &Sample) {
        if let Some((meter, began)) = &mut self.line {
            meter.restart();
            *began = sample.at;
        }
        self.phase = Phase::Watching;
    }

    /// Reports the configurations, what all regions together gain by them and what the whole program does.
    pub(super) fn report(&self, gain: Option<f64>, program: Option<ProgramGain>, findings: &mut Vec<Finding>) {
        let choice = |id: &RegionId| {
            let region = &self.regions[id];
            let configuration = self.plan.regions.get(id).and_then(Option::as_ref);
            RegionChoice {
                region: *id,
                share: region.share,
                before: Some(region.baseline.seconds()),
                after: region.after.as_ref().map(Measured::seconds),
                threads: configuration.map(|configuration| configuration.threads),
                pus: None,
                prefetch: configuration
                    .filter(|_| self.reach.sets_prefetchers)
                    .map(|configuration| configuration.prefetch),
                code: region.choice.0,
                why: region.choice.1.clone(),
            }
        };
        findings.push(Finding::RegionsChosen {
            pages: None,
            gain,
            program,
            regions: self.ordered().iter().map(choice).collect(),
        });
    }
}
