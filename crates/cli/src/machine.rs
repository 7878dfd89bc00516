//! `--machine`: which machine a command is about.

use crate::console;
use crate::table::TableFile;
use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_core::{Device, Topology};
use pinfold_files::input;
use pinfold_linux::topology::{self, EXAMPLE, Here, Source};
use pinfold_sim::Script;
use pinfold_sim::model::{self, Model};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Which machine a command is about.
// Every command's arguments are called `Arguments`; clap would derive the same group name from that twice.
#[derive(Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// The machine [default: this machine].
    ///
    /// NAME is a machine model (`pinfold machines` lists them), FILE.toml a model of your own (`pinfold calibrate
    /// --model` writes one of this machine); both can be simulated. xml:FILE (hwloc XML), fsroot:DIR (a copy of another
    /// machine's /sys and /proc) and synthetic:SPEC (hwloc's synthetic description) have a topology only.
    /// data:FILE.parquet is a data set of measured times, which are replayed; data:FILE.parquet@NAME is one of its
    /// machines. scripted:FILE is a machine for tests: a script gives the rates.
    #[arg(long, value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
}

/// The selected machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    /// This machine.
    Here,
    /// A machine with a known topology and nothing else.
    Described(Source),
    /// A machine whose rates a script gives.
    Scripted(PathBuf),
    /// A machine whose times were measured, and are replayed.
    Table(TableFile),
    /// A model that is part of pinfold.
    Builtin(String),
    /// A model in a file of the user.
    ModelFile(PathBuf),
}

/// Each kind of machine: what its text begins with, what follows, and what that is.
const KINDS: [(&str, &str, &str); 5] = [
    ("xml", "FILE", "hwloc XML, as `lstopo machine.xml` writes it"),
    ("fsroot", "DIR", "a copy of another machine's /sys and /proc"),
    ("synthetic", "SPEC", "hwloc's synthetic description"),
    ("data", "FILE", "a data set of measured times, which are replayed"),
    ("scripted", "FILE", "a machine for tests whose rates a script gives"),
];

/// The values of `--machine`: the models, and the kinds that a file or a text follows.
pub(crate) fn values() -> impl Iterator<Item = String> {
    let models = model::builtin_names().map(str::to_owned);
    models.chain(KINDS.iter().map(|(kind, ..)| format!("{kind}:")))
}

impl Selected {
    /// Parses the text after `--machine`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let selected = match kind {
            "xml" => Self::Described(Source::Xml(rest.into())),
            "fsroot" => Self::Described(Source::FsRoot(rest.into())),
            "synthetic" => Self::Described(Source::Synthetic(rest.to_owned())),
            "data" => Self::Table(TableFile::parse(rest)),
            "scripted" => Self::Scripted(rest.into()),
            _ if model::builtin_names().any(|name| name == text) => return Ok(Self::Builtin(text.to_owned())),
            _ if Path::new(text).extension().is_some_and(|extension| extension == "toml") => {
                return Ok(Self::ModelFile(text.into()));
            }
            _ => bail!("there is no machine `{text}`{}", suggestion(text, kind)),
        };
        if let Some((kind, operand, what)) = KINDS.iter().find(|(name, _, _)| *name == kind && rest.is_empty()) {
            bail!("`--machine {text}` lacks its {operand}: `{kind}:{operand}` is {what}");
        }
        Ok(selected)
    }

    /// The machine's topology. A scripted machine's is named in its script.
    pub(crate) fn topology(&self) -> Result<Topology> {
        match self {
            Self::Here => topology_here(false),
            Self::Described(source) => described_topology(source),
            Self::Table(file) => Ok(file.read()?.topology),
            Self::Scripted(file) => scripted_topology(file),
            Self::Builtin(_) | Self::ModelFile(_) => Ok(self.model()?.topology()),
        }
    }

    /// The machine's devices, by PCI address. Models, scripts and tables have none.
    pub(crate) fn devices(&self) -> Result<Vec<Device>> {
        match self {
            Self::Here => Ok(topology::devices_here(&mut reader(&[DEVICES], &Source::Live))?),
            Self::Described(source) => Ok(topology::read_by(&mut reader(&[DEVICES], source), source)?),
            Self::Scripted(_) | Self::Table(_) | Self::Builtin(_) | Self::ModelFile(_) => Ok(vec![]),
        }
    }

    /// The model of a machine that can be simulated.
    pub(crate) fn model(&self) -> Result<Model> {
        match self {
            Self::Builtin(name) => model::builtin(name).with_context(|| format!("there is no model `{name}`")),
            Self::ModelFile(file) => {
                let shown = file.display().to_string();
                let text =
                    input::text(file, input::MOST).with_context(|| format!("cannot read the model `{shown}`"))?;
                Ok(Model::parse(&shown, &text)?)
            }
            Self::Here | Self::Described(_) | Self::Scripted(_) | Self::Table(_) => bail!("this machine has no model"),
        }
    }
}

