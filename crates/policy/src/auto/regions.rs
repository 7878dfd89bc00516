//! Parallel regions: each may get the pinning in which it was fastest in the trials of the whole program.
//!
//! Every window of the search also times the regions that ended in it. So the trials of the whole program show where
//! each region is fast, and regions need no trial for that. The best placement with such regions elsewhere is a
//! proposal like any other: it runs in turns with the best placement, and is kept only if the program is faster.
//!
//! Only candidates with the same pages are compared. A region stays with the rest of the program if it is so short that
//! the change of its threads costs more than it gains.
//!
//! Known limit: the first trial moves all such regions together. If one of them is slower because of data that the
//! regions before it left in the caches, all are given up together.

use super::candidates::{Candidates, UNPINNED};
use super::placement::Placement;
use super::proposals::Proposal;
use super::region_times::RegionTimes;
use super::search::Search;
use crate::comparison::turns::Gain;
use pinfold_core::{Finding, Pinning, ProposerCode, RegionChoice, RegionCode, RegionConfiguration, RegionId, Sample};
use std::collections::BTreeMap;

/// A region that is shorter, in seconds, stays with the rest of the program: a change of all its threads takes up to 10
/// us.
const SHORTEST: f64 = 1e-4;

/// A region moves if it took at most this share of its time elsewhere.
const FASTER: f64 = 0.97;

/// A proposal needs this expected gain, as a logarithm.
const LEAST_GAIN: f64 = 0.005;

/// A region that is pinned there, with its number of threads unchanged.
fn pinned(pinning: Pinning) -> RegionConfiguration {
    RegionConfiguration {
        pinning: Some(pinning),
        ..RegionConfiguration::default()
    }
}

/// The times of regions in one search.
#[derive(Debug, Default)]
pub(super) struct Regions {
    /// By candidate.
    times: BTreeMap<usize, RegionTimes>,
    /// The best candidate and the number of timed candidates when a proposal was last looked for.
    looked: Option<(usize, usize)>,
    /// The number of regions with a pinning in the last report.
    reported: usize,
}

impl Regions {
    /// Forgets the times, because a list of candidates begins.
    pub(super) fn restart(&mut self) {
        *self = Self {
            reported: self.reported,
            ..Self::default()
        };
    }

    /// Adds the regions of a window of this candidate.
    pub(super) fn time(&mut self, candidate: usize, first: &Sample, last: &Sample) {
        if !last.regions.is_empty() {
            self.times.entry(candidate).or_default().add(first, last);
        }
    }

    /// Proposes the best placement with each region at its fastest pinning, if that is worth a trial. Regions of the
    /// unpinned program ran on `baseline_pus`.
    pub(super) fn propose(&mut self, search: &mut Search, baseline_pus: Option<&Pinning>, findings: &mut Vec<Finding>) {
        let candidates = search.candidates();
        // Only another best candidate or more times can change the answer.
        let known = (candidates.best(), self.times.len());
        if self.looked.replace(known) == Some(known) {
            return;
        }
        let Some(baseline_pus) = baseline_pus else { return };
        let tried = Tried {
            candidates,
            times: &self.times,
            baseline_pus,
        };
        let Some((placement, gain)) = tried.faster_apart() else {
            return;
        };
        let expected = gain + candidates.best_gain().map_or(0.0, |gain| gain.log);
        let proposal = Proposal {
            placement,
            by: ProposerCode::Regions,
            gain: Some(expected.exp_m1()),
            why: format!(
                "parallel regions took less time elsewhere: each where it was fastest, the program would take {:.3} of \
                 its time",
                (-gain).exp()
            ),
        };
        search.propose(proposal, findings);
    }

