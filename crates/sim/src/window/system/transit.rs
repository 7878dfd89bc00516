//! Lines on their way between caches: cores that compete for a line get it one after the other.

use crate::window::time::Ticks;
use pinfold_core::random::Random;

/// Lines that are remembered as handed on. A line whose entry another line overwrites counts as arrived.
const TRANSIT: usize = 4096;

/// Lost lines that are remembered, per core.
const LOST: usize = 16;

/// Transfer latency varies uniformly by ±1/16: the distance to the cache slice that is the line's home, and the traffic on
/// the way, differ from line to line. Without the variation, two threads that compete for a line stay in step, and the
/// order in which they begin decides how much each of them gets done. Assumed; the results hardly depend on the value.
const SCATTER: Ticks = 16;

/// A core keeps a line that another core asks for until the request arrives. The request goes from the requester to the
/// line's home and on to the core; the line goes from the core to the requester. The request has a third of the transfer's
/// latency left when the line is due to leave. So a core that competes for a line does more than one access each time.
/// Assumed: the three parts take equally long, and the first has passed while the line was still on its way to the core.
const REQUEST_SHARE: Ticks = 3;

/// The transfers of lines between caches that have begun lately.
#[derive(Debug)]
pub(crate) struct Transit {
    /// By the low bits of the line's number: the line, and when its last transfer ends.
    transfers: Vec<(u32, Ticks)>,
    /// By active core and the low bits of the line's number: a line that the core lost, and until when it still has it.
    lost: Vec<(u32, Ticks)>,
    /// By how much latencies vary.
    random: Random,
}

impl Transit {
    /// No transfers yet, among as many cores.
    pub(super) fn new(cores: usize, seed: u64) -> Self {
        Self {
            transfers: vec![(0, 0); TRANSIT],
            lost: vec![(0, 0); cores * LOST],
            random: Random::new(seed),
        }
    }

    /// The time until a line arrives whose transfer takes `latency`. The transfer begins when the line's last one has ended.
    /// `loser` had the line for itself.
    #[inline]
    pub(super) fn hand_on(&mut self, line: u32, time: Ticks, latency: Ticks, loser: Option<usize>) -> Ticks {
        let latency = self.varied(latency);
        let begin = time.max(self.arrival(line));
        self.transfers[line as usize % TRANSIT] = (line, begin + latency);
        if let Some(loser) = loser {
            self.lost[loser * LOST + line as usize % LOST] = (line, begin + latency / REQUEST_SHARE);
        }
        begin + latency - time
    }

    /// A latency that is up to a `SCATTER`th shorter or longer.
    #[inline]
    fn varied(&mut self, latency: Ticks) -> Ticks {
        let most = latency / SCATTER;
        latency - most + self.random.next_bits() % (2 * most + 1)
    }

    /// When the last transfer of a line between caches ended, or will end; 0 where none is known of.
    #[inline]
    pub(crate) fn arrival(&self, line: u32) -> Ticks {
        let (last, until) = self.transfers[line as usize % TRANSIT];
        if last == line { until } else { 0 }
    }

    /// Whether a core that has lost a line does not know it yet.
    #[inline]
    pub(crate) fn still_has(&self, core: usize, line: u32, time: Ticks) -> bool {
        let (lost, until) = self.lost[core * LOST + line as usize % LOST];
        lost == line && time < until
    }
}
