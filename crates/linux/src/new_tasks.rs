//! Which tasks may have begun since the last look.
//!
//! Listing all of `/proc` ten times a second would cost more than reading the tasks. But the kernel gives out numbers
//! in ascending order, and the newest one is in `loadavg`. While that stays the same, no task has begun; otherwise only
//! the numbers after the previous one have to be tried. All tasks are listed where that is not possible. The daemon also
//! lists them once a second, for two reasons: a process may change its name, user or control group, and a program may
//! choose a number (`clone3`).

use crate::procfs::Procfs;
use std::time::Duration;

/// With more new numbers than this, all tasks are listed.
const MOST_TRIED: i32 = 200;

/// The time between two lists of all tasks.
const LISTING: Duration = Duration::from_secs(1);

/// Where to look for new tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NewTasks {
    /// Nowhere.
    None,
    /// Among these numbers.
    Among(std::ops::RangeInclusive<i32>),
    /// Everywhere.
    Anywhere,
}

/// The newest number, and when all tasks were listed last.
#[derive(Debug, Default)]
pub(crate) struct NewTaskSearch {
    newest: Option<i32>,
    listed: Option<Duration>,
}

impl NewTaskSearch {
    /// Where tasks may be that began since the last call, or any task once a second.
    pub(crate) fn since_last_search(&mut self, procfs: &Procfs, at: Duration) -> NewTasks {
        let new = self.since_last_number(procfs);
        if self.listed.is_none_or(|listed| at >= listed + LISTING) {
            self.listed = Some(at);
            return NewTasks::Anywhere;
        }
        new
    }

    /// Where tasks may be that began since the last call.
    pub(crate) fn since_last_number(&mut self, procfs: &Procfs) -> NewTasks {
        let newest = procfs.newest();
        let before = std::mem::replace(&mut self.newest, newest);
        match (before, newest) {
            (Some(before), Some(newest)) if before == newest => NewTasks::None,
            (Some(before), Some(newest)) if before < newest && newest - before <= MOST_TRIED => {
                NewTasks::Among(before + 1..=newest)
            }
            _ => NewTasks::Anywhere,
        }
    }

    /// All tasks are listed at the next call.
    pub(crate) fn list_all(&mut self) {
        self.listed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SOON: Duration = Duration::from_millis(100);

    /// The results for these newest numbers, one after the other, a tenth of a second apart.
    fn searches(newest: &[i32]) -> Vec<NewTasks> {
        let root = tempfile::tempdir().unwrap();
        let mut search = NewTaskSearch::default();
        let steps = (0..).zip(newest).map(|(step, newest)| {
            fs::write(root.path().join("loadavg"), format!("0.00 0.01 0.05 1/100 {newest}\n")).unwrap();
            search.since_last_search(&Procfs::new(root.path()), SOON * step)
        });
        steps.collect()
    }

    #[test]
    fn without_new_tasks_no_number_is_tried() {
        assert_eq!(
            searches(&[50, 50, 50]),
            [NewTasks::Anywhere, NewTasks::None, NewTasks::None]
        );
    }

    #[test]
    fn a_few_new_tasks_are_looked_for_by_their_numbers() {
        assert_eq!(searches(&[50, 53])[1], NewTasks::Among(51..=53));
    }

    #[test]
    fn many_new_tasks_and_numbers_that_begin_again_need_a_list() {
        assert_eq!(searches(&[50, 5000])[1], NewTasks::Anywhere);
        assert_eq!(searches(&[50, 5])[1], NewTasks::Anywhere);
    }

    #[test]
    fn all_are_listed_once_a_second() {
        let found = searches(&[50; 12]);
        let listed: Vec<usize> = (0..12).filter(|&step| found[step] == NewTasks::Anywhere).collect();
        assert_eq!(listed, [0, 10]);
    }

    #[test]
    fn without_a_newest_number_all_are_listed() {
        let mut search = NewTaskSearch::default();
        let nowhere = Procfs::new("/nowhere");
        search.since_last_search(&nowhere, Duration::ZERO);
        assert_eq!(search.since_last_search(&nowhere, SOON), NewTasks::Anywhere);
    }
}
