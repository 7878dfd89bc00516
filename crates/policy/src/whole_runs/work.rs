//! Runs that do the same work, and which placement is the fastest for it.
//!
//! 1. The best placement so far is the incumbent, at first the unpinned program. Any other placement is a challenger.
//!    One of them runs in turns with the incumbent: A B, B A, A B, … (`comparison::turns`). Other runs may lie between
//!    two turns, but the two runs of one turn follow each other.
//! 2. A challenger that is faster becomes the incumbent. One that is not faster is not tried again.
//! 3. The unpinned program challenges an area that is kept: after 16 runs in it, then after twice as many each time. An
//!    area whose gain is not confirmed is given up.

use super::Candidate;
use super::area::Area;
use super::times::{NEWEST, Times};
use crate::comparison::turns::{Gain, Noise, Turns, Verdict, Window};
use serde::{Deserialize, Serialize};

/// The unpinned runs before anything is tried. With fewer the noise is not known.
pub(super) const BASELINE: u32 = 5;

/// The fewest turns before a challenger is faster. Other load makes single runs slow, at times two in a row.
const FEWEST_TURNS: usize = 3;

/// The most turns of one comparison.
const MOST_TURNS: usize = 16;

/// The runs in an area before it is compared with the unpinned program again. The number doubles each time, this often
/// at most.
const CONFIRMED_AFTER: u32 = 16;
const MOST_DOUBLINGS: u32 = 5;

/// The runs in an area before it is compared again because its runs became slow.
const IN_DOUBT: u32 = 4;

/// An area with fewer PUs than this share of those that the program keeps busy is not tried: it is slower.
const SLOWEST: f64 = 0.82;

/// The level of the test is for this number of challengers together.
const CHALLENGERS: f64 = 6.0;

/// The fewest turns before a challenger is out for good. One that loses its first turn waits until the others have been
/// tried.
const FEWEST_LOST: usize = 2;

/// Times of runs are known exactly, unlike counts.
const EXACT: f64 = 1e9;

/// How a comparison with the incumbent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// More turns may tell.
    Open,
    /// It was faster, and became the incumbent.
    Faster,
    /// It was not faster.
    NotFaster,
    /// The noise is larger than the difference.
    NotKnown,
    /// It was not faster, and so slow that a run was unpinned before its end.
    Stopped,
}

/// A placement that runs in turns with the incumbent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Challenger {
    pub(super) area: Option<Area>,
    turns: Turns,
    /// Its run of a turn whose other run has yet to come.
    waiting: Option<Window>,
    /// The seconds that its runs took longer than the incumbent's; negative if they were faster.
    lost: f64,
    pub(super) gain: Option<Gain>,
    pub(super) state: State,
    /// Whether it lost its first turn, and others come before it.
    postponed: bool,
    /// Whether a run was unpinned before its end.
    stopped: bool,
}

impl Challenger {
    fn new(area: Option<Area>) -> Self {
        Self {
            area,
            turns: Turns::default(),
            waiting: None,
            lost: 0.0,
            gain: None,
            state: State::Open,
            postponed: false,
            stopped: false,
        }
    }

    pub(super) fn turns(&self) -> usize {
        self.turns.number()
    }

    /// Whether it has begun, and goes on.
    fn is_under_way(&self) -> bool {
        self.state == State::Open && !self.postponed && (self.turns.number() > 0 || self.waiting.is_some())
    }
}

/// The incumbent over the unpinned program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Confirmed {
    pub(super) gain: Gain,
    /// The number of turns.
    pub(super) turns: usize,
    /// How often the unpinned program has challenged it.
    times: u32,
}

/// What is due next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Due {
    /// The incumbent, because nothing is left to try.
    Incumbent,
    /// The incumbent's run of a turn with this challenger.
    Turn(Option<Area>),
    /// This challenger, whose run is expected to have this rate over the incumbent's.
    Challenger(Option<Area>, f64),
}

