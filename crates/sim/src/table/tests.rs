//! Tests of the whole machine.

use super::*;
use crate::machine::{EndSwitch, Repeat};
use pinfold_core::{
    Configuration, Machine, NodeId, NumaNode, ObjectKind, PageMapping, Pinning, PuId, PuSet, RefusalCode,
    RegionConfiguration, RegionId, Topology, TopologyBuilder, UnpinnedSource, Wait,
};
use proptest::prelude::*;
use std::num::NonZeroU64;
use std::time::Duration;

/// Two nodes of two cores with two PUs each; the second PU of core N is N + 4.
pub(super) fn topology() -> Topology {
    let mut builder = TopologyBuilder::new("two nodes");
    let root = builder.root();
    for node in 0..2u32 {
        let package = builder.object(root, ObjectKind::Package, Some(node));
        for core in [2 * node, 2 * node + 1] {
            let object = builder.object(package, ObjectKind::Core, Some(core));
            builder.pu(object, PuId(core));
            builder.pu(object, PuId(core + 4));
        }
        builder.node(NumaNode {
            id: NodeId(node),
            attached_to: package,
            pus: [2 * node, 2 * node + 1, 2 * node + 4, 2 * node + 5]
                .into_iter()
                .map(PuId)
                .collect(),
            memory: Some(1 << 30),
            subtype: None,
        });
    }
    builder.build_all().unwrap()
}

fn row(region: Option<&str>, threads: usize, nodes: usize, map: &str, pages: &str, time: f64) -> TableRow {
    TableRow {
        program: "solver".to_owned(),
        command: "solver --size 1".to_owned(),
        region: region.map(str::to_owned),
        configuration: RowConfiguration {
            threads,
            nodes: Some(nodes),
            thread_map: Some(map.to_owned()),
            page_map: pages.to_owned(),
            prefetch: "0000".to_owned(),
            ..RowConfiguration::default()
        },
        time,
        ..TableRow::default()
    }
}

/// Two regions. `first` is fastest on one node, `second` with its pages interleaved.
fn rows() -> Vec<TableRow> {
    let mut rows = vec![];
    for (threads, nodes, map, pages, first, second) in [
        (4, 2, "scatter", "first_touch", 20.0, 10.0),
        (4, 2, "compact", "first_touch", 18.0, 9.0),
        (4, 2, "scatter", "interleave", 19.0, 5.0),
        (4, 2, "compact", "interleave", 17.0, 6.0),
        (2, 2, "scatter", "interleave", 30.0, 4.0),
        (2, 1, "compact", "first_touch", 10.0, 20.0),
    ] {
        rows.push(row(Some("first"), threads, nodes, map, pages, first));
        rows.push(row(Some("second"), threads, nodes, map, pages, second));
    }
    rows
}

fn settings() -> TableSettings {
    TableSettings {
        repeat: Repeat::UntilAsked(EndSwitch::default()),
        seed: 1,
        noise: None,
        in_seconds: true,
        execution: None,
        moves: GivenCosts::default(),
        threads: None,
    }
}

fn machine_of(rows: &[TableRow], settings: TableSettings) -> TableMachine {
    let program = TableProgram::new(rows, &topology(), None, None).unwrap();
    TableMachine::new(program, topology(), settings).unwrap()
}

fn pinned(pus: &[u32], pages: Option<PageMapping>) -> Configuration {
    Configuration {
        pinning: Pinning::new(pus.iter().copied().map(PuId).collect()),
        pages,
        ..Configuration::default()
    }
}

const SCATTER: [u32; 4] = [0, 2, 1, 3];
const COMPACT: [u32; 4] = [0, 1, 2, 3];

/// The time of a repetition under a configuration, after a warm-up.
fn repetition(machine: &mut TableMachine) -> f64 {
    machine.wait(Duration::from_secs(100)).unwrap();
    let before = machine.observe();
    machine.wait(Duration::from_secs(10_000)).unwrap();
    let after = machine.observe();
    let grown = |region: usize| {
        let (before, after) = (&before.regions[region], &after.regions[region]);
        (after.seconds - before.seconds) / (after.executions - before.executions)
    };
    grown(0) + grown(1)
}

