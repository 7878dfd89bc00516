//! Written data come back. Damaged data are refused at the damage, and the part before the damage can be read.

#[path = "support/header.rs"]
mod header;

use header::header;
use pinfold_trace::{Access, Batch, Encoder, Event, EventKind, NO_PARENT, Output, Recording, Site, TraceError, Writer};
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::Path;

#[derive(Clone, Debug, PartialEq)]
enum Item {
    Access(Access),
    Event(Event),
}

/// The frames of one thread's items.
fn encode(thread: u32, items: &[Item]) -> Vec<Vec<u8>> {
    let mut output = Output::boxed();
    let mut encoder = Encoder::new(thread, &mut output);
    let mut numbers = HashMap::new();
    let mut frames = vec![];
    for item in items {
        let full = match item {
            Item::Access(access) => {
                let known = u32::try_from(numbers.len()).unwrap();
                let number = *numbers.entry((access.pc, access.write, access.locked)).or_insert(known);
                let site = Site {
                    pc: access.pc,
                    size: access.size,
                    write: access.write,
                    locked: access.locked,
                };
                encoder.access(number, access.size, access.address, access.instructions, || site)
            }
            Item::Event(event) => encoder.event(event),
        };
        if full {
            frames.push(Writer::block(&encoder.finish(0)).unwrap());
            encoder.restart();
        }
    }
    frames.push(Writer::block(&encoder.finish(7)).unwrap());
    frames
}

fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut file = vec![];
    Writer::header(&mut file, &header()).unwrap();
    file.extend(frames.concat());
    std::fs::write(path, file).unwrap();
}

fn decode(recording: &Recording, thread: usize) -> Result<Vec<Item>, TraceError> {
    let mut reader = recording.read(&recording.threads()[thread]);
    let mut batch: Batch = Batch::default();
    let mut items = vec![];
    while reader.next_batch(&mut batch)? {
        let mut events = batch.events.iter().peekable();
        for (position, access) in batch.accesses.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(before, _)| *before <= position) {
                items.push(Item::Event(*event));
            }
            items.push(Item::Access(*access));
        }
        items.extend(events.map(|(_, event)| Item::Event(*event)));
    }
    Ok(items)
}

fn access() -> impl Strategy<Value = Item> {
    // Few instructions with a few sizes, so that sites repeat; addresses of every kind.
    (
        0..6u64,
        0..7u32,
        any::<bool>(),
        prop_oneof![0..4u32, any::<u32>()],
        prop_oneof![any::<u64>(), 0..64u64],
    )
        .prop_map(|(pc, size, write, instructions, address)| {
            Item::Access(Access {
                address,
                pc: pc * 0x0123_4567_89ab,
                instructions,
                size: 1 << size,
                write,
                locked: pc == 3,
            })
        })
}

fn strided() -> impl Strategy<Value = Vec<Item>> {
    (any::<u64>(), any::<u32>(), 1..400u64, 1..4u64).prop_map(|(base, stride, count, sites)| {
        (0..count * sites)
            .map(|i| {
                Item::Access(Access {
                    address: base.wrapping_add(i / sites * u64::from(stride)),
                    pc: 0x40_0000 + i % sites,
                    instructions: 1,
                    size: 8,
                    write: i % sites == 0,
                    locked: false,
                })
            })
            .collect()
    })
}

fn event() -> impl Strategy<Value = Item> {
    (any::<u64>(), any::<u32>(), any::<u64>(), 0..4).prop_map(|(sequence, instructions, value, kind)| {
        Item::Event(Event {
            sequence,
            instructions: u64::from(instructions),
            kind: match kind {
                0 => EventKind::ThreadEnd { futex: value },
                1 => EventKind::FutexWake {
                    address: value,
                    limit: 1,
                },
                2 => EventKind::BarrierBegin {},
                _ => EventKind::RegionBegin {
                    region: value,
                    threads: 4,
                },
            },
        })
    })
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    prop::collection::vec(
        prop_oneof![
            prop::collection::vec(access(), 0..40),
            strided(),
            prop::collection::vec(event(), 0..3),
        ],
        0..12,
    )
    .prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_accesses_and_events_come_back(items in items()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("any.pft");
        let mut frames = vec![Writer::thread(3, 4711, NO_PARENT)];
        frames.extend(encode(3, &items));
        frames.push(Writer::end());
        write(&path, &frames);
        let recording = Recording::open(&path).unwrap();
        let thread = &recording.threads()[0];
        prop_assert_eq!((thread.number, thread.kernel_id, thread.parent), (3, Some(4711), None));
        let instructions: u64 = items.iter().map(|item| match item {
            Item::Access(access) => u64::from(access.instructions),
            Item::Event(event) => event.instructions,
        }).sum();
        prop_assert_eq!(thread.instructions(), instructions + 7);
        prop_assert_eq!(thread.accesses(), items.iter().filter(|item| matches!(item, Item::Access(_))).count() as u64);
        prop_assert_eq!(decode(&recording, 0).unwrap(), items);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("any.pft");
        std::fs::write(&path, &bytes).unwrap();
        prop_assert!(Recording::open(&path).is_err());
        write(&path, &[bytes]);
        prop_assert!(Recording::open(&path).is_err());
    }
}

