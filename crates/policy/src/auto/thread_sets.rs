//! The sets of working threads that the program had: the best placement of each, and how often a search may begin.
//!
//! A program whose threads come and go would be searched again with each change. So the best placement of a set of
//! threads is kept:
//!
//! - The same threads get it back without a search.
//! - Other threads of the same number get it, too. It is then compared with the unpinned program, because their data
//!   may be elsewhere.
//! - A new number of threads begins a search. At most `MOST_SEARCHES` begin in an hour.

use super::placement::Placement;
use crate::comparison::turns::Gain;
use pinfold_core::{CandidatesCode, ChoiceCode, Finding, NoteCode, ProposerCode, TaskId};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Another number of threads counts after this many windows, and after this time.
const OTHER_WINDOWS: u32 = 3;
const OTHER_FOR: Duration = Duration::from_secs(2);

/// The most searches that begin in an hour. Each may lose as much as trials may lose in a minute (`budget`), so all of
/// them stay within 1 % of the hour.
const MOST_SEARCHES: usize = 8;
const HOUR: Duration = Duration::from_secs(3600);

/// The most sets that are kept; the oldest one is dropped.
const MOST_SETS: usize = 16;

/// The best placement of a set of threads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) placement: Placement,
    pub(super) by: ProposerCode,
    /// The gain over the unpinned program; `None` for that program itself.
    pub(super) gain: Option<Gain>,
}

/// A choice that is given without a search.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Given {
    pub(super) kept: Kept,
    /// Whether it need not be compared with the unpinned program first.
    pub(super) is_confirmed: bool,
    /// The code of the list of candidates.
    pub(super) candidates: CandidatesCode,
    /// The code of the choice.
    pub(super) choice: ChoiceCode,
    pub(super) why: String,
}

impl Given {
    /// The best placement of these threads (`are_same`), or of as many others.
    pub(super) fn known(kept: Kept, are_same: bool) -> Self {
        let why = if are_same {
            "the threads that work now did so before, and it was best for them then"
        } else {
            "as many threads worked before, and it was best for them"
        };
        Self {
            kept,
            is_confirmed: are_same,
            candidates: CandidatesCode::KnownThreads,
            choice: ChoiceCode::KnownThreads,
            why: why.to_owned(),
        }
    }

    /// The placement until the next search may begin.
    pub(super) fn put_off(placement: Placement, why: String) -> Self {
        let kept = Kept {
            placement,
            by: ProposerCode::User,
            gain: None,
        };
        Self {
            kept,
            is_confirmed: true,
            candidates: CandidatesCode::SearchLimit,
            choice: ChoiceCode::SearchLimit,
            why,
        }
    }
}

/// All sets, the last one that was kept at the end.
#[derive(Debug, Default)]
pub(super) struct ThreadSets {
    kept: Vec<(BTreeSet<TaskId>, Kept)>,
    /// The windows in a row with another number of threads.
    other: u32,
    /// When the first of them ended.
    other_since: Duration,
    /// When the searches of the last hour began.
    searches: VecDeque<Duration>,
    /// Whether the working threads wait for a search.
    is_owed: bool,
}

impl ThreadSets {
    /// A window has ended. `is_other`: another number of threads works. Returns whether it counts.
    pub(super) fn stays_other(&mut self, is_other: bool, at: Duration) -> bool {
        if !is_other {
            self.other = 0;
            return false;
        }
        if self.other == 0 {
            self.other_since = at;
        }
        self.other += 1;
        let stays = self.other >= OTHER_WINDOWS && at.saturating_sub(self.other_since) >= OTHER_FOR;
        if stays {
            self.other = 0;
        }
        stays
    }

    /// Keeps the best placement of these threads, unless they wait for a search.
    pub(super) fn keep(&mut self, threads: &BTreeSet<TaskId>, best: Kept) {
        if self.is_owed {
            return;
        }
        self.kept.retain(|(known, _)| known != threads);
        if self.kept.len() == MOST_SETS {
            self.kept.remove(0);
        }
        self.kept.push((threads.clone(), best));
    }

    /// The best placement of these threads (`true`), or else of others of the same number (`false`).
    pub(super) fn recall(&self, threads: &BTreeSet<TaskId>) -> Option<(&Kept, bool)> {
        let same = self.kept.iter().find(|(known, _)| known == threads);
        let alike = || self.kept.iter().rfind(|(known, _)| known.len() == threads.len());
        let (known, kept) = same.or_else(alike)?;
        Some((kept, known == threads))
    }

