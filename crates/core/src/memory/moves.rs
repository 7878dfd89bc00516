//! The result of moving pages: how many moved, how many did not, and why.

use crate::code::codes;
use crate::{BrokenOffCode, NodeId, Reason, size_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A number of pages and their bytes; a huge page is one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCount {
    /// Pages.
    pub pages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl PageCount {
    /// Adds one page with this many bytes.
    pub fn add(&mut self, bytes: u64) {
        self.add_all(Self { pages: 1, bytes });
    }

    /// Adds pages.
    pub fn add_all(&mut self, more: Self) {
        self.pages += more.pages;
        self.bytes += more.bytes;
    }
}

impl fmt::Display for PageCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.pages == 1 { "" } else { "s" };
        write!(f, "{} page{plural} ({})", self.pages, size_text(self.bytes))
    }
}

/// Why a page stayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// `EACCES`: another process has it mapped, too.
    Shared,
    /// `EBUSY`: the kernel could not take it out of use, for input or output or another migration.
    Busy,
    /// `ENOENT`: it is not in memory any more.
    Absent,
    /// `EFAULT`: the zero page, which backs memory that was read and never written, or memory that was unmapped.
    Zero,
    /// `ENOMEM`: this node is full.
    Full(NodeId),
    /// The kernel tried, and the page was in use at that moment; `move_pages(2)` reports no error number for it.
    InUse,
    /// `EPERM`: no permission.
    Forbidden,
    /// `EACCES` of the whole call: the program's cpuset does not allow this node's memory.
    NodeForbidden(NodeId),
    /// It is a file's.
    File,
    /// The program has given this memory its own memory policy.
    OwnPolicy,
    /// The migration ended early, before it reached the page.
    Unfinished,
    /// Another error number.
    Error(i32),
}

codes! {
    /// `Left` in JSON, without the node and the error number, which have keys of their own.
    pub enum LeftCode for "page_moves.left.why" {
        /// `Left::Shared`.
        Shared = "shared",
        /// `Left::Busy`.
        Busy = "busy",
        /// `Left::Absent`.
        Absent = "absent",
        /// `Left::Zero`.
        Zero = "zero",
        /// `Left::Full`.
        Full = "full",
        /// `Left::NodeForbidden`.
        NodeForbidden = "node_forbidden",
        /// `Left::Forbidden`.
        Forbidden = "forbidden",
        /// `Left::InUse`.
        InUse = "in_use",
        /// `Left::File`.
        File = "file",
        /// `Left::OwnPolicy`.
        OwnPolicy = "own_policy",
        /// `Left::Unfinished`.
        Unfinished = "unfinished",
        /// `Left::Error`.
        Error = "error",
    }
}

impl Left {
    /// The code in JSON.
    fn code(self) -> LeftCode {
        match self {
            Self::Shared => LeftCode::Shared,
            Self::Busy => LeftCode::Busy,
            Self::Absent => LeftCode::Absent,
            Self::Zero => LeftCode::Zero,
            Self::Full(_) => LeftCode::Full,
            Self::InUse => LeftCode::InUse,
            Self::Forbidden => LeftCode::Forbidden,
            Self::NodeForbidden(_) => LeftCode::NodeForbidden,
            Self::File => LeftCode::File,
            Self::OwnPolicy => LeftCode::OwnPolicy,
            Self::Unfinished => LeftCode::Unfinished,
            Self::Error(_) => LeftCode::Error,
        }
    }

    /// The kernel's name of the error; `None` if the kernel reported none.
    pub fn errno(self) -> Option<String> {
        let name = match self {
            Self::Shared | Self::NodeForbidden(_) => "EACCES",
            Self::Busy => "EBUSY",
            Self::Absent => "ENOENT",
            Self::Zero => "EFAULT",
            Self::Full(_) => "ENOMEM",
            Self::Forbidden => "EPERM",
            Self::Error(number) => return Some(format!("error {number}")),
            Self::InUse | Self::File | Self::OwnPolicy | Self::Unfinished => return None,
        };
        Some(name.to_owned())
    }
}

/// The end of the sentence "N pages stayed where they were: …".
impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => f.write_str("other processes have mapped them as well; --migrate-shared moves them"),
            Self::Busy => f.write_str("the kernel could not take them out of use"),
            Self::Absent => f.write_str("they are not in memory any more"),
            Self::Zero => f.write_str("they were never written, or are gone"),
            Self::Full(node) => write!(f, "NUMA node {node} is full"),
            Self::InUse => f.write_str("they were in use when the kernel wanted to move them"),
            Self::Forbidden => f.write_str("pinfold has no permission to move them"),
            Self::NodeForbidden(node) => {
                write!(f, "the program's cpuset does not allow the memory of NUMA node {node}")
            }
            Self::File => f.write_str("they are files' pages; --migrate-files moves them"),
            Self::OwnPolicy => {
                f.write_str("the program has given them its own memory policy; --override moves them too")
            }
            Self::Unfinished => f.write_str("the migration ended early"),
            Self::Error(number) => write!(f, "the kernel gave error number {number}"),
        }
    }
}

