//! Parallel regions: each may have a placement of its own, where it was fastest in what was tried.
//!
//! Every window of the search also times the regions that ended in it. So which region belongs where is known from the
//! trials of the whole program, and costs no trial of its own. What follows is a proposal like any other: it runs in turns
//! with the best placement, and is kept only if the program is faster.
//!
//! Regions are compared between candidates with the same pages. A region that is shorter than a change of its threads is
//! worth stays where the rest of the program is.
//!
//! Known limit: a region's own placement is measured first together with that of all others. If one of them is slower for
//! what the regions before it left in the caches, all are given up together.

use super::candidates::{Candidate, State, UNPINNED};
use super::options::Source;
use super::placement::Placement;
use super::policy::Auto;
use super::region_times::RegionTimes;
use crate::comparison::turns::Gain;
use pinfold_core::{
    Finding, Pinning, ProposerCode, RegionChoice, RegionCode, RegionConfiguration, RegionId, Sample, Topology,
};
use std::collections::BTreeMap;

/// A region that is shorter, in seconds, has no placement of its own: to change that of all its threads takes up to 10 us.
const SHORTEST: f64 = 1e-4;

/// A region has a placement of its own only if it took at most this share of its time there.
const FASTER: f64 = 0.97;

/// A proposal must promise this gain, as a logarithm.
const LEAST_GAIN: f64 = 0.005;

/// One that promises this gain, as a logarithm, waits for no budget.
const SURE: f64 = 0.05;

/// A region that runs there, with its own number of threads.
fn placed(pinning: Pinning) -> RegionConfiguration {
    RegionConfiguration {
        pinning: Some(pinning),
        ..RegionConfiguration::default()
    }
}

/// What was timed so far.
struct Tried<'a> {
    candidates: &'a [Candidate],
    times: &'a BTreeMap<usize, RegionTimes>,
    /// Where the threads ran in the baseline.
    home: &'a Pinning,
}

impl Tried<'_> {
    /// Where else than in `base` a region was fastest, with the same pages, and its time there. A place counts by the longest
    /// time that the region took there: beside others that have places of their own it may find less in the caches.
    fn fastest_elsewhere(&self, base: &Placement, id: RegionId) -> Option<(&Pinning, f64)> {
        let present = base.of_region(id, self.home);
        let mut places: Vec<(&Pinning, f64)> = vec![];
        for (&other, times) in self.times {
            let place = &self.candidates[other].place;
            let pinning = place.of_region(id, self.home);
            if place.pages != base.pages || place.within != base.within || pinning == present {
                continue;
            }
            let Some(each) = times.each(id) else { continue };
            match places.iter_mut().find(|(known, _)| *known == pinning) {
                Some((_, longest)) => *longest = longest.max(each),
                None => places.push((pinning, each)),
            }
        }
        places.into_iter().min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// The best candidate with each region where it was fastest, and the expected gain over it, as a logarithm; `None` where
    /// that is not worth a trial.
    ///
    /// What is outside of these regions is pinned, too: the operating system would leave threads for a while where the last
    /// region had them.
    fn faster_apart(&self, best: usize) -> Option<(Placement, f64)> {
        let base = &self.candidates[best].place;
        let of_best = self.times.get(&best)?;
        let rest = base.pinning.as_ref().unwrap_or(self.home);
        let mut regions = base.regions.clone();
        let mut saved = 0.0;
        for (id, share) in of_best.that_matter() {
            let Some(now) = of_best.each(id).filter(|&each| each >= SHORTEST) else {
                continue;
            };
            let Some((pinning, each)) = self.fastest_elsewhere(base, id) else {
                continue;
            };
            if each > now * FASTER {
                continue;
            }
            saved += share * (1.0 - each / now);
            if pinning == rest {
                regions.remove(&id);
            } else {
                regions.insert(id, placed(pinning.clone()));
            }
        }
        let gain = -(1.0 - saved.min(0.99)).ln();
        let place = Placement {
            pinning: Some(rest.clone()),
            regions,
            ..base.clone()
        };
        (place.regions != base.regions && gain >= LEAST_GAIN).then_some((place, gain))
    }
}

