//! The values of `--space`: a named space of the registry, or a file (docs/formats/data-sets.md).
//!
//! A space is a file in this folder with a `Space`, and a line in `SPACES`.

mod hints;
mod ics20;
mod numa;
mod placement;
mod threads;

use anyhow::{Context, Result, bail};
use pinfold_core::Topology;
use pinfold_linux::input;
use pinfold_sim::model::Model;
use pinfold_sim::sweep::{Point, SpaceFile, space};
use std::path::Path;

/// The named spaces.
pub const SPACES: [Space; 6] = [
    threads::SPACE,
    hints::SPACE,
    placement::SPACE,
    numa::NUMA,
    numa::NUMA_AND_PREFETCH,
    ics20::SPACE,
];

type ThreadCounts = fn(&Model) -> Result<Vec<usize>>;

/// A named space of configurations.
#[derive(Clone, Copy)]
pub struct Space {
    /// The value of `--space`.
    pub name: &'static str,
    /// Its configurations, in words.
    pub about: &'static str,
    /// Whether `--limit` limits it.
    pub limited: bool,
    /// The numbers of threads where they are a part of the configurations; `None` where a configuration has the recording's.
    thread_counts: Option<ThreadCounts>,
    points: fn(&Request<'_>) -> Result<Vec<Point>>,
}

/// The machine and program for which a space gives configurations.
pub struct Request<'a> {
    model: &'a Model,
    topology: &'a Topology,
    threads: usize,
    /// The most configurations of a limited space.
    limit: Option<usize>,
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
    /// The spaces of these names or files. `limit` applies to those that can be limited.
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

    /// The numbers of threads of the configurations on a machine, if they are a part of them in one of the spaces.
    pub fn thread_counts(&self, model: &Model) -> Result<Option<Vec<usize>>> {
        let counts = self.spaces.iter().find_map(|space| match space {
            Selected::Named(space) => space.thread_counts,
            Selected::File(_) => None,
        });
        counts.map(|counts| counts(model)).transpose()
    }

    /// The points for `threads` threads on a machine, each once, in the order of the spaces.
    pub fn points(&self, model: &Model, topology: &Topology, threads: usize) -> Result<Vec<Point>> {
        let request = Request {
            model,
            topology,
            threads,
            limit: self.limit,
        };
        let mut points = vec![];
        for one in &self.spaces {
            points.extend(match one {
                Selected::Named(space) => (space.points)(&request)?,
                Selected::File(file) => file.points(model, threads)?,
            });
        }
        Ok(space::distinct(points))
    }
}

/// The named spaces, each with what it has, for a help text.
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
    use super::*;
    use pinfold_sim::model::builtin;

    fn threads(machine: &str, threads: usize, limit: Option<usize>) -> Result<Vec<Point>> {
        let model = builtin(machine).unwrap();
        Spaces::new(&["threads".to_owned()], limit)?.points(&model, &model.topology(), threads)
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
                    let pinning = |point: &Point| point.configuration.pinning.to_string();
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
        let model = builtin("opteron-6164x4").unwrap();
        let hints = |threads| {
            let spaces = Spaces::new(&["hints".to_owned()], None).unwrap();
            let points = spaces.points(&model, &model.topology(), threads).unwrap();
            let pinning = |point: &Point| point.configuration.pinning.to_string();
            points.iter().map(pinning).collect::<Vec<_>>()
        };
        assert_eq!(hints(4), ["0-3", "0,6,12,18", "0,1,6,7", "0,12,24,36"]);
        assert_eq!(hints(48).len(), 1);
        assert_eq!(hints(50), hints(48));
    }

    #[test]
    fn spaces_together_have_each_configuration_once() {
        let model = builtin("e5-4650x4").unwrap();
        let count = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let spaces = Spaces::new(&names, None).unwrap();
            spaces.points(&model, &model.topology(), 8).unwrap().len()
        };
        assert_eq!(count(&["numa", "numa+prefetch"]), 288);
        assert_eq!(count(&["threads", "numa"]), count(&["threads"]) + 18);
    }

    #[test]
    fn the_number_of_threads_is_a_part_of_the_configurations_of_ics20_alone() {
        let model = builtin("e5-4650x4").unwrap();
        for space in SPACES {
            let spaces = Spaces::new(&[space.name.to_owned()], None).unwrap();
            let counts = spaces.thread_counts(&model).unwrap();
            assert_eq!(
                counts,
                (space.name == "ics20").then(|| vec![8, 16, 32]),
                "{}",
                space.name
            );
        }
    }

    #[test]
    fn an_unknown_space_gets_the_nearest_name() {
        let error = Spaces::new(&["thread".to_owned()], None).err().unwrap().to_string();
        assert!(error.contains("did you mean `threads`?"), "{error}");
        let error = Spaces::new(&["numa".to_owned()], Some(3)).err().unwrap().to_string();
        assert!(error.contains("--limit is for"), "{error}");
    }
}
