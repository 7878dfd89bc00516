use super::*;
use crate::NodeId;
use proptest::prelude::*;

const PAGE: u64 = 4096;

fn mapped(start: u64, end: u64, backing: MappedBacking) -> MappedArea {
    MappedArea {
        start,
        end,
        backing,
        writable: true,
        accessible: true,
    }
}

fn recorded(start: u64, end: u64, backing: MappedBacking, order: u64) -> RecordedArea {
    RecordedArea {
        area: mapped(start, end, backing),
        name: format!("{start:#x}"),
        order,
        changed: false,
    }
}

fn file(offset: u64) -> MappedBacking {
    MappedBacking::File("/bin/program".into(), offset)
}

fn behind_file(offset: u64) -> MappedBacking {
    MappedBacking::BehindFile("/bin/program".into(), offset)
}

/// The counterpart of each of these addresses in the running program.
fn at(recorded: &[RecordedArea], running: &[MappedArea], addresses: &[u64]) -> Vec<Option<u64>> {
    let matching = Matching::of(recorded, running);
    addresses.iter().map(|&address| matching.address(address)).collect()
}

#[test]
fn files_are_matched_by_their_place_and_protection() {
    let mut code = recorded(0x1000, 0x3000, file(0), 0);
    code.area.writable = false;
    // The loader maps the page at 0x1000 of the file twice: as code and as data.
    let data = recorded(0x3000, 0x5000, file(0x1000), 1);
    let mut running_code = mapped(0x10_1000, 0x10_3000, file(0));
    running_code.writable = false;
    let running = [running_code, mapped(0x10_3000, 0x10_4000, file(0x1000))];
    assert_eq!(
        at(&[code, data], &running, &[0x1000, 0x2abc, 0x3008, 0x4000]),
        [Some(0x10_1000), Some(0x10_2abc), Some(0x10_3008), None]
    );
}

#[test]
fn a_page_whose_protection_has_changed_since_is_still_the_files() {
    let data = recorded(0x3000, 0x5000, file(0x1000), 1);
    let mut read_only = mapped(0x10_3000, 0x10_4000, file(0x1000));
    read_only.writable = false;
    let running = [read_only, mapped(0x10_4000, 0x10_5000, file(0x2000))];
    assert_eq!(
        at(&[data], &running, &[0x3000, 0x4000]),
        [Some(0x10_3000), Some(0x10_4000)]
    );
}

#[test]
fn zeroed_data_are_behind_their_file_also_where_other_memory_adjoins_them() {
    let areas = [
        recorded(0x1000, 0x2000, file(0), 0),
        recorded(0x2000, 0x5000, behind_file(0), 1),
        recorded(0x9000, 0xb000, MappedBacking::Anonymous, 2),
    ];
    let running = [
        mapped(0x10_1000, 0x10_2000, file(0)),
        mapped(0x10_2000, 0x10_7000, MappedBacking::Anonymous),
    ];
    assert_eq!(
        at(&areas, &running, &[0x2000, 0x4fff, 0x9000, 0xafff]),
        [Some(0x10_2000), Some(0x10_4fff), Some(0x10_5000), Some(0x10_6fff)]
    );
}

#[test]
fn the_heap_is_matched_from_its_begin_and_the_stack_from_its_end() {
    let areas = [
        recorded(0x1000, 0x5000, MappedBacking::Heap, 0),
        recorded(0x8000, 0xc000, MappedBacking::Stack, 0),
    ];
    let running = [
        mapped(0x10_0000, 0x10_2000, MappedBacking::Heap),
        mapped(0x70_e000, 0x71_0000, MappedBacking::Stack),
    ];
    assert_eq!(
        at(&areas, &running, &[0x1008, 0x3000, 0x9fff, 0xa000, 0xbff8]),
        [Some(0x10_0008), None, None, Some(0x70_e000), Some(0x70_fff8)]
    );
}

#[test]
fn areas_of_equal_length_match_in_order_and_inaccessible_ones_not_at_all() {
    let stacks = [
        recorded(0x1000, 0x3000, MappedBacking::Anonymous, 7),
        recorded(0x4000, 0x6000, MappedBacking::Anonymous, 9),
    ];
    let mut guard = mapped(0x10_0000, 0x10_2000, MappedBacking::Anonymous);
    guard.accessible = false;
    let running = [
        guard,
        mapped(0x10_3000, 0x10_5000, MappedBacking::Anonymous),
        mapped(0x10_6000, 0x10_8000, MappedBacking::Anonymous),
    ];
    assert_eq!(
        at(&stacks, &running, &[0x1000, 0x4000]),
        [Some(0x10_6000), Some(0x10_3000)]
    );
}

#[test]
fn private_memory_is_no_counterpart_of_shared() {
    let areas = [recorded(0x1000, 0x3000, MappedBacking::Shared, 0)];
    let running = [mapped(0x10_0000, 0x10_2000, MappedBacking::Anonymous)];
    assert_eq!(at(&areas, &running, &[0x1000]), [None]);
}

