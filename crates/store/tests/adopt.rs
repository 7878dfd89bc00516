//! Databases of older pinfolds, in which the size of the memory was a part of a machine's identity.

use pinfold_core::{PuSet, Topology};
use pinfold_linux::topology::{self, Source};
use pinfold_store::{MachineKey, Opened, Store, StoredProgram};
use std::path::Path;

fn machine() -> MachineKey {
    MachineKey {
        fingerprint: "2-5".to_owned(),
        name: "EPYC".to_owned(),
        simulated: false,
    }
}

/// The database of `data/version-1.sql`.
fn old(file: &Path) -> Store {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.execute_batch(include_str!("data/version-1.sql")).unwrap();
    connection.close().unwrap();
    Opened::new(file).unwrap().store
}

fn pus(list: &str) -> PuSet {
    list.parse().unwrap()
}

/// The placements of a program: threads, and PUs.
fn placed(program: &StoredProgram) -> Vec<(usize, &str)> {
    let placements = program.placements.iter();
    placements.map(|one| (one.threads, one.pus.as_str())).collect()
}

#[test]
fn one_machine_with_two_old_identities_is_one_machine_again_and_its_later_placements_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = old(&folder.path().join("behaviour.db"));
    assert_eq!(store.adopt(&machine(), &pus("0-3")).unwrap(), 3);
    let programs = store.programs(None).unwrap();
    let here: Vec<&StoredProgram> = programs.iter().filter(|one| one.key.machine == machine()).collect();
    let [solver, fft] = here[..] else {
        panic!("{programs:#?}")
    };
    assert_eq!(placed(solver), [(2, "2,3"), (4, "0-3")]);
    assert_eq!((solver.samples.len(), solver.choices[0].at), (2, 200));
    assert_eq!(placed(fft), [(2, "1,2")]);
    let known = store.known_placements(&solver.key).unwrap();
    assert!((known[&2].rate - 12.0).abs() < f64::EPSILON);
    // It is said once.
    assert_eq!(store.adopt(&machine(), &pus("0-3")).unwrap(), 0);
}

#[test]
fn a_machine_with_other_pus_or_another_name_and_a_simulated_one_stay_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = old(&folder.path().join("behaviour.db"));
    store.adopt(&machine(), &pus("0-3")).unwrap();
    let other = MachineKey {
        name: "Opteron".to_owned(),
        ..machine()
    };
    assert_eq!(store.adopt(&other, &pus("0-15")).unwrap(), 0);
    let fingerprints = |store: &Store| -> Vec<String> {
        let programs = store.programs(Some("fft")).unwrap();
        programs.into_iter().map(|one| one.key.machine.fingerprint).collect()
    };
    assert_eq!(fingerprints(&store), ["2-5", &"3".repeat(32), &"4".repeat(32)]);
    // On the larger machine.
    let larger = MachineKey {
        fingerprint: "2-6".to_owned(),
        ..machine()
    };
    assert_eq!(store.adopt(&larger, &pus("0-15")).unwrap(), 1);
    assert_eq!(fingerprints(&store), ["2-5", "2-6", &"4".repeat(32)]);
}

#[test]
fn a_machine_is_the_same_with_more_memory_and_another_one_with_memory_of_another_kind() {
    let topology = topology::read(&Source::Live).unwrap();
    let mut json = serde_json::to_value(&topology).unwrap();
    let here = |json: &serde_json::Value| {
        let topology: Topology = serde_json::from_value(json.clone()).unwrap();
        MachineKey::new(&topology, None).fingerprint
    };
    let before = here(&json);
    let bytes = json["nodes"][0]["memory"].as_u64().unwrap_or_default();
    for memory in [serde_json::json!(bytes + 4096), serde_json::Value::Null] {
        json["nodes"][0]["memory"] = memory;
        assert_eq!(here(&json), before);
    }
    json["nodes"][0]["subtype"] = "HBM".into();
    assert_ne!(here(&json), before);
}
