//! The sources of proposals: each is asked about the program as it was observed in the last window.
//!
//! 1. Another build of the program, learned rules for hints, uneven memory, SAM's mapper and the topology are asked
//!    after the baseline.
//! 2. The placement model knows programs in its default strategy. If it knows the machine, that strategy is a proposal.
//!    The model is asked about the program when it has run there.
//! 3. SAM's mapper is asked again about each placement that has become the best one.

use super::candidates::{Candidates, UNPINNED};
use super::known;
use super::mapper;
use super::options::{AutoOptions, Source, Space};
use super::pages;
use super::phases::Signature;
use super::placement::Placement;
use super::proposals::{self, Proposal};
use super::search::Search;
use crate::classify::{Answer, Figures, Pages, Strategy, ask, figure, figures};
use crate::program::observed_program::{Observation, ObservedProgram};
use crate::rules::observed::observed;
use crate::sam::Observer;
use pinfold_core::memory::main_memory;
use pinfold_core::{
    Finding, ForecastCode, Metric, Observed, PageMapping, ProposerCode, Sample, SampleCode, Topology, map_over_nodes,
};
use std::sync::Arc;

/// The program about which the sources are asked.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) options: &'a AutoOptions,
    pub(super) program: &'a ObservedProgram,
    /// The number of threads to place.
    pub(super) threads: usize,
}

impl Subject<'_> {
    /// The rates of all metrics from the first to the second sample.
    fn observed(self, first: &Sample, last: &Sample) -> Vec<Observed> {
        let works = |id| self.program.works(id);
        observed(self.program.metrics(), first, last, works, self.threads)
    }

    /// The same as a signature of the phase.
    pub(super) fn signature(self, first: &Sample, last: &Sample) -> Signature {
        let observed = self.observed(first, last);
        let log = |one: &Observed| Some(one.value.filter(|value| *value > 0.0)?.ln());
        observed.iter().map(log).collect()
    }

    /// The pinning of a strategy of the placement model; `None` if the machine has no such pinning.
    fn placement(self, topology: &Topology, strategy: Strategy) -> Option<Placement> {
        map_over_nodes(topology, self.threads, strategy.threads).map(Placement::pinned)
    }
}

/// What the sources have said in one search.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// `None` if the events of SAM's mapper and the model are not counted.
    observer: Option<Observer>,
    /// The candidate about which SAM's mapper was asked last.
    mapped: Option<usize>,
    /// Whether the placement model was asked.
    is_model_asked: bool,
    /// The model's reason why placement does not matter.
    insensitive: Option<String>,
    /// What the busiest node's memory carried in the baseline, as a share of its bandwidth; `None` if it is not known.
    load: Option<f64>,
}

impl Asking {
    /// The program starts. `metrics` are the machine's.
    pub(super) fn start(&mut self, options: &AutoOptions, metrics: &[Metric]) {
        // Without an event its figures are missing, and the model says so.
        let events = options.counts.events.as_ref();
        self.observer = events.and_then(|events| Observer::new(events, metrics).ok());
    }

    /// Forgets all answers, because a list of candidates begins.
    pub(super) fn restart(&mut self) {
        *self = Self {
            observer: self.observer.take(),
            ..Self::default()
        };
    }

    /// The choice is given: the model is not asked.
    pub(super) fn settle(&mut self) {
        self.is_model_asked = true;
    }

    /// The model's reason why placement does not matter; `None` if it did not say so.
    pub(super) fn insensitive(&self) -> Option<&str> {
        self.insensitive.as_deref()
    }

    /// What the busiest node's memory carried in the baseline, as a share of its bandwidth; `None` if it is not known.
    pub(super) fn load(&self) -> Option<f64> {
        self.load
    }

    /// Whether interleaving pages may help on this machine.
    pub(super) fn may_interleave(&self, options: &AutoOptions, topology: &Topology) -> bool {
        self.insensitive.is_none() && options.space == Space::Everything && can_interleave(options, topology)
    }