/// Runs that do the same work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Work {
    /// The expected CPU time and the number of runs that say so.
    cpu: f64,
    cpus: u32,
    times: Vec<(Option<Area>, Times)>,
    incumbent: Option<Area>,
    confirmed: Confirmed,
    /// The incumbent's runs since it was last compared with the unpinned program.
    runs: u32,
    challengers: Vec<Challenger>,
    noise: Noise,
    /// The incumbent's last run, if it belongs to no turn.
    latest: Option<Window>,
    /// The same, if its difference from the next one is not yet known as noise.
    alike: Option<Window>,
    /// The losses of comparisons that are over.
    lost: f64,
}

impl Work {
    /// The work of a run with this CPU time, as logarithm, as if it were unpinned.
    pub(super) fn new(cpu: f64) -> Self {
        Self {
            cpu,
            cpus: 0,
            times: vec![],
            incumbent: None,
            confirmed: Confirmed::default(),
            runs: 0,
            challengers: vec![],
            noise: Noise::default(),
            latest: None,
            alike: None,
            lost: 0.0,
        }
    }

    /// The CPU time of the next run, as logarithm, as if it were unpinned.
    pub(super) fn cpu(&self) -> f64 {
        self.cpu
    }

    /// The number of runs that this follows from.
    pub(super) fn known_by(&self) -> u32 {
        self.cpus
    }

    /// A run had this CPU time, as logarithm, as if it were unpinned.
    pub(super) fn learn_cpu(&mut self, cpu: f64) {
        self.cpus = self.cpus.saturating_add(1);
        self.cpu += NEWEST.max(1.0 / f64::from(self.cpus)) * (cpu - self.cpu);
    }

    /// The times in an area, or unpinned; `None` before the first run there.
    pub(super) fn times(&self, area: Option<Area>) -> Option<Times> {
        let known = self.times.iter().find(|(known, _)| *known == area);
        known.map(|&(_, times)| times)
    }