impl Auto {
    /// The present window also timed regions.
    pub(super) fn time_regions(&mut self, sample: &Sample) {
        if self.options.asks(Source::Regions) && !sample.regions.is_empty() {
            let times = self.search.regions.entry(self.present).or_default();
            times.add(&self.first, sample);
        }
    }

    /// Proposes that each region runs where it was fastest, where that promises something.
    pub(super) fn propose_regions(&mut self, findings: &mut Vec<Finding>) {
        let best = self.search.best;
        // Only another best one, or what was tried since, can change the answer.
        let known = (best, self.search.regions.len());
        if self.search.regions_of.replace(known) == Some(known) {
            return;
        }
        let Some(home) = &self.home else { return };
        let candidates = &self.search.candidates;
        let tried = Tried {
            candidates,
            times: &self.search.regions,
            home,
        };
        let Some((place, gain)) = tried.faster_apart(best) else {
            return;
        };
        let over_unpinned = candidates[best].gain.filter(|_| best != UNPINNED);
        let expected = gain + over_unpinned.map_or(0.0, |gain| gain.log);
        let why = format!(
            "parallel regions took less time elsewhere: each where it was fastest, the program would take {:.3} of its time",
            (-gain).exp()
        );
        self.propose(place, ProposerCode::Regions, Some(expected.exp_m1()), why, findings);
    }

    /// Whether a candidate is tried at once, whatever trials have cost before: its gain follows from times that were measured,
    /// is large, and is not refuted by the turns so far.
    pub(super) fn is_sure_of_regions(&self, candidate: usize) -> bool {
        let one = &self.search.candidates[candidate];
        let best = self.search.candidates[self.search.best]
            .gain
            .map_or(0.0, |gain| gain.log);
        let gain = one.expected.map_or(0.0, |expected| expected - best);
        let trial = self.search.trial.as_ref();
        let ratio = trial.and_then(|trial| trial.expected(&self.search.noise));
        one.by == ProposerCode::Regions && gain >= SURE && ratio.is_some_and(|ratio| ratio >= 1.0)
    }

    /// What waits is tried with the regions where the best one has them: otherwise it would lose what these have gained.
    pub(super) fn keep_regions(&mut self, findings: &mut Vec<Finding>) {
        let best = self.search.candidates[self.search.best].place.clone();
        for position in 0..self.search.candidates.len() {
            let one = &self.search.candidates[position];
            let is_other = !matches!(one.by, ProposerCode::Regions | ProposerCode::User);
            let waits = matches!(one.state, State::Waiting | State::Later(_)) && position != UNPINNED;
            let mut regions = best.regions.clone();
            regions.retain(|_, own| own.pinning != one.place.pinning);
            let is_alike = one.place.pinning.is_some() && one.place.within == best.within;
            if !is_other || !waits || !is_alike || one.place.regions == regions {
                continue;
            }
            let place = Placement {
                regions,
                ..one.place.clone()
            };
            let (by, expected) = (one.by, one.expected.map(f64::exp_m1));
            let why = "it was proposed for the whole program, some of whose regions are faster elsewhere".to_owned();
            self.search.candidates[position].state = State::Out;
            self.propose(place, by, expected, why, findings);
        }
    }

