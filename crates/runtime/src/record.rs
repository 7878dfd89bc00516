//! What a run leaves: everything that `--json` prints.

use crate::{MetricRate, Recorder, Totals};
use pinfold_core::hint::AffinityHint;
use pinfold_core::memory::{PageMoves, Profiled, Sampled};
use pinfold_core::{Applied, Configuration, Finding, Machine, Observed, Pinning, Refusal, Sample, Scope, TaskMove};
use serde::Serialize;
use std::time::Duration;

/// A whole run. Times are in seconds since the program began, rates in the metric's unit per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// The machine's name.
    pub machine: String,
    /// Whether it was simulated: then nothing here was measured.
    pub simulated: bool,
    /// The policy's name.
    pub policy: String,
    /// The metric that decided; `None` when no source counted anything.
    pub metric: Option<MetricRecord>,
    /// Why that metric, or why none.
    pub metric_why: Option<String>,
    /// The last search; its fields stand beside the others.
    #[serde(flatten)]
    pub search: Search,
    /// The searches before the last, the first one first.
    pub earlier_searches: Vec<Search>,
    /// The rate lines.
    pub rates: Vec<RateLine>,
    /// What the user was told besides.
    pub notes: Vec<TimedNote>,
    /// What the machine refused, each reason once.
    pub refused: Vec<Refusal>,
    /// What came of moving pages, each time that some were to be moved.
    pub page_moves: Vec<TimedMoves>,
    /// What was observed for a learned policy, and what it said; absent without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<HintSample>,
    /// The tasks that were moved by themselves, each time; absent where no policy does that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<TimedMove>,
    /// What came of sampling accesses, each time that this was done.
    pub page_samples: Vec<TimedSamples>,
    /// What came of bringing a recording's accesses to the program, each time that this was done.
    pub page_profiles: Vec<TimedProfile>,
    /// What the program's end cut short.
    pub ended_early: Option<EndedEarly>,
    /// How many tasks the program has had, threads and processes together.
    pub tasks: u64,
    /// How long the program ran; `None` while it does.
    pub ran: Option<f64>,
    /// How the program ended: its exit status, or 128 and the number of the signal; `None` while it runs.
    pub exit_status: Option<i32>,
    #[serde(skip)]
    metrics: Vec<pinfold_core::Metric>,
    #[serde(skip)]
    totals: Totals,
    /// The candidate to which the totals belong.
    #[serde(skip)]
    present: Option<usize>,
}

/// The metric that decided.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricRecord {
    /// The name that `--metric` takes.
    pub name: String,
    /// What one count is.
    pub unit: String,
    /// Whether a rate is the average of the working tasks or the program's.
    pub scope: Scope,
}

/// One search.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Search {
    /// How many tasks had ranks; `None` before it is known.
    pub threads: Option<usize>,
    /// Where the candidates came from.
    pub candidates_why: Option<String>,
    /// What was tried or was to be tried.
    pub candidates: Vec<Candidate>,
    /// The choice; `None` when there was none.
    pub chosen: Option<Chosen>,
}

/// One pinning and how it did. What was not measured is `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The PUs by rank; `None` for threads that are left to the operating system.
    pub pus: Option<Pinning>,
    /// The average rate.
    pub rate: Option<f64>,
    /// Coefficient of variation of the readings.
    pub spread: Option<f64>,
    /// For how long it was measured.
    pub measured: Option<f64>,
    /// Whether it was dropped before its time was up, because it had lost.
    pub dropped: bool,
    /// What every metric did meanwhile, the one that decides among them; empty before it was measured.
    pub metrics: Vec<MetricRate>,
}

/// The pinning that was kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chosen {
    /// Position among the candidates, from 0.
    pub candidate: usize,
    /// The PUs by rank; `None` for threads that are left to the operating system.
    pub pus: Option<Pinning>,
    /// Its rate.
    pub rate: Option<f64>,
    /// Coefficient of variation of its readings.
    pub spread: Option<f64>,
    /// Its rate over that of the first candidate, minus one.
    pub gain_over_first: Option<f64>,
    /// Its rate over that of the worst candidate, minus one.
    pub gain_over_worst: Option<f64>,
    /// When it was chosen.
    pub at: f64,
}