/// The result of moving the pages of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "PageMovesRecord", try_from = "PageMovesRecord")]
pub struct PageMoves {
    /// The goal: a page mapping, or `after their threads`.
    pub goal: String,
    /// The number of processes whose pages were read.
    pub processes: usize,
    /// Pages that were moved to their goal.
    pub moved: PageCount,
    /// Pages that were there already.
    pub in_place: PageCount,
    /// Pages that are not there, by reason.
    pub left: BTreeMap<Left, PageCount>,
    /// The duration, including the pauses for `--migrate-rate`.
    pub lasted: Duration,
    /// Why the migration ended early, if it did.
    pub broken_off: Option<Reason<BrokenOffCode>>,
}

impl PageMoves {
    /// The goal of pages that follow threads.
    pub const AFTER_THREADS: &str = "after their threads";

    /// The goal of pages that something has moved.
    pub const BACK: &str = "back to where they were";

    /// No pages so far, for `goal`.
    pub fn towards(goal: impl Into<String>) -> Self {
        Self {
            goal: goal.into(),
            ..Self::default()
        }
    }

    /// Counts a page of this many bytes that stays.
    pub fn leave(&mut self, why: Left, bytes: u64) {
        self.left.entry(why).or_default().add(bytes);
    }

    /// The rate in bytes per second; `None` if nothing was moved.
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.lasted.as_secs_f64();
        (self.moved.bytes > 0 && seconds > 0.0).then(|| self.moved.bytes as f64 / seconds)
    }

    /// Whether there is anything to report: a page that moved, or one that should have and did not.
    pub fn is_worth_telling(&self) -> bool {
        let expected = |left: &Left| matches!(left, Left::File | Left::OwnPolicy | Left::Absent | Left::Zero);
        self.moved.pages > 0 || self.broken_off.is_some() || self.left.keys().any(|left| !expected(left))
    }
}

/// Lines for people, without a line feed at the end.
impl fmt::Display for PageMoves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pages ({}): ", self.goal)?;
        if self.moved.pages > 0 {
            write!(f, "{} moved in {:.3} s", self.moved, self.lasted.as_secs_f64())?;
        } else {
            f.write_str("none moved")?;
        }
        if self.in_place.pages > 0 {
            write!(f, ", {} there already", self.in_place)?;
        }
        for (left, count) in &self.left {
            let errno = left.errno().map_or_else(String::new, |errno| format!(" ({errno})"));
            write!(f, "\n  {count} stayed: {left}{errno}")?;
        }
        if let Some(broken_off) = &self.broken_off {
            write!(f, "\n  broken off: {}", broken_off.why)?;
        }
        Ok(())
    }
}

/// The JSON form (docs/formats/run.md). Times are in seconds.
#[derive(Serialize, Deserialize)]
struct PageMovesRecord {
    goal: String,
    #[serde(default)]
    processes: usize,
    moved: PageCount,
    in_place: PageCount,
    #[serde(default)]
    left: Vec<LeftRecord>,
    #[serde(default)]
    lasted: f64,
    broken_off: Option<Reason<BrokenOffCode>>,
}

/// One reason in JSON.
#[derive(Serialize, Deserialize)]
struct LeftRecord {
    why: LeftCode,
    errno: Option<String>,
    node: Option<NodeId>,
    #[serde(flatten)]
    count: PageCount,
    text: String,
}

impl From<PageMoves> for PageMovesRecord {
    fn from(moves: PageMoves) -> Self {
        let left = moves.left.iter().map(|(left, &count)| LeftRecord {
            why: left.code(),
            errno: left.errno(),
            node: match left {
                Left::Full(node) | Left::NodeForbidden(node) => Some(*node),
                _ => None,
            },
            count,
            text: left.to_string(),
        });
        Self {
            left: left.collect(),
            processes: moves.processes,
            moved: moves.moved,
            in_place: moves.in_place,
            lasted: moves.lasted.as_secs_f64(),
            goal: moves.goal,
            broken_off: moves.broken_off,
        }
    }
}

impl TryFrom<PageMovesRecord> for PageMoves {
    type Error = String;

