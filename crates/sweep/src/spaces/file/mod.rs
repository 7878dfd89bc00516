//! Spaces that a user writes: a TOML file (docs/formats/data-sets.md).
//!
//! Each `[[configurations]]` lists values for some of the keys, and the space has all combinations of them. Other keys
//! have their defaults. So one entry is a whole space, and several entries with one value each are a list. `parse` reads
//! the entries.

mod parse;

use super::point::Points;
use super::{Selection, SpaceMachine};
use parse::{ENTRY, entries};
use pinfold_core::{PageMapping, Pinning, Prefetchers, ThreadMap};
use std::ops::Range;
use toml::de::DeTable;

/// A space read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceFile {
    file: String,
    entries: Vec<Entry>,
}

/// Why a text is not a space, or not a space of this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {why}")]
pub struct SpaceError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and how to correct it.
    pub why: String,
}

/// Values whose combinations are all in the space.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    threads: Threads,
    page_maps: Vec<PageMapping>,
    prefetchers: Vec<Prefetchers>,
}

/// The threads' places, each with its line in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Threads {
    Pinned(Vec<(usize, Pinning)>),
    Mapped {
        nodes: Vec<(usize, usize)>,
        maps: Vec<ThreadMap>,
        /// The numbers of threads per core; `None` if threads share cores only where the cores do not suffice.
        per_core: Option<PerCore>,
    },
}

/// Numbers of threads per core, and their line in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PerCore {
    line: usize,
    numbers: Vec<usize>,
}

impl SpaceFile {
    /// Parses the text of a space. `file` names it in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpaceError> {
        let line = |at: usize| text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1;
        let error = |at: Range<usize>, why: String| SpaceError {
            file: file.to_owned(),
            line: line(at.start),
            why,
        };
        let table =
            DeTable::parse(text).map_err(|wrong| error(wrong.span().unwrap_or(0..0), wrong.message().to_owned()))?;
        let entries = entries(table.get_ref(), &line).map_err(|(at, why)| error(at, why))?;
        if entries.is_empty() {
            return Err(error(
                0..0,
                format!("the file has no configuration: begin with [[{ENTRY}]] and list `pinnings` or `nodes`"),
            ));
        }
        Ok(Self {
            file: file.to_owned(),
            entries,
        })
    }

    /// The points of the space for `threads` threads on a machine, in the order of the file, each once.
    ///
    /// # Errors
    ///
    /// A configuration is not possible on the machine.
    pub fn points(&self, machine: &SpaceMachine, threads: usize) -> Result<Selection, SpaceError> {
        let points = &Points::new(machine, threads);
        let mut all = vec![];
        let mut left_out = vec![];
        for entry in &self.entries {
            let mut page_maps = &entry.page_maps[..];
            if let (Some(why), true) = (machine.page_maps_left_out(), page_maps.len() > 1) {
                page_maps = &page_maps[..1];
                left_out.push(why);
            }
            let possible = |setting: &Prefetchers| machine.possible(*setting);
            let prefetchers: Vec<Prefetchers> = entry.prefetchers.iter().map(possible).collect();
            if prefetchers != entry.prefetchers {
                left_out.extend(machine.prefetchers_left_out());
            }
            let pinnings = self.pinnings(entry, points)?;
            left_out.extend(pinnings.left_out);
            for pinning in pinnings.possible {
                for &pages in page_maps {
                    for &prefetchers in &prefetchers {
                        all.push(points.point(pinning.clone(), pages, prefetchers));
                    }
                }
            }
        }
        Ok(Selection::of(all).without(left_out))
    }

    fn pinnings(&self, entry: &Entry, points: &Points<'_>) -> Result<Pinnings, SpaceError> {
        let (machine, threads) = (points.machine, points.threads);
        let error = |line: usize, why: String| SpaceError {
            file: self.file.clone(),
            line,
            why,
        };
        match &entry.threads {
            Threads::Pinned(pinnings) => {
                for (line, pinning) in pinnings {
                    if let Some(pu) = pinning.pus().iter().find(|&&pu| machine.place(pu).is_none()) {
                        return Err(error(
                            *line,
                            format!(
                                "`{pinning}` has PU {pu}, and the PUs of {} that may be used are {}",
                                machine.name(),
                                machine.pus()
                            ),
                        ));
                    }
                }
                Ok(Pinnings {
                    possible: pinnings.iter().map(|(_, pinning)| pinning.clone()).collect(),
                    left_out: vec![],
                })
            }
            Threads::Mapped { nodes, maps, per_core } => {
                let mut found = Pinnings::default();
                for &(line, nodes) in nodes {
                    for &map in maps {
                        let spread = machine.mapped(threads, nodes, map, None).ok_or_else(|| {
                            error(
                                line,
                                format!(
                                    "{threads} threads cannot be on {nodes} nodes of {}, which has {}; every node gets a \
                                     thread or more",
                                    machine.name(),
                                    machine.nodes().len()
                                ),
                            )
                        })?;
                        match per_core {
                            None => found.possible.push(spread),
                            Some(per_core) => found.add(points, nodes, map, per_core),
                        }
                    }
                }
                match per_core {
                    Some(per_core) if found.possible.is_empty() => Err(error(per_core.line, found.left_out.join("; "))),
                    _ => Ok(found),
                }
            }
        }
    }
}

