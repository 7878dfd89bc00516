//! All runs of one program, as the behaviour database remembers them.
//!
//! 1. **Work.** Runs with about the same CPU time do the same work (`work`). A run with another CPU time is of another
//!    work, which is measured from the start: a changed input is seen so. The next run is expected to do what most of
//!    the last three did.
//! 2. **Budget.** What challengers lose stays within 1 % of the time of all runs. A run is expected to lose as much as
//!    the runs that were tried before, and `UNKNOWN` before anything was tried. So about eighteen unpinned runs come
//!    before the first trial.
//!
//! Limits: runs whose CPU time differs by less than 22 % count as the same work. If the last runs did many works,
//! nothing is tried.

use super::area::Area;
use super::summary::WorkSummary;
use super::work::{BASELINE, Work};
use serde::{Deserialize, Serialize};

/// Trials may lose this share of the time of all runs.
pub(super) const BUDGET: f64 = 0.01;

/// The expected rate of an area over the incumbent's, before others were tried. Assumed.
const UNKNOWN: f64 = 0.85;

/// Runs do the same work if the logarithms of their CPU times differ by less than a multiple of the median difference
/// of the last runs: nearly six standard deviations, if these are normal. At least 22 %, at most a factor of two.
/// Until `ALIKE_KNOWN` differences are known, `ALIKE_FIRST` holds.
const ALIKE_MEDIANS: f64 = 6.0;
const ALIKE_LEAST: f64 = 0.2;
const ALIKE_MOST: f64 = 0.69;
const ALIKE_FIRST: f64 = 0.4;
const ALIKE_KNOWN: usize = 4;

/// CPU time also depends on the placement. In an area with fewer runs than `SHIFT_KNOWN` the CPU time of the same work
/// may differ by this much more, as a logarithm.
const ELSEWHERE: f64 = 0.5;
const SHIFT_KNOWN: u32 = 3;
/// The share of the newest run in what is known of an area.
const SHIFT_NEWEST: f64 = 0.1;

/// The most works that are remembered. The one that was not done for the longest time is forgotten.
const MOST_WORKS: usize = 8;

/// The last runs that are known one by one.
const LAST: usize = 32;
/// If this many last runs did more than a third as many works, each run does another work.
const VARIED: usize = 12;
/// The number of last runs that say what the next one does.
const EXPECTED_FROM: usize = 3;

/// The version of the history in the database. Another version is not read.
const VERSION: u32 = 1;

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It was in one placement from its start to its end.
    Whole,
    /// It was in an area that it left before its end, because it took too long.
    Stopped,
    /// Another run of the same program ran at the same time.
    Overlapped,
    /// The program was measured and placed while it ran.
    Searched,
}

/// A run that ended with status 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Its area; `None` for an unpinned run.
    pub area: Option<Area>,
    /// Seconds from its start to its end.
    pub wall: f64,
    /// CPU seconds of all its processes.
    pub cpu: f64,
    /// How it went.
    pub how: How,
}

/// The CPU time in an area over that of the unpinned program, as logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Shift {
    area: Area,
    mean: f64,
    runs: u32,
}

impl Shift {
    fn new(area: Area) -> Self {
        Self {
            area,
            mean: 0.0,
            runs: 0,
        }
    }

    /// A run in the area had this difference from the work that it did.
    fn add(&mut self, difference: f64) {
        self.runs = self.runs.saturating_add(1);
        self.mean += SHIFT_NEWEST.max(1.0 / f64::from(self.runs)) * (difference - self.mean);
    }

    /// The difference, and whether it is known.
    fn expected(self) -> (f64, bool) {
        (self.mean, self.runs >= SHIFT_KNOWN)
    }
}

/// All runs of one program with arguments of one shape in one context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    version: u32,
    /// The seconds of all runs.
    total: f64,
    /// The seconds that were lost for works that are forgotten, and in runs that measured nothing.
    lost: f64,
    works: Vec<(u64, Work)>,
    shifts: Vec<Shift>,
    /// The works of the last runs and the logarithms of their CPU times, the newest last.
    last: Vec<(u64, f64)>,
    /// The number of the next work.
    next: u64,
    /// Whether the program was placed while it ran in the last run.
    searched: bool,
    /// The sum and the number of the rates of the first runs of challengers, each at most 1.
    tried: (f64, f64),
}

