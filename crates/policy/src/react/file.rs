//! Reads the models of `react` from JSON (docs/formats/models.md).

use super::counters;
use super::model::{ModelConfiguration, ModelFeature, ReactModel, Score};
use super::neighbours::Size;
use crate::rules::Trained;
use crate::tree::{Damage, Node, Tree};
use pinfold_core::{LIKWID, NodeId, PageMapping, Prefetchers, ThreadMap};
use serde::Deserialize;
use std::str::FromStr;

/// The format version that is written.
const VERSION: u64 = 3;
/// The oldest version that is read. It has no numbers of threads per core, and no sizes.
const OLDEST: u64 = 2;

/// The largest number of profiled configurations.
const MOST_PROFILES: usize = 8;

/// Why a text is not a model. The caller knows the file.
#[derive(Debug, thiserror::Error)]
pub enum ReactModelError {
    /// It is not JSON, or a key is missing, unknown, or of the wrong type; the message has line and column.
    #[error("{0}; the keys of a model of react are in docs/formats/models.md")]
    Json(#[from] serde_json::Error),
    /// It is JSON of another kind.
    #[error(
        "this is no model of react: the key `react_model` with its version is missing; give a file that `pinfold learn train react` wrote"
    )]
    Other,
    /// It is of another version.
    #[error("this model has version {0}, and this pinfold reads versions {OLDEST} and {VERSION}; train it again")]
    Version(u64),
    /// The number of profiles is wrong.
    #[error("this model has {0} profiled configurations, and must have 1 to {MOST_PROFILES}; train it again")]
    Profiles(usize),
    /// Without a tree, profiles are compared, and features and outputs have no use.
    #[error(
        "this model has no tree, so the fastest of its profiled configurations is taken: it must have two or more of these, and no \
         features and outputs; train it again"
    )]
    NoTree,
    /// It looks at a counter that this pinfold does not know.
    #[error("this model looks at the counter `{0}`, which this pinfold does not know; there are {known}; train it again", known = known())]
    UnknownCounter(String),
    /// It looks at a profile that it does not have.
    #[error(
        "this model looks at `{counter}` in profile {profile}, which is not listed (the first is 0); train it again"
    )]
    UnknownProfile {
        /// The counter.
        counter: String,
        /// The profile.
        profile: usize,
    },
    /// A configuration is impossible.
    #[error("configuration {number} of `{of}` {what}; train it again")]
    Configuration {
        /// `baseline`, `sizes`, `profiles` or `outputs`.
        of: &'static str,
        /// Its number, from 1.
        number: usize,
        /// What is wrong.
        what: String,
    },
    /// The tree cannot be followed.
    #[error("node {node} of the tree {what}; the file is damaged: train it again")]
    Tree {
        /// The number of the node, from 0.
        node: usize,
        /// What is wrong.
        what: &'static str,
    },
}

fn known() -> String {
    LIKWID.map(|counter| counter.name).join(", ")
}