    /// The best placement with another pinning of a region that is already pinned elsewhere than the rest, the longest
    /// region first: one of `placements` that the region was not measured in. With the reason for the user.
    pub(super) fn neighbour(
        &self,
        candidates: &Candidates,
        baseline_pus: Option<&Pinning>,
        placements: impl FnOnce() -> Vec<Proposal>,
    ) -> Option<(Placement, String)> {
        let baseline_pus = baseline_pus?;
        let best = candidates.best_placement();
        if best.regions.is_empty() {
            return None;
        }
        let placements = placements();
        let longest = self.times.get(&candidates.best())?.longest().into_iter();
        let mut regions = longest.map(|(id, _)| id).filter(|id| best.regions.contains_key(id));
        regions.find_map(|id| {
            let was_tried = |pinning: &Pinning| {
                let mut all = candidates.iter();
                all.any(|one| one.placement.region_pinning(id).unwrap_or(baseline_pus) == pinning)
            };
            let mut pinnings = placements.iter().filter_map(|one| one.placement.pinning.as_ref());
            let pinning = pinnings.find(|pinning| !was_tried(pinning))?;
            let mut regions = best.regions.clone();
            regions.insert(id, pinned(pinning.clone()));
            let placement = best.clone().with_regions(regions);
            Some((placement, format!("region {id} was not tried there")))
        })
    }

    /// Reports the regions of the choice, if some of them are pinned elsewhere than the rest or were so in the last
    /// report.
    pub(super) fn report(&mut self, candidates: &Candidates, findings: &mut Vec<Finding>) {
        let best = candidates.best();
        let placement = candidates.best_placement();
        let reported = std::mem::replace(&mut self.reported, placement.regions.len());
        if placement.regions.is_empty() {
            if reported > 0 {
                findings.push(Finding::RegionsChosen {
                    pages: None,
                    gain: None,
                    program: None,
                    regions: vec![],
                });
            }
            return;
        }
        let nothing = RegionTimes::default();
        let before = self.times.get(&UNPINNED).unwrap_or(&nothing);
        let after = self.times.get(&best).unwrap_or(before);
        let longest = if before.has_windows() { before } else { after };
        let choice = |(region, share): (RegionId, f64)| {
            let (code, why) = if placement.regions.contains_key(&region) {
                (RegionCode::FastestTried, "it was fastest there of all that was tried")
            } else {
                (RegionCode::Program, "it runs where the rest of the program is")
            };
            RegionChoice {
                region,
                share,
                before: before.mean(region),
                after: after.mean(region),
                threads: None,
                pus: placement.region_pinning(region).cloned(),
                prefetch: None,
                code,
                why: why.to_owned(),
            }
        };
        let regions: Vec<RegionChoice> = longest.longest().into_iter().map(choice).collect();
        let both = regions.iter().filter_map(|one| {
            let (before, after) = one.before.zip(one.after)?;
            Some((one.share, one.share * after / before))
        });
        let (old, new) = both.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        findings.push(Finding::RegionsChosen {
            pages: placement.pages,
            gain: (new > 0.0).then(|| old / new - 1.0),
            program: candidates[best].gain.map(Gain::of_program),
            regions,
        });
    }
}

/// Gives the candidates that wait the regions of the best one. Without them they would lose what these regions gained.
pub(super) fn spread(search: &mut Search, findings: &mut Vec<Finding>) {
    let best = search.candidates().best_placement().clone();
    for position in 0..search.candidates().number() {
        let one = &search.candidates()[position];
        let is_for_program = !matches!(one.by, ProposerCode::Regions | ProposerCode::User);
        let waits = one.is_untried() && position != UNPINNED;
        let mut regions = best.regions.clone();
        regions.retain(|_, region| region.pinning != one.placement.pinning);
        let is_alike = one.placement.pinning.is_some() && one.placement.within == best.within;
        if !is_for_program || !waits || !is_alike || one.placement.regions == regions {
            continue;
        }
        let proposal = Proposal {
            placement: one.placement.clone().with_regions(regions),
            by: one.by,
            gain: one.expected.map(f64::exp_m1),
            why: "it was proposed for the whole program, some of whose regions are faster elsewhere".to_owned(),
        };
        search.replace(position, proposal, findings);
    }
}

/// All times so far.
struct Tried<'a> {
    candidates: &'a Candidates,
    times: &'a BTreeMap<usize, RegionTimes>,
    /// The PUs of the unpinned program.
    baseline_pus: &'a Pinning,
}

