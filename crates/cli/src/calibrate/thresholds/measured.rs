//! The curves of this machine: the events, the PUs, the number of repetitions, and the points of the measured runs.
//!
//! Each curve has its own counters, for the few events that it needs, so that they seldom have to take turns. The sweep
//! of rates is the same as on simulated machines.

use crate::activities;
use crate::machine;
use anyhow::{Context, Result, anyhow};
use pinfold_calibrate::Places;
use pinfold_calibrate::activities::of_set;
use pinfold_calibrate::thresholds::{
    CopyPoint, Curves, Formula, MeasuredOrigin, Origin, SharingPoint, copied, cpu_list, shared,
};
use pinfold_core::{Activity, PuId, Topology};
use pinfold_linux::calibrate::{self, CountSource, Locality, SharingEffort};
use pinfold_linux::counters::{Plan, Request};
use pinfold_linux::topology::Here;
use pinfold_policy::sam::MapperEvents;
use pinfold_sim::thresholds::{numbers_of_tasks, work};
use std::time::Duration;

/// The remedy if this machine cannot be measured.
const REMEDY: &str = "name a model of its kind with --machine (`pinfold machines` lists them), or measure one: \
                      `pinfold calibrate --model -o mine.toml`, then `pinfold calibrate --thresholds --machine \
                      mine.toml`";

/// Another remedy where only counters are not available.
const METRIC: &str = "let events of the kernel stand for SAM's activities, as with `pinfold run`: --metric \
                      inter_package_coherence=EVENT,memory_bandwidth=EVENT";

/// A larger share of the copied arrays on other nodes is reported.
const NOTEWORTHY: f64 = 0.05;

/// How thoroughly to measure.
struct Effort {
    sharing: SharingEffort,
    /// The step in the sweep of work between accesses: 4 takes every fourth value.
    every: usize,
    /// Whether the numbers of tasks that copy at one time are only powers of two, and all.
    few_teams: bool,
    /// The number of copies.
    copies: usize,
    /// The size of the arrays of all tasks together: a multiple of the last-level caches of their PUs, and a least
    /// number of bytes.
    caches: u64,
    least: u64,
}

impl Effort {
    fn new(quick: bool) -> Self {
        let effort = |milliseconds, rounds| SharingEffort {
            run: Duration::from_millis(milliseconds),
            rounds,
        };
        if quick {
            return Self {
                sharing: effort(2, 3),
                every: 4,
                few_teams: true,
                copies: 3,
                caches: 4,
                least: 32 << 20,
            };
        }
        Self {
            sharing: effort(20, 9),
            every: 1,
            few_teams: false,
            copies: 9,
            caches: 8,
            least: 512 << 20,
        }
    }

    /// Instructions between two accesses.
    fn work(&self) -> Vec<u32> {
        work().step_by(self.every).collect()
    }

    /// The numbers of tasks that copy at one time.
    fn numbers_of_tasks(&self, cores: usize) -> Vec<usize> {
        let wanted = |tasks: &usize| !self.few_teams || tasks.is_power_of_two() || *tasks == cores;
        numbers_of_tasks(cores).filter(wanted).collect()
    }