#[test]
fn each_configuration_takes_the_time_of_its_row() {
    let mut machine = machine_of(&rows(), settings());
    assert!(
        (repetition(&mut machine) - 30.0).abs() < 1e-6,
        "unpinned: scatter with first touch"
    );
    for (pus, pages, expected) in [
        (SCATTER, None, 30.0),
        (COMPACT, None, 27.0),
        (COMPACT, Some(PageMapping::Interleave), 23.0),
        (SCATTER, None, 24.0),
        (SCATTER, Some(PageMapping::FirstTouch), 30.0),
    ] {
        let applied = machine.apply(&pinned(&pus, pages));
        assert_eq!(applied.refused, []);
        assert!((repetition(&mut machine) - expected).abs() < 1e-6, "{pus:?} {pages:?}");
    }
}

#[test]
fn what_the_table_lacks_is_refused_and_threads_run_unpinned() {
    let mut machine = machine_of(&rows(), settings());
    machine.apply(&pinned(&COMPACT, None));
    for pus in [[0, 1, 4, 5], [0, 0, 1, 1], [0, 1, 2, 4]] {
        let applied = machine.apply(&pinned(&pus, None));
        assert_eq!(applied.refused[0].code, RefusalCode::Unmeasured, "{pus:?}");
        assert!(applied.instead.is_some());
        assert!((repetition(&mut machine) - 30.0).abs() < 1e-6);
    }
    let replayed = machine.replayed();
    assert_eq!((replayed.requests, replayed.refused), (4, 3));
}

#[test]
fn pages_that_the_table_lacks_stay_and_the_rest_is_done() {
    let mut machine = machine_of(&rows(), settings());
    let applied = machine.apply(&pinned(&COMPACT, Some(PageMapping::Balance)));
    assert_eq!(applied.refused[0].code, RefusalCode::Pages);
    assert!(applied.refused[0].why.contains("balance"), "{:?}", applied.refused);
    assert!(applied.instead.is_none());
    assert!((repetition(&mut machine) - 27.0).abs() < 1e-6);
}

#[test]
fn a_table_with_one_setting_of_the_prefetchers_cannot_set_them() {
    let mut machine = machine_of(&rows(), settings());
    let request = Configuration {
        prefetchers: Some("1100".parse().unwrap()),
        ..pinned(&COMPACT, None)
    };
    let applied = machine.apply(&request);
    assert_eq!(applied.refused[0].code, RefusalCode::Prefetchers);
    assert!((repetition(&mut machine) - 27.0).abs() < 1e-6);
    let mut with_another = rows();
    for number in 0..2 {
        let mut row = with_another[number].clone();
        row.configuration.prefetch = "1111".to_owned();
        with_another.push(row);
    }
    let applied = machine_of(&with_another, settings()).apply(&request);
    assert_eq!(
        applied.refused[0].code,
        RefusalCode::Unmeasured,
        "others were measured, and this was not"
    );
}

#[test]
fn regions_differ_where_the_pages_are_the_same_for_all() {
    let mut machine = machine_of(&rows(), settings());
    let region = |pus: &[u32]| RegionConfiguration {
        pinning: Pinning::new(pus.iter().copied().map(PuId).collect()),
        threads: Some(pus.len()),
        prefetchers: None,
    };
    let mut request = pinned(&SCATTER, Some(PageMapping::Interleave));
    request.regions.insert(RegionId(2), region(&[0, 2]));
    assert_eq!(machine.apply(&request).refused, []);
    assert!((repetition(&mut machine) - (19.0 + 4.0)).abs() < 1e-6);
    // The pages of scattered threads are not beside two threads of one node.
    let mut request = pinned(&SCATTER, Some(PageMapping::FirstTouch));
    request.regions.insert(RegionId(1), region(&[0, 1]));
    let applied = machine.apply(&request);
    assert_eq!(applied.refused[0].code, RefusalCode::Regions);
    assert!(
        applied.refused[0].why.contains("pages beside 2 threads on 1 node"),
        "{:?}",
        applied.refused
    );
    assert!((repetition(&mut machine) - 30.0).abs() < 1e-6);
}

