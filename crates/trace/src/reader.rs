//! Reads the accesses of each thread from a file.
//!
//! Opening reads the whole file once, frame by frame, and verifies each checksum. So a file that opens can be read to
//! its end, and damage is reported before an hour of simulation. The valid part of a damaged file can be read on
//! request.

use crate::code::{self, CodeBlock};
use crate::decoder::{Batch, Decoder, FromAccess, Limits};
use crate::encoder::{BLOCK_ACCESSES, BLOCK_CAPACITY, BLOCK_INSTRUCTIONS};
use crate::file::{
    BlockEntry, FILE_MAGIC, FORMAT_VERSION, FRAME, Frame, FrameKind, Header, LONGEST_HEADER, OLDEST_VERSION, PREFIX,
    VERSION_WITH_CODE, VERSION_WITH_FIRST_TOUCHES, VERSION_WITH_MAPPINGS,
};
use crate::{MappedFile, NO_PARENT, RegionPlace, TraceError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An opened recording.
#[derive(Clone, Debug)]
pub struct Recording {
    file: Arc<File>,
    path: PathBuf,
    version: u32,
    header: Header,
    threads: Vec<Thread>,
    regions: Vec<RegionPlace>,
    mapped_files: Vec<MappedFile>,
    code: Vec<CodeBlock>,
    file_size: u64,
    complete: bool,
}

/// One thread of a recording.
#[derive(Clone, Debug)]
pub struct Thread {
    /// The number of the thread: threads are numbered in the order of their creation, from 0.
    pub number: u32,
    /// The kernel's id of the thread. `None` if the recording was truncated before it was known.
    pub kernel_id: Option<u32>,
    /// The number of the creating thread. `None` for the first thread.
    pub parent: Option<u32>,
    /// The thread's blocks, in the order of its run.
    pub blocks: Arc<[BlockEntry]>,
}

impl Thread {
    /// All data accesses.
    pub fn accesses(&self) -> u64 {
        self.blocks.iter().map(|block| block.accesses).sum()
    }

    /// All instructions, including those outside the window.
    pub fn instructions(&self) -> u64 {
        self.blocks.iter().map(|block| block.instructions).sum()
    }
}

impl Recording {
    /// Opens a complete recording. Errors: the file cannot be read, is not a recording, has another version, or is
    /// damaged or truncated.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        match Self::salvage(path)? {
            (recording, None) => Ok(recording),
            (_, Some(damage)) => Err(damage),
        }
    }

    /// Opens the part before the first damage of a recording, and returns the damage. Errors: the file cannot be read,
    /// is not a recording, has another version, or is damaged in the header.
    pub fn salvage(path: &Path) -> Result<(Self, Option<TraceError>), TraceError> {
        let with_path = |source| TraceError::File {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(with_path)?;
        let mut input = BufReader::with_capacity(1 << 20, &file);
        let beginning = Beginning::read(&mut input, path)?;
        let mut walk = Walk {
            input,
            offset: beginning.length,
            threads: BTreeMap::new(),
            regions: vec![],
            mapped_files: vec![],
            code: vec![],
            instructions: 0,
        };
        let damage = loop {
            let offset = walk.offset;
            match walk.step().map_err(with_path)? {
                Step::Frame => {}
                Step::End => break None,
                Step::Damage(what) => break Some(damaged(path, offset, what)),
            }
        };
        let thread = |(number, found): (u32, ThreadEntry)| Thread {
            number,
            kernel_id: found.kernel_id,
            parent: found.parent,
            blocks: found.blocks.into(),
        };
        let (file_size, threads) = (walk.offset, walk.threads);
        let (regions, mapped_files, code) = (walk.regions, walk.mapped_files, walk.code);
        let recording = Self {
            version: beginning.version,
            threads: threads.into_iter().map(thread).collect(),
            regions,
            mapped_files,
            code,
            file: Arc::new(file),
            path: path.to_owned(),
            header: beginning.header,
            file_size,
            complete: damage.is_none(),
        };
        Ok((recording, damage))
    }

    /// The file that was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The recorded program, and the settings of the recording.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The threads, in the order of their creation.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// The places of the code of all regions that have started, if the code is in files.
    pub fn regions(&self) -> &[RegionPlace] {
        &self.regions
    }

    /// The files that were mapped.
    pub(crate) fn mapped_files(&self) -> &[MappedFile] {
        &self.mapped_files
    }

    /// Checks that the recording has mappings. Errors: its version has none.
    pub(crate) fn check_mappings(&self) -> Result<(), TraceError> {
        if self.version < VERSION_WITH_MAPPINGS {
            return Err(TraceError::NoMappings {
                path: self.path.clone(),
                version: self.version,
            });
        }
        Ok(())
    }

    /// Whether the file holds the whole recording, and not only the part before some damage.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether the first touch of each page is known. It is not known in a recording with a window whose version lacks
    /// first touches outside windows: there, pages seem to be touched first by the threads that use them.
    pub fn knows_first_touches(&self) -> bool {
        self.header.window.is_none() || self.version >= VERSION_WITH_FIRST_TOUCHES
    }

    /// The program's code: overlapping blocks in the order of their translation. `None` if the recording's version has
    /// none.
    pub fn code(&self) -> Option<&[CodeBlock]> {
        (self.version >= VERSION_WITH_CODE).then_some(&self.code)
    }

    /// The version of the format.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The bytes of the file, up to the first damage.
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Reads a thread from its start. Readers are independent; several may work at once.
    pub fn read(&self, thread: &Thread) -> ThreadReader {
        ThreadReader {
            file: Arc::clone(&self.file),
            path: self.path.clone(),
            blocks: Arc::clone(&thread.blocks),
            next_block: 0,
            decoder: None,
            payload: vec![],
        }
    }
}

