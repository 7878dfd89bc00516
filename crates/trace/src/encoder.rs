//! Encodes accesses and events into a block of bytes.
//!
//! The recorded program calls the encoder once per access, so it does little: it looks up the site, compares with the
//! predictions, and in most cases adds one to a counter.
//!
//! It writes to an [`Output`], which the recorder keeps in memory shared with `pinfold record`. If the recorded program
//! is killed, pinfold completes the block (`Output::finished`). So the output's state is one number that is stored
//! atomically.

#![expect(
    clippy::cast_possible_truncation,
    reason = "threads are numbered in 32 bits, and an Output holds one as a word"
)]

use crate::block::{ADDRESS_MISSED, KIND_EVENT, SITE_MISSED, Site};
use crate::bytes;
use crate::event::Event;
use crate::predictor::{NO_SITE, Predictor};

/// The most accesses in a block.
pub const BLOCK_ACCESSES: u64 = 1 << 18;
/// The most instructions in a block. QEMU needs three days for as many, and no thread runs so long without an access or
/// event.
pub(crate) const BLOCK_INSTRUCTIONS: u64 = 1 << 48;
/// The most bytes in a block before compression.
pub const BLOCK_CAPACITY: usize = 256 << 10;
/// The most sites in a block, which limits the tables of a reader.
pub(crate) const BLOCK_SITES: u32 = 1 << 16;
/// The most bytes that one access or event adds, including the end of the block: the token, the end's token, and the
/// longer of an event and a new site with its address.
const MARGIN: usize = 3 * bytes::LONGEST + 1 + Event::LONGEST;

/// The code of the end of a block. It shares its range with the codes of events.
pub(crate) const END: u8 = 0;

/// An unfinished block.
#[repr(C)]
pub struct Output {
    /// The number of the thread in the recording.
    thread: u64,
    /// The number of instructions that the thread had started before this block.
    first_instruction: u64,
    /// `length << 32 | run`: the written bytes, and the predicted accesses since.
    progress: u64,
    bytes: [u8; BLOCK_CAPACITY],
}

impl Output {
    /// An empty block, for an encoder that does not share its memory.
    #[expect(
        clippy::large_stack_arrays,
        reason = "it is made once a thread, and stacks are larger"
    )]
    pub fn boxed() -> Box<Self> {
        Box::new(Self {
            thread: 0,
            first_instruction: 0,
            progress: 0,
            bytes: [0; BLOCK_CAPACITY],
        })
    }

    /// The thread, the instructions before, and the finished bytes of a block whose encoder was stopped at any point.
    /// `None` if it is empty. The instructions after the last access or event are lost.
    pub fn salvaged(&self) -> Option<(u32, u64, Vec<u8>)> {
        if self.progress == 0 {
            return None;
        }
        let length = usize::try_from(self.progress >> 32).ok()?;
        let mut block = self.bytes.get(..length)?.to_vec();
        block.resize(length + MARGIN, 0);
        let length = put_end(&mut block, length, self.progress & 0xffff_ffff, 0);
        block.truncate(length);
        Some((u32::try_from(self.thread).ok()?, self.first_instruction, block))
    }

    /// A block in memory, in this machine's byte order: `SLOT` bytes or more. `None` if they are fewer.
    pub fn from_memory(memory: &[u8]) -> Option<Box<Self>> {
        let word = |at: usize| Some(u64::from_ne_bytes(memory.get(at..at + 8)?.try_into().ok()?));
        let mut output = Self::boxed();
        (output.thread, output.first_instruction, output.progress) = (word(0)?, word(8)?, word(16)?);
        output.bytes.copy_from_slice(memory.get(24..24 + BLOCK_CAPACITY)?);
        Some(output)
    }
}

fn put_end(block: &mut [u8], at: usize, run: u64, instructions: u64) -> usize {
    let at = bytes::put(block, at, run << 2 | KIND_EVENT);
    block[at] = END;
    bytes::put(block, at + 1, instructions)
}

/// The encoder's data of a site, which the caller numbers.
#[derive(Clone, Copy)]
struct State {
    /// The block that `local` and the predictions of the site belong to.
    block: u64,
    predictor: Predictor,
    local: u32,
    size: u8,
}

