//! `pinfold report`: a run, two runs, or the log of a daemon, as one HTML page.

use crate::run::policies;
use crate::{console, recorded};
use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_files::input;
use pinfold_files::output::Output;
use pinfold_page::daemon::{self, DaemonLog};
use pinfold_page::{Additions, Ceilings, Exchanges, NamedRun};
use pinfold_runtime::RunDocument;
use pinfold_sim::model::{Model, builtin};
use pinfold_trace::{Interactions, Recording};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The memory for the exchanges between threads, in bytes: a page is made in seconds.
const MOST_OF_EXCHANGES: usize = 256 << 20;

/// Draw a run, two runs, or what a daemon did, as one HTML page.
///
/// The page says whether placing helped, by how much, and where threads and pages are. It has the course of the run,
/// the candidates on the machine, the counters, and the reasons in words. It needs no network. A second run is compared
/// with the first.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold run --json run.json -- ./solver input.dat
  pinfold report run.json -o run.html
  pinfold report before.json after.json -o both.html
      which of two runs was faster, and what differs
  pinfold report run.json --recording solver.pft -o run.html
      the same as the first, with the threads that share data")]
pub(crate) struct Arguments {
    /// What `pinfold run --json FILE` wrote, or `pinfold daemon --log FILE --log-format json`.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Another run, to be compared with the first.
    #[arg(value_name = "FILE.json")]
    second: Option<PathBuf>,

    /// Draw which threads share data, from this recording of the program (`pinfold record`). Threads are matched in the
    /// order of their creation.
    #[arg(long, value_name = "FILE.pft", conflicts_with = "second")]
    recording: Option<PathBuf>,

    /// Draw the roofline of this machine, from a model that `pinfold calibrate --model` wrote. A run on a machine model
    /// of pinfold has it without this.
    #[arg(long, value_name = "FILE.toml", conflicts_with = "second")]
    calibrated: Option<PathBuf>,

    /// Write the page to this file [default: standard output].
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let page = match &arguments.second {
        Some(second) => two_runs(&arguments.file, second)?,
        None => page(arguments)?,
    };
    match Output::optional("--output", arguments.output.as_deref())? {
        Some(output) => output.write(page.as_bytes())?,
        None => console::print(&page)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn page(arguments: &Arguments) -> Result<String> {
    let file = arguments.file.display();
    let text = input::text(&arguments.file, input::MOST_OF_LOG).with_context(|| format!("cannot read `{file}`"))?;
    if DaemonLog::is_log(&text) {
        if arguments.recording.is_some() || arguments.calibrated.is_some() {
            bail!("`{file}` is the log of a daemon, and --recording and --calibrated are for the record of a run");
        }
        let log = DaemonLog::read(&text).with_context(|| format!("`{file}`"))?;
        return Ok(daemon::page(&log));
    }
    let (document, left_out) = document(&text).with_context(|| format!("`{file}`"))?;
    let recording = arguments.recording.as_deref();
    let exchanges = recording.map(|file| {
        let recording = recorded::open(file, false)?;
        exchanges(&recording, &format!("the recording {}", file.display()))
    });
    let ceilings = match &arguments.calibrated {
        Some(file) => Some(calibrated(file)?),
        None => ceilings_of_model(&document),
    };
    Ok(drawn(
        &document,
        &Additions {
            left_out,
            exchanges: exchanges.transpose()?,
            ceilings,
        },
    ))
}

/// A record within bounds, and what it leaves out.
fn document(text: &str) -> Result<(RunDocument, Option<String>)> {
    if text.len() as u64 > input::MOST {
        bail!("it has more than {} MiB, the most of a record", input::MOST >> 20);
    }
    let (document, left_out) = RunDocument::read_shortened(text)?;
    Ok((document, left_out.sentence()))
}

fn drawn(document: &RunDocument, additions: &Additions) -> String {
    pinfold_page::run(document, policies::kind(&document.record.policy), additions)
}

/// The page of a run that has just ended. `recording` is the one that was simulated.
pub(crate) fn of_run(document: &RunDocument, recording: Option<&Recording>) -> Result<String> {
    let (document, left_out) = self::document(&serde_json::to_string(document)?)?;
    // Without the exchanges the page is still a page.
    let exchanges = recording.and_then(|recording| exchanges(recording, "the recording").ok());
    let ceilings = ceilings_of_model(&document);
    Ok(drawn(
        &document,
        &Additions {
            left_out,
            exchanges,
            ceilings,
        },
    ))
}

/// Which threads of a recording read what others have written.
fn exchanges(recording: &Recording, source: &str) -> Result<Exchanges> {
    let found = Interactions::within(recording, MOST_OF_EXCHANGES)?;
    Ok(Exchanges {
        counted: format!("Lines that one thread has read after another wrote them, from {source}."),
        unit: "line",
        pairs: found.communications,
    })
}

fn calibrated(file: &Path) -> Result<Ceilings> {
    let name = file.display().to_string();
    let text = input::text(file, input::MOST).with_context(|| format!("cannot read the model `{name}`"))?;
    let model = Model::parse(&name, &text).context("`pinfold calibrate --model` writes the model of a machine")?;
    Ok(ceilings(&model))
}

/// The ceilings of the model that a run was simulated on, if pinfold has it.
fn ceilings_of_model(document: &RunDocument) -> Option<Ceilings> {
    let model = builtin(&document.simulation.as_ref()?.model)?;
    Some(ceilings(&model))
}

fn ceilings(model: &Model) -> Ceilings {
    let per_package = model.cores() / model.packages();
    Ceilings {
        source: format!("the model {}", model.name),
        instructions: model.cores() as f64 * model.clock(per_package).0 / model.core.base_cpi.value().0,
        node_bandwidth: model.memory.bandwidth.value().0,
        nodes: model.nodes(),
    }
}

fn two_runs(first: &Path, second: &Path) -> Result<String> {
    let read = |file: &Path| {
        let name = file.display();
        let text = input::text(file, input::MOST_OF_LOG).with_context(|| format!("cannot read `{name}`"))?;
        if DaemonLog::is_log(&text) {
            bail!("`{name}` is the log of a daemon, and only runs are compared: give the log alone");
        }
        let (document, _) = document(&text).with_context(|| format!("`{name}`"))?;
        Ok(document)
    };
    let documents = [read(first)?, read(second)?];
    let names = [first, second].map(|file| file.display().to_string());
    let run = |number: usize| NamedRun {
        name: &names[number],
        document: &documents[number],
    };
    Ok(pinfold_page::two_runs([run(0), run(1)]))
}
