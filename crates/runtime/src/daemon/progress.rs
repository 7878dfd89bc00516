//! What the progress of processes is measured by.

use pinfold_core::ProgressCode;
use pinfold_core::function::FoundFunction;
use std::collections::BTreeMap;

/// What the progress of a process is measured by.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgressBy {
    /// The bytes that it reads and writes.
    Bytes,
    /// The calls of this function.
    Function(FoundFunction),
    /// Nothing, now.
    Nothing {
        /// Why no function shows it; `None` if none was looked for.
        why: Option<String>,
    },
}

impl ProgressBy {
    /// The code in JSON and metrics.
    pub fn code(&self) -> ProgressCode {
        match self {
            Self::Bytes => ProgressCode::Bytes,
            Self::Function(_) => ProgressCode::Function,
            Self::Nothing { .. } => ProgressCode::Nothing,
        }
    }

    /// The unit of the progress: that of bytes, or of one function; `None` without progress.
    fn unit(&self) -> Option<String> {
        match self {
            Self::Bytes => Some(self.code().name().to_owned()),
            Self::Function(function) => Some(function.identity()),
            Self::Nothing { .. } => None,
        }
    }
}

/// A change of what the progress of a process is measured by.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProgressChange {
    pub(super) process: i32,
    /// Whether earlier progress of the process had another unit.
    pub(super) is_other_unit: bool,
    /// Whether the change is to be reported.
    pub(super) is_news: bool,
}

/// A process that is not listed for this number of intervals is forgotten: as in the comparison, a minute of the usual
/// interval.
const FORGOTTEN: u64 = 600;

#[derive(Clone, Debug, Default)]
struct Known {
    /// The unit of the last progress that was known.
    unit: Option<String>,
    /// The code that was reported, and the unit then.
    reported: Option<(ProgressCode, Option<String>)>,
    listed: u64,
}

/// What the progress of each process was measured by so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgressHistory {
    processes: BTreeMap<i32, Known>,
    intervals: u64,
}

impl ProgressHistory {
    /// The changes since the last interval. A process whose progress is unknown for some intervals is no news, unless a
    /// function was looked for.
    pub(super) fn changes(&mut self, now: &BTreeMap<i32, ProgressBy>) -> Vec<ProgressChange> {
        self.intervals += 1;
        let intervals = self.intervals;
        let mut changes = vec![];
        for (&process, by) in now {
            let known = self.processes.entry(process).or_default();
            known.listed = intervals;
            let unit = by.unit();
            let is_other_unit = unit.is_some() && known.unit.is_some() && unit != known.unit;
            known.unit = unit.clone().or(known.unit.take());
            let says_something = !matches!(by, ProgressBy::Nothing { why: None });
            let said = Some((by.code(), unit));
            let is_news = says_something && said != known.reported;
            if is_news {
                known.reported = said;
            }
            if is_other_unit || is_news {
                changes.push(ProgressChange {
                    process,
                    is_other_unit,
                    is_news,
                });
            }
        }
        self.processes.retain(|_, known| intervals - known.listed < FORGOTTEN);
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> ProgressBy {
        ProgressBy::Function(FoundFunction {
            name: name.to_owned(),
            file: "solver".to_owned(),
            calls_per_second: 100.0,
            threads: 2,
            spread: 0.1,
            cost: 0.001,
        })
    }

    fn nothing(why: Option<&str>) -> ProgressBy {
        let why = why.map(ToOwned::to_owned);
        ProgressBy::Nothing { why }
    }

    /// For each of these, whether the unit is another one, and whether it is news.
    fn changes(all: &[ProgressBy]) -> Vec<(bool, bool)> {
        let mut history = ProgressHistory::default();
        let changes = all.iter().map(|by| {
            let changes = history.changes(&BTreeMap::from([(7, by.clone())]));
            changes
                .first()
                .map_or((false, false), |one| (one.is_other_unit, one.is_news))
        });
        changes.collect()
    }

    #[test]
    fn calls_after_bytes_and_calls_of_another_function_have_another_unit() {
        let all = [ProgressBy::Bytes, function("step"), function("step"), function("sweep")];
        assert_eq!(
            changes(&all),
            [(false, true), (true, true), (false, false), (true, true)]
        );
    }

    #[test]
    fn the_unit_is_remembered_while_nothing_is_known() {
        let all = [
            ProgressBy::Bytes,
            nothing(None),
            ProgressBy::Bytes,
            nothing(None),
            function("step"),
        ];
        let expected = [
            (false, true),
            (false, false),
            (false, false),
            (false, false),
            (true, true),
        ];
        assert_eq!(changes(&all), expected);
    }

    #[test]
    fn a_search_without_a_result_is_reported_once() {
        let all = [
            nothing(None),
            nothing(Some("too hot")),
            nothing(Some("too seldom")),
            function("step"),
        ];
        assert_eq!(
            changes(&all),
            [(false, false), (false, true), (false, false), (false, true)]
        );
    }
}
