//! Recordings with correct checksums and contents that a test chooses, as docs/formats/internals/recordings.md
//! describes them.

#[path = "header.rs"]
mod header;

use pinfold_trace::Writer;

/// A frame of thread 0 that holds accesses and events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    /// The content before compression.
    pub(crate) raw: Vec<u8>,
    /// The number that the frame claims.
    pub(crate) accesses: u64,
    pub(crate) events: u32,
    pub(crate) first_instruction: u64,
    pub(crate) instructions: u64,
}

impl Block {
    fn frame(&self) -> Vec<u8> {
        let payload = zstd::bulk::compress(&self.raw, 1).unwrap();
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
        let mut rest = [length(&payload), length(&self.raw), [0; 4], self.events.to_le_bytes()].concat();
        for number in [self.accesses, self.first_instruction, self.instructions, 0] {
            rest.extend(number.to_le_bytes());
        }
        rest.extend(payload);
        [b"PFbk".to_vec(), crc32fast::hash(&rest).to_le_bytes().to_vec(), rest].concat()
    }
}

/// A file of these blocks.
pub(crate) fn recording(blocks: &[Block]) -> Vec<u8> {
    let mut file = header();
    for block in blocks {
        file.extend(block.frame());
    }
    file.extend(Writer::end());
    file
}

/// The header of a file.
pub(crate) fn header() -> Vec<u8> {
    let mut file = vec![];
    Writer::header(&mut file, &header::header()).unwrap();
    file
}
