//! `pinfold trace`: what a recording holds.

mod interactions;
mod misses;

use crate::console;
use crate::record::{self, region_name};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use pinfold_trace::{Header, Metrics, Recording, Summary};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what a recording holds.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    /// Show threads, regions, accesses, footprint, sharing, and the memory map.
    Info(File),
    /// Show the memory behaviour that does not depend on a machine: reuse distances, strides, reads and writes,
    /// communication.
    Metrics(interactions::Arguments),
    /// Count how often each thread misses in caches of a given geometry, as if it ran alone. The rules are
    /// cachegrind's: LRU, stores allocate, a level is looked up when the one before misses, sets are chosen by
    /// virtual address.
    Misses(misses::Arguments),
}

#[derive(Args)]
struct File {
    /// The recording.
    #[arg(value_name = "FILE")]
    path: PathBuf,

    /// Read a damaged recording up to the damage.
    #[arg(long)]
    salvage: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl File {
    fn open(&self) -> Result<Recording> {
        record::open(&self.path, self.salvage)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.question {
        Question::Info(file) => {
            let recording = file.open()?;
            let mut summary = Summary::of(&recording)?;
            for region in &mut summary.regions {
                let place = recording
                    .regions()
                    .iter()
                    .find(|place| place.identity == region.address);
                region.function = place.and_then(region_name);
            }
            if file.json {
                print_json(&recording, &summary)?;
            } else {
                console::stream(|out| pinfold_view::recording::info(out, recording.header(), &summary))?;
            }
        }
        Question::Metrics(arguments) => match arguments.paper {
            None if arguments.machine.machine.is_some() => {
                bail!("--machine has no effect without --paper: the other metrics do not depend on a machine")
            }
            None => metrics(&arguments.file)?,
            Some(interactions::Paper::Denoyelle) => interactions::run(arguments)?,
        },
        Question::Misses(arguments) => misses::run(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn metrics(file: &File) -> Result<()> {
    let recording = file.open()?;
    let metrics = Metrics::of(&recording)?;
    if file.json {
        print_json(&recording, &metrics)
    } else {
        console::stream(|out| pinfold_view::recording::metrics(out, recording.threads(), &metrics))?;
        Ok(())
    }
}

fn print_json<T: Serialize>(recording: &Recording, content: &T) -> Result<()> {
    #[derive(Serialize)]
    struct Document<'a, T> {
        header: &'a Header,
        #[serde(flatten)]
        content: &'a T,
    }
    let document = Document {
        header: recording.header(),
        content,
    };
    console::print_json(&document)
}
