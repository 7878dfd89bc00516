//! `--space`: which configurations.

use anyhow::{Context, Result, bail};
use num_bigint::BigUint;
use pinfold_core::hint::AffinityHint;
use pinfold_core::placement::{PlacementError, Placements};
use pinfold_core::{Pinning, Topology};
use pinfold_policy::candidates;
use pinfold_sim::model::Model;
use pinfold_sim::sweep::{Point, SpaceFile, space};
use std::fs;
use std::path::Path;

/// So many placements are swept without asking for fewer: twice as many as the largest space of `AutoFinity`, 1941.
const MOST_PLACEMENTS: u32 = 4096;

/// What `--space` takes besides a file.
const NAMES: [&str; 4] = ["threads", "hints", "numa", "numa+prefetch"];

/// One space.
enum Space {
    Threads,
    Hints,
    Numa,
    NumaAndPrefetch,
    File(SpaceFile),
}

/// All configurations of several spaces.
pub(super) struct Spaces {
    spaces: Vec<Space>,
    /// How many placements there are to be at most.
    limit: Option<usize>,
}

impl Spaces {
    pub(super) fn new(names: &[String], limit: Option<usize>) -> Result<Self> {
        let spaces = names.iter().map(|name| Space::find(name)).collect::<Result<Vec<_>>>()?;
        if limit.is_some() && !spaces.iter().any(|space| matches!(space, Space::Threads)) {
            bail!("--limit is about the placements of --space threads; leave it out");
        }
        Ok(Self { spaces, limit })
    }

    /// The points for so many threads on a machine, each once, in the order of the spaces.
    pub(super) fn points(&self, model: &Model, topology: &Topology, threads: usize) -> Result<Vec<Point>> {
        let mut points = vec![];
        for one in &self.spaces {
            points.extend(match one {
                Space::Threads => space::pinned(model, threads, placements(topology, threads, self.limit)?),
                Space::Hints => space::pinned(model, threads, hinted(topology, threads)?),
                Space::Numa => space::numa(model, threads),
                Space::NumaAndPrefetch => space::numa_and_prefetch(model, threads),
                Space::File(file) => file.points(model, threads)?,
            });
        }
        Ok(space::distinct(points))
    }
}

impl Space {
    fn find(name: &str) -> Result<Self> {
        let file = Path::new(name);
        match name {
            "threads" => Ok(Self::Threads),
            "hints" => Ok(Self::Hints),
            "numa" => Ok(Self::Numa),
            "numa+prefetch" => Ok(Self::NumaAndPrefetch),
            _ if file.extension().is_some_and(|extension| extension == "toml") => {
                let text = fs::read_to_string(file).with_context(|| format!("the space `{name}` cannot be read"))?;
                Ok(Self::File(SpaceFile::parse(name, &text)?))
            }
            _ => {
                /// Names whose similarity is lower are not mistaken for each other.
                const SIMILAR: f64 = 0.6;
                let near = NAMES
                    .iter()
                    .map(|known| (strsim::jaro_winkler(&name.to_lowercase(), known), known))
                    .max_by(|one, other| one.0.total_cmp(&other.0))
                    .filter(|(similarity, _)| *similarity >= SIMILAR);
                let guess = near.map_or(String::new(), |(_, near)| format!("; did you mean `{near}`?"));
                bail!(
                    "there is no space `{name}`{guess} (there are: {}, or a FILE.toml of your own)",
                    NAMES.join(", ")
                )
            }
        }
    }
}

/// All placements, or at most `limit` of them that are most different. More threads than PUs go round.
fn placements(topology: &Topology, threads: usize, limit: Option<usize>) -> Result<Vec<Pinning>> {
    let placements = Placements::new(topology, threads.min(topology.allowed_pus().len()))?;
    let count = placements.count();
    match limit {
        Some(limit) if count > BigUint::from(limit) => Ok(candidates::from_topology(topology, threads, limit)),
        None if count > BigUint::from(MOST_PLACEMENTS) => bail!(
            "{threads} threads have {count} placements on {}, more than the {MOST_PLACEMENTS} that are swept without asking: \
             --limit N takes the N most different ones",
            topology.name()
        ),
        _ => Ok(placements.iter().collect()),
    }
}

/// The placement of each affinity hint; several may be the same. More threads than PUs go round.
fn hinted(topology: &Topology, threads: usize) -> Result<Vec<Pinning>, PlacementError> {
    let placed = threads.min(topology.allowed_pus().len());
    AffinityHint::ALL
        .iter()
        .map(|hint| hint.pinning(topology, placed))
        .collect()
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
    fn a_limit_takes_so_many_of_too_many_and_all_of_few() {
        assert_eq!(threads("opteron-6164x4", 8, Some(10)).unwrap().len(), 10);
        assert_eq!(threads("opteron-6164x4", 2, Some(10)).unwrap().len(), 3);
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
    fn hints_are_the_placements_that_they_lead_to_each_once() {
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
    fn an_unknown_space_gets_the_nearest_name() {
        let error = Spaces::new(&["thread".to_owned()], None).err().unwrap().to_string();
        assert!(error.contains("did you mean `threads`?"), "{error}");
        let error = Spaces::new(&["numa".to_owned()], Some(3)).err().unwrap().to_string();
        assert!(error.contains("--limit is about"), "{error}");
    }
}