#[derive(Default)]
struct ThreadEntry {
    kernel_id: Option<u32>,
    parent: Option<u32>,
    blocks: Vec<BlockEntry>,
}

struct Walk<R> {
    input: R,
    offset: u64,
    threads: BTreeMap<u32, ThreadEntry>,
    regions: Vec<RegionPlace>,
    mapped_files: Vec<MappedFile>,
    code: Vec<CodeBlock>,
    /// The totals of all blocks.
    instructions: u64,
}

/// The most instructions in a recording, so that sums fit 64 bits.
const MOST_INSTRUCTIONS: u64 = 1 << 60;
/// The most threads of a recording, including those that have ended.
const MOST_THREADS: usize = 1 << 16;

/// The parts of a recording before its frames.
struct Beginning {
    version: u32,
    header: Header,
    /// The length of these parts in the file, in bytes.
    length: u64,
}

/// Whether a file begins as a recording does. A file that cannot be read does not.
pub fn is_recording(path: &Path) -> bool {
    let mut start = [0; FILE_MAGIC.len()];
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    is_file
        && File::open(path)
            .and_then(|mut file| file.read_exact(&mut start))
            .is_ok()
        && start == FILE_MAGIC
}

impl Beginning {
    fn read(input: &mut impl Read, path: &Path) -> Result<Self, TraceError> {
        let with_path = |source| TraceError::File {
            path: path.to_owned(),
            source,
        };
        let mut prefix = [0; PREFIX];
        let length = read_up_to(input, &mut prefix).map_err(with_path)?;
        if length < FILE_MAGIC.len() || !prefix.starts_with(&FILE_MAGIC) {
            return Err(TraceError::NotARecording { path: path.to_owned() });
        }
        if length < PREFIX {
            return Err(damaged(path, 0, "the header is cut off"));
        }
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| prefix[at + i]));
        let version = number(8);
        if !(OLDEST_VERSION..=FORMAT_VERSION).contains(&version) {
            return Err(TraceError::Version {
                path: path.to_owned(),
                found: version,
            });
        }
        if number(12) > LONGEST_HEADER {
            return Err(damaged(path, 0, "the header's length is invalid"));
        }
        let mut text = vec![0; number(12) as usize];
        if read_up_to(input, &mut text).map_err(with_path)? < text.len() {
            return Err(damaged(path, 0, "the header is cut off"));
        }
        if crc32fast::hash(&text) != number(16) {
            return Err(damaged(path, 0, "the header's checksum does not match"));
        }
        let header =
            serde_json::from_slice(&text).map_err(|error| damaged(path, 0, &format!("the header: {error}")))?;
        Ok(Self {
            version,
            header,
            length: (PREFIX + text.len()) as u64,
        })
    }
}