#[test]
fn outside_of_regions_a_smaller_team_shares_its_pus() {
    let mut machine = machine_of(&rows(), settings());
    let mut request = pinned(&[0, 0, 2, 2], Some(PageMapping::Interleave));
    for region in [1, 2] {
        request.regions.insert(
            RegionId(region),
            RegionConfiguration {
                pinning: Pinning::new(vec![PuId(0), PuId(2)]),
                threads: Some(2),
                prefetchers: None,
            },
        );
    }
    assert_eq!(machine.apply(&request).refused, []);
    assert!((repetition(&mut machine) - 34.0).abs() < 1e-6);
}

#[test]
fn moves_stop_the_program_and_pages_that_would_take_too_long_stay() {
    let moves = GivenCosts {
        threads: Some(Duration::from_secs(1)),
        pages: Some(Duration::from_secs(10)),
    };
    let mut machine = machine_of(&rows(), TableSettings { moves, ..settings() });
    assert!(
        machine.apply(&pinned(&COMPACT, None)).pages.is_none(),
        "nothing has begun"
    );
    machine.wait(Duration::from_secs(1)).unwrap();
    let interleaved = Configuration {
        mapping_within: Some(Duration::from_secs(9)),
        ..pinned(&COMPACT, Some(PageMapping::Interleave))
    };
    let applied = machine.apply(&interleaved);
    assert_eq!(applied.refused[0].code, RefusalCode::PagesTooLong);
    assert_eq!(applied.refused[0].takes, Some(Duration::from_secs(10)));
    let applied = machine.apply(&Configuration {
        mapping_within: Some(Duration::from_secs(10)),
        ..interleaved
    });
    assert_eq!(
        machine.replayed().requests,
        2,
        "only the time that pages may take has changed"
    );
    assert_eq!(applied.pages.unwrap().lasted, Duration::from_secs(10));
    machine.apply(&pinned(&SCATTER, None));
    machine.wait(Duration::from_secs(20)).unwrap();
    assert!(
        (machine.replayed().paused - 11.0).abs() < 1e-9,
        "interleaved pages stay, and threads move"
    );
    // Back to the unpinned program, its pages follow.
    let back = machine.apply(&Configuration {
        pages: Some(PageMapping::FirstTouch),
        ..Configuration::default()
    });
    assert_eq!(back.pages.unwrap().goal, "first_touch");
}

#[test]
fn the_baseline_of_the_table_is_the_unpinned_program() {
    let mut marked = rows();
    for number in [2, 3] {
        marked[number].baseline = true;
    }
    let mut machine = machine_of(&marked, settings());
    assert_eq!(machine.replayed().unpinned_source, UnpinnedSource::Baseline);
    assert!((repetition(&mut machine) - 27.0).abs() < 1e-6);
    let mut unpinned = rows();
    for (name, time) in [("first", 40.0), ("second", 2.0)] {
        let mut row = row(Some(name), 4, 1, "compact", "first_touch", time);
        row.configuration.nodes = None;
        row.configuration.thread_map = None;
        unpinned.push(row);
    }
    let mut machine = machine_of(&unpinned, settings());
    assert_eq!(machine.replayed().unpinned_source, UnpinnedSource::Measured);
    assert_eq!(machine.observe().tasks[0].last_pu, None);
    assert!((repetition(&mut machine) - 42.0).abs() < 1e-6);
}

#[test]
fn a_table_without_first_touch_says_where_the_pages_of_the_unpinned_program_are() {
    let without: Vec<TableRow> = rows()
        .into_iter()
        .filter(|row| row.configuration.page_map != "first_touch")
        .collect();
    let mut machine = machine_of(&without, settings());
    let notes = machine.take_notes().join(" ");
    assert!(
        notes.contains("go to interleave, because the table has no first touch"),
        "{notes}"
    );
    let applied = machine.apply(&pinned(&COMPACT, Some(PageMapping::FirstTouch)));
    assert_eq!(applied.refused, []);
    assert!((repetition(&mut machine) - 23.0).abs() < 1e-6);
}

