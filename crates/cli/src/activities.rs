//! What SAM's mapper is told with: which events make its rates on a processor, and from when on they are too much.

use anyhow::{Context, Result, anyhow, bail};
use pinfold_core::Activity;
use pinfold_linux::counters::{self, Availability, Request};
use pinfold_linux::pfm::{self, PmuKind};
use pinfold_policy::sam::{ActivityEvents, MapperEvents, Thresholds};
use pinfold_sim::EventSet;
use pinfold_sim::model::{self, Model};
use std::fs;
use std::path::Path;

/// The clock of a task in nanoseconds of its processor time: what stands for cycles where none can be counted.
const TASK_CLOCK: &str = "task-clock";

/// What else `pinfold run` and the daemon can do where no event set can be used.
const REMEDY: &str = "name events of the kernel that are to stand for SAM's activities, such as --metric \
                      memory_bandwidth=page-faults with --thresholds, or simulate a machine with --machine";

/// Bytes of a cache line.
const LINE: f64 = 64.0;

/// The model of the paper's machine.
const PAPERS_MACHINE: &str = "e5-2660v2x2";

/// By so much less than its greatest demand memory is taken to be saturated (SAM, section 2.2).
const BELOW_GREATEST: f64 = 0.8;

/// The events of a set that make what the mapper looks at.
pub(crate) fn of_set(set: &EventSet) -> Result<MapperEvents> {
    let activities = Activity::ALL.into_iter().filter_map(|activity| {
        let metric = set.metric(activity.name())?;
        Some(ActivityEvents {
            activity,
            add: metric.add.clone(),
            subtract: metric.subtract.clone(),
        })
    });
    let activities: Vec<ActivityEvents> = activities.collect();
    let single = |name: &str| Some(set.metric(name)?.add.first()?.clone());
    let Some(cycles) = single("cycles").filter(|_| !activities.is_empty()) else {
        bail!(
            "the events of {} say nothing of sharing and memory (events/{}.toml has no [[metric]]), so SAM cannot \
             be used there; \
             `pinfold machines` lists other machines",
            set.name,
            set.name
        );
    };
    Ok(MapperEvents {
        cycles,
        instructions: single("instructions"),
        activities,
    })
}

/// The events of a simulated machine.
pub(crate) fn of_machine(machine: &str) -> Result<MapperEvents> {
    let set = EventSet::of_processor(machine).with_context(|| {
        format!(
            "no event set names the machine `{machine}`, so SAM cannot be used there; events/*.toml has the sets, each with \
             its machines"
        )
    })?;
    of_set(&set)
}

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
    let set = set_here().map_err(|error| anyhow!("{error:#}; {REMEDY}"))?;
    let events = of_set(&set)?;
    let mut names: Vec<&str> = events.instructions.iter().map(String::as_str).collect();
    names.push(&events.cycles);
    for event in set.groups().into_iter().flatten() {
        if !names.contains(&event) {
            names.push(event);
        }
    }
    let requests = names.into_iter().map(|name| Request::Event(name.to_owned())).collect();
    Ok((events, requests))
}

/// Events of the kernel that stand for activities:
/// `memory_bandwidth=page-faults,inter_package_coherence=context-switches`. Their rates are by the nanosecond of
/// processor time.
pub(crate) fn parse(text: &str) -> Result<(MapperEvents, Vec<Request>)> {
    let mut activities: Vec<ActivityEvents> = vec![];
    for part in text.split(',') {
        let known = || Activity::ALL.map(Activity::name).join(", ");
        let Some((name, event)) = part.split_once('=').filter(|(_, event)| !event.is_empty()) else {
            bail!(
                "--metric `{text}`: `{part}` is no ACTIVITY=EVENT, such as memory_bandwidth=page-faults; \
                 activities are {}",
                known()
            );
        };
        let Some(activity) = Activity::ALL.into_iter().find(|activity| activity.name() == name) else {
            bail!(
                "--metric `{text}`: there is no activity `{name}`; there are {}",
                known()
            );
        };
        if activities.iter().any(|one| one.activity == activity) {
            bail!("--metric `{text}` names {name} twice; one event can stand for it");
        }
        activities.push(ActivityEvents {
            activity,
            add: vec![event.to_owned()],
            subtract: vec![],
        });
    }
    let events = MapperEvents {
        cycles: TASK_CLOCK.to_owned(),
        instructions: None,
        activities,
    };
    let requests = events
        .all()
        .into_iter()
        .map(|name| Request::Event(name.to_owned()))
        .collect();
    Ok((events, requests))
}

/// What the rates of a file of thresholds are by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Clock {
    /// Unhalted cycles of the task.
    Cycle,
    /// Nanoseconds of its processor time.
    Nanosecond,
    /// Seconds of its processor time.
    Second,
}

impl Clock {
    /// In the singular and short, as the file has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cycle => "cycle",
            Self::Nanosecond => "nanosecond",
            Self::Second => "second",
        }
    }

    pub(crate) fn in_full(self) -> &'static str {
        match self {
            Self::Cycle => "unhalted cycle",
            Self::Nanosecond => "nanosecond of processor time",
            Self::Second => "second of processor time",
        }
    }
}

