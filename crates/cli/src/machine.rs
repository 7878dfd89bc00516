//! `--machine`: which machine a command is about.

use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_core::Topology;
use pinfold_linux::topology::{self, Source};
use std::path::PathBuf;

/// Which machine a command is about.
// Every command's arguments are called `Arguments`; clap would name the group after that, twice in one command.
#[derive(Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// The machine: `xml:FILE` (hwloc XML), `fsroot:DIR` (a copy of another machine's /sys and /proc),
    /// `synthetic:SPEC` (hwloc's synthetic description) or a machine model; without it, this machine.
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
}

/// The machine that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    /// The machine at hand.
    Here,
    /// A machine of which only the topology is known.
    Described(Source),
    /// A machine whose rates a script tells.
    Scripted(PathBuf),
}

/// Each kind of machine: what its text begins with, what follows, and what that is.
const KINDS: [(&str, &str, &str); 4] = [
    ("xml", "FILE", "hwloc XML, as `lstopo machine.xml` writes it"),
    ("fsroot", "DIR", "a copy of another machine's /sys and /proc"),
    ("synthetic", "SPEC", "hwloc's synthetic description"),
    ("scripted", "FILE", "a machine for tests whose rates a script tells"),
];

impl Selected {
    /// Understands the text after `--machine`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let selected = match kind {
            "xml" => Self::Described(Source::Xml(rest.into())),
            "fsroot" => Self::Described(Source::FsRoot(rest.into())),
            "synthetic" => Self::Described(Source::Synthetic(rest.to_owned())),
            "scripted" => Self::Scripted(rest.into()),
            _ => bail!("there is no machine `{text}`{}", suggestion(text, kind)),
        };
        if let Some((kind, operand, what)) = KINDS.iter().find(|(name, _, _)| *name == kind && rest.is_empty()) {
            bail!("`--machine {text}` lacks its {operand}: `{kind}:{operand}` is {what}");
        }
        Ok(selected)
    }

    /// The machine's topology. A scripted machine's is named in its script.
    pub(crate) fn topology(&self) -> Result<Topology> {
        let source = match self {
            Self::Here => &Source::Live,
            Self::Described(source) => source,
            Self::Scripted(file) => bail!(
                "`scripted:{}` is a machine for `pinfold run` alone; name its topology here",
                file.display()
            ),
        };
        topology::read(source).with_context(|| format!("no topology of {source}"))
    }
}

/// What may have been meant by a text that names no machine, and what can be named.
fn suggestion(text: &str, kind: &str) -> String {
    let near = KINDS
        .iter()
        .filter(|(name, _, _)| strsim::damerau_levenshtein(name, &kind.to_lowercase()) <= 2)
        .map(|(name, operand, _)| format!("; did you mean `{name}:{operand}`?"))
        .next();
    let guess = near.or_else(|| {
        let path = std::path::Path::new(text);
        let fitting = if path.is_dir() {
            "fsroot"
        } else if path.is_file() {
            "xml"
        } else {
            return None;
        };
        Some(format!("; did you mean `{fitting}:{text}`?"))
    });
    let mut all = guess.unwrap_or_default();
    all.push_str("\nWhat can be named:");
    for (name, operand, what) in KINDS {
        all.push_str(&format!("\n  {:16} {what}", format!("{name}:{operand}")));
    }
    all.push_str("\n  without --machine: this machine");
    all
}

impl Arguments {
    /// The machine that was asked for.
    pub(crate) fn selected(&self) -> Result<Selected> {
        self.machine.as_deref().map_or(Ok(Selected::Here), Selected::parse)
    }

    /// The topology of the machine that was asked for. Reading a copy of a machine changes the environment for a
    /// moment (`pinfold_linux::topology::read`), so commands call this before they start threads.
    pub(crate) fn topology(&self) -> Result<Topology> {
        self.selected()?.topology()
    }
}
