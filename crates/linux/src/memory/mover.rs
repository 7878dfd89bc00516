//! Moves the pages of a running process.
//!
//! The memory is processed once, in windows of some megabytes, so that only one of them is in memory:
//!
//! 1. `pagemap` shows which pages of the window are in memory, and which of them belong to a file. The kernel is
//!    queried for the nodes of the pages that may move, unless their whole area is on one node. If all of an area is in
//!    memory, on one node, and may move, no page is queried.
//! 2. The goal decides the node of each page. A range with the size of a huge page whose pages are all on one
//!    node, in an area that has huge pages, counts as one huge page.
//! 3. The pages to move are collected by their target node, because the kernel interrupts its work whenever the node
//!    changes, and are moved in batches. For a huge page only the first address is given: the kernel moves it as a
//!    whole, and never has to split it.
//! 4. If the kernel's answer has no node for a page, the page is retried. Only a page that is seen on its node counts
//!    as moved.
//! 5. With a given rate, it waits until the average rate is not above it; then the next window follows.
//!
//! A node that is full gets no more pages, and those meant for it are counted.
//!
//! Known limits: memory that a program maps during the migration is not seen. A page that moves between the steps for
//! another reason (automatic NUMA balancing) may count as moved. A range of small pages that is all on one node stays
//! together in an area that also has huge pages, and so is interleaved by ranges. In an area of terabytes with few
//! pages (the shadow of an address sanitiser) the search takes seconds.

use super::calls::{MoveCalls, StopReason};
use super::run::{Run, Runs, Unit};
use pinfold_core::memory::{Left, MemoryArea, PageCount, PageGoal, PageMoves, Selection, Share};
use pinfold_core::{NodeId, Reason};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

/// Bytes of a transparent huge page on x86-64 and on other machines with small pages of 4 KiB.
const HUGE: u64 = 2 << 20;

/// Bytes of a window; a multiple of `HUGE`.
const WINDOW: u64 = 64 << 20;

/// Bytes that one call moves without a given rate. It is large enough that the fixed cost of a call, a good fraction of
/// a millisecond to empty per-CPU lists, is small compared with the copying. It is small enough that the migration can
/// be ended within some hundredths of a second. Batches of 32 MiB moved 3 % fewer pages per second in the emulated
/// machine.
const BATCH: u64 = 128 << 20;

/// The least bytes of one call: a smaller rate is reached by longer pauses.
const SMALLEST_BATCH: u64 = 1 << 20;

/// With a rate, one call moves the bytes that the rate allows in this many seconds.
const BURST: f64 = 0.1;

/// An invalid status. The kernel does not overwrite it for pages that it does not report.
const UNSAID: i32 = i32::MIN;

/// The number of retries of a batch that the kernel did not complete.
const TRIES: usize = 8;

/// The number of retries of pages that are in use, and the pause before each.
const ASKED_AGAIN: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Called with the number of processed bytes, and of all bytes.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// The limits of a migration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The memory that is moved in addition to a process's private memory.
    pub selection: Selection,
    /// The largest average rate in bytes per second. `None` for no limit.
    pub rate: Option<f64>,
    /// The size of the smallest pages in bytes.
    pub page_size: u64,
}

