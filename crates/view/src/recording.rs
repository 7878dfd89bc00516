//! The content of a recording, as tables: threads, regions and areas, metrics, cache misses.

use pinfold_core::text::{one_line, words};
use pinfold_sim::misses::ThreadMisses;
use pinfold_sim::window::Geometry;
use pinfold_trace::{Area, Header, Metrics, RegionSummary, Summary, Thread, ThreadSummary};
use std::io::{self, Write};

/// Writes the summary of a recording.
pub fn info(out: &mut dyn Write, header: &Header, summary: &Summary) -> io::Result<()> {
    totals(out, header, summary)?;
    threads(out, &summary.threads)?;
    areas(out, summary.areas.as_deref())?;
    regions(out, &summary.regions)
}

fn totals(out: &mut dyn Write, header: &Header, summary: &Summary) -> io::Result<()> {
    writeln!(out, "command    {}", words(&header.command))?;
    if let Some(window) = &header.window {
        writeln!(out, "window     {}", one_line(&window.to_string()))?;
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
    writeln!(out, "file       {} bytes{per_access}\n", summary.stored)
}

fn threads(out: &mut dyn Write, summaries: &[ThreadSummary]) -> io::Result<()> {
    writeln!(
        out,
        "{:>6} {:>6} {:>14} {:>14} {:>14} {:>10} {:>9} {:>8} {:>8}",
        "thread", "parent", "instructions", "reads", "writes", "lines", "pages", "barriers", "waits"
    )?;
    for thread in summaries {
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
    Ok(())
}

fn regions(out: &mut dyn Write, summaries: &[RegionSummary]) -> io::Result<()> {
    if !summaries.is_empty() {
        writeln!(
            out,
            "\n{:>6} {:>18} {:>10} {:>8}  function",
            "region", "address", "executions", "threads"
        )?;
    }
    for region in summaries {
        writeln!(
            out,
            "{:>6} {:>#18x} {:>10} {:>8}  {}",
            region.number,
            region.address,
            region.executions,
            region
                .threads
                .map_or_else(|| "-".to_owned(), |threads| threads.to_string()),
            one_line(region.function.as_deref().unwrap_or("-")),
        )?;
    }
    Ok(())
}

/// The parts of the address space that were accessed.
fn areas(out: &mut dyn Write, summaries: Option<&[Area]>) -> io::Result<()> {
    let Some(summaries) = summaries else {
        writeln!(
            out,
            "\nThe recording has no memory map: it is of an older format version."
        )?;
        return Ok(());
    };
    writeln!(
        out,
        "\n{:>18} {:>12} {:>14} {:>10}  mapping",
        "address", "bytes", "accesses", "from byte"
    )?;
    for area in summaries {
        writeln!(
            out,
            "{:>#18x} {:>12} {:>14} {:>10}  {}",
            area.start,
            area.end - area.start,
            area.accesses,
            area.offset,
            one_line(&area.backing.to_string())
        )?;
    }
    Ok(())
}

/// Writes the metrics of a recording that do not depend on a machine.
pub fn metrics(out: &mut dyn Write, threads: &[Thread], metrics: &Metrics) -> io::Result<()> {
    let ratio = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    writeln!(out, "reads per write           {}", ratio(metrics.reads_per_write))?;
    writeln!(
        out,
        "accesses per instruction  {}\n",
        ratio(metrics.accesses_per_instruction)
    )?;
    writeln!(out, "uses of lines by reuse distance (other lines between)")?;
    histogram(out, &metrics.reuse_distances)?;
    writeln!(out, "{:>22} {:>16}\n", "first use", metrics.first_uses)?;
    writeln!(out, "accesses by stride (bytes from the same instruction's last)")?;
    histogram(out, &metrics.strides)?;
    if threads.len() < 2 {
        return Ok(());
    }
    communication(out, threads, metrics)
}

/// Writes metrics by their names. A value that needs a machine, or has no denominator, is `-`.
pub fn interactions(out: &mut dyn Write, metrics: &[(String, Option<f64>)]) -> io::Result<()> {
    for (name, value) in metrics {
        let value = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.6}"));
        writeln!(out, "{name:<28} {value:>18}")?;
    }
    Ok(())
}

/// The lines that one thread wrote and another read.
fn communication(out: &mut dyn Write, threads: &[Thread], metrics: &Metrics) -> io::Result<()> {
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
fn histogram(out: &mut dyn Write, counts: &[u64]) -> io::Result<()> {
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

/// Writes the misses of threads in caches of these geometries, nearest to the core first.
pub fn misses(out: &mut dyn Write, geometries: &[Geometry], threads: &[ThreadMisses]) -> io::Result<()> {
    writeln!(
        out,
        "{:>6} {:>5} {:>12} {:>5} {:>5} {:>14} {:>14} {:>7} {:>14} {:>14} {:>7}",
        "thread", "level", "size", "ways", "line", "reads", "read misses", "", "writes", "write misses", ""
    )?;
    for thread in threads {
        for (level, (geometry, misses)) in geometries.iter().zip(&thread.levels).enumerate() {
            writeln!(
                out,
                "{:>6} {:>5} {:>12} {:>5} {:>5} {:>14} {:>14} {:>7} {:>14} {:>14} {:>7}",
                thread.number,
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

/// A share in percent; a dash where the whole is zero.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.2} %", part as f64 / whole as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_trace::Backing;
    use proptest::prelude::*;
    use std::path::PathBuf;

    /// The summary of a recording whose names are all this text.
    fn shown(name: &str) -> String {
        let header = Header {
            recorder: name.to_owned(),
            architecture: name.to_owned(),
            page_size: 4096,
            command: vec![name.to_owned(), name.to_owned()],
            program: name.to_owned(),
            window: None,
        };
        let region = RegionSummary {
            number: 1,
            address: 0x1000,
            file: Some(PathBuf::from(name)),
            function: Some(name.to_owned()),
            executions: 2,
            threads: None,
        };
        let area = Area {
            start: 0,
            end: 4096,
            backing: Backing::File(PathBuf::from(name)),
            offset: 0,
            writable: true,
            accessible: true,
            order: 0,
            accesses: 3,
        };
        let summary = Summary {
            threads: vec![],
            regions: vec![region],
            lines: 1,
            pages: 1,
            shared_lines: 0,
            written_shared_lines: 0,
            exact_footprint: true,
            areas: Some(vec![area]),
            stored: 100,
        };
        let mut out = vec![];
        info(&mut out, &header, &summary).unwrap();
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn names_in_a_recording_add_no_line_and_no_control_character(name in any::<String>()) {
            let text = shown(&name);
            prop_assert_eq!(text.lines().count(), shown("a").lines().count());
            prop_assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
        }
    }

    #[test]
    fn an_escape_sequence_in_a_name_is_shown() {
        let text = shown("./\u{1b}]0;owned\u{7}\nforged");
        assert_eq!(text.matches("./\\x1b]0;owned\\x07\\nforged").count(), 4, "{text}");
    }
}
