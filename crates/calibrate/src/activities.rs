//! The events and thresholds that SAM's mapper needs for a machine.

use pinfold_core::Activity;
use pinfold_policy::sam::{ActivityEvents, MapperEvents, ReadEvents, Thresholds};
use pinfold_sim::model::{self, Model};
use pinfold_sim::{EventSet, READS};

/// Why there are no events for SAM's activities.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActivityError {
    /// An event set has no metrics.
    #[error(
        "the events of {0} do not show sharing and memory (events/{0}.toml has no [[metric]]), so SAM cannot be used there; \
         `pinfold machines` lists other machines"
    )]
    NoMetrics(String),
    /// No event set names this machine.
    #[error(
        "no event set names the machine `{0}`, so SAM cannot be used there; events/*.toml has the sets, each with its machines"
    )]
    NoSet(String),
    /// A part of an assignment has the wrong form.
    #[error(
        "--metric `{text}`: `{part}` is not ACTIVITY=EVENT, such as memory_bandwidth=page-faults; activities are {known}",
        known = known_activities()
    )]
    Syntax {
        /// The whole assignment.
        text: String,
        /// The part.
        part: String,
    },
    /// An activity is not known.
    #[error("--metric `{text}`: there is no activity `{name}`; the activities are {known}", known = known_activities())]
    Unknown {
        /// The whole assignment.
        text: String,
        /// The name.
        name: String,
    },
    /// The text names no activity.
    #[error(
        "--metric `{0}` names no activity, such as memory_bandwidth=page-faults; activities are {known}",
        known = known_activities()
    )]
    NoActivity(String),
    /// An activity has two events.
    #[error("--metric `{text}` names {name} twice; give one event for it")]
    Twice {
        /// The whole assignment.
        text: String,
        /// The name.
        name: String,
    },
}

fn known_activities() -> String {
    format!("{} and {PROGRESS}", Activity::ALL.map(Activity::name).join(", "))
}

/// The name that assigns the event for a task's progress, instead of instructions. It is not an activity.
const PROGRESS: &str = "progress";

/// The clock of a task: nanoseconds of its processor time. It replaces cycles on machines that cannot count them.
const TASK_CLOCK: &str = "task-clock";

/// The size of a cache line in bytes.
const LINE: f64 = 64.0;

/// The model of the machine in SAM's paper.
const PAPERS_MACHINE: &str = "e5-2660v2x2";

/// The memory threshold is this share of the highest demand (SAM, section 2.2).
const BELOW_GREATEST: f64 = 0.8;

/// The events of a set for the mapper.
pub fn mapper_events(set: &EventSet) -> Result<MapperEvents, ActivityError> {
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
        return Err(ActivityError::NoMetrics(set.name.clone()));
    };
    Ok(MapperEvents {
        cycles,
        instructions: single("instructions"),
        activities,
        reads: None,
    })
}

/// The events of a set for the mapper, with the reads from memory that placement models need.
pub fn with_reads(set: &EventSet) -> Result<MapperEvents, ActivityError> {
    let added = |name: &str| Some(set.metric(name)?.add.clone());
    let [local, remote] = READS.map(added);
    Ok(MapperEvents {
        reads: local.zip(remote).map(|(local, remote)| ReadEvents { local, remote }),
        ..mapper_events(set)?
    })
}

/// The event set of a simulated machine.
pub fn set_of_machine(machine: &str) -> Result<EventSet, ActivityError> {
    EventSet::for_processor(machine).ok_or_else(|| ActivityError::NoSet(machine.to_owned()))
}

/// The kernel events that the user assigns to activities:
/// `memory_bandwidth=page-faults,inter_package_coherence=context-switches`. Their rates are per nanosecond of processor
/// time. `progress=EVENT` names the event for progress. The default is instructions.
pub fn parse(text: &str) -> Result<MapperEvents, ActivityError> {
    let mut activities: Vec<ActivityEvents> = vec![];
    let mut progress = None;
    for part in text.split(',') {
        let text = || text.to_owned();
        let Some((name, event)) = part.split_once('=').filter(|(_, event)| !event.is_empty()) else {
            let part = part.to_owned();
            return Err(ActivityError::Syntax { text: text(), part });
        };
        let twice = || ActivityError::Twice {
            text: text(),
            name: name.to_owned(),
        };
        if name == PROGRESS {
            if progress.replace(event.to_owned()).is_some() {
                return Err(twice());
            }
            continue;
        }
        let Some(activity) = Activity::ALL.into_iter().find(|activity| activity.name() == name) else {
            let name = name.to_owned();
            return Err(ActivityError::Unknown { text: text(), name });
        };
        if activities.iter().any(|one| one.activity == activity) {
            return Err(twice());
        }
        activities.push(ActivityEvents {
            activity,
            add: vec![event.to_owned()],
            subtract: vec![],
        });
    }
    if activities.is_empty() {
        return Err(ActivityError::NoActivity(text.to_owned()));
    }
    Ok(MapperEvents {
        cycles: TASK_CLOCK.to_owned(),
        instructions: progress,
        activities,
        reads: None,
    })
}

