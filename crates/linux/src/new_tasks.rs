//! Finds the tasks that may have started since the last search.
//!
//! Listing all of `/proc` ten times a second would cost more than reading the tasks. But the kernel assigns numbers in
//! ascending order, and `loadavg` has the newest one. While that stays the same, no task has started. Otherwise only
//! the numbers after the previous one have to be tried. If that is not possible, all tasks are listed. The daemon also
//! lists them once a second, for two reasons: a process may change its name, user or control group, and a program may
//! choose a number (`clone3`).

use crate::procfs::Procfs;
use std::time::Duration;

/// If there are more new numbers than this, all tasks are listed.
const MOST_TRIED: i32 = 200;

/// The time between two lists of all tasks.
const LISTING: Duration = Duration::from_secs(1);

/// The numbers to search for new tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NewTasks {
    /// No number.
    None,
    /// Among these numbers.
    Among(std::ops::RangeInclusive<i32>),
    /// All tasks have to be listed.
    Anywhere,
}

/// The newest number, and the time of the last list of all tasks.
#[derive(Debug, Default)]
pub(crate) struct NewTaskSearch {
    newest: Option<i32>,
    listed: Option<Duration>,
}

impl NewTaskSearch {
    /// The numbers to search for tasks that started since the last call. Once a second, all tasks.
    pub(crate) fn since_last_search(&mut self, procfs: &Procfs, at: Duration) -> NewTasks {
        let new = self.since_last_number(procfs);
        if self.listed.is_none_or(|listed| at >= listed + LISTING) {
            self.listed = Some(at);
            return NewTasks::Anywhere;
        }
        new
    }

    /// The numbers to search for tasks that started since the last call.
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

    /// Makes the next call list all tasks.
    pub(crate) fn list_all(&mut self) {
        self.listed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SOON: Duration = Duration::from_millis(100);

    /// The results for these newest numbers in turn, a tenth of a second apart.
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
