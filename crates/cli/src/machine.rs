//! `--machine`: which machine a command is about.

use anyhow::{Result, bail};
use clap::Args;
use pinfold_core::Topology;
use pinfold_linux::topology::{self, Source};
use std::path::{Path, PathBuf};

/// Which machine a command is about.
// Every command's arguments are called `Arguments`; clap would name the group after that, twice in one command.
#[derive(Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// The machine: xml:FILE (hwloc XML), fsroot:DIR (a copy of another machine's /sys and /proc), synthetic:SPEC
    /// (hwloc's synthetic description) or, to run, scripted:FILE (a script tells the rates); without it, this machine.
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
        Ok(topology::read(source)?)
    }
}

/// What may have been meant by a text that names no machine, and what can be named.
fn suggestion(text: &str, kind: &str) -> String {
    let near = KINDS
        .iter()
        .find(|(name, _, _)| strsim::damerau_levenshtein(name, &kind.to_lowercase()) <= 2)
        .map(|(name, operand, _)| format!("{name}:{operand}"));
    let guess = near
        .or_else(|| fitting(Path::new(text)).map(|kind| format!("{kind}:{text}")))
        .map(|guess| format!("; did you mean `{guess}`?"))
        .unwrap_or_default();
    let list: Vec<String> = KINDS
        .iter()
        .map(|(name, operand, what)| format!("  {:16} {what}", format!("{name}:{operand}")))
        .collect();
    let list = list.join("\n");
    format!("{guess}\nWhat can be named:\n{list}\nWithout --machine it is this machine.")
}

/// The kind of machine that a file or directory may be.
fn fitting(path: &Path) -> Option<&'static str> {
    if path.is_dir() {
        return Some("fsroot");
    }
    match path.extension()?.to_str()? {
        "xml" => Some("xml"),
        "toml" => Some("scripted"),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_understood() {
        for (text, selected) in [
            ("xml:a.xml", Selected::Described(Source::Xml("a.xml".into()))),
            ("fsroot:/a:b", Selected::Described(Source::FsRoot("/a:b".into()))),
            (
                "synthetic:core:2 pu:1",
                Selected::Described(Source::Synthetic("core:2 pu:1".to_owned())),
            ),
            ("scripted:a.toml", Selected::Scripted("a.toml".into())),
        ] {
            assert_eq!(Selected::parse(text).unwrap(), selected);
        }
    }

    #[test]
    fn without_the_option_it_is_the_machine_at_hand() {
        assert_eq!(Arguments { machine: None }.selected().unwrap(), Selected::Here);
    }

    #[test]
    fn a_file_is_told_by_its_name() {
        for (text, guess) in [
            ("my.xml", "did you mean `xml:my.xml`?"),
            ("my.toml", "did you mean `scripted:my.toml`?"),
            ("XML:my.xml", "did you mean `xml:FILE`?"),
        ] {
            let error = Selected::parse(text).unwrap_err().to_string();
            assert!(error.contains(guess), "{error}");
        }
    }

    #[test]
    fn a_name_that_is_like_none_gets_the_list_alone() {
        let error = Selected::parse("opteron-6164x4").unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
        assert!(error.contains("synthetic:SPEC"), "{error}");
    }
}