impl Tried<'_> {
    /// The pinning of a region; about that if its threads are not pinned.
    fn pinning<'s>(&'s self, placement: &'s Placement, id: RegionId) -> &'s Pinning {
        placement.region_pinning(id).unwrap_or(self.baseline_pus)
    }

    /// The fastest pinning of a region with the same pages, other than its pinning in `base`, and its time there. A
    /// pinning counts by the longest time that the region took in it: beside other regions it may find less in the
    /// caches.
    fn fastest_elsewhere<'s>(&'s self, base: &'s Placement, id: RegionId) -> Option<(&'s Pinning, f64)> {
        let present = self.pinning(base, id);
        let mut pinnings: Vec<(&Pinning, f64)> = vec![];
        for (&other, times) in self.times {
            let placement = &self.candidates[other].placement;
            let pinning = self.pinning(placement, id);
            if placement.pages != base.pages || placement.within != base.within || pinning == present {
                continue;
            }
            let Some(mean) = times.mean(id) else { continue };
            match pinnings.iter_mut().find(|(known, _)| *known == pinning) {
                Some((_, longest)) => *longest = longest.max(mean),
                None => pinnings.push((pinning, mean)),
            }
        }
        pinnings.into_iter().min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// The best placement with each region at its fastest pinning, and the expected gain over it, as a logarithm;
    /// `None` if that is not worth a trial.
    ///
    /// The rest of the program is pinned, too: the operating system would leave threads for a while where the last
    /// region had them.
    fn faster_apart(&self) -> Option<(Placement, f64)> {
        let base = self.candidates.best_placement();
        let times = self.times.get(&self.candidates.best())?;
        let rest = base.pinning.as_ref().unwrap_or(self.baseline_pus);
        let mut regions = base.regions.clone();
        let mut saved = 0.0;
        for (id, share) in times.longest() {
            let Some(now) = times.mean(id).filter(|&mean| mean >= SHORTEST) else {
                continue;
            };
            let Some((pinning, elsewhere)) = self.fastest_elsewhere(base, id) else {
                continue;
            };
            if elsewhere > now * FASTER {
                continue;
            }
            saved += share * (1.0 - elsewhere / now);
            if pinning == rest {
                regions.remove(&id);
            } else {
                regions.insert(id, pinned(pinning.clone()));
            }
        }
        let gain = -(1.0 - saved.min(0.99)).ln();
        let is_worth = regions != base.regions && gain >= LEAST_GAIN;
        let placement = Placement {
            pinning: Some(rest.clone()),
            regions,
            ..base.clone()
        };
        is_worth.then_some((placement, gain))
    }
}

#[cfg(test)]
mod tests {
    use super::super::region_times::EXECUTIONS;
    use super::*;
    use pinfold_core::{PageMapping, PuId, RegionKeeps, RegionSample};
    use std::time::Duration;

    fn pus(first: u32) -> Pinning {
        Pinning::new((first..first + 4).map(PuId).collect()).unwrap()
    }

    /// Threads on four PUs from this one.
    fn on(first: u32) -> Placement {
        Placement::pinned(pus(first))
    }

    /// The unpinned program and these candidates.
    fn candidates(others: impl IntoIterator<Item = Placement>) -> Candidates {
        let mut candidates = Candidates::new(Placement::default());
        for placement in others {
            let proposal = Proposal {
                placement,
                by: ProposerCode::Topology,
                gain: None,
                why: String::new(),
            };
            candidates.propose(proposal, &mut vec![]);
        }
        candidates
    }

    /// One second. Regions 1 and 2 took this long for this number of executions each.
    fn executed([one, two]: [f64; 2], executions: [f64; 2]) -> RegionTimes {
        let mut times = RegionTimes::default();
        let region = |id, seconds, executions| RegionSample {
            id: RegionId(id),
            executions,
            seconds,
            counts: None,
            keeps: RegionKeeps::default(),
        };
        let last = Sample {
            at: Duration::from_secs(1),
            regions: vec![region(1, one, executions[0]), region(2, two, executions[1])],
            ..Sample::default()
        };
        times.add(&Sample::default(), &last);
        times
    }

