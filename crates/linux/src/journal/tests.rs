//! Journals in separate directories.

use super::left::Contents;
use super::record::VERSION;
use super::*;
use proptest::prelude::*;
use record::tests::{changes, threads};

fn bytes(records: &[Record]) -> Vec<u8> {
    let begin = Record::Begin(Origin {
        boot: "4711-0815".to_owned(),
        namespaces: None,
        writer: None,
    });
    let lines = std::iter::once(&begin).chain(records).map(Record::to_line);
    lines.collect::<String>().into_bytes()
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let record = prop_oneof![
        changes().prop_map(Record::Change),
        threads().prop_map(|thread| Record::RolledBack(Target::Mask(thread))),
    ];
    proptest::collection::vec(record, 0..20)
}

/// The number of complete lines.
fn lines(bytes: &[u8]) -> usize {
    bytes.split(|&byte| byte == b'\n').count() - 1
}

/// The changes in force after these records.
fn after(records: &[Record]) -> BTreeMap<Target, Change> {
    let mut changes = BTreeMap::new();
    for record in records {
        match record {
            Record::Change(change) => drop(changes.insert(change.target(), change.clone())),
            Record::RolledBack(target) => drop(changes.remove(target)),
            _ => unreachable!("`records` makes none"),
        }
    }
    changes
}

proptest! {
    #[test]
    fn what_a_kill_leaves_is_read_up_to_the_last_whole_record(records in records(), cut: usize) {
        let all = bytes(&records);
        let begin = bytes(&[]).len();
        let cut = begin + cut % (all.len() - begin + 1);
        let whole = lines(&all[begin..cut]);
        let contents = Contents::read(&all[..cut]);
        prop_assert_eq!(contents.damage, None);
        prop_assert_eq!(contents.changes, after(&records[..whole]));
    }

    #[test]
    fn nothing_after_damage_is_believed(records in records(), at: usize, byte: u8) {
        let mut damaged = bytes(&records);
        let begin = bytes(&[]).len();
        prop_assume!(damaged.len() > begin);
        let at = begin + at % (damaged.len() - begin);
        prop_assume!(!damaged[at].eq_ignore_ascii_case(&byte));
        damaged[at] = byte;
        let before = lines(&damaged[begin..at]);
        let contents = Contents::read(&damaged);
        // The damage may be in the end of the last line. Then the line is incomplete, as after a kill.
        prop_assert!(contents.damage.is_some() || before + 1 == records.len());
        prop_assert_eq!(contents.changes, after(&records[..before]));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let contents = Contents::read(&bytes);
        prop_assert!(contents.changes.is_empty() && contents.damage.is_some());
    }

    #[test]
    fn a_compacted_journal_has_the_same_content(records in records(), kept: bool) {
        let root = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin_unguarded(&Directory::new(root.path()).unwrap()).unwrap();
        for record in &records {
            match record {
                Record::Change(change) => journal.note(change.clone()).unwrap(),
                Record::RolledBack(target) => journal.rolled_back(*target),
                _ => unreachable!("`records` makes none"),
            }
        }
        if kept {
            journal.keep();
        }
        let read = |journal: &Journal| Contents::read(&fs::read(&journal.path).unwrap());
        let before = read(&journal);
        journal.compact().unwrap();
        prop_assert_eq!(&read(&journal).changes, &before.changes);
        prop_assert_eq!(read(&journal).kept, before.kept);
        let origin = Some(journal.here.clone());
        let whole = before.whole;
        prop_assert_eq!(before, Contents { changes: after(&records), kept, origin, damage: None, whole });
    }
}

fn pinned(serial: i32, pu: u32) -> Change {
    Change::Mask(MaskChange {
        thread: Thread {
            process: 1,
            thread: serial + 1,
            start: 0,
        },
        original: Requested::Nobody,
        replaced: None,
        pinned: PuId(pu),
        since: 0,
        groups: None,
        meanwhile: None,
    })
}

#[test]
fn a_journal_of_short_lived_threads_stays_small() {
    let root = tempfile::tempdir().unwrap();
    let mut journal = Journal::begin_unguarded(&Directory::new(root.path()).unwrap()).unwrap();
    for serial in 0..10_000 {
        journal.note(pinned(serial, 1)).unwrap();
        journal.rolled_back(pinned(serial, 1).target());
        let length = fs::metadata(&journal.path).unwrap().len();
        assert!(length <= SMALL && length == journal.length, "{length}");
    }
}