    /// All placements with their times.
    pub(super) fn placements(&self) -> impl Iterator<Item = (Option<Area>, Times)> + '_ {
        self.times.iter().copied()
    }

    /// The fastest placement so far.
    pub(super) fn incumbent(&self) -> Option<Area> {
        self.incumbent
    }

    pub(super) fn confirmed(&self) -> Confirmed {
        self.confirmed
    }

    pub(super) fn challenger(&self, area: Option<Area>) -> Option<&Challenger> {
        self.challengers.iter().find(|one| one.area == area)
    }

    /// The expected wall time of the incumbent; `None` before its first run.
    pub(super) fn expected(&self) -> Option<f64> {
        self.times(self.incumbent).map(Times::expected)
    }

    /// The standard deviation of the logarithm of one time over another; `None` before it is known.
    pub(super) fn noise(&self) -> Option<f64> {
        self.noise.deviation()
    }

    /// The number of unpinned runs.
    pub(super) fn baseline(&self) -> u32 {
        self.times(None).map_or(0, Times::runs)
    }

    /// The seconds that challengers have cost.
    pub(super) fn lost(&self) -> f64 {
        let open = self.challengers.iter().map(|one| one.lost.max(0.0));
        self.lost + open.sum::<f64>()
    }

    /// A run in `area`. `is_planned`: the run was expected to do this work. Another run is unpinned because of another
    /// work, and challenges no area. Returns its rate over the incumbent's if it was a challenger.
    pub(super) fn add(&mut self, area: Option<Area>, wall: f64, cpu: f64, is_planned: bool) -> Option<f64> {
        let expected = self.expected();
        let place = self.times.iter().position(|(known, _)| *known == area);
        let place = place.unwrap_or_else(|| {
            self.times.push((area, Times::default()));
            self.times.len() - 1
        });
        self.times[place].1.add(wall, cpu);
        let window = Window::new(Some(wall.recip()), EXACT)?;
        if area == self.incumbent {
            self.add_incumbent(window);
            return None;
        }
        if area.is_none() && !is_planned {
            return None;
        }
        let lost = expected.map_or(0.0, |expected| wall - expected);
        self.add_challenger(area, window, lost);
        expected.map(|expected| expected / wall)
    }

    fn add_incumbent(&mut self, window: Window) {
        self.runs = self.runs.saturating_add(1);
        let open = self.challengers.iter_mut().find(|one| one.waiting.is_some());
        if let Some(challenger) = open
            && let Some(other) = challenger.waiting.take()
        {
            challenger.turns.add(window, other);
            let area = challenger.area;
            (self.latest, self.alike) = (None, None);
            self.look(area);
            return;
        }
        self.alike = match self.alike.take() {
            Some(before) => {
                self.noise.learn_alike(&[before, window]);
                None
            }
            None => Some(window),
        };
        self.latest = Some(window);
    }

    fn add_challenger(&mut self, area: Option<Area>, window: Window, lost: f64) {
        let latest = self.latest.take();
        self.alike = None;
        let challenger = self.open(area);
        challenger.lost += lost;
        match latest.filter(|_| challenger.turns.number().is_multiple_of(2)) {
            Some(incumbent) => {
                challenger.turns.add(incumbent, window);
                self.look(area);
            }
            None => challenger.waiting = Some(window),
        }
    }

    /// The comparison with `area`, which begins if there is none.
    fn open(&mut self, area: Option<Area>) -> &mut Challenger {
        let place = self.challengers.iter().position(|one| one.area == area);
        let place = place.unwrap_or_else(|| {
            self.challengers.push(Challenger::new(area));
            self.challengers.len() - 1
        });
        &mut self.challengers[place]
    }

    /// A turn with the challenger `area` is complete.
    fn look(&mut self, area: Option<Area>) {
        let noise = self.noise;
        let challenger = self.open(area);
        let verdict = challenger.turns.look_among(&noise, CHALLENGERS);
        challenger.gain = challenger.turns.gain(&noise);
        let state = match verdict {
            Verdict::Faster if challenger.turns.number() < FEWEST_TURNS => return,
            Verdict::Faster => State::Faster,
            Verdict::NotFaster if area.is_some() && challenger.turns.number() < FEWEST_LOST => {
                challenger.postponed = true;
                return;
            }
            Verdict::NotFaster if challenger.stopped => State::Stopped,
            Verdict::NotFaster => State::NotFaster,
            Verdict::Open if challenger.turns.number() >= MOST_TURNS => State::NotKnown,
            Verdict::Open => return,
        };
        self.end(area, state);
    }

    /// A run of the challenger `area`, which was unpinned before its end because it took too long. In the area it would
    /// have taken longer than `wall`.
    pub(super) fn stop(&mut self, area: Option<Area>, wall: f64) {
        let lost = self.expected().map_or(0.0, |expected| wall - expected);
        self.open(area).stopped = true;
        if let Some(window) = Window::new(Some(wall.recip()), EXACT) {
            self.add_challenger(area, window, lost);
        }
    }

    /// The comparison with `area` is over.
    fn end(&mut self, area: Option<Area>, state: State) {
        let mut noise = self.noise;
        let challenger = self.open(area);
        challenger.turns.end(&mut noise);
        challenger.state = state;
        let (lost, gain, turns) = (challenger.lost.max(0.0), challenger.gain, challenger.turns.number());
        challenger.lost = 0.0;
        challenger.waiting = None;
        self.noise = noise;
        self.lost += lost;
        match (state, area) {
            (State::Faster, Some(_)) => {
                let over_incumbent = gain.unwrap_or_default();
                let over_unpinned = match self.incumbent {
                    Some(_) => self.confirmed.gain.and(over_incumbent),
                    None => over_incumbent,
                };
                self.confirmed = Confirmed {
                    gain: over_unpinned,
                    turns,
                    times: 0,
                };
                self.become_incumbent(area);
            }
            // The unpinned program has shown that it is not faster than the area.
            (State::NotFaster, None) => {
                self.confirmed = Confirmed {
                    gain: gain.map(Gain::inverse).unwrap_or_default(),
                    turns,
                    times: self.confirmed.times + 1,
                };
                self.runs = 0;
                self.challengers.retain(|one| one.area.is_some());
            }
            (_, None) => {
                let given_up = self.incumbent;
                self.become_incumbent(None);
                let inverse = gain.map(Gain::inverse);
                let challenger = self.open(given_up);
                (challenger.state, challenger.gain) = (State::NotFaster, inverse);
            }
            _ => {}
        }
    }

    /// Comparisons with another incumbent that have not ended begin again.
    fn become_incumbent(&mut self, area: Option<Area>) {
        self.incumbent = area;
        self.runs = 0;
        (self.latest, self.alike) = (None, None);
        let lost: f64 = self.challengers.iter().map(|one| one.lost.max(0.0)).sum();
        self.lost += lost;
        self.challengers
            .retain(|one| one.area.is_some() && one.state != State::Open);
    }

    /// What is due next, among these candidates. `unknown` is the expected rate of an area that was not tried, over the
    /// incumbent's.
    pub(super) fn due(&self, candidates: &[Candidate], unknown: f64) -> Due {
        let is_possible = |area: Option<Area>| area.is_none() || candidates.iter().any(|one| Some(one.area) == area);
        let open = self
            .challengers
            .iter()
            .find(|one| one.is_under_way() && is_possible(one.area));
        if let Some(open) = open {
            return self.due_with(open.area, candidates, unknown);
        }
        let doublings = self.confirmed.times.min(MOST_DOUBLINGS);
        let is_due = self.runs >= CONFIRMED_AFTER << doublings || self.is_in_doubt();
        if self.incumbent.is_some() && is_due {
            return self.due_with(None, candidates, unknown);
        }
        let width = self.width();
        let next = candidates
            .iter()
            .filter(|one| one.size as f64 >= SLOWEST * width && Some(one.area) != self.incumbent)
            .map(|one| Some(one.area))
            .filter(|&area| self.challenger(area).is_none_or(|one| one.state == State::Open))
            .min_by_key(|&area| self.challenger(area).is_some_and(|one| one.postponed));
        next.map_or(Due::Incumbent, |area| self.due_with(area, candidates, unknown))
    }

    /// What is due next in the comparison with `area`: the even turns begin with the incumbent.
    fn due_with(&self, area: Option<Area>, candidates: &[Candidate], unknown: f64) -> Due {
        let known = self.challenger(area);
        let (waits, turns) = known.map_or((false, 0), |one| (one.waiting.is_some(), one.turns()));
        if waits || (turns.is_multiple_of(2) && self.latest.is_none()) {
            return Due::Turn(area);
        }
        let size = candidates.iter().find(|one| Some(one.area) == area).map(|one| one.size);
        Due::Challenger(area, self.rate(area, size, unknown))
    }

    /// Whether runs in the incumbent took longer of late than unpinned ones.
    fn is_in_doubt(&self) -> bool {
        let both = self.expected().zip(self.times(None));
        self.runs >= IN_DOUBT && both.is_some_and(|(expected, unpinned)| expected > unpinned.expected())
    }

    /// The mean number of busy PUs of the unpinned program.
    pub(super) fn width(&self) -> f64 {
        self.times(None).map_or(0.0, Times::width)
    }

    /// The expected rate of a challenger over the incumbent's. An area of `size` PUs cannot do more work than its PUs.
    fn rate(&self, area: Option<Area>, size: Option<usize>, unknown: f64) -> f64 {
        let measured = self.expected().zip(self.times(area));
        let rate = match measured {
            None => unknown,
            Some((expected, times)) => {
                let (runs, rate) = (f64::from(times.runs()), expected / times.expected());
                // The unpinned program is known by many runs.
                let doubt = if area.is_none() { 0.0 } else { 1.0 };
                (doubt * unknown + runs * rate) / (doubt + runs)
            }
        };
        size.map_or(rate, |size| rate.min(size as f64 / self.width().max(1e-9)))
    }
}
