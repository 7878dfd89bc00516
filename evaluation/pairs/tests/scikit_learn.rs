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

/// A problem with more samples than the file's, of values that are often equal.
fn drawn(samples: u32, features: u32) -> Problem {
    let mut state = 1_u32;
    let mut draw = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let classes = 7;
    let mut problem = Problem {
        features: (0..samples * features).map(|_| draw(100) as f32).collect(),
        labels: vec![],
        gains: (0..samples * classes).map(|_| f64::from(draw(1000)) / 1000.0).collect(),
        classes: classes as usize,
        folds: (0..5).cycle().take(samples as usize).collect(),
    };
    problem.labels = (0..samples).map(|_| u8::try_from(draw(classes)).unwrap()).collect();
    problem
}

/// The predictions of trees of these features, each sample in its fold.
fn by_trees(problem: &Problem, features: &[usize]) -> Vec<u8> {
    let samples = problem.labels.len();
    let columns: Vec<&[f32]> = features
        .iter()
        .map(|feature| &problem.features[feature * samples..][..samples])
        .collect();
    let mut classes = vec![0; samples];
    for fold in 0..=*problem.folds.iter().max().unwrap() {
        let (judged, learned): (Vec<usize>, Vec<usize>) =
            (0..samples).partition(|&sample| problem.folds[sample] == fold);
        let tree = Tree::fit(&columns, &problem.labels, problem.classes, &learned);
        for sample in judged {
            classes[sample] = tree.predict(&columns, sample);
        }
    }
    classes
}

#[test]
fn words_of_every_size_predict_what_trees_predict() {
    for samples in [5, 63, 64, 65, 128, 129, 255] {
        let problem = drawn(samples, 4);
        let search = Search::new(&problem).unwrap();
        for (one, other) in (0..4).flat_map(|one| (one + 1..4).map(move |other| (one, other))) {
            let expected = by_trees(&problem, &[one, other]);
            assert_eq!(
                search.predict(one, other),
                expected,
                "{samples} samples: {one}, {other}"
            );
        }
    }
    assert_eq!(Search::new(&drawn(256, 2)).err(), Some(ProblemError::Samples(256)));
}

#[test]
fn all_scores_are_those_of_single_pairs_in_their_order() {
    let search = Search::new(&drawn(57, 30)).unwrap();
    let expected: Vec<f64> = (0..30).flat_map(|one| search.scores(one)).collect();
    for threads in [1, 3] {
        let scores = search.all_scores(threads);
        assert_eq!(scores.len(), 30 * 29 / 2);
        for (score, expected) in scores.into_iter().zip(&expected) {
            assert!((f64::from(score) - expected).abs() < 1e-6);
        }
    }
}

#[test]
fn a_third_feature_is_judged_with_trees_of_three() {
    let problem = drawn(57, 5);
    let scores = Search::new(&problem).unwrap().thirds((1, 3), 2);
    for (third, score) in scores.into_iter().enumerate() {
        let gains = by_trees(&problem, &[1, 3, third])
            .into_iter()
            .enumerate()
            .map(|(sample, class)| problem.gains[sample * problem.classes + usize::from(class)]);
        assert!((score - gains.sum::<f64>() / 57.0).abs() < 1e-12, "{third}");
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
    assert_eq!(refused(&|one| one.labels.fill(2)), ProblemError::OneClass);
    assert_eq!(refused(&|one| one.folds.fill(0)), ProblemError::OneFold);
}
