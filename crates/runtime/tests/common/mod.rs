//! What the tests of the loop share: a machine with eight PUs, and a recorder that keeps everything with its time.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use pinfold_core::{
    Applied, Cache, CacheType, Configuration, Finding, Machine, ObjectKind, Pinning, PuId, PuSet, Refusal, Sample,
    Topology, TopologyBuilder,
};
use pinfold_policy::{Autopin, Candidates, MetricRequest, Options, Policy, Search, Skip, Times, Watch};
use pinfold_runtime::{Record, RecordBuilder, Recorder, RunDocument};
use pinfold_sim::Scripted;
use std::time::Duration;

/// Two packages, each with one L3 over four cores of one PU; 0 to 3 are in the first package.
pub(crate) fn topology() -> Topology {
    let mut builder = TopologyBuilder::new("two packages");
    let root = builder.root();
    for package in 0..2 {
        let object = builder.object(root, ObjectKind::Package, Some(package));
        let l3 = builder.cache(
            object,
            Cache {
                level: 3,
                cache_type: CacheType::Unified,
                size: Some(8 << 20),
                line_size: Some(64),
                ways: Some(16),
            },
        );
        for core in 0..4 {
            let index = 4 * package + core;
            let core = builder.object(l3, ObjectKind::Core, Some(index));
            builder.pu(core, PuId(index));
        }
    }
    builder.build_all().unwrap()
}

pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub(crate) fn pinning(list: &str) -> Pinning {
    Pinning::new(PuSet::parse_ordered(list).unwrap()).unwrap()
}

pub(crate) fn scripted(script: &str) -> Scripted {
    Scripted::new(script.parse().unwrap(), topology()).unwrap()
}

/// A script without its topology, which is always that of `topology()`.
pub(crate) fn script(rest: &str) -> String {
    format!("topology = \"synthetic:package:2 l3:1 core:4 pu:1\"\n{rest}")
}

/// A search among these pinnings as the paper has it: t = 30 s, w = 15 s, i = 15 s, never again after the choice.
pub(crate) fn schedule(pinnings: &[&str]) -> Options {
    Options {
        times: Times::default(),
        search: Search::Exhaustive,
        candidates: Candidates::Schedule(pinnings.iter().map(|list| pinning(list)).collect()),
        threads: None,
        skip: Skip::default(),
        metric: MetricRequest::Auto,
        watch: None,
    }
}

/// The same, which searches again when the rate falls.
pub(crate) fn watched(pinnings: &[&str]) -> Options {
    Options {
        watch: Some(Watch::default()),
        ..schedule(pinnings)
    }
}

/// Everything that a recorder hears.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) findings: Vec<(f64, Finding)>,
    pub(crate) applied: Vec<(f64, Configuration, Applied)>,
    pub(crate) refused: Vec<Refusal>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) ended: Option<(f64, i32)>,
}

impl Recorder for Log {
    fn sample(&mut self, sample: &Sample) {
        self.samples.push(sample.clone());
    }

    fn applied(&mut self, at: Duration, configuration: &Configuration, applied: &Applied) {
        self.applied
            .push((at.as_secs_f64(), configuration.clone(), applied.clone()));
    }

    fn refused(&mut self, _at: Duration, refusal: &Refusal) {
        self.refused.push(refusal.clone());
    }

    fn finding(&mut self, at: Duration, finding: &Finding, _record: &Record) {
        self.findings.push((at.as_secs_f64(), finding.clone()));
    }

    fn ended(&mut self, at: Duration, exit_status: Option<i32>, _record: &Record) {
        self.ended = exit_status.map(|exit_status| (at.as_secs_f64(), exit_status));
    }
}

impl Log {
    /// The times and candidates of the probes' ends, with their rates and whether they were dropped.
    pub(crate) fn probes(&self) -> Vec<(f64, usize, Option<f64>, bool)> {
        let probed = |(at, finding): &(f64, Finding)| match finding {
            Finding::Probed {
                candidate,
                rate,
                dropped,
                ..
            } => Some((*at, *candidate, *rate, *dropped)),
            _ => None,
        };
        self.findings.iter().filter_map(probed).collect()
    }