proptest! {
    /// A program maps these numbers of pages one after the other. The kernel places each below its predecessor, some
    /// with a gap, and merges neighbours. With different lengths each byte is found.
    #[test]
    fn neighbours_are_found_in_one_area(
        mapped_pages in proptest::collection::btree_map(0u32..5, any::<bool>(), 1..6), offset in 0u64..PAGE,
    ) {
        // No run of powers of three has the sum of another.
        let pages: Vec<(u64, bool)> = mapped_pages.iter().map(|(&power, &gap)| (3u64.pow(power), gap)).collect();
        let mut areas = vec![];
        let mut running: Vec<MappedArea> = vec![];
        let (mut bottom_up, mut top) = (0x4000_0000, 0x7fff_0000_0000u64);
        let mut expected = vec![];
        for (order, &(pages, gap)) in (0..).zip(&pages) {
            let length = pages * PAGE;
            areas.push(recorded(bottom_up, bottom_up + length, MappedBacking::Anonymous, order));
            top -= length;
            expected.push((bottom_up + offset, top + offset));
            match running.last_mut() {
                Some(last) if last.start == top + length => last.start = top,
                _ => running.push(mapped(top, top + length, MappedBacking::Anonymous)),
            }
            bottom_up += length;
            if gap {
                top -= PAGE;
            }
        }
        running.reverse();
        let matching = Matching::of(&areas, &running);
        for (from, to) in expected {
            prop_assert_eq!(matching.address(from), Some(to));
        }
    }

    /// For any mappings, no byte of the running program is the counterpart of two, and none is outside its areas.
    #[test]
    fn no_byte_has_two_counterparts(
        lengths in proptest::collection::vec(1u64..6, 0..12), its in proptest::collection::vec((1u64..9, any::<bool>()), 0..12),
    ) {
        let mut address = 0;
        let areas: Vec<RecordedArea> = (0..)
            .zip(&lengths)
            .map(|(order, pages)| {
                address += pages * PAGE;
                recorded(address - pages * PAGE, address, MappedBacking::Anonymous, order)
            })
            .collect();
        let end = address;
        let running: Vec<MappedArea> = its
            .iter()
            .map(|&(pages, gap)| {
                address += pages * PAGE + if gap { PAGE } else { 0 };
                mapped(address - pages * PAGE, address, MappedBacking::Anonymous)
            })
            .collect();
        let matching = Matching::of(&areas, &running);
        let mut seen = std::collections::BTreeSet::new();
        for page in 0..end / PAGE {
            if let Some(to) = matching.address(page * PAGE) {
                prop_assert!(running.iter().any(|area| (area.start..area.end).contains(&to)));
                prop_assert!(seen.insert(to));
            }
        }
    }
}

#[test]
fn accesses_are_mapped_to_running_pages_and_the_rest_has_its_reason() {
    let mut changed = recorded(0x10_0000, 0x10_1000, file(0), 0);
    changed.changed = true;
    let profile = RecordedProfile {
        recording: "a.pft".to_owned(),
        program: "/bin/program".into(),
        threads: 2,
        areas: vec![
            recorded(0x1000, 0x3000, MappedBacking::Heap, 0),
            recorded(0x8000, 0xa000, MappedBacking::Anonymous, 0),
            changed,
        ],
        pages: vec![
            (0x1000, vec![(0, 10), (1, 1)]),
            (0x2000, vec![(1, 20)]),
            (0x8000, vec![(0, 5)]),
            (0xf000, vec![(0, 3)]),
            (0x10_0000, vec![(1, 2)]),
        ],
    };
    let running = [mapped(0x70_0000, 0x70_2000, MappedBacking::Heap)];
    let (accesses, profiled) = profile.on(&running, &[], PAGE);
    let nodes = [0, 1].map(NodeId).into_iter().collect();
    let places = accesses.place_by_locality(&nodes, |thread| Some(NodeId(thread)));
    assert_eq!(
        [0x70_0000, 0x70_1000].map(|page| places.node(page)),
        [Some(NodeId(0)), Some(NodeId(1))]
    );
    assert_eq!(
        (profiled.accesses, profiled.matched, profiled.pages, profiled.areas),
        (41, 31, 2, 1)
    );
    let unmatched: Vec<_> = profiled
        .unmatched
        .iter()
        .map(|area| (area.accesses, area.why))
        .collect();
    assert_eq!(
        unmatched,
        [
            (5, Mismatch::NoEqual),
            (3, Mismatch::GivenBack),
            (2, Mismatch::FileChanged)
        ]
    );
    let text = profiled.to_string();
    assert!(text.starts_with("75.6 % of those in a.pft are to 2 pages"), "{text}");
}

#[test]
fn merged_areas_are_found_where_one_mapped_between_lies_elsewhere() {
    let lengths = [8, 12, 64, 128, 192].map(Some);
    assert_eq!(only_selection_of(&lengths, 332), Some(vec![1, 3, 4]));
    assert_eq!(only_selection_of(&lengths, 72), Some(vec![0, 2]));
    assert_eq!(only_selection_of(&lengths, 5), None);
    // Two selections fit, and nothing tells which one is right.
    assert_eq!(only_selection_of(&[Some(4), Some(4), None], 4), None);
}
