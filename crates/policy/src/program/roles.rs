//! Which tasks work, as a property of the program and not of one window.
//!
//! A task's share of the work depends on the placement of the program: under dynamic scheduling, a thread far from the
//! data takes few chunks. If each window alone decided which tasks work, each change of the placement would change the
//! ranks, and new ranks would change the placement. So a task has a role, which changes seldom:
//!
//! 1. A task's first window says whether it works: with at least `HELPER_SHARE` of the processor time of the busiest
//!    task.
//! 2. A worker becomes a helper when it had less than that share in each window for `IDLE`, and the program was
//!    unpinned for `IDLE_UNPINNED` of this time. So a worker that is idle in some placements only remains a worker.
//! 3. A helper becomes a worker when it had at least `WORKER_SHARE` over `SUSTAINED`.
//!
//! Limit: under a policy that keeps the program pinned, a worker that stops for good has its rank until it ends.

use pinfold_core::TaskId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A task with less than this share of the busiest task's processor time is a helper. Management threads wake a few
/// times a second for microseconds, which is below a thousandth. A worker with a hundredth of the busiest one's work
/// loses nothing if the scheduler places it.
const HELPER_SHARE: f64 = 0.01;

/// A helper needs this share to get a rank: a multiple of the share that a worker has at least, so that no task is near
/// both.
const WORKER_SHARE: f64 = 0.05;

/// A helper has to work for this long: as long as the default policy waits until another number of threads counts.
const SUSTAINED: Duration = Duration::from_secs(3);

/// A worker may sleep for this long: a pool of threads waits for requests, and a program for input.
const IDLE: Duration = Duration::from_secs(30);

/// The least unpinned time within `IDLE`: two of the shortest windows of the default policy, because the shortest
/// comparison with the unpinned program has two.
const IDLE_UNPINNED: Duration = Duration::from_millis(400);

#[derive(Clone, Copy, Debug)]
enum Role {
    /// The length of all windows since its last share of the work, and of the unpinned ones among them.
    Worker { idle: Duration, unpinned: Duration },
    /// The time that it and the busiest task have used since it was last judged, and how long ago that was.
    Helper {
        used: Duration,
        busiest: Duration,
        lasted: Duration,
    },
}

const WORKER: Role = Role::Worker {
    idle: Duration::ZERO,
    unpinned: Duration::ZERO,
};

const HELPER: Role = Role::Helper {
    used: Duration::ZERO,
    busiest: Duration::ZERO,
    lasted: Duration::ZERO,
};

/// A window during which the program ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Its length.
    pub(crate) lasted: Duration,
    /// The processor time of the busiest task.
    pub(crate) busiest: Duration,
    /// Whether the operating system placed all tasks.
    pub(crate) is_unpinned: bool,
}

impl Seen {
    fn has_share(&self, used: Duration) -> bool {
        used >= self.busiest.mul_f64(HELPER_SHARE)
    }
}

/// The roles of all tasks that were seen for a whole window.
#[derive(Debug, Default)]
pub(crate) struct Roles(BTreeMap<TaskId, Role>);

impl Roles {
    /// A task that existed for the whole window has used so much processor time in it.
    pub(crate) fn saw(&mut self, task: TaskId, used: Duration, window: Seen) {
        let has_share = window.has_share(used);
        let next = match self.0.get(&task) {
            None | Some(Role::Worker { .. }) if has_share => WORKER,
            None => HELPER,
            Some(&Role::Worker { idle, unpinned }) => {
                let idle = idle + window.lasted;
                let unpinned = unpinned
                    + if window.is_unpinned {
                        window.lasted
                    } else {
                        Duration::ZERO
                    };
                if idle >= IDLE && unpinned >= IDLE_UNPINNED {
                    HELPER
                } else {
                    Role::Worker { idle, unpinned }
                }
            }
            Some(&Role::Helper {
                used: before,
                busiest,
                lasted,
            }) => {
                let (used, busiest) = (before + used, busiest + window.busiest);
                let lasted = lasted + window.lasted;
                if lasted < SUSTAINED {
                    Role::Helper { used, busiest, lasted }
                } else if used >= busiest.mul_f64(WORKER_SHARE) {
                    WORKER
                } else {
                    HELPER
                }
            }
        };
        self.0.insert(task, next);
    }

    /// Forgets all tasks but these.
    pub(crate) fn retain(&mut self, living: impl Fn(TaskId) -> bool) {
        self.0.retain(|&task, _| living(task));
    }

    /// The tasks that do not work.
    pub(crate) fn helpers(&self) -> BTreeSet<TaskId> {
        let helpers = self.0.iter().filter(|(_, role)| matches!(role, Role::Helper { .. }));
        helpers.map(|(&task, _)| task).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: TaskId = TaskId {
        serial: 3,
        process: 1,
        thread: 1,
    };

    /// Whether the task is a helper after windows of a second with these shares of the busiest task's time, each with
    /// whether the program was unpinned.
    fn helps(windows: impl IntoIterator<Item = (f64, bool)>) -> bool {
        let mut roles = Roles::default();
        for (share, is_unpinned) in windows {
            let busiest = Duration::from_millis(900);
            let window = Seen {
                lasted: Duration::from_secs(1),
                busiest,
                is_unpinned,
            };
            roles.saw(TASK, busiest.mul_f64(share), window);
        }
        roles.helpers().contains(&TASK)
    }

    #[test]
    fn the_first_window_says_whether_a_task_works() {
        assert!(helps([(0.009, true)]));
        assert!(!helps([(0.011, true)]));
    }

    #[test]
    fn a_worker_that_a_placement_leaves_without_work_remains_a_worker() {
        let worked = [(0.9, true)];
        assert!(!helps(worked.into_iter().chain([(0.002, false); 600])));
        let turns = (0..600).map(|second| (if second % 20 == 0 { 0.5 } else { 0.002 }, second % 20 == 0));
        assert!(!helps(worked.into_iter().chain(turns)), "it works unpinned");
    }

    #[test]
    fn a_worker_that_is_idle_for_long_unpinned_too_becomes_a_helper() {
        let worked = [(0.9, true)];
        assert!(!helps(worked.into_iter().chain([(0.0, true); 29])));
        assert!(helps(worked.into_iter().chain([(0.0, true); 30])));
        assert!(helps(worked.into_iter().chain([(0.0, false); 29]).chain([(0.0, true)])));
    }

    #[test]
    fn a_helper_gets_a_rank_only_where_it_works_for_long() {
        let helped = [(0.0, true)];
        assert!(helps(helped.into_iter().chain([(0.9, true); 2])));
        assert!(!helps(helped.into_iter().chain([(0.9, true); 3])));
        assert!(helps(helped.into_iter().chain([(0.03, false); 600])));
    }

    #[test]
    fn a_share_around_the_limit_changes_no_role() {
        let around = (0..600).map(|second| (if second % 2 == 0 { 0.006 } else { 0.014 }, second % 3 == 0));
        assert!(!helps([(0.02, true)].into_iter().chain(around.clone())));
        assert!(helps([(0.004, true)].into_iter().chain(around)));
    }
}
