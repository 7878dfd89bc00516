//! A model of `react` in words, for `pinfold explain`.

use super::model::{ModelFeature, ReactModel};
use pinfold_core::LIKWID;
use std::fmt;

impl fmt::Display for ReactModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| 100.0 * share;
        let score = &self.score;
        writeln!(
            f,
            "A model of parallel regions for {}, learned from {}.",
            self.machine, self.trained
        )?;
        writeln!(f, "\nA region is profiled with:")?;
        for (place, profile) in self.profiles.iter().enumerate() {
            writeln!(f, "  {}. {profile}", place + 1)?;
        }
        writeln!(f, "\nOf these profiles the model looks at:")?;
        for feature in &self.features {
            let unit = match LIKWID[feature.counter].unit {
                "" => String::new(),
                unit => format!(" {unit}"),
            };
            writeln!(
                f,
                "  {}; was seen from {:.4} to {:.4}{unit}",
                name(feature),
                feature.least,
                feature.greatest
            )?;
        }
        let leaf = |configuration: usize| self.configurations[configuration].to_string();
        let tree = self.tree.written(&|feature| name(&self.features[feature]), &leaf);
        writeln!(f, "\nIt forecasts:{tree}")?;
        writeln!(
            f,
            "\nOf the gain that is possible over {}, as a logarithm, such models reach {:.0} % for programs that they have not \
             seen (95 % interval over programs: {:.0} to {:.0} %; divided into folds {}), and {:.0} % with shuffled labels. \
             The paper's own score, of the best pair of counters on the folds that choose it, is {:.0} %.",
            self.baseline,
            percent(score.nested),
            percent(score.low),
            percent(score.high),
            times(score.seeds),
            percent(score.control),
            percent(score.inside)
        )?;
        writeln!(
            f,
            "What this does to a region is measured, and undone where it does not help."
        )
    }
}

fn name(feature: &ModelFeature) -> String {
    format!("{} in profile {}", LIKWID[feature.counter].name, feature.profile + 1)
}

fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        more => format!("{more} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::document;
    use super::*;

    #[test]
    fn a_model_is_printed_with_its_profiles_its_tree_and_its_scores() {
        let model: ReactModel = document().to_string().parse().unwrap();
        let text = model.to_string();
        for part in [
            "for e5-4650x4, learned from 288 rows of 1 programs on e5-4650x4, which are simulated (learner: tree)",
            "  1. 8 threads on 1 node, compact, with pages local and prefetchers 0000",
            "  Power in profile 2; was seen from 50.0000 to 130.0000 W",
            "  if Power in profile 2 <= 100.00000:\n    8 threads on 1 node, compact, with pages local and prefetchers 0000\n  \
             else:\n    if L3 miss ratio in profile 1 <= 0.50000:",
            "over 32 threads on 4 nodes, compact, with pages locality and prefetchers 0000",
            "reach 90 % for programs that they have not seen (95 % interval over programs: 80 to 95 %; divided into folds 5 \
             times), and 20 % with shuffled labels",
            "is 97 %.",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
