//! Who is asked about the program, and what is observed for them.

use super::policy::{Auto, UNPINNED, figure, usable};
use super::proposals::{self, Proposal};
use super::trial::{Place, State};
use crate::classify::{self, FEATURES, OF_MACHINE, Strategy, Unknown, observe};
use crate::observed::observed;
use pinfold_core::{
    Finding, ForecastCode, Observed, Pinning, ProposerCode, PuSet, Reason, Sample, SampleCode, TaskId, Topology,
    map_over_nodes,
};
use std::sync::Arc;

impl Auto {
    /// The sample that everybody is asked about: the baseline.
    pub(super) fn sample(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        let observed = self.observed(sample);
        let values = self.figures(topology, sample);
        let value = |name: &str| figure(&values, name);
        let mut proposed: Vec<Proposal> = vec![];
        let known = self.options.known.get(&self.threads).filter(|known| known.other_build);
        if let Some(known) = known
            && let Some(pinning) = known.pinning.clone().filter(|pinning| usable(Some(pinning), topology))
        {
            proposed.push(Proposal {
                pinning,
                by: ProposerCode::OtherBuild,
                gain: Some(known.gain),
                why: "another build of this program was fastest so".to_owned(),
            });
        }
        let mut says = None;
        if let Some(rules) = &self.options.rules
            && let Some((hint, proposal)) = proposals::of_rules(rules, &observed, topology, self.threads)
        {
            says = Some((hint, proposal.why.clone()));
            proposed.push(proposal);
        }
        proposed.extend(proposals::of_counts(value, topology, self.threads));
        if self.options.model.is_some()
            && self.observer.is_some()
            && let Some(pinning) = map_over_nodes(topology, self.threads, Strategy::DEFAULT.threads)
        {
            proposed.push(Proposal {
                pinning,
                by: ProposerCode::Classify,
                gain: None,
                why: format!("a placement model has to see the program in {} once", Strategy::DEFAULT),
            });
        }
        proposed.extend(proposals::of_topology(topology, self.threads));
        let (says, code, why) = match says {
            Some((hint, why)) => (Some(hint), SampleCode::Rule, why),
            None => (None, SampleCode::NoRules, "there are no rules to evaluate".to_owned()),
        };
        if self.present == UNPINNED {
            let reason = Reason::new(code, why);
            findings.push(Finding::Sampled {
                hint: None,
                pus: self.last_seen(sample),
                threads: self.threads,
                lasts: sample.at.saturating_sub(self.first.at),
                rate: self.measurement().rate,
                observed,
                says,
                code: reason.code,
                why: reason.why,
            });
        }
        for one in proposed {
            let place = Place {
                pinning: Some(one.pinning),
                pages: None,
            };
            self.propose(place, one.by, one.gain, one.why, findings);
        }
        if self.present != UNPINNED {
            // What runs now comes first.
            self.start_trial(UNPINNED, self.present);
        }
    }

    /// The position of a strategy's placement among the candidates; one that there cannot be where it is not among them.
    pub(super) fn position_of(&self, strategy: Strategy, topology: &Topology) -> usize {
        let pinning = map_over_nodes(topology, self.threads, strategy.threads);
        let place = Place { pinning, pages: None };
        let found = self.search.candidates.iter().position(|one| one.place == place);
        found.unwrap_or(usize::MAX)
    }

    /// The program was observed in the default strategy: a placement model is asked.
    pub(super) fn forecast(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        let Some(model) = &self.options.model else { return };
        self.search.forecast = true;
        let values = self.figures(topology, sample);
        let said = model.predict(|name| figure(&values, name), |name| OF_MACHINE.contains(&name));
        let (code, why, wanted) = match &said {
            Err(unknown) => {
                let code = match unknown {
                    Unknown::Missing(_) => ForecastCode::NotKnown,
                    Unknown::OtherMachine { .. } => ForecastCode::OtherMachine,
                };
                (code, unknown.to_string(), vec![])
            }
            Ok(prediction) => classify::verdict(prediction),
        };
        let observed = FEATURES.iter().zip(values).map(|(feature, value)| Observed {
            name: feature.name.to_owned(),
            unit: feature.meaning.to_owned(),
            value,
        });
        findings.push(Finding::Forecast {
            observed: observed.collect(),
            strategies: said.as_ref().map(classify::forecasts).unwrap_or_default(),
            code,
            why: why.clone(),
        });
        if code == ForecastCode::Insensitive {
            for candidate in &mut self.search.candidates {
                if matches!(candidate.state, State::Waiting) {
                    candidate.state = State::Out;
                }
            }
            self.search.insensitive = Some(why);
            return;
        }
        let Ok(said) = &said else { return };
        for strategy in wanted {
            let gain = said.strategies.iter().position(|one| *one == strategy);
            let gain = gain.map(|place| (-said.logs[place]).exp() - 1.0);
            let Some(pinning) = map_over_nodes(topology, self.threads, strategy.threads) else {
                continue;
            };
            let place = Place {
                pinning: Some(pinning),
                pages: None,
            };
            let why = format!("a placement model forecasts {strategy}: {why}");
            self.propose(place, ProposerCode::Classify, gain, why, findings);
        }
    }

    pub(super) fn observed(&self, sample: &Sample) -> Vec<Observed> {
        let counts = |id: TaskId| !self.working_tasks.is_left_alone(id);
        observed(&self.metrics, &self.first, sample, counts, self.threads)
    }

    /// The figures of the program and the machine that a placement model sees.
    pub(super) fn figures(&self, topology: &Topology, sample: &Sample) -> [Option<f64>; FEATURES.len()] {
        let anywhere = Arc::new(PuSet::new());
        let observer = self.observer.as_ref();
        let mut rates = observer
            .map(|observer| observer.rates(&self.first, sample, |_| Arc::clone(&anywhere)))
            .unwrap_or_default();
        rates.retain(|task| !self.working_tasks.is_left_alone(task.id));
        let lasts = sample.at.saturating_sub(self.first.at);
        observe(&rates, lasts, topology, &self.options.peaks)
    }

    /// The PUs on which the ranks were last seen; `None` where one of them is not known.
    pub(super) fn last_seen(&self, sample: &Sample) -> Option<Pinning> {
        let working = sample
            .tasks
            .iter()
            .filter(|task| task.alive && !self.working_tasks.is_left_alone(task.id));
        Pinning::new(
            working
                .take(self.threads)
                .map(|task| task.last_pu)
                .collect::<Option<_>>()?,
        )
    }
}
