//! `pinfold trace`: what a recording holds.

mod misses;

use crate::console;
use crate::record::{self, region_name};
use anyhow::Result;
use clap::{Args, Subcommand};
use pinfold_trace::{Area, Header, Metrics, Recording, Summary, Thread};
use serde::Serialize;
use std::io::{self, Write};
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
    Metrics(File),
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
                console::stream(|out| print_info(out, recording.header(), &summary))?;
            }
        }
        Question::Metrics(file) => {
            let recording = file.open()?;
            let metrics = Metrics::of(&recording)?;
            if file.json {
                print_json(&recording, &metrics)?;
            } else {
                console::stream(|out| print_metrics(out, recording.threads(), &metrics))?;
            }
        }
        Question::Misses(arguments) => misses::run(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
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

fn print_info(out: &mut dyn Write, header: &Header, summary: &Summary) -> io::Result<()> {
    writeln!(out, "command    {}", header.command.join(" "))?;
    if let Some(window) = &header.window {
        writeln!(out, "window     {window}")?;
    }
    let accesses: u64 = summary.threads.iter().map(|thread| thread.accesses).sum();
    let instructions: u64 = summary.threads.iter().map(|thread| thread.instructions).sum();
    writeln!(
        out,
        "accesses   {accesses} in {instructions} instructions of {} threads",
        summary.threads.len()
    )?;
    let about = if summary.exact_footprint { "" } else { "about " };
    writeln!(
        out,
        "footprint  {about}{} lines of 64 bytes, {about}{} pages of 4 KiB",
        summary.lines, summary.pages
    )?;
    writeln!(
        out,
        "sharing    {about}{} lines touched by two threads or more, {about}{} of them written",
        summary.shared_lines, summary.written_shared_lines
    )?;
    let per_access = if accesses > 0 {
        format!(", {:.3} an access", summary.stored as f64 / accesses as f64)
    } else {
        String::new()
    };
    writeln!(out, "file       {} bytes{per_access}\n", summary.stored)?;

    writeln!(
        out,
        "{:>6} {:>6} {:>14} {:>14} {:>14} {:>10} {:>9} {:>8} {:>8}",
        "thread", "parent", "instructions", "reads", "writes", "lines", "pages", "barriers", "waits"
    )?;
    for thread in &summary.threads {
        writeln!(
            out,
            "{:>6} {:>6} {:>14} {:>14} {:>14} {:>10} {:>9} {:>8} {:>8}",
            thread.number,
            thread
                .parent
                .map_or_else(|| "-".to_owned(), |parent| parent.to_string()),
            thread.instructions,
            thread.reads,
            thread.writes,
            thread.lines,
            thread.pages,
            thread.barriers,
            thread.futex_waits,
        )?;
    }
    print_areas(out, summary.areas.as_deref())?;
    if !summary.regions.is_empty() {
        writeln!(
            out,
            "\n{:>6} {:>18} {:>10} {:>8}  function",
            "region", "address", "executions", "threads"
        )?;
    }
    for region in &summary.regions {
        writeln!(
            out,
            "{:>6} {:>#18x} {:>10} {:>8}  {}",
            region.number,
            region.address,
            region.executions,
            region
                .threads
                .map_or_else(|| "-".to_owned(), |threads| threads.to_string()),
            region.function.as_deref().unwrap_or("-"),
        )?;
    }
    Ok(())
}

/// The parts of the address space that were accessed.
fn print_areas(out: &mut dyn Write, areas: Option<&[Area]>) -> io::Result<()> {
    let Some(areas) = areas else {
        writeln!(
            out,
            "\nThe recording does not tell what was mapped where: it is of an older format version."
        )?;
        return Ok(());
    };
    writeln!(
        out,
        "\n{:>18} {:>12} {:>14} {:>10}  mapping",
        "address", "bytes", "accesses", "from byte"
    )?;
    for area in areas {
        writeln!(
            out,
            "{:>#18x} {:>12} {:>14} {:>10}  {}",
            area.start,
            area.end - area.start,
            area.accesses,
            area.offset,
            area.backing
        )?;
    }
    Ok(())
}

fn print_metrics(out: &mut dyn Write, threads: &[Thread], metrics: &Metrics) -> io::Result<()> {
    let ratio = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    writeln!(out, "reads per write           {}", ratio(metrics.reads_per_write))?;
    writeln!(
        out,
        "accesses per instruction  {}\n",
        ratio(metrics.accesses_per_instruction)
    )?;
    writeln!(out, "uses of lines by reuse distance (other lines between)")?;
    print_histogram(out, &metrics.reuse_distances)?;
    writeln!(out, "{:>22} {:>16}\n", "first use", metrics.first_uses)?;
    writeln!(out, "accesses by stride (bytes from the same instruction's last)")?;
    print_histogram(out, &metrics.strides)?;
    if threads.len() < 2 {
        return Ok(());
    }
    let about = if metrics.exact_communication {
        ""
    } else {
        " (estimates)"
    };
    writeln!(
        out,
        "\nlines that one thread (row) wrote and another (column) read{about}"
    )?;
    write!(out, "{:>8}", "")?;
    for thread in threads {
        write!(out, " {:>10}", thread.number)?;
    }
    writeln!(out)?;
    for (thread, row) in threads.iter().zip(&metrics.communication) {
        write!(out, "{:>8}", thread.number)?;
        for lines in row {
            write!(out, " {lines:>10}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// A histogram whose first bucket is 0 and whose others go up to the powers of two.
fn print_histogram(out: &mut dyn Write, counts: &[u64]) -> io::Result<()> {
    let all: u64 = counts.iter().sum();
    for (bucket, count) in counts.iter().enumerate() {
        let range = match bucket {
            0 => "0".to_owned(),
            1 => "1".to_owned(),
            _ => format!("{} - {}", 1_u64 << (bucket - 1), (1_u128 << bucket) - 1),
        };
        writeln!(
            out,
            "{range:>22} {count:>16} {:>6.1} %",
            *count as f64 / all as f64 * 100.0
        )?;
    }
    Ok(())
}