fn damaged(path: &Path, offset: u64, what: &str) -> TraceError {
    TraceError::Damaged {
        path: path.to_owned(),
        offset,
        what: what.to_owned(),
    }
}

enum Step {
    Frame,
    End,
    Damage(&'static str),
}

impl<R: Read> Walk<R> {
    /// Reads the next frame and adds its content.
    fn step(&mut self) -> io::Result<Step> {
        let (frame, payload) = match self.frame()? {
            Ok(frame) => frame,
            Err(damage) => return Ok(Step::Damage(damage)),
        };
        let added = match frame.kind {
            FrameKind::Block => self.add_block(&frame),
            FrameKind::Thread => self.add_thread(&frame, &payload),
            FrameKind::Region => self.add_region(&payload),
            FrameKind::File => self.add_file(&payload),
            FrameKind::Code => self.add_code(&frame, &payload),
            FrameKind::End => return self.end(),
        };
        if let Err(damage) = added {
            return Ok(Step::Damage(damage));
        }
        self.offset += FRAME as u64 + u64::from(frame.stored);
        Ok(Step::Frame)
    }

    /// The next frame and its payload, with a matching checksum; or the damage.
    fn frame(&mut self) -> io::Result<Result<(Frame, Vec<u8>), &'static str>> {
        let mut head = [0; FRAME];
        match read_up_to(&mut self.input, &mut head)? {
            0 => return Ok(Err("the recording ends without its end mark")),
            FRAME => {}
            _ => return Ok(Err("a frame is cut off")),
        }
        let Some(frame) = Frame::from_bytes(&head) else {
            return Ok(Err("there is no frame where one should start"));
        };
        // zstd enlarges incompressible data by far less than this.
        if frame.raw as usize > BLOCK_CAPACITY || frame.stored as usize > 2 * BLOCK_CAPACITY {
            return Ok(Err("a frame's length is invalid"));
        }
        let mut payload = vec![0; frame.stored as usize];
        if read_up_to(&mut self.input, &mut payload)? < payload.len() {
            return Ok(Err("a frame is cut off"));
        }
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&head[8..]);
        checksum.update(&payload);
        if checksum.finalize() != frame.checksum {
            return Ok(Err("a checksum does not match"));
        }
        let names_thread = matches!(frame.kind, FrameKind::Block | FrameKind::Thread);
        if names_thread && self.threads.len() == MOST_THREADS && !self.threads.contains_key(&frame.thread) {
            return Ok(Err("there are more threads than a recording can have"));
        }
        Ok(Ok((frame, payload)))
    }

    fn add_block(&mut self, frame: &Frame) -> Result<(), &'static str> {
        let instructions = self.instructions.checked_add(frame.instructions);
        let instructions = instructions.filter(|&all| all <= MOST_INSTRUCTIONS);
        let (Some(instructions), true, true, true) = (
            instructions,
            frame.instructions <= BLOCK_INSTRUCTIONS,
            frame.first_instruction <= MOST_INSTRUCTIONS,
            frame.accesses <= BLOCK_ACCESSES,
        ) else {
            return Err("a block claims more than it can hold");
        };
        self.instructions = instructions;
        self.threads.entry(frame.thread).or_default().blocks.push(BlockEntry {
            offset: self.offset,
            stored: FRAME as u64 + u64::from(frame.stored),
            thread: frame.thread,
            accesses: frame.accesses,
            events: frame.events,
            first_instruction: frame.first_instruction,
            instructions: frame.instructions,
            payload: frame.stored,
            raw: frame.raw,
        });
        Ok(())
    }

    fn add_thread(&mut self, frame: &Frame, payload: &[u8]) -> Result<(), &'static str> {
        let (kernel_id, parent) = payload.split_at_checked(4).ok_or("a thread's description is cut off")?;
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_le_bytes);
        let found = self.threads.entry(frame.thread).or_default();
        found.kernel_id = number(kernel_id);
        found.parent = number(parent).filter(|parent| *parent != NO_PARENT);
        Ok(())
    }

    fn add_region(&mut self, payload: &[u8]) -> Result<(), &'static str> {
        let place = RegionPlace::from_bytes(payload).ok_or("a region's description is cut off")?;
        self.regions.push(place);
        Ok(())
    }

    fn add_file(&mut self, payload: &[u8]) -> Result<(), &'static str> {
        let file = MappedFile::from_bytes(payload).ok_or("a file's description is cut off")?;
        self.mapped_files.push(file);
        Ok(())
    }

    fn add_code(&mut self, frame: &Frame, payload: &[u8]) -> Result<(), &'static str> {
        let text = code::decompressed(payload, frame.raw as usize).map_err(|_| "code cannot be decompressed")?;
        let blocks = CodeBlock::all(&text).ok_or("code is cut off")?;
        self.code.extend(blocks);
        Ok(())
    }

    /// Handles the end mark: the file must end here.
    fn end(&mut self) -> io::Result<Step> {
        self.offset += FRAME as u64;
        Ok(if read_up_to(&mut self.input, &mut [0])? == 0 {
            Step::End
        } else {
            Step::Damage("there are bytes after the end mark")
        })
    }
}

