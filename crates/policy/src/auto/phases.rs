//! Phases of the program: the rates of all metrics in each placement, and the best placement.

use super::placement::Placement;

/// The logarithms of the rates of all metrics; `None` for a metric that counted nothing.
pub(super) type Signature = Vec<Option<f64>>;

/// Rates that differ by less than this are alike: 8 %.
const ALIKE: f64 = 0.08;

/// The most phases that are kept; the oldest one is dropped.
const MOST: usize = 16;

/// A phase that was searched.
#[derive(Clone, Debug)]
struct Phase {
    best: Placement,
    /// The signatures in the placements that ran in it.
    seen: Vec<(Placement, Signature)>,
}

/// All phases. The program is in the last one.
#[derive(Clone, Debug, Default)]
pub(super) struct Phases(Vec<Phase>);

fn are_alike(one: &Signature, other: &Signature) -> bool {
    let mut both = one
        .iter()
        .zip(other)
        .filter_map(|(one, other)| Some((*one)? - (*other)?));
    let mut compared = false;
    let alike = both.all(|difference| {
        compared = true;
        difference.abs() <= ALIKE
    });
    alike && compared
}

impl Phases {
    /// A new phase begins in this placement, with this signature if it is known.
    pub(super) fn begin(&mut self, best: Placement, seen: Option<Signature>) {
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(Phase {
            seen: seen.into_iter().map(|rates| (best.clone(), rates)).collect(),
            best,
        });
    }

    /// Sets the best placement of the phase.
    pub(super) fn choose(&mut self, best: Placement) {
        if let Some(present) = self.0.last_mut() {
            present.best = best;
        }
    }

    /// Notes the signature of the phase in a placement.
    pub(super) fn see(&mut self, place: Placement, signature: Signature) {
        if let Some(present) = self.0.last_mut() {
            present.seen.retain(|(other, _)| *other != place);
            present.seen.push((place, signature));
        }
    }

    /// Looks for a phase with this signature in this placement. If there is one, the program is in it now, and its best
    /// placement is returned.
    pub(super) fn recognise(&mut self, place: &Placement, signature: &Signature) -> Option<Placement> {
        let was = |phase: &Phase| {
            let mut seen = phase.seen.iter();
            seen.any(|(other, rates)| other == place && are_alike(rates, signature))
        };
        let known = self.0.iter().rposition(was)?;
        let phase = self.0.remove(known);
        let best = phase.best.clone();
        self.0.push(phase);
        Some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{Pinning, PuId};

    fn pinned(pu: u32) -> Placement {
        Placement {
            pinning: Pinning::new(vec![PuId(pu)]),
            ..Placement::default()
        }
    }

    #[test]
    fn a_phase_is_recognised_by_its_rates_in_the_same_placement() {
        let mut phases = Phases::default();
        phases.begin(pinned(1), None);
        phases.see(pinned(1), vec![Some(1.0), None]);
        phases.begin(pinned(1), Some(vec![Some(2.0), None]));
        phases.choose(pinned(2));
        phases.see(pinned(2), vec![Some(3.0), None]);
        assert_eq!(phases.recognise(&pinned(1), &vec![Some(2.05), None]), Some(pinned(2)));
        assert_eq!(
            phases.recognise(&pinned(1), &vec![Some(1.02), Some(9.0)]),
            Some(pinned(1))
        );
        assert_eq!(phases.recognise(&pinned(2), &vec![Some(1.0), None]), None);
    }

    #[test]
    fn without_a_rate_nothing_is_recognised() {
        let mut phases = Phases::default();
        phases.begin(pinned(1), None);
        phases.see(pinned(1), vec![None]);
        assert_eq!(phases.recognise(&pinned(1), &vec![None]), None);
    }

    #[test]
    fn the_oldest_phase_is_forgotten() {
        let mut phases = Phases::default();
        for number in 0..=u32::try_from(MOST).unwrap() {
            phases.begin(pinned(number), None);
            phases.see(pinned(100), vec![Some(f64::from(number))]);
        }
        assert_eq!(phases.recognise(&pinned(100), &vec![Some(0.0)]), None);
        assert_eq!(phases.recognise(&pinned(100), &vec![Some(1.0)]), Some(pinned(1)));
    }
}
