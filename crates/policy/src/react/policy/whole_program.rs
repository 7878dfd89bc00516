//! Whether the whole program is faster with the configurations of its regions. Pages and prefetchers that suit the
//! regions may slow down the code outside of them, and so may a change of threads at each border. So the program's own
//! rate decides, with and without the configurations, in turns:
//!
//! 1. A block has `BLOCK` windows with the configurations, and then as many without: pages move once between them. The
//!    next block begins without the configurations, so that a steady drift cancels out.
//! 2. After each block the pairs of windows are tested (`turns`). The program is slower, or not faster, after any
//!    block; it is faster after the second at the earliest.
//! 3. Configurations are not kept if the program is not significantly faster after `MOST_BLOCKS`, or cannot be
//!    measured.
//!
//! The rate is the metric's, if it counts the program's progress or the user named it. Otherwise it is the number of
//! executions of all regions over the whole time.

use crate::comparison::turns::{Gain, Noise, Turns, Verdict, Window};
use crate::program::observed_program::{Observation, ObservedProgram};
use crate::react::plan::Plan;
use pinfold_core::Sample;
use std::time::Duration;

/// The number of windows in a row on one side. A larger number moves pages less often.
const BLOCK: usize = 4;

/// The least number of blocks before the program is said to be faster, and the number of blocks that ends the
/// comparison.
const FEWEST_BLOCKS: usize = 2;
const MOST_BLOCKS: usize = 4;

/// A window has this many executions of each region, and at least this length, as a window of the default policy.
const EXECUTIONS: u32 = 10;
const SHORTEST: Duration = Duration::from_millis(200);

/// Threads and caches settle for this time after a change, and the unpinned program for this multiple of it: for a
/// while the operating system leaves threads on the PUs of the last pinning.
const SETTLE: Duration = Duration::from_millis(100);
const UNPINNED_SETTLES: u32 = 3;

/// The step, and when it began.
#[derive(Clone, Copy, Debug)]
enum Step {
    Settling(Duration),
    Measuring(Duration),
}

/// The comparison of a plan with the unpinned program.
#[derive(Debug)]
pub(super) struct WholeProgram {
    plan: Plan,
    /// The time of all regions without the plan over their time with it, minus one.
    of_regions: f64,
    window: Duration,
    settles: Duration,
    step: Step,
    /// The executions of all regions at the start of the window.
    executions: f64,
    /// Whether the program runs without the plan.
    is_before: bool,
    /// The windows of the first and of the second half of the block.
    halves: [Vec<Option<Window>>; 2],
    blocks: usize,
    turns: Turns,
}

/// What follows from the windows so far.
#[derive(Debug, PartialEq)]
enum Next {
    /// Another window as the program is now.
    Window,
    /// The program changes to the other side.
    Change,
    Keep(Gain),
    /// `None` if nothing could be measured.
    GiveUp(Option<Gain>),
}

impl WholeProgram {
    /// The program has this plan already, and its regions are faster by `of_regions`. Each of them is executed once in
    /// `reading`, and no step lasts longer than `longest`.
    pub(super) fn new(plan: Plan, of_regions: f64, reading: Duration, longest: Duration, sample: &Sample) -> Self {
        Self {
            plan,
            of_regions,
            window: (reading * EXECUTIONS).max(SHORTEST).min(longest),
            settles: reading.max(SETTLE).min(longest),
            step: Step::Measuring(sample.at),
            executions: executions(sample),
            is_before: false,
            halves: Default::default(),
            blocks: 0,
            turns: Turns::default(),
        }
    }

    /// Adds a window that is over; `None` if nothing was counted.
    fn add(&mut self, window: Option<Window>) -> Next {
        let half = usize::from(self.halves[0].len() == BLOCK);
        self.halves[half].push(window);
        if self.halves[half].len() < BLOCK {
            return Next::Window;
        }
        if half == 0 {
            return Next::Change;
        }
        let [first, second] = std::mem::take(&mut self.halves);
        for (first, second) in first.into_iter().zip(second) {
            // The program is on the side of the second half.
            let (before, with) = if self.is_before {
                (second, first)
            } else {
                (first, second)
            };
            if let (Some(before), Some(with)) = (before, with) {
                self.turns.add(before, with);
            }
        }
        self.blocks += 1;
        let noise = Noise::default();
        let verdict = self.turns.look(&noise);
        match (verdict, self.turns.gain(&noise)) {
            (Verdict::Faster, Some(gain)) if self.blocks >= FEWEST_BLOCKS => Next::Keep(gain),
            (Verdict::NotFaster, gain) => Next::GiveUp(gain),
            (_, gain) if self.blocks == MOST_BLOCKS => Next::GiveUp(gain),
            _ => Next::Window,
        }
    }
}

/// What the program does next.
pub(super) enum Progress {
    /// It runs on as it is.
    Stay,
    /// It gets this plan.
    Change(Plan),
    /// It is faster with this plan, which stays.
    Keep(Plan, Gain),
    /// It is not faster. `None` if its rate could not be measured.
    GiveUp(Option<Gain>),
}

