//! Observers of a core's accesses: the stride slots of a thread and the streams of a core's L2.
//!
//! Strides are tracked by instruction, as in the DCU-IP prefetcher. Where a stream does not identify instructions,
//! strides are tracked by page of 4 KiB. In this case two instructions that walk through the same page in different
//! steps disturb each other, and one that jumps between pages is not tracked. The slots also distinguish regular
//! accesses from irregular ones.

use super::pages::PAGE_LINES;

/// Slots of a thread. Sixteen pages at the same time cover the stencils and matrix kernels of the workloads.
const SLOTS: usize = 16;

/// The longest stride, in lines: the DCU-IP prefetcher takes up to 2 KiB (Intel 64 and IA-32 Optimization Reference
/// Manual, section on data prefetching of Intel Core microarchitecture).
const LONGEST_STRIDE: i32 = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Page number plus one; zero is empty.
    page: u32,
    line: u32,
    stride: i32,
    /// How many times in a row the stride was the same.
    times: u8,
    /// The step of its last use.
    used: u32,
}

/// The relation of an access to the accesses before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Whether it could have been predicted: it continues a stride that was seen three times, or stays in the page's
    /// last line. With fewer repetitions, one in fifty steps of a random walk through a page would count as regular.
    pub(crate) regular: bool,
    /// The distance to the next access in lines, if it can be predicted with confidence; otherwise 0.
    pub(crate) stride: i32,
    /// Whether it is the line after its predecessor.
    pub(crate) ascending: bool,
}

/// Strides in lines, by instruction or by page. Any slot takes any page, and the least recently used slot is replaced.
/// The reason: arrays are often powers of two apart, and slots selected by the page's number would be contended by all
/// of their rows.
#[derive(Clone, Debug)]
pub(crate) struct Strides {
    slots: [Slot; SLOTS],
    /// By the low bits of a page's number: the slot that last held such a page. Most pages are found there.
    guesses: [u8; SLOTS],
    steps: u32,
    sites: Box<[Slot; SITES]>,
}

/// The number of instructions that can be distinguished.
const SITES: usize = 1 << u8::BITS;

impl Default for Strides {
    fn default() -> Self {
        Self {
            slots: [Slot::default(); SLOTS],
            guesses: [0; SLOTS],
            steps: 0,
            sites: Box::new([Slot::default(); SITES]),
        }
    }
}

impl Slot {
    /// Records that the next access after the last one is to `line`.
    #[inline]
    fn follow(&mut self, line: u32) -> Step {
        let stride = line.wrapping_sub(self.line).cast_signed();
        if stride == 0 {
            return Step {
                regular: true,
                stride: 0,
                ascending: false,
            };
        }
        self.line = line;
        if stride == self.stride {
            self.times = self.times.saturating_add(1);
        } else {
            self.stride = stride;
            self.times = 0;
        }
        let regular = self.times > 1;
        Step {
            regular,
            stride: if regular && stride.abs() <= LONGEST_STRIDE {
                stride
            } else {
                0
            },
            ascending: stride == 1,
        }
    }
}

impl Strides {
    /// Records an access to `line`, which is not the line before, by the instruction `site`; 0 is unknown.
    #[inline]
    pub(crate) fn step(&mut self, line: u32, site: u8) -> Step {
        if site != 0 {
            return self.sites[usize::from(site)].follow(line);
        }
        let page = line / PAGE_LINES;
        let guess = &mut self.guesses[page as usize % SLOTS];
        if self.slots[usize::from(*guess)].page != page + 1 {
            let Some(found) = self.slots.iter().position(|slot| slot.page == page + 1) else {
                return self.enter(line, page);
            };
            *guess = found as u8;
        }
        let slot = &mut self.slots[usize::from(*guess)];
        self.steps = self.steps.wrapping_add(1);
        slot.used = self.steps;
        slot.follow(line)
    }

