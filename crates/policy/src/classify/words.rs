//! A placement model in words: its training data, its features, and its conclusions.

use super::features::{FEATURES, OF_MACHINE};
use super::model::{Ensemble, ModelFeature, PlacementModel};
use crate::tree::{Node, Tree};
use std::fmt;

/// A sum of more trees than this is not written out: nobody can follow it.
const FEW_TREES: usize = 3;

/// A text of several lines.
impl fmt::Display for PlacementModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "A placement model, learned from {}.", self.trained)?;
        writeln!(
            f,
            "It forecasts how long a program takes in each placement strategy, over its time in compact with first_touch."
        )?;
        writeln!(f, "\nIt looks at:")?;
        for feature in &self.features {
            writeln!(f, "  {}", described(feature))?;
        }
        match self.limit {
            Some(limit) => writeln!(
                f,
                "\nIt is sure of a strategy if no other one is expected to be faster by more than {:.1} %.",
                100.0 * limit.exp_m1()
            )?,
            None => writeln!(
                f,
                "\nIt is never sure of a strategy: too few programs showed when it can be relied on. All that may be the \
                 fastest are tried."
            )?,
        }
        writeln!(
            f,
            "A program keeps the default unless another strategy is forecast to be faster by more than {:.1} %.",
            100.0 * self.close.exp_m1()
        )?;
        writeln!(
            f,
            "If one more strategy is measured beside the default, it is the one that would have helped most, had this \
             program differed from its forecast as those that it was learned from did (cases: {}).",
            self.deviations.len()
        )?;
        writeln!(f, "\n{}", self.times_in_trees())?;
        writeln!(f, "\n{}", self.sensitivity_in_trees())
    }
}

fn described(feature: &ModelFeature) -> String {
    match feature {
        ModelFeature::Scatter => "scatter: 1 if neighbouring threads are on different nodes, else 0".to_owned(),
        ModelFeature::Interleave => "interleave: 1 if pages are on all nodes in turn, else 0".to_owned(),
        ModelFeature::Observed { name, least, greatest } => {
            let meaning = FEATURES.iter().find(|known| known.name == name);
            let meaning = meaning.map_or("", |known| known.meaning);
            let used = if OF_MACHINE.contains(&name.as_str()) {
                "used only within"
            } else {
                "was seen from"
            };
            format!("{name}: {meaning}; {used} {least:.4} to {greatest:.4}")
        }
    }
}

impl PlacementModel {
    fn times_in_trees(&self) -> String {
        let trees = &self.times.trees;
        if trees.len() > FEW_TREES {
            return format!(
                "The forecast is a sum of {} trees, with {} conditions in all.",
                trees.len(),
                conditions(&self.times)
            );
        }
        let mut text = String::from("The logarithm of the time over that in the default:");
        let leaf = |value: f64| {
            let log = self.times.base + self.times.factor * value;
            format!("{log:+.3} ({:.2} times the time)", log.exp())
        };
        for tree in trees {
            text += &tree.written(&|feature| self.name(feature), &leaf);
        }
        text
    }

    fn sensitivity_in_trees(&self) -> String {
        let mut text = String::from("Placement matters to a program if it does to more than half of those like it:");
        let leaf = |value: f64| {
            let share = self.sensitivity.base + self.sensitivity.factor * value;
            format!("to {:.0} %", 100.0 * share)
        };
        for tree in &self.sensitivity.trees {
            text += &tree.written(&|feature| self.name(feature), &leaf);
        }
        text
    }

    fn name(&self, feature: usize) -> String {
        match &self.features[feature] {
            ModelFeature::Observed { name, .. } => name.clone(),
            ModelFeature::Scatter => "scatter".to_owned(),
            ModelFeature::Interleave => "interleave".to_owned(),
        }
    }
}

fn conditions(ensemble: &Ensemble) -> usize {
    let nodes = ensemble.trees.iter().flat_map(Tree::nodes);
    nodes.filter(|node| matches!(node, Node::Split(..))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(trees: &str) -> PlacementModel {
        format!(
            r#"{{
                "placement_model": 2,
                "trained": {{"simulated": true, "machines": ["one", "two"], "programs": ["a", "b", "c"], "rows": 12,
                             "learner": "tree, depth 1"}},
                "features": [{{"name": "interleave", "least": 0.0, "greatest": 1.0}},
                             {{"name": "nodes", "least": 2.0, "greatest": 8.0}},
                             {{"name": "ipc", "least": 0.25, "greatest": 3.0}}],
                "strategies": [{{"threads": "compact", "pages": "interleave"}}],
                "times": {{"base": 0.0, "factor": 1.0, "trees": {trees}}},
                "errors": {{"base": 0.1, "factor": 1.0, "trees": []}},
                "least_error": 0.001, "width": 2.0, "limit": 0.05, "close": 0.02,
                "sensitivity": {{"base": 0.0, "factor": 1.0, "trees": [[[2, 1.5, 1, 2], [0.75], [0.25]]]}},
                "deviations": [[1.0, 0.0]]
            }}"#
        )
        .parse()
        .unwrap()
    }

    #[test]
    fn a_model_of_one_tree_is_written_out_with_its_origin_and_its_limits() {
        let text = model("[[[0, 0.5, 1, 2], [0.0], [-0.5]]]").to_string();
        for part in [
            "12 rows of 3 programs on one, two, which are simulated (learner: tree, depth 1)",
            "nodes: NUMA nodes; used only within 2.0000 to 8.0000",
            "ipc: instructions per unhalted cycle; was seen from 0.2500 to 3.0000",
            "faster by more than 5.1 %",
            "  if interleave <= 0.50000:\n    +0.000 (1.00 times the time)\n  else:\n    -0.500 (0.61 times the time)",
            "to more than half of those like it:\n  if ipc <= 1.50000:\n    to 75 %\n  else:\n    to 25 %",
            "(cases: 1)",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_sum_of_many_trees_is_only_counted() {
        let trees = format!("[{}]", ["[[0, 0.5, 1, 2], [0.0], [-0.5]]"; 5].join(", "));
        assert!(
            model(&trees)
                .to_string()
                .contains("a sum of 5 trees, with 5 conditions in all")
        );
    }
}