/// The thresholds of a file, for rates by this clock. A file that does not say by which its own are is taken to be by
/// it.
pub(crate) fn read_thresholds(file: &Path, by: Clock) -> Result<Thresholds> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the thresholds `{}`", file.display()))?;
    let read = || -> Result<(Option<Clock>, Thresholds)> {
        let mut table: toml::Table = toml::from_str(&text)?;
        let per = table.remove("per").map(toml::Value::try_into).transpose()?;
        Ok((per, table.try_into()?))
    };
    let (per, mut thresholds) = read().with_context(|| {
        format!(
            "`{}` has no thresholds: it needs coherence, remote, memory and package_memory, and may say in `per` what \
             they are by, cycle, nanosecond or second",
            file.display()
        )
    })?;
    if let Some(per) = per.filter(|&per| per != by) {
        bail!(
            "`{}` has thresholds in events per {}, and what is counted here is told per {}: measure them for the same \
             --metric, or without one (`pinfold calibrate --thresholds`)",
            file.display(),
            per.in_full(),
            by.in_full()
        );
    }
    thresholds.check().with_context(|| format!("`{}`", file.display()))?;
    if thresholds.source.is_empty() {
        thresholds.source = file.display().to_string();
    }
    Ok(thresholds)
}

/// Those of a model. Coherence is the paper's. Memory follows from the model's bandwidth: where the events have all
/// lines in them, it is 20 % below what tasks that copy can have, a line that is copied being two misses and a line
/// that is written; where prefetched lines are not in them, the paper's number for its machine, by as much more as the
/// model's memory gives than that machine's.
pub(crate) fn thresholds_of_model(model: &Model) -> Result<Thresholds> {
    let paper = Thresholds::paper();
    let counts_prefetches =
        EventSet::of_processor(&model.name).is_some_and(|set| set.counts_prefetches(Activity::MemoryBandwidth.name()));
    let package_memory = if counts_prefetches {
        BELOW_GREATEST * copied_lines(model)
    } else {
        let machine = model::builtin(PAPERS_MACHINE).context("the paper's machine is no built-in model")?;
        paper.package_memory * copied_lines(model) / copied_lines(&machine)
    };
    let cores = model.cores() as f64 / model.packages() as f64;
    Ok(Thresholds {
        source: format!(
            "coherence: Srikanthan, Dwarkadas and Shen (USENIX ATC 2015); memory: theirs, for the \
             bandwidth of the model {}",
            model.name
        ),
        memory: package_memory / cores,
        package_memory,
        ..paper
    })
}

/// The lines a cycle that memory reads at most, of one package, while tasks copy.
fn copied_lines(model: &Model) -> f64 {
    let write_cost = model.memory.write_cost.as_ref().map_or(1.0, |cost| cost.value().0);
    let nodes = (model.nodes() as f64 / model.packages() as f64).max(1.0);
    let lines = model.memory.bandwidth.value().0 / LINE / model.frequency().0 * nodes;
    lines * 2.0 / (2.0 + write_cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_with_metrics_gives_events_for_the_mapper() {
        for set in EventSet::all().into_iter().filter(|set| !set.metrics.is_empty()) {
            let events = of_set(&set).unwrap();
            assert!(events.instructions.is_some(), "{}", set.name);
            let named = set
                .metrics
                .iter()
                .filter(|metric| metric.name != "cycles" && metric.name != "instructions");
            assert_eq!(events.activities.len(), named.count(), "{}", set.name);
        }
    }

    #[test]
    fn a_machine_whose_events_say_nothing_of_sharing_is_named_with_the_remedy() {
        let error = of_machine("opteron-6164x4").unwrap_err().to_string();
        assert!(
            error.contains("amd-family-10h") && error.contains("pinfold machines"),
            "{error}"
        );
    }

    #[test]
    fn kernel_events_stand_for_activities_by_name() {
        let (events, requests) =
            parse("memory_bandwidth=page-faults,inter_package_coherence=context-switches").unwrap();
        assert_eq!(events.cycles, TASK_CLOCK);
        assert_eq!((events.activities.len(), requests.len()), (2, 3));
        for (text, part) in [
            ("page-faults", "no ACTIVITY=EVENT"),
            ("bandwidth=page-faults", "no activity `bandwidth`"),
            ("remote_dram=a,remote_dram=b", "twice"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_models_thresholds_grow_with_its_bandwidth() {
        let of = |name| thresholds_of_model(&model::builtin(name).unwrap()).unwrap();
        let (old, new, amd) = (of(PAPERS_MACHINE), of("xeon-8480x2"), of("epyc-9654x2"));
        assert!([&old, &new, &amd].iter().all(|one| one.check().is_ok()));
        assert!((old.package_memory - 0.034).abs() < 1e-12, "the paper's own");
        assert!(new.package_memory > old.package_memory);
    }
}
