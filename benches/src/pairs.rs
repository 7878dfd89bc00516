//! The search over pairs of features, against scikit-learn in the same run. Processor time counts on both sides, because
//! other programs on the host would slow them differently.

use crate::measure::{Missing, time};
use anyhow::{Context, Result, ensure};
use nix::time::{ClockId, clock_gettime};
use pinfold_pairs::{Problem, Search};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

/// The size of the problem of Sánchez Barrera et al. (ICS 2020), but for the number of features.
const SAMPLES: usize = 57;
const CLASSES: usize = 13;
const FOLDS: u8 = 10;
const FEATURES: usize = 160;

const PYTHON: &str = ".venv/bin/python";

/// Judges pairs of random features by the same trees, and prints the pairs per second.
const SCIKIT_LEARN: &str = "\
import itertools, time, numpy, sklearn.tree
random = numpy.random.default_rng(0)
values = random.normal(size=(57, 24)).astype(numpy.float32)
labels, folds = random.integers(13, size=57), numpy.arange(57) % 10
pairs = list(itertools.combinations(range(24), 2))[:100]
began = time.process_time()
for pair in pairs:
    seen = values[:, pair]
    for fold in range(10):
        judged = folds == fold
        tree = sklearn.tree.DecisionTreeClassifier(random_state=0).fit(seen[~judged], labels[~judged])
        tree.predict(seen[judged])
print(len(pairs) / (time.process_time() - began))
";

/// The pairs per second whose scores are all computed, over those of scikit-learn.
pub(crate) fn scores(root: &Path) -> Result<f64> {
    over_scikit_learn(root, |search| {
        black_box(search.all_scores(1));
    })
}

/// The pairs per second of an exact search for the best one, over those of scikit-learn.
pub(crate) fn best(root: &Path) -> Result<f64> {
    over_scikit_learn(root, |search| {
        black_box(search.best(1, |_| true));
    })
}

fn over_scikit_learn(root: &Path, work: impl FnOnce(&Search)) -> Result<f64> {
    if !root.join(PYTHON).exists() {
        return Err(Missing(format!("there is no {PYTHON}; `make setup` makes it")).into());
    }
    let search = Search::new(&problem())?;
    let before = processor_time()?;
    work(&search);
    let seconds = processor_time()?.saturating_sub(before).as_secs_f64();
    ensure!(seconds > 0.0, "the search takes no time");
    let said = time(root, &[PYTHON, "-c", SCIKIT_LEARN])?.output;
    let theirs: f64 = said.trim().parse().context("scikit-learn's speed cannot be read")?;
    Ok((FEATURES * (FEATURES - 1) / 2) as f64 / seconds / theirs)
}

/// Random features and classes: the worst case, because trees are large, and no pair is far better than others.
fn problem() -> Problem {
    // The constants of Numerical Recipes.
    let mut state = 1_u32;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let features = (0..FEATURES * SAMPLES).map(|_| draw() as f32).collect();
    let gains: Vec<f64> = (0..SAMPLES * CLASSES)
        .map(|_| f64::from(draw()) / f64::from(1 << 24))
        .collect();
    let labels = gains
        .chunks_exact(CLASSES)
        .map(|gains| {
            (0..)
                .zip(gains)
                .max_by(|one, other| one.1.total_cmp(other.1))
                .map_or(0, |(class, _)| class)
        })
        .collect();
    Problem {
        features,
        labels,
        gains,
        classes: CLASSES,
        folds: (0..FOLDS).cycle().take(SAMPLES).collect(),
    }
}

/// The processor time of this thread.
fn processor_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}
