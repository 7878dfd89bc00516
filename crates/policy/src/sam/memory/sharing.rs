//! The tasks with which a task shares data, and what was tried for them.

/// Traffic that has grown by this factor differs from the traffic at a move that did not help. Assumed.
const OTHERWISE: f64 = 2.0;

/// The tasks of other processes have left when at most this share of them remains. Assumed: one task that comes or goes
/// is not enough.
const GONE: f64 = 0.5;

/// After this number of intervals with traffic below the threshold, a task is in another phase, and after twice as many
/// for each time that it was restless. Fewer intervals show nothing: the tasks of a group that is gathered have little
/// traffic, and go back if they make less progress. Assumed: a second of the paper's 100 ms.
const PHASE: u64 = 10;

/// Moves for coherence that did not help.
#[derive(Clone, Copy, Debug)]
struct Failure {
    times: usize,
    /// The task's traffic between domains at the last time.
    inter: f64,
    /// The busy tasks of other processes at the last time.
    others: usize,
}

/// What is known of a task's sharing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sharing {
    /// The tasks with which it was seen to share data. `None` for all sharers of its process.
    group: Option<u32>,
    failed: Option<Failure>,
    /// The busy tasks of other processes.
    others: usize,
    /// Whether its traffic between domains was ever above the threshold.
    has_shared: bool,
    /// The number of intervals in a row with traffic below the threshold.
    quiet: u64,
}

impl Sharing {
    /// The tasks with which it was seen to share data.
    pub(super) fn group(&self) -> Option<u32> {
        self.group
    }

    /// It shares data with this group.
    pub(super) fn join(&mut self, group: u32) {
        self.group = Some(group);
    }

    /// Whether its traffic between domains was ever above the threshold.
    pub(super) fn has_shared(&self) -> bool {
        self.has_shared
    }

    /// Its traffic between domains is above the threshold.
    pub(super) fn note_shared(&mut self) {
        self.has_shared = true;
    }

    /// The number of methods that failed under conditions like today's: its traffic is not much higher, and the tasks
    /// of other processes have not left.
    pub(super) fn failures(&self, inter: f64) -> usize {
        self.failed.map_or(0, |failure| {
            let otherwise = inter > OTHERWISE * failure.inter;
            let gone = failure.others > 0 && self.others as f64 <= GONE * failure.others as f64;
            if otherwise || gone { 0 } else { failure.times }
        })
    }

    /// Another method has failed.
    pub(super) fn note_failure(&mut self, inter: f64) {
        self.failed = Some(Failure {
            times: self.failures(inter) + 1,
            inter,
            others: self.others,
        });
    }

    /// Records the number of busy tasks of other processes.
    pub(super) fn note_others(&mut self, others: usize) {
        self.others = others;
    }

    /// Records whether its traffic is below the threshold. After enough such intervals the task is in another phase.
    pub(super) fn note_quiet(&mut self, quiet: bool, strikes: u32) {
        self.quiet = if quiet { self.quiet + 1 } else { 0 };
        if self.quiet >= PHASE << strikes {
            self.failed = None;
        }
    }
}
