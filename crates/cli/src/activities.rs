//! The events of SAM's activities on this machine, and files of thresholds. `pinfold_calibrate` decides; this module
//! reads the machine and the files.

use anyhow::{Context, Result, anyhow, bail};
use pinfold_calibrate::activities::{ActivityError, of_set, parse, with_reads};
use pinfold_calibrate::thresholds::{self, Clock};
use pinfold_linux::counters::{self, Availability, Request};
use pinfold_linux::input;
use pinfold_linux::pfm::{self, PmuKind};
use pinfold_policy::sam::{MapperEvents, Thresholds};
use pinfold_sim::EventSet;
use std::path::Path;

/// The alternatives of `pinfold run` and the daemon if no event set can be used.
const REMEDY: &str = "name events of the kernel that are to stand for SAM's activities, such as --metric \
                      memory_bandwidth=page-faults with --thresholds, or simulate a machine with --machine";

/// The event set of this machine's processor, where its events can be counted.
pub(crate) fn set_here() -> Result<EventSet> {
    match counters::hardware_counters() {
        Availability::Available => {}
        Availability::Absent { why } | Availability::Forbidden { why } => {
            bail!("SAM moves threads by hardware counters: {why}")
        }
    }
    let library = pfm::library()?;
    let present = library
        .pmus()
        .iter()
        .filter(|pmu| pmu.present && pmu.kind == PmuKind::Core);
    let names: Vec<&str> = present.map(|pmu| pmu.name.as_str()).collect();
    names.iter().find_map(|name| EventSet::of_pmu(name)).with_context(|| {
        format!(
            "there is no event set for this processor ({}), so it is not known which of its events show sharing",
            names.join(", ")
        )
    })
}

/// The events of this machine's processor, with the requests that count them: in groups that the counters can hold, so
/// that each group is counted at a time.
pub(crate) fn here() -> Result<(MapperEvents, Vec<Request>)> {
    counted_here(of_set, EventSet::groups)
}

/// The same for placement models.
pub(crate) fn here_with_reads() -> Result<(MapperEvents, Vec<Request>)> {
    counted_here(with_reads, EventSet::groups_with_reads)
}

fn counted_here(
    events: fn(&EventSet) -> Result<MapperEvents, ActivityError>,
    groups: fn(&EventSet) -> Vec<Vec<&str>>,
) -> Result<(MapperEvents, Vec<Request>)> {
    let set = set_here().map_err(|error| anyhow!("{error:#}; {REMEDY}"))?;
    let events = events(&set)?;
    let mut names: Vec<&str> = events.instructions.iter().map(String::as_str).collect();
    names.push(&events.cycles);
    for event in groups(&set).into_iter().flatten() {
        if !names.contains(&event) {
            names.push(event);
        }
    }
    let requests = names.into_iter().map(|name| Request::Event(name.to_owned())).collect();
    Ok((events, requests))
}

/// Events of the kernel that stand for activities, with the requests that count them.
pub(crate) fn named(text: &str) -> Result<(MapperEvents, Vec<Request>)> {
    let events = parse(text)?;
    let requests = events.all().into_iter();
    let requests = requests.map(|name| Request::Event(name.to_owned())).collect();
    Ok((events, requests))
}

/// The thresholds of a file, for rates by this clock.
pub(crate) fn read_thresholds(file: &Path, by: Clock) -> Result<Thresholds> {
    let text =
        input::text(file, input::MOST).with_context(|| format!("cannot read the thresholds `{}`", file.display()))?;
    Ok(thresholds::parse(&file.display().to_string(), &text, by)?)
}