    /// The same for ten executions each.
    fn times(one: f64, two: f64) -> RegionTimes {
        executed([one, two], [10.0; 2])
    }

    /// The first PU of each region that is pinned elsewhere than the rest, and the gain.
    fn apart(candidates: &Candidates, all: &[RegionTimes]) -> Option<(Vec<(u64, u32)>, f64)> {
        let (placement, gain) = proposed(candidates, all)?;
        let first = |region: &RegionConfiguration| region.pinning.as_ref().unwrap().pu(0).0;
        let regions = placement.regions.iter().map(|(id, region)| (id.0, first(region)));
        Some((regions.collect(), gain))
    }

    fn proposed(candidates: &Candidates, all: &[RegionTimes]) -> Option<(Placement, f64)> {
        let times: BTreeMap<usize, RegionTimes> = all.iter().cloned().enumerate().collect();
        let tried = Tried {
            candidates,
            times: &times,
            baseline_pus: &pus(100),
        };
        tried.faster_apart()
    }

    #[test]
    fn a_region_that_was_faster_elsewhere_goes_there_and_the_rest_stays() {
        let mut candidates = candidates([on(0), on(4)]);
        candidates.set_best(1);
        let all = [times(0.5, 0.5), times(0.4, 0.6), times(0.9, 0.1)];
        let (regions, gain) = apart(&candidates, &all).unwrap();
        assert_eq!(regions, [(2, 4)]);
        assert!(
            (gain - -(0.5f64.ln())).abs() < 1e-12,
            "{gain}: half of the time is saved"
        );
    }

    #[test]
    fn beside_regions_with_pinnings_an_unpinned_program_is_pinned_where_it_ran() {
        let (placement, _) = proposed(&candidates([on(0)]), &[times(0.5, 0.5), times(0.9, 0.1)]).unwrap();
        assert_eq!(placement.pinning, Some(pus(100)));
        assert_eq!(placement.regions.keys().collect::<Vec<_>>(), [&RegionId(2)]);
    }

    #[test]
    fn a_region_that_was_fastest_unpinned_goes_where_the_threads_ran_then() {
        let mut candidates = candidates([on(0)]);
        candidates.set_best(1);
        let (regions, _) = apart(&candidates, &[times(0.9, 0.1), times(0.3, 0.6)]).unwrap();
        assert_eq!(regions, [(2, 100)]);
    }

    #[test]
    fn short_and_rare_regions_and_those_that_are_hardly_faster_stay() {
        let candidates = candidates([on(0)]);
        assert_eq!(apart(&candidates, &[times(0.5, 0.5), times(0.9, 0.49)]), None);
        assert_eq!(
            apart(&candidates, &[times(0.5, 0.009), times(0.9, 0.001)]),
            None,
            "less than a hundredth"
        );
        let short = |seconds| executed([0.9, seconds], [1e6; 2]);
        assert_eq!(apart(&candidates, &[short(0.1), short(0.01)]), None);
        let rare = executed([0.5, 0.1], [10.0, EXECUTIONS - 1.0]);
        assert_eq!(apart(&candidates, &[times(0.5, 0.5), rare]), None);
    }

    #[test]
    fn times_with_other_pages_are_not_compared() {
        let interleaved = on(0).with_pages(Some(PageMapping::Interleave));
        let all = [times(0.5, 0.5), times(0.9, 0.1)];
        assert_eq!(apart(&candidates([interleaved]), &all), None);
        assert!(apart(&candidates([on(0)]), &all).is_some());
    }

    #[test]
    fn a_pinning_in_which_a_region_was_slower_beside_others_counts_so() {
        // The third candidate has the second region where the second candidate had it, and there it is slow after the
        // first.
        let beside = on(4).with_regions(BTreeMap::from([(RegionId(2), pinned(pus(0)))]));
        let all = [times(0.5, 0.5), times(0.9, 0.1), times(0.5, 0.6)];
        assert_eq!(apart(&candidates([on(0), beside]), &all), None);
        assert!(apart(&candidates([on(0)]), &all[..2]).is_some());
    }
}