    /// Asks all sources about the baseline.
    pub(super) fn ask_all(&mut self, subject: Subject<'_>, search: &mut Search, seen: &mut Observation<'_>) {
        let Subject {
            options,
            program,
            threads,
        } = subject;
        let topology = seen.topology();
        let observed = subject.observed(program.first(), seen.sample());
        let figures = self.figures(subject, seen);
        let value = |name: &str| figure(&figures, name);
        let mut proposed: Vec<Proposal> = known::other_build(options, topology, threads).into_iter().collect();
        let rules = options.learned.rules.as_ref();
        let by_rules = rules.and_then(|rules| proposals::from_rules(rules, &observed, topology, threads));
        let (says, code, why) = match &by_rules {
            Some((hint, proposal)) => (Some(*hint), SampleCode::Rule, proposal.why.clone()),
            None => (None, SampleCode::NoRules, "there are no rules to evaluate".to_owned()),
        };
        proposed.extend(by_rules.map(|(_, proposal)| proposal));
        self.load = value("busiest_read_load");
        if options.asks(Source::Counts) && self.may_interleave(options, topology) {
            proposed.extend(proposals::from_imbalance(value));
        }
        proposed.extend(self.ask_mapper(subject, search.candidates(), seen));
        proposed.extend(self.default_strategy(subject, &figures, seen));
        let of_topology = topology_proposals(options, topology, threads);
        let first = of_topology.first().map(|one| one.placement.clone());
        proposed.extend(of_topology);
        let may_help = !pages::is_idle(self.load) && !proposals::is_even(value);
        if self.may_interleave(options, topology) && may_help {
            let placements = [Some(Placement::default()), first].into_iter().flatten();
            proposed.extend(placements.map(pages::interleaved));
        }
        if search.candidates().running() == UNPINNED {
            let sampled = Finding::Sampled {
                hint: None,
                pus: program.last_seen(seen, threads),
                threads,
                lasts: seen.at().saturating_sub(program.first().at),
                rate: program.measurement().rate,
                observed,
                says,
                code,
                why,
            };
            seen.report(sampled);
        }
        for one in proposed {
            search.propose(one, seen.findings());
        }
        search.try_running();
    }

    /// Asks SAM's mapper about the last window, once for each placement that is the best one.
    pub(super) fn ask_mapper(
        &mut self,
        subject: Subject<'_>,
        candidates: &Candidates,
        seen: &Observation<'_>,
    ) -> Option<Proposal> {
        let running = candidates.running();
        if !candidates.is_best_running() || self.mapped.replace(running) == Some(running) {
            return None;
        }
        let options = subject.options;
        let thresholds = options
            .counts
            .thresholds
            .as_ref()
            .filter(|_| options.asks(Source::Counts))?;
        let topology = seen.topology();
        let allowed = Arc::new(topology.allowed_pus().clone());
        let observer = self.observer.as_ref()?;
        let mut rates = observer.rates(subject.program.first(), seen.sample(), |_| Arc::clone(&allowed));
        rates.retain(|task| subject.program.works(task.id));
        let ranks: Vec<_> = subject
            .program
            .ranks(seen, subject.threads)
            .map(|task| task.id)
            .collect();
        let proposal = mapper::proposal(topology, thresholds, &rates, &ranks)?;
        let pages = candidates.running_placement().pages;
        Some(Proposal {
            placement: proposal.placement.with_pages(pages),
            ..proposal
        })
    }

    /// The default strategy of the placement model, if the model knows the machine. These figures are the same in any
    /// placement.
    fn default_strategy(
        &mut self,
        subject: Subject<'_>,
        figures: &Figures,
        seen: &mut Observation<'_>,
    ) -> Option<Proposal> {
        subject.options.learned.model.as_ref()?;
        self.observer.as_ref()?;
        let answer = ask(subject.options.learned.model.as_ref(), figures);
        if answer.said.is_none() {
            self.is_model_asked = true;
            seen.report(answer.finding(figures));
            return None;
        }
        Some(Proposal {
            placement: subject.placement(seen.topology(), Strategy::DEFAULT)?,
            by: ProposerCode::Classify,
            gain: None,
            why: format!("a placement model has to see the program in {} once", Strategy::DEFAULT),
        })
    }

