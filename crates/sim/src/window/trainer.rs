//! What watches a core's accesses: the stride slots of a thread and the streams of a core's L2.
//!
//! Recordings have no instruction pointers, so strides are followed by 4 KiB page instead of by instruction: two
//! instructions that walk through the same page in different steps disturb each other here, and one that jumps between
//! pages is not followed. For the same reason the slots are also what tells a regular access from an irregular one.

use super::pages::PAGE_LINES;

/// Slots of a thread. Sixteen pages under way at once cover the stencils and matrix kernels of the workloads.
const SLOTS: usize = 16;

/// A longer stride is no stride: the DCU-IP prefetcher takes up to 2 KiB (Intel 64 and IA-32 Optimization Reference
/// Manual, section on data prefetching of Intel Core microarchitecture).
const LONGEST_STRIDE: i32 = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Page number plus one; zero is empty.
    page: u32,
    line: u32,
    stride: i32,
    /// How often in a row the stride was the same.
    times: u8,
}

/// What an access is to the accesses before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// It could have been foretold: it goes on with a stride that was seen three times, or stays in the page's last line.
    /// Less would take one in fifty steps of a random walk through a page for regular.
    pub(crate) regular: bool,
    /// The lines to the next access, where it can be foretold with confidence; otherwise 0.
    pub(crate) stride: i32,
    /// It is the line after the one before.
    pub(crate) ascending: bool,
}

/// Strides in lines, by page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strides {
    slots: [Slot; SLOTS],
}

impl Strides {
    /// Learns from an access to `line`, which is another than the one before.
    #[inline]
    pub(crate) fn step(&mut self, line: u32) -> Step {
        let page = line / PAGE_LINES;
        let slot = &mut self.slots[page as usize % SLOTS];
        if slot.page != page + 1 {
            return self.enter(line, page);
        }
        let stride = line.wrapping_sub(slot.line).cast_signed();
        if stride == 0 {
            return Step {
                regular: true,
                stride: 0,
                ascending: false,
            };
        }
        slot.line = line;
        if stride == slot.stride {
            slot.times = slot.times.saturating_add(1);
            return Step {
                regular: slot.times > 1,
                stride: if slot.times > 1 { stride } else { 0 },
                ascending: stride == 1,
            };
        }
        slot.stride = if stride.abs() <= LONGEST_STRIDE { stride } else { 0 };
        slot.times = 0;
        Step {
            regular: false,
            stride: 0,
            ascending: stride == 1,
        }
    }

    #[inline(never)]
    /// The first access to a page for a while: regular where it goes on what went on in a neighbour page.
    fn enter(&mut self, line: u32, page: u32) -> Step {
        let mut inherited = Slot {
            page: page + 1,
            line,
            stride: 0,
            times: 0,
        };
        for neighbour in [page.wrapping_sub(1), page + 1] {
            let slot = self.slots[neighbour as usize % SLOTS];
            let stride = line.wrapping_sub(slot.line).cast_signed();
            if slot.page == neighbour.wrapping_add(1) && slot.times > 0 && stride == slot.stride {
                inherited.stride = stride;
                inherited.times = slot.times;
            }
        }
        self.slots[page as usize % SLOTS] = inherited;
        Step {
            regular: inherited.times > 1,
            stride: if inherited.times > 1 { inherited.stride } else { 0 },
            ascending: inherited.stride == 1,
        }
    }
}

/// Streams that a core's L2 follows at once (Intel 64 and IA-32 Optimization Reference Manual: 32).
const STREAMS: usize = 32;

/// Lines that one access sends the streamer ahead.
const STREAMER_DEGREE: u32 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct Tracked {
    /// Page number plus one; zero is empty.
    page: u32,
    last: u32,
    forward: bool,
    confidence: u8,
    /// The furthest line that was asked for.
    ahead: u32,
}

/// The L2 streamer of one core: it watches what the L1 asks of the L2, follows one direction a page, and stays within
/// the page.
#[derive(Clone, Debug)]
pub(crate) struct Streamer {
    tracked: [Tracked; STREAMS],
    distance: u32,
}

impl Streamer {
    pub(crate) fn new(distance: u32) -> Self {
        Self {
            tracked: [Tracked::default(); STREAMS],
            distance,
        }
    }

    /// Learns from a request for `line`; the lines to bring, from the first and how many, and whether downwards.
    #[inline]
    pub(crate) fn request(&mut self, line: u32) -> Option<(u32, u32, bool)> {
        let page = line / PAGE_LINES;
        let distance = self.distance;
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
            let end = (line + distance + 1).min(first_of_page + PAGE_LINES);
            let number = end.saturating_sub(from).min(STREAMER_DEGREE);
            stream.ahead = from + number - 1;
            (number > 0).then_some((from, number, false))
        } else {
            let before = stream.ahead.min(line);
            let end = line.saturating_sub(distance).max(first_of_page);
            let number = before.saturating_sub(end).min(STREAMER_DEGREE);
            stream.ahead = before - number;
            (number > 0).then(|| (before - 1, number, true))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_is_foretold_after_three_equal_steps() {
        let mut strides = Strides::default();
        let steps: Vec<i32> = [0, 3, 6, 9, 12].map(|line| strides.step(line).stride).to_vec();
        assert_eq!(steps, [0, 0, 0, 3, 3]);
    }

    #[test]
    fn a_stream_goes_on_in_the_next_page() {
        let mut strides = Strides::default();
        for line in 0..PAGE_LINES {
            strides.step(line);
        }
        let step = strides.step(PAGE_LINES);
        assert_eq!((step.regular, step.stride), (true, 1));
    }

    #[test]
    fn jumps_are_irregular() {
        let mut strides = Strides::default();
        let lines = [5000, 17, 90_000, 5033, 44, 90_011];
        assert!(lines.into_iter().all(|line| !strides.step(line).regular));
    }

    #[test]
    fn the_streamer_runs_ahead_by_its_distance_within_the_page_both_ways() {
        for upwards in [true, false] {
            let mut streamer = Streamer::new(8);
            let mut brought = vec![];
            for step in 0..PAGE_LINES {
                let line = if upwards { step } else { PAGE_LINES - 1 - step };
                if let Some((first, number, downwards)) = streamer.request(line) {
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
            assert_eq!(brought.len(), asked, "no line is asked for twice");
            assert!(asked >= PAGE_LINES as usize - 4, "{asked}");
        }
    }
}