    fn try_from(record: PageMovesRecord) -> Result<Self, String> {
        let mut left = BTreeMap::new();
        for one in &record.left {
            left.insert(one.left()?, one.count);
        }
        Ok(Self {
            goal: record.goal,
            processes: record.processes,
            moved: record.moved,
            in_place: record.in_place,
            left,
            lasted: Duration::try_from_secs_f64(record.lasted).map_err(|error| format!("`lasted`: {error}"))?,
            broken_off: record.broken_off,
        })
    }
}

impl LeftRecord {
    /// The reason of this JSON form.
    fn left(&self) -> Result<Left, String> {
        let node = || {
            self.node
                .ok_or_else(|| format!("`{}` lacks its `node`", self.why.name()))
        };
        Ok(match self.why {
            LeftCode::Shared => Left::Shared,
            LeftCode::Busy => Left::Busy,
            LeftCode::Absent => Left::Absent,
            LeftCode::Zero => Left::Zero,
            LeftCode::Full => Left::Full(node()?),
            LeftCode::InUse => Left::InUse,
            LeftCode::Forbidden => Left::Forbidden,
            LeftCode::NodeForbidden => Left::NodeForbidden(node()?),
            LeftCode::File => Left::File,
            LeftCode::OwnPolicy => Left::OwnPolicy,
            LeftCode::Unfinished => Left::Unfinished,
            LeftCode::Error => {
                let number = self.errno.as_deref().and_then(|errno| errno.strip_prefix("error "));
                let number = number.and_then(|number| number.parse().ok());
                Left::Error(number.ok_or("`error` lacks its number in `errno`")?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves() -> PageMoves {
        let mut moves = PageMoves::towards("local");
        moves.moved.add_all(PageCount {
            pages: 512,
            bytes: 2 << 20,
        });
        moves.leave(Left::Shared, 4096);
        moves.leave(Left::Full(NodeId(2)), 4096);
        moves.leave(Left::Full(NodeId(2)), 4096);
        moves.lasted = Duration::from_millis(500);
        moves
    }

    #[test]
    fn a_person_reads_what_moved_and_why_the_rest_did_not() {
        let text = moves().to_string();
        for part in [
            "pages (local): 512 pages (2 MiB) moved in 0.500 s",
            "1 page (4 KiB) stayed: other processes",
            "(EACCES)",
            "2 pages (8 KiB) stayed: NUMA node 2 is full (ENOMEM)",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn nothing_is_said_of_zero_pages() {
        assert!(!moves().to_string().contains("there already"));
        let mut moves = PageMoves::towards("interleave");
        assert_eq!(moves.to_string(), "pages (interleave): none moved");
        moves.in_place.add(4096);
        let text = "pages (interleave): none moved, 1 page (4 KiB) there already";
        assert_eq!(moves.to_string(), text);
    }

    #[test]
    fn json_has_each_reason_with_its_error_number() {
        let json = serde_json::to_value(moves()).unwrap();
        assert_eq!(json["moved"]["pages"], 512);
        assert_eq!(json["left"][1]["errno"], "ENOMEM");
        assert_eq!(json["left"][1]["node"], 2);
        assert_eq!(json["left"][1]["pages"], 2);
        assert_eq!(json["broken_off"], serde_json::Value::Null);
    }

    #[test]
    fn the_rate_of_nothing_is_not_known() {
        assert_eq!(moves().rate(), Some(4.0 * 1024.0 * 1024.0));
        assert_eq!(PageMoves::towards("local").rate(), None);
    }

    #[test]
    fn a_move_of_pages_that_never_move_is_not_reported() {
        let mut moves = PageMoves::towards("local");
        moves.leave(Left::File, 4096);
        assert!(!moves.is_worth_telling());
        moves.leave(Left::Busy, 4096);
        assert!(moves.is_worth_telling());
    }

    #[test]
    fn every_reason_is_read_back_as_it_was_written() {
        let node = NodeId(3);
        let mut written = moves();
        for left in [
            Left::Shared,
            Left::Busy,
            Left::Absent,
            Left::Zero,
            Left::Full(node),
            Left::InUse,
            Left::Forbidden,
            Left::NodeForbidden(node),
            Left::File,
            Left::OwnPolicy,
            Left::Unfinished,
            Left::Error(-95),
        ] {
            written.leave(left, 4096);
        }
        let text = serde_json::to_string(&written).unwrap();
        assert_eq!(serde_json::from_str::<PageMoves>(&text).unwrap(), written);
        let unknown = text.replace("own_policy", "whim");
        assert!(serde_json::from_str::<PageMoves>(&unknown).is_err());
    }
}
