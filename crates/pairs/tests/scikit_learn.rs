//! The trees and predictions are those of scikit-learn (`tests/python/test_pairs.py` writes and checks the file).

use pinfold_pairs::{Problem, ProblemError, Search, Tree};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    kind: String,
    features: Vec<Vec<f32>>,
    labels: Vec<u8>,
    folds: Vec<u8>,
    gains: Vec<Vec<f64>>,
    /// For all pairs in their order.
    predictions: Vec<Vec<u8>>,
}

impl Case {
    fn problem(&self) -> Problem {
        Problem {
            features: self.features.concat(),
            labels: self.labels.clone(),
            gains: self.gains.concat(),
            classes: self.gains[0].len(),
            folds: self.folds.clone(),
        }
    }

    fn pairs(&self) -> Vec<(usize, usize)> {
        let features = self.features.len();
        (0..features)
            .flat_map(|one| (one + 1..features).map(move |other| (one, other)))
            .collect()
    }

    /// The mean logarithm of the speed-up with predicted classes.
    fn score(&self, classes: &[u8]) -> f64 {
        let gains = classes
            .iter()
            .zip(&self.gains)
            .map(|(&class, gains)| gains[usize::from(class)]);
        gains.sum::<f64>() / classes.len() as f64
    }
}

fn cases() -> Vec<Case> {
    let cases: Vec<Case> = serde_json::from_str(include_str!("data/scikit-learn.json")).unwrap();
    assert_eq!(cases.len(), 4);
    cases
}

#[test]
fn a_tree_predicts_what_scikit_learn_predicts() {
    for case in cases() {
        for ((one, other), expected) in case.pairs().into_iter().zip(&case.predictions) {
            let features = [&case.features[one][..], &case.features[other][..]];
            for fold in 0..=*case.folds.iter().max().unwrap() {
                let samples = 0..case.labels.len();
                let (judged, learned): (Vec<usize>, Vec<usize>) =
                    samples.partition(|&sample| case.folds[sample] == fold);
                let tree = Tree::fit(&features, &case.labels, case.gains[0].len(), &learned);
                for sample in judged {
                    let said = tree.predict(&features, sample);
                    assert_eq!(said, expected[sample], "{}: {one}, {other}, {sample}", case.kind);
                }
            }
        }
    }
}

#[test]
fn the_search_predicts_what_scikit_learn_predicts() {
    for case in cases() {
        let search = Search::new(&case.problem()).unwrap();
        for ((one, other), expected) in case.pairs().into_iter().zip(&case.predictions) {
            assert_eq!(&search.predict(one, other), expected, "{}: {one}, {other}", case.kind);
            assert!((search.score(one, other) - case.score(expected)).abs() < 1e-12);
        }
    }
}

#[test]
fn the_best_pair_is_the_first_with_the_highest_score_whatever_the_number_of_threads() {
    for case in cases() {
        let search = Search::new(&case.problem()).unwrap();
        let scored = case
            .pairs()
            .into_iter()
            .map(|pair| (pair, search.score(pair.0, pair.1)));
        let highest = scored.clone().map(|(_, score)| score).fold(f64::NEG_INFINITY, f64::max);
        // Two sums in another order may differ in the last digit.
        let (first, _) = scored.clone().find(|(_, score)| *score > highest - 1e-12).unwrap();
        for threads in [1, 3] {
            let best = search.best(threads, |_| true).unwrap();
            assert_eq!(best.pair, first, "{}", case.kind);
            assert!((best.score - highest).abs() < 1e-12);
        }
        let without = search.best(1, |feature| feature != first.0).unwrap();
        assert_ne!(without.pair.0, first.0);
        assert!(without.score <= highest + 1e-12);
        assert_eq!(search.best(1, |feature| feature == 0), None, "one feature is no pair");
        let rows: Vec<f64> = (0..search.features()).flat_map(|one| search.scores(one)).collect();
        assert_eq!(rows, scored.map(|(_, score)| score).collect::<Vec<_>>());
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let [case, ..] = &cases()[..] else { panic!() };
    let refused = |change: &dyn Fn(&mut Problem)| {
        let mut problem = case.problem();
        change(&mut problem);
        Search::new(&problem).err().unwrap()
    };
    let samples = case.labels.len();
    assert_eq!(refused(&|one| one.labels.truncate(1)), ProblemError::Samples(1));
    assert_eq!(refused(&|one| one.classes = 17), ProblemError::Classes(17));
    let error = refused(&|one| {
        one.features.pop();
    });
    assert!(
        matches!(error, ProblemError::Length { what: "features", .. }),
        "{error}"
    );
    let error = refused(&|one| one.features[samples + 2] = f32::NAN);
    assert_eq!(error.to_string(), "a feature of sample 2 is not valid");
    let error = refused(&|one| one.labels[3] = 200);
    assert_eq!(error.to_string(), "the class of sample 3 is not valid");
}