const UNKNOWN: State = State {
    block: 0,
    predictor: Predictor::new(0),
    local: 0,
    size: 0,
};

/// Turns one thread's accesses and events into blocks.
pub struct Encoder<'output> {
    output: &'output mut Output,
    /// The sites, indexed by the caller's number.
    sites: Vec<State>,
    previous_site: u32,
    previous_pc: u64,
    previous_sequence: u64,
    /// The number of the block, from 1.
    block: u64,
    /// The number of sites in this block.
    locals: u32,
    accesses: u64,
    events: u32,
    instructions: u64,
}

/// Whether the block is full or was ended.
pub struct Finished<'encoder> {
    pub(crate) thread: u32,
    pub(crate) first_instruction: u64,
    pub(crate) instructions: u64,
    pub(crate) accesses: u64,
    pub(crate) events: u32,
    pub(crate) bytes: &'encoder [u8],
}

impl<'output> Encoder<'output> {
    /// An encoder of the accesses of `thread`, its number in the recording.
    pub fn new(thread: u32, output: &'output mut Output) -> Self {
        output.progress = 0;
        output.thread = u64::from(thread);
        output.first_instruction = 0;
        Self {
            output,
            sites: vec![],
            previous_site: NO_SITE,
            previous_pc: 0,
            previous_sequence: 0,
            block: 1,
            locals: 0,
            accesses: 0,
            events: 0,
            instructions: 0,
        }
    }

    /// Whether nothing was added since the last block.
    pub fn is_empty(&self) -> bool {
        self.accesses == 0 && self.events == 0
    }

    /// Adds an access if it was predicted and does not fill the block; returns whether it was added. Most accesses take
    /// this path, and most of the cost of recording is here.
    #[inline]
    pub fn predicted(&mut self, number: u32, size: u8, address: u64, instructions: u64) -> bool {
        let Some(previous) = self.sites.get(self.previous_site as usize) else {
            return false;
        };
        let (next, next_instructions) = previous.predictor.following();
        let Some(state) = self.sites.get_mut(number as usize) else {
            return false;
        };
        if next != state.local
            || u64::from(next_instructions) != instructions
            || state.predictor.address() != address
            || state.block != self.block
            || state.size != size
            || self.accesses + 1 == BLOCK_ACCESSES
        {
            return false;
        }
        state.predictor.observe_predicted(1);
        self.output.progress += 1;
        self.instructions += instructions;
        self.accesses += 1;
        self.previous_site = number;
        true
    }

    /// Adds an access of `size` bytes. `number` identifies the site's instruction and whether it writes; numbers are
    /// consecutive from 0. `site` is called if the block has no such site yet. Returns whether the block is full: the
    /// next call must be `finish`.
    #[inline]
    pub fn access(
        &mut self,
        number: u32,
        size: u8,
        address: u64,
        instructions: u32,
        site: impl FnOnce() -> Site,
    ) -> bool {
        self.instructions += u64::from(instructions);
        self.accesses += 1;
        if let Some(state) = self.sites.get(number as usize)
            && state.block == self.block
            && state.size == size
            && let Some(previous) = self.sites.get(self.previous_site as usize)
        {
            let site_hit =
                previous.predictor.next == state.local && previous.predictor.next_instructions == instructions;
            let address_hit = state.predictor.address() == address;
            if site_hit && address_hit {
                self.output.progress += 1;
            } else {
                self.missed(number, address, instructions, !site_hit, !address_hit);
            }
            self.sites[number as usize].predictor.observe(address);
        } else {
            self.define(number, site(), address, instructions);
        }
        self.previous_site = number;
        self.accesses == BLOCK_ACCESSES || self.length() > BLOCK_CAPACITY - MARGIN || self.locals == BLOCK_SITES
    }