impl WholeProgram {
    /// Processes a sample. `is_named`: the user named the metric.
    pub(super) fn advance(
        &mut self,
        program: &mut ObservedProgram,
        is_named: bool,
        seen: &Observation<'_>,
    ) -> Progress {
        match self.step {
            Step::Settling(began) => {
                let settles = self.settles * if self.is_before { UNPINNED_SETTLES } else { 1 };
                if seen.at() >= began + settles {
                    self.begin_window(program, seen);
                }
                Progress::Stay
            }
            Step::Measuring(began) if seen.at() >= began + self.window => {
                let window = self.window(began, program, is_named, seen);
                match self.add(window) {
                    Next::Window => {
                        self.begin_window(program, seen);
                        Progress::Stay
                    }
                    Next::Change => {
                        self.is_before = !self.is_before;
                        self.step = Step::Settling(seen.at());
                        Progress::Change(if self.is_before {
                            Plan::default()
                        } else {
                            self.plan.clone()
                        })
                    }
                    Next::Keep(gain) => Progress::Keep(self.plan.clone(), gain),
                    Next::GiveUp(gain) => Progress::GiveUp(gain),
                }
            }
            Step::Measuring(_) => Progress::Stay,
        }
    }

    fn begin_window(&mut self, program: &mut ObservedProgram, seen: &Observation<'_>) {
        self.step = Step::Measuring(seen.at());
        self.executions = executions(seen.sample());
        program.drop_readings();
    }

    /// What the window since `began` has measured; `None` if nothing was counted.
    fn window(
        &self,
        began: Duration,
        program: &ObservedProgram,
        is_named: bool,
        seen: &Observation<'_>,
    ) -> Option<Window> {
        if program.metric().is_some() && (is_named || program.is_counted_as_a_whole()) {
            return Window::new(program.measurement().rate, program.counts());
        }
        let grown = executions(seen.sample()) - self.executions;
        let time = seen.at().saturating_sub(began).as_secs_f64();
        Window::new((time > 0.0).then_some(grown / time), grown)
    }

    /// The gain of all regions together.
    pub(super) fn of_regions(&self) -> f64 {
        self.of_regions
    }

    /// Why the plan is given up, if the whole program has this gain.
    pub(super) fn why_given_up(&self, gain: Option<Gain>) -> String {
        let regions = 1.0 + self.of_regions;
        match gain.map(Gain::times) {
            Some((times, error)) => format!(
                "the whole program was {times:.2} ± {error:.2} times as fast as before, although its regions together were \
                 {regions:.2} times as fast"
            ),
            None => format!(
                "the rate of the whole program could not be measured, although its regions together were {regions:.2} times \
                 as fast as before"
            ),
        }
    }
}

/// How often regions were executed, all together.
fn executions(sample: &Sample) -> f64 {
    sample.regions.iter().map(|region| region.executions).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What follows from windows with these logarithms of the rate, in the order of the sides, and how many there were.
    fn compared(with: impl Fn(usize) -> f64, before: impl Fn(usize) -> f64) -> (Next, usize) {
        let one = Duration::from_secs(1);
        let mut whole = WholeProgram::new(Plan::default(), 0.1, one, one, &Sample::default());
        for number in 0.. {
            let log = if whole.is_before { before(number) } else { with(number) };
            match whole.add(Some(Window { log, counts: 1e6 })) {
                Next::Window => {}
                Next::Change => whole.is_before = !whole.is_before,
                end => return (end, number + 1),
            }
        }
        unreachable!("it ends after the most blocks")
    }

    fn scatter(number: usize) -> f64 {
        0.002 * ((number * 7 % 5) as f64 - 2.0)
    }

    #[test]
    fn a_program_that_is_faster_keeps_the_configurations_after_two_blocks_in_both_orders() {
        let (end, windows) = compared(|number| 0.1 + scatter(number), scatter);
        assert!(
            matches!(end, Next::Keep(gain) if (gain.log - 0.1).abs() < 0.01),
            "{end:?}"
        );
        assert_eq!(windows, 4 * BLOCK);
    }

    #[test]
    fn a_program_that_is_slower_gives_them_up_after_one_block() {
        let (end, windows) = compared(|number| scatter(number) - 0.16, scatter);
        assert!(
            matches!(end, Next::GiveUp(Some(gain)) if (gain.log + 0.16).abs() < 0.01),
            "{end:?}"
        );
        assert_eq!(windows, 2 * BLOCK);
    }

    #[test]
    fn what_is_as_fast_or_drifts_is_given_up() {
        let (end, _) = compared(scatter, scatter);
        assert!(matches!(end, Next::GiveUp(_)), "{end:?}");
        let drift = |number: usize| 0.01 * number as f64 + scatter(number);
        let (end, _) = compared(drift, drift);
        assert!(matches!(end, Next::GiveUp(_)), "{end:?}");
    }

    #[test]
    fn a_program_that_counts_nothing_keeps_nothing() {
        let one = Duration::from_secs(1);
        let mut whole = WholeProgram::new(Plan::default(), 0.1, one, one, &Sample::default());
        let ends = std::iter::repeat_with(|| whole.add(None)).find(|next| !matches!(next, Next::Window | Next::Change));
        assert_eq!(ends, Some(Next::GiveUp(None)));
    }
}
