//! A placement model: how long a program takes in each strategy, over its time in the default, and how sure that is.
//!
//! Sums of regression trees, as `python/pinfold/learn/classify/model.py` fits them and says where they come from.

use super::Strategy;
use crate::rules::Trained;
use crate::tree::Tree;
use std::convert::Infallible;

/// The model.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementModel {
    /// What it was trained on.
    pub trained: Trained,
    /// The inputs of trees, in the order of their features.
    pub(super) features: Vec<ModelFeature>,
    /// The strategies that are predicted: all but the default.
    pub(super) strategies: Vec<Strategy>,
    pub(super) times: Ensemble,
    pub(super) errors: Ensemble,
    pub(super) least_error: f64,
    pub(super) width: Option<f64>,
    pub(super) limit: Option<f64>,
    pub(super) close: f64,
    /// The share of sensitive programs among similar ones, if half of all programs are sensitive.
    pub(super) sensitivity: Ensemble,
    pub(super) deviations: Vec<Deviation>,
}

/// The deviations of one program of the training data from a prediction without it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Deviation {
    pub(super) weight: f64,
    /// The logarithms of times over the predicted ones, in the order of the predicted strategies.
    pub(super) logs: Vec<f64>,
}

/// One input of trees.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ModelFeature {
    /// A figure of the program or the machine, with the least and the greatest value in the training data.
    Observed { name: String, least: f64, greatest: f64 },
    /// 1 if the strategy scatters threads, else 0.
    Scatter,
    /// 1 if the strategy interleaves pages, else 0.
    Interleave,
}

/// A constant plus a multiple of the sum of trees.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ensemble {
    pub(super) base: f64,
    pub(super) factor: f64,
    pub(super) trees: Vec<Tree<f64>>,
}

impl Ensemble {
    fn value(&self, seen: &[f32]) -> f64 {
        let sum: f64 = self.trees.iter().map(|tree| leaf(tree, seen)).sum();
        self.base + self.factor * sum
    }
}

fn leaf(tree: &Tree<f64>, seen: &[f32]) -> f64 {
    let Ok(value) = tree.leaf(|feature| Ok::<_, Infallible>(seen[feature]));
    value
}

/// Placement matters to a program if it is predicted to matter to a larger share of similar programs.
const SENSITIVE: f64 = 0.5;

/// The position of the least value; of equal ones the first.
fn fastest(logs: &[f64]) -> usize {
    let order = (0..logs.len()).min_by(|&one, &other| logs[one].total_cmp(&logs[other]));
    order.unwrap_or(0)
}

/// Why a model does not forecast a program.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unknown {
    /// Features that it needs are not known here.
    #[error("{} {} not known here", listed(.0), if .0.len() == 1 { "is" } else { "are" })]
    Missing(Vec<String>),
    /// The machine differs from all machines of its training data.
    #[error(
        "the model was learned on machines with {}, and this one has {}",
        range(name, *.least, *.greatest),
        number(*.value)
    )]
    OtherMachine {
        /// The feature.
        name: String,
        /// Its value here.
        value: f64,
        /// The least value in the training data.
        least: f64,
        /// The greatest value in the training data.
        greatest: f64,
    },
}

/// Names with commas, and `and` before the last one.
fn listed(names: &[String]) -> String {
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => names.concat(),
    }
}

/// A whole number without decimals, and any other with three.
fn number(value: f64) -> String {
    let decimals = if value.fract() == 0.0 { 0 } else { 3 };
    format!("{value:.decimals$}")
}

/// A feature of machines with its least and its greatest value, as one number if they are the same: `2 to 8 nodes`.
fn range(name: &str, least: f64, greatest: f64) -> String {
    let (least, greatest) = (number(least), number(greatest));
    let values = if least == greatest {
        least
    } else {
        format!("{least} to {greatest}")
    };
    let words = name.replace('_', " ");
    match name {
        "nodes" | "cores_per_node" => format!("{values} {words}"),
        _ => format!("{words} {values}"),
    }
}

/// The forecast of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The strategies, the default first.
    pub strategies: Vec<Strategy>,
    /// The logarithm of the time in each over the time in the default; 0 for the default.
    pub logs: Vec<f64>,
    /// The half width of its interval, which has the time of nine programs in ten; `None` if it is not known.
    pub widths: Vec<Option<f64>>,
    /// How much less another strategy may take than the fastest one, as a logarithm.
    pub doubt: f64,
    /// Whether this is small enough for an answer.
    pub is_sure: bool,
    /// The strategy to measure beside the default, if one more is measured: the faster of both is expected to take
    /// least.
    pub second: usize,
    /// Whether placement is predicted to matter.
    pub is_sensitive: bool,
    /// A smaller gain is not worth leaving the default, as a logarithm.
    close: f64,
}