    #[cold]
    #[inline(never)]
    fn missed(&mut self, number: u32, address: u64, instructions: u32, site: bool, missed_address: bool) {
        let state = self.sites[number as usize];
        let kind = SITE_MISSED * u64::from(site) + ADDRESS_MISSED * u64::from(missed_address);
        let mut at = self.put_token(kind);
        let output = &mut self.output.bytes;
        if site {
            at = bytes::put(output, at, u64::from(state.local));
            at = bytes::put(output, at, u64::from(instructions));
        }
        if missed_address {
            at = bytes::put(output, at, bytes::fold(address.wrapping_sub(state.predictor.last())));
        }
        self.commit(at);
        let previous = &mut self.sites[self.previous_site as usize].predictor;
        previous.next = state.local;
        previous.next_instructions = instructions;
    }

    #[cold]
    #[inline(never)]
    fn define(&mut self, number: u32, site: Site, address: u64, instructions: u32) {
        let previous_address = self.previous_address();
        let mut at = self.put_token(SITE_MISSED | ADDRESS_MISSED);
        let output = &mut self.output.bytes;
        at = bytes::put(output, at, u64::from(self.locals));
        at = bytes::put(output, at, u64::from(instructions));
        at = bytes::put(output, at, bytes::fold(site.pc.wrapping_sub(self.previous_pc)));
        output[at] = site.byte();
        at = bytes::put(output, at + 1, bytes::fold(address.wrapping_sub(previous_address)));
        self.commit(at);

        let index = number as usize;
        if index >= self.sites.len() {
            self.sites.resize((index + 1).next_power_of_two(), UNKNOWN);
        }
        // This comes before the new site is stored: an instruction with accesses of different sizes follows itself.
        if let Some(previous) = self.sites.get_mut(self.previous_site as usize) {
            previous.predictor.next = self.locals;
            previous.predictor.next_instructions = instructions;
        }
        self.sites[index] = State {
            block: self.block,
            predictor: Predictor::new(address),
            local: self.locals,
            size: site.size,
        };
        self.previous_pc = site.pc;
        self.locals += 1;
    }

    /// Adds an event. Returns whether the block is full: the next call must be `finish`.
    pub fn event(&mut self, event: &Event) -> bool {
        let mut at = self.put_token(KIND_EVENT);
        let output = &mut self.output.bytes;
        output[at] = event.kind.code();
        at = bytes::put(output, at + 1, event.instructions);
        at = bytes::put(
            output,
            at,
            bytes::fold(event.sequence.wrapping_sub(self.previous_sequence)),
        );
        at = event.kind.put(output, at);
        self.commit(at);
        self.previous_sequence = event.sequence;
        self.instructions += event.instructions;
        self.events += 1;
        self.length() > BLOCK_CAPACITY - MARGIN
    }

    /// Ends the block, `instructions` after its last access or event. `restart` must follow.
    pub fn finish(&mut self, instructions: u64) -> Finished<'_> {
        self.instructions += instructions;
        let run = self.output.progress & 0xffff_ffff;
        let length = self.length();
        let end = put_end(&mut self.output.bytes, length, run, instructions);
        Finished {
            thread: self.output.thread as u32,
            first_instruction: self.output.first_instruction,
            instructions: self.instructions,
            accesses: self.accesses,
            events: self.events,
            bytes: &self.output.bytes[..end],
        }
    }

    /// Starts the next block.
    pub fn restart(&mut self) {
        self.output.progress = 0;
        self.output.first_instruction += self.instructions;
        self.block += 1;
        self.previous_site = NO_SITE;
        self.previous_pc = 0;
        self.previous_sequence = 0;
        self.locals = 0;
        self.accesses = 0;
        self.events = 0;
        self.instructions = 0;
    }

    /// The address of the last access in this block. 0 before the first access.
    fn previous_address(&self) -> u64 {
        let previous = self.sites.get(self.previous_site as usize);
        previous.map_or(0, |state| state.predictor.last())
    }

    #[inline]
    fn length(&self) -> usize {
        (self.output.progress >> 32) as usize
    }

    fn put_token(&mut self, kind: u64) -> usize {
        let run = self.output.progress & 0xffff_ffff;
        let at = self.length();
        bytes::put(&mut self.output.bytes, at, run << 2 | kind)
    }

    /// Makes the bytes up to `length` valid.
    fn commit(&mut self, length: usize) {
        self.output.progress = (length as u64) << 32;
    }
}
