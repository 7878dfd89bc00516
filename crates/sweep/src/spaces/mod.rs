//! Spaces of configurations: the values of `--space` (docs/formats/data-sets.md).
//!
//! A space is a function of a machine's topology and of the prefetchers that can be set there (`machine`), so a
//! simulated machine and the machine at hand have the same spaces. What a machine lacks is left out, and the selection
//! says so.
//!
//! - `machine`: what configurations depend on; `point`: one configuration, with its names in data sets.
//! - `nodes`: threads and pages on a number of nodes, which several spaces have.
//! - A named space is a file in this folder with a `Space`, and a line in `SPACES`. `file` has those that users write.

mod file;
mod hints;
mod ics20;
mod machine;
mod nodes;
mod numa;
mod placement;
mod point;
mod threads;

use anyhow::{Context, Result, bail};
use pinfold_core::{PageMapping, Pinning, Prefetchers};
use pinfold_files::input;
use std::path::Path;

pub use file::{SpaceError, SpaceFile};
pub use ics20::is_baseline;
pub use machine::SpaceMachine;
pub use point::{PAGE_MAPS, Point, page_map_name};

use point::{Points, distinct};

/// The named spaces.
pub const SPACES: [Space; 7] = [
    threads::SPACE,
    hints::SPACE,
    placement::SPACE,
    numa::NUMA,
    numa::NUMA_AND_PREFETCH,
    ics20::ICS20,
    ics20::ICS20_AND_SMT,
];

type ThreadCounts = fn(&SpaceMachine) -> Result<Vec<usize>>;

/// A named space of configurations.
#[derive(Clone, Copy)]
pub struct Space {
    /// The value of `--space`.
    pub name: &'static str,
    /// A description of its configurations.
    pub about: &'static str,
    /// Whether `--limit` limits it.
    pub limited: bool,
    /// The numbers of threads of the configurations; `None` if a configuration takes the recording's number.
    thread_counts: Option<ThreadCounts>,
    points: fn(&Request<'_>) -> Result<Selection>,
}

/// The machine and the program that need configurations.
struct Request<'a> {
    points: Points<'a>,
    /// The maximum number of configurations of a limited space.
    limit: Option<usize>,
}

impl<'a> Request<'a> {
    fn machine(&self) -> &'a SpaceMachine {
        self.points.machine
    }

    fn threads(&self) -> usize {
        self.points.threads
    }

    /// Each of `pinnings` under first touch with all prefetchers on.
    fn pinned(&self, pinnings: impl IntoIterator<Item = Pinning>) -> Selection {
        let point = |pinning| self.points.point(pinning, PageMapping::FirstTouch, Prefetchers::ALL);
        Selection::of(pinnings.into_iter().map(point))
    }
}

/// The configurations of spaces on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The distinct points.
    pub points: Vec<Point>,
    /// What the spaces have and the machine has not: a sentence for each, without a full stop.
    pub left_out: Vec<String>,
}

impl Selection {
    fn of(points: impl IntoIterator<Item = Point>) -> Self {
        Self {
            points: distinct(points),
            left_out: vec![],
        }
    }

    fn without(mut self, left_out: impl IntoIterator<Item = String>) -> Self {
        self.left_out.extend(left_out);
        self
    }
}

enum Selected {
    Named(Space),
    File(SpaceFile),
}

/// All configurations of several spaces.
pub struct Spaces {
    spaces: Vec<Selected>,
    limit: Option<usize>,
}

impl Spaces {
    /// The spaces with these names or files. `limit` applies to spaces that can be limited.
    pub fn new(names: &[String], limit: Option<usize>) -> Result<Self> {
        let spaces = names.iter().map(|name| find(name)).collect::<Result<Vec<_>>>()?;
        let limited = |space: &Selected| matches!(space, Selected::Named(space) if space.limited);
        if limit.is_some() && !spaces.iter().any(limited) {
            let names: Vec<&str> = SPACES
                .iter()
                .filter(|space| space.limited)
                .map(|space| space.name)
                .collect();
            bail!(
                "--limit is for the placements of --space {}; leave it out",
                names.join(", ")
            );
        }
        Ok(Self { spaces, limit })
    }

