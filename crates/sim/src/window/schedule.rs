//! Which thread runs next: the PUs by their clocks, the threads of a PU in turn, and the barriers and tokens of waiting
//! threads.

use super::time::Ticks;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Whether a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It can run.
    Ready,
    /// It waits for others.
    Blocked,
    /// It has ended.
    Ended,
}

/// One PU that has threads.
#[derive(Debug)]
pub(crate) struct Pu {
    /// Its core, among the active ones.
    pub(crate) core: usize,
    /// The end of its last turn.
    pub(crate) clock: Ticks,
    /// Its threads that have not ended. The running or last one is first.
    pub(crate) threads: VecDeque<usize>,
    /// The end of the running thread's time slice.
    pub(crate) slice_end: Ticks,
    /// The thread that has the slice.
    pub(crate) running: Option<usize>,
    /// Whether one of its threads can run.
    pub(crate) active: bool,
}

impl Pu {
    pub(crate) fn new(core: usize, threads: Vec<usize>) -> Self {
        Self {
            core,
            clock: 0,
            threads: threads.into(),
            slice_end: 0,
            running: None,
            active: false,
        }
    }
}

/// The PUs that have a ready thread, by the time at which the thread can continue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(Ticks, usize)>>,
    /// By PU: the time of its valid entry in the heap. Its other entries are stale.
    times: Vec<Option<Ticks>>,
}

impl Queue {
    pub(crate) fn new(pus: usize) -> Self {
        Self {
            heap: BinaryHeap::new(),
            times: vec![None; pus],
        }
    }

    /// The PU can continue at `time`, or at its earlier time if it has one.
    pub(crate) fn add(&mut self, pu: usize, time: Ticks) {
        if self.times[pu].is_none_or(|known| time < known) {
            self.times[pu] = Some(time);
            self.heap.push(Reverse((time, pu)));
        }
    }

    /// Removes and returns the PU that can continue first.
    pub(crate) fn pop(&mut self) -> Option<(Ticks, usize)> {
        while let Some(Reverse((time, pu))) = self.heap.pop() {
            if self.times[pu] == Some(time) {
                self.times[pu] = None;
                return Some((time, pu));
            }
        }
        None
    }

    /// When the next PU can continue.
    pub(crate) fn next_time(&mut self) -> Option<Ticks> {
        while let Some(&Reverse((time, pu))) = self.heap.peek() {
            if self.times[pu] == Some(time) {
                return Some(time);
            }
            self.heap.pop();
        }
        None
    }
}

/// Barriers and tokens that threads wait for.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    barriers: HashMap<u64, Vec<usize>>,
    tokens: HashMap<u64, Token>,
}

#[derive(Debug)]
enum Token {
    Signalled(Ticks),
    Awaited(Vec<usize>),
}

impl Waiting {
    /// A thread arrives at a barrier. When it is the last, returns all threads that wait there, itself included.
    pub(crate) fn arrive(&mut self, barrier: u64, members: usize, thread: usize) -> Option<Vec<usize>> {
        let waiting = self.barriers.entry(barrier).or_default();
        waiting.push(thread);
        if waiting.len() >= members {
            self.barriers.remove(&barrier)
        } else {
            None
        }
    }

    /// A token is signalled. Returns the threads that wait for it.
    pub(crate) fn signal(&mut self, token: u64, time: Ticks) -> Vec<usize> {
        match self.tokens.insert(token, Token::Signalled(time)) {
            Some(Token::Awaited(threads)) => threads,
            Some(Token::Signalled(_)) | None => vec![],
        }
    }

    /// A thread waits for a token. Returns when the token was signalled, if it was.
    pub(crate) fn wait(&mut self, token: u64, thread: usize) -> Option<Ticks> {
        match self.tokens.entry(token).or_insert(Token::Awaited(vec![])) {
            Token::Signalled(time) => Some(*time),
            Token::Awaited(threads) => {
                threads.push(thread);
                None
            }
        }
    }

    /// Releases all waiting threads. Returns their numbers in ascending order.
    pub(crate) fn release_all(&mut self) -> Vec<usize> {
        let mut threads: Vec<usize> = self.barriers.drain().flat_map(|(_, threads)| threads).collect();
        for token in self.tokens.values_mut() {
            if let Token::Awaited(waiting) = token {
                threads.append(waiting);
            }
        }
        threads.sort_unstable();
        threads
    }
}
