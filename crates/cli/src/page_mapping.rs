//! The options for the page mapping, pinfold's own (`--page-map`) and numactl's, and for the migration of pages.

use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_core::memory::{self, Selection};
use pinfold_core::{NodeSet, PageMapping, ParsePageMappingError, Topology};
use std::io::{IsTerminal, stderr, stdout};
use std::str::FromStr;

/// The page mapping: at most one of these.
// Every command's arguments are called `Arguments`; clap would derive the same group name from that twice.
#[derive(Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// Where pages are: first_touch, interleave, interleave:NODES, `weighted_interleave:NODES`, bind:NODES,
    /// preferred:NODE, single:NODE, local, remote (the nearest node that is not the threads' own), locality (on the
    /// node whose threads access the page most) and balance (as many accesses on each node). NODES are such as 0-3,8.
    ///
    /// Without NODES, pages are in the main memory only, which is DRAM. NODES can also name memory of other kinds
    /// (GPUs, high-bandwidth, persistent and CXL memory), and all is all of them, as in interleave:all.
    #[arg(long, group = "mapping", value_name = "MAPPING")]
    page_map: Option<Named>,

    /// Memory of these NUMA nodes only: a list, or all, of any kind. As numactl's: a program that needs more is killed.
    #[arg(short, long, group = "mapping", value_name = "NODES")]
    membind: Option<String>,

    /// Pages on these nodes in turn.
    #[arg(short, long, group = "mapping", value_name = "NODES")]
    interleave: Option<String>,

    /// Pages on these nodes in turn, more on nodes with more bandwidth: by the weights in
    /// `/sys/kernel/mm/mempolicy/weighted_interleave` (Linux 6.9).
    #[arg(long, group = "mapping", value_name = "NODES")]
    weighted_interleave: Option<String>,

    /// Pages on this node, and on others when it is full. Unlike numactl's it has no short form: -p is --pid.
    #[arg(long, group = "mapping", value_name = "NODE")]
    preferred: Option<String>,

    /// Pages on the node of the thread that touches them first. Touched pages follow threads that are all on one node.
    #[arg(short, long, group = "mapping")]
    localalloc: bool,
}

/// The text of a page mapping, with nodes or `all`.
#[derive(Clone)]
struct Named(String);

impl FromStr for Named {
    type Err = ParsePageMappingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // On which machine is not known yet. What takes two nodes takes all.
        parse_nodes(text, "0,1").map(|_| Self(text.to_owned()))
    }
}

/// The page mapping with these nodes in the place of `all`.
fn parse_nodes(text: &str, all: &str) -> Result<PageMapping, ParsePageMappingError> {
    match text.strip_suffix(":all") {
        Some(name) => format!("{name}:{all}").parse().or_else(|_| text.parse()),
        None => text.parse(),
    }
}

/// The page mapping of these nodes; `None` if it takes fewer.
type OfNodes = fn(NodeSet) -> Option<PageMapping>;

impl Arguments {
    /// The requested page mapping. Errors: the machine lacks one of its nodes.
    pub(crate) fn mapping(&self, topology: &Topology) -> Result<Option<PageMapping>> {
        let with_nodes: [(&str, &Option<String>, OfNodes); 4] = [
            ("--membind", &self.membind, |nodes| Some(PageMapping::Bind(nodes))),
            ("--interleave", &self.interleave, |nodes| {
                Some(PageMapping::InterleaveOver(nodes))
            }),
            ("--weighted-interleave", &self.weighted_interleave, |nodes| {
                Some(PageMapping::WeightedInterleave(nodes))
            }),
            ("--preferred", &self.preferred, |nodes| {
                nodes.only().map(PageMapping::Preferred)
            }),
        ];
        let mut named = None;
        if let Some(Named(text)) = &self.page_map {
            let mapping = parse_nodes(text, &memory::memory_nodes(topology).to_string());
            named = Some((format!("--page-map {text}"), mapping?));
        } else if self.localalloc {
            named = Some(("--localalloc".to_owned(), PageMapping::Local));
        }
        for (option, list, mapping) in with_nodes {
            let Some(list) = list else { continue };
            let nodes = if list == "all" {
                memory::memory_nodes(topology)
            } else {
                list.parse().with_context(|| option.to_owned())?
            };
            if nodes.is_empty() {
                bail!(
                    "{option} `{list}` names no NUMA node; there are {}",
                    memory::memory_nodes(topology)
                );
            }
            let Some(mapping) = mapping(nodes) else {
                bail!("{option} {list}: there can be only one preferred node; --interleave spreads pages over several");
            };
            named = Some((format!("{option} {list}"), mapping));
        }
        let Some((option, mapping)) = named else {
            return Ok(None);
        };
        memory::check_nodes(mapping, topology).context(option)?;
        Ok(Some(mapping))
    }

    /// The first option that was given, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.page_map.is_some(), "--page-map"),
            (self.membind.is_some(), "--membind"),
            (self.interleave.is_some(), "--interleave"),
            (self.weighted_interleave.is_some(), "--weighted-interleave"),
            (self.preferred.is_some(), "--preferred"),
            (self.localalloc, "--localalloc"),
        ];
        given.iter().find(|(given, _)| *given).map(|&(_, option)| option)
    }
}

