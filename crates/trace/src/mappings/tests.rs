use super::*;
use proptest::prelude::*;

const ANONYMOUS: u64 = 0;
const FIXED: u64 = 1;

fn file(number: u64, name: &str) -> MappedFile {
    MappedFile {
        number,
        file: name.into(),
        size: 1,
        modified: 1,
    }
}

fn map(address: u64, length: u64, backing: u64, offset: u64) -> EventKind {
    EventKind::Map {
        address,
        length,
        protection: 3,
        backing,
        offset,
    }
}

/// The mappings after changes, with one access of a thread to each of these addresses.
fn mapped(changes: &[EventKind], accesses: &[(u32, u64)]) -> Mappings {
    let mut mapper = Mapper::default();
    for (sequence, &kind) in (0..).zip(changes) {
        mapper.event(&Event {
            sequence,
            instructions: 0,
            kind,
        });
    }
    for &(thread, address) in accesses {
        mapper.access(thread, address);
    }
    mapper.finish(&[file(0, "/bin/program"), file(1, "/lib/library")])
}

/// The areas, and their backings with offsets.
fn shown(mappings: &Mappings) -> Vec<(u64, u64, String, u64)> {
    let area_of = |area: &Area| (area.start, area.end, area.backing.to_string(), area.offset);
    mappings.areas.iter().map(area_of).collect()
}

fn area(start: u64, end: u64, backing: &str, offset: u64) -> (u64, u64, String, u64) {
    (start, end, backing.to_owned(), offset)
}

#[test]
fn a_program_has_its_file_the_zeroes_behind_it_heap_and_stack() {
    let mappings = mapped(
        &[
            map(0x40_0000, 0x2000, Backing::FILES, 0x1000),
            map(0x40_2000, 0x3000, Backing::FOUND, 0),
            map(0x6000_0000, 0x1000, Backing::FOUND, 0),
            map(0x7000_0000, 0x8000, Backing::FOUND, 0),
            EventKind::Break { address: 0x50_0000 },
            EventKind::Break { address: 0x50_1234 },
            EventKind::Stack { address: 0x7000_7ff8 },
        ],
        &[],
    );
    assert_eq!(
        shown(&mappings),
        [
            area(0x40_0000, 0x40_2000, "/bin/program", 0x1000),
            area(0x40_2000, 0x40_5000, "zeroed data of /bin/program", 0),
            area(0x50_0000, 0x50_2000, "[heap]", 0),
            area(0x6000_0000, 0x6000_1000, "mapped at the start", 0),
            area(0x7000_0000, 0x7000_8000, "[stack]", 0),
        ]
    );
}

#[test]
fn what_the_kernel_puts_behind_a_file_is_not_the_files_and_what_the_program_does_is() {
    let library = map(0x1000, 0x1000, Backing::FILES + 1, 0);
    let mappings = mapped(&[library, map(0x2000, 0x1000, FIXED, 0)], &[]);
    assert_eq!(
        shown(&mappings)[1],
        area(0x2000, 0x3000, "zeroed data of /lib/library", 0)
    );
    let mappings = mapped(
        &[
            map(0x1000, 0x1000, Backing::FILES + 1, 0),
            map(0x2000, 0x1000, ANONYMOUS, 0),
        ],
        &[],
    );
    assert_eq!(shown(&mappings)[1], area(0x2000, 0x3000, "anonymous", 0));
}

#[test]
fn parts_keep_their_place_in_what_they_are_parts_of() {
    let events = [
        map(0x10_0000, 0x10_000, Backing::FILES, 0x4000),
        EventKind::Unmap {
            address: 0x10_2000,
            length: 0x1000,
        },
        EventKind::Protect {
            address: 0x10_8000,
            length: 0xfff,
            protection: 0,
        },
    ];
    let mappings = mapped(&events, &[(0, 0x10_2000)]);
    // The access was to the unmapped part, so the time before the unmapping is the best.
    assert_eq!(shown(&mappings), [area(0x10_0000, 0x11_0000, "/bin/program", 0x4000)]);
    let mappings = mapped(&events, &[(0, 0x10_f000)]);
    let accessible: Vec<(u64, bool, u64)> = mappings
        .areas
        .iter()
        .map(|area| (area.offset, area.accessible, area.accesses))
        .collect();
    assert_eq!(
        accessible,
        [
            (0x4000, true, 0),
            (0x7000, true, 0),
            (0xc000, false, 0),
            (0xd000, true, 1)
        ]
    );
    assert!(mappings.areas.iter().all(|area| area.order == 0));
}

#[test]
fn a_mapping_that_grows_elsewhere_is_there_with_its_backing() {
    let mappings = mapped(
        &[
            map(0x10_0000, 0x2000, ANONYMOUS, 0),
            EventKind::Remap {
                from: 0x10_0000,
                old_length: 0x2000,
                address: 0x20_0000,
                length: 0x8000,
            },
        ],
        &[(0, 0x20_7000)],
    );
    assert_eq!(shown(&mappings), [area(0x20_0000, 0x20_8000, "anonymous", 0)]);
}

#[test]
fn memory_that_was_given_back_at_the_end_is_there() {
    let data = map(0x10_0000, 0x4000, ANONYMOUS, 0);
    let gone = EventKind::Unmap {
        address: 0x10_0000,
        length: 0x4000,
    };
    let mappings = mapped(
        &[data, map(0x30_0000, 0x1000, ANONYMOUS, 0), gone],
        &[(0, 0x10_0000), (1, 0x10_0008)],
    );
    assert_eq!(mappings.areas.len(), 2);
    assert_eq!(mappings.areas[0].accesses, 2);
    assert_eq!(
        mappings.pages,
        [PageAccesses {
            address: 0x10_0000,
            threads: vec![(0, 1), (1, 1)]
        }]
    );
}

proptest! {
    /// For any mappings, unmappings and protections, areas never overlap, and an area's accesses are those within it.
    #[test]
    fn areas_lie_beside_each_other(
        changes in proptest::collection::vec((0u8..5, 0u64..40, 1u64..12, 0u64..40), 0..60),
        accesses in proptest::collection::vec((0u32..3, 0u64..60 * PAGE), 0..60),
    ) {
        let changes: Vec<EventKind> = changes
            .into_iter()
            .map(|(kind, at, pages, to)| {
                let (address, length, to) = (at * PAGE, pages * PAGE, to * PAGE);
                match kind {
                    0 | 1 => map(address, length, u64::from(kind), 0),
                    2 => EventKind::Unmap { address, length },
                    3 => EventKind::Protect { address, length, protection: 1 },
                    _ => EventKind::Remap { from: address, old_length: length, address: to, length: 2 * PAGE },
                }
            })
            .collect();
        let mappings = mapped(&changes, &accesses);
        for pair in mappings.areas.windows(2) {
            prop_assert!(pair[0].end <= pair[1].start);
        }
        for area in &mappings.areas {
            let within = accesses.iter().filter(|&&(_, at)| (area.start..area.end).contains(&at)).count();
            prop_assert_eq!(area.accesses, within as u64);
        }
    }
}
