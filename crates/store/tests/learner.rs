//! What runs of the policies `hints` and `auto` write to the database, and what they leave to be done.

use pinfold_core::hint::AffinityHint;
use pinfold_core::{ChoiceCode, Finding, PuId, RegionId, SampleCode, TopologyBuilder};
use pinfold_runtime::{Candidate, CandidateRegion, MetricRecord, Record, Recorder, Search};
use pinfold_store::{Afterwards, Learner, MachineKey, Opened, PlacementLearner, ProgramKey};
use std::path::Path;
use std::time::Duration;

fn machine() -> MachineKey {
    let mut builder = TopologyBuilder::new("one");
    let root = builder.root();
    builder.pu(root, PuId(0));
    MachineKey::new(&builder.build_all().unwrap(), Some("model"))
}

fn key() -> ProgramKey {
    let arguments = ["--size".to_owned(), "12M".to_owned()];
    ProgramKey::new(b"no ELF file", Path::new("/bin/app"), &arguments, machine())
}

fn candidate(rate: f64) -> Candidate {
    Candidate {
        within: None,
        pus: None,
        pages: None,
        regions: vec![],
        rate: Some(rate),
        spread: None,
        error: None,
        measured: Some(1.0),
        dropped: false,
        not_pinned: None,
        metrics: vec![],
    }
}

/// A record in which the second of two candidates was twice as fast.
fn record() -> Record {
    Record {
        metric: Some(MetricRecord {
            name: "regions".to_owned(),
            unit: "region".to_owned(),
            scope: pinfold_core::Scope::Program,
            function: None,
        }),
        search: Search {
            threads: Some(4),
            candidates: vec![candidate(1.0), candidate(2.0)],
            ..Search::default()
        },
        ..Record::default()
    }
}

fn sampled() -> Finding {
    Finding::Sampled {
        hint: None,
        pus: None,
        threads: 4,
        lasts: Duration::from_secs(2),
        rate: Some(1.0),
        observed: vec![],
        says: Some(AffinityHint::DISTRIBUTED),
        code: SampleCode::Rule,
        why: "rule 1".to_owned(),
    }
}

fn chosen() -> Finding {
    Finding::Chosen {
        candidate: 1,
        gain_over_first: Some(1.0),
        gain_over_worst: Some(1.0),
        code: ChoiceCode::HintKept,
        why: "the hint is better".to_owned(),
    }
}

fn learn(file: &Path) -> Learner {
    let store = Opened::new(file).unwrap().store;
    let mut learner = Learner::new(store, key(), None, || 7);
    for finding in [sampled(), chosen()] {
        learner.finding(Duration::from_secs(3), &finding, &record());
    }
    learner
}

#[test]
fn a_sample_and_the_choice_that_follows_are_written_with_the_rates_of_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("behaviour.db");
    assert!(matches!(learn(&file).end(None), Afterwards::Nothing));
    let programs = Opened::new(&file).unwrap().store.programs(None).unwrap();
    assert_eq!(programs[0].key, key());
    let sample = &programs[0].samples[0];
    assert_eq!(
        (sample.at, sample.metric.as_deref(), sample.rate),
        (7, Some("regions"), Some(1.0))
    );
    let choice = &programs[0].choices[0];
    assert_eq!((choice.threads, choice.hint), (4, Some(AffinityHint::DISTRIBUTED)));
    assert_eq!((choice.before, choice.after, choice.kept), (Some(1.0), Some(2.0), true));
}

#[test]
fn rules_are_to_be_made_again_only_after_the_database_has_grown_enough() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("behaviour.db");
    let left: Vec<bool> = (0..8)
        .map(|_| matches!(learn(&file).end(Some(20.0)), Afterwards::Rebuild(_)))
        .collect();
    assert_eq!(left, [false, false, false, false, false, false, false, true]);
}

#[test]
fn a_program_without_a_build_id_is_known_by_its_bytes_and_the_shape_of_its_arguments() {
    let key = key();
    assert!(key.identity.starts_with("xxh3:"), "{}", key.identity);
    assert_eq!((key.name.as_str(), key.shape.as_str()), ("app", "--size 8M"));
    assert_eq!((key.machine.name.as_str(), key.machine.simulated), ("model", true));
}

#[test]
fn a_placement_with_regions_of_their_own_is_forgotten_so_that_the_next_run_searches() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("behaviour.db");
    let known = || Opened::new(&file).unwrap().store.known_placements(&key()).unwrap();
    let mut learner = PlacementLearner::new(Opened::new(&file).unwrap().store, key(), || 0);
    let mut record = record();
    learner.finding(Duration::ZERO, &chosen(), &record);
    assert_eq!(known().len(), 1);
    record.search.candidates[1].regions.push(CandidateRegion {
        region: RegionId(0x1000),
        pus: None,
    });
    learner.finding(Duration::ZERO, &chosen(), &record);
    assert_eq!((known().len(), learner.failed()), (0, None));
}
