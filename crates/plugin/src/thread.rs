//! One thread of the recorded program: counts its instructions, joins the parts of an access, and passes both to the
//! encoder.
//!
//! QEMU calls the plugin once per translation block and once per part of an access. An instruction's position is its
//! block's position, which the block's callback stores, plus its index in the block, which comes with the access. A
//! block counts as a whole, even if a fault ends it early. Each repetition of a `rep` string instruction counts as an
//! instruction.
//!
//! QEMU splits accesses of more than 8 bytes: a 16-byte load is two of 8. Adjacent parts of one instruction are joined
//! again, up to 64 bytes. A size that is not a power of two (the 10 bytes of x87) is split into the largest ones.

#![expect(
    clippy::cast_possible_truncation,
    reason = "sizes are at most WIDEST, and larger counts of instructions have an event of their own"
)]

use crate::memory_call::MemoryCall;
use crate::recorder::{self, Pc};
use crate::touches::{self, PAGE_BYTES, Toucher, Touches};
use pinfold_trace::{Encoder, Event, EventKind, Output, Site};

/// The widest access, in bytes.
const WIDEST: u64 = 64;

/// An access that the next part may still extend.
struct Pending {
    /// The recorder's number of the instruction, times two, plus one for a write.
    site: u32,
    size: u32,
    address: u64,
    /// The number of instructions that the thread has started, including this one.
    position: u64,
}

/// One thread.
pub(crate) struct Thread {
    /// Whether accesses are recorded.
    active: bool,
    pending: Pending,
    /// The number of instructions that the thread had started before the current translation block.
    block_begin: u64,
    block_length: u64,
    /// The position of the last access or event of the encoder.
    encoded: u64,
    /// The position of the next check of the window's bounds.
    pub(crate) next_look: u64,
    /// The instructions that are already in the sum over all threads.
    pub(crate) published: u64,
    /// The recorder's window at this thread's last check.
    pub(crate) window: u64,
    encoder: Encoder<'static>,
    /// The pages that it touches first while accesses are not recorded.
    toucher: Toucher,
    /// The number of the thread in the recording.
    pub(crate) number: u32,
    /// The word that the kernel clears when the thread ends.
    pub(crate) clear_at_end: u64,
    /// The futex that the thread waits for.
    pub(crate) waits_for: Option<u64>,
    /// The system call on mappings that the thread is in.
    pub(crate) memory_call: Option<MemoryCall>,
    /// Whether it has called `exit`.
    pub(crate) ended: bool,
}

impl Thread {
    /// A thread whose blocks are written to `output`.
    pub(crate) fn new(number: u32, output: &'static mut Output, window: u64, active: bool) -> Self {
        Self {
            active,
            pending: Pending {
                site: 0,
                size: 0,
                address: 0,
                position: 0,
            },
            block_begin: 0,
            block_length: 0,
            encoded: 0,
            next_look: 0,
            published: 0,
            window,
            encoder: Encoder::new(number, output),
            toucher: Toucher::default(),
            number,
            clear_at_end: 0,
            waits_for: None,
            memory_call: None,
            ended: false,
        }
    }

    /// A translation block of `length` instructions starts. Returns the number of instructions that the thread started
    /// before.
    #[inline]
    pub(crate) fn begin_block(&mut self, length: u64) -> u64 {
        self.block_begin += self.block_length;
        self.block_length = length;
        self.block_begin
    }

    /// The instruction with this index in the current block accesses memory.
    ///
    /// In nearly all cases the previous access is complete and was predicted. This path is short, so that it saves
    /// nothing on the stack.
    #[inline]
    pub(crate) fn access(&mut self, site: u32, index: u64, address: u64, size: u32) {
        let position = self.block_begin + index + 1;
        let pending = &self.pending;
        let same_instruction = pending.site == site && pending.position == position;
        let instructions = pending.position.wrapping_sub(self.encoded);
        if same_instruction
            || !self
                .encoder
                .predicted(pending.site, pending.size as u8, pending.address, instructions)
        {
            return self.unusual(site, position, address, size);
        }
        self.encoded = pending.position;
        self.pending = Pending {
            site,
            size,
            address,
            position,
        };
    }

