//! `pinfold trace misses`: how often a recorded thread misses in caches of given geometries, as if it ran alone.

use crate::run::number;
use crate::{console, machine};
use anyhow::{Result, bail};
use clap::Args;
use pinfold_sim::misses::{self, ThreadMisses};
use pinfold_sim::window::Geometry;
use pinfold_trace::{Header, Thread};
use serde::Serialize;

/// Which caches, and which threads.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) file: super::File,

    #[command(flatten)]
    machine: machine::Arguments,

    /// A cache, nearest to the core first: 32k,8,64 has 32 KiB in 8 ways of 64-byte lines, as valgrind's --D1 and
    /// --LL have it. [default: the caches of --machine, or of this machine].
    #[arg(long = "level", value_name = "SIZE,WAYS,LINE", conflicts_with = "machine")]
    levels: Vec<Geometry>,

    /// Only the thread of this number in the recording.
    #[arg(long, value_parser = number::within(0u32, u32::MAX), value_name = "N")]
    thread: Option<u32>,
}

#[derive(Serialize)]
struct Document<'a> {
    header: &'a Header,
    levels: &'a [Geometry],
    threads: &'a [ThreadMisses],
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let geometries = if arguments.levels.is_empty() {
        misses::caches_of(&arguments.machine.topology()?)?
    } else {
        arguments.levels.clone()
    };
    let recording = arguments.file.open()?;
    let threads: Vec<&Thread> = recording
        .threads()
        .iter()
        .filter(|thread| arguments.thread.is_none_or(|wanted| thread.number == wanted))
        .collect();
    if threads.is_empty() {
        let known: Vec<String> = recording
            .threads()
            .iter()
            .map(|thread| thread.number.to_string())
            .collect();
        bail!(
            "{} has no thread {}: there are {}",
            arguments.file.path.display(),
            arguments
                .thread
                .map_or_else(|| "at all".to_owned(), |thread| thread.to_string()),
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        );
    }
    let counted: Vec<ThreadMisses> = threads
        .into_iter()
        .map(|thread| misses::thread_misses(&recording, thread, &geometries))
        .collect::<Result<_, _>>()?;
    if arguments.file.json {
        console::print_json(&Document {
            header: recording.header(),
            levels: &geometries,
            threads: &counted,
        })
    } else {
        console::stream(|out| pinfold_view::recording::misses(out, &geometries, &counted))?;
        Ok(())
    }
}