/// Pinnings of the threads, and a sentence for each number of threads per core that is not possible.
#[derive(Default)]
struct Pinnings {
    possible: Vec<Pinning>,
    left_out: Vec<String>,
}

impl Pinnings {
    /// Adds the pinnings with these numbers of threads per core.
    fn add(&mut self, points: &Points<'_>, nodes: usize, map: ThreadMap, per_core: &PerCore) {
        let (machine, threads) = (points.machine, points.threads);
        for &most in &per_core.numbers {
            if let Some(pinning) = machine.mapped(threads, nodes, map, Some(most)) {
                self.possible.push(pinning);
                continue;
            }
            let plural = if nodes == 1 { "" } else { "s" };
            let sentence = format!(
                "{threads} threads on {nodes} node{plural} with {most} on a core are left out: {} has {} there",
                machine.name(),
                machine.cores_and_pus(nodes),
            );
            if !self.left_out.contains(&sentence) {
                self.left_out.push(sentence);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spaces::point::{Point, page_map_name};
    use pinfold_sim::model::builtin;

    fn selected(text: &str, machine: &str, threads: usize) -> Result<Selection, SpaceError> {
        let machine = SpaceMachine::of_model(&builtin(machine).unwrap());
        SpaceFile::parse("space.toml", text)?.points(&machine, threads)
    }

    fn points(text: &str, machine: &str, threads: usize) -> Result<Vec<Point>, SpaceError> {
        selected(text, machine, threads).map(|selection| selection.points)
    }

    #[test]
    fn all_combinations_of_an_entry_are_in_the_space() {
        let text = r#"
            [[configurations]]
            nodes = [2, 4]
            thread_map = ["compact", "scatter"]
            page_map = ["locality", "balance", "interleave"]
            prefetch = "all"
        "#;
        assert_eq!(points(text, "e5-4650x4", 8).unwrap().len(), 2 * 2 * 3 * 16);
    }

    #[test]
    fn entries_of_one_value_each_are_a_list_and_missing_keys_have_defaults() {
        let text = r#"
            [[configurations]]
            pinnings = "0-3"
            [[configurations]]
            nodes = 2
            page_map = "single"
            prefetch = "1010"
            [[configurations]]
            pinnings = "0-3"
        "#;
        let found = points(text, "e5-4650x4", 4).unwrap();
        let shown: Vec<String> = found
            .iter()
            .map(|point| format!("{} {} {}", point.pinning, page_map_name(point.pages), point.prefetchers))
            .collect();
        assert_eq!(shown, ["0-3 first_touch 0000", "0,1,8,9 single 1010"]);
    }

    #[test]
    fn each_error_names_its_line_and_the_correction() {
        for (text, line, part) in [
            ("\n[[configuration]]\nnodes = 1", 2, "did you mean `configurations`?"),
            (
                "[[configurations]]\nnodes = 1\npage_maps = \"local\"",
                3,
                "did you mean `page_map`?",
            ),
            (
                "[[configurations]]\nnodes = 1\npage_map = [\n\"local\",\n\"interleaved\"]",
                5,
                "did you mean `interleave`?",
            ),
            (
                "[[configurations]]\nnodes = 1\nthread_map = \"scattered\"",
                3,
                "did you mean `scatter`?",
            ),
            (
                "[[configurations]]\npage_map = \"local\"",
                1,
                "does not say where threads are",
            ),
            ("[[configurations]]\nnodes = 1\npinnings = \"0\"", 3, "not both"),
            (
                "[[configurations]]\npinnings = \"0\"\nthread_map = \"compact\"",
                3,
                "`thread_map` needs `nodes`",
            ),
            (
                "[[configurations]]\npinnings = \"0\"\nthreads_per_core = 2",
                3,
                "`threads_per_core` needs `nodes`",
            ),
            (
                "[[configurations]]\nnodes = 1\nthreads_per_core = [1,\n0]",
                4,
                "a number of threads is a whole number of 1 or more",
            ),
            ("[[configurations]]\npinnings = \"0-x\"", 2, "`x` is not a number"),
            (
                "[[configurations]]\npinnings = [\"0\",\n\"64\"]",
                3,
                "the PUs of e5-4650x4 that may be used are 0-63",
            ),
            (
                "[[configurations]]\nnodes = [1,\n5]",
                3,
                "5 nodes of e5-4650x4, which has 4",
            ),
            ("[[configurations]]\nnodes = 0", 2, "of 1 or more"),
            ("[[configurations]]\nnodes = 1\nprefetch = \"00\"", 3, "four characters"),
            ("[[configurations]]\nnodes = ", 2, ""),
            ("", 1, "has no configuration"),
        ] {
            let error = points(text, "e5-4650x4", 8).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn ranks_are_on_siblings_where_the_file_says_so() {
        let text = "
            [[configurations]]
            nodes = [1, 2]
            threads_per_core = [1, 2]
        ";
        let shown = |threads| {
            let found = selected(text, "e5-4650x4", threads).unwrap();
            let pinnings: Vec<String> = found.points.iter().map(|point| point.pinning.to_string()).collect();
            (pinnings, found.left_out)
        };
        let (pinnings, left_out) = shown(4);
        assert_eq!(pinnings, ["0-3", "0,1,32,33", "0,1,8,9", "0,32,8,40"]);
        assert!(left_out.is_empty());
        let (pinnings, left_out) = shown(16);
        assert_eq!(pinnings, ["0-7,32-39", "0-15", "0-3,32-35,8-11,40-43"]);
        assert_eq!(
            left_out,
            ["16 threads on 1 node with 1 on a core are left out: e5-4650x4 has 8 cores with 16 CPUs there"]
        );
        let error = selected(
            "[[configurations]]\nnodes = 1\nthreads_per_core = 2",
            "opteron-6164x4",
            4,
        );
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("space.toml:3: 4 threads on 1 node with 2 on a core"),
            "{error}"
        );
    }

    #[test]
    fn what_the_machine_lacks_is_left_out_and_said() {
        let text = r#"
            [[configurations]]
            nodes = 1
            page_map = ["interleave", "local"]
            prefetch = "all"
        "#;
        let found = selected(text, "clovertown", 4).unwrap();
        assert!(found.points.iter().all(|point| point.pages == PageMapping::Interleave));
        assert!(
            found.left_out[0].contains("clovertown has one NUMA node"),
            "{:?}",
            found.left_out
        );
        let model = builtin("opteron-6164x4").unwrap();
        let present = model.prefetch.present.value().0.len();
        let found = selected(text, "opteron-6164x4", 4).unwrap();
        assert_eq!(found.points.len(), 2 << present);
        assert_eq!(found.left_out.len(), usize::from(present < 4), "{:?}", found.left_out);
    }
}
