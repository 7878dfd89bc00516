//! A machine that cannot make a pinning: what the record says was pinned.

mod common;

use common::{Log, assert_reads_back, pinning, schedule, script, scripted};
use pinfold_core::{
    Applied, Configuration, Instead, Machine, MachineError, MachineKind, Metric, PuId, Sample, Topology, Wait,
};
use pinfold_policy::{Autopin, Policy};
use pinfold_runtime::{PolicyKind, Record, RecordBuilder, RunDocument};
use pinfold_sim::Scripted;
use std::time::Duration;

const WHY: &str = "another pinfold (process 77) has pinned its program to CPU 4";

/// A machine on which another run has CPU 4 while this holds.
struct Taken(Scripted, bool);

impl Machine for Taken {
    fn topology(&self) -> &Topology {
        self.0.topology()
    }

    fn kind(&self) -> MachineKind {
        self.0.kind()
    }

    fn metrics(&self) -> &[Metric] {
        self.0.metrics()
    }

    fn observe(&mut self) -> Sample {
        self.0.observe()
    }

    fn apply(&mut self, configuration: &Configuration) -> Applied {
        let wanted = configuration.pinning.as_ref();
        if !self.1 || !wanted.is_some_and(|pinning| pinning.pus().contains(&PuId(4))) {
            return self.0.apply(configuration);
        }
        let mut unpinned = configuration.clone();
        unpinned.pinning = None;
        let mut applied = self.0.apply(&unpinned);
        applied.instead = Some(Instead {
            configuration: unpinned,
            why: WHY.to_owned(),
        });
        applied
    }

    fn now(&self) -> Duration {
        self.0.now()
    }

    fn wait(&mut self, duration: Duration) -> Result<Wait, MachineError> {
        self.0.wait(duration)
    }
}

/// A search between a slow pinning and one with CPU 4, where the unpinned program is fastest.
fn searched(taken: bool) -> (Log, Record) {
    let text = script(
        "threads = 2\nduration = 300.0\n[[phase]]\nstart = 0.0\nrate = 100.0\n\
         [[phase.pinning]]\npus = \"0,1\"\nrate = 50.0\n[[phase.pinning]]\npus = \"4,5\"\nrate = 80.0\n",
    );
    let mut machine = Taken(scripted(&text), taken);
    let mut policy = Autopin::new(schedule(&["0,1", "4,5"]));
    let (mut log, mut builder) = (
        Log::default(),
        RecordBuilder::new(&machine, policy.name()).with_timeline(&machine),
    );
    pinfold_runtime::run(&mut machine, &mut policy, &mut builder, &mut log).unwrap();
    let record = builder.finish();
    assert_reads_back(&record);
    (log, record)
}

#[test]
fn a_candidate_whose_cpus_are_taken_is_recorded_as_unpinned() {
    let (log, record) = searched(true);
    let [first, second] = &record.search.candidates[..] else {
        panic!("{:?}", record.search.candidates)
    };
    assert_eq!(
        (first.not_pinned.as_deref(), second.not_pinned.as_deref()),
        (None, Some(WHY))
    );
    assert_eq!((first.placed(), second.placed()), (Some(&pinning("0,1")), None));
    let chosen = record.search.chosen.as_ref().unwrap();
    assert_eq!((chosen.candidate, chosen.pus.as_ref()), (1, None));
    assert_eq!(record.gain_over_unpinned(), None);
    let line = record.timeline.as_ref().unwrap();
    let pinned: Vec<_> = line.configurations.iter().filter_map(|one| one.pus.clone()).collect();
    assert!(
        !pinned.is_empty() && pinned.iter().all(|pus| *pus == pinning("0,1")),
        "{pinned:?}"
    );
    assert!(
        log.applied
            .iter()
            .all(|(_, done, _)| done.pinning != Some(pinning("4,5")))
    );
    let document = RunDocument {
        record,
        ..RunDocument::default()
    };
    let explained = document.explanation(PolicyKind::default());
    assert!(
        explained.contains(&format!("threads ran unpinned, because {WHY}")),
        "{explained}"
    );
}

#[test]
fn a_candidate_that_is_pinned_is_recorded_with_its_cpus() {
    let (_, record) = searched(false);
    assert!(record.search.candidates.iter().all(|one| one.not_pinned.is_none()));
    let chosen = record.search.chosen.as_ref().unwrap();
    assert_eq!(chosen.pus, Some(pinning("4,5")));
}