/// The rate after the choice, at the end of one `t`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateLine {
    /// When.
    pub at: f64,
    /// The average since the line before.
    pub rate: Option<f64>,
    /// Coefficient of variation of the readings.
    pub spread: Option<f64>,
    /// What every metric did meanwhile.
    pub metrics: Vec<MetricRate>,
}

/// Something that the user was told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedNote {
    /// When.
    pub at: f64,
    /// A whole sentence.
    pub text: String,
}

/// What came of moving pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedMoves {
    /// When it was done.
    pub at: f64,
    /// What came of it.
    #[serde(flatten)]
    pub moves: PageMoves,
}

/// One task that was moved by itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedMove {
    /// When.
    pub at: f64,
    /// From where to where, and why.
    #[serde(flatten)]
    pub moved: TaskMove,
}

/// What was observed of the program in the placement of an affinity hint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HintSample {
    /// When it ended.
    pub at: f64,
    /// The hint; `None` where threads were left to the operating system.
    pub hint: Option<AffinityHint>,
    /// Where the ranks were, or were last seen; `None` where that is not known.
    pub pus: Option<Pinning>,
    /// How many tasks had ranks.
    pub threads: usize,
    /// For how long, in seconds.
    pub lasted: f64,
    /// The rate of the metric that decides.
    pub rate: Option<f64>,
    /// Every metric.
    pub observed: Vec<Observed>,
    /// The hint that the rules asked for; `None` where none were asked.
    pub says: Option<AffinityHint>,
    /// Which rule said so, and the values that made it.
    pub why: String,
}

/// What came of sampling accesses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedSamples {
    /// When it was done.
    pub at: f64,
    /// What came of it.
    #[serde(flatten)]
    pub sampled: Sampled,
}

/// What came of bringing a recording's accesses to the program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedProfile {
    /// When it was done.
    pub at: f64,
    /// What came of it.
    #[serde(flatten)]
    pub profiled: Profiled,
}

/// What the end of the program cut short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndedEarly {
    /// The best candidate so far.
    pub best: Option<usize>,
    /// Its rate.
    pub rate: Option<f64>,
    /// A whole sentence.
    pub why: String,
}

impl Record {
    /// The record of a run of the policy of this name that is about to begin.
    pub fn new(machine: &impl Machine, policy: &str) -> Self {
        Self {
            machine: machine.topology().name().to_owned(),
            simulated: machine.simulated(),
            policy: policy.to_owned(),
            metric: None,
            metric_why: None,
            search: Search::default(),
            earlier_searches: vec![],
            rates: vec![],
            notes: vec![],
            refused: vec![],
            page_moves: vec![],
            samples: vec![],
            moves: vec![],
            page_samples: vec![],
            page_profiles: vec![],
            ended_early: None,
            tasks: 0,
            ran: None,
            exit_status: None,
            metrics: machine.metrics().to_vec(),
            totals: Totals::default(),
            present: None,
        }
    }

    /// Begins another search among `candidates`; what the one before has found is kept.
    fn search(&mut self, threads: Option<usize>, why: Option<String>, pinnings: Vec<Option<Pinning>>) {
        let candidates = pinnings.into_iter().map(|pus| Candidate {
            pus,
            rate: None,
            spread: None,
            measured: None,
            dropped: false,
            metrics: vec![],
        });
        let search = Search {
            threads,
            candidates_why: why,
            candidates: candidates.collect(),
            chosen: None,
        };
        let before = std::mem::replace(&mut self.search, search);
        if !before.candidates.is_empty() {
            self.earlier_searches.push(before);
        }
        self.present = None;
    }

    /// The totals are from now on those of this candidate.
    fn begin(&mut self, candidate: usize) {
        self.keep_totals();
        self.present = Some(candidate);
        self.totals.restart();
    }

    /// Keeps the totals of the candidate that is in force. That it has lost may only be found when others have run.
    fn keep_totals(&mut self) {
        if let Some(candidate) = self.present {
            self.search.candidates[candidate].metrics = self.totals.rates(&self.metrics);
        }
    }
}

