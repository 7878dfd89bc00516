//! Which tasks work, and so have ranks.
//!
//! A runtime's management thread does no work and needs no PU: section 3 of autopin's paper leaves the management
//! thread of Intel's OpenMP to the scheduler. Such a helper is recognised by its processor time, not by its name:
//!
//! 1. At the beginning of a window, note the processor time of each living task.
//! 2. At its end, the shares of the tasks that existed for the whole window say whether they are helpers, together with
//!    what earlier windows have shown (`roles`).
//! 3. If even the busiest task hardly ran in a window, the window says nothing, and the set of working tasks stays as
//!    it was.
//!
//! Limits: a task that is younger than the window counts as working until a whole window shows otherwise. So does a
//! task whose processor time cannot be read.

use crate::program::roles::{Roles, Seen};
use pinfold_core::{Pinning, Sample, TaskId, TaskSample};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The program is idle when its busiest task has run for less than this share of the window.
const IDLE_SHARE: f64 = 0.01;

/// The tasks that the user leaves alone: by serial (the position in the order of creation, from 0) or by a pattern of
/// the thread's name. `*` stands for any text and `?` for any one character.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skip {
    serials: BTreeSet<u64>,
    patterns: Vec<String>,
}

/// Why a text names no tasks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{list}` does not say which threads to skip: {why}; write positions in the order of creation, names of threads, \
     or both, such as 1,omp-monitor* (the program's first thread is 0)"
)]
pub struct SkipError {
    /// The whole text.
    pub list: String,
    /// What is wrong with it.
    pub why: String,
}

impl std::str::FromStr for Skip {
    type Err = SkipError;

    /// Parses what `--skip` takes: serials and name patterns, separated by commas.
    fn from_str(list: &str) -> Result<Self, SkipError> {
        let mut skip = Self::default();
        for part in list.split(',').map(str::trim) {
            if part.is_empty() {
                return Err(SkipError {
                    list: list.to_owned(),
                    why: "a part of it is empty".to_owned(),
                });
            }
            if part.bytes().all(|byte| byte.is_ascii_digit()) {
                let serial = part.parse().map_err(|_| SkipError {
                    list: list.to_owned(),
                    why: format!("{part} is larger than any position can be"),
                })?;
                skip.serials.insert(serial);
            } else {
                skip.patterns.push(part.to_owned());
            }
        }
        Ok(skip)
    }
}

impl Skip {
    /// The named serials. A pattern has none before a task exists.
    pub fn serials(&self) -> &BTreeSet<u64> {
        &self.serials
    }

    fn matches(&self, task: &TaskSample) -> bool {
        self.serials.contains(&task.id.serial) || self.patterns.iter().any(|pattern| glob(pattern, &task.name))
    }
}

/// Whether `name` matches `pattern`. On a mismatch the last `*` takes one character more; earlier ones need not change.
fn glob(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at_pattern, mut at_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at_name < name.len() {
        match pattern.get(at_pattern) {
            Some('*') => {
                star = Some((at_pattern, at_name));
                at_pattern += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == name[at_name] => {
                at_pattern += 1;
                at_name += 1;
            }
            _ => {
                let Some((star_pattern, star_name)) = star else {
                    return false;
                };
                star = Some((star_pattern, star_name + 1));
                at_pattern = star_pattern + 1;
                at_name = star_name + 1;
            }
        }
    }
    pattern[at_pattern..].iter().all(|&rest| rest == '*')
}

/// The result of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The program hardly ran, so the window says nothing.
    Idle,
    /// The same tasks are helpers as before.
    Unchanged,
    /// Other tasks are helpers now.
    Changed,
}

/// The living tasks, and which of them are left alone.
#[derive(Debug, Default)]
pub(crate) struct WorkingTasks {
    skip: Skip,
    roles: Roles,
    helpers: BTreeSet<TaskId>,
    skipped: BTreeSet<TaskId>,
    working: BTreeSet<TaskId>,
    window_began: Duration,
    used_before: BTreeMap<TaskId, Duration>,
}

impl WorkingTasks {
    pub(crate) fn new(skip: Skip) -> Self {
        Self {
            skip,
            ..Self::default()
        }
    }