    /// The named spaces whose configurations have numbers of threads.
    fn counting(&self) -> impl Iterator<Item = (&'static str, ThreadCounts)> {
        self.spaces.iter().filter_map(|space| match space {
            Selected::Named(space) => space.thread_counts.map(|counts| (space.name, counts)),
            Selected::File(_) => None,
        })
    }

    /// The names of the spaces whose configurations have numbers of threads.
    pub fn with_thread_counts(&self) -> String {
        let names: Vec<&str> = self.counting().map(|(name, _)| name).collect();
        names.join(" and ")
    }

    /// The numbers of threads of the configurations on a machine, ascending; `None` if no space has them.
    ///
    /// # Errors
    ///
    /// A space does not define configurations of the machine.
    pub fn thread_counts(&self, machine: &SpaceMachine) -> Result<Option<Vec<usize>>> {
        let mut all: Option<Vec<usize>> = None;
        for (_, counts) in self.counting() {
            all.get_or_insert_default().extend(counts(machine)?);
        }
        if let Some(all) = &mut all {
            all.sort_unstable();
            all.dedup();
        }
        Ok(all)
    }

    /// The distinct points for `threads` threads on a machine, in the order of the spaces, and what the machine lacks.
    ///
    /// # Errors
    ///
    /// A space does not define configurations of the machine, or has too many.
    pub fn points(&self, machine: &SpaceMachine, threads: usize) -> Result<Selection> {
        let request = Request {
            points: Points::new(machine, threads),
            limit: self.limit,
        };
        let mut all = Selection::default();
        for one in &self.spaces {
            let one = match one {
                Selected::Named(space) => (space.points)(&request)?,
                Selected::File(file) => file.points(machine, threads)?,
            };
            all.points.extend(one.points);
            for sentence in one.left_out {
                if !all.left_out.contains(&sentence) {
                    all.left_out.push(sentence);
                }
            }
        }
        all.points = distinct(all.points);
        Ok(all)
    }
}
/// The named spaces with their descriptions, for a help text.
pub fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
    SPACES.iter().map(|space| (space.name, space.about))
}

/// Names with a lower similarity are not suggested.
const SIMILAR: f64 = 0.6;