#[test]
fn a_change_is_in_a_file_that_was_just_compacted() {
    let root = tempfile::tempdir().unwrap();
    let mut journal = Journal::begin_unguarded(&Directory::new(root.path()).unwrap()).unwrap();
    let (mut before, mut shortened) = (0, 0);
    for serial in 0..10_000 {
        // Pins fifty threads repeatedly, each time on another PU.
        journal
            .note(pinned(serial % 50, 1 + serial.cast_unsigned() % 2))
            .unwrap();
        if journal.length < before {
            shortened += 1;
            let contents = Contents::read(&fs::read(&journal.path).unwrap());
            assert_eq!((contents.changes, contents.damage), (journal.changes.clone(), None));
        }
        before = journal.length;
    }
    assert!(shortened > 1);
}

/// Opens a journal of this origin with one change of a mask and one of a register.
fn opened(origin: &Origin) -> Found {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("1-0.journal");
    let register = Change::Register(RegisterChange {
        pu: PuId(0),
        register: 0x1a4,
        bits: 1,
        original: 0,
        replaced: None,
        written: 1,
    });
    drop(write_new(&path, origin, [pinned(0, 1), register], false).unwrap());
    fs::rename(path.with_extension(UNFINISHED), &path).unwrap();
    let here = Origin::here(&Procfs::default()).unwrap();
    Left::open(&path, &here, Writing::MayGoOn).unwrap().unwrap()
}

fn changes_of(found: &Found) -> Vec<Target> {
    let Found::Left(left) = found else { panic!("{found:?}") };
    assert_eq!(left.damage(), None);
    left.contents.changes.keys().copied().collect()
}

#[test]
fn a_journal_of_an_earlier_boot_is_void() {
    let mut origin = Origin::here(&Procfs::default()).unwrap();
    origin.boot = "another".to_owned();
    assert!(changes_of(&opened(&origin)).is_empty());
}

#[test]
fn a_journal_of_the_first_version_is_read() {
    let mut origin = Origin::here(&Procfs::default()).unwrap();
    origin.namespaces = None;
    assert_eq!(changes_of(&opened(&origin)).len(), 2);
}

#[test]
fn of_a_namespace_that_has_ended_only_registers_are_rolled_back() {
    let mut origin = Origin::here(&Procfs::default()).unwrap();
    let namespaces = origin.namespaces.as_mut().unwrap();
    let is_first = std::mem::replace(&mut namespaces.pid.inode, 1) == 0xEFFF_FFFC;
    let found = opened(&origin);
    if is_first && nix::unistd::geteuid().is_root() {
        assert_eq!(changes_of(&found), [Target::Register(0x1a4, PuId(0))]);
    } else {
        assert!(matches!(found, Found::Elsewhere(..)), "{found:?}");
    }
}

#[test]
fn a_later_version_is_named() {
    let damage = Contents::read(Record::OtherVersion(7).to_line().as_bytes())
        .damage
        .unwrap();
    assert!(
        damage.contains('7') && damage.contains(&VERSION.to_string()),
        "{damage}"
    );
}

#[test]
fn the_journal_of_a_running_pinfold_differs_from_one_of_a_killed_one() {
    let root = tempfile::tempdir().unwrap();
    let directory = Directory::new(root.path()).unwrap();
    let mut journal = Journal::begin_unguarded(&directory).unwrap();
    journal.note(pinned(0, 1)).unwrap();
    assert!(matches!(directory.survey().unwrap().as_slice(), [Found::Running(_)]));
    drop(journal);
    let found = directory.survey().unwrap();
    let [Found::Left(left)] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(!left.kept() && left.damage().is_none());
}

