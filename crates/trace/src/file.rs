//! The parts of a recording's file: a header, then frames. docs/formats/internals/recordings.md describes it for other
//! readers.
//!
//! All numbers are little-endian. Each part has its length and a checksum, so that a file can be read from its start to
//! the first damage.

use crate::place::Functions;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the format that this library writes. It also reads earlier versions. Version 4 lacks code. Version 3
/// also lacks first touches outside windows, and version 2 also lacks mappings.
pub const FORMAT_VERSION: u32 = 5;
/// The oldest version that it reads.
pub(crate) const OLDEST_VERSION: u32 = 2;
/// The oldest version with mappings.
pub(crate) const VERSION_WITH_MAPPINGS: u32 = 3;
/// The oldest version with first touches outside windows.
pub(crate) const VERSION_WITH_FIRST_TOUCHES: u32 = 4;
/// The oldest version with code.
pub(crate) const VERSION_WITH_CODE: u32 = 5;

/// The first bytes of every recording.
pub(crate) const FILE_MAGIC: [u8; 8] = *b"PINFTRC\n";
/// The bytes before the header's text: magic, version, length, checksum of the text.
pub(crate) const PREFIX: usize = 20;
/// The longest header text, in bytes.
pub(crate) const LONGEST_HEADER: u32 = 16 << 20;
/// The bytes of a frame before its payload.
pub(crate) const FRAME: usize = 56;

/// The recorded program, and the settings of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The program that made the recording: `pinfold 0.1.0`.
    pub recorder: String,
    /// The program's instruction set: `x86_64`.
    pub architecture: String,
    /// The bytes of a page.
    pub page_size: u64,
    /// The command as given.
    pub command: Vec<String>,
    /// The executed file: the command's program, or its interpreter if the program is a script.
    pub program: String,
    /// The recorded part of the run; `None` for all of it.
    pub window: Option<Window>,
}

/// The recorded part of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// A range of instructions, counted over all threads together.
    Instructions {
        /// The number of instructions before the range.
        from: u64,
        /// The length of the range; `None`: to the end.
        length: Option<u64>,
        /// The distance from the start of one range to the start of the next; `None`: there is one.
        every: Option<u64>,
    },
    /// Executions of a parallel region.
    Region {
        /// The region.
        region: Region,
        /// One in this many of its executions, starting with the first.
        every: u64,
    },
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instructions { from, length, every } => {
                write!(f, "from instruction {from}")?;
                if let Some(length) = length {
                    write!(f, ", for {length}")?;
                }
                every.map_or(Ok(()), |every| write!(f, ", again every {every}"))
            }
            Self::Region { region, every: 1 } => write!(f, "{region}"),
            Self::Region { region, every } => write!(f, "{region}, one in {every} executions"),
        }
    }
}

/// The identification of a parallel region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Region {
    /// The position of its first start in the order of the program's regions, from 0.
    Number(u64),
    /// The address of its function.
    Address(u64),
    /// The functions that contain it. These may have several regions.
    Functions(Functions),
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "region {number}"),
            Self::Address(address) => write!(f, "the region at {address:#x}"),
            Self::Functions(functions) => {
                write!(f, "the regions of {} in {}", functions.name, functions.file.display())
            }
        }
    }
}

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Accesses and events of a thread, compressed.
    Block,
    /// A thread, with its kernel id and its parent.
    Thread,
    /// The place of a parallel region's code.
    Region,
    /// A file that was mapped.
    File,
    /// Code, compressed.
    Code,
    /// The end mark of a complete recording.
    End,
}

impl FrameKind {
    fn magic(self) -> [u8; 4] {
        match self {
            Self::Block => *b"PFbk",
            Self::Thread => *b"PFth",
            Self::Region => *b"PFrg",
            Self::File => *b"PFfl",
            Self::Code => *b"PFcd",
            Self::End => *b"PFen",
        }
    }
}

/// One frame without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    /// Bytes of the payload in the file.
    pub(crate) stored: u32,
    /// Bytes of the payload when it is decompressed.
    pub(crate) raw: u32,
    pub(crate) thread: u32,
    pub(crate) events: u32,
    pub(crate) accesses: u64,
    pub(crate) first_instruction: u64,
    pub(crate) instructions: u64,
    pub(crate) checksum: u32,
}

impl Frame {
    /// The frame's bytes, with the checksum over everything but magic and checksum.
    pub(crate) fn to_bytes(self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FRAME + payload.len());
        bytes.extend(self.kind.magic());
        bytes.extend([0; 4]);
        bytes.extend(self.stored.to_le_bytes());
        bytes.extend(self.raw.to_le_bytes());
        bytes.extend(self.thread.to_le_bytes());
        bytes.extend(self.events.to_le_bytes());
        bytes.extend(self.accesses.to_le_bytes());
        bytes.extend(self.first_instruction.to_le_bytes());
        bytes.extend(self.instructions.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(payload);
        let checksum = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The frame at the start of these bytes. `None` if its kind is unknown.
    pub(crate) fn from_bytes(bytes: &[u8; FRAME]) -> Option<Self> {
        let kinds = [
            FrameKind::Block,
            FrameKind::Thread,
            FrameKind::Region,
            FrameKind::File,
            FrameKind::Code,
            FrameKind::End,
        ];
        let kind = kinds.into_iter().find(|kind| bytes.starts_with(&kind.magic()))?;
        let small = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let large = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Some(Self {
            kind,
            checksum: small(4),
            stored: small(8),
            raw: small(12),
            thread: small(16),
            events: small(20),
            accesses: large(24),
            first_instruction: large(32),
            instructions: large(40),
        })
    }
}

/// The place of a block in its file, and its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// Bytes from the start of the file to the block's frame.
    pub offset: u64,
    /// Bytes in the file, frame included.
    pub stored: u64,
    /// The number of the thread in the recording.
    pub thread: u32,
    /// Accesses in it.
    pub accesses: u64,
    /// Events in it.
    pub events: u32,
    /// Instructions that the thread had started before.
    pub first_instruction: u64,
    /// Instructions in it.
    pub instructions: u64,
    pub(crate) payload: u32,
    pub(crate) raw: u32,
}