    /// Reads which tasks exist. Returns whether the working tasks have changed since the last sample.
    pub(crate) fn update(&mut self, sample: &Sample) -> bool {
        let skipped = sample.tasks.iter().filter(|task| self.skip.matches(task));
        self.skipped = skipped.map(|task| task.id).collect();
        let living = sample.tasks.iter().filter(|task| task.alive).map(|task| task.id);
        let working: BTreeSet<TaskId> = living.filter(|id| self.works(*id)).collect();
        let changed = working != self.working;
        self.working = working;
        changed
    }

    /// Begins a window at `sample`.
    pub(crate) fn begin_window(&mut self, sample: &Sample) {
        self.window_began = sample.at;
        self.used_before = sample
            .tasks
            .iter()
            .filter_map(|task| Some((task.id, task.cpu_time?)))
            .collect();
    }

    /// Ends the window at `sample`, which `update` has seen, and begins the next. `is_unpinned`: the operating system
    /// placed all tasks in this window.
    pub(crate) fn judge(&mut self, sample: &Sample, is_unpinned: bool) -> Judgement {
        let mut used: Vec<(TaskId, Duration, bool)> = vec![];
        for task in sample
            .tasks
            .iter()
            .filter(|task| task.alive && !self.skipped.contains(&task.id))
        {
            let Some(now) = task.cpu_time else { continue };
            let before = self.used_before.get(&task.id);
            used.push((
                task.id,
                now.saturating_sub(before.copied().unwrap_or_default()),
                before.is_some(),
            ));
        }
        let busiest = used.iter().map(|&(_, time, _)| time).max().unwrap_or_default();
        let lasted = sample.at.saturating_sub(self.window_began);
        self.begin_window(sample);
        if used.is_empty() {
            return Judgement::Unchanged;
        }
        if busiest < lasted.mul_f64(IDLE_SHARE) || busiest.is_zero() {
            return Judgement::Idle;
        }
        let window = Seen {
            lasted,
            busiest,
            is_unpinned,
        };
        for (id, time, _) in used.into_iter().filter(|&(_, _, all_along)| all_along) {
            self.roles.saw(id, time, window);
        }
        let living: BTreeSet<TaskId> = sample
            .tasks
            .iter()
            .filter(|task| task.alive)
            .map(|task| task.id)
            .collect();
        self.roles.retain(|id| living.contains(&id));
        let helpers = self.roles.helpers();
        if helpers == self.helpers {
            return Judgement::Unchanged;
        }
        self.helpers = helpers;
        self.update(sample);
        Judgement::Changed
    }

    /// The working tasks.
    pub(crate) fn working(&self) -> &BTreeSet<TaskId> {
        &self.working
    }

    /// The number of working tasks.
    pub(crate) fn number(&self) -> usize {
        self.working.len()
    }

    /// Whether this task works, and so has a rank.
    pub(crate) fn works(&self, id: TaskId) -> bool {
        !self.helpers.contains(&id) && !self.skipped.contains(&id)
    }

    /// The tasks of the first `threads` ranks, in their order.
    pub(crate) fn ranks<'s>(&'s self, sample: &'s Sample, threads: usize) -> impl Iterator<Item = &'s TaskSample> {
        let working = |task: &&TaskSample| task.alive && self.works(task.id);
        sample.tasks.iter().filter(working).take(threads)
    }

    /// The last PUs of the first `threads` ranks; `None` if one of them is not known.
    pub(crate) fn last_seen(&self, sample: &Sample, threads: usize) -> Option<Pinning> {
        let seen = self.ranks(sample, threads).map(|task| task.last_pu);
        Pinning::new(seen.collect::<Option<_>>()?)
    }