#[derive(Deserialize)]
struct Head {
    react_model: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "react_model")]
    _version: u64,
    machine: String,
    #[serde(rename = "counted_on")]
    _counted_on: String,
    trained: Trained,
    score: Score,
    baseline: FileConfiguration,
    sizes: Option<Vec<FileSize>>,
    profiles: Vec<FileConfiguration>,
    features: Vec<FileFeature>,
    outputs: Vec<FileConfiguration>,
    tree: Vec<Node<usize>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileConfiguration {
    threads: usize,
    nodes: usize,
    threads_per_core: Option<usize>,
    /// On one node all maps are the same.
    thread_map: Option<ThreadMap>,
    page_map: String,
    prefetch: Prefetchers,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSize {
    threads: usize,
    nodes: usize,
    threads_per_core: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFeature {
    profile: usize,
    counter: String,
    least: f64,
    greatest: f64,
}

impl FromStr for ReactModel {
    type Err = ReactModelError;

    fn from_str(text: &str) -> Result<Self, ReactModelError> {
        match serde_json::from_str::<Head>(text)?.react_model {
            Some(OLDEST..=VERSION) => {}
            Some(other) => return Err(ReactModelError::Version(other)),
            None => return Err(ReactModelError::Other),
        }
        let file: File = serde_json::from_str(text)?;
        let profiles = file.profiles.len();
        if !(1..=MOST_PROFILES).contains(&profiles) {
            return Err(ReactModelError::Profiles(profiles));
        }
        let features = file.features.into_iter().map(|one| feature(one, profiles));
        let features = features.collect::<Result<Vec<_>, _>>()?;
        let outputs = configurations("outputs", &file.outputs)?;
        let tree = match file.tree {
            nodes if !nodes.is_empty() => Some(tree(nodes, features.len(), outputs.len())?),
            _ if profiles > 1 && features.is_empty() && outputs.is_empty() => None,
            _ => return Err(ReactModelError::NoTree),
        };
        Ok(Self {
            machine: file.machine,
            profiles: configurations("profiles", &file.profiles)?,
            tree,
            features,
            configurations: outputs,
            trained: file.trained,
            baseline: configuration("baseline", 0, &file.baseline)?,
            sizes: file.sizes.map(sizes).transpose()?,
            score: file.score,
        })
    }
}

fn feature(one: FileFeature, profiles: usize) -> Result<ModelFeature, ReactModelError> {
    if one.profile >= profiles {
        return Err(ReactModelError::UnknownProfile {
            counter: one.counter,
            profile: one.profile,
        });
    }
    match counters::position(&one.counter) {
        Some(counter) => Ok(ModelFeature {
            counter,
            profile: one.profile,
            least: one.least,
            greatest: one.greatest,
        }),
        None => Err(ReactModelError::UnknownCounter(one.counter)),
    }
}

fn configurations(of: &'static str, all: &[FileConfiguration]) -> Result<Vec<ModelConfiguration>, ReactModelError> {
    let read = |(place, one)| configuration(of, place, one);
    all.iter().enumerate().map(read).collect()
}

fn configuration(
    of: &'static str,
    place: usize,
    one: &FileConfiguration,
) -> Result<ModelConfiguration, ReactModelError> {
    let wrong = |what: String| ReactModelError::Configuration {
        of,
        number: place + 1,
        what,
    };
    let size = Size {
        threads: one.threads,
        nodes: one.nodes,
        threads_per_core: one.threads_per_core,
    };
    possible(size).map_err(wrong)?;
    let unknown = || {
        wrong(format!(
            "has the page map `{}`; there are first_touch, local, remote, locality, balance, interleave and single",
            one.page_map
        ))
    };
    Ok(ModelConfiguration {
        threads: one.threads,
        nodes: one.nodes,
        threads_per_core: one.threads_per_core,
        thread_map: one.thread_map.unwrap_or(ThreadMap::Compact),
        page_map: page_map(&one.page_map).ok_or_else(unknown)?,
        prefetch: one.prefetch,
    })
}

fn sizes(all: Vec<FileSize>) -> Result<Vec<Size>, ReactModelError> {
    let sizes = all.into_iter().enumerate().map(|(place, one)| {
        let size = Size {
            threads: one.threads,
            nodes: one.nodes,
            threads_per_core: Some(one.threads_per_core),
        };
        possible(size).map_err(|what| ReactModelError::Configuration {
            of: "sizes",
            number: place + 1,
            what,
        })?;
        Ok(size)
    });
    sizes.collect()
}

/// Why a size is impossible.
fn possible(size: Size) -> Result<(), String> {
    let Size {
        threads,
        nodes,
        threads_per_core,
    } = size;
    if nodes == 0 || nodes > threads {
        return Err(format!("has {threads} threads on {nodes} nodes, which is not possible"));
    }
    match threads_per_core {
        Some(most) if most == 0 || most > threads => Err(format!(
            "has {most} of {threads} threads on a core, which is not possible"
        )),
        _ => Ok(()),
    }
}

/// The six page mappings of react's paper, and first touch, which measured tables of others have.
fn page_map(name: &str) -> Option<PageMapping> {
    match name {
        "first_touch" => Some(PageMapping::FirstTouch),
        "single" => Some(PageMapping::Single(NodeId(0))),
        "local" => Some(PageMapping::Local),
        "remote" => Some(PageMapping::Remote),
        "locality" => Some(PageMapping::Locality),
        "balance" => Some(PageMapping::Balance),
        "interleave" => Some(PageMapping::Interleave),
        _ => None,
    }
}

fn tree(nodes: Vec<Node<usize>>, features: usize, outputs: usize) -> Result<Tree<usize>, ReactModelError> {
    let wrong = |output: usize| (output >= outputs).then_some("has a configuration that is not listed");
    Tree::checked(nodes, features, wrong).map_err(|Damage { node, what }| ReactModelError::Tree { node, what })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::model::Profile;
    use super::*;
    use crate::synthetic::synthetic;
    use pinfold_core::{CacheCounts, RegionCounts};
    use serde_json::{Value, json};

    fn configuration(threads: usize, nodes: usize, page_map: &str) -> Value {
        json!({"threads": threads, "nodes": nodes, "thread_map": "compact", "page_map": page_map, "prefetch": "0000"})
    }

    /// Power in the second profile decides, and for high power the miss ratio in the first one.
    pub(in super::super) fn document() -> Value {
        json!({
            "react_model": 2,
            "machine": "e5-4650x4",
            "counted_on": "e5-4650x4",
            "trained": {"simulated": true, "machines": ["e5-4650x4"], "programs": ["bt"], "rows": 288, "learner": "tree"},
            "score": {"nested": 0.9, "low": 0.8, "high": 0.95, "control": 0.2, "inside": 0.97, "seeds": 5},
            "baseline": configuration(32, 4, "locality"),
            "profiles": [configuration(8, 1, "local"), configuration(32, 4, "interleave")],
            "features": [
                {"profile": 0, "counter": "L3 miss ratio", "least": 0.0, "greatest": 1.0},
                {"profile": 1, "counter": "Power", "least": 50.0, "greatest": 130.0}
            ],
            "outputs": [
                configuration(8, 1, "local"), configuration(16, 2, "single"), configuration(32, 4, "locality")
            ],
            "tree": [[1, 100.0, 1, 2], [0], [0, 0.5, 3, 4], [1], [2]]
        })
    }

    /// Without a tree.
    pub(in super::super) fn race() -> Value {
        let mut file = document();
        for key in ["features", "outputs", "tree"] {
            file[key] = json!([]);
        }
        file
    }

    fn profile(misses: f64, watts: f64) -> Profile {
        Profile {
            executions: 2.0,
            seconds: 2.0,
            counts: Some(RegionCounts {
                l3: Some(CacheCounts {
                    requests: 100.0,
                    misses,
                }),
                package_joules: Some(watts * 2.0),
                ..RegionCounts::default()
            }),
        }
    }

    #[test]
    fn the_tree_is_followed_by_the_counters_of_both_profiles() {
        let model: ReactModel = document().to_string().parse().unwrap();
        let forecast = |misses: f64, watts: f64| {
            let profiles = [Some(profile(misses, 0.0)), Some(profile(0.0, watts))];
            model.forecast(&profiles).unwrap()
        };
        assert_eq!(forecast(90.0, 100.0).unwrap().0, 0);
        assert_eq!(forecast(50.0, 101.0).unwrap().0, 1);
        let (configuration, why) = forecast(51.0, 101.0).unwrap();
        assert_eq!(configuration, 2);
        assert_eq!(
            why,
            "Power in profile 2 is 101.0000 and L3 miss ratio in profile 1 is 0.5100"
        );
    }

    #[test]
    fn a_value_that_is_missing_is_named_and_not_guessed() {
        let model: ReactModel = document().to_string().parse().unwrap();
        assert_eq!(model.forecast(&[Some(profile(1.0, 1.0)), None]), Some(Err("Power")));
    }

    #[test]
    fn a_model_without_a_tree_has_profiles_alone() {
        let model: ReactModel = race().to_string().parse().unwrap();
        assert_eq!(
            (model.profiles.len(), model.tree, model.configurations.len()),
            (2, None, 0)
        );
    }

    #[test]
    fn version_3_has_threads_per_core_and_the_sizes_of_neighbours_and_version_2_the_sizes_of_the_paper() {
        let topology = synthetic("package:4 numa:1 core:8 pu:2");
        let sizes = |file: &Value| -> Vec<(usize, usize, Option<usize>)> {
            let model: ReactModel = file.to_string().parse().unwrap();
            let sizes = model.sizes(&topology).into_iter();
            sizes
                .map(|size| (size.threads, size.nodes, size.threads_per_core))
                .collect()
        };
        assert_eq!(sizes(&race()), [(8, 1, None), (16, 2, None), (32, 4, None)]);
        let mut file = race();
        file["react_model"] = json!(3);
        file["profiles"][0]["threads_per_core"] = json!(2);
        file["sizes"] = json!([{"threads": 8, "nodes": 1, "threads_per_core": 2}]);
        assert_eq!(sizes(&file), [(8, 1, Some(2))]);
        let model: ReactModel = file.to_string().parse().unwrap();
        let pinning = |profile: usize| model.profiles[profile].pinning(&topology).unwrap().to_string();
        assert_eq!(pinning(0), "0,2,4,6,1,3,5,7");
        assert!(pinning(1).starts_with("0,2,4,6,8,10,12,14,16"), "{}", pinning(1));
    }

    #[test]
    fn a_file_that_is_damaged_or_of_another_kind_is_refused_with_the_reason() {
        let broken = |change: fn(&mut Value)| {
            let mut file = document();
            change(&mut file);
            file.to_string().parse::<ReactModel>().unwrap_err().to_string()
        };
        for (message, expected) in [
            (
                broken(|file| *file = json!({"placement_model": 1})),
                "no model of react",
            ),
            (broken(|file| file["react_model"] = json!(1)), "version 1"),
            (broken(|file| file["profiles"] = json!([])), "0 profiled configurations"),
            (
                broken(|file| file["features"][0]["counter"] = json!("Heat")),
                "`Heat`, which this pinfold does not know; there are CPI",
            ),
            (broken(|file| file["features"][0]["profile"] = json!(2)), "in profile 2"),
            (
                broken(|file| file["outputs"][1]["nodes"] = json!(17)),
                "configuration 2 of `outputs` has 16 threads on 17 nodes",
            ),
            (
                broken(|file| file["profiles"][1]["threads_per_core"] = json!(0)),
                "configuration 2 of `profiles` has 0 of 32 threads on a core",
            ),
            (
                broken(|file| file["sizes"] = json!([{"threads": 1, "nodes": 2, "threads_per_core": 1}])),
                "configuration 1 of `sizes` has 1 threads on 2 nodes",
            ),
            (
                broken(|file| file["profiles"][0]["page_map"] = json!("elsewhere")),
                "has the page map `elsewhere`",
            ),
            (
                broken(|file| file["tree"][0] = json!([1, 100.0, 0, 2])),
                "node 0 of the tree has a child that does not come after it",
            ),
            (
                broken(|file| file["tree"][2] = json!([2, 0.5, 3, 4])),
                "node 2 of the tree has a feature that is not listed",
            ),
            (
                broken(|file| file["tree"][4] = json!([3])),
                "node 4 of the tree has a configuration that is not listed",
            ),
            (broken(|file| file["tree"] = json!([])), "this model has no tree"),
            (
                broken(|file| {
                    *file = race();
                    file["profiles"].as_array_mut().unwrap().truncate(1);
                }),
                "must have two or more of these",
            ),
            (broken(|file| file["more"] = json!(1)), "unknown field `more`"),
        ] {
            assert!(message.contains(expected), "{message}");
        }
    }
}
