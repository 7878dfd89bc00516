//! The behaviour database, on files.

use pinfold_core::hint::AffinityHint;
use pinfold_store::{Choice, Growth, MachineKey, Opened, ProgramKey, SampleRow, Store, StoreError, shape};
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

fn key(name: &str) -> ProgramKey {
    ProgramKey {
        identity: format!("build-id:{name}"),
        name: name.to_owned(),
        shape: shape(&["--size", "12M"]),
        machine: MachineKey {
            fingerprint: "f00".to_owned(),
            name: "four Opterons".to_owned(),
            simulated: true,
        },
    }
}

fn sample(at: i64) -> SampleRow {
    SampleRow {
        threads: 8,
        at,
        hint: Some(AffinityHint::DISTRIBUTED),
        pus: "0,6,12".to_owned(),
        lasted: 30.0,
        metric: Some("regions".to_owned()),
        rate: None,
        observed: serde_json::from_str(r#"[{"name": "event:l3_misses", "unit": "1/s", "value": null}]"#).unwrap(),
    }
}

fn choice(hint: AffinityHint, rules: Option<&str>, kept: bool) -> Choice {
    Choice {
        threads: 8,
        hint: Some(hint),
        rules: rules.map(str::to_owned),
        why: "rule 1 of 2".to_owned(),
        before: Some(1.0),
        after: Some(2.0),
        kept,
        at: 7,
    }
}

fn open(file: &Path) -> Store {
    let opened = Opened::new(file).unwrap();
    assert_eq!(opened.set_aside, None);
    opened.store
}

#[test]
fn what_was_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep/behaviour.db");
    let mut store = open(&file);
    store.add_sample(&key("fft"), &sample(1)).unwrap();
    store.add_sample(&key("fft"), &sample(2)).unwrap();
    store
        .choose(&key("fft"), &choice(AffinityHint::PACKED, Some("r1"), true))
        .unwrap();
    store.add_sample(&key("lu"), &sample(3)).unwrap();
    drop(store);

    let store = open(&file);
    let programs = store.programs(None).unwrap();
    assert_eq!(
        programs.iter().map(|one| one.key.clone()).collect::<Vec<_>>(),
        [key("fft"), key("lu")]
    );
    assert_eq!(programs[0].samples, [sample(1), sample(2)]);
    assert_eq!(programs[0].choices, [choice(AffinityHint::PACKED, Some("r1"), true)]);
    assert_eq!(store.programs(Some("lu")).unwrap().len(), 1);
    assert_eq!(store.programs(Some("2")).unwrap()[0].key.name, "lu");
    assert_eq!(store.programs(Some("nothing")).unwrap(), []);
}

#[test]
fn threads_that_were_left_to_the_operating_system_have_no_hint() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder.path().join("behaviour.db"));
    let unpinned = SampleRow {
        hint: None,
        ..sample(1)
    };
    store.add_sample(&key("fft"), &unpinned).unwrap();
    let back = Choice {
        hint: None,
        ..choice(AffinityHint::PACKED, None, false)
    };
    store.choose(&key("fft"), &back).unwrap();
    let program = &store.programs(None).unwrap()[0];
    assert_eq!((&program.samples[0], &program.choices[0]), (&unpinned, &back));
    assert_eq!(store.known(&key("fft"), None).unwrap()[&8].hint, None);
}

#[test]
fn a_hint_is_known_for_the_same_program_machine_and_shape_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder.path().join("behaviour.db"));
    store
        .choose(&key("fft"), &choice(AffinityHint::PACKED, None, true))
        .unwrap();
    assert_eq!(
        store.known(&key("fft"), None).unwrap()[&8].hint,
        Some(AffinityHint::PACKED)
    );
    let mut others = [key("fft"), key("fft"), key("fft")];
    others[0].identity = "build-id:other".to_owned();
    others[1].shape = shape(&["--size", "20M"]);
    others[2].machine.fingerprint = "bad".to_owned();
    for other in others {
        assert!(store.known(&other, None).unwrap().is_empty(), "{other:?}");
    }
}

#[test]
fn hints_of_older_rules_are_dropped_and_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder.path().join("behaviour.db"));
    store
        .choose(&key("old"), &choice(AffinityHint::PACKED, Some("r1"), true))
        .unwrap();
    store
        .choose(&key("without"), &choice(AffinityHint::PACKED, None, true))
        .unwrap();
    assert!(store.known(&key("old"), Some("r1")).unwrap().contains_key(&8));
    assert!(store.known(&key("old"), Some("r2")).unwrap().is_empty());
    assert!(store.known(&key("old"), Some("r1")).unwrap().is_empty());
    assert!(store.known(&key("without"), Some("r2")).unwrap().contains_key(&8));
}

#[test]
fn a_program_is_forgotten_with_all_that_was_known_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder.path().join("behaviour.db"));
    for name in ["fft", "lu"] {
        store.add_sample(&key(name), &sample(1)).unwrap();
    }
    assert_eq!(store.forget(Some("fft")).unwrap().programs, 1);
    assert_eq!(store.growth().unwrap(), Growth { before: None, now: 1 });
    assert_eq!(store.forget(None).unwrap().programs, 1);
    assert_eq!(store.growth().unwrap().now, 0);
}