    #[inline(never)]
    fn unusual(&mut self, site: u32, position: u64, address: u64, size: u32) {
        if !self.active {
            return self.touch(address, u64::from(size));
        }
        let pending = &mut self.pending;
        if pending.site == site
            && pending.position == position
            && pending.address + u64::from(pending.size) == address
            && u64::from(pending.size + size) <= WIDEST
        {
            pending.size += size;
            return;
        }
        self.flush_pending();
        self.pending = Pending {
            site,
            size,
            address,
            position,
        };
    }

    /// The thread touches memory without a recorded access: outside windows, or by a system call.
    pub(crate) fn touch(&mut self, address: u64, bytes: u64) {
        for page in touches::pages_of(address, bytes) {
            if let Some(ended) = self.toucher.touch(page, recorder::sequence) {
                self.put_touches(ended);
            }
        }
    }

    fn put_touches(&mut self, touches: Touches) {
        self.flush_pending();
        // An earlier access or event of this block may already be counted.
        let position = self.block_begin.max(self.encoded);
        self.put_event(
            position,
            EventKind::FirstTouch {
                address: touches.first * PAGE_BYTES,
                length: touches.pages * PAGE_BYTES,
                since: touches.since,
            },
        );
    }

    fn end_touches(&mut self) {
        if let Some(touches) = self.toucher.take() {
            self.put_touches(touches);
        }
    }

    /// An event other than an access occurs.
    pub(crate) fn event(&mut self, kind: EventKind) {
        self.event_at(self.block_begin + self.block_length, kind);
    }

    /// Adds an event before the current translation block, which has not accessed anything yet.
    pub(crate) fn event_before_block(&mut self, kind: EventKind) {
        self.event_at(self.block_begin, kind);
    }

    fn event_at(&mut self, position: u64, kind: EventKind) {
        self.end_touches();
        self.put_event(position, kind);
    }

    fn put_event(&mut self, position: u64, kind: EventKind) {
        self.flush_pending();
        let event = Event {
            sequence: recorder::next_sequence(),
            instructions: position - self.encoded,
            kind,
        };
        self.encoded = position;
        if self.encoder.event(&event) {
            self.end_block(0);
        }
    }

    /// The window opens or closes for this thread.
    pub(crate) fn set_active(&mut self, active: bool) {
        if self.active == active {
            return;
        }
        self.event(if active {
            EventKind::WindowBegin {}
        } else {
            EventKind::WindowEnd {}
        });
        self.active = active;
    }

    /// Passes all remaining data to the encoder.
    pub(crate) fn flush(&mut self) {
        self.end_touches();
        self.flush_pending();
        let position = self.block_begin + self.block_length;
        let rest = position - self.encoded;
        self.encoded = position;
        if rest > 0 || !self.encoder.is_empty() {
            self.end_block(rest);
        }
    }

    fn flush_pending(&mut self) {
        let mut size = self.pending.size;
        if size.is_power_of_two() {
            self.encode(self.pending.address, size);
        } else {
            let mut address = self.pending.address;
            while size > 0 {
                let piece = 1 << size.ilog2();
                self.encode(address, piece);
                address += u64::from(piece);
                size -= piece;
            }
        }
        self.pending.size = 0;
    }

    #[inline]
    fn encode(&mut self, address: u64, size: u32) {
        let Pending { site, position, .. } = self.pending;
        // The encoder may be ahead of the instruction: after an event, or if a fault ended a block.
        let mut instructions = position.saturating_sub(self.encoded);
        self.encoded = self.encoded.max(position);
        if instructions > u64::from(u32::MAX) {
            let event = Event {
                sequence: recorder::next_sequence(),
                instructions,
                kind: EventKind::Compute {},
            };
            instructions = 0;
            if self.encoder.event(&event) {
                self.end_block(0);
            }
        }
        let full = self.encoder.access(site, size as u8, address, instructions as u32, || {
            let Pc { address, locked } = Pc::of(site / 2);
            Site {
                pc: address,
                size: size as u8,
                write: site % 2 == 1,
                locked,
            }
        });
        if full {
            self.end_block(0);
        }
    }

    #[cold]
    fn end_block(&mut self, instructions: u64) {
        recorder::append_block(&self.encoder.finish(instructions));
        self.encoder.restart();
    }
}