#[test]
fn times_without_a_unit_are_scaled_to_half_a_second_an_execution() {
    let mut machine = machine_of(
        &rows(),
        TableSettings {
            in_seconds: false,
            ..settings()
        },
    );
    assert!(machine.take_notes().iter().any(|note| note.contains("0.5 s")));
    assert!((repetition(&mut machine) - 1.0).abs() < 1e-9);
    let given = TableSettings {
        in_seconds: false,
        execution: Some(Duration::from_millis(10)),
        ..settings()
    };
    let mut machine = machine_of(&rows(), given);
    assert!(!machine.take_notes().iter().any(|note| note.contains("no unit")));
    assert!((repetition(&mut machine) - 0.02).abs() < 1e-9);
}

#[test]
fn one_region_or_another_number_of_threads_can_be_chosen() {
    let program = TableProgram::new(&rows(), &topology(), Some("solver"), Some("second")).unwrap();
    let two = TableSettings {
        threads: Some(2),
        ..settings()
    };
    let mut machine = TableMachine::new(program.clone(), topology(), two).unwrap();
    machine.wait(Duration::from_secs(41)).unwrap();
    assert_eq!(machine.observe().tasks.len(), 2);
    assert_eq!(machine.observe().regions.len(), 1);
    let none = TableSettings {
        threads: Some(3),
        ..settings()
    };
    let error = TableMachine::new(program, topology(), none).err().unwrap().to_string();
    assert!(
        error.contains("with 3 threads") && error.contains("it has 2, 4 threads"),
        "{error}"
    );
}

#[test]
fn what_the_program_does_outside_of_its_regions_takes_the_rest_of_its_time() {
    let mut with_whole = rows();
    for (map, time) in [("scatter", 35.0), ("compact", 30.0)] {
        with_whole.push(row(None, 4, 2, map, "first_touch", time));
    }
    let mut machine = machine_of(&with_whole, settings());
    assert_eq!(machine.wait(Duration::from_secs(34)).unwrap(), Wait::Elapsed);
    assert_eq!(machine.replayed().repetitions, 0);
    machine.wait(Duration::from_secs(2)).unwrap();
    assert_eq!(machine.replayed().repetitions, 1);
    assert_eq!(machine.observe().regions.len(), 2);
    let applied = machine.apply(&pinned(&COMPACT, Some(PageMapping::Interleave)));
    assert_eq!(
        applied.refused[0].code,
        RefusalCode::Pages,
        "the whole program was not measured so"
    );
}

#[test]
fn a_run_of_so_many_repetitions_ends_with_the_last_one() {
    let repeat = Repeat::Times(NonZeroU64::new(3).unwrap());
    let mut machine = machine_of(&rows(), TableSettings { repeat, ..settings() });
    assert_eq!(machine.wait(Duration::from_secs(80)).unwrap(), Wait::Elapsed);
    assert_eq!(machine.wait(Duration::from_secs(80)).unwrap(), Wait::Ended(0));
    assert_eq!(machine.now(), Duration::from_secs(90));
    assert!(!machine.observe().tasks[0].alive);
}

#[test]
fn names_that_the_table_does_not_have_get_the_nearest_one() {
    let wrong = |program: &str, region: Option<&str>| {
        let error = TableProgram::new(&rows(), &topology(), Some(program), region);
        error.err().unwrap().to_string()
    };
    let error = wrong("Solvr", None);
    assert!(error.contains("did you mean `solver`?"), "{error}");
    let error = wrong("solver", Some("frist"));
    assert!(
        error.contains("did you mean `first`?") && error.contains("`second`"),
        "{error}"
    );
    let mut sizes = rows();
    sizes[0].command = "solver --size 2".to_owned();
    let error = TableProgram::new(&sizes, &topology(), Some("solver"), None)
        .err()
        .unwrap();
    assert!(error.to_string().contains("`solver --size 2`"), "{error}");
    let whole = [row(None, 4, 2, "scatter", "first_touch", 1.0)];
    let error = TableProgram::new(&whole, &topology(), None, Some("first"))
        .err()
        .unwrap();
    assert!(error.to_string().contains("leave --region out"), "{error}");
}