impl Prediction {
    /// The strategy that is predicted to be the fastest; of equally fast ones the first.
    pub fn best(&self) -> usize {
        fastest(&self.logs)
    }

    /// The strategy to use: the best one, or the default if it is about as good.
    pub fn choice(&self) -> usize {
        let best = self.best();
        if self.logs[best] < -self.close { best } else { 0 }
    }

    /// All strategies that may be the fastest, the default always among them. The first is the one to measure if one is
    /// measured, the others follow from the likeliest on.
    pub fn likeliest(&self) -> Vec<usize> {
        let width = |place: usize| self.widths[place].unwrap_or(f64::INFINITY);
        let best = self.best();
        let highest = self.logs[best] + width(best);
        let mut places: Vec<usize> = (0..self.logs.len())
            .filter(|&place| place == 0 || self.logs[place] - width(place) <= highest)
            .collect();
        places.sort_by(|&one, &other| {
            let is_later = |place: usize| place != self.second;
            let by_log = self.logs[one].total_cmp(&self.logs[other]);
            is_later(one).cmp(&is_later(other)).then(by_log)
        });
        places
    }
}

impl PlacementModel {
    /// Its training data, as a part of a sentence.
    pub fn learned_from(&self) -> String {
        self.trained.to_string()
    }

    /// The names of the features that it needs.
    pub fn needs(&self) -> Vec<&str> {
        let names = self.features.iter().filter_map(|feature| match feature {
            ModelFeature::Observed { name, .. } => Some(name.as_str()),
            ModelFeature::Scatter | ModelFeature::Interleave => None,
        });
        names.collect()
    }

    /// The forecast of a program, or why there is none. `value` returns a feature by its name, and `of_machine` returns
    /// whether a feature describes the machine.
    pub fn predict(
        &self,
        value: impl Fn(&str) -> Option<f64>,
        of_machine: impl Fn(&str) -> bool,
    ) -> Result<Prediction, Unknown> {
        let missing: Vec<String> = self
            .needs()
            .into_iter()
            .filter(|name| value(name).is_none())
            .map(str::to_owned)
            .collect();
        if !missing.is_empty() {
            return Err(Unknown::Missing(missing));
        }
        for feature in &self.features {
            if let ModelFeature::Observed { name, least, greatest } = feature
                && let Some(value) =
                    value(name).filter(|value| of_machine(name) && !(least..=greatest).contains(&value))
            {
                return Err(Unknown::OtherMachine {
                    name: name.clone(),
                    value,
                    least: *least,
                    greatest: *greatest,
                });
            }
        }
        Ok(self.predicted(value))
    }

    /// The strategy to try beside the default: the faster one of both is expected to take the least time, over all
    /// deviations.
    fn second(&self, logs: &[f64]) -> usize {
        let mut expected = vec![0.0; self.strategies.len()];
        for deviation in &self.deviations {
            for ((sum, log), off) in expected.iter_mut().zip(&logs[1..]).zip(&deviation.logs) {
                // The default's logarithm is 0, whatever happens.
                *sum += deviation.weight * (log + off).min(0.0);
            }
        }
        1 + fastest(&expected)
    }

    fn predicted(&self, value: impl Fn(&str) -> Option<f64>) -> Prediction {
        let mut logs = vec![0.0];
        let mut errors = vec![0.0];
        let mut seen: Vec<f32> = vec![0.0; self.features.len()];
        for strategy in &self.strategies {
            for (seen, feature) in seen.iter_mut().zip(&self.features) {
                #[expect(clippy::cast_possible_truncation, reason = "a tree sees single precision")]
                let single = match feature {
                    ModelFeature::Observed { name, .. } => value(name).unwrap_or(f64::NAN) as f32,
                    ModelFeature::Scatter => f32::from(u8::from(strategy.scatters())),
                    ModelFeature::Interleave => f32::from(u8::from(strategy.interleaves())),
                };
                *seen = single;
            }
            logs.push(self.times.value(&seen));
            errors.push(self.errors.value(&seen).max(self.least_error));
        }
        let best = fastest(&logs);
        let may = |place: usize| (errors[place] + errors[best]) - (logs[place] - logs[best]);
        let doubt = (0..logs.len())
            .filter(|&place| place != best)
            .map(may)
            .fold(0.0, f64::max);
        let default = Strategy::DEFAULT;
        Prediction {
            strategies: [default].into_iter().chain(self.strategies.iter().copied()).collect(),
            widths: [Some(0.0)]
                .into_iter()
                .chain(errors[1..].iter().map(|error| Some(self.width? * error)))
                .collect(),
            is_sure: self.limit.is_some_and(|limit| doubt <= limit),
            second: self.second(&logs),
            // The trees for it use no feature of a strategy.
            is_sensitive: self.sensitivity.value(&seen) > SENSITIVE,
            close: self.close,
            logs,
            doubt,
        }
    }
}
