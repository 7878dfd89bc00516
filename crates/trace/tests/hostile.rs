//! A file that is not a recording is refused. A damaged recording is refused or read up to the damage. No file makes a
//! reader panic.

#[path = "support/forged.rs"]
mod forged;
#[path = "../../core/tests/support/hostile.rs"]
mod hostile;

use forged::Block;
use hostile::{INPUTS, spoiled};
use pinfold_trace::{
    BLOCK_ACCESSES, Batch, Encoder, Event, EventKind, Mappings, Metrics, NO_PARENT, Output, Recording, Site, Summary,
    Writer,
};
use proptest::prelude::*;

/// A small recording of one thread.
fn recording() -> Vec<u8> {
    let mut file = forged::header();
    let mut output = Output::boxed();
    let mut encoder = encoded(&mut output);
    file.extend(Writer::block(&encoder.finish(7)).unwrap());
    file
}

/// The bytes of the recording's block before compression.
fn block() -> Vec<u8> {
    let mut output = Output::boxed();
    encoded(&mut output);
    output.salvaged().unwrap().2
}

fn encoded(output: &mut Output) -> Encoder<'_> {
    let mut encoder = Encoder::new(0, output);
    let event = |sequence, kind| Event {
        sequence,
        instructions: 3,
        kind,
    };
    encoder.event(&event(
        0,
        EventKind::ThreadBegin {
            parent: u64::from(NO_PARENT),
        },
    ));
    for access in 0..200u64 {
        let number = u32::try_from(access % 3).unwrap();
        let site = Site {
            pc: 0x40_1000 + access % 3,
            size: 8,
            write: access % 3 == 2,
            locked: false,
        };
        encoder.access(number, 8, 0x7000 + access * access % 977 * 8, 2, || site);
    }
    encoder.event(&event(1, EventKind::ThreadEnd { futex: 0 }));
    encoder
}

/// Appends a variable-length integer.
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

/// Computes everything that can be computed from the readable part of a recording.
fn analyse(recording: &Recording) {
    let _ = (Summary::of(recording), Metrics::of(recording), Mappings::of(recording));
}

#[test]
fn a_block_that_says_more_than_it_can_hold_is_damage() {
    // A run of predicted accesses after two accesses of a site, and the end.
    let run = |run: u64| {
        let mut bytes = vec![3, 0, 1, 0x80, 0x20, 3, 0, 1, 0, 0];
        put(&mut bytes, run << 2);
        bytes.extend([0, 0]);
        bytes
    };
    let event_of = |instructions: u64| {
        let mut bytes = vec![0, 14];
        put(&mut bytes, instructions);
        bytes.extend([0, 0, 0, 0]);
        bytes
    };
    let read = |block: &Block| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), forged::recording(std::slice::from_ref(block))).unwrap();
        Recording::open(file.path())
            .and_then(|recording| Summary::of(&recording).map(|summary| summary.threads[0].accesses))
    };
    let accesses = |accesses| Block {
        accesses,
        instructions: 1,
        ..Block::default()
    };
    assert_eq!(
        read(&Block {
            raw: run(8),
            ..accesses(10)
        })
        .unwrap(),
        10
    );
    for (block, words) in [
        (
            Block {
                raw: run(1 << 60),
                ..accesses(10)
            },
            "more accesses than it can",
        ),
        (
            Block {
                raw: run(BLOCK_ACCESSES - 1),
                ..accesses(10)
            },
            "more accesses than it can",
        ),
        (
            Block {
                raw: run(7),
                ..accesses(10)
            },
            "fewer accesses than its frame says",
        ),
        (
            Block {
                raw: run(8),
                ..accesses(BLOCK_ACCESSES + 1)
            },
            "more than it can",
        ),
        (
            Block {
                raw: event_of(1 << 40),
                events: 1,
                ..accesses(0)
            },
            "more instructions than it can",
        ),
        (
            Block {
                raw: event_of(1),
                ..accesses(0)
            },
            "more events than it can",
        ),
        (
            Block {
                raw: event_of(1),
                events: 1,
                instructions: u64::MAX,
                ..Block::default()
            },
            "more than it can",
        ),
    ] {
        let error = read(&block).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_recording_of_more_threads_than_there_can_be_is_damage() {
    let mut bytes = forged::header();
    for thread in 0..=65536 {
        bytes.extend(Writer::thread(thread, 1, NO_PARENT));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let (recording, damage) = Recording::salvage(file.path()).unwrap();
    assert_eq!(recording.threads().len(), 65536);
    assert!(damage.unwrap().to_string().contains("more threads than"));
    let error = Metrics::of(&recording).unwrap_err().to_string();
    assert!(error.contains("65536 threads"), "{error}");
}

proptest! {
#![proptest_config(ProptestConfig::with_cases(INPUTS))]

#[test]
fn a_damaged_recording_is_refused_or_read_as_far_as_it_goes(bytes in spoiled(vec![recording()])) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    if let Err(error) = Recording::open(file.path()) {
        prop_assert!(!error.to_string().is_empty());
    }
    if let Ok((recording, _)) = Recording::salvage(file.path()) {
        prop_assert!(recording.file_size() <= bytes.len() as u64);
        for thread in recording.threads() {
            let mut reader = recording.read(thread);
            let mut batch: Batch = Batch::default();
            while let Ok(true) = reader.next_batch(&mut batch) {}
        }
    }
}}

proptest! {
    // Each input that can be read is analysed, which takes time.
    #![proptest_config(ProptestConfig::with_cases(INPUTS / 8))]

    #[test]
    fn a_block_of_wrong_contents_behind_a_right_checksum_is_read_or_refused(
        raw in spoiled(vec![block()]),
        accesses in prop_oneof![Just(200), 0..=BLOCK_ACCESSES, any::<u64>()],
        instructions in prop_oneof![0..1u64 << 30, any::<u64>()],
        first_instruction in prop_oneof![Just(0), any::<u64>()],
    ) {
        let block = Block { raw, accesses, events: u32::MAX, first_instruction, instructions };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), forged::recording(&[block])).unwrap();
        if let Ok(recording) = Recording::open(file.path()) {
            analyse(&recording);
        }
    }
}