/// The topology of a description.
pub(crate) fn described_topology(source: &Source) -> Result<Topology> {
    Ok(topology::read_by(&mut reader(&[], source), source)?)
}

/// The name of the subcommand that reads a machine in a separate process.
pub(crate) const READER: &str = "read-topology";

/// Its option to read devices instead of the topology.
const DEVICES: &str = "--devices";

/// The command that reads a machine in a separate process.
fn reader(options: &[&str], source: &Source) -> Command {
    let (kind, operand) = match source {
        Source::Live => ("here", OsStr::new("")),
        Source::Xml(file) => ("xml", file.as_os_str()),
        Source::FsRoot(directory) => ("fsroot", directory.as_os_str()),
        Source::Synthetic(description) => ("synthetic", OsStr::new(description)),
    };
    let mut reader = Command::new("/proc/self/exe");
    reader.arg(READER).args(options).args([kind, "--"]).arg(operand);
    reader
}

/// This machine, with notes for the user about its reading.
pub(crate) fn here() -> Result<Here> {
    Ok(topology::here(&mut reader(&[], &Source::Live))?)
}

/// The topology of this machine. What the user should know of how it was read is said unless that is not wanted.
pub(crate) fn topology_here(quiet: bool) -> Result<Topology> {
    let here = here()?;
    if let Some(note) = here.note.filter(|_| !quiet) {
        console::say(note);
    }
    Ok(here.topology)
}

/// Reads a machine for another pinfold, and writes the answer for it.
#[derive(Args)]
pub(crate) struct Described {
    /// Read its devices instead of its topology.
    #[arg(long)]
    devices: bool,
    /// What it is: here, xml, fsroot or synthetic.
    kind: String,
    /// The file, the directory or the text; nothing for this machine.
    operand: OsString,
}

/// The subcommand `READER`.
pub(crate) fn describe(described: &Described) -> Result<ExitCode> {
    let source = match described.kind.as_str() {
        "xml" => Source::Xml(described.operand.clone().into()),
        "fsroot" => Source::FsRoot(described.operand.clone().into()),
        "here" => Source::Live,
        _ => Source::Synthetic(described.operand.to_string_lossy().into_owned()),
    };
    let answer = if described.devices {
        topology::answer(topology::devices(&source))
    } else {
        topology::answer(topology::read(&source))
    };
    console::print(&answer?)?;
    Ok(ExitCode::SUCCESS)
}

/// The names of the models that resemble `text`, the nearest first.
pub(crate) fn nearest_models(text: &str) -> Vec<&'static str> {
    /// Names whose Jaro-Winkler similarity is lower are not mistaken for each other.
    const SIMILAR: f64 = 0.7;
    let text = text.to_lowercase();
    let mut near: Vec<(f64, &str)> = model::builtin_names()
        .map(|name| (strsim::jaro_winkler(&text, name), name))
        .filter(|&(similarity, _)| similarity >= SIMILAR)
        .collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0));
    near.into_iter().map(|(_, name)| name).collect()
}