#[test]
fn growth_is_counted_from_when_rules_were_made() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder.path().join("behaviour.db"));
    assert!(!store.growth().unwrap().has_grown_by(20.0));
    for at in 0..10 {
        store.add_sample(&key("fft"), &sample(at)).unwrap();
    }
    assert!(store.growth().unwrap().has_grown_by(20.0));
    store.built("r1", 5).unwrap();
    store.add_sample(&key("fft"), &sample(10)).unwrap();
    assert!(!store.growth().unwrap().has_grown_by(20.0));
    store.add_sample(&key("fft"), &sample(11)).unwrap();
    assert!(store.growth().unwrap().has_grown_by(20.0));
}

#[test]
fn several_write_at_once_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("behaviour.db");
    thread::scope(|scope| {
        for writer in 0..4 {
            let file = &file;
            scope.spawn(move || {
                let mut store = open(file);
                for at in 0..50 {
                    store.add_sample(&key("shared"), &sample(at)).unwrap();
                    store.add_sample(&key(&format!("own{writer}")), &sample(at)).unwrap();
                }
            });
        }
    });
    let programs = open(&file).programs(None).unwrap();
    assert_eq!(programs.len(), 5);
    let shared = programs.iter().find(|one| one.key.name == "shared").unwrap();
    assert_eq!(shared.samples.len(), 200);
}

/// Writes until it is killed, and says of each sample when it is written. Run by the test below.
#[test]
fn a_writer_that_will_be_killed() {
    let Some(file) = std::env::var_os("PINFOLD_TEST_DATABASE") else {
        return;
    };
    let mut store = open(Path::new(&file));
    for at in 0.. {
        store.add_sample(&key("killed"), &sample(at)).unwrap();
        writeln!(io::stdout(), "written {at}").unwrap();
    }
}

#[test]
fn a_kill_loses_nothing_that_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("behaviour.db");
    for lines in [1, 2, 5, 20, 60] {
        let _ = fs::remove_file(&file);
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_writer_that_will_be_killed", "--nocapture"])
            .env("PINFOLD_TEST_DATABASE", &file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut reported = BufReader::new(writer.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let is_written = |line: &String| line.starts_with("written ");
        let before = reported.by_ref().filter(is_written).take(lines).count();
        writer.kill().unwrap();
        // What it wrote between the last line that was read and the kill.
        let written = before + reported.filter(is_written).count();
        writer.wait().unwrap();
        let programs = open(&file).programs(None).unwrap();
        let there = programs.first().map_or(0, |program| program.samples.len());
        // The last line may be cut.
        assert!(there + 1 >= written && there <= written + 1, "{there} of {written}");
        let _ = fs::remove_file(folder.path().join("behaviour.db-wal"));
        let _ = fs::remove_file(folder.path().join("behaviour.db-shm"));
    }
}

/// A database of many samples whose middle is damaged; its bytes.
fn damaged(file: &Path) -> Vec<u8> {
    let mut store = open(file);
    for at in 0..500 {
        store.add_sample(&key("fft"), &sample(at)).unwrap();
    }
    drop(store);
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[4096..middle].fill(0x5a);
    fs::write(file, &bytes).unwrap();
    bytes
}

#[test]
fn a_damaged_database_is_set_aside_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("behaviour.db");
    for number in [1, 2] {
        let bytes = damaged(&file);
        let opened = Opened::new(&file).unwrap();
        let aside = opened.set_aside.unwrap();
        assert_eq!(aside, folder.path().join(format!("behaviour.db.damaged-{number}")));
        assert_eq!(fs::read(aside).unwrap(), bytes);
        assert_eq!(opened.store.programs(None).unwrap(), []);
    }
}

#[test]
fn a_file_of_another_program_is_refused_and_left() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("behaviour.db");
    let database = |commands: &str| {
        let path = folder.path().join("theirs");
        let _ = fs::remove_file(&path);
        let theirs = rusqlite::Connection::open(&path).unwrap();
        theirs.execute_batch(commands).unwrap();
        theirs.close().unwrap();
        fs::read(path).unwrap()
    };
    let mut damaged_database = database("CREATE TABLE t (a)");
    damaged_database[100..].fill(0x5a);
    for theirs in [
        b"short notes\n".to_vec(),
        b"this is no database, but somebody's notes\n".repeat(100),
        database("CREATE TABLE t (a)"),
        database("PRAGMA user_version = 1; CREATE TABLE program (a)"),
        database("PRAGMA application_id = 77"),
        damaged_database,
    ] {
        fs::write(&file, &theirs).unwrap();
        let refused = Opened::new(&file).unwrap_err();
        assert!(matches!(refused, StoreError::NotOurs { .. }), "{refused}");
        assert!(refused.to_string().contains("--db"), "{refused}");
        assert_eq!(fs::read(&file).unwrap(), theirs);
    }
    assert!(matches!(Opened::new(folder.path()), Err(StoreError::NotOurs { .. })));
}

