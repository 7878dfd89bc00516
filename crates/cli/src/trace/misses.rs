//! `pinfold trace misses`: how often a recorded thread misses in caches of its own, of any geometry.

use crate::run::number;
use crate::{console, machine};
use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_core::{CacheType, Topology, digits};
use pinfold_sim::window::{Geometry, MissCounter, Misses};
use pinfold_trace::{Batch, Recording, Thread};
use serde::Serialize;
use std::io::{self, Write};

/// Which caches, and which threads.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) file: super::File,

    #[command(flatten)]
    machine: machine::Arguments,

    /// A cache, nearest to the core first: 32k,8,64 has 32 KiB in 8 ways of 64-byte lines, as valgrind's --D1 and
    /// --LL have it. [default: the caches of --machine, or of this machine].
    #[arg(long = "level", value_name = "SIZE,WAYS,LINE", value_parser = geometry, conflicts_with = "machine")]
    levels: Vec<Geometry>,

    /// Only the thread of this number in the recording.
    #[arg(long, value_parser = number::within(0u32, u32::MAX), value_name = "N")]
    thread: Option<u32>,
}

/// Parses a cache as cachegrind's options have it, with sizes that may end in k or M.
fn geometry(text: &str) -> Result<Geometry, String> {
    let words: Vec<&str> = text.split(',').collect();
    let [size, ways, line] = words[..] else {
        return Err("not a cache; write its size, ways and line: 32k,8,64".to_owned());
    };
    let (digits, shift) = match size.as_bytes().last() {
        Some(b'k' | b'K') => (&size[..size.len() - 1], 10),
        Some(b'm' | b'M') => (&size[..size.len() - 1], 20),
        _ => (size, 0),
    };
    let number = |text: &str, what: &str| {
        digits::decimal::<u32>(text)
            .filter(|&number| number > 0)
            .ok_or_else(|| format!("`{text}` is not a {what}; write a cache as 32k,8,64"))
    };
    let geometry = Geometry {
        bytes: u64::from(number(digits, "size")?) << shift,
        ways: number(ways, "number of ways")?,
        line: number(line, "number of bytes of a line")?,
    };
    // The counter itself says what is wrong with a cache.
    MissCounter::new(&[geometry]).map_err(|error| error.to_string())?;
    Ok(geometry)
}

#[derive(Serialize)]
struct Document<'a> {
    header: &'a pinfold_trace::Header,
    levels: Vec<LevelDocument>,
    threads: Vec<ThreadDocument>,
}

#[derive(Serialize)]
struct LevelDocument {
    bytes: u64,
    ways: u32,
    line: u32,
}

#[derive(Serialize)]
struct ThreadDocument {
    number: u32,
    levels: Vec<MissesDocument>,
}

#[derive(Serialize)]
struct MissesDocument {
    reads: u64,
    writes: u64,
    read_misses: u64,
    write_misses: u64,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let geometries = if arguments.levels.is_empty() {
        let topology = arguments.machine.topology()?;
        caches_of(&topology)?
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
    let mut counts = vec![];
    for thread in threads {
        counts.push((thread.number, count(&recording, thread, &geometries)?));
    }
    if arguments.file.json {
        print_json(&recording, &geometries, &counts)
    } else {
        console::stream(|out| print_table(out, &geometries, &counts))?;
        Ok(())
    }
}

/// The data caches of the first PU that may be used, nearest to it first.
fn caches_of(topology: &Topology) -> Result<Vec<Geometry>> {
    let first = topology.allowed_pus().iter().next().context("the machine has no PU")?;
    let mut caches: Vec<_> = topology
        .objects()
        .iter()
        .filter(|object| object.pus.contains(first))
        .filter_map(|object| object.cache)
        .filter(|cache| cache.cache_type != CacheType::Instruction)
        .collect();
    caches.sort_by_key(|cache| cache.level);
    if caches.is_empty() {
        bail!(
            "{} does not tell its caches; give them with --level SIZE,WAYS,LINE",
            topology.name()
        );
    }
    caches
        .iter()
        .map(|cache| match (cache.size, cache.ways, cache.line_size) {
            (Some(bytes), Some(ways), Some(line)) => Ok(Geometry { bytes, ways, line }),
            _ => bail!(
                "{} does not tell the size, the ways and the line of its L{}; give all caches with --level SIZE,WAYS,LINE",
                topology.name(),
                cache.level
            ),
        })
        .collect()
}

fn count(recording: &Recording, thread: &Thread, geometries: &[Geometry]) -> Result<Vec<Misses>> {
    let mut counter = MissCounter::new(geometries)?;
    let mut reader = recording.read(thread);
    let mut batch: Batch = Batch::default();
    while reader.next_batch(&mut batch)? {
        for access in &batch.accesses {
            counter.access(access.address, u64::from(access.size), access.write)?;
        }
    }
    Ok(counter.misses())
}

fn print_json(recording: &Recording, geometries: &[Geometry], counts: &[(u32, Vec<Misses>)]) -> Result<()> {
    let levels = geometries.iter().map(|geometry| LevelDocument {
        bytes: geometry.bytes,
        ways: geometry.ways,
        line: geometry.line,
    });
    let threads = counts.iter().map(|(number, misses)| ThreadDocument {
        number: *number,
        levels: misses
            .iter()
            .map(|misses| MissesDocument {
                reads: misses.reads,
                writes: misses.writes,
                read_misses: misses.read_misses,
                write_misses: misses.write_misses,
            })
            .collect(),
    });
    let document = Document {
        header: recording.header(),
        levels: levels.collect(),
        threads: threads.collect(),
    };
    console::print_json(&document)
}

fn print_table(out: &mut dyn Write, geometries: &[Geometry], counts: &[(u32, Vec<Misses>)]) -> io::Result<()> {
    writeln!(
        out,
        "{:>6} {:>5} {:>12} {:>5} {:>5} {:>14} {:>14} {:>7} {:>14} {:>14} {:>7}",
        "thread", "level", "size", "ways", "line", "reads", "read misses", "", "writes", "write misses", ""
    )?;
    for (thread, misses) in counts {
        for (level, (geometry, misses)) in geometries.iter().zip(misses).enumerate() {
            writeln!(
                out,
                "{thread:>6} {:>5} {:>12} {:>5} {:>5} {:>14} {:>14} {:>7} {:>14} {:>14} {:>7}",
                level + 1,
                size(geometry.bytes),
                geometry.ways,
                geometry.line,
                misses.reads,
                misses.read_misses,
                share(misses.read_misses, misses.reads),
                misses.writes,
                misses.write_misses,
                share(misses.write_misses, misses.writes),
            )?;
        }
    }
    Ok(())
}

fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// A share in percent; nothing where there is no whole.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.2} %", part as f64 / whole as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_written_as_cachegrind_has_it() {
        let written = |text: &str| geometry(text).map(|geometry| (geometry.bytes, geometry.ways, geometry.line));
        assert_eq!(written("32768,8,64"), Ok((32768, 8, 64)));
        assert_eq!(written("32k,8,64"), Ok((32768, 8, 64)));
        assert_eq!(written("30M,20,128"), Ok((30 << 20, 20, 128)));
        for (text, words) in [
            ("32k,8", "32k,8,64"),
            ("much,8,64", "is not a size"),
            ("32k,0,64", "is not a number of ways"),
            ("32k,8,48", "power of two"),
            ("33k,7,64", "multiple"),
            ("4294967040M,16777215,64", "too large"),
        ] {
            let error = geometry(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
