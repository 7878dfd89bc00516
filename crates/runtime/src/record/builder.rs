//! Builds the record of a run from its events.

use super::timeline::TimelineBuilder;
use super::{
    Candidate, CandidateRegion, Chosen, Comparison, EndedEarly, MetricRecord, Proposal, RateLine, Record, Search,
    TimedBelief, TimedMoves, TimedNote, TimedProfile, TimedSamples,
};
use crate::Totals;
use pinfold_core::function::FoundFunction;
use pinfold_core::{
    Applied, BelievedTrial, ChoiceCode, Configuration, Finding, Machine, Metric, MetricCode, NodeId, NoteCode,
    PageMapping, Pinning, Refusal, RegionConfiguration, Sample, Scope, sources,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Adds each event of a run to its record. The loop does so before it passes the event to recorders.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordBuilder {
    record: Record,
    metrics: Vec<Metric>,
    totals: Totals,
    /// The candidate of the totals.
    present: Option<usize>,
    /// The candidate whose configuration is applied.
    tried: Option<usize>,
    /// Why no thread is pinned although a policy requested it; `None` if its request was applied.
    not_pinned: Option<String>,
    /// `None` without a time line.
    timeline: Option<TimelineBuilder>,
}

impl RecordBuilder {
    /// Begins the record of a run of the policy of this name.
    pub fn new(machine: &impl Machine, policy: &str) -> Self {
        let record = Record {
            machine: machine.topology().name().to_owned(),
            simulated: !machine.kind().is_live(),
            machine_kind: machine.kind(),
            policy: policy.to_owned(),
            ..Record::default()
        };
        Self {
            record,
            metrics: machine.metrics().to_vec(),
            totals: Totals::default(),
            present: None,
            tried: None,
            not_pinned: None,
            timeline: None,
        }
    }

    /// The record will have a time line of the run.
    #[must_use]
    pub fn with_timeline(mut self, machine: &impl Machine) -> Self {
        self.timeline = Some(TimelineBuilder::new(machine.topology(), &self.metrics));
        self
    }

    /// The record so far, without a time line.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The record of the run, which has ended.
    pub fn finish(mut self) -> Record {
        self.record.timeline = self.timeline.map(TimelineBuilder::finish);
        self.record
    }

    /// Begins another search among `pinnings`; the results of the search before are kept.
    fn search(&mut self, threads: Option<usize>, pinnings: Vec<Option<Pinning>>) {
        let candidates = pinnings.into_iter().map(candidate);
        let search = Search {
            threads,
            candidates: candidates.collect(),
            ..Search::default()
        };
        let before = std::mem::replace(&mut self.record.search, search);
        if !before.candidates.is_empty() {
            self.record.earlier_searches.push(before);
        }
        self.present = None;
        self.tried = None;
    }

    /// The totals belong to this candidate from now on.
    fn begin(&mut self, candidate: usize) {
        self.keep_totals();
        self.present = Some(candidate);
        self.tried = Some(candidate);
        self.totals.restart();
    }

    /// Keeps the totals of the running candidate. Whether it has lost may be known only after others have run.
    fn keep_totals(&mut self) {
        if let Some(candidate) = self.present {
            self.record.search.candidates[candidate].metrics = self.totals.rates(&self.metrics);
        }
    }

    /// The counts were read. Returns whether the time line has a point there, which `memory` completes.
    pub(crate) fn sample(&mut self, sample: &Sample) -> bool {
        self.totals.add(sample);
        let newest = sample.tasks.iter().map(|task| task.id.serial + 1).max();
        self.record.program.tasks = self.record.program.tasks.max(newest.unwrap_or(0));
        self.timeline.as_mut().is_some_and(|line| line.sample(sample))
    }

    /// The program's memory by node, at the last point of the time line.
    pub(crate) fn memory(&mut self, by_node: &BTreeMap<NodeId, u64>) {
        if let Some(line) = &mut self.timeline {
            line.memory(by_node);
        }
    }

    /// The bytes that the memory of each node has carried, at the last point of the time line.
    pub(crate) fn traffic(&mut self, by_node: &BTreeMap<NodeId, f64>) {
        if let Some(line) = &mut self.timeline {
            line.traffic(by_node);
        }
    }

    /// The candidate with this configuration: the last one that was tried, or the chosen one again, whose pages go back
    /// to where they were.
    fn applied_candidate(&self, configuration: &Configuration) -> Option<usize> {
        let search = &self.record.search;
        let moves = |candidate: usize| search.candidates.get(candidate).is_some_and(|one| one.pages.is_some());
        let goes_back = configuration.pages == Some(PageMapping::FirstTouch) && self.tried.is_some_and(moves);
        let chosen = search.chosen.as_ref().map(|chosen| chosen.candidate);
        chosen.filter(|&chosen| goes_back && !moves(chosen)).or(self.tried)
    }

    /// The machine has applied a configuration.
    pub(crate) fn applied(&mut self, at: Duration, configuration: &Configuration, applied: &Applied) {
        let search = self.record.earlier_searches.len();
        let candidate = self.applied_candidate(configuration).map(|one| (search, one));
        let done = applied
            .instead
            .as_ref()
            .map_or(configuration, |instead| &instead.configuration);
        if let Some(line) = &mut self.timeline {
            line.applied(at, candidate, done);
        }
        if configuration.pins() {
            self.not_pinned = applied.instead.as_ref().map(|instead| instead.why.clone());
            self.note_whether_pinned();
        }
        self.record
            .pages
            .page_moves
            .extend(applied.pages.clone().map(|moves| TimedMoves {
                at: at.as_secs_f64(),
                moves,
            }));
        self.record
            .pages
            .page_samples
            .extend(applied.sampled.clone().map(|sampled| TimedSamples {
                at: at.as_secs_f64(),
                sampled,
            }));
        let profiles = applied.profiled.iter().cloned();
        self.record
            .pages
            .page_profiles
            .extend(profiles.map(|profiled| TimedProfile {
                at: at.as_secs_f64(),
                profiled,
            }));
    }

    /// The candidate that was applied last, or that is the only one, was pinned or not.
    fn note_whether_pinned(&mut self) {
        let search = &mut self.record.search;
        let only = (search.candidates.len() == 1).then_some(0);
        let Some(place) = self.tried.or(only) else { return };
        let Some(candidate) = search.candidates.get_mut(place) else {
            return;
        };
        if candidate.pus.is_some() || !candidate.regions.is_empty() {
            candidate.not_pinned.clone_from(&self.not_pinned);
            if let Some(chosen) = search.chosen.as_mut().filter(|chosen| chosen.candidate == place) {
                chosen.pus = candidate.placed().cloned();
            }
        }
    }

    /// The machine refused a change, for a reason that is new in this run.
    pub(crate) fn refused(&mut self, refusal: &Refusal) {
        self.record.refused.push(refusal.clone());
    }

    /// The policy has a finding.
    pub(crate) fn finding(&mut self, at: Duration, finding: &Finding) {
        let at = at.as_secs_f64();
        match finding.clone() {
            Finding::Initialising { .. } => {}
            Finding::Screening { candidate, .. }
            | Finding::WarmingUp { candidate, .. }
            | Finding::Probing { candidate, .. } => self.begin(candidate),
            Finding::MetricChosen {
                metric,
                code,
                why,
                function,
            } => self.metric_chosen(metric.as_deref(), code, why, function),
            Finding::CandidatesChosen {
                threads,
                pinnings,
                code,
                why,
            } => {
                self.search(Some(threads), pinnings);
                self.record.search.candidates_code = Some(code);
                self.record.search.candidates_why = Some(why);
                self.note_whether_pinned();
            }
            Finding::Believed(trial) => self.believed(at, trial),
            proposed @ Finding::Proposed { .. } => self.proposed(at, proposed),
            compared @ Finding::Compared { .. } => self.compared(at, &compared),
            Finding::Probed {
                candidate,
                rate,
                spread,
                error,
                measured,
                dropped,
            } => {
                self.record.search.candidates[candidate].error = error;
                self.probed(candidate, rate, spread, measured, dropped);
            }
            Finding::Chosen {
                candidate,
                gain_over_first,
                gain_over_worst,
                code,
                why,
            } => self.chosen(at, candidate, [gain_over_first, gain_over_worst], code, why),
            Finding::Rate { rate, spread } => self.rate(at, rate, spread),
            Finding::SearchAgain { chosen_at, now } => self.search_again(at, chosen_at, now),
            Finding::EndedEarly { best, rate, code, why } => {
                self.record.program.ended_early = Some(EndedEarly { best, rate, code, why });
            }
            own @ (Finding::NothingToGain { .. }
            | Finding::Sampled { .. }
            | Finding::Forecast { .. }
            | Finding::RegionsChosen { .. }
            | Finding::Moved(_)
            | Finding::MappingCompared(_)
            | Finding::Own(_)) => self.record.by_policy.add(at, own),
            Finding::Note { code, text } => self.record.notes.push(TimedNote { at, code, text }),
        }
    }

    fn proposed(&mut self, at: f64, finding: Finding) {
        let Finding::Proposed {
            pus,
            within,
            pages,
            regions,
            by,
            gain,
            why,
        } = finding
        else {
            return;
        };
        self.record.by_policy.proposals.push(Proposal {
            at,
            search: self.record.earlier_searches.len(),
            candidate: self.record.search.candidates.len(),
            by,
            pages,
            gain,
            why,
        });
        let region = |(region, wanted): (_, RegionConfiguration)| CandidateRegion {
            region,
            pus: wanted.pinning,
        };
        self.record.search.candidates.push(Candidate {
            within,
            pages,
            regions: regions.into_iter().map(region).collect(),
            ..candidate(pus)
        });
    }

    fn compared(&mut self, at: f64, finding: &Finding) {
        let Finding::Compared {
            candidate,
            with,
            gain,
            error,
            turns,
            rate,
            measured,
            code,
        } = *finding
        else {
            return;
        };
        self.record.by_policy.comparisons.push(Comparison {
            at,
            search: self.record.earlier_searches.len(),
            candidate,
            with,
            gain,
            error,
            turns,
            code,
        });
        self.probed(candidate, rate, None, measured, false);
    }

    fn believed(&mut self, at: f64, trial: BelievedTrial) {
        let search = self.record.earlier_searches.len();
        self.record.by_policy.beliefs.push(TimedBelief { at, search, trial });
    }

    fn metric_chosen(&mut self, metric: Option<&str>, code: MetricCode, why: String, function: Option<FoundFunction>) {
        self.totals.restart();
        self.record.metric_reason.metric_code = Some(code);
        self.record.metric_reason.metric_why = Some(why);
        let known = self.metrics.iter().find(|known| Some(known.name.as_str()) == metric);
        // No machine counts whole runs.
        let of_runs = (metric == Some(sources::RUN.code)).then(|| sources::RUN.metric(Scope::Program));
        self.record.metric = known.cloned().or(of_runs).map(|known| MetricRecord {
            name: known.name,
            unit: known.unit,
            scope: known.scope,
            function,
        });
    }

    fn probed(&mut self, candidate: usize, rate: Option<f64>, spread: Option<f64>, measured: Duration, dropped: bool) {
        let record = &mut self.record.search.candidates[candidate];
        record.rate = rate;
        record.spread = spread;
        record.measured = Some(measured.as_secs_f64());
        record.dropped = dropped;
        // The program ended before its first probe.
        self.present.get_or_insert(candidate);
        self.keep_totals();
    }

    fn chosen(&mut self, at: f64, candidate: usize, gains: [Option<f64>; 2], code: ChoiceCode, why: String) {
        let [gain_over_first, gain_over_worst] = gains;
        self.tried = Some(candidate);
        let record = &self.record.search.candidates[candidate];
        self.record.search.chosen = Some(Chosen {
            candidate,
            pus: record.placed().cloned(),
            within: record.within.clone(),
            rate: record.rate,
            spread: record.spread,
            gain_over_first,
            gain_over_worst,
            at,
            code,
            why: Some(why),
        });
        self.totals.restart();
    }

    fn rate(&mut self, at: f64, rate: Option<f64>, spread: Option<f64>) {
        let metrics = self.totals.rates(&self.metrics);
        self.record.rates.push(RateLine {
            at,
            rate,
            spread,
            metrics,
        });
        self.totals.restart();
    }

    fn search_again(&mut self, at: f64, chosen_at: f64, now: f64) {
        self.record.notes.push(TimedNote {
            at,
            code: NoteCode::SearchAgain,
            text: format!("The rate fell from {chosen_at} to {now}; the search began again."),
        });
        let before = &self.record.search;
        let (threads, code, why) = (before.threads, before.candidates_code, before.candidates_why.clone());
        let pinnings = before.candidates.iter().map(|one| one.pus.clone()).collect();
        self.search(threads, pinnings);
        self.record.search.candidates_code = code;
        self.record.search.candidates_why = why;
    }

    /// The run is over: the program has ended with this exit status, or runs on.
    pub(crate) fn ended(&mut self, at: Duration, exit_status: Option<i32>) {
        self.record.program.ran = Some(at.as_secs_f64());
        self.record.program.exit_status = exit_status;
    }
}

/// A candidate that was not measured yet.
fn candidate(pus: Option<Pinning>) -> Candidate {
    Candidate {
        pus,
        within: None,
        pages: None,
        regions: vec![],
        rate: None,
        spread: None,
        error: None,
        measured: None,
        dropped: false,
        not_pinned: None,
        metrics: vec![],
    }
}