/// The most similar name for a text that names no machine, and all names.
fn suggestion(text: &str, kind: &str) -> String {
    let near = KINDS
        .iter()
        .find(|(name, _, _)| strsim::damerau_levenshtein(name, &kind.to_lowercase()) <= 2)
        .map(|(name, operand, _)| format!("{name}:{operand}"));
    let model = || (!text.contains(':')).then(|| nearest_models(text).first().map(|&name| name.to_owned()))?;
    let guess = near
        .or_else(model)
        .or_else(|| fitting(Path::new(text)).map(|kind| format!("{kind}:{text}")))
        .map(|guess| format!("; did you mean `{guess}`?"))
        .unwrap_or_default();
    let list: Vec<String> = KINDS
        .iter()
        .map(|(name, operand, what)| format!("  {:16} {what}", format!("{name}:{operand}")))
        .collect();
    let list = list.join("\n");
    let models: Vec<&str> = model::builtin_names().collect();
    let list = format!(
        "  {:16} a model: {}\n  {:16} a model of your own\n{list}",
        "NAME",
        models.join(", "),
        "FILE.toml"
    );
    format!("{guess}\nWhat can be named:\n{list}\nWithout --machine it is this machine.")
}

/// The kind of machine that a file or a directory fits.
fn fitting(path: &Path) -> Option<&'static str> {
    if path.is_dir() {
        return Some("fsroot");
    }
    match path.extension()?.to_str()? {
        "xml" => Some("xml"),
        "parquet" => Some("data"),
        _ => None,
    }
}

impl Arguments {
    /// The selected machine.
    pub(crate) fn selected(&self) -> Result<Selected> {
        self.machine.as_deref().map_or(Ok(Selected::Here), Selected::parse)
    }

    /// The topology of the selected machine. A description is read by a process that ends with the thread that
    /// starts it (`pinfold_linux::topology::read_by`), so commands call this before they start threads.
    pub(crate) fn topology(&self) -> Result<Topology> {
        self.selected()?.topology()
    }
}

pub(crate) fn read_script(file: &Path) -> Result<Script> {
    let text =
        input::text(file, input::MOST).with_context(|| format!("cannot read the script `{}`", file.display()))?;
    text.parse()
        .with_context(|| format!("`{}` is no script of a machine", file.display()))
}

/// The topology that a script names.
pub(crate) fn script_topology(file: &Path, script: &Script) -> Result<Topology> {
    let named = script.topology();
    Selected::parse(named)
        .and_then(|selected| match selected {
            Selected::Scripted(_) => {
                bail!("`{named}` is another script; name a machine by its shape, such as synthetic:{EXAMPLE}")
            }
            Selected::Here
            | Selected::Described(_)
            | Selected::Table(_)
            | Selected::Builtin(_)
            | Selected::ModelFile(_) => selected.topology(),
        })
        .with_context(|| format!("the key `topology` of `{}`", file.display()))
}

/// The topology of a scripted machine.
fn scripted_topology(file: &Path) -> Result<Topology> {
    script_topology(file, &read_script(file)?)
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
            ("data:a.parquet", Selected::Table(TableFile::parse("a.parquet"))),
        ] {
            assert_eq!(Selected::parse(text).unwrap(), selected);
        }
    }

    #[test]
    fn without_the_option_it_is_this_machine() {
        assert_eq!(Arguments { machine: None }.selected().unwrap(), Selected::Here);
    }

    #[test]
    fn a_file_is_recognised_by_its_name() {
        for (text, guess) in [
            ("my.xml", "did you mean `xml:my.xml`?"),
            ("XML:my.xml", "did you mean `xml:FILE`?"),
            ("my.parquet", "did you mean `data:my.parquet`?"),
        ] {
            let error = Selected::parse(text).unwrap_err().to_string();
            assert!(error.contains(guess), "{error}");
        }
    }

    #[test]
    fn a_name_without_a_similar_one_gets_the_list_alone() {
        let error = Selected::parse("zzz").unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
        assert!(error.contains("synthetic:SPEC"), "{error}");
    }

    #[test]
    fn an_unknown_model_gets_the_nearest_name() {
        for (text, guess) in [("opteron-6164", "opteron-6164x4"), ("E5-4650X2", "e5-4650x4")] {
            let error = Selected::parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("did you mean `{guess}`?")), "{error}");
        }
    }

    #[test]
    fn a_model_is_named_by_itself_or_by_its_file() {
        assert_eq!(
            Selected::parse("e5-4650x4").unwrap(),
            Selected::Builtin("e5-4650x4".to_owned())
        );
        assert_eq!(
            Selected::parse("my.toml").unwrap(),
            Selected::ModelFile("my.toml".into())
        );
    }
}
