//! Whether the whole program is faster with the configurations that its regions are to keep. Regions are not all of it: pages
//! and prefetchers that suit them may slow down what is outside of them, and so may a change of threads at each border. So the
//! program's own rate decides, with the configurations and as it was before, in turns:
//!
//! 1. The program has the configurations. `BLOCK` windows follow one another in them, then as many in the program as it was:
//!    pages move once between them. The next block begins with the program as it was, so that a steady drift cancels out.
//! 2. After each block the pairs of windows are tested (`turns`). The program is slower, or not faster, after any block; it is
//!    faster after the second at the earliest.
//! 3. What is not faster beyond the noise after `MOST_BLOCKS`, or cannot be measured, is not kept.
//!
//! The rate is that of the metric, if it counts the program's progress or the user named it. Otherwise it is the number of
//! executions of all regions over the whole time.

use super::{Phase, React};
use crate::comparison::turns::{Gain, Noise, Turns, Verdict, Window};
use crate::program::metric_choice::MetricRequest;
use crate::react::plan::Plan;
use pinfold_core::{Finding, Sample};
use std::time::Duration;

/// The windows in a row with one configuration. With several, pages move seldom.
const BLOCK: usize = 4;

/// The blocks before the program is said to be faster, and those after which nothing more is measured.
const FEWEST_BLOCKS: usize = 2;
const MOST_BLOCKS: usize = 4;

/// In a window each region is executed this often, and it has at least this length, as one of the default policy has.
const EXECUTIONS: u32 = 10;
const SHORTEST: Duration = Duration::from_millis(200);

/// Threads and caches settle for so long after a change, and the unpinned program for this multiple of it: the operating
/// system leaves threads for a while where they were pinned.
const SETTLE: Duration = Duration::from_millis(100);
const UNPINNED_SETTLES: u32 = 3;

/// The present step, and when it began.
#[derive(Clone, Copy, Debug)]
enum Step {
    Settling(Duration),
    Measuring(Duration),
}

/// The comparison of a plan with the program as it was.
#[derive(Debug)]
pub(super) struct WholeProgram {
    plan: Plan,
    /// The time of all regions before over that with the plan, minus one.
    of_regions: f64,
    window: Duration,
    settles: Duration,
    step: Step,
    /// The executions of all regions when the present window began.
    executions: f64,
    /// Whether the program is as it was before.
    is_before: bool,
    /// The windows of the first half of the present block, and those of the second.
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
    /// `None` where nothing could be measured.
    GiveUp(Option<Gain>),
}

impl WholeProgram {
    /// The program has this plan since a while; its regions are faster by `of_regions`. Each of them is executed once in
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

    /// The window is over: the program had this rate, and this was counted.
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
            // The present side is that of the second half.
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

impl React {
    /// The plan stays if the whole program is faster with it.
    pub(super) fn compare_whole_program(&mut self, of_regions: f64, sample: &Sample) {
        self.restart_meter();
        let (plan, longest) = (self.plan.clone(), self.options.times.probe);
        let whole = WholeProgram::new(plan, of_regions, self.reading, longest, sample);
        self.phase = Phase::Comparing(Box::new(whole));
    }

    /// A sample during the comparison.
    pub(super) fn compare(&mut self, mut whole: Box<WholeProgram>, sample: &Sample, findings: &mut Vec<Finding>) {
        match whole.step {
            Step::Settling(began) => {
                let settles = whole.settles * if whole.is_before { UNPINNED_SETTLES } else { 1 };
                if sample.at >= began + settles {
                    self.begin_window(&mut whole, sample);
                }
            }
            Step::Measuring(began) if sample.at >= began + whole.window => {
                let window = self.window(&whole, began, sample);
                match whole.add(window) {
                    Next::Window => self.begin_window(&mut whole, sample),
                    Next::Change => {
                        whole.is_before = !whole.is_before;
                        self.plan = if whole.is_before {
                            Plan::default()
                        } else {
                            whole.plan.clone()
                        };
                        whole.step = Step::Settling(sample.at);
                    }
                    Next::Keep(gain) => {
                        self.plan.clone_from(&whole.plan);
                        self.report(Some(whole.of_regions), Some(gain.of_program()), findings);
                        self.watch(sample);
                        return;
                    }
                    Next::GiveUp(gain) => {
                        self.give_up(whole.of_regions, gain, sample, findings);
                        return;
                    }
                }
            }
            Step::Measuring(_) => {}
        }
        self.phase = Phase::Comparing(whole);
    }

    fn begin_window(&mut self, whole: &mut WholeProgram, sample: &Sample) {
        whole.step = Step::Measuring(sample.at);
        whole.executions = executions(sample);
        self.restart_meter();
    }

    fn restart_meter(&mut self) {
        if let Some((meter, _)) = &mut self.line {
            meter.restart();
        }
    }

    /// What the window since `began` has measured; `None` where nothing was counted.
    fn window(&self, whole: &WholeProgram, began: Duration, sample: &Sample) -> Option<Window> {
        let is_named = matches!(self.options.metric, MetricRequest::Named(_));
        let meter = self.line.as_ref().map(|(meter, _)| meter);
        if let Some(meter) = meter.filter(|meter| is_named || meter.is_of_program()) {
            return Window::new(meter.measurement().rate, meter.grown());
        }
        let grown = executions(sample) - whole.executions;
        let time = sample.at.saturating_sub(began).as_secs_f64();
        Window::new((time > 0.0).then_some(grown / time), grown)
    }

    /// The whole program is not faster: everything goes back.
    fn give_up(&mut self, of_regions: f64, gain: Option<Gain>, sample: &Sample, findings: &mut Vec<Finding>) {
        let regions = 1.0 + of_regions;
        let why = match gain.map(Gain::times) {
            Some((times, error)) => format!(
                "the whole program was {times:.2} ± {error:.2} times as fast as before, although its regions together were \
                 {regions:.2} times as fast"
            ),
            None => format!(
                "the rate of the whole program could not be measured, although its regions together were {regions:.2} times \
                 as fast as before"
            ),
        };
        self.leave_alone(&why, findings);
        self.report(Some(of_regions), gain.map(Gain::of_program), findings);
        self.watch(sample);
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
