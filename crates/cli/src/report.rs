//! `pinfold report`: a run, or the log of a daemon, as one HTML page.

use crate::console;
use crate::run::policies;
use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_linux::input;
use pinfold_linux::output::Output;
use pinfold_page::daemon::{self, DaemonLog};
use pinfold_runtime::RunDocument;
use std::path::PathBuf;
use std::process::ExitCode;

/// Draw a run, or what a daemon did, as one HTML page.
///
/// The page has the machine with threads and memory on it over time, the rate with the decisions, the counters, and
/// the reasons in words. It needs no network.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold run --json run.json -- ./solver input.dat
  pinfold report run.json -o run.html")]
pub(crate) struct Arguments {
    /// What `pinfold run --json FILE` wrote, or `pinfold daemon --log FILE --log-format json`.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Write the page to this file [default: standard output].
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let file = arguments.file.display();
    let text = input::text(&arguments.file, input::MOST_OF_LOG).with_context(|| format!("cannot read `{file}`"))?;
    let page = page(&text).with_context(|| format!("`{file}`"))?;
    match Output::optional("--output", arguments.output.as_deref())? {
        Some(output) => output.write(page.as_bytes())?,
        None => console::print(&page)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn page(text: &str) -> Result<String> {
    if DaemonLog::is_log(text) {
        return Ok(daemon::page(&DaemonLog::read(text)?));
    }
    if text.len() as u64 > input::MOST {
        bail!("it has more than {} MiB, the most of a record", input::MOST >> 20);
    }
    let (document, left_out) = RunDocument::read_shortened(text)?;
    let policy = policies::kind(&document.record.policy);
    Ok(pinfold_page::run(&document, policy, left_out.sentence().as_deref()))
}