    /// The choices and when they were made.
    pub(crate) fn choices(&self) -> Vec<(f64, usize)> {
        let chosen = |(at, finding): &(f64, Finding)| match finding {
            Finding::Chosen { candidate, .. } => Some((*at, *candidate)),
            _ => None,
        };
        self.findings.iter().filter_map(chosen).collect()
    }

    /// The rate lines.
    pub(crate) fn lines(&self) -> Vec<(f64, Option<f64>)> {
        let line = |(at, finding): &(f64, Finding)| match finding {
            Finding::Rate { rate, .. } => Some((*at, *rate)),
            _ => None,
        };
        self.findings.iter().filter_map(line).collect()
    }

    /// When the search began again because the rate had fallen.
    pub(crate) fn searches_again(&self) -> Vec<f64> {
        let again = |(at, finding): &(f64, Finding)| matches!(finding, Finding::SearchAgain { .. }).then_some(*at);
        self.findings.iter().filter_map(again).collect()
    }

    /// The notes.
    pub(crate) fn notes(&self) -> Vec<String> {
        let note = |(_, finding): &(f64, Finding)| match finding {
            Finding::Note { text, .. } => Some(text.clone()),
            _ => None,
        };
        self.findings.iter().filter_map(note).collect()
    }

    /// The numbers of threads for which candidates were made, and when.
    pub(crate) fn threads(&self) -> Vec<(f64, usize)> {
        let chosen = |(at, finding): &(f64, Finding)| match finding {
            Finding::CandidatesChosen { threads, .. } => Some((*at, *threads)),
            _ => None,
        };
        self.findings.iter().filter_map(chosen).collect()
    }

    /// For how many seconds the program was not pinned.
    pub(crate) fn seconds_unpinned(&self) -> f64 {
        self.seconds_where(|pinning| pinning.is_none())
    }

    /// For how many seconds another pinning than `best` was in force.
    pub(crate) fn seconds_not_in(&self, best: &Pinning) -> f64 {
        self.seconds_where(|pinning| pinning != Some(best))
    }

    /// For how many seconds the pinning in force was one of these.
    fn seconds_where(&self, counts: impl Fn(Option<&Pinning>) -> bool) -> f64 {
        let (end, _) = self.ended.unwrap();
        let ends = self.applied.iter().skip(1).map(|&(at, ..)| at).chain([end]);
        self.applied
            .iter()
            .zip(ends)
            .filter(|((_, configuration, _), _)| counts(configuration.pinning.as_ref()))
            .map(|((at, ..), ends)| ends - at)
            .sum()
    }
}

/// Runs any policy on a script.
pub(crate) fn run_policy(text: &str, policy: &mut impl Policy) -> (Log, Record) {
    run_on(scripted(&script(text)), policy)
}

/// Runs any policy on a scripted machine.
pub(crate) fn run_on(mut machine: Scripted, policy: &mut impl Policy) -> (Log, Record) {
    let (mut log, mut builder) = (Log::default(), RecordBuilder::new(&machine, policy.name()));
    let exit_status = pinfold_runtime::run(&mut machine, policy, &mut builder, &mut log)
        .unwrap()
        .unwrap();
    let record = builder.finish();
    assert_reads_back(&record);
    assert_eq!(log.ended, Some((machine.now().as_secs_f64(), exit_status)));
    (log, record)
}

/// What is written of a record is read back by the same types, and written again as the same bytes.
pub(crate) fn assert_reads_back(record: &Record) {
    let document = RunDocument {
        version: Some(RunDocument::VERSION),
        record: record.clone(),
        ..RunDocument::default()
    };
    let written = serde_json::to_string_pretty(&document).unwrap();
    let read = RunDocument::read(&written).unwrap();
    assert_eq!(read, document);
    assert_eq!(serde_json::to_string_pretty(&read).unwrap(), written);
}

/// Runs `autopin` on a script.
pub(crate) fn run(text: &str, options: Options) -> (Log, Record) {
    options.check(&topology()).unwrap();
    run_policy(text, &mut Autopin::new(options))
}
