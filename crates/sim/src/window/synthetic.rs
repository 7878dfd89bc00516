//! Generated streams for tests and benchmarks: each is one access pattern with known behaviour in caches.

use super::stream::{Batch, Event, EventKind, Generated, Stream};
use crate::model::LINE_BYTES;
use pinfold_core::random::Random;
use std::collections::VecDeque;

/// Reads `bytes` from `base` on, eight at a time, `passes` times; every `writes_every`-th access is a store (0 for
/// none).
pub fn streaming(base: u64, bytes: u64, passes: u64, writes_every: u64) -> Box<dyn Stream> {
    let mut next = 0;
    let end = bytes / 8 * passes;
    Box::new(Generated::new(move || {
        (next < end).then(|| {
            let address = base + next * 8 % bytes;
            next += 1;
            if writes_every > 0 && next % writes_every == 0 {
                Event::write(address, 8, 3)
            } else {
                Event::read(address, 8, 3)
            }
        })
    }))
}

/// Reads `number` random words of `bytes` from `base` on, whose addresses depend on no load.
pub fn random(base: u64, bytes: u64, number: u64, seed: u64) -> Box<dyn Stream> {
    let mut random = Random::new(seed);
    let mut left = number;
    Box::new(Generated::new(move || {
        (left > 0).then(|| {
            left -= 1;
            Event::read(base + random.next_bits() % (bytes / 8) * 8, 8, 12)
        })
    }))
}

/// Of each 32 accesses, two add to a random word of `bytes` from `shared` on, which other threads also do. The others
/// go through 16 KiB from `own` on. There are `number` accesses in all.
pub fn shared_updates(shared: u64, bytes: u64, own: u64, number: u64, seed: u64) -> Box<dyn Stream> {
    let mut random = Random::new(seed);
    let mut address = shared;
    let mut next = 0;
    Box::new(Generated::new(move || {
        (next < number).then(|| {
            next += 1;
            match next % 32 {
                0 => Event::write(address, 8, 1),
                31 => {
                    address = shared + random.next_bits() % (bytes / 8) * 8;
                    Event::read(address, 8, 10)
                }
                _ => Event::read(own + next * 8 % (16 << 10), 8, 3),
            }
        })
    }))
}

/// Follows a chain through all lines of `bytes` from `base` on, page after page, in random order within a page, with
/// `number` loads in all. Every load gives the address of the next one.
pub fn pointer_chase(base: u64, bytes: u64, number: u64, seed: u64) -> Box<dyn Stream> {
    const PAGE: usize = 64;
    let mut random = Random::new(seed);
    let mut order: Vec<u64> = (0..bytes / LINE_BYTES).collect();
    for page in order.chunks_mut(PAGE) {
        for last in (1..page.len()).rev() {
            page.swap(last, (random.next_bits() % (last as u64 + 1)) as usize);
        }
    }
    let mut next = 0;
    Box::new(Generated::new(move || {
        (next < number).then(|| {
            let line = order[(next % order.len() as u64) as usize];
            next += 1;
            Event::read(base + line * LINE_BYTES, 8, 1)
        })
    }))
}

/// Adds to one word `number` times with `work` instructions in between. With the same `address` in several threads the
/// line moves between their caches (ping-pong), and also with different words of one line (false sharing).
pub fn counter(address: u64, number: u64, work: u32) -> Box<dyn Stream> {
    let mut next = 0;
    Box::new(Generated::new(move || {
        (next < 2 * number).then(|| {
            next += 1;
            if next % 2 == 1 {
                Event::read(address, 8, work)
            } else {
                Event::write(address, 8, 1)
            }
        })
    }))
}