impl Default for History {
    fn default() -> Self {
        Self {
            version: VERSION,
            total: 0.0,
            lost: 0.0,
            works: vec![],
            shifts: vec![],
            last: vec![],
            next: 0,
            searched: false,
            tried: (0.0, 0.0),
        }
    }
}

impl History {
    /// The history that a database has as JSON; an empty one for a text of another version.
    pub fn parse(text: &str) -> Self {
        let history: Option<Self> = serde_json::from_str(text).ok();
        history
            .filter(|history| history.version == VERSION && history.works.len() <= MOST_WORKS)
            .unwrap_or_default()
    }

    /// The history as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data is JSON")
    }

    /// Adds a run. Its times are positive.
    pub fn add(&mut self, run: &Run) {
        if !(run.wall > 0.0 && run.wall.is_finite() && run.cpu > 0.0 && run.cpu.is_finite()) {
            return;
        }
        self.total += run.wall;
        self.searched = run.how == How::Searched;
        match run.how {
            How::Searched => {}
            How::Overlapped => {
                // A trial beside another run may have lost as much as it took longer.
                let expected = self.expected_work().and_then(Work::expected);
                let lost = expected.map_or(0.0, |expected| run.wall - expected);
                self.lost += if run.area.is_some() { lost.max(0.0) } else { 0.0 };
            }
            How::Whole => {
                let expected = self.expected_number();
                let wall = self.expected_work().and_then(Work::expected).unwrap_or(run.wall);
                let (number, work) = self.work_of(run, true);
                let is_new = work.baseline() == 0;
                let rate = work.add(run.area, run.wall, run.cpu, expected == Some(number));
                if is_new && run.area.is_some() {
                    // The trial was of another work.
                    self.lost += (run.wall - wall).max(0.0);
                }
                if let Some(rate) = rate.filter(|_| run.area.is_some()) {
                    self.add_rate(rate);
                }
            }
            How::Stopped => self.stopped(run),
        }
    }

    /// The run was unpinned before its end. Either its area was slow, or it did another work.
    fn stopped(&mut self, run: &Run) {
        let expected = self.expected_work();
        let was_trial = expected.is_some_and(|work| work.incumbent() != run.area);
        let expected = expected.and_then(Work::expected).unwrap_or(0.0);
        let (_, work) = self.work_of(run, false);
        if work.incumbent() != run.area && work.baseline() >= BASELINE {
            let rate = work.expected().map_or(1.0, |expected| expected / run.wall);
            work.stop(run.area, run.wall);
            self.add_rate(rate);
        } else if was_trial {
            // What another work would have taken elsewhere is not known. The time until the stop is known.
            self.lost += expected;
        }
    }

    /// A challenger had this rate over the incumbent's.
    fn add_rate(&mut self, rate: f64) {
        self.tried.0 += rate.min(1.0);
        self.tried.1 += 1.0;
    }

    /// The work of a run with its number, a new one if its CPU time is another one. `exact`: the run was in one placement
    /// from its start to its end.
    fn work_of(&mut self, run: &Run, exact: bool) -> (u64, &mut Work) {
        let shift = self.shifts.iter().position(|shift| Some(shift.area) == run.area);
        let (shifted, is_known) = shift.map_or((0.0, run.area.is_none()), |place| self.shifts[place].expected());
        let cpu = run.cpu.ln();
        let as_unpinned = if exact { cpu - shifted } else { cpu };
        let alike = if exact && is_known {
            self.alike()
        } else {
            self.alike() + ELSEWHERE
        };
        // Of two works with about this CPU time, the one with more runs: the other one was split off it.
        let alike_ones = self.works.iter().enumerate();
        let most = alike_ones
            .filter(|(_, (_, work))| (as_unpinned - work.cpu()).abs() <= alike)
            .max_by_key(|(_, (_, work))| work.known_by());
        let place = most.map(|(place, _)| place);
        let place = place.unwrap_or_else(|| self.add_work(as_unpinned));
        if self.last.len() >= LAST {
            self.last.remove(0);
        }
        let (number, work) = &mut self.works[place];
        self.last.push((*number, as_unpinned));
        if exact {
            // In an area that is kept, a change of the CPU time is one of the work.
            if let Some(area) = run.area.filter(|_| run.area != work.incumbent()) {
                let shift = shift.unwrap_or_else(|| {
                    self.shifts.push(Shift::new(area));
                    self.shifts.len() - 1
                });
                self.shifts[shift].add(cpu - work.cpu());
            } else {
                work.learn_cpu(as_unpinned);
            }
        }
        (*number, work)
    }

    fn add_work(&mut self, cpu: f64) -> usize {
        if self.works.len() >= MOST_WORKS {
            let oldest = |(number, _): &&(u64, Work)| self.last.iter().rposition(|(last, _)| last == number);
            let forgotten = self.works.iter().min_by_key(oldest).map(|(number, _)| *number);
            self.works.retain(|(number, work)| {
                let stays = Some(*number) != forgotten;
                self.lost += if stays { 0.0 } else { work.lost() };
                stays
            });
        }
        self.works.push((self.next, Work::new(cpu)));
        self.next += 1;
        self.works.len() - 1
    }

    /// The work that the next run is expected to do: that of most of the last runs, of equally many the newest. `None`
    /// before the first run.
    pub(super) fn expected_work(&self) -> Option<&Work> {
        let expected = self.expected_number()?;
        let work = self.works.iter().find(|(number, _)| *number == expected);
        work.map(|(_, work)| work)
    }

    /// The number of that work.
    fn expected_number(&self) -> Option<u64> {
        let newest = || self.last.iter().rev().take(EXPECTED_FROM).map(|&(number, _)| number);
        let times = |number: u64| newest().filter(|last| *last == number).count();
        let most = newest().map(times).max()?;
        newest().find(|&number| times(number) == most)
    }

    /// The largest difference of the logarithms of CPU times of runs that do the same work.
    fn alike(&self) -> f64 {
        let pairs = self.last.windows(2);
        let mut differences: Vec<f64> = pairs.map(|pair| (pair[1].1 - pair[0].1).abs()).collect();
        if differences.len() < ALIKE_KNOWN {
            return ALIKE_FIRST;
        }
        differences.sort_by(f64::total_cmp);
        let median = differences[differences.len() / 2];
        (ALIKE_MEDIANS * median).clamp(ALIKE_LEAST, ALIKE_MOST)
    }

    /// Whether the program was measured and placed while it ran in the last run.
    pub(super) fn was_searched(&self) -> bool {
        self.searched
    }

    /// The expected wall time of the longest work whose incumbent is `area`.
    pub(super) fn slowest_in(&self, area: Area) -> f64 {
        let works = self.works.iter().filter(|(_, work)| work.incumbent() == Some(area));
        works.filter_map(|(_, work)| work.expected()).fold(0.0, f64::max)
    }

    /// Whether each run does another work.
    pub(super) fn is_varied(&self) -> bool {
        let last = self.last.iter().rev().take(VARIED);
        let mut works: Vec<u64> = last.map(|&(number, _)| number).collect();
        works.sort_unstable();
        works.dedup();
        self.last.len() >= VARIED && works.len() > VARIED / 3
    }

    /// The seconds that trials may still lose.
    pub(super) fn left(&self) -> f64 {
        BUDGET * self.total - self.lost()
    }

    /// The seconds that trials have lost.
    pub fn lost(&self) -> f64 {
        self.lost + self.works.iter().map(|(_, work)| work.lost()).sum::<f64>()
    }

    /// The seconds of all runs.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// The expected rate of an area that was not tried, over the incumbent's.
    pub(super) fn unknown(&self) -> f64 {
        (UNKNOWN + self.tried.0) / (1.0 + self.tried.1)
    }

    /// The works, the one that the next run is expected to do first.
    pub fn works(&self) -> Vec<WorkSummary> {
        let present = self.expected_work();
        let mut works: Vec<&Work> = self.works.iter().map(|(_, work)| work).collect();
        works.sort_by_key(|work| present != Some(*work));
        works.into_iter().map(WorkSummary::of).collect()
    }
}
