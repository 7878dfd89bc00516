//! Reads the models of `react` from JSON (docs/formats.md).

use super::counters::{self, COUNTERS};
use super::model::{ModelConfiguration, ModelFeature, Node, ReactModel};
use crate::rules::Trained;
use pinfold_core::{NodeId, PageMapping, Prefetchers, ThreadMap};
use serde::Deserialize;
use std::str::FromStr;

/// What `format` says.
const FORMAT: &str = "pinfold-react";

/// The format version that is read.
const VERSION: u64 = 1;

/// The child of a leaf, as scikit-learn writes it.
const NO_CHILD: i64 = -1;

/// The number of profiled configurations.
const PROFILES: usize = 2;

/// Why a text is no model. The caller knows the file.
#[derive(Debug, thiserror::Error)]
pub enum ReactModelError {
    /// It is no JSON, or a key is missing, unknown, or of the wrong type; the message has line and column.
    #[error("{0}; the keys of a model of react are in docs/formats.md")]
    Json(#[from] serde_json::Error),
    /// It is JSON of another kind.
    #[error(
        "this is no model of react: `format` is not `{FORMAT}`; give a file that `pinfold learn train react` wrote"
    )]
    Other,
    /// It is of another version.
    #[error("this model has version {0}, and this pinfold reads version {VERSION}; train it again")]
    Version(u64),
    /// The number of profiles is wrong.
    #[error("this model has {0} profiled configurations, and must have {PROFILES}; train it again")]
    Profiles(usize),
    /// It looks at a counter that this pinfold does not know.
    #[error("this model looks at the counter `{0}`, which this pinfold does not know; there are {known}; train it again", known = known())]
    UnknownCounter(String),
    /// It looks at a profile that it does not have.
    #[error("this model looks at `{counter}` in profile {profile}, and has profiles 0 and 1; train it again")]
    UnknownProfile {
        /// The counter.
        counter: String,
        /// The profile.
        profile: usize,
    },
    /// A configuration is impossible.
    #[error("configuration {number} of `{of}` {what}; train it again")]
    Configuration {
        /// `profiles` or `configurations`.
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
    COUNTERS.map(|(name, _)| name).join(", ")
}

