//! Lines that move between caches: cores that compete for a line get it one after the other.

use crate::window::time::Ticks;
use pinfold_core::random::Random;

/// The number of remembered transfers. A line counts as arrived when another line overwrites its entry.
const TRANSIT: usize = 4096;

/// The number of remembered lost lines, per core.
const LOST: usize = 16;

/// Transfer latency varies uniformly by ±1/16: the distance to the cache slice that is the line's home, and the traffic
/// on the route, differ from line to line. Without the variation, two threads that compete for a line stay in step, and
/// the order of their begins decides how much each of them gets done. Assumed; the results hardly depend on the value.
const VARIATION: Ticks = 16;

/// A core keeps a line that another core requests until the request arrives. The request goes from the requester to the
/// line's home and on to the core; the line goes from the core to the requester. The request has a third of the
/// transfer's latency left when the line is due to leave. So a core that competes for a line makes more than one access
/// each time. Assumed: the three parts take equally long, and the first has passed while the line was still on its way
/// to the core.
const REQUEST_SHARE: Ticks = 3;

/// Recent transfers of lines between caches.
#[derive(Debug)]
pub(crate) struct Transit {
    /// By the low bits of the line's number: the line, and the end of its last transfer.
    transfers: Vec<(u32, Ticks)>,
    /// By active core and the low bits of the line's number: a lost line, and the time until which the core still has
    /// it.
    lost: Vec<(u32, Ticks)>,
    /// The source of the latencies' variation.
    random: Random,
}

impl Transit {
    /// No transfers yet, among this number of cores.
    pub(super) fn new(cores: usize, seed: u64) -> Self {
        Self {
            transfers: vec![(0, 0); TRANSIT],
            lost: vec![(0, 0); cores * LOST],
            random: Random::new(seed),
        }
    }

    /// The time until a line arrives whose transfer takes `latency`. The transfer begins when the line's last one has
    /// ended. `previous_holder` is the core that held the line exclusively, if any.
    #[inline]
    pub(super) fn transfer(&mut self, line: u32, time: Ticks, latency: Ticks, previous_holder: Option<usize>) -> Ticks {
        let latency = self.varied(latency);
        let begin = time.max(self.arrival(line));
        self.transfers[line as usize % TRANSIT] = (line, begin + latency);
        if let Some(previous_holder) = previous_holder {
            self.lost[previous_holder * LOST + line as usize % LOST] = (line, begin + latency / REQUEST_SHARE);
        }
        begin + latency - time
    }

    /// A latency that is up to 1/`VARIATION` shorter or longer.
    #[inline]
    fn varied(&mut self, latency: Ticks) -> Ticks {
        let most = latency / VARIATION;
        latency - most + self.random.next_bits() % (2 * most + 1)
    }

    /// The end of the last transfer of a line between caches; 0 if none is known.
    #[inline]
    pub(crate) fn arrival(&self, line: u32) -> Ticks {
        let (last, until) = self.transfers[line as usize % TRANSIT];
        if last == line { until } else { 0 }
    }

    /// Whether a core still uses a line that it has already lost.
    #[inline]
    pub(crate) fn still_has(&self, core: usize, line: u32, time: Ticks) -> bool {
        let (lost, until) = self.lost[core * LOST + line as usize % LOST];
        lost == line && time < until
    }
}
