//! Decodes a block of bytes into accesses and events. It is the inverse of [`crate::encoder`], and trusts no input.

#![expect(clippy::cast_possible_truncation, reason = "numbers of sites are below BLOCK_SITES")]

use crate::block::{ADDRESS_MISSED, Access, KIND_EVENT, SITE_MISSED, Site};
use crate::bytes;
use crate::encoder::{BLOCK_ACCESSES, BLOCK_INSTRUCTIONS, BLOCK_SITES, END};
use crate::event::{Event, EventKind};
use crate::predictor::{NO_SITE, Predictor};

/// Accesses per batch: the batch takes a fraction of the L1 cache.
const BATCH: usize = 1024;

/// The state of a thread that a reader keeps for its own form of accesses.
pub trait Context {
    /// Another event than an access follows, or a block ends.
    fn interrupted(&mut self);
}

impl Context for () {
    fn interrupted(&mut self) {}
}

/// A reader's form of an access.
pub trait FromAccess: Copy {
    /// The state that the form depends on besides the access.
    type Context: Context;

    /// Converts this access. It follows the previous access or an interruption.
    fn from_access(access: &Access, context: &mut Self::Context) -> Self;

    /// The form of an access that differs only in its address.
    fn at(self, address: u64) -> Self;
}

impl FromAccess for Access {
    type Context = ();

    #[inline]
    fn from_access(access: &Access, (): &mut ()) -> Self {
        *access
    }

    #[inline]
    fn at(self, address: u64) -> Self {
        Self { address, ..self }
    }
}

/// Consecutive accesses and events of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<A = Access> {
    /// The accesses, in the reader's form.
    pub accesses: Vec<A>,
    /// The events, each with the number of accesses in this batch before it.
    pub events: Vec<(usize, Event)>,
    /// Instructions after the last access or event, at the end of a block.
    pub instructions: u64,
}

impl<A> Default for Batch<A> {
    fn default() -> Self {
        Self {
            accesses: vec![],
            events: vec![],
            instructions: 0,
        }
    }
}

impl Batch {
    /// The number of instructions that the thread started in this batch.
    pub fn all_instructions(&self) -> u64 {
        let before_accesses: u64 = self.accesses.iter().map(|access| u64::from(access.instructions)).sum();
        let before_events: u64 = self.events.iter().map(|(_, event)| event.instructions).sum();
        before_accesses + before_events + self.instructions
    }
}

impl<A> Batch<A> {
    fn clear(&mut self) {
        self.accesses.clear();
        self.events.clear();
        self.instructions = 0;
    }
}

/// The number of predicted accesses that are decoded one by one before the decoder looks for a loop. Also the length of
/// the longest loop that it finds.
const LOOP: usize = 16;

struct State {
    predictor: Predictor,
    site: Site,
}

impl State {
    fn access(&self, address: u64, instructions: u32) -> Access {
        let Site {
            pc,
            size,
            write,
            locked,
        } = self.site;
        Access {
            address,
            pc,
            instructions,
            size,
            write,
            locked,
        }
    }
}

/// The limits of a block. They bound the work for any input: ten bytes can encode 2^62 accesses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) accesses: u64,
    pub(crate) events: u32,
    pub(crate) instructions: u64,
}

impl Limits {
    /// The limits of all blocks.
    pub(crate) const BLOCK: Self = Self {
        accesses: BLOCK_ACCESSES,
        events: u32::MAX,
        instructions: BLOCK_INSTRUCTIONS,
    };
}

/// Decodes one block.
#[derive(Default)]
pub(crate) struct Decoder {
    /// The remaining limits.
    limits: Limits,
    bytes: Vec<u8>,
    at: usize,
    sites: Vec<State>,
    previous_site: u32,
    previous_address: u64,
    previous_pc: u64,
    previous_sequence: u64,
    /// The predicted accesses before the item of `kind`.
    run: u64,
    kind: u64,
    ended: bool,
}

impl Decoder {
    /// A decoder of `bytes`, which must stay within `limits`.
    pub(crate) fn new(bytes: Vec<u8>, limits: Limits) -> Self {
        Self {
            limits,
            bytes,
            previous_site: NO_SITE,
            kind: FETCH,
            ..Self::default()
        }
    }