#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    version: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u64,
    machine: String,
    profiles: Vec<FileConfiguration>,
    features: Vec<FileFeature>,
    tree: FileTree,
    configurations: Vec<FileConfiguration>,
    #[serde(default)]
    trained_on: Option<Trained>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileConfiguration {
    threads: usize,
    nodes: usize,
    thread_map: FileThreadMap,
    page_map: String,
    prefetch: Prefetchers,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FileThreadMap {
    #[serde(alias = "contiguous")]
    Compact,
    Scatter,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFeature {
    counter: String,
    profile: usize,
}

/// One entry for each node, as in scikit-learn's trees.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTree {
    feature: Vec<i64>,
    threshold: Vec<f64>,
    left: Vec<i64>,
    right: Vec<i64>,
    output: Vec<usize>,
}

impl FromStr for ReactModel {
    type Err = ReactModelError;

    fn from_str(text: &str) -> Result<Self, ReactModelError> {
        let head: Head = serde_json::from_str(text)?;
        if head.format.as_deref() != Some(FORMAT) {
            return Err(ReactModelError::Other);
        }
        if let Some(other) = head.version.filter(|&version| version != VERSION) {
            return Err(ReactModelError::Version(other));
        }
        let file: File = serde_json::from_str(text)?;
        if file.profiles.len() != PROFILES {
            return Err(ReactModelError::Profiles(file.profiles.len()));
        }
        let features = file.features.into_iter().map(feature).collect::<Result<Vec<_>, _>>()?;
        let configurations = configurations("configurations", &file.configurations)?;
        Ok(Self {
            machine: file.machine,
            profiles: self::configurations("profiles", &file.profiles)?,
            tree: tree(&file.tree, features.len(), configurations.len())?,
            features,
            configurations,
            trained: file.trained_on,
        })
    }
}

fn feature(one: FileFeature) -> Result<ModelFeature, ReactModelError> {
    if one.profile >= PROFILES {
        return Err(ReactModelError::UnknownProfile {
            counter: one.counter,
            profile: one.profile,
        });
    }
    match counters::position(&one.counter) {
        Some(counter) => Ok(ModelFeature {
            counter,
            profile: one.profile,
        }),
        None => Err(ReactModelError::UnknownCounter(one.counter)),
    }
}

fn configurations(of: &'static str, all: &[FileConfiguration]) -> Result<Vec<ModelConfiguration>, ReactModelError> {
    let wrong = |place: usize, what: String| ReactModelError::Configuration {
        of,
        number: place + 1,
        what,
    };
    let read = |(place, one): (usize, &FileConfiguration)| {
        if one.nodes == 0 || one.nodes > one.threads {
            let what = format!(
                "has {} threads on {} nodes, which is not possible",
                one.threads, one.nodes
            );
            return Err(wrong(place, what));
        }
        Ok(ModelConfiguration {
            threads: one.threads,
            nodes: one.nodes,
            thread_map: match one.thread_map {
                FileThreadMap::Compact => ThreadMap::Compact,
                FileThreadMap::Scatter => ThreadMap::Scatter,
            },
            page_map: page_map(&one.page_map).ok_or_else(|| {
                let what = format!(
                    "has the page map `{}`; there are local, remote, locality, balance, interleave and single",
                    one.page_map
                );
                wrong(place, what)
            })?,
            prefetch: one.prefetch,
        })
    };
    all.iter().enumerate().map(read).collect()
}

/// The paper's six page mappings.
fn page_map(name: &str) -> Option<PageMapping> {
    match name {
        "single" => Some(PageMapping::Single(NodeId(0))),
        "local" => Some(PageMapping::Local),
        "remote" => Some(PageMapping::Remote),
        "locality" => Some(PageMapping::Locality),
        "balance" => Some(PageMapping::Balance),
        "interleave" => Some(PageMapping::Interleave),
        _ => None,
    }
}

fn tree(file: &FileTree, features: usize, configurations: usize) -> Result<Vec<Node>, ReactModelError> {
    let nodes = file.left.len();
    let lengths = [
        file.feature.len(),
        file.threshold.len(),
        file.right.len(),
        file.output.len(),
    ];
    let damaged = |node: usize, what: &'static str| ReactModelError::Tree { node, what };
    if nodes == 0 || lengths.iter().any(|&length| length != nodes) {
        return Err(damaged(
            lengths.into_iter().min().unwrap_or(0).min(nodes),
            "is missing in one of its lists",
        ));
    }
    let child = |node: usize, child: i64| {
        // Children come later, so that each way through the tree ends.
        let child = usize::try_from(child)
            .ok()
            .filter(|&child| child > node && child < nodes);
        child.ok_or_else(|| damaged(node, "has a child that does not come after it"))
    };
    let read = |node: usize| {
        if file.left[node] == NO_CHILD && file.right[node] == NO_CHILD {
            return match file.output[node] {
                output if output < configurations => Ok(Node::Leaf(output)),
                _ => Err(damaged(node, "has a configuration that is not listed")),
            };
        }
        let feature = usize::try_from(file.feature[node]).ok().filter(|&one| one < features);
        Ok(Node::Split {
            feature: feature.ok_or_else(|| damaged(node, "has a feature that is not listed"))?,
            threshold: file.threshold[node],
            left: child(node, file.left[node])?,
            right: child(node, file.right[node])?,
        })
    };
    (0..nodes).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::super::model::Profile;
    use super::*;
    use pinfold_core::RegionCounts;
    use serde_json::{Value, json};

    fn configuration(threads: usize, nodes: usize, page_map: &str) -> Value {
        json!({"threads": threads, "nodes": nodes, "thread_map": "contiguous", "page_map": page_map, "prefetch": "0000"})
    }

    /// Power in the second profile decides, and where it is high, the miss ratio in the first one.
    fn document() -> Value {
        json!({
            "format": "pinfold-react",
            "version": 1,
            "machine": "e5-4650x4",
            "profiles": [configuration(8, 1, "local"), configuration(32, 4, "interleave")],
            "features": [
                {"counter": "likwid:L3 miss ratio", "profile": 0},
                {"counter": "Power", "profile": 1}
            ],
            "tree": {
                "feature": [1, -2, 0, -2, -2],
                "threshold": [100.0, -2.0, 0.5, -2.0, -2.0],
                "left": [1, -1, 3, -1, -1],
                "right": [2, -1, 4, -1, -1],
                "output": [0, 0, 0, 1, 2]
            },
            "configurations": [
                configuration(8, 1, "local"), configuration(16, 2, "single"), configuration(32, 4, "locality")
            ],
            "trained_on": {"simulated": true, "machines": ["e5-4650x4"], "programs": ["bt"], "rows": 288, "learner": "tree"}
        })
    }

    fn profile(misses: f64, watts: f64) -> Profile {
        Profile {
            executions: 2.0,
            seconds: 2.0,
            counts: Some(RegionCounts {
                l3_requests: 100.0,
                l3_misses: misses,
                package_joules: watts * 2.0,
                ..RegionCounts::default()
            }),
        }
    }

    #[test]
    fn the_tree_is_followed_by_the_counters_of_both_profiles() {
        let model: ReactModel = document().to_string().parse().unwrap();
        let forecast =
            |misses: f64, watts: f64| model.forecast(&[Some(profile(misses, 0.0)), Some(profile(0.0, watts))]);
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
            (broken(|file| file["version"] = json!(2)), "version 2"),
            (broken(|file| file["profiles"] = json!([])), "0 profiled configurations"),
            (
                broken(|file| file["features"][0]["counter"] = json!("Heat")),
                "`Heat`, which this pinfold does not know; there are CPI",
            ),
            (broken(|file| file["features"][0]["profile"] = json!(2)), "in profile 2"),
            (
                broken(|file| file["configurations"][1]["nodes"] = json!(17)),
                "configuration 2 of `configurations` has 16 threads on 17 nodes",
            ),
            (
                broken(|file| file["profiles"][0]["page_map"] = json!("first_touch")),
                "has the page map `first_touch`",
            ),
            (
                broken(|file| file["tree"]["left"][0] = json!(0)),
                "node 0 of the tree has a child that does not come after it",
            ),
            (
                broken(|file| file["tree"]["feature"][2] = json!(2)),
                "node 2 of the tree has a feature that is not listed",
            ),
            (
                broken(|file| file["tree"]["output"][4] = json!(3)),
                "node 4 of the tree has a configuration that is not listed",
            ),
            (
                broken(|file| file["tree"]["output"] = json!([0])),
                "node 1 of the tree is missing in one of its lists",
            ),
            (broken(|file| file["more"] = json!(1)), "unknown field `more`"),
        ] {
            assert!(message.contains(expected), "{message}");
        }
    }
}