/// How pages are moved while a program runs.
#[derive(Args, Clone)]
#[group(skip)]
pub(crate) struct Migration {
    /// Move pages at this rate at most, in bytes a second, such as 500MB/s or 1GiB/s.
    #[arg(long = "migrate-rate", value_parser = parse_rate, value_name = "RATE")]
    rate: Option<f64>,

    /// Also move pages that other processes have mapped; needs CAP_SYS_NICE.
    #[arg(long = "migrate-shared")]
    shared: bool,

    /// Also move pages of files.
    #[arg(long = "migrate-files")]
    files: bool,
}

impl Migration {
    /// The limit in bytes per second.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// The pages that move beside the program's private ones; with `own_policies` also pages with a memory policy of
    /// the program.
    pub(crate) fn selection(&self, own_policies: bool) -> Result<Selection> {
        if self.shared
            && let Err(error) = pinfold_linux::memory::may_move_shared()
        {
            bail!(
                "--migrate-shared: the kernel does not let us move pages that other processes have mapped ({error}); that needs \
                 CAP_SYS_NICE, which root has"
            );
        }
        Ok(Selection {
            shared: self.shared,
            files: self.files,
            own_policies,
        })
    }

    /// The first option that was given, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.rate.is_some(), "--migrate-rate"),
            (self.shared, "--migrate-shared"),
            (self.files, "--migrate-files"),
        ];
        given.iter().find(|(given, _)| *given).map(|&(_, option)| option)
    }
}

/// The units of a byte rate and their sizes: binary ones and decimal ones. A bare letter is binary, as in `32k`.
const UNITS: [(&str, f64); 13] = [
    ("B", 1.0),
    ("k", 1024.0),
    ("K", 1024.0),
    ("KiB", 1024.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("M", 1024.0 * 1024.0),
    ("MiB", 1024.0 * 1024.0),
    ("MB", 1e6),
    ("G", 1024.0 * 1024.0 * 1024.0),
    ("GiB", 1024.0 * 1024.0 * 1024.0),
    ("GB", 1e9),
    ("", 1.0),
];

/// Parses a byte rate: `1GiB/s`, `500MB`, `20000`.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.strip_suffix("/s").unwrap_or(text).trim_end();
    let end_of_number = rate
        .find(|character: char| character != '.' && !character.is_ascii_digit())
        .unwrap_or(rate.len());
    let (number, unit) = rate.split_at(end_of_number);
    let factor = UNITS
        .iter()
        .find(|(name, _)| *name == unit.trim())
        .map(|(_, factor)| factor);
    let bytes = number
        .parse::<f64>()
        .ok()
        .zip(factor)
        .map(|(number, factor)| number * factor);
    bytes
        .filter(|bytes| (1.0..1e15).contains(bytes))
        .ok_or_else(|| "not a rate; write bytes a second, such as 500MB/s or 1GiB/s".to_owned())
}

/// Shows the progress of the migration: a line on the terminal, where standard error is one and standard output is not.
pub(crate) fn progress(quiet: bool) -> Box<dyn FnMut(u64, u64) + Send> {
    let drawn = !quiet && stderr().is_terminal() && !stdout().is_terminal();
    let mut bar: Option<indicatif::ProgressBar> = None;
    Box::new(move |done, of| {
        if !drawn {
            return;
        }
        let style = || {
            indicatif::ProgressStyle::with_template("pinfold: moving pages {wide_bar} {bytes} of {total_bytes}")
                .unwrap_or_else(|_| indicatif::ProgressStyle::default_bar())
        };
        let shown = bar.get_or_insert_with(|| indicatif::ProgressBar::new(of).with_style(style()));
        shown.set_length(of);
        shown.set_position(done);
        if done >= of {
            shown.finish_and_clear();
            bar = None;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_takes_the_place_of_several_nodes() {
        let of = |text: &str| {
            text.parse::<Named>()
                .map(|named| parse_nodes(&named.0, "0,8,255").unwrap().to_string())
        };
        assert_eq!(of("interleave:all").unwrap(), "interleave:0,8,255");
        assert_eq!(of("bind:all").unwrap(), "bind:0,8,255");
        assert_eq!(of("interleave").unwrap(), "interleave");
        for text in ["single:all", "local:all", ":all", "interleave:some"] {
            assert!(
                of(text).unwrap_err().to_string().contains(&format!("`{text}`")),
                "{text}"
            );
        }
    }

    #[test]
    fn rates_have_the_units_of_memory_and_decimal_ones() {
        assert_eq!(parse_rate("1GiB/s"), Ok(1024.0 * 1024.0 * 1024.0));
        assert_eq!(parse_rate("1.5MB"), Ok(1.5e6));
        assert_eq!(parse_rate("64k/s"), Ok(65536.0));
        assert_eq!(parse_rate("4096"), Ok(4096.0));
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in ["", "GiB/s", "0", "-1M", "1e9", "fast", "1Gbit/s", "1..2M"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }
}