/// The thresholds of a model. The coherence threshold is the one of SAM's paper. The memory threshold depends on the
/// model's bandwidth. If the events count all lines, it is 20 % below the highest demand of copying tasks; a copied
/// line is two misses and one written line. If the events do not count prefetched lines, it is the paper's number for
/// its machine, multiplied by the ratio of the two machines' memory bandwidths.
pub fn thresholds_of_model(model: &Model) -> Thresholds {
    let paper = Thresholds::paper();
    let counts_prefetches =
        EventSet::for_processor(&model.name).is_some_and(|set| set.counts_prefetches(Activity::MemoryBandwidth.name()));
    let package_memory = if counts_prefetches {
        BELOW_GREATEST * copied_lines(model)
    } else {
        let machine = model::builtin(PAPERS_MACHINE).expect("the paper's machine is a built-in model");
        paper.package_memory * copied_lines(model) / copied_lines(&machine)
    };
    let cores = model.cores() as f64 / model.packages() as f64;
    Thresholds {
        source: format!(
            "coherence: Srikanthan, Dwarkadas and Shen (USENIX ATC 2015); memory: theirs, for the \
             bandwidth of the model {}",
            model.name
        ),
        memory: package_memory / cores,
        package_memory,
        ..paper
    }
}

/// The highest number of lines per cycle that the memory of one package reads while tasks copy.
fn copied_lines(model: &Model) -> f64 {
    let write_cost = model.memory.write_cost.as_ref().map_or(1.0, |cost| cost.value().0);
    let nodes = (model.nodes() as f64 / model.packages() as f64).max(1.0);
    let lines = model.memory.bandwidth.value().0 / LINE / model.frequency().0 * nodes;
    lines * 2.0 / (2.0 + write_cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_sim::CACHES;

    #[test]
    fn every_set_with_metrics_gives_events_for_the_mapper() {
        for set in EventSet::all().into_iter().filter(|set| !set.metrics.is_empty()) {
            let events = mapper_events(&set).unwrap();
            assert!(events.instructions.is_some(), "{}", set.name);
            let is_activity = |name: &&str| {
                !["cycles", "instructions"].contains(name) && !READS.contains(name) && !CACHES.contains(name)
            };
            let named = set
                .metrics
                .iter()
                .map(|metric| metric.name.as_str())
                .filter(is_activity);
            assert_eq!(events.activities.len(), named.count(), "{}", set.name);
            let counted = with_reads(&set).unwrap();
            assert_eq!(counted.reads.is_some(), set.metric(READS[0]).is_some(), "{}", set.name);
            assert_eq!(
                (counted.activities, events.reads),
                (events.activities, None),
                "{}",
                set.name
            );
        }
    }

    #[test]
    fn an_error_for_events_that_do_not_show_sharing_names_the_machine_and_the_correction() {
        let set = set_of_machine("opteron-6164x4").unwrap();
        let error = mapper_events(&set).unwrap_err().to_string();
        assert!(
            error.contains("amd-family-10h") && error.contains("pinfold machines"),
            "{error}"
        );
    }

    #[test]
    fn kernel_events_replace_activities_by_name() {
        let events = parse("memory_bandwidth=page-faults,inter_package_coherence=context-switches").unwrap();
        assert_eq!(events.cycles, TASK_CLOCK);
        assert_eq!((events.activities.len(), events.all().len()), (2, 3));
        assert_eq!(events.instructions, None);
        let with_progress = parse("progress=migrations,memory_bandwidth=page-faults").unwrap();
        assert_eq!(with_progress.instructions.as_deref(), Some("migrations"));
        for (text, part) in [
            ("page-faults", "is not ACTIVITY=EVENT"),
            ("bandwidth=page-faults", "no activity `bandwidth`"),
            ("remote_dram=a,remote_dram=b", "twice"),
            ("progress=a,progress=b", "twice"),
            ("progress=a", "names no activity"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_models_thresholds_grow_with_its_bandwidth() {
        let of = |name| thresholds_of_model(&model::builtin(name).unwrap());
        let (old, new, amd) = (of(PAPERS_MACHINE), of("xeon-8480x2"), of("epyc-9654x2"));
        assert!([&old, &new, &amd].iter().all(|one| one.check().is_ok()));
        assert!((old.package_memory - 0.034).abs() < 1e-12, "the paper's number");
        assert!(new.package_memory > old.package_memory);
    }
}