/// Moves the pages of `areas` to their places under `goal`, and adds the result to `moves`.
pub fn move_pages(
    calls: &mut dyn MoveCalls,
    areas: &[MemoryArea],
    goal: &mut dyn PageGoal,
    limits: Limits,
    moves: &mut PageMoves,
    progress: Progress<'_>,
) {
    let began = Instant::now();
    let policy = MemoryArea::process_policy(areas);
    let whole: u64 = areas.iter().map(MemoryArea::resident_bytes).sum();
    let mut mover = Mover {
        calls,
        goal,
        limits,
        full: BTreeSet::new(),
        began,
        sent: 0,
        batch: batch(limits.rate),
        gathered: BTreeMap::new(),
        moves: PageMoves::default(),
    };
    let mut gone_through = 0;
    let mut stopped = None;
    for area in areas {
        let accounted = mover.accounted();
        match limits.selection.share(area, policy) {
            Share::Never => {}
            Share::None(why) => mover.leave_rest(area, accounted, why),
            share @ (Share::All | Share::Written) => {
                if stopped.is_none() {
                    stopped = mover.area(area, share == Share::Written).err();
                }
                if stopped.is_some() {
                    mover.leave_rest(area, accounted, Left::Unfinished);
                }
            }
        }
        gone_through += area.resident_bytes();
        progress(gone_through, whole);
    }
    if stopped.is_none() {
        stopped = mover.send_gathered().err();
    }
    mover.leave_gathered(Left::Unfinished);
    let new = mover.moves;
    moves.processes += 1;
    moves.moved.add_all(new.moved);
    moves.in_place.add_all(new.in_place);
    for (why, count) in new.left {
        moves.left.entry(why).or_default().add_all(count);
    }
    moves.lasted += began.elapsed();
    if let Some(reason) = stopped {
        moves.broken_off = Some(Reason::new(reason.code(), reason.to_string()));
    }
}

/// Like `move_pages`, but retries pages that were in use. It is for the way back, because no page must stay moved.
pub fn move_pages_patiently(
    calls: &mut dyn MoveCalls,
    areas: &[MemoryArea],
    goal: &mut dyn PageGoal,
    limits: Limits,
    moves: &mut PageMoves,
    progress: Progress<'_>,
) {
    let before = moves.clone();
    move_pages(calls, areas, goal, limits, moves, progress);
    let (processes, in_place) = (moves.processes, moves.in_place);
    let in_use = [Left::Busy, Left::InUse];
    for _ in 0..ASKED_AGAIN {
        let of = |moves: &PageMoves, left| moves.left.get(left).copied().unwrap_or_default().pages;
        let stay = in_use.iter().any(|left| of(moves, left) > of(&before, left));
        if !stay || moves.broken_off.is_some() || calls.pause(PAUSE).is_err() {
            return;
        }
        // They are counted again.
        for left in in_use {
            moves.left.remove(&left);
            moves.left.extend(before.left.get(&left).map(|&count| (left, count)));
        }
        move_pages(calls, areas, goal, limits, moves, progress);
        (moves.processes, moves.in_place) = (processes, in_place);
    }
}

struct Mover<'a> {
    calls: &'a mut dyn MoveCalls,
    goal: &'a mut dyn PageGoal,
    limits: Limits,
    /// The nodes that are full.
    full: BTreeSet<NodeId>,
    began: Instant,
    /// Bytes that were moved since the start.
    sent: u64,
    /// Bytes that one call moves.
    batch: u64,
    /// The pages to move next, by target node.
    gathered: BTreeMap<NodeId, Runs>,
    moves: PageMoves,
}