    fn footprint(&self, topology: &Topology, pus: &[PuId]) -> usize {
        let bytes = (self.caches * Places::caches_of(topology, pus)).max(self.least);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// Measures this machine, with the events of its processor or those that `metric` names. `say` gets the
/// name of each measurement before it begins.
pub(super) fn measure(metric: Option<&str>, quick: bool, say: &dyn Fn(&str)) -> Result<Curves> {
    let (set, events) = events(metric)?;
    let coherence = formula(&events, Activity::InterPackageCoherence)?;
    let memory = formula(&events, Activity::MemoryBandwidth)?;
    let Here { topology, note } = machine::here()?;
    if let Some(note) = &note {
        say(note);
    }
    let places = Places::of(&topology).with_context(refusal)?;
    let effort = Effort::new(quick);
    // Checked before the first measurement: the counters and the memory.
    let (sharers, copiers) = (plan(&coherence)?, plan(&memory)?);
    calibrate::enough_memory(effort.footprint(&topology, &places.package)).with_context(refusal)?;
    announce(&places, say);
    let sharing = sharing(&places, &coherence, &sharers, &effort, say)?;
    let (copying, elsewhere) = copying(&topology, &places, &memory, &copiers, &effort, say)?;
    Ok(Curves {
        origin: Origin::Measured(Box::new(MeasuredOrigin {
            machine: topology.name().to_owned(),
            set,
            coherence,
            memory,
            places,
            quick,
            elsewhere,
        })),
        sharing,
        copying,
    })
}

/// Reports the CPUs of the measurement, and missing ones.
fn announce(places: &Places, say: &dyn Fn(&str)) {
    say(&format!(
        "threads that share are together on CPUs {} and apart on CPUs {}, {}; tasks copy on CPUs {}",
        cpu_list(&places.together),
        cpu_list(&places.apart),
        places.relation.words(),
        cpu_list(&places.package)
    ));
    if places.package.len() < places.cores {
        say(&format!(
            "only {} of the {} cores of a package may be used: what they can copy may be less than what saturates its \
             memory",
            places.package.len(),
            places.cores
        ));
    }
}

/// The counters of a formula's events.
fn plan(formula: &Formula) -> Result<Plan> {
    let requests: Vec<Request> = formula.events().iter().cloned().map(Request::Event).collect();
    Plan::new(&requests).with_context(refusal)
}

fn refusal() -> &'static str {
    "the thresholds of this machine cannot be measured"
}

/// The events that stand for the activities, with the name of the set that they are from.
fn events(metric: Option<&str>) -> Result<(Option<String>, MapperEvents)> {
    if let Some(metric) = metric {
        return Ok((None, activities::named(metric)?.0));
    }
    let set = activities::set_here().map_err(|error| anyhow!("{}: {error:#}; {REMEDY}; or {METRIC}", refusal()))?;
    let events = of_set(&set).with_context(refusal)?;
    Ok((Some(set.name), events))
}

fn formula(events: &MapperEvents, activity: Activity) -> Result<Formula> {
    Formula::of(events, activity).with_context(|| {
        format!(
            "{}: no event stands for {}, and both curves are needed; {METRIC}",
            refusal(),
            activity.name()
        )
    })
}

fn sharing(
    places: &Places,
    formula: &Formula,
    source: &dyn CountSource,
    effort: &Effort,
    say: &dyn Fn(&str),
) -> Result<Vec<SharingPoint>> {
    let point = |instructions: u32| {
        say(&format!(
            "measuring two threads that share data every {instructions} instructions"
        ));
        let runs = calibrate::sharing(places.together, places.apart, instructions, effort.sharing, source)?;
        shared(instructions, &runs, formula).with_context(|| uncounted(formula))
    };
    effort.work().into_iter().map(point).collect()
}

/// The second curve, and the greatest share of a team's arrays that was on other nodes.
fn copying(
    topology: &Topology,
    places: &Places,
    formula: &Formula,
    source: &dyn CountSource,
    effort: &Effort,
    say: &dyn Fn(&str),
) -> Result<(Vec<CopyPoint>, Option<f64>)> {
    let mut elsewhere = Some(0.0f64);
    let mut points = vec![];
    for tasks in effort.numbers_of_tasks(places.package.len()) {
        let pus = &places.package[..tasks];
        let footprint = effort.footprint(topology, pus);
        let tasks_that_copy = if tasks == 1 {
            "task that copies"
        } else {
            "tasks that copy"
        };
        say(&format!("measuring {tasks} {tasks_that_copy} {} MiB", footprint >> 20));
        let mut copy = |locality| {
            let runs = calibrate::copying(topology, pus, footprint, locality, effort.copies, source)?;
            elsewhere = elsewhere.zip(runs.elsewhere).map(|(one, other)| one.max(other));
            copied(&runs, formula).with_context(|| uncounted(formula))
        };
        points.push(CopyPoint {
            tasks,
            high: copy(Locality::High)?,
            low: copy(Locality::Low)?,
        });
    }
    if let Some(share) = elsewhere.filter(|&share| share > NOTEWORTHY) {
        say(&format!(
            "{:.0} % of the copied memory was on other nodes than its tasks, whose own were full or may not be used: \
             the thresholds of memory are too low",
            share * 100.0
        ));
    }
    Ok((points, elsewhere))
}

fn uncounted(formula: &Formula) -> String {
    format!(
        "the counters of {formula} never ran while there was something to count; does something else hold them all, \
         such as another profiler or the kernel's watchdog (kernel.nmi_watchdog)?"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::Count;
    use pinfold_core::measurement::Relation;
    use pinfold_linux::calibrate::ThreadCounts;
    use pinfold_linux::counters::CounterError;
    use pinfold_linux::topology::{self, Source};
    use std::cell::RefCell;

    /// At each reading a thread has counted a hundred cycles and one event more.
    struct Hundred;

    impl CountSource for Hundred {
        fn of_this_thread(&self) -> Result<Box<dyn ThreadCounts + '_>, CounterError> {
            Ok(Box::new(Looks(0)))
        }
    }

    struct Looks(u64);

    impl ThreadCounts for Looks {
        fn totals(&mut self) -> Vec<Option<Count>> {
            self.0 += 1;
            vec![Some(Count::exact(100 * self.0)), Some(Count::exact(self.0))]
        }
    }

    #[test]
    fn both_curves_are_measured_with_the_counts_of_any_source() {
        let topology = topology::read(&Source::Live).unwrap();
        let pus: Vec<_> = topology.allowed_pus().iter().take(2).collect();
        let Ok(pair) = <[_; 2]>::try_from(pus.clone()) else {
            pinfold_testing::skip("threads that wait for each other need two CPUs, and one may be used");
            return;
        };
        let places = Places {
            together: pair,
            apart: pair,
            relation: Relation::SamePackage,
            package: pus,
            cores: 2,
        };
        let formula = Formula::new("CYCLES", &["A"], &[]);
        let effort = Effort {
            sharing: SharingEffort {
                run: Duration::ZERO,
                rounds: 1,
            },
            every: 4,
            few_teams: false,
            copies: 1,
            caches: 0,
            least: 1 << 20,
        };
        let said = RefCell::new(vec![]);
        let say = |text: &str| said.borrow_mut().push(text.to_owned());
        let points = sharing(&places, &formula, &Hundred, &effort, &say).unwrap();
        let instructions: Vec<u32> = points.iter().map(|point| point.instructions).collect();
        assert_eq!(instructions, [409_600, 25_600, 1600, 0]);
        assert!(
            points
                .iter()
                .all(|point| (point.events_per_cycle.value - 0.01).abs() < 1e-12)
        );
        let (points, _) = copying(&topology, &places, &formula, &Hundred, &effort, &say).unwrap();
        let misses: Vec<f64> = points.iter().map(|point| point.low.misses_per_cycle.value).collect();
        assert_eq!(misses, [0.01, 0.02]);
        assert!(points.iter().all(|point| point.high.bytes_per_second.value > 0.0));
        assert_eq!(said.into_inner().len(), 6, "each point is reported");
    }
}