#[test]
fn an_orderly_end_leaves_no_file() {
    let root = tempfile::tempdir().unwrap();
    let mut journal = Journal::begin_unguarded(&Directory::new(root.path()).unwrap()).unwrap();
    journal.note(pinned(0, 1)).unwrap();
    journal.rolled_back(pinned(0, 1).target());
    drop(journal);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_damaged_journal_is_set_aside_under_a_free_name() {
    let root = tempfile::tempdir().unwrap();
    let damaged = [&bytes(&[]), b"what is this?\n".as_slice()].concat();
    fs::write(root.path().join("1-0.journal"), damaged).unwrap();
    fs::write(root.path().join("1-0.damaged"), "earlier").unwrap();
    let directory = Directory::new(root.path()).unwrap();
    let mut found = directory.survey().unwrap();
    let Some(Found::Left(left)) = found.pop() else {
        panic!("nothing was found")
    };
    assert!(left.damage().is_some());
    let aside = left.settle().unwrap().unwrap();
    assert_eq!(aside, root.path().join("1-0.damaged-2"));
    assert!(aside.exists() && directory.survey().unwrap().is_empty());
    assert_eq!(fs::read_to_string(root.path().join("1-0.damaged")).unwrap(), "earlier");
}

/// A folder with files that have names of journals and are not journals. Returns the content of each, except for links.
fn folder_of_somebody_else() -> (tempfile::TempDir, Vec<(PathBuf, &'static str)>) {
    let root = tempfile::tempdir().unwrap();
    let file = |name: &str, text| (root.path().join(name), text);
    let files = vec![
        file("thesis.unfinished", "chapter one"),
        file("empty.unfinished", ""),
        file("diary.journal", "dear diary\n"),
        file("1-0.journal", "dear diary\n"),
        file("1-0.unfinished", "chapter two"),
    ];
    for (path, text) in &files {
        fs::write(path, text).unwrap();
    }
    (root, files)
}

#[test]
fn files_that_are_no_journals_are_named_and_left() {
    let (root, files) = folder_of_somebody_else();
    let directory = Directory::new(root.path()).unwrap();
    let found = directory.survey().unwrap();
    assert!(
        found.iter().all(|found| matches!(found, Found::NotOurs(_, NO_JOURNAL))),
        "{found:?}"
    );
    assert_eq!(found.len(), files.len());
    for (path, text) in files {
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{}", path.display());
    }
}

#[test]
fn no_journal_is_reached_through_a_symbolic_link() {
    let elsewhere = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    for name in ["1-0.journal", "1-0.unfinished"] {
        fs::write(elsewhere.path().join(name), bytes(&[])).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join(name), root.path().join(name)).unwrap();
    }
    let found = Directory::new(root.path()).unwrap().survey().unwrap();
    assert!(
        matches!(
            found.as_slice(),
            [Found::NotOurs(_, "it is a symbolic link"), Found::NotOurs(..)]
        ),
        "{found:?}"
    );
    for folder in [elsewhere, root] {
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

#[test]
fn a_journal_is_not_begun_in_the_place_of_another_file() {
    let root = tempfile::tempdir().unwrap();
    let process = std::process::id();
    let occupied = root.path().join(format!("{process}-0.unfinished"));
    let linked = root.path().join(format!("{process}-1.unfinished"));
    let notes = root.path().join("notes");
    for file in [&occupied, &notes] {
        fs::write(file, "notes").unwrap();
    }
    std::os::unix::fs::symlink(&notes, &linked).unwrap();
    let journal = Journal::begin_unguarded(&Directory::new(root.path()).unwrap()).unwrap();
    assert_eq!(journal.path, root.path().join(format!("{process}-2.journal")));
    for file in [occupied, linked] {
        assert_eq!(fs::read_to_string(file).unwrap(), "notes");
    }
}

#[test]
fn a_directory_that_others_may_write_to_is_not_believed() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = Directory::new(root.path()).unwrap_err().to_string();
    assert!(error.contains("777") && error.contains("--journals"), "{error}");
}

#[test]
fn what_was_begun_and_never_finished_is_removed() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("1-0.unfinished"), "").unwrap();
    assert!(Directory::new(root.path()).unwrap().survey().unwrap().is_empty());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn where_there_is_no_directory_nothing_was_left() {
    assert!(Directory::find(Path::new("/nowhere/at/all")).unwrap().is_none());
}

#[test]
fn a_journal_whose_directory_was_removed_is_written_again() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("journals");
    let mut journal = Journal::begin_unguarded(&Directory::new(&folder).unwrap()).unwrap();
    journal.note(pinned(0, 1)).unwrap();
    for change in [None, Some(pinned(1, 1))] {
        fs::remove_dir_all(&folder).unwrap();
        match change {
            Some(change) => journal.note(change).unwrap(),
            None => journal.keep_file(),
        }
        let contents = Contents::read(&fs::read(&journal.path).unwrap());
        assert_eq!(contents.changes, journal.changes);
    }
}
