//! Which tasks may have been born since the last look.
//!
//! To list all of `/proc` ten times a second would cost more than reading the tasks. But the kernel gives out numbers in
//! ascending order, and tells the newest one in `loadavg`: while that stays, nothing was born; otherwise only the numbers
//! after the one before need be tried. All are listed where that is not possible, and once in a while: a process changes its
//! name, its user or its control group, and a number can be chosen (`clone3`).

use crate::procfs::Procfs;
use std::time::Duration;

/// More new numbers than this are not tried one by one.
const MOST_TRIED: i32 = 200;

/// How often all are listed.
const LISTING: Duration = Duration::from_secs(1);

/// Where new tasks are to be looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NewTasks {
    /// Nowhere.
    None,
    /// Among these numbers.
    Among(std::ops::RangeInclusive<i32>),
    /// Everywhere.
    Anywhere,
}

/// What was the newest number, and when all were listed.
#[derive(Debug, Default)]
pub(super) struct NewTaskSearch {
    newest: Option<i32>,
    listed: Option<Duration>,
}

impl NewTaskSearch {
    /// Where those are that were born since this was asked before.
    pub(super) fn since_last_search(&mut self, procfs: &Procfs, at: Duration) -> NewTasks {
        let newest = procfs.newest();
        let before = std::mem::replace(&mut self.newest, newest);
        if self.listed.is_none_or(|listed| at >= listed + LISTING) {
            self.listed = Some(at);
            return NewTasks::Anywhere;
        }
        match (before, newest) {
            (Some(before), Some(newest)) if before == newest => NewTasks::None,
            (Some(before), Some(newest)) if before < newest && newest - before <= MOST_TRIED => {
                NewTasks::Among(before + 1..=newest)
            }
            _ => NewTasks::Anywhere,
        }
    }

    /// All are listed the next time.
    pub(super) fn list_all(&mut self) {
        self.listed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SOON: Duration = Duration::from_millis(100);

    /// What is said when the newest numbers are these, one after the other, a tenth of a second apart.
    fn said(newest: &[i32]) -> Vec<NewTasks> {
        let root = tempfile::tempdir().unwrap();
        let mut births = NewTaskSearch::default();
        let steps = (0..).zip(newest).map(|(step, newest)| {
            fs::write(root.path().join("loadavg"), format!("0.00 0.01 0.05 1/100 {newest}\n")).unwrap();
            births.since_last_search(&Procfs::new(root.path()), SOON * step)
        });
        steps.collect()
    }

    #[test]
    fn where_nothing_was_born_nothing_is_looked_at() {
        assert_eq!(
            said(&[50, 50, 50]),
            [NewTasks::Anywhere, NewTasks::None, NewTasks::None]
        );
    }

    #[test]
    fn a_few_births_are_looked_for_by_their_numbers() {
        assert_eq!(said(&[50, 53])[1], NewTasks::Among(51..=53));
    }

    #[test]
    fn many_births_and_numbers_that_begin_again_need_a_list() {
        assert_eq!(said(&[50, 5000])[1], NewTasks::Anywhere);
        assert_eq!(said(&[50, 5])[1], NewTasks::Anywhere);
    }

    #[test]
    fn all_are_listed_once_a_second() {
        let said = said(&[50; 12]);
        let listed: Vec<usize> = (0..12).filter(|&step| said[step] == NewTasks::Anywhere).collect();
        assert_eq!(listed, [0, 10]);
    }

    #[test]
    fn without_a_newest_number_all_are_listed() {
        let mut births = NewTaskSearch::default();
        let nowhere = Procfs::new("/nowhere");
        births.since_last_search(&nowhere, Duration::ZERO);
        assert_eq!(births.since_last_search(&nowhere, SOON), NewTasks::Anywhere);
    }
}
