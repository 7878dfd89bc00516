//! `pinfold explain`: the reason for each decision of a run, as text, from the record that `pinfold run --json` wrote;
//! or what a placement model has learned.

use crate::console;
use crate::run::policies;
use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_core::placement::{Threads, ToolForm};
use pinfold_files::input;
use pinfold_policy::belief::Belief;
use pinfold_policy::classify::PlacementModel;
use pinfold_policy::react::ReactModel;
use pinfold_runtime::{RunDocument, to_be_shown};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::error::Error;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

/// Explain in words what a run decided, and why; or what a model looks at, and what it was learned from; or what a
/// belief expects before any trial.
///
/// FILE is what `pinfold run --json FILE`, `pinfold learn train classify -o FILE` or `pinfold learn train react -o
/// FILE` wrote, or a belief.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold run --json run.json -- ./solver input.dat
  pinfold explain run.json
  pinfold explain run.json --format OMP_PLACES
      the variables that place its threads without pinfold")]
pub(crate) struct Arguments {
    /// The record of a run, a model, or a belief.
    #[arg(value_name = "FILE.json")]
    file: PathBuf,

    /// Print only the placement that was kept, as another tool takes it: hwloc-calc, taskset, likwid, numactl, slurm,
    /// `OMP_PLACES`, `KMP_AFFINITY` or `GOMP_CPU_AFFINITY`.
    #[arg(long, value_name = "TOOL")]
    format: Option<ToolForm>,
}

/// What shows that a file is a model or a belief.
#[derive(Deserialize)]
struct Kind {
    pinfold: Option<serde_json::Value>,
    placement_model: Option<IgnoredAny>,
    react_model: Option<IgnoredAny>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let file = arguments.file.display();
    let text = input::text(&arguments.file, input::MOST).with_context(|| format!("cannot read `{file}`"))?;
    if let Some(form) = arguments.format {
        let (placed, lost) = placed(&text, form).with_context(|| format!("`{file}`"))?;
        console::print(&format!("{placed}\n"))?;
        if let Some(lost) = lost {
            console::say(lost);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let explained = explained(&text).with_context(|| format!("`{file}`"))?;
    console::print(&explained)?;
    Ok(ExitCode::SUCCESS)
}

/// The placement that a run has kept, as another tool takes it, and what that tool cannot do of it.
fn placed(text: &str, form: ToolForm) -> Result<(String, Option<String>)> {
    let document = RunDocument::read(text)?;
    let record = &document.record;
    let policy = &record.policy;
    if record
        .by_policy
        .regions
        .as_ref()
        .is_some_and(|regions| regions.kept() > 0)
    {
        bail!("--policy {policy} gave each parallel region a placement of its own, which no other tool takes");
    }
    let search = &record.search;
    let chosen = search
        .chosen
        .as_ref()
        .and_then(|chosen| search.candidates.get(chosen.candidate));
    let Some(kept) = chosen.or_else(|| record.kept_from_start()) else {
        bail!(
            "the run kept no placement of all threads (--policy {policy}); `pinfold explain` without --format says why"
        );
    };
    if let Some(why) = &kept.not_pinned {
        bail!("the run kept no placement: threads ran unpinned, because {why}");
    }
    let threads = match (&kept.pus, &kept.within) {
        (Some(pinning), _) => Some(Threads::Pinned(pinning)),
        (None, Some(within)) => Some(Threads::Within(within)),
        (None, None) => None,
    };
    let pages = kept.pages.or(document.page_map);
    if threads.is_none() && pages.is_none() {
        bail!("the program was fastest unpinned, so another tool has nothing to do");
    }
    let of_pages = pages.and_then(|pages| form.page_option(pages));
    let lost = pages
        .filter(|_| of_pages.is_none())
        .map(|pages| format!("The pages of the run were {pages}, which {form} does not take."));
    let of_threads = match threads {
        Some(threads) => Some(form.of(threads).with_context(|| {
            format!("threads ran unpinned on some CPUs, which {form} does not take; taskset and numactl do")
        })?),
        None => None,
    };
    let words: Vec<String> = of_threads.into_iter().chain(of_pages).collect();
    if words.is_empty() {
        bail!("only the pages of the program were placed, and {form} takes no places of pages; numactl does");
    }
    Ok((words.join(" "), lost))
}

fn explained(text: &str) -> Result<String> {
    let kind = serde_json::from_str(text).unwrap_or(Kind {
        pinfold: None,
        placement_model: None,
        react_model: None,
    });
    if kind.placement_model.is_some() {
        return in_words::<PlacementModel>(text);
    }
    if kind.react_model.is_some() {
        return in_words::<ReactModel>(text);
    }
    if kind.pinfold.is_some_and(|kind| kind == "belief") {
        return in_words::<Belief>(text);
    }
    let (document, left_out) = RunDocument::read_shortened(text)?;
    let policy = policies::kind(&document.record.policy);
    let left_out = left_out.sentence().map_or_else(String::new, |sentence| sentence + "\n");
    Ok(document.explanation(policy) + &left_out)
}

/// A model in words, with names that can be shown. It is read as it is before, so that an error names the place in the
/// file.
fn in_words<Model>(text: &str) -> Result<String>
where
    Model: FromStr<Err: Error + Send + Sync + 'static> + Display,
{
    text.parse::<Model>()?;
    let shown = to_be_shown(serde_json::from_str(text)?).to_string();
    Ok(shown.parse::<Model>()?.to_string())
}