impl Mover<'_> {
    /// The bytes that are counted in the result, or will be.
    fn accounted(&self) -> u64 {
        let left: u64 = self.moves.left.values().map(|count| count.bytes).sum();
        let gathered: u64 = self.gathered.values().map(Runs::bytes).sum();
        self.moves.moved.bytes + self.moves.in_place.bytes + left + gathered
    }

    /// Moves the collected pages.
    fn send_gathered(&mut self) -> Result<(), StopReason> {
        while let Some((node, gathered)) = self.gathered.pop_first() {
            self.send(gathered, node)?;
        }
        Ok(())
    }

    /// Moves the collected pages that form whole batches.
    fn send_batches(&mut self) -> Result<(), StopReason> {
        let nodes: Vec<NodeId> = self.gathered.keys().copied().collect();
        for node in nodes {
            while let Some(gathered) = self.gathered.get_mut(&node)
                && gathered.bytes() >= self.batch
            {
                let batch = gathered.take(self.batch);
                self.send(batch, node)?;
            }
        }
        Ok(())
    }

    /// Moves pages to one node, counts the result, and then waits for the rate.
    fn send(&mut self, batch: Runs, node: NodeId) -> Result<(), StopReason> {
        let accounted = self.accounted();
        let (whole, page) = (batch.bytes(), batch.units().next().map_or(1, |unit| unit.bytes));
        let sent = self.send_units(batch, node);
        let bytes = whole - (self.accounted() - accounted);
        if sent.is_err() && bytes > 0 {
            let pages = bytes / page;
            let unfinished = self.moves.left.entry(Left::Unfinished).or_default();
            unfinished.add_all(PageCount { pages, bytes });
        }
        sent?;
        self.keep_to_the_rate()
    }

    /// Counts the collected pages as staying.
    fn leave_gathered(&mut self, why: Left) {
        for gathered in std::mem::take(&mut self.gathered).into_values() {
            self.leave(why, &gathered);
        }
    }

    fn leave(&mut self, why: Left, pages: &Runs) {
        for unit in pages.units() {
            self.moves.leave(why, unit.bytes);
        }
    }

    /// Counts the rest of an area as staying; `accounted` bytes were counted before it.
    fn leave_rest(&mut self, area: &MemoryArea, accounted: u64, why: Left) {
        let bytes = area.resident_bytes().saturating_sub(self.accounted() - accounted);
        if bytes > 0 {
            let pages = bytes.div_ceil(area.page_size);
            self.moves
                .left
                .entry(why)
                .or_default()
                .add_all(PageCount { pages, bytes });
        }
    }

    /// Processes an area; with `written` only the pages that do not belong to the file.
    fn area(&mut self, area: &MemoryArea, written: bool) -> Result<(), StopReason> {
        let (before, resident) = (self.accounted(), area.resident_bytes());
        let window = WINDOW.max(area.page_size);
        let mut start = area.start;
        // Some runtimes reserve terabytes and use little of them: the search ends at the last page in memory.
        while start < area.end && self.accounted() - before < resident {
            self.calls.pause(Duration::ZERO)?;
            let end = (start / window + 1).saturating_mul(window).min(area.end);
            self.window(area, start, end, written)?;
            start = end;
        }
        Ok(())
    }

    fn window(&mut self, area: &MemoryArea, start: u64, end: u64, written: bool) -> Result<(), StopReason> {
        let pages = self.pages(area, start, end, written)?;
        let mut huge: BTreeMap<NodeId, Vec<Unit>> = BTreeMap::new();
        let joined = if area.huge > 0 { HUGE } else { area.page_size };
        for unit in pages
            .runs()
            .iter()
            .flat_map(|run| run.joined(joined))
            .flat_map(Run::units)
        {
            let wanted = self.goal.wanted(unit.address, unit.bytes, unit.now);
            if wanted == unit.now {
                self.moves.in_place.add(unit.bytes);
            } else if unit.bytes > area.page_size {
                huge.entry(wanted).or_default().push(unit);
            } else {
                self.gathered.entry(wanted).or_default().add(unit);
            }
        }
        for (node, units) in huge {
            let not_huge = self.send_huge(&units, node, area.page_size)?;
            self.gathered.entry(node).or_default().extend(not_huge);
        }
        self.send_batches()
    }

    /// The pages of the window that may move, with their current nodes. Counts the others.
    fn pages(&mut self, area: &MemoryArea, start: u64, end: u64, written: bool) -> Result<Runs, StopReason> {
        let step = area.page_size;
        let unit = |address, now| Unit {
            address,
            bytes: step,
            now,
        };
        let addresses = (start..end).step_by(number(step));
        // If all of an area is on one node, its pages need not be queried.
        let one = match area.resident.first_key_value() {
            Some((&node, _)) if area.resident.len() == 1 => Some(node),
            _ => None,
        };
        if let (Some(node), false) = (one, written)
            && area.resident_bytes() == area.end - area.start
        {
            return Ok(Run::between(start, end, step, node).into());
        }
        let mut pages = Runs::default();
        let mut candidates: Vec<u64> = vec![];
        if let Some(entries) = self.calls.entries(start, end) {
            let per_page = number(step / self.limits.page_size).max(1);
            for (address, entry) in addresses.zip(entries.into_iter().step_by(per_page)) {
                if entry.present() && written && entry.of_file() {
                    self.moves.leave(Left::File, step);
                } else if entry.present() {
                    match one {
                        Some(node) => pages.add(unit(address, node)),
                        None => candidates.push(address),
                    }
                } else if entry.swapped() {
                    self.moves.leave(Left::Absent, step);
                }
            }
        } else if !written {
            // Without it pages of files are not recognised. For other pages the kernel reports which are not in memory.
            candidates = addresses.collect();
        }
        if candidates.is_empty() {
            return Ok(pages);
        }
        let mut status = vec![UNSAID; candidates.len()];
        if let Err(error) = self.calls.nodes(&candidates, &mut status)? {
            let why = refused(&error, None);
            for _ in &candidates {
                self.moves.leave(why, step);
            }
            return Ok(Runs::default());
        }
        for (address, status) in candidates.into_iter().zip(status) {
            match u32::try_from(status) {
                Ok(node) => pages.add(unit(address, NodeId(node))),
                Err(_) => self.moves.leave(error_of(status), step),
            }
        }
        Ok(pages)
    }

    /// Moves ranges that look like huge pages by their first addresses. Returns the small pages of ranges that are not
    /// huge pages, except for pages that have moved.
    fn send_huge(&mut self, units: &[Unit], node: NodeId, page_size: u64) -> Result<Vec<Unit>, StopReason> {
        let mut small = vec![];
        for batch in units.chunks(number(self.batch / HUGE).max(1)) {
            let mut status = vec![UNSAID; batch.len()];
            let heads: Vec<u64> = batch.iter().map(|unit| unit.address).collect();
            if !self.full.contains(&node) {
                // After any answer the nodes are read. The pages of ranges that have not moved are tried one by one,
                // which gives the reason.
                let _ = self
                    .calls
                    .move_to(&heads, node, self.limits.selection.shared, &mut status)?;
            }
            let last: Vec<u64> = batch.iter().map(|unit| unit.address + unit.bytes - page_size).collect();
            let mut status = vec![UNSAID; batch.len()];
            let _ = self.calls.nodes(&last, &mut status)?;
            for (unit, status) in batch.iter().zip(status) {
                if u32::try_from(status) == Ok(node.0) {
                    self.has_moved(*unit, node);
                } else {
                    let addresses = (unit.address..unit.address + unit.bytes).step_by(number(page_size));
                    small.extend(addresses.map(|address| Unit {
                        address,
                        bytes: page_size,
                        now: unit.now,
                    }));
                }
            }
            self.keep_to_the_rate()?;
        }
        Ok(small)
    }

    fn send_units(&mut self, units: Runs, node: NodeId) -> Result<(), StopReason> {
        let mut pending = units;
        for _ in 0..TRIES {
            if pending.is_empty() || self.full.contains(&node) {
                break;
            }
            let addresses: Vec<u64> = pending.units().map(|unit| unit.address).collect();
            let mut status = vec![UNSAID; addresses.len()];
            let result = self
                .calls
                .move_to(&addresses, node, self.limits.selection.shared, &mut status)?;
            let (mut unsaid, busy) = self.settle(&pending, &status, node)?;
            match result {
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
                    self.full.insert(node);
                    unsaid.extend(busy.units());
                }
                Err(error) => {
                    let why = refused(&error, Some(node));
                    self.leave(why, &unsaid);
                    self.leave(why, &busy);
                    return Ok(());
                }
                Ok(_) => {
                    self.leave(Left::Busy, &busy);
                    // The kernel stops at a page that it cannot move, and the rest is tried again. If nothing has
                    // moved, the first page is the one that it cannot move.
                    if unsaid.bytes() == pending.bytes()
                        && let Some(stuck) = unsaid.take_first()
                    {
                        self.moves.leave(Left::InUse, stuck.bytes);
                    }
                }
            }
            pending = unsaid;
        }
        let full = self.full.contains(&node);
        self.leave(if full { Left::Full(node) } else { Left::InUse }, &pending);
        Ok(())
    }

    /// Counts the results of the pages for `node`. Returns those without a result that have not moved, and those that
    /// were busy.
    fn settle(&mut self, units: &Runs, status: &[i32], node: NodeId) -> Result<(Runs, Runs), StopReason> {
        let mut open = vec![];
        for (unit, &status) in units.units().zip(status) {
            if u32::try_from(status) == Ok(node.0) {
                self.has_moved(unit, node);
            } else if status == UNSAID || status == -libc::EBUSY || status >= 0 {
                // If the kernel moves several pages as one, it reports all but the first as busy.
                open.push((unit, status));
            } else {
                self.moves.leave(error_of(status), unit.bytes);
            }
        }
        let (mut unsaid, mut busy) = (Runs::default(), Runs::default());
        if open.is_empty() {
            return Ok((unsaid, busy));
        }
        let addresses: Vec<u64> = open.iter().map(|(unit, _)| unit.address).collect();
        let mut nodes = vec![UNSAID; open.len()];
        let _ = self.calls.nodes(&addresses, &mut nodes)?;
        for ((unit, status), now) in open.into_iter().zip(nodes) {
            if u32::try_from(now) == Ok(node.0) {
                self.has_moved(unit, node);
            } else if now < 0 && now != UNSAID {
                self.moves.leave(error_of(now), unit.bytes);
            } else if status == -libc::EBUSY {
                busy.add(unit);
            } else {
                unsaid.add(unit);
            }
        }
        Ok((unsaid, busy))
    }

    fn has_moved(&mut self, unit: Unit, node: NodeId) {
        self.moves.moved.add(unit.bytes);
        self.sent += unit.bytes;
        self.goal.moved(unit.address, unit.bytes, unit.now, node);
    }

    /// Waits until the average rate is not above the limit.
    fn keep_to_the_rate(&mut self) -> Result<(), StopReason> {
        let Some(rate) = self.limits.rate else { return Ok(()) };
        let due = Duration::try_from_secs_f64(self.sent as f64 / rate).unwrap_or(Duration::MAX);
        loop {
            match due.checked_sub(self.began.elapsed()) {
                Some(wait) if wait >= Duration::from_millis(1) => self.calls.pause(wait)?,
                _ => return Ok(()),
            }
        }
    }
}