    #[inline(never)]
    /// The first access to a page for a while. It is regular if it continues the steps of a neighbour page.
    fn enter(&mut self, line: u32, page: u32) -> Step {
        self.steps = self.steps.wrapping_add(1);
        let mut inherited = Slot {
            page: page + 1,
            line,
            stride: 0,
            times: 0,
            used: self.steps,
        };
        for neighbour in [page.wrapping_sub(1), page + 1] {
            for slot in self.slots.iter().filter(|slot| slot.page == neighbour.wrapping_add(1)) {
                let stride = line.wrapping_sub(slot.line).cast_signed();
                if slot.times > 0 && stride == slot.stride {
                    inherited.stride = stride;
                    inherited.times = slot.times;
                }
            }
        }
        let age = |slot: &Slot| self.steps.wrapping_sub(slot.used);
        let oldest = (0..SLOTS).max_by_key(|&slot| age(&self.slots[slot])).unwrap_or(0);
        self.slots[oldest] = inherited;
        self.guesses[page as usize % SLOTS] = oldest as u8;
        Step {
            regular: inherited.times > 1,
            stride: if inherited.times > 1 { inherited.stride } else { 0 },
            ascending: inherited.stride == 1,
        }
    }
}

/// The number of streams that a core's L2 follows at the same time (Intel 64 and IA-32 Optimization Reference Manual:
/// 32).
const STREAMS: usize = 32;

/// The number of lines that the streamer fetches for one access.
const STREAMER_DEGREE: u32 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct Tracked {
    /// Page number plus one; zero is empty.
    page: u32,
    last: u32,
    forward: bool,
    confidence: u8,
    /// The furthest requested line.
    ahead: u32,
}

/// How far the streamer runs ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// Lines ahead of the request.
    pub(crate) distance: u32,
    /// Lines beyond the end of the page.
    pub(crate) next_page: u32,
}

/// The L2 streamer of one core: it observes the requests of the L1 to the L2, and follows one direction for each page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streamer {
    tracked: [Tracked; STREAMS],
}

impl Streamer {
    /// Records a request for `line`. Returns the lines to fetch: the first line, their number, and whether they
    /// descend. Lines beyond the end of the page stand for lines of the page that follows in virtual memory.
    #[inline]
    pub(crate) fn request(&mut self, line: u32, reach: Reach) -> Option<(u32, u32, bool)> {
        let page = line / PAGE_LINES;
        let Reach { distance, next_page } = reach;
        let stream = &mut self.tracked[page as usize % STREAMS];
        if stream.page != page + 1 {
            *stream = Tracked {
                page: page + 1,
                last: line,
                forward: true,
                confidence: 0,
                ahead: line,
            };
            return None;
        }
        if line == stream.last {
            return None;
        }
        let forward = line > stream.last;
        stream.last = line;
        if forward != stream.forward {
            stream.forward = forward;
            stream.confidence = 1;
            stream.ahead = line;
            return None;
        }
        stream.confidence = (stream.confidence + 1).min(2);
        if stream.confidence < 2 {
            stream.ahead = line;
            return None;
        }
        let first_of_page = page * PAGE_LINES;
        if forward {
            let from = stream.ahead.max(line) + 1;
            let end = (line + distance + 1).min(first_of_page + PAGE_LINES + next_page);
            let number = end.saturating_sub(from).min(STREAMER_DEGREE);
            stream.ahead = from + number - 1;
            (number > 0).then_some((from, number, false))
        } else {
            let before = stream.ahead.min(line);
            let end = line
                .saturating_sub(distance)
                .max(first_of_page.saturating_sub(next_page));
            let number = before.saturating_sub(end).min(STREAMER_DEGREE);
            stream.ahead = before - number;
            (number > 0).then(|| (before - 1, number, true))
        }
    }

