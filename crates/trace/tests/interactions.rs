//! The exchanges between the threads of a recording follow the order of its events.

#[path = "support/header.rs"]
mod header;

use header::header;
use pinfold_trace::{Encoder, Event, EventKind, Interactions, Output, Recording, Site, Writer};
use proptest::prelude::*;

/// A part of a thread: accesses to lines, each read or written, up to an event with this position.
#[derive(Clone, Debug)]
struct Part {
    lines: Vec<(u64, bool)>,
    until: u64,
}

fn part(lines: impl IntoIterator<Item = u64>, write: bool, until: u64) -> Part {
    Part {
        lines: lines.into_iter().map(|line| (line, write)).collect(),
        until,
    }
}

/// A recording of threads with these parts.
fn recording(threads: &[Vec<Part>]) -> Recording {
    let mut file = vec![];
    Writer::header(&mut file, &header()).unwrap();
    for (number, parts) in threads.iter().enumerate() {
        let mut output = Output::boxed();
        let mut encoder = Encoder::new(u32::try_from(number).unwrap(), &mut output);
        for part in parts {
            for &(line, write) in &part.lines {
                let site = Site {
                    pc: 4,
                    size: 8,
                    write,
                    locked: false,
                };
                if encoder.access(u32::from(write), 8, line * 64, 1, || site) {
                    file.extend(Writer::block(&encoder.finish(0)).unwrap());
                    encoder.restart();
                }
            }
            let event = Event {
                sequence: part.until,
                instructions: 0,
                kind: EventKind::BarrierBegin {},
            };
            if encoder.event(&event) {
                file.extend(Writer::block(&encoder.finish(0)).unwrap());
                encoder.restart();
            }
        }
        file.extend(Writer::block(&encoder.finish(0)).unwrap());
    }
    file.extend(Writer::end());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.pft");
    std::fs::write(&path, file).unwrap();
    Recording::open(&path).unwrap()
}

#[test]
fn what_is_written_before_an_event_is_communicated_to_those_who_read_it_after() {
    let lines = 0..1000;
    let found = Interactions::of(&recording(&[
        vec![part(lines.clone(), true, 10), part([], false, 20)],
        vec![part([], false, 11), part(lines, false, 21)],
    ]));
    assert_eq!(found.unwrap().communications, [[0, 1000], [0, 0]]);
}

#[test]
fn what_is_read_before_it_is_written_is_no_communication() {
    let lines = 0..1000;
    let found = Interactions::of(&recording(&[
        vec![part([], false, 10), part(lines.clone(), true, 20)],
        vec![part(lines, false, 9), part([], false, 21)],
    ]));
    assert_eq!(found.unwrap().communications, [[0, 0], [0, 0]]);
}

#[test]
fn threads_that_run_at_the_same_time_take_turns() {
    // Both threads write and read one line all the time. It goes back and forth in turns of some hundred accesses.
    let both = || {
        vec![
            part([], false, 1),
            Part {
                lines: [(0, false), (0, true)].repeat(5000),
                until: 100,
            },
        ]
    };
    let found = Interactions::of(&recording(&[both(), both()])).unwrap();
    let times = found.communications[0][1];
    assert!((10..1000).contains(&times), "{times}");
    assert!(times.abs_diff(found.communications[1][0]) <= 1);
}

proptest! {
    /// The results that do not depend on the order are the same for all orders.
    #[test]
    fn accesses_and_lines_are_those_of_the_threads(
        threads in prop::collection::vec(prop::collection::vec((0..200u64, any::<bool>()), 0..600), 1..5)
    ) {
        let parts: Vec<Vec<Part>> = threads
            .iter()
            .enumerate()
            .map(|(number, lines)| vec![Part { lines: lines.clone(), until: 5 + number as u64 }])
            .collect();
        let found = Interactions::of(&recording(&parts)).unwrap();
        for (number, lines) in threads.iter().enumerate() {
            prop_assert_eq!(found.accesses[number], lines.len() as u64);
            let mut different: Vec<u64> = lines.iter().map(|&(line, _)| line).collect();
            different.sort_unstable();
            different.dedup();
            prop_assert_eq!(found.lines_by_thread[number], different.len() as u64);
            prop_assert_eq!(found.communications[number][number], 0);
        }
        for one in 0..threads.len() {
            for other in 0..threads.len() {
                prop_assert_eq!(found.sharing[one][other], found.sharing[other][one]);
            }
        }
    }
}

#[test]
fn too_many_lines_for_their_counts_are_an_error_that_says_what_to_do() {
    let recording = recording(&[vec![part(0..100_000, true, 10)], vec![part(0..100_000, false, 20)]]);
    let error = Interactions::within(&recording, 2 << 20).unwrap_err().to_string();
    assert!(error.contains("by its 2 threads need more than 2 MiB"), "{error}");
    assert!(error.contains("record --instructions"), "{error}");
    assert_eq!(Interactions::of(&recording).unwrap().lines.number, 100_000);
}
