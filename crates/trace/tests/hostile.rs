//! A file that is no recording, or one that was damaged, is refused or read as far as it goes, and never makes a reader
//! panic.

#[path = "../../core/tests/support/hostile.rs"]
mod hostile;

use hostile::{INPUTS, spoiled};
use pinfold_trace::{Batch, Encoder, Event, EventKind, Header, NO_PARENT, Output, Recording, Site, Writer};
use proptest::prelude::*;

/// A small recording of one thread.
fn recording() -> Vec<u8> {
    let mut output = Output::boxed();
    let mut encoder = Encoder::new(0, &mut output);
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
    let mut file = vec![];
    let header = Header {
        recorder: "test".to_owned(),
        architecture: "x86_64".to_owned(),
        page_size: 4096,
        command: vec!["program".to_owned()],
        program: "/bin/program".to_owned(),
        window: None,
    };
    Writer::header(&mut file, &header).unwrap();
    file.extend(Writer::block(&encoder.finish(7)).unwrap());
    file
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
    }
}