    /// Whether the program runs in the model's default strategy and the model was not asked.
    pub(super) fn is_model_due(&self, subject: Subject<'_>, placement: &Placement, topology: &Topology) -> bool {
        !self.is_model_asked
            && subject.options.learned.model.is_some()
            && placement.pages.is_none()
            && placement.regions.is_empty()
            && placement.pinning.is_some()
            && map_over_nodes(topology, subject.threads, Strategy::DEFAULT.threads) == placement.pinning
    }

    /// Asks the placement model about the program in its default strategy.
    pub(super) fn ask_model(&mut self, subject: Subject<'_>, search: &mut Search, seen: &mut Observation<'_>) {
        self.is_model_asked = true;
        let topology = seen.topology();
        let figures = self.figures(subject, seen);
        let answer = ask(subject.options.learned.model.as_ref(), &figures);
        seen.report(answer.finding(&figures));
        let Answer {
            said,
            code,
            why,
            wanted,
        } = answer;
        if code == ForecastCode::Insensitive {
            search.drop_waiting();
            self.insensitive = Some(why);
            return;
        }
        let Some(said) = said else { return };
        for strategy in wanted {
            let position = said.strategies.iter().position(|one| *one == strategy);
            let gain = position.map(|position| (-said.logs[position]).exp() - 1.0);
            let Some(placement) = subject.placement(topology, strategy) else {
                continue;
            };
            let pages = match strategy.pages {
                Pages::FirstTouch => None,
                Pages::Interleave if can_interleave(subject.options, topology) => Some(PageMapping::Interleave),
                Pages::Interleave => continue,
            };
            let proposal = Proposal {
                placement: placement.with_pages(pages),
                by: ProposerCode::Classify,
                gain,
                why: format!("a placement model forecasts {strategy}: {why}"),
            };
            search.propose(proposal, seen.findings());
        }
    }

    /// The figures of the placement model in the last window.
    fn figures(&self, subject: Subject<'_>, seen: &Observation<'_>) -> Figures {
        figures(
            self.observer.as_ref(),
            (subject.program.first(), seen.sample()),
            |id| subject.program.works(id),
            seen.topology(),
            &subject.options.counts.peaks,
        )
    }
}

/// Whether pages may move, and there are several nodes for them.
fn can_interleave(options: &AutoOptions, topology: &Topology) -> bool {
    options.moves_pages && main_memory(topology).len() > 1
}

/// The candidates of a view. For `auto`, the placements with a name and those that differ most; near a device they come
/// first on its CPUs, with its pages.
pub(super) fn topology_proposals(options: &AutoOptions, topology: &Topology, threads: usize) -> Vec<Proposal> {
    match options.space {
        Space::Hints => return proposals::hints(topology, threads),
        Space::Strategies => return proposals::strategies(topology, threads, can_interleave(options, topology)),
        Space::Everything if !options.asks(Source::Topology) => return vec![],
        Space::Everything => {}
    }
    let near = options.near.as_ref();
    let near = near.and_then(|near| Some((near, topology.clone().restricted_to(&near.pus).ok()?)));
    let near = near.into_iter().flat_map(|(near, machine)| {
        let proposals = proposals::from_topology(&machine, threads).into_iter();
        proposals.map(|one| Proposal {
            placement: one.placement.with_pages(near.pages),
            ..one
        })
    });
    near.chain(proposals::from_topology(topology, threads)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{NodeId, NumaNode, PuId, TopologyBuilder};

    #[test]
    fn pages_are_not_interleaved_onto_the_memory_of_a_gpu() {
        let machine = |subtype: Option<&str>| {
            let mut builder = TopologyBuilder::new("one node and another");
            let root = builder.root();
            for pu in 0..2 {
                builder.pu(root, PuId(pu));
            }
            for (id, pus, subtype) in [(0, "0", None), (1, "1", subtype)] {
                builder.node(NumaNode {
                    id: NodeId(id),
                    attached_to: root,
                    pus: pus.parse().unwrap(),
                    memory: Some(1 << 30),
                    subtype: subtype.map(str::to_owned),
                });
            }
            builder.build_all().unwrap()
        };
        let options = AutoOptions {
            moves_pages: true,
            ..AutoOptions::default()
        };
        let asking = Asking::default();
        assert!(asking.may_interleave(&options, &machine(None)));
        assert!(!asking.may_interleave(&options, &machine(Some("GPUMemory"))));
    }
}