    /// The buffer, for the next block.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Whether the block's end was read.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// The accesses that the ended block lacks to its limit.
    pub(crate) fn missing_accesses(&self) -> u64 {
        self.limits.accesses
    }

    /// Replaces the content of `batch` by the next one. Returns the error of the block, if it has one.
    pub(crate) fn next_batch<A: FromAccess>(
        &mut self,
        batch: &mut Batch<A>,
        context: &mut A::Context,
    ) -> Result<(), &'static str> {
        batch.clear();
        while !self.ended && batch.accesses.len() < BATCH && batch.events.len() < BATCH {
            if self.kind == FETCH {
                let token = self.get()?;
                self.run = token >> 2;
                self.kind = token & 3;
                let accesses = self.run + u64::from(self.kind != KIND_EVENT);
                let left = self.limits.accesses.checked_sub(accesses);
                self.limits.accesses = left.ok_or("a block holds more accesses than it can")?;
            }
            self.take_run(&mut batch.accesses, context)?;
            if self.run > 0 {
                break;
            }
            if self.kind == KIND_EVENT {
                context.interrupted();
                self.event(batch)?;
            } else {
                let access = self.missed()?;
                batch.accesses.push(A::from_access(&access, context));
            }
            self.kind = FETCH;
        }
        if self.ended && self.at != self.bytes.len() {
            return Err("there are bytes after a block's end");
        }
        Ok(())
    }

    /// Decodes as many predicted accesses as fit. If the first ones lead into a loop, whole rounds of the loop are
    /// decoded at once.
    #[inline]
    fn take_run<A: FromAccess>(&mut self, accesses: &mut Vec<A>, context: &mut A::Context) -> Result<(), &'static str> {
        let count = self.run.min((BATCH - accesses.len()) as u64) as usize;
        if count == 0 {
            return Ok(());
        }
        self.run -= count as u64;
        if count <= 2 * LOOP {
            return self.take_predicted(count, accesses, context);
        }
        self.take_predicted(LOOP, accesses, context)?;
        let taken = self.take_rounds(count - LOOP, accesses, context);
        self.take_predicted(count - LOOP - taken, accesses, context)
    }

    /// Decodes `count` predicted accesses, one after the other.
    fn take_predicted<A: FromAccess>(
        &mut self,
        count: usize,
        accesses: &mut Vec<A>,
        context: &mut A::Context,
    ) -> Result<(), &'static str> {
        let mut current = self.previous_site as usize;
        let Some(mut next) = self.sites.get(current).map(|state| state.predictor.following()) else {
            return Err("a prediction before the first access");
        };
        accesses.reserve(count);
        for _ in 0..count {
            current = next.0 as usize;
            let Some(state) = self.sites.get_mut(current) else {
                return Err("a prediction without a site");
            };
            self.previous_address = state.predictor.address();
            state.predictor.observe(self.previous_address);
            accesses.push(A::from_access(&state.access(self.previous_address, next.1), context));
            next = state.predictor.following();
        }
        self.previous_site = current as u32;
        Ok(())
    }

    /// Decodes at most `count` predicted accesses, in whole rounds of the loop that contains the last one. Returns
    /// their number. Each site of a loop is followed by the next, and the last by the first, so no look-ups are needed
    /// from round to round.
    fn take_rounds<A: FromAccess>(&mut self, count: usize, accesses: &mut Vec<A>, context: &mut A::Context) -> usize {
        let Some(length) = self.loop_from(self.previous_site) else {
            return 0;
        };
        let rounds = count / length;
        if rounds == 0 {
            return 0;
        }
        let before = accesses.len();
        let mut site = self.previous_site;
        for turn in 0..length {
            let (next, instructions) = self.sites[site as usize].predictor.following();
            let state = &mut self.sites[next as usize];
            let mut address = state.predictor.address();
            // The same access precedes it in all rounds.
            let access = A::from_access(&state.access(address, instructions), context);
            if turn == 0 {
                accesses.resize(before + rounds * length, access);
            }
            for place in accesses[before + turn..].iter_mut().step_by(length) {
                *place = access.at(address);
                address = address.wrapping_add(state.predictor.stride());
            }
            state.predictor.observe_predicted(rounds as u64);
            site = next;
        }
        self.previous_address = self.sites[self.previous_site as usize].predictor.last();
        rounds * length
    }

    /// The length of the loop from a site back to it. `None` if there is none of up to `LOOP` sites.
    fn loop_from(&self, begin: u32) -> Option<usize> {
        let mut site = begin;
        for length in 1..=LOOP {
            let (next, _) = self.sites.get(site as usize)?.predictor.following();
            self.sites.get(next as usize)?;
            site = next;
            if site == begin {
                return Some(length);
            }
        }
        None
    }

    fn missed(&mut self) -> Result<Access, &'static str> {
        let known = self.sites.len();
        let (site, instructions) = if self.kind & SITE_MISSED != 0 {
            let site = u32::try_from(self.get()?).map_err(|_| "the number of a site is too large")?;
            let instructions = u32::try_from(self.get()?).map_err(|_| "too many instructions before an access")?;
            if site as usize == known {
                self.define()?;
            }
            if let Some(previous) = self.sites.get_mut(self.previous_site as usize) {
                previous.predictor.next = site;
                previous.predictor.next_instructions = instructions;
            }
            (site, instructions)
        } else {
            let previous = self.sites.get(self.previous_site as usize);
            let predictor = previous.ok_or("a prediction before the first access")?.predictor;
            (predictor.next, predictor.next_instructions)
        };
        let difference = if self.kind & ADDRESS_MISSED != 0 {
            Some(bytes::unfold(self.get()?))
        } else {
            None
        };
        let state = self.sites.get_mut(site as usize).ok_or("a site that was not defined")?;
        let address = difference.map_or(state.predictor.address(), |difference| {
            state.predictor.last().wrapping_add(difference)
        });
        if site as usize == known {
            state.predictor = Predictor::new(address);
        } else {
            state.predictor.observe(address);
        }
        self.previous_site = site;
        self.previous_address = address;
        Ok(state.access(address, instructions))
    }

    /// Defines a new site. Its first address is coded as the difference from the last access of any site.
    fn define(&mut self) -> Result<(), &'static str> {
        if self.sites.len() == BLOCK_SITES as usize || self.kind & ADDRESS_MISSED == 0 {
            return Err("an invalid site");
        }
        let pc = self.previous_pc.wrapping_add(bytes::unfold(self.get()?));
        let byte = *self.bytes.get(self.at).ok_or(CUT_OFF)?;
        self.at += 1;
        let site = Site::from_byte(pc, byte).ok_or("an invalid size")?;
        self.sites.push(State {
            predictor: Predictor::new(self.previous_address),
            site,
        });
        self.previous_pc = pc;
        Ok(())
    }

    fn event<A>(&mut self, batch: &mut Batch<A>) -> Result<(), &'static str> {
        let code = *self.bytes.get(self.at).ok_or(CUT_OFF)?;
        self.at += 1;
        let instructions = self.get()?;
        let left = self.limits.instructions.checked_sub(instructions);
        self.limits.instructions = left.ok_or("a block holds more instructions than it can")?;
        if code == END {
            self.ended = true;
            batch.instructions = instructions;
            return Ok(());
        }
        let left = self.limits.events.checked_sub(1);
        self.limits.events = left.ok_or("a block holds more events than it can")?;
        let sequence = self.previous_sequence.wrapping_add(bytes::unfold(self.get()?));
        self.previous_sequence = sequence;
        let kind = EventKind::get(code, &self.bytes, &mut self.at).ok_or("an event of an unknown kind")?;
        batch.events.push((
            batch.accesses.len(),
            Event {
                sequence,
                instructions,
                kind,
            },
        ));
        Ok(())
    }

    #[inline]
    fn get(&mut self) -> Result<u64, &'static str> {
        bytes::get(&self.bytes, &mut self.at).ok_or(CUT_OFF)
    }
}

/// The state between tokens: the next token has not been read.
const FETCH: u64 = u64::MAX;
const CUT_OFF: &str = "a block ends too early";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_of_any_bytes_is_read_to_its_end_or_refused(bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), 0..8u8],
            0..200,
        )) {
            let mut decoder = Decoder::new(bytes, Limits::BLOCK);
            let mut batch: Batch = Batch::default();
            let mut accesses = 0;
            while !decoder.ended() && decoder.next_batch(&mut batch, &mut ()).is_ok() {
                prop_assert!(batch.accesses.len() <= BATCH + 1);
                accesses += batch.accesses.len() as u64;
            }
            prop_assert!(accesses <= BLOCK_ACCESSES);
        }
    }
}
