//! The form of a message: each line begins with pinfold's name, in a job of several ranks also with the rank, and has
//! at most 100 columns. Text of others in it is cleaned (`pinfold_core::text`).

use pinfold_core::digits::decimal;
use pinfold_core::text::clean;
use std::env;
use std::sync::OnceLock;

/// The columns of a line. A word that is longer stays whole, unless it is a list with commas.
pub(crate) const WIDTH: usize = 100;

/// How much further a continued line is indented than its beginning.
const CONTINUED: usize = 4;

/// A table's second column, below which its rows continue, begins before this one.
const SECOND_COLUMN: usize = 24;

/// The variables by which launchers name the rank of a process and the number of ranks; `PMIx` has none for the number.
/// The script of a Slurm job has a rank and no number, because it is no rank.
const LAUNCHERS: [(&str, Option<&str>); 4] = [
    ("OMPI_COMM_WORLD_RANK", Some("OMPI_COMM_WORLD_SIZE")),
    ("PMI_RANK", Some("PMI_SIZE")),
    ("SLURM_PROCID", Some("SLURM_STEP_NUM_TASKS")),
    ("PMIX_RANK", None),
];

/// The name before a line: `pinfold: `, or `pinfold[rank 3]: `.
pub(crate) fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| match own_rank() {
        Some(rank) => format!("pinfold[rank {rank}]: "),
        None => NAME_ALONE.to_owned(),
    })
}

/// The name before a line that says itself which rank it is about.
pub(crate) const NAME_ALONE: &str = "pinfold: ";

/// This process's rank in a job of several ranks.
pub(crate) fn own_rank() -> Option<u32> {
    rank(|name| env::var(name).ok())
}

fn rank(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let number = |name: &str| decimal::<u32>(&variable(name)?);
    let found = LAUNCHERS.iter().find_map(|&(rank, size)| {
        let several = match size {
            Some(size) => number(size)? > 1,
            None => true,
        };
        Some((number(rank)?, several))
    });
    let (rank, several) = found?;
    several.then_some(rank)
}

/// The lines of a message, within this many columns if any are given. All but the first one are indented, so a newline
/// in a name makes no line that looks like another message.
pub(crate) fn lines(message: &str, columns: Option<usize>) -> Vec<String> {
    let indented = |(number, line): (usize, &str)| {
        let begins = number == 0 || line.is_empty() || line.starts_with("  ");
        let indent = if begins { "" } else { "  " };
        format!("{indent}{}", clean(line))
    };
    let lines = message.lines().enumerate().map(indented);
    match columns {
        Some(columns) => lines.flat_map(|line| wrapped(&line, columns)).collect(),
        None => lines.collect(),
    }
}

/// A line in parts of at most this many columns.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let indent = " ".repeat(continued_at(line));
    let mut parts = vec![];
    let mut rest = line.to_owned();
    while let Some((part, after)) = split(&rest, columns, if parts.is_empty() { 0 } else { indent.len() }) {
        parts.push(part.to_owned());
        rest = format!("{indent}{after}");
    }
    parts.push(rest);
    parts
}

/// The column in which a continued line begins.
fn continued_at(line: &str) -> usize {
    let indent = line.len() - line.trim_start().len();
    let second = line[indent..].find("  ").map(|end| {
        let after = &line[indent + end..];
        indent + line[indent..indent + end].chars().count() + (after.len() - after.trim_start().len())
    });
    match second {
        Some(column) if column < SECOND_COLUMN => column.max(indent + CONTINUED),
        _ => indent + CONTINUED,
    }
}

/// A line that is too long as its beginning and the rest; `None` if it fits, or if it is a single word. The first
/// `indent` columns are no place to split it.
fn split(line: &str, columns: usize, indent: usize) -> Option<(&str, &str)> {
    let end = line.char_indices().nth(columns)?.0;
    let indent = indent.max(line.len() - line.trim_start().len());
    let space = |place: usize| (place > indent).then(|| (line[..place].trim_end(), line[place..].trim_start()));
    let before = if line[end..].starts_with(' ') { end + 1 } else { end };
    let within = line[..before].rfind(' ').and_then(space);
    let comma = || {
        let place = line[indent..end].rfind(',')? + 1 + indent;
        Some((&line[..place], &line[place..]))
    };
    let beyond = || line[end..].find(' ').and_then(|place| space(end + place));
    let found = within.or_else(comma).or_else(beyond);
    found.filter(|(_, after)| !after.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_newline_in_a_name_makes_no_message_of_its_own() {
        assert_eq!(
            lines("attached to solver\nnothing was changed\n  threads 3\u{7}", None),
            ["attached to solver", "  nothing was changed", "  threads 3\\x07"]
        );
    }

    #[test]
    fn a_long_line_goes_on_below_with_an_indentation() {
        let wrapped = lines("one two three four five six", Some(14));
        assert_eq!(wrapped, ["one two three", "    four five", "    six"]);
        assert_eq!(lines("  a bc de", Some(7)), ["  a bc", "      de"]);
    }

    #[test]
    fn a_row_of_a_table_goes_on_below_its_second_column() {
        let row = "  result   one two three";
        assert_eq!(lines(row, Some(18)), ["  result   one two", "           three"]);
    }

    #[test]
    fn a_long_word_is_whole_and_a_long_list_is_not() {
        assert_eq!(lines("/a/long/path and", Some(8)), ["/a/long/path", "    and"]);
        assert_eq!(lines("on 0,20,1,21", Some(9)), ["on", "    0,20,", "    1,21"]);
    }

    #[test]
    fn a_rank_is_named_if_there_are_several() {
        let rank = |variables: &[(&str, &str)]| {
            rank(|name| variables.iter().find(|one| one.0 == name).map(|one| one.1.to_owned()))
        };
        assert_eq!(rank(&[]), None);
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")];
        assert_eq!(rank(&open_mpi), Some(3));
        assert_eq!(rank(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), None);
        assert_eq!(rank(&[("PMIX_RANK", "7")]), Some(7));
        assert_eq!(rank(&[("SLURM_PROCID", "0")]), None, "the script of a job");
        assert_eq!(rank(&[("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2")]), Some(1));
        assert_eq!(rank(&[("PMIX_RANK", "\u{1b}[2J")]), None);
    }

    proptest! {
        #[test]
        fn no_line_is_too_long_unless_a_word_is(text in "[a-zé,]{0,9}( {1,3}[a-z\u{301}]{1,9}){0,30}", columns in 40usize..100) {
            let wrapped = lines(&text, Some(columns));
            for line in &wrapped {
                prop_assert!(line.chars().count() <= columns, "{line}");
            }
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(words(&wrapped.join(" ")), words(&text));
        }
    }
}
