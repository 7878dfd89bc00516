//! Who is asked about the program, and what is observed for them.

use super::candidates::State;
use super::candidates::UNPINNED;
use super::options::Source;
use super::placement::Placement;
use super::policy::Auto;
use super::proposals::{self, Proposal};
use crate::classify::{Answer, Figures, Pages, Strategy, ask, figure, figures};
use crate::rules::observed::observed;
use pinfold_core::{
    Finding, ForecastCode, Observed, PageMapping, ProposerCode, Sample, SampleCode, TaskId, Topology, map_over_nodes,
};

impl Auto {
    /// The sample that everybody is asked about: the baseline.
    pub(super) fn sample(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        let observed = self.observed(&self.first, sample);
        let seen = self.figures(topology, sample);
        let value = |name: &str| figure(&seen, name);
        let mut proposed: Vec<Proposal> = vec![];
        let known = self.options.known.get(&self.threads).filter(|known| known.other_build);
        if let Some(known) = known
            && self.may_follow(known, topology)
            && known.place() != Placement::default()
        {
            proposed.push(Proposal {
                place: known.place(),
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
        self.search.load = value("busiest_read_load");
        if self.options.asks(Source::Counts) && self.may_interleave(topology) {
            proposed.extend(proposals::of_imbalance(value));
        }
        proposed.extend(self.of_mapper(topology, sample));
        if self.options.model.is_some()
            && self.observer.is_some()
            && self.is_machine_known_to_model(&seen, findings)
            && let Some(pinning) = map_over_nodes(topology, self.threads, Strategy::DEFAULT.threads)
        {
            proposed.push(Proposal {
                place: Placement::pinned(pinning),
                by: ProposerCode::Classify,
                gain: None,
                why: format!("a placement model has to see the program in {} once", Strategy::DEFAULT),
            });
        }
        proposed.extend(self.of_topology(topology));
        if self.present == UNPINNED {
            let (says, code, why) = match says {
                Some((hint, why)) => (Some(hint), SampleCode::Rule, why),
                None => (None, SampleCode::NoRules, "there are no rules to evaluate".to_owned()),
            };
            findings.push(Finding::Sampled {
                hint: None,
                pus: self.working_tasks.last_seen(sample, self.threads),
                threads: self.threads,
                lasts: sample.at.saturating_sub(self.first.at),
                rate: self.measurement().rate,
                observed,
                says,
                code,
                why,
            });
        }
        for one in proposed {
            self.propose(one.place, one.by, one.gain, one.why, findings);
        }
        if self.present != self.search.best {
            // What runs now comes first.
            self.screen(self.search.best, self.present);
        }
    }

    /// The placements with a name, and those of the topology that differ most.
    pub(super) fn of_topology(&self, topology: &Topology) -> Vec<Proposal> {
        if !self.options.asks(Source::Topology) {
            return vec![];
        }
        let near = self.options.near.as_ref();
        let near = near.and_then(|near| Some((near, topology.clone().restricted_to(&near.pus).ok()?)));
        let near = near.into_iter().flat_map(|(near, machine)| {
            let proposals = proposals::of_topology(&machine, self.threads).into_iter();
            proposals.map(|mut one| {
                one.place.pages = near.pages;
                one
            })
        });
        near.chain(proposals::of_topology(topology, self.threads)).collect()
    }

    /// Whether a placement model can say anything at all on this machine: its figures are the same in any placement.
    fn is_machine_known_to_model(&mut self, seen: &Figures, findings: &mut Vec<Finding>) -> bool {
        let answer = ask(self.options.model.as_ref(), seen);
        let is_known = answer.said.is_some();
        if !is_known {
            self.search.forecast = true;
            findings.push(answer.finding(seen));
        }
        is_known
    }

    /// Whether the program runs where a placement model has to see it, and the model was not asked.
    pub(super) fn is_to_be_forecast(&self, topology: &Topology) -> bool {
        !self.search.forecast
            && self.options.model.is_some()
            && self.place().pages.is_none()
            && self.place().regions.is_empty()
            && self.place().pinning.is_some()
            && map_over_nodes(topology, self.threads, Strategy::DEFAULT.threads) == self.place().pinning
    }

    /// The program was observed in the default strategy: a placement model is asked.
    pub(super) fn forecast(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        self.search.forecast = true;
        let seen = self.figures(topology, sample);
        let answer = ask(self.options.model.as_ref(), &seen);
        findings.push(answer.finding(&seen));
        let Answer {
            said,
            code,
            why,
            wanted,
        } = answer;
        if code == ForecastCode::Insensitive {
            for candidate in &mut self.search.candidates {
                if matches!(candidate.state, State::Waiting) {
                    candidate.state = State::Out;
                }
            }
            self.search.insensitive = Some(why);
            return;
        }
        let Some(said) = said else { return };
        for strategy in wanted {
            let gain = said.strategies.iter().position(|one| *one == strategy);
            let gain = gain.map(|place| (-said.logs[place]).exp() - 1.0);
            let Some(pinning) = map_over_nodes(topology, self.threads, strategy.threads) else {
                continue;
            };
            let pages = match strategy.pages {
                Pages::FirstTouch => None,
                Pages::Interleave if self.may_interleave(topology) => Some(PageMapping::Interleave),
                Pages::Interleave => continue,
            };
            let place = Placement {
                pinning: Some(pinning),
                pages,
                ..Placement::default()
            };
            let why = format!("a placement model forecasts {strategy}: {why}");
            self.propose(place, ProposerCode::Classify, gain, why, findings);
        }
    }

    /// The rates of all metrics from the first to the second of these samples.
    pub(super) fn observed(&self, first: &Sample, last: &Sample) -> Vec<Observed> {
        let counts = |id: TaskId| !self.working_tasks.is_left_alone(id);
        observed(&self.metrics, first, last, counts, self.threads)
    }

    /// What a placement model sees of the present window.
    fn figures(&self, topology: &Topology, sample: &Sample) -> Figures {
        let between = (&self.first, sample);
        let peaks = &self.options.peaks;
        let works = |id| !self.working_tasks.is_left_alone(id);
        figures(self.observer.as_ref(), between, works, topology, peaks)
    }
}