#[test]
fn a_database_without_the_mark_is_known_by_its_tables_and_marked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("behaviour.db");
    open(&file).add_sample(&key("fft"), &sample(1)).unwrap();
    let mark = |number: Option<u32>| {
        let connection = rusqlite::Connection::open(&file).unwrap();
        if let Some(number) = number {
            connection.pragma_update(None, "application_id", number).unwrap();
        }
        let mark = connection.query_row("PRAGMA application_id", [], |row| row.get::<_, u32>(0));
        mark.unwrap()
    };
    let before = mark(None);
    assert_ne!(before, 0);
    mark(Some(0));
    assert_eq!(open(&file).programs(None).unwrap().len(), 1);
    assert_eq!(mark(None), before);
}

/// Not a test of its own: one of many processes that the next test starts.
#[test]
fn one_of_many_that_open_at_once() {
    let Some(file) = std::env::var_os("PINFOLD_TEST_SHARED_DATABASE") else {
        return;
    };
    // All begin when this ends.
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let mut opened = Opened::new(Path::new(&file)).unwrap();
    if opened.set_aside.is_some() {
        writeln!(io::stdout(), "set aside").unwrap();
    }
    let number = i64::from(std::process::id());
    opened.store.add_sample(&key("fft"), &sample(number)).unwrap();
}

#[test]
fn of_many_processes_one_sets_a_damaged_database_aside_and_no_sample_is_lost() {
    const PROCESSES: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("damaged.db");
    let bytes = damaged(&whole);
    for round in 0..25 {
        let file = folder.path().join(format!("{round}/behaviour.db"));
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, &bytes).unwrap();
        let start = |_| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["--exact", "one_of_many_that_open_at_once", "--nocapture"])
                .env("PINFOLD_TEST_SHARED_DATABASE", &file)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            command.spawn().unwrap()
        };
        let mut processes: Vec<_> = (0..PROCESSES).map(start).collect();
        for process in &mut processes {
            drop(process.stdin.take());
        }
        let mut set_aside = 0;
        for process in processes {
            let output = process.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "round {round}: {said}");
            set_aside += usize::from(said.contains("set aside"));
        }
        assert_eq!(set_aside, 1, "round {round}");
        let aside = |number| file.with_extension(format!("db.damaged-{number}"));
        assert!(aside(1).exists() && !aside(2).exists(), "round {round}");
        assert_eq!(
            open(&file).programs(None).unwrap()[0].samples.len(),
            PROCESSES,
            "round {round}"
        );
    }
}

#[test]
fn a_newer_database_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("behaviour.db");
    drop(open(&file));
    let newer = rusqlite::Connection::open(&file).unwrap();
    newer.pragma_update(None, "user_version", 9).unwrap();
    newer.close().unwrap();
    let before = fs::read(&file).unwrap();
    let refused = Opened::new(&file).err().unwrap();
    assert!(matches!(refused, StoreError::Newer { version: 9, .. }));
    assert!(refused.to_string().contains("version 9") && refused.to_string().contains("--db"));
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let refused = Opened::new(Path::new("/proc/no/such/behaviour.db"))
        .err()
        .unwrap()
        .to_string();
    assert!(refused.contains("/proc/no/such/behaviour.db"), "{refused}");
}

#[test]
fn a_view_that_never_ends_in_the_place_of_a_table_is_named_and_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("behaviour.db");
    open(&file).add_sample(&key("fft"), &sample(1)).unwrap();
    let theirs = rusqlite::Connection::open(&file).unwrap();
    let endless = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number) SELECT n FROM number";
    for (code, name) in [
        (format!("ALTER TABLE program RENAME TO other; CREATE VIEW program AS {endless}"), "view program"),
        (
            format!("DROP VIEW program; ALTER TABLE other RENAME TO program;
                     CREATE TRIGGER late AFTER INSERT ON sample BEGIN DELETE FROM built WHERE samples IN ({endless}); END"),
            "trigger late",
        ),
    ] {
        theirs.execute_batch(&code).unwrap();
        let refused = Opened::new(&file).unwrap_err();
        assert!(matches!(refused, StoreError::NotOurs { .. }), "{refused}");
        assert!(refused.to_string().contains(name), "{refused}");
    }
}

#[test]
fn more_samples_than_are_read_at_once_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("behaviour.db");
    let mut store = open(&file);
    store.add_sample(&key("fft"), &sample(1)).unwrap();
    store.add_sample(&key("lu"), &sample(1)).unwrap();
    drop(store);
    let theirs = rusqlite::Connection::open(&file).unwrap();
    let rows = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 17)
                INSERT INTO sample SELECT NULL, 1, 8, n, 'unpinned', '', 1.0, NULL, NULL, printf('%.*c', 16000000, ' ')
                FROM number";
    theirs.execute_batch(rows).unwrap();
    theirs.close().unwrap();
    let store = open(&file);
    let refused = store.programs(None).unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { samples: 19, .. }), "{refused}");
    assert_eq!(store.programs(Some("lu")).unwrap().len(), 1);
}