/// Bytes that one call moves, at a rate.
fn batch(rate: Option<f64>) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the conversion saturates, and no rate is negative"
    )]
    let burst = |rate| (rate * BURST) as u64;
    rate.map_or(BATCH, |rate: f64| burst(rate).clamp(SMALLEST_BATCH, BATCH))
}

/// Converts a count of objects in memory.
fn number(of: u64) -> usize {
    usize::try_from(of).unwrap_or(usize::MAX)
}

/// The reason for a page's status that is a negative error number.
fn error_of(status: i32) -> Left {
    match -status {
        libc::EACCES => Left::Shared,
        libc::EBUSY => Left::Busy,
        libc::ENOENT => Left::Absent,
        libc::EFAULT => Left::Zero,
        number => Left::Error(number),
    }
}

/// The reason for the error of a whole call.
fn refused(error: &io::Error, node: Option<NodeId>) -> Left {
    match (error.raw_os_error(), node) {
        (Some(libc::EPERM | libc::ENOSYS), _) => Left::Forbidden,
        (Some(libc::EACCES), Some(node)) => Left::NodeForbidden(node),
        (Some(number), _) => Left::Error(number),
        (None, _) => Left::Error(0),
    }
}

#[cfg(test)]
#[path = "mover_tests.rs"]
mod tests;
