//! Encodes blocks as frames of a file.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a block has at most BLOCK_CAPACITY bytes, a header is a command line"
)]

use crate::decoder::{Decoder, Limits};
use crate::encoder::Finished;
use crate::file::{FILE_MAGIC, FORMAT_VERSION, Frame, FrameKind, Header};
use crate::{Batch, MappedFile, RegionPlace};
use std::io::{self, Write};

/// The zstd level. Predicted accesses cost nothing already, so a higher level gains little.
const LEVEL: i32 = 1;

/// Writes the parts of a recording. It has no file: frames may come from several threads and are appended to the file
/// in any order, as long as each is complete and a thread's blocks keep their order.
pub struct Writer;

impl Writer {
    /// Writes the header of a file.
    pub fn header(file: &mut impl Write, header: &Header) -> io::Result<()> {
        let text = serde_json::to_vec(header)?;
        file.write_all(&FILE_MAGIC)?;
        file.write_all(&FORMAT_VERSION.to_le_bytes())?;
        file.write_all(&(text.len() as u32).to_le_bytes())?;
        file.write_all(&crc32fast::hash(&text).to_le_bytes())?;
        file.write_all(&text)
    }

    /// The frame of a thread: its number in the recording, its kernel id, and its parent (`NO_PARENT` for the first
    /// thread).
    pub fn thread(thread: u32, kernel_id: u32, parent: u32) -> Vec<u8> {
        let payload = [kernel_id.to_le_bytes(), parent.to_le_bytes()].concat();
        frame(FrameKind::Thread, thread, &payload).to_bytes(&payload)
    }

    /// The frame of the place of a region's code.
    pub fn region(place: &RegionPlace) -> Vec<u8> {
        let payload = place.to_bytes();
        frame(FrameKind::Region, 0, &payload).to_bytes(&payload)
    }

    /// The frame of a file with its number in mappings.
    pub fn file(file: &MappedFile) -> Vec<u8> {
        let payload = file.to_bytes();
        frame(FrameKind::File, 0, &payload).to_bytes(&payload)
    }

    /// The frame of code: a text from `CodeBlock::put`, of at most [`BLOCK_CAPACITY`](crate::BLOCK_CAPACITY) bytes.
    pub fn code(text: &[u8]) -> io::Result<Vec<u8>> {
        let payload = zstd::bulk::compress(text, LEVEL)?;
        Ok(Frame {
            raw: text.len() as u32,
            ..frame(FrameKind::Code, 0, &payload)
        }
        .to_bytes(&payload))
    }

    /// The frame of a block.
    pub fn block(block: &Finished<'_>) -> io::Result<Vec<u8>> {
        let payload = zstd::bulk::compress(block.bytes, LEVEL)?;
        Ok(Frame {
            raw: block.bytes.len() as u32,
            events: block.events,
            accesses: block.accesses,
            first_instruction: block.first_instruction,
            instructions: block.instructions,
            ..frame(FrameKind::Block, block.thread, &payload)
        }
        .to_bytes(&payload))
    }

    /// The frame of a block that its encoder could not finish (`Output::salvage`). Fails if the block is not valid,
    /// because its encoder was stopped between two instructions that belong together.
    pub fn salvaged_block(thread: u32, first_instruction: u64, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut decoder = Decoder::new(bytes.to_vec(), Limits::BLOCK);
        let mut batch: Batch = Batch::default();
        let mut block = Finished {
            thread,
            first_instruction,
            instructions: 0,
            accesses: 0,
            events: 0,
            bytes,
        };
        while !decoder.ended() {
            decoder.next_batch(&mut batch, &mut ()).map_err(io::Error::other)?;
            block.accesses += batch.accesses.len() as u64;
            block.events += batch.events.len() as u32;
            block.instructions += batch.all_instructions();
        }
        Self::block(&block)
    }

    /// The last frame: the recording is complete.
    pub fn end() -> Vec<u8> {
        frame(FrameKind::End, 0, &[]).to_bytes(&[])
    }
}

fn frame(kind: FrameKind, thread: u32, payload: &[u8]) -> Frame {
    Frame {
        kind,
        stored: payload.len() as u32,
        raw: payload.len() as u32,
        thread,
        events: 0,
        accesses: 0,
        first_instruction: 0,
        instructions: 0,
        checksum: 0,
    }
}
