//! The result: the times of the regions in the configurations that they are to keep, and the reasons for these. What is
//! not faster than in the baseline goes back.

use super::profiles::Profiles;
use super::{Next, Step, note};
use crate::react::plan::Plan;
use crate::react::timing::{Measured, Timing};
use pinfold_core::{Finding, NoteCode, ProgramGain, RegionChoice, RegionCode, RegionId, Topology};
use std::collections::BTreeMap;

/// The reason for the configuration of a region.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    code: RegionCode,
    why: String,
}

impl Choice {
    pub(super) fn new(code: RegionCode, why: String) -> Self {
        Self { code, why }
    }
}

/// By region: the reason for its configuration.
pub(super) type Choices = BTreeMap<RegionId, Choice>;

/// A plan that was timed before some of its regions went back.
#[derive(Debug)]
struct Earlier {
    plan: Plan,
    /// The time of all regions for as many executions as in the baseline, in seconds.
    time: f64,
    after: BTreeMap<RegionId, Measured>,
    /// The regions that went back.
    back: Vec<RegionId>,
}

/// The result so far.
#[derive(Debug, Default)]
pub(super) struct Verification {
    choices: Choices,
    /// The last times of the regions.
    after: BTreeMap<RegionId, Measured>,
    /// Whether it was decided if all regions get one configuration.
    uniform: bool,
    /// The plan before regions went back to unpinned.
    earlier: Option<Earlier>,
}

impl Verification {
    /// Regions have the configurations of a plan for these reasons.
    pub(super) fn choose(&mut self, choices: Choices) {
        self.choices = choices;
    }

    /// The regions were timed with this plan, which they are to keep. Regions that are not faster go back.
    pub(super) fn conclude(
        &mut self,
        plan: &Plan,
        timing: &Timing,
        profiles: &Profiles,
        findings: &mut Vec<Finding>,
    ) -> Next {
        self.after = timing.all_measured();
        if let Some(uniform) = self.uniform(plan, profiles, findings) {
            return Next::Measure(Step::Result { again: false }, uniform);
        }
        let mut smaller = plan.clone();
        let mut back = vec![];
        for id in profiles.ids() {
            let after = self.after.get(&id);
            let faster = after.is_some_and(|after| profiles.baseline(id).is_slower_than(after));
            let placed = plan.regions.get(&id).is_some_and(Option::is_some);
            if placed && !faster {
                let why = match after {
                    Some(after) => format!(
                        "it goes back to unpinned: it took {:.3e} s an execution, which is not less than before beyond the noise",
                        after.seconds()
                    ),
                    None => "it goes back to unpinned: it was not executed in time".to_owned(),
                };
                back.push(id);
                smaller.regions.insert(id, None);
                self.choices.insert(id, Choice::new(RegionCode::NotFaster, why));
            }
        }
        if !smaller.places() {
            return Next::RollBack("no region was faster than unpinned beyond the noise");
        }
        if back.is_empty() {
            return self.settle(plan, timing, profiles);
        }
        self.earlier = Some(Earlier {
            plan: plan.clone(),
            time: self.times(profiles).1,
            after: self.after.clone(),
            back,
        });
        Next::Measure(Step::Result { again: true }, smaller)
    }

    /// A plan with one profiled configuration for all regions, if they took less time together in it than in their own
    /// configurations.
    fn uniform(&mut self, plan: &Plan, profiles: &Profiles, findings: &mut Vec<Finding>) -> Option<Plan> {
        if std::mem::replace(&mut self.uniform, true) {
            return None;
        }
        let (_, chosen) = self.times(profiles);
        let (number, time) = profiles.fastest_together(&profiles.ordered())?;
        let configuration = &profiles.configurations()[number];
        let uniform = Plan::uniform(profiles.ids(), configuration);
        if time >= chosen || uniform == *plan {
            return None;
        }
        let why = format!(
            "all regions together take {:.3} of the time in this one configuration that they take in what was chosen for each",
            time / chosen
        );
        findings.push(note(format!("All regions: {configuration}. Why: {why}.")));
        let choice = Choice::new(RegionCode::Uniform, why);
        self.choices = profiles.ids().map(|id| (id, choice.clone())).collect();
        Some(uniform)
    }

    /// Regions have gone back, and the rest was timed again. The plan that takes the least time stays for the
    /// comparison of the whole program, if all regions together are faster than in the baseline.
    pub(super) fn settle(&mut self, plan: &Plan, timing: &Timing, profiles: &Profiles) -> Next {
        self.after = timing.all_measured();
        let (before, mut after) = self.times(profiles);
        let mut plan = plan.clone();
        if let Some(earlier) = self.earlier.take().filter(|earlier| earlier.time < after) {
            let why = "alone it is not faster than unpinned, but with it unpinned all regions together take longer";
            for id in earlier.back {
                let choice = Choice::new(RegionCode::Together, why.to_owned());
                self.choices.insert(id, choice);
            }
            after = earlier.time;
            self.after.extend(earlier.after);
            plan = earlier.plan;
        }
        if after >= before {
            return Next::RollBack("all regions together were not faster than unpinned");
        }
        Next::Compare(plan, before / after - 1.0)
    }

    /// The time of all regions in the baseline, and now, in seconds.
    fn times(&self, profiles: &Profiles) -> (f64, f64) {
        profiles.times(|id| Some(self.after.get(&id)?.seconds()))
    }

    /// Everything goes back, for this reason.
    pub(super) fn roll_back(&mut self, why: &str, profiles: &Profiles) -> Finding {
        let choice = Choice::new(RegionCode::NotFaster, format!("the program is left alone: {why}"));
        self.choices = profiles.ids().map(|id| (id, choice.clone())).collect();
        self.after.clear();
        Finding::Note {
            code: NoteCode::RolledBack,
            text: format!("Everything was rolled back, because {why}: nothing is pinned."),
        }
    }

    /// The result: the configurations of the regions, their gain together, and the gain of the whole program.
    pub(super) fn report(
        &self,
        plan: &Plan,
        (gain, program): (Option<f64>, Option<ProgramGain>),
        profiles: &Profiles,
        topology: &Topology,
        sets_prefetchers: bool,
    ) -> Finding {
        let choice = |id: RegionId| {
            let configuration = plan.regions.get(&id).and_then(Option::as_ref);
            let rare = || {
                let why = "it was not executed often enough to be measured";
                Choice::new(RegionCode::Rare, why.to_owned())
            };
            let Choice { code, why } = self.choices.get(&id).cloned().unwrap_or_else(rare);
            RegionChoice {
                region: id,
                share: profiles.share(id),
                before: Some(profiles.baseline(id).seconds()),
                after: self.after.get(&id).map(Measured::seconds),
                threads: configuration.map(|configuration| configuration.threads),
                pus: configuration.and_then(|configuration| configuration.pinning(topology)),
                prefetch: configuration
                    .filter(|_| sets_prefetchers)
                    .map(|configuration| configuration.prefetch),
                code,
                why,
            }
        };
        Finding::RegionsChosen {
            pages: plan.base.as_ref().map(|base| base.pages(topology)),
            gain,
            program,
            regions: profiles.ordered().into_iter().map(choice).collect(),
        }
    }
}