    /// The line `target`, which the last request for `line` returned, and those after it were not fetched. The next
    /// request in the page returns them again.
    pub(crate) fn put_off(&mut self, line: u32, target: u32, downwards: bool) {
        let page = line / PAGE_LINES;
        self.tracked[page as usize % STREAMS].ahead = if downwards { target + 1 } else { target - 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_is_predicted_after_three_equal_steps() {
        let mut strides = Strides::default();
        let steps: Vec<i32> = [0, 3, 6, 9, 12].map(|line| strides.step(line, 0).stride).to_vec();
        assert_eq!(steps, [0, 0, 0, 3, 3]);
    }

    #[test]
    fn a_stream_goes_on_in_the_next_page() {
        let mut strides = Strides::default();
        for line in 0..PAGE_LINES {
            strides.step(line, 0);
        }
        let step = strides.step(PAGE_LINES, 0);
        assert_eq!((step.regular, step.stride), (true, 1));
    }

    #[test]
    fn rows_of_arrays_that_are_powers_of_two_apart_are_followed_at_once() {
        let mut strides = Strides::default();
        let arrays = [0, 32, 1024, 1056];
        let mut last = vec![];
        for line in 0..8 {
            last = arrays
                .map(|page| strides.step(page * PAGE_LINES + line, 0).regular)
                .to_vec();
        }
        assert_eq!(last, [true; 4]);
    }

    #[test]
    fn instructions_that_walk_through_one_page_are_distinguished() {
        let mut strides = Strides::default();
        let mut last = vec![];
        for step in 0..6 {
            // Upwards, downwards, and in steps that are regular but too long for the prefetcher.
            let lines = [step, PAGE_LINES - 1 - step, 100 * step];
            last = lines
                .iter()
                .zip(1..)
                .map(|(&line, site)| strides.step(line, site))
                .collect();
        }
        assert!(last.iter().all(|step| step.regular));
        assert_eq!(last.iter().map(|step| step.stride).collect::<Vec<_>>(), [1, -1, 0]);
    }

    #[test]
    fn jumps_are_irregular() {
        let mut strides = Strides::default();
        let lines = [5000, 17, 90_000, 5033, 44, 90_011];
        assert!(lines.into_iter().all(|line| !strides.step(line, 0).regular));
    }

    fn within_page(distance: u32) -> Reach {
        Reach { distance, next_page: 0 }
    }

    #[test]
    fn lines_that_the_streamer_could_not_fetch_are_returned_again() {
        let mut streamer = Streamer::default();
        for line in 0..2 {
            assert_eq!(streamer.request(line, within_page(8)), None);
        }
        assert_eq!(streamer.request(2, within_page(8)), Some((3, 2, false)));
        streamer.put_off(2, 4, false);
        assert_eq!(streamer.request(3, within_page(8)), Some((4, 2, false)));
    }

    #[test]
    fn the_streamer_passes_the_end_of_a_page_by_the_lines_of_its_reach() {
        for upwards in [true, false] {
            let mut streamer = Streamer::default();
            let mut beyond = vec![];
            for step in 0..PAGE_LINES {
                let line = PAGE_LINES + if upwards { step } else { PAGE_LINES - 1 - step };
                let reach = Reach {
                    distance: 8,
                    next_page: 2,
                };
                if let Some((first, number, downwards)) = streamer.request(line, reach) {
                    let targets = (0..number).map(|ahead| if downwards { first - ahead } else { first + ahead });
                    beyond.extend(targets.filter(|target| target / PAGE_LINES != 1));
                }
            }
            let first = if upwards {
                [2 * PAGE_LINES, 2 * PAGE_LINES + 1]
            } else {
                [PAGE_LINES - 1, PAGE_LINES - 2]
            };
            assert_eq!(beyond, first);
        }
    }

    #[test]
    fn the_streamer_runs_ahead_by_its_distance_within_the_page_both_ways() {
        for upwards in [true, false] {
            let mut streamer = Streamer::default();
            let mut brought = vec![];
            for step in 0..PAGE_LINES {
                let line = if upwards { step } else { PAGE_LINES - 1 - step };
                if let Some((first, number, downwards)) = streamer.request(line, within_page(8)) {
                    assert_eq!(downwards, !upwards);
                    for ahead in 0..number {
                        let next = if downwards { first - ahead } else { first + ahead };
                        assert!(next.abs_diff(line) <= 8 && next < PAGE_LINES, "{line} {next}");
                        brought.push(next);
                    }
                }
            }
            let asked = brought.len();
            brought.sort_unstable();
            brought.dedup();
            assert_eq!(brought.len(), asked, "no line is requested twice");
            assert!(asked >= PAGE_LINES as usize - 4, "{asked}");
        }
    }
}
