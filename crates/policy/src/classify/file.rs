//! Reads placement models from JSON (docs/formats/models.md).

use super::Strategy;
use super::features::{FEATURES, OF_STRATEGY};
use super::model::{Deviation, Ensemble, ModelFeature, PlacementModel};
use crate::rules::Trained;
use crate::tree::{Damage, Node, Tree};
use serde::Deserialize;
use std::str::FromStr;

/// The format version that is read.
const VERSION: u64 = 2;

const SCATTER: &str = OF_STRATEGY[0];
const INTERLEAVE: &str = OF_STRATEGY[1];

/// Why a text is not a placement model. The caller knows the file.
#[derive(Debug, thiserror::Error)]
pub enum PlacementModelError {
    /// It is not JSON, or a key is missing, unknown, or of the wrong type; the message has line and column.
    #[error("{0}; the keys of a placement model are in docs/formats/models.md")]
    Json(#[from] serde_json::Error),
    /// It is JSON of another kind.
    #[error(
        "this is no placement model: the key `placement_model` with its version is missing; give a file that `pinfold learn train classify` wrote"
    )]
    Other,
    /// It is of another version.
    #[error("this placement model has version {0}, and this pinfold reads version {VERSION}; train it again")]
    Version(u64),
    /// It uses a feature that this pinfold does not know.
    #[error("this placement model has the feature `{name}`, which this pinfold does not know{}; train it again", hint(.nearest.as_deref()))]
    UnknownFeature {
        /// The feature.
        name: String,
        /// The known feature with the most similar name.
        nearest: Option<String>,
    },
    /// A strategy is listed twice, or the default is listed.
    #[error(
        "{0} is listed among the predicted strategies, and must not be: each is listed once, and the default is not"
    )]
    Strategy(Strategy),
    /// The trees that say whether placement matters ask for a strategy.
    #[error("a tree of `sensitivity` uses `{0}`, and it is asked of no strategy; the file is damaged: train it again")]
    OfStrategy(String),
    /// A tree cannot be followed.
    #[error("node {node} of tree {tree} of `{of}` {what}; the file is damaged: train it again")]
    Tree {
        /// `times`, `errors` or `sensitivity`.
        of: &'static str,
        /// The number of the tree, from 1.
        tree: usize,
        /// The number of the node, from 0.
        node: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// There are no deviations, or one has another number of strategies.
    #[error("{0}; the file is damaged: train it again")]
    Deviations(String),
    /// A number is not finite, or not above zero where it has to be.
    #[error("`{0}` is {1}, which is not possible; the file is damaged: train it again")]
    Number(&'static str, f64),
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

#[derive(Deserialize)]
struct Head {
    placement_model: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "placement_model")]
    _version: u64,
    trained: Trained,
    features: Vec<FileFeature>,
    strategies: Vec<Strategy>,
    times: FileEnsemble,
    errors: FileEnsemble,
    least_error: f64,
    width: Option<f64>,
    limit: Option<f64>,
    close: f64,
    sensitivity: FileEnsemble,
    /// Each is a weight and a logarithm for each strategy.
    deviations: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFeature {
    name: String,
    least: f64,
    greatest: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEnsemble {
    base: f64,
    factor: f64,
    trees: Vec<Vec<Node<f64>>>,
}

impl FromStr for PlacementModel {
    type Err = PlacementModelError;

    fn from_str(text: &str) -> Result<Self, PlacementModelError> {
        match serde_json::from_str::<Head>(text)?.placement_model {
            Some(VERSION) => {}
            Some(other) => return Err(PlacementModelError::Version(other)),
            None => return Err(PlacementModelError::Other),
        }
        let file: File = serde_json::from_str(text)?;
        for (place, &strategy) in file.strategies.iter().enumerate() {
            if strategy == Strategy::DEFAULT || file.strategies[..place].contains(&strategy) {
                return Err(PlacementModelError::Strategy(strategy));
            }
        }
        for (name, value) in [("least_error", file.least_error), ("close", file.close)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(PlacementModelError::Number(name, value));
            }
        }
        let number = file.features.len();
        let deviations = deviations(&file.deviations, file.strategies.len())?;
        let sensitivity = ensemble("sensitivity", file.sensitivity, number)?;
        let of_strategy = |name: &str| OF_STRATEGY.contains(&name);
        let nodes = sensitivity.trees.iter().flat_map(Tree::nodes);
        let mut used = nodes.filter_map(|node| match node {
            Node::Split(feature, ..) => Some(&file.features[*feature].name),
            Node::Leaf(_) => None,
        });
        if let Some(name) = used.find(|name| of_strategy(name)) {
            return Err(PlacementModelError::OfStrategy(name.clone()));
        }
        Ok(Self {
            trained: file.trained,
            features: file.features.into_iter().map(feature).collect::<Result<_, _>>()?,
            strategies: file.strategies,
            times: ensemble("times", file.times, number)?,
            errors: ensemble("errors", file.errors, number)?,
            least_error: file.least_error,
            width: file.width,
            limit: file.limit,
            close: file.close,
            sensitivity,
            deviations,
        })
    }
}

fn deviations(rows: &[Vec<f64>], strategies: usize) -> Result<Vec<Deviation>, PlacementModelError> {
    if rows.is_empty() {
        return Err(PlacementModelError::Deviations("`deviations` is empty".to_owned()));
    }
    let checked = rows.iter().enumerate().map(|(place, row)| match row.split_first() {
        Some((&weight, logs)) if logs.len() == strategies => Ok(Deviation {
            weight,
            logs: logs.to_vec(),
        }),
        _ => Err(PlacementModelError::Deviations(format!(
            "row {place} of `deviations` has {} numbers, not a weight and one for each of {strategies} strategies",
            row.len()
        ))),
    });
    checked.collect()
}

fn feature(one: FileFeature) -> Result<ModelFeature, PlacementModelError> {
    match one.name.as_str() {
        SCATTER => Ok(ModelFeature::Scatter),
        INTERLEAVE => Ok(ModelFeature::Interleave),
        name if FEATURES.iter().any(|known| known.name == name) => Ok(ModelFeature::Observed {
            least: one.least,
            greatest: one.greatest,
            name: one.name,
        }),
        name => {
            let known = FEATURES.iter().map(|known| known.name).chain(OF_STRATEGY);
            let likeness = |other: &&str| strsim::jaro_winkler(name, other);
            let nearest = known.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
            Err(PlacementModelError::UnknownFeature {
                nearest: nearest.filter(|nearest| likeness(nearest) > 0.8).map(str::to_owned),
                name: one.name,
            })
        }
    }
}

fn ensemble(of: &'static str, file: FileEnsemble, features: usize) -> Result<Ensemble, PlacementModelError> {
    for value in [file.base, file.factor] {
        if !value.is_finite() {
            return Err(PlacementModelError::Number(of, value));
        }
    }
    let trees = file.trees.into_iter().enumerate().map(|(place, nodes)| {
        Tree::checked(nodes, features, |_| None).map_err(|Damage { node, what }| PlacementModelError::Tree {
            of,
            tree: place + 1,
            node,
            what,
        })
    });
    Ok(Ensemble {
        base: file.base,
        factor: file.factor,
        trees: trees.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::OF_MACHINE;
    use super::super::model::Unknown;
    use super::*;
    use serde_json::{Value, json};

    /// Interleave takes half the time if memory is out of balance; scatter a tenth more if threads share.
    fn document() -> Value {
        json!({
            "placement_model": 2,
            "trained": {"simulated": true, "machines": ["one"], "programs": ["a", "b"], "rows": 6, "learner": "tree, depth 2"},
            "features": [
                {"name": "memory_imbalance", "least": 1.0, "greatest": 4.0},
                {"name": "nodes", "least": 2.0, "greatest": 8.0},
                {"name": "interleave", "least": 0.0, "greatest": 1.0},
                {"name": "scatter", "least": 0.0, "greatest": 1.0}
            ],
            "strategies": [
                {"threads": "compact", "pages": "interleave"},
                {"threads": "scatter", "pages": "first_touch"},
                {"threads": "scatter", "pages": "interleave"}
            ],
            "times": {"base": 0.0, "factor": 0.5, "trees": [
                [[2, 0.5, 1, 2], [0.0], [0, 2.0, 3, 4], [0.4], [-1.4]],
                [[3, 0.5, 1, 2], [0.0], [0.2]]
            ]},
            "errors": {"base": 0.05, "factor": 1.0, "trees": []},
            "least_error": 0.001,
            "width": 2.0,
            "limit": 0.2,
            "close": 0.02,
            "sensitivity": {"base": 0.0, "factor": 1.0, "trees": [[[0, 2.0, 1, 2], [0.1], [0.9]]]},
            "deviations": [[0.5, 0.0, 0.0, 0.0], [0.5, 0.9, 0.0, 0.0]]
        })
    }

    fn model() -> PlacementModel {
        document().to_string().parse().unwrap()
    }

    fn observed(imbalance: f64) -> impl Fn(&str) -> Option<f64> {
        move |name| match name {
            "memory_imbalance" => Some(imbalance),
            "nodes" => Some(4.0),
            _ => None,
        }
    }

    fn is_of_machine(name: &str) -> bool {
        OF_MACHINE.contains(&name)
    }

    #[test]
    fn trees_are_summed_for_each_strategy() {
        let said = model().predict(observed(3.0), is_of_machine).unwrap();
        let expected = [0.0, -0.7, 0.1, -0.6];
        for (log, expected) in said.logs.iter().zip(expected) {
            assert!((log - expected).abs() < 1e-12, "{:?}", said.logs);
        }
        assert_eq!(said.strategies[said.choice()].to_string(), "compact with interleave");
        assert_eq!(said.widths, [Some(0.0), Some(0.1), Some(0.1), Some(0.1)]);
        // Scatter with interleave may take 0.05 + 0.05 - 0.1 less.
        assert!(said.doubt.abs() < 1e-12 && said.is_sure);
        assert_eq!(
            said.likeliest(),
            [3, 1, 0],
            "scatter with first touch is too far from the best"
        );
    }

    #[test]
    fn the_second_strategy_is_the_one_that_is_expected_to_help_most_beside_the_default() {
        let said = model().predict(observed(3.0), is_of_machine).unwrap();
        // Interleave alone is forecast to be faster, and was wrong for half of the programs.
        assert_eq!((said.best(), said.second), (1, 3));
        assert!(said.is_sensitive);
        assert_eq!(said.likeliest(), [3, 1, 0]);
        assert!(!model().predict(observed(1.5), is_of_machine).unwrap().is_sensitive);
    }

    #[test]
    fn a_program_that_gains_nowhere_keeps_the_default() {
        let said = model().predict(observed(1.5), is_of_machine).unwrap();
        assert_eq!((said.best(), said.choice()), (0, 0));
    }

    #[test]
    fn without_a_limit_nothing_is_sure_and_without_a_width_any_strategy_may_be_the_best() {
        let mut file = document();
        file["limit"] = Value::Null;
        file["width"] = Value::Null;
        let model: PlacementModel = file.to_string().parse().unwrap();
        let said = model.predict(observed(3.0), is_of_machine).unwrap();
        assert!(!said.is_sure);
        assert_eq!(said.likeliest().len(), 4);
    }

    #[test]
    fn what_is_missing_is_named_and_not_guessed() {
        let error = model().predict(|_| None, is_of_machine).unwrap_err();
        assert_eq!(error.to_string(), "memory_imbalance and nodes are not known here");
    }

    #[test]
    fn a_machine_outside_of_the_training_data_is_refused_and_a_program_is_not() {
        let far = |name: &str| if name == "nodes" { Some(16.0) } else { Some(9.0) };
        let error = model().predict(far, is_of_machine).unwrap_err();
        assert!(
            matches!(&error, Unknown::OtherMachine { name, .. } if name == "nodes"),
            "{error}"
        );
        let text = "the model was learned on machines with 2 to 8 nodes, and this one has 16";
        assert_eq!(error.to_string(), text);
        assert!(model().predict(observed(9.0), is_of_machine).is_ok());
    }

    #[test]
    fn a_value_at_a_threshold_goes_where_scikit_learn_sends_it() {
        // In single precision this is the threshold itself.
        let said = model().predict(observed(2.0 + 1e-9), is_of_machine).unwrap();
        assert!((said.logs[1] - 0.2).abs() < 1e-12, "{:?}", said.logs);
    }

    #[test]
    fn a_file_that_is_damaged_or_of_another_kind_is_refused_with_the_reason() {
        let broken = |change: fn(&mut Value)| {
            let mut file = document();
            change(&mut file);
            file.to_string().parse::<PlacementModel>().unwrap_err().to_string()
        };
        for (message, expected) in [
            (broken(|file| file["placement_model"] = json!(1)), "version 1"),
            (broken(|file| *file = json!({"rule_policy": 1})), "no placement model"),
            (
                broken(|file| file["features"][0]["name"] = json!("memory_inbalance")),
                "did you mean `memory_imbalance`?",
            ),
            (
                broken(|file| file["strategies"][1] = file["strategies"][0].clone()),
                "compact with interleave is listed",
            ),
            (
                broken(|file| file["times"]["trees"][0][0] = json!([9, 0.5, 1, 2])),
                "node 0 of tree 1 of `times` has a feature",
            ),
            (
                broken(|file| file["times"]["trees"][1][0] = json!([3, 0.5, 0, 2])),
                "does not come after it",
            ),
            (
                broken(|file| file["times"]["trees"][1][0] = json!([3, 0.5, 1, 3])),
                "does not come after it",
            ),
            (
                broken(|file| file["errors"]["trees"] = json!([[]])),
                "node 0 of tree 1 of `errors` is missing",
            ),
            (broken(|file| file["least_error"] = json!(0.0)), "`least_error` is 0"),
            (broken(|file| file["more"] = json!(1)), "unknown field `more`"),
            (broken(|file| file["deviations"] = json!([])), "`deviations` is empty"),
            (
                broken(|file| file["deviations"][1] = json!([0.5, 0.1])),
                "row 1 of `deviations` has 2 numbers",
            ),
            (
                broken(|file| file["sensitivity"]["trees"][0][0] = json!([2, 0.5, 1, 2])),
                "a tree of `sensitivity` uses `interleave`",
            ),
        ] {
            assert!(message.contains(expected), "{message}");
        }
        let cut: Result<PlacementModel, _> = document().to_string()[..300].parse();
        assert!(cut.unwrap_err().to_string().contains("EOF"));
    }
}