#[test]
fn a_row_with_an_impossible_value_is_an_error_that_names_it() {
    for (change, why) in [
        (
            (|row: &mut TableRow| row.time = 0.0) as fn(&mut TableRow),
            "its time is 0",
        ),
        (|row| row.time = f64::NAN, "its time is NaN"),
        (|row| row.spread = Some(-1.0), "its spread is -1"),
        (
            |row| row.configuration.page_map = "elsewhere".to_owned(),
            "`elsewhere` is no page mapping",
        ),
        (
            |row| row.configuration.prefetch = "00".to_owned(),
            "`00` is no prefetcher setting",
        ),
        (
            |row| row.configuration.thread_map = Some("round".to_owned()),
            "`round` is no thread map",
        ),
        (
            |row| row.configuration.nodes = Some(3),
            "4 threads on 3 nodes, and the machine has 2",
        ),
        (|row| row.configuration.threads = 0, "no threads"),
        (
            |row| row.configuration.pinning = Some("x".to_owned()),
            "`x` is not a number",
        ),
    ] {
        let mut wrong = rows();
        change(&mut wrong[1]);
        let error = TableProgram::new(&wrong, &topology(), None, None)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("row 2") && error.contains(why), "{error}");
    }
}

#[test]
fn a_pinning_that_a_row_names_is_that_row_and_others_like_it_are_counted() {
    let mut exact = vec![];
    for (pinning, time) in [("0,1", 7.0), ("2,3", 8.0)] {
        let mut row = row(None, 2, 1, "compact", "first_touch", time);
        row.configuration.thread_map = None;
        row.configuration.pinning = Some(pinning.to_owned());
        exact.push(row);
    }
    let moves = GivenCosts {
        threads: Some(Duration::ZERO),
        pages: Some(Duration::ZERO),
    };
    let mut machine = machine_of(&exact, TableSettings { moves, ..settings() });
    for (pus, repetitions) in [([0, 1], 8), ([2, 3], 7), ([4, 5], 8)] {
        assert_eq!(machine.apply(&pinned(&pus, None)).refused, []);
        let before = machine.replayed().repetitions;
        machine.wait(Duration::from_secs(56)).unwrap();
        assert_eq!(machine.replayed().repetitions - before, repetitions, "{pus:?}");
    }
    assert_eq!(machine.replayed().alike, 1);
}

#[test]
fn limits_of_unpinned_threads_are_refused() {
    let limited = Configuration {
        within: Some("0-1".parse::<PuSet>().unwrap()),
        ..Configuration::default()
    };
    let applied = machine_of(&rows(), settings()).apply(&limited);
    assert_eq!(applied.refused[0].code, RefusalCode::Limit);
}

proptest! {
    #[test]
    fn any_request_leaves_the_machine_in_a_row_of_the_table(
        pus in proptest::collection::vec(0..10u32, 1..6), page in 0..6usize, seed in 0..u64::MAX
    ) {
        const PAGES: [&str; 6] = ["first_touch", "interleave", "local", "single:1", "bind:0", "balance"];
        let mut machine = machine_of(&rows(), TableSettings { seed, ..settings() });
        machine.wait(Duration::from_secs(1)).unwrap();
        let request = pinned(&pus, Some(PAGES[page].parse().unwrap()));
        let applied = machine.apply(&request);
        let again = machine.apply(&request);
        prop_assert_eq!(&again.refused, &applied.refused);
        prop_assert!(again.moved.is_empty() && again.pages.is_none());
        let time = repetition(&mut machine);
        let sums = [30.0, 27.0, 24.0, 23.0, 34.0];
        prop_assert!(sums.iter().any(|sum| (time - sum).abs() < 1e-6), "{}", time);
        if !applied.refused.is_empty() {
            prop_assert_eq!(machine.replayed().refused, 1);
        }
    }
}