fn find(name: &str) -> Result<Selected> {
    if let Some(space) = SPACES.iter().find(|space| space.name == name) {
        return Ok(Selected::Named(*space));
    }
    let file = Path::new(name);
    if file.extension().is_some_and(|extension| extension == "toml") {
        let text = input::text(file, input::MOST).with_context(|| format!("the space `{name}` cannot be read"))?;
        return Ok(Selected::File(SpaceFile::parse(name, &text)?));
    }
    let near = SPACES
        .iter()
        .map(|known| (strsim::jaro_winkler(&name.to_lowercase(), known.name), known.name))
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .filter(|(similarity, _)| *similarity >= SIMILAR);
    let guess = near.map_or(String::new(), |(_, near)| format!("; did you mean `{near}`?"));
    bail!(
        "there is no space `{name}`{guess} (there are: {}, or a FILE.toml of your own)",
        SPACES.map(|space| space.name).join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::machine::tests::simulated;
    use super::*;

    /// The points of spaces on a simulated machine.
    fn points(names: &[&str], machine: &SpaceMachine, threads: usize) -> Vec<Point> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let spaces = Spaces::new(&names, None).unwrap();
        spaces.points(machine, threads).unwrap().points
    }

    fn threads(machine: &str, threads: usize, limit: Option<usize>) -> Result<Vec<Point>> {
        let spaces = Spaces::new(&["threads".to_owned()], limit)?;
        Ok(spaces.points(&simulated(machine), threads)?.points)
    }

    #[test]
    fn eight_threads_on_autofinitys_machine_have_its_80_placements() {
        assert_eq!(threads("opteron-6164x4", 8, None).unwrap().len(), 80);
    }

    #[test]
    fn a_limit_takes_its_number_of_many_placements_and_all_of_few() {
        assert_eq!(threads("opteron-6164x4", 8, Some(10)).unwrap().len(), 10);
        assert_eq!(threads("opteron-6164x4", 2, Some(10)).unwrap().len(), 3);
    }

    #[test]
    fn a_limit_gives_exactly_as_many_placements_and_always_the_same() {
        for machine in ["e5-4650x4", "platinum-8168x2", "epyc-9654x2"] {
            for (count, limit) in [(8, 16), (16, 16), (24, 40)] {
                let pinnings = || -> Vec<String> {
                    let points = threads(machine, count, Some(limit)).unwrap();
                    let pinning = |point: &Point| point.pinning.to_string();
                    points.iter().map(pinning).collect()
                };
                let first = pinnings();
                assert_eq!(first.len(), limit, "{count} threads on {machine}");
                assert_eq!(first, pinnings());
            }
        }
    }

    #[test]
    fn too_many_placements_are_counted_and_refused() {
        let error = threads("epyc-9654x2", 64, None).unwrap_err().to_string();
        assert!(
            error.contains("placements on epyc-9654x2, more than the 4096"),
            "{error}"
        );
    }

    #[test]
    fn the_space_hints_has_each_placement_of_a_hint_once() {
        let hints = |threads| {
            let points = points(&["hints"], &simulated("opteron-6164x4"), threads);
            let pinning = |point: &Point| point.pinning.to_string();
            points.iter().map(pinning).collect::<Vec<_>>()
        };
        assert_eq!(hints(4), ["0-3", "0,6,12,18", "0,1,6,7", "0,12,24,36"]);
        assert_eq!(hints(48).len(), 1);
        assert_eq!(hints(50), hints(48));
    }

    #[test]
    fn spaces_together_have_each_configuration_once() {
        let count = |names: &[&str]| points(names, &simulated("e5-4650x4"), 8).len();
        assert_eq!(count(&["numa", "numa+prefetch"]), 288);
        assert_eq!(count(&["threads", "numa"]), count(&["threads"]) + 18);
    }

    #[test]
    fn the_number_of_threads_is_a_part_of_the_configurations_of_ics20_and_of_ics20_with_smt() {
        let counts = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let spaces = Spaces::new(&names, None).unwrap();
            spaces.thread_counts(&simulated("e5-4650x4")).unwrap()
        };
        for space in SPACES {
            let expected = match space.name {
                "ics20" => Some(vec![8, 16, 32]),
                "ics20+smt" => Some(vec![8, 16, 32, 64]),
                _ => None,
            };
            assert_eq!(counts(&[space.name]), expected, "{}", space.name);
        }
        assert_eq!(counts(&["ics20+smt", "numa", "ics20"]).unwrap(), [8, 16, 32, 64]);
    }

    #[test]
    fn what_two_spaces_leave_out_is_said_once() {
        let machine = SpaceMachine::new(
            simulated("clovertown").topology().clone(),
            &[],
            "the MSRs cannot be written",
        );
        let spaces = Spaces::new(&["numa".to_owned(), "numa+prefetch".to_owned()], None).unwrap();
        let found = spaces.points(&machine, 4).unwrap();
        assert_eq!(found.points.len(), 1);
        assert_eq!(
            found.left_out,
            [
                "page mappings but one are left out: clovertown has one NUMA node with main memory",
                "settings of prefetchers are left out: the MSRs cannot be written"
            ]
        );
    }

    #[test]
    fn an_unknown_space_gets_the_nearest_name() {
        let error = Spaces::new(&["thread".to_owned()], None).err().unwrap().to_string();
        assert!(error.contains("did you mean `threads`?"), "{error}");
        let error = Spaces::new(&["numa".to_owned()], Some(3)).err().unwrap().to_string();
        assert!(error.contains("--limit is for"), "{error}");
    }
}
