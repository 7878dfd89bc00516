//! Reads the models of `react` from JSON (docs/formats/models.md).

use super::counters;
use super::model::{ModelConfiguration, ModelFeature, ReactModel, Score};
use crate::rules::Trained;
use crate::tree::{Damage, Node, Tree};
use pinfold_core::{LIKWID, NodeId, PageMapping, Prefetchers, ThreadMap};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::str::FromStr;

/// The format version that is written.
const VERSION: u64 = 3;
/// The oldest version that is read. It has no numbers of threads per core.
const OLDEST: u64 = 2;

/// The largest number of profiled configurations: a tree has at most three features.
const MOST_PROFILES: usize = 3;

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
    /// It is a race of an earlier version: profiles without a tree.
    #[error(
        "this model has no tree: it is a race of an earlier version, and races are no longer read; `--policy react` needs no \
         model, and `pinfold learn train react` writes one with a tree for `react:tree`"
    )]
    Race,
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
        /// `baseline`, `profiles` or `outputs`.
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
    /// The sizes that races searched, in files of an earlier pinfold.
    #[serde(rename = "sizes")]
    _sizes: Option<IgnoredAny>,
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
        if file.tree.is_empty() {
            return Err(ReactModelError::Race);
        }
        let profiles = file.profiles.len();
        if !(1..=MOST_PROFILES).contains(&profiles) {
            return Err(ReactModelError::Profiles(profiles));
        }
        let features = file.features.into_iter().map(|one| feature(one, profiles));
        let features = features.collect::<Result<Vec<_>, _>>()?;
        let outputs = configurations("outputs", &file.outputs)?;
        Ok(Self {
            machine: file.machine,
            profiles: configurations("profiles", &file.profiles)?,
            tree: tree(file.tree, features.len(), outputs.len())?,
            features,
            configurations: outputs,
            trained: file.trained,
            baseline: configuration("baseline", 0, &file.baseline)?,
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
    possible(one).map_err(wrong)?;
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

/// Why the numbers of a configuration are impossible.
fn possible(one: &FileConfiguration) -> Result<(), String> {
    let FileConfiguration { threads, nodes, .. } = *one;
    if nodes == 0 || nodes > threads {
        return Err(format!("has {threads} threads on {nodes} nodes, which is not possible"));
    }
    match one.threads_per_core {
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
            model.forecast(&profiles)
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
        assert_eq!(model.forecast(&[Some(profile(1.0, 1.0)), None]), Err("Power"));
    }

    #[test]
    fn version_3_has_threads_per_core_and_the_sizes_of_an_earlier_pinfold_are_ignored() {
        let topology = synthetic("package:4 numa:1 core:8 pu:2");
        let mut file = document();
        file["react_model"] = json!(3);
        file["profiles"][0]["threads_per_core"] = json!(2);
        let model: ReactModel = file.to_string().parse().unwrap();
        file["sizes"] = json!([{"threads": 8, "nodes": 1, "threads_per_core": 2}]);
        assert_eq!(file.to_string().parse::<ReactModel>().unwrap(), model);
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
            (
                broken(|file| {
                    for key in ["features", "outputs", "tree"] {
                        file[key] = json!([]);
                    }
                    file["profiles"] = json!(vec![configuration(8, 1, "local"); 8]);
                }),
                "races are no longer read; `--policy react` needs no model",
            ),
            (broken(|file| file["more"] = json!(1)), "unknown field `more`"),
        ] {
            assert!(message.contains(expected), "{message}");
        }
    }
}
