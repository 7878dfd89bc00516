//! The accesses that a recording holds, for a program that really runs.

use anyhow::{Context, Result, bail};
use pinfold_core::memory::{MappedArea, MappedBacking, RecordedArea, RecordedProfile};
use pinfold_core::size_text;
use pinfold_trace::{Area, Backing, MappedFile, Mappings, Recording};
use std::path::Path;

/// Reads the accesses of a recording, and its mappings.
pub(crate) fn read(file: &Path) -> Result<RecordedProfile> {
    let option = || format!("--profile {}", file.display());
    let recording = Recording::open(file).with_context(option)?;
    let mappings = Mappings::of(&recording).with_context(option)?;
    if mappings.pages.is_empty() {
        bail!("{}: the recording holds no data access", option());
    }
    let program = Path::new(&recording.header().program);
    Ok(RecordedProfile {
        recording: file.display().to_string(),
        program: program.canonicalize().unwrap_or_else(|_| program.to_owned()),
        threads: recording.threads().len(),
        areas: mappings
            .areas
            .iter()
            .map(|area| recorded(area, &mappings.files))
            .collect(),
        pages: mappings
            .pages
            .into_iter()
            .map(|page| (page.address, page.threads))
            .collect(),
    })
}

fn recorded(area: &Area, files: &[MappedFile]) -> RecordedArea {
    RecordedArea {
        area: MappedArea {
            start: area.start,
            end: area.end,
            backing: match &area.backing {
                Backing::Anonymous | Backing::AnonymousFixed => MappedBacking::Anonymous,
                Backing::Shared => MappedBacking::Shared,
                Backing::Found => MappedBacking::Other,
                Backing::Stack => MappedBacking::Stack,
                Backing::Heap => MappedBacking::Heap,
                Backing::BehindFile(file) => MappedBacking::BehindFile(file.clone(), area.offset),
                Backing::File(file) => MappedBacking::File(file.clone(), area.offset),
            },
            writable: area.writable,
            accessible: area.accessible,
        },
        name: name(area),
        order: area.order,
        changed: match &area.backing {
            Backing::File(file) | Backing::BehindFile(file) => has_changed(file, files),
            _ => false,
        },
    }
}

/// The area as text; with its length where several areas have the same text.
fn name(area: &Area) -> String {
    match area.backing {
        Backing::Anonymous | Backing::AnonymousFixed | Backing::Shared => {
            format!("{} of {}", area.backing, size_text(area.end - area.start))
        }
        _ => area.backing.to_string(),
    }
}

/// Whether a file has changed since it was recorded, or does not exist any more.
fn has_changed(file: &Path, files: &[MappedFile]) -> bool {
    let recorded = files.iter().find(|recorded| recorded.file == file);
    let now = file.metadata();
    !matches!((recorded, now), (Some(recorded), Ok(now)) if recorded.is_of(&now))
}