#[test]
fn an_instruction_whose_accesses_differ_in_size_follows_upon_itself() {
    let items: Vec<_> = [8, 4, 8, 8, 4]
        .map(|size| {
            Item::Access(Access {
                address: 64,
                pc: 1,
                instructions: 0,
                size,
                write: true,
                locked: false,
            })
        })
        .into();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sizes.pft");
    let mut frames = encode(0, &items);
    frames.push(Writer::end());
    write(&path, &frames);
    assert_eq!(decode(&Recording::open(&path).unwrap(), 0).unwrap(), items);
}

/// More accesses than a block holds, with and without regularity.
fn many() -> Vec<Item> {
    (0..600_000u64)
        .map(|i| {
            Item::Access(Access {
                address: if i % 3 == 0 {
                    i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
                } else {
                    8 * i
                },
                pc: 0x40_0000 + i % 3,
                instructions: 2,
                size: 4,
                write: false,
                locked: false,
            })
        })
        .collect()
}

#[test]
fn blocks_are_read_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("many.pft");
    let items = many();
    let mut frames = encode(0, &items);
    frames.push(Writer::end());
    write(&path, &frames);
    let recording = Recording::open(&path).unwrap();
    let thread = &recording.threads()[0];
    assert!(thread.blocks.len() > 2);
    let mut reader = recording.read(thread);
    reader.seek(1);
    let mut batch: Batch = Batch::default();
    assert!(reader.next_batch(&mut batch).unwrap());
    let before = usize::try_from(thread.blocks[0].accesses).unwrap();
    for (access, item) in batch.accesses.iter().zip(&items[before..]) {
        assert_eq!(&Item::Access(*access), item);
    }
    assert_eq!(thread.blocks[1].first_instruction, thread.blocks[0].instructions);
    assert_eq!(decode(&recording, 0).unwrap(), items);
}

/// The bytes of a small file of three frames and the end, and the offsets of the frames.
fn small_file() -> (Vec<u8>, Vec<u64>) {
    let access = |address| {
        Item::Access(Access {
            address,
            pc: 1,
            instructions: 1,
            size: 8,
            write: false,
            locked: false,
        })
    };
    let frames = [
        Writer::thread(0, 1, NO_PARENT),
        encode(0, &[access(10), access(20)]).concat(),
        encode(0, &[access(30)]).concat(),
        Writer::end(),
    ];
    let mut file = vec![];
    Writer::header(&mut file, &header()).unwrap();
    let mut begins = vec![];
    for frame in frames {
        begins.push(file.len() as u64);
        file.extend(frame);
    }
    (file, begins)
}

/// The offset of the frame that contains this byte. 0 for the header.
fn begin_of_frame(begins: &[u64], byte: u64) -> u64 {
    begins.iter().copied().rfind(|begin| *begin <= byte).unwrap_or(0)
}

#[test]
fn a_file_cut_off_anywhere_is_refused_with_the_place_and_read_up_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.pft");
    let (file, begins) = small_file();
    for length in 0..file.len() {
        std::fs::write(&path, &file[..length]).unwrap();
        match Recording::open(&path) {
            Err(TraceError::NotARecording { .. }) => assert!(length < 8),
            Err(TraceError::Damaged { offset, .. }) => assert_eq!(offset, begin_of_frame(&begins, length as u64)),
            other => panic!("cut at {length}: {other:?}"),
        }
        if length as u64 >= begins[2] {
            let (recording, damage) = Recording::salvage(&path).unwrap();
            assert!(damage.is_some());
            let whole = if length as u64 >= begins[3] { 3 } else { 2 };
            assert_eq!(decode(&recording, 0).unwrap().len(), whole, "cut at {length}");
        }
    }
}

#[test]
fn a_byte_changed_anywhere_is_refused_with_the_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("changed.pft");
    let (file, begins) = small_file();
    for changed in 0..file.len() {
        let mut bytes = file.clone();
        bytes[changed] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        match Recording::open(&path) {
            Err(TraceError::NotARecording { .. }) => assert!(changed < 8),
            Err(TraceError::Version { .. }) => assert!((8..12).contains(&changed)),
            Err(TraceError::Damaged { offset, .. }) => assert_eq!(offset, begin_of_frame(&begins, changed as u64)),
            other => panic!("changed at {changed}: {other:?}"),
        }
    }
}

#[test]
fn a_block_whose_encoder_was_stopped_is_finished() {
    let mut output = Output::boxed();
    let mut encoder = Encoder::new(5, &mut output);
    let site = Site {
        pc: 9,
        size: 8,
        write: true,
        locked: false,
    };
    for i in 0..1000 {
        assert!(!encoder.access(0, 8, i * 8, 3, || site));
    }
    let (thread, first_instruction, block) = output.salvaged().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stopped.pft");
    let frame = Writer::salvaged_block(thread, first_instruction, &block).unwrap();
    write(&path, &[frame, Writer::end()]);
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.threads()[0].number, 5);
    assert_eq!(recording.threads()[0].instructions(), 3000);
    let items = decode(&recording, 0).unwrap();
    assert_eq!(items.len(), 1000);
    assert!(matches!(
        items[999],
        Item::Access(Access {
            address: 7992,
            write: true,
            ..
        })
    ));
}