    /// The tasks that have no rank.
    pub(crate) fn left_alone(&self) -> BTreeSet<TaskId> {
        self.helpers.union(&self.skipped).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A sample at `at` seconds with these tasks: serial, and milliseconds of processor time, if it can be read.
    fn sample(at: u64, tasks: &[(u64, Option<u64>)]) -> Sample {
        Sample {
            at: Duration::from_secs(at),
            tasks: tasks
                .iter()
                .map(|&(serial, used)| TaskSample {
                    id: task(serial),
                    name: format!("thread-{serial}"),
                    alive: true,
                    cpu_time: used.map(Duration::from_millis),
                    run_delay: None,
                    last_pu: None,
                    counts: vec![],
                })
                .collect(),
            ..Sample::default()
        }
    }

    fn task(serial: u64) -> TaskId {
        TaskId {
            serial,
            process: 1,
            thread: 1,
        }
    }

    fn judged(working_tasks: &mut WorkingTasks, first: &Sample, last: &Sample) -> Judgement {
        working_tasks.update(first);
        working_tasks.begin_window(first);
        working_tasks.update(last);
        working_tasks.judge(last, true)
    }

    fn serials(working_tasks: &WorkingTasks) -> Vec<u64> {
        working_tasks.left_alone().iter().map(|id| id.serial).collect()
    }

    #[test]
    fn a_task_with_less_than_a_hundredth_of_the_busiest_ones_time_is_a_helper() {
        let mut working_tasks = WorkingTasks::default();
        let first = sample(0, &[(0, Some(0)), (1, Some(0)), (2, Some(0))]);
        let last = sample(10, &[(0, Some(10_000)), (1, Some(99)), (2, Some(101))]);
        assert_eq!(judged(&mut working_tasks, &first, &last), Judgement::Changed);
        assert_eq!(serials(&working_tasks), [1]);
        assert_eq!(working_tasks.number(), 2);
    }

    #[test]
    fn only_what_was_used_within_the_window_counts() {
        let mut working_tasks = WorkingTasks::default();
        let first = sample(10, &[(0, Some(9000)), (1, Some(5))]);
        let last = sample(20, &[(0, Some(9000)), (1, Some(9000))]);
        judged(&mut working_tasks, &first, &last);
        assert_eq!(serials(&working_tasks), [0]);
    }

    #[test]
    fn a_task_that_is_younger_than_the_window_works() {
        let mut working_tasks = WorkingTasks::default();
        let first = sample(0, &[(0, Some(0))]);
        let last = sample(10, &[(0, Some(9000)), (1, Some(0))]);
        assert_eq!(judged(&mut working_tasks, &first, &last), Judgement::Unchanged);
        assert_eq!(working_tasks.number(), 2);
    }

    #[test]
    fn an_idle_program_keeps_its_working_tasks() {
        let mut working_tasks = WorkingTasks::default();
        let first = sample(0, &[(0, Some(0)), (1, Some(0))]);
        let last = sample(10, &[(0, Some(90)), (1, Some(0))]);
        assert_eq!(judged(&mut working_tasks, &first, &last), Judgement::Idle);
        assert!(serials(&working_tasks).is_empty());
    }

    #[test]
    fn a_task_whose_time_cannot_be_read_works() {
        let mut working_tasks = WorkingTasks::default();
        let first = sample(0, &[(0, Some(0)), (1, None)]);
        let last = sample(10, &[(0, Some(9000)), (1, None)]);
        judged(&mut working_tasks, &first, &last);
        assert!(serials(&working_tasks).is_empty());
        let unreadable = sample(20, &[(0, None), (1, None)]);
        assert_eq!(working_tasks.judge(&unreadable, true), Judgement::Unchanged);
    }

    #[test]
    fn what_skip_does_not_understand_is_refused_with_an_example() {
        for list in ["", "1,,2", "99999999999999999999999"] {
            let error = list.parse::<Skip>().unwrap_err().to_string();
            assert!(error.contains("omp-monitor*"), "{error}");
        }
    }

    #[test]
    fn stars_and_question_marks_match_as_in_a_shell() {
        for (pattern, name, matches) in [
            ("omp*", "omp-monitor", true),
            ("*monitor", "omp-monitor", true),
            ("o?p*r", "omp-monitor", true),
            ("*a*b", "aabbc", false),
            ("*a*bc", "aabbc", true),
            ("?", "", false),
            ("*", "", true),
            ("omp", "omp-monitor", false),
        ] {
            assert_eq!(glob(pattern, name), matches, "{pattern} {name}");
        }
    }

    /// The definition, without regard to its cost.
    fn slow_glob(pattern: &[char], name: &[char]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((&'*', rest)), None) => slow_glob(rest, name),
            (Some((&'*', rest)), Some((_, name_rest))) => slow_glob(rest, name) || slow_glob(pattern, name_rest),
            (Some((wanted, rest)), Some((found, name_rest))) => {
                (*wanted == '?' || wanted == found) && slow_glob(rest, name_rest)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn patterns_match_as_their_definition_says(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            let characters = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(glob(&pattern, &name), slow_glob(&characters(&pattern), &characters(&name)));
        }
    }
}