/// Fills the buffer until it is full or the input ends. Returns the number of bytes.
fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match input.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Reads one thread's accesses and events in the order of execution.
pub struct ThreadReader {
    file: Arc<File>,
    path: PathBuf,
    blocks: Arc<[BlockEntry]>,
    next_block: usize,
    decoder: Option<Decoder>,
    payload: Vec<u8>,
}

impl ThreadReader {
    /// Skips to the thread's block with this index.
    pub fn seek(&mut self, block: usize) {
        self.next_block = block;
        self.decoder = None;
    }

    /// Replaces the content of `batch` by the next batch. Returns false at the thread's end. A batch may have no
    /// access.
    pub fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        self.next_batch_in(batch, &mut ())
    }

    /// Like `next_batch`, with accesses in another form.
    pub fn next_batch_in<A: FromAccess>(
        &mut self,
        batch: &mut Batch<A>,
        context: &mut A::Context,
    ) -> Result<bool, TraceError> {
        if self.decoder.as_ref().is_none_or(Decoder::ended) {
            let Some(block) = self.blocks.get(self.next_block).copied() else {
                return Ok(false);
            };
            self.next_block += 1;
            self.load(&block)?;
        }
        let Some(decoder) = &mut self.decoder else {
            return Ok(false);
        };
        let damaged = |what: &str| TraceError::Damaged {
            path: self.path.clone(),
            offset: self.blocks[self.next_block - 1].offset,
            what: what.to_owned(),
        };
        decoder.next_batch(batch, context).map_err(damaged)?;
        if decoder.ended() && decoder.missing_accesses() > 0 {
            return Err(damaged("a block holds fewer accesses than its frame says"));
        }
        Ok(true)
    }

    fn load(&mut self, block: &BlockEntry) -> Result<(), TraceError> {
        self.payload.resize(block.payload as usize, 0);
        self.file
            .read_exact_at(&mut self.payload, block.offset + FRAME as u64)
            .map_err(|source| TraceError::File {
                path: self.path.clone(),
                source,
            })?;
        let mut bytes = self.decoder.take().map(Decoder::into_bytes).unwrap_or_default();
        bytes.resize(block.raw as usize, 0);
        let length = zstd::bulk::decompress_to_buffer(&self.payload, &mut bytes);
        if !matches!(length, Ok(length) if length == bytes.len()) {
            return Err(TraceError::Damaged {
                path: self.path.clone(),
                offset: block.offset,
                what: "a block cannot be decompressed".to_owned(),
            });
        }
        let limits = Limits {
            accesses: block.accesses,
            events: block.events,
            instructions: block.instructions,
        };
        self.decoder = Some(Decoder::new(bytes, limits));
        Ok(())
    }
}