impl Recorder for Record {
    fn sample(&mut self, sample: &Sample) {
        self.totals.add(sample);
        let newest = sample.tasks.iter().map(|task| task.id.serial + 1).max();
        self.tasks = self.tasks.max(newest.unwrap_or(0));
    }

    fn applied(&mut self, at: Duration, _configuration: &Configuration, applied: &Applied) {
        self.page_moves.extend(applied.pages.clone().map(|moves| TimedMoves {
            at: at.as_secs_f64(),
            moves,
        }));
        self.page_samples
            .extend(applied.sampled.clone().map(|sampled| TimedSamples {
                at: at.as_secs_f64(),
                sampled,
            }));
        let profiles = applied.profiled.iter().cloned();
        self.page_profiles.extend(profiles.map(|profiled| TimedProfile {
            at: at.as_secs_f64(),
            profiled,
        }));
    }

    fn refused(&mut self, _at: Duration, refusal: &Refusal) {
        self.refused.push(refusal.clone());
    }

    fn finding(&mut self, at: Duration, finding: &Finding) {
        let at = at.as_secs_f64();
        match finding.clone() {
            Finding::Initialising { .. } => {}
            Finding::Heat { candidate, .. }
            | Finding::WarmingUp { candidate, .. }
            | Finding::Probing { candidate, .. } => self.begin(candidate),
            Finding::MetricChosen { metric, why } => {
                self.totals.restart();
                self.metric_why = Some(why);
                self.metric = self
                    .metrics
                    .iter()
                    .find(|known| Some(&known.name) == metric.as_ref())
                    .map(|known| MetricRecord {
                        name: known.name.clone(),
                        unit: known.unit.clone(),
                        scope: known.scope,
                    });
            }
            Finding::CandidatesChosen { threads, pinnings, why } => {
                self.search(Some(threads), Some(why), pinnings);
            }
            Finding::Probed {
                candidate,
                rate,
                spread,
                measured,
                dropped,
            } => {
                let record = &mut self.search.candidates[candidate];
                record.rate = rate;
                record.spread = spread;
                record.measured = Some(measured.as_secs_f64());
                record.dropped = dropped;
                self.keep_totals();
            }
            Finding::Chosen {
                candidate,
                gain_over_first,
                gain_over_worst,
            } => {
                let record = &self.search.candidates[candidate];
                self.search.chosen = Some(Chosen {
                    candidate,
                    pus: record.pus.clone(),
                    rate: record.rate,
                    spread: record.spread,
                    gain_over_first,
                    gain_over_worst,
                    at,
                });
                self.totals.restart();
            }
            Finding::Rate { rate, spread } => {
                let metrics = self.totals.rates(&self.metrics);
                self.rates.push(RateLine {
                    at,
                    rate,
                    spread,
                    metrics,
                });
                self.totals.restart();
            }
            Finding::SearchAgain { chosen_at, now } => {
                self.notes.push(TimedNote {
                    at,
                    text: format!("The rate fell from {chosen_at} to {now}; the search began again."),
                });
                let pinnings = self.search.candidates.iter().map(|one| one.pus.clone()).collect();
                self.search(self.search.threads, self.search.candidates_why.clone(), pinnings);
            }
            Finding::EndedEarly { best, rate, why } => self.ended_early = Some(EndedEarly { best, rate, why }),
            Finding::Sampled {
                hint,
                pus,
                threads,
                lasts,
                rate,
                observed,
                says,
                why,
            } => self.samples.push(HintSample {
                at,
                hint,
                pus,
                threads,
                lasted: lasts.as_secs_f64(),
                rate,
                observed,
                says,
                why,
            }),
            Finding::Moved(moved) => self.moves.push(TimedMove { at, moved }),
            Finding::Note { text } => self.notes.push(TimedNote { at, text }),
        }
    }

    fn ended(&mut self, at: Duration, exit_status: i32) {
        self.ran = Some(at.as_secs_f64());
        self.exit_status = Some(exit_status);
    }
}