    /// A search begins.
    pub(super) fn search_begins(&mut self, at: Duration) {
        self.is_owed = false;
        self.other = 0;
        self.searches.push_back(at);
        self.forget(at);
    }

    /// Whether another search may begin.
    pub(super) fn may_search(&mut self, at: Duration) -> bool {
        self.forget(at);
        self.searches.len() < MOST_SEARCHES
    }

    /// The working threads wait for a search, because too many have begun.
    pub(super) fn owe_search(&mut self) {
        self.is_owed = true;
    }

    /// The working threads need no search.
    pub(super) fn need_no_search(&mut self) {
        self.is_owed = false;
    }

    /// Whether the working threads wait for a search that may begin now.
    pub(super) fn is_search_due(&mut self, at: Duration) -> bool {
        self.is_owed && self.may_search(at)
    }

    fn forget(&mut self, at: Duration) {
        while self.searches.front().is_some_and(|&began| began + HOUR <= at) {
            self.searches.pop_front();
        }
    }
}

/// The finding that other threads have ranks: `before` and `after` are the tasks without one, `ranks` is the number of
/// ranks.
pub(super) fn ranks_changed(before: &BTreeSet<TaskId>, after: &BTreeSet<TaskId>, ranks: usize) -> Finding {
    let (more, fewer) = (before.difference(after).count(), after.difference(before).count());
    Finding::Note {
        code: NoteCode::Threads,
        text: format!(
            "{more} threads work that did not before, and {fewer} no longer do: {ranks} threads have ranks now."
        ),
    }
}

/// The reason why a search does not begin, as a sentence.
pub(super) fn too_many(what: &str) -> String {
    format!("{what}, and {MOST_SEARCHES} searches have begun within an hour, so another one begins later.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{Pinning, PuId};

    fn threads(serials: std::ops::Range<u64>) -> BTreeSet<TaskId> {
        let task = |serial| TaskId {
            serial,
            process: 1,
            thread: 1,
        };
        serials.map(task).collect()
    }

    fn on(pu: u32) -> Kept {
        Kept {
            placement: Placement::pinned(Pinning::new(vec![PuId(pu)]).unwrap()),
            by: ProposerCode::Topology,
            gain: None,
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn threads_that_come_back_get_what_was_best_for_them_and_others_of_the_number_what_was_best_last() {
        let mut sets = ThreadSets::default();
        sets.keep(&threads(0..4), on(1));
        sets.keep(&threads(4..8), on(2));
        assert_eq!(sets.recall(&threads(0..4)), Some((&on(1), true)));
        assert_eq!(sets.recall(&threads(8..12)), Some((&on(2), false)));
        assert_eq!(sets.recall(&threads(0..5)), None);
        sets.keep(&threads(0..4), on(3));
        assert_eq!(sets.recall(&threads(0..4)), Some((&on(3), true)));
    }

    #[test]
    fn the_oldest_set_is_forgotten() {
        let mut sets = ThreadSets::default();
        for number in 1..=MOST_SETS as u64 + 1 {
            sets.keep(&threads(0..number), on(0));
        }
        assert_eq!(sets.recall(&threads(0..1)), None);
        assert!(sets.recall(&threads(0..2)).is_some());
    }

    #[test]
    fn searches_within_an_hour_are_bounded_and_one_that_is_owed_becomes_due() {
        let mut sets = ThreadSets::default();
        for search in 0..MOST_SEARCHES as u64 {
            assert!(sets.may_search(seconds(search)));
            sets.search_begins(seconds(search));
        }
        assert!(!sets.may_search(seconds(3599)));
        sets.owe_search();
        sets.keep(&threads(0..4), on(1));
        assert_eq!(sets.recall(&threads(0..4)), None, "nothing was found for them");
        assert!(!sets.is_search_due(seconds(3599)));
        assert!(sets.is_search_due(seconds(3600)));
        sets.search_begins(seconds(3600));
        assert!(!sets.may_search(seconds(3600)));
    }

    #[test]
    fn another_number_counts_where_it_stays_for_three_windows_and_two_seconds() {
        let mut sets = ThreadSets::default();
        let stays = [(true, 1), (true, 2), (false, 3), (true, 4), (true, 5), (true, 6)];
        let stays = stays.map(|(other, at)| sets.stays_other(other, seconds(at)));
        assert_eq!(stays, [false, false, false, false, false, true]);
        let short = (0..10).map(|window| sets.stays_other(true, Duration::from_millis(200 * window)));
        assert_eq!(short.filter(|stays| *stays).count(), 0);
    }
}