/// One thread's rows, `first` to `end`, of a five-point stencil over a grid of `columns` words per row from `base` on,
/// from one half of the memory into the other; `passes` times, with a barrier of `threads` threads after each.
pub fn stencil(base: u64, columns: u64, rows: u64, first: u64, end: u64, passes: u64, threads: u16) -> Box<dyn Stream> {
    let (mut pass, mut row, mut column, mut point) = (0, first.max(1), 1, 0);
    let end = end.min(rows - 1);
    Box::new(Generated::new(move || {
        if pass == passes {
            return None;
        }
        if row >= end {
            pass += 1;
            (row, column, point) = (first.max(1), 1, 0);
            return Some(Event {
                instructions: 20,
                ..Event::barrier(pass, threads)
            });
        }
        let grid = |half: u64, row: u64, column: u64| base + ((half * rows + row) * columns + column) * 8;
        let from = pass % 2;
        let event = match point {
            0 => Event::read(grid(from, row - 1, column), 8, 2),
            1 => Event::read(grid(from, row, column - 1), 8, 1),
            2 => Event::read(grid(from, row, column), 8, 1),
            3 => Event::read(grid(from, row, column + 1), 8, 1),
            4 => Event::read(grid(from, row + 1, column), 8, 1),
            _ => Event::write(grid(1 - from, row, column), 8, 5),
        };
        point += 1;
        if point == 6 {
            point = 0;
            column += 1;
            if column == columns - 1 {
                column = 1;
                row += 1;
            }
        }
        Some(event)
    }))
}

/// One of two partners that access a line in turn, `rounds` times each, each after a signal of the other. Thread 0
/// begins. Partners share `tokens`, a range of identities of their own.
pub fn ping_pong(address: u64, rounds: u64, thread: u64, tokens: u64) -> Box<dyn Stream> {
    let mut next = 0;
    Box::new(Generated::new(move || {
        let (round, part) = (next / 4, next % 4);
        next += 1;
        let turn = tokens + 2 * round + thread;
        (round < rounds).then(|| match part {
            0 if turn == tokens => Event::instructions(1),
            0 => Event::mark(EventKind::Wait, turn - 1),
            1 => Event::read(address, 8, 1),
            2 => Event::write(address, 8, 1),
            _ => Event::mark(EventKind::Signal, turn),
        })
    }))
}

/// These streams in sequence.
pub fn sequence(streams: Vec<Box<dyn Stream>>) -> Box<dyn Stream> {
    Box::new(Sequence(streams.into()))
}

struct Sequence(VecDeque<Box<dyn Stream>>);

impl Stream for Sequence {
    fn next_batch(&mut self, batch: &mut Batch) -> bool {
        while let Some(stream) = self.0.front_mut() {
            if stream.next_batch(batch) {
                return true;
            }
            self.0.pop_front();
        }
        batch.events.clear();
        false
    }
}

/// Writes to one word, `rounds` times each by two partners, each after a signal of the other. Thread 0 begins. The
/// writes are atomic, so no other access of the thread overtakes them. Partners share `tokens`, a range of identities
/// of their own.
pub fn exchange(address: u64, rounds: u64, thread: u64, tokens: u64) -> Box<dyn Stream> {
    let mut next = 0;
    Box::new(Generated::new(move || {
        let (round, part) = (next / 3, next % 3);
        next += 1;
        let turn = tokens + 2 * round + thread;
        (round < rounds).then(|| match part {
            0 if turn == tokens => Event::instructions(1),
            0 => Event::mark(EventKind::Wait, turn - 1),
            1 => Event::write(address, 8, 1),
            _ => Event::mark(EventKind::Signal, turn),
        })
    }))
}

/// A loop over arrays of `bytes` each that processes a cache line at a time, as vector instructions do: loads from all
/// of `reads`, then a store to `write`, four instructions per access.
pub fn vector_loop(reads: Vec<u64>, write: Option<u64>, bytes: u64) -> Box<dyn Stream> {
    let (mut offset, mut array) = (0, 0);
    Box::new(Generated::new(move || {
        if array == reads.len() + usize::from(write.is_some()) {
            array = 0;
            offset += LINE_BYTES;
        }
        (offset < bytes).then(|| {
            array += 1;
            match (reads.get(array - 1), write) {
                (Some(base), _) => Event::read(base + offset, LINE_BYTES as u8, 4),
                (None, base) => Event::write(base.unwrap_or(0) + offset, LINE_BYTES as u8, 4),
            }
        })
    }))
}