    /// Another place for one of the regions that have their own, the longest one first: a placement with a name, or one of
    /// those that differ most, in which the region was not measured.
    pub(super) fn region_neighbour(&self, topology: &Topology) -> Option<(Placement, String)> {
        let home = self.home.as_ref()?;
        let base = &self.search.candidates[self.search.best].place;
        let of_best = self.search.regions.get(&self.search.best)?;
        let matter = of_best.that_matter().into_iter().map(|(id, _)| id);
        matter.filter(|id| base.regions.contains_key(id)).find_map(|id| {
            let was_tried = |pinning: &Pinning| {
                let mut candidates = self.search.candidates.iter();
                candidates.any(|one| one.place.of_region(id, home) == pinning)
            };
            let pinnings = self.of_topology(topology).into_iter();
            let mut pinnings = pinnings.filter_map(|one| one.place.pinning);
            let pinning = pinnings.find(|pinning| !was_tried(pinning))?;
            let mut place = base.clone();
            place.regions.insert(id, placed(pinning));
            Some((place, format!("region {id} was not tried there")))
        })
    }

    /// Reports what each region has in the placement that was chosen, where some of them have placements of their own, or had
    /// such before.
    pub(super) fn report_regions(&mut self, findings: &mut Vec<Finding>) {
        let best = self.search.best;
        let place = &self.search.candidates[best].place;
        if place.regions.is_empty() {
            if std::mem::take(&mut self.reported_regions) > 0 {
                findings.push(Finding::RegionsChosen {
                    pages: None,
                    gain: None,
                    program: None,
                    regions: vec![],
                });
            }
            return;
        }
        self.reported_regions = place.regions.len();
        let nothing = RegionTimes::default();
        let before = self.search.regions.get(&UNPINNED).unwrap_or(&nothing);
        let after = self.search.regions.get(&best).unwrap_or(before);
        let matter = if before.lasted > 0.0 { before } else { after };
        let choice = |(region, share): (RegionId, f64)| {
            let (code, why) = if place.regions.contains_key(&region) {
                (RegionCode::FastestTried, "it was fastest there of all that was tried")
            } else {
                (RegionCode::Program, "it runs where the rest of the program is")
            };
            RegionChoice {
                region,
                share,
                before: before.each(region),
                after: after.each(region),
                threads: None,
                pus: place.pinning_of_region(region).cloned(),
                prefetch: None,
                code,
                why: why.to_owned(),
            }
        };
        let regions: Vec<RegionChoice> = matter.that_matter().into_iter().map(choice).collect();
        let both = regions.iter().filter_map(|one| {
            let (before, after) = one.before.zip(one.after)?;
            Some((one.share, one.share * after / before))
        });
        let (old, new) = both.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        findings.push(Finding::RegionsChosen {
            pages: place.pages,
            gain: (new > 0.0).then(|| old / new - 1.0),
            program: self.search.candidates[best].gain.map(Gain::of_program),
            regions,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::region_times::EXECUTIONS;
    use super::*;
    use pinfold_core::{PageMapping, PuId, RegionSample};
    use std::time::Duration;

    fn pinning(first: u32) -> Pinning {
        Pinning::new((first..first + 4).map(PuId).collect()).unwrap()
    }

    fn unpinned() -> Candidate {
        Candidate::new(Placement::default())
    }

    fn pinned(first: u32) -> Candidate {
        Candidate::new(Placement::pinned(pinning(first)))
    }

    /// A second in which regions 1 and 2 took so long for ten executions each.
    fn times(one: f64, two: f64) -> RegionTimes {
        let mut times = RegionTimes::default();
        let region = |id, seconds| RegionSample {
            id: RegionId(id),
            executions: 10.0,
            seconds,
            counts: None,
        };
        let last = Sample {
            at: Duration::from_secs(1),
            regions: vec![region(1, one), region(2, two)],
            ..Sample::default()
        };
        times.add(&Sample::default(), &last);
        times
    }

    /// The placement of each region that has its own, by the first PU, and the gain.
    fn apart(candidates: &[Candidate], all: &[RegionTimes], best: usize) -> Option<(Vec<(u64, u32)>, f64)> {
        let times: BTreeMap<usize, RegionTimes> = all.iter().cloned().enumerate().collect();
        let home = pinning(100);
        let tried = Tried {
            candidates,
            times: &times,
            home: &home,
        };
        let (place, gain) = tried.faster_apart(best)?;
        let first = |own: &RegionConfiguration| own.pinning.as_ref().unwrap().pu(0).0;
        let regions = place.regions.iter().map(|(id, own)| (id.0, first(own))).collect();
        Some((regions, gain))
    }

    #[test]
    fn a_region_that_was_faster_elsewhere_goes_there_and_the_rest_stays() {
        let candidates = [unpinned(), pinned(0), pinned(4)];
        let all = [times(0.5, 0.5), times(0.4, 0.6), times(0.9, 0.1)];
        let (regions, gain) = apart(&candidates, &all, 1).unwrap();
        assert_eq!(regions, [(2, 4)]);
        assert!(
            (gain - -(0.5f64.ln())).abs() < 1e-12,
            "{gain}: half of the time is saved"
        );
    }

    #[test]
    fn beside_regions_with_their_own_places_an_unpinned_program_is_pinned_where_it_ran() {
        let candidates = [unpinned(), pinned(0)];
        let all = BTreeMap::from([(0, times(0.5, 0.5)), (1, times(0.9, 0.1))]);
        let home = pinning(100);
        let tried = Tried {
            candidates: &candidates,
            times: &all,
            home: &home,
        };
        let (place, _) = tried.faster_apart(UNPINNED).unwrap();
        assert_eq!(place.pinning, Some(pinning(100)));
        assert_eq!(place.regions.keys().collect::<Vec<_>>(), [&RegionId(2)]);
    }

    #[test]
    fn a_region_that_was_fastest_unpinned_goes_where_the_threads_ran_then() {
        let candidates = [unpinned(), pinned(0)];
        let (regions, _) = apart(&candidates, &[times(0.9, 0.1), times(0.3, 0.6)], 1).unwrap();
        assert_eq!(regions, [(2, 100)]);
    }

    #[test]
    fn what_is_short_rare_or_hardly_faster_stays() {
        let candidates = [unpinned(), pinned(0)];
        assert_eq!(apart(&candidates, &[times(0.5, 0.5), times(0.9, 0.49)], 0), None);
        assert_eq!(
            apart(&candidates, &[times(0.5, 0.009), times(0.9, 0.001)], 0),
            None,
            "less than a hundredth"
        );
        let short = |seconds| {
            let mut short = times(0.9, seconds);
            for total in short.regions.values_mut() {
                total.executions *= 1e5;
            }
            short
        };
        assert_eq!(apart(&candidates, &[short(0.1), short(0.01)], 0), None);
        let mut rare = times(0.5, 0.1);
        rare.regions.get_mut(&RegionId(2)).unwrap().executions = EXECUTIONS - 1.0;
        assert_eq!(apart(&candidates, &[times(0.5, 0.5), rare], 0), None);
    }

    #[test]
    fn times_with_other_pages_are_not_compared() {
        let mut interleaved = pinned(0);
        interleaved.place.pages = Some(PageMapping::Interleave);
        let all = [times(0.5, 0.5), times(0.9, 0.1)];
        assert_eq!(apart(&[unpinned(), interleaved], &all, 0), None);
        assert!(apart(&[unpinned(), pinned(0)], &all, 0).is_some());
    }

    #[test]
    fn a_place_where_a_region_was_slower_beside_others_counts_so() {
        // The third candidate is the second region where the second candidate had it, and there it is slow after the first.
        let mut own = pinned(4);
        own.place.regions.insert(RegionId(2), placed(pinning(0)));
        let candidates = [unpinned(), pinned(0), own];
        let all = [times(0.5, 0.5), times(0.9, 0.1), times(0.5, 0.6)];
        assert_eq!(apart(&candidates, &all, 0), None);
        assert!(apart(&candidates[..2], &all[..2], 0).is_some());
    }
}
