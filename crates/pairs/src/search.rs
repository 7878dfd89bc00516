//! All pairs of features, judged by cross-validation.
//!
//! A set of samples is a word, in the order of a feature's values: the samples below a threshold are its low bits. A node
//! has its set in the orders of both features. Each feature's best split of the root is found once for each fold, because
//! it is the same for all pairs.

use crate::generator::Generator;
use crate::tree::{SAME, impurity};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The most samples.
const MOST: usize = 64;

/// The most classes.
const CLASSES: usize = 16;

/// What is searched.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The values of all samples, for one feature after the other.
    pub features: Vec<f32>,
    /// The class of each sample.
    pub labels: Vec<u8>,
    /// The logarithm of the speed-up of each sample in the configuration of each class, for one sample after the other.
    pub gains: Vec<f64>,
    /// The number of classes.
    pub classes: usize,
    /// The fold of each sample, in which it is predicted.
    pub folds: Vec<u8>,
}

/// Why a problem cannot be searched.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProblemError {
    /// There are too many samples for a word, or none.
    #[error("there are {0} samples, and the search has room for 2 to {MOST}")]
    Samples(usize),
    /// There are too many classes, or none.
    #[error("there are {0} classes, and the search has room for 1 to {CLASSES}")]
    Classes(usize),
    /// An array is of another length than the others ask for.
    #[error("{what} has {found} values, and must have {wanted}")]
    Length {
        /// The array.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The length that the others ask for.
        wanted: usize,
    },
    /// A value is no finite number, or a class is out of range.
    #[error("{what} of sample {sample} is not valid")]
    Value {
        /// The array.
        what: &'static str,
        /// The sample, from 0.
        sample: usize,
    },
}

/// The best pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// The features, the lower number first.
    pub pair: (usize, usize),
    /// The mean logarithm of the speed-up of all samples, each predicted in its fold.
    pub score: f64,
}

/// A feature's values in their order.
struct Sorted {
    values: [f32; MOST],
    /// The class of the sample at each place.
    labels: [u8; MOST],
    /// The place of each sample.
    place: [u8; MOST],
    /// The sample at each place.
    sample: [u8; MOST],
}

/// The samples of a fold.
struct Fold {
    judged: u64,
    learned: u64,
    /// The counts of the classes of those that are learned from.
    counts: Counts,
}

/// What is the same for all pairs with a feature, in a fold.
struct Root {
    /// The samples that are learned from and those that are judged, in the order of the feature.
    node: Sets,
    found: Found,
}

/// Samples in the order of a feature.
#[derive(Clone, Copy, Default)]
struct Sets {
    learned: u64,
    judged: u64,
}

/// The counts of classes.
#[derive(Clone, Copy, Default)]
struct Counts {
    of: [u8; CLASSES],
    all: u32,
    squares: u32,
}

impl Counts {
    #[inline]
    fn add(&mut self, class: u8) {
        let count = &mut self.of[usize::from(class) % CLASSES];
        self.squares += 2 * u32::from(*count) + 1;
        *count += 1;
        self.all += 1;
    }

    #[inline]
    fn remove(&mut self, class: u8) {
        let count = &mut self.of[usize::from(class) % CLASSES];
        *count -= 1;
        self.squares -= 2 * u32::from(*count) + 1;
        self.all -= 1;
    }

    fn without(&self, part: &Self) -> Self {
        let mut rest = Self {
            all: self.all - part.all,
            ..Self::default()
        };
        for class in 0..CLASSES {
            rest.of[class] = self.of[class] - part.of[class];
            rest.squares += u32::from(rest.of[class]) * u32::from(rest.of[class]);
        }
        rest
    }

    fn is_pure(&self) -> bool {
        self.squares == self.all * self.all
    }

    fn most(&self) -> usize {
        let mut most = 0;
        for class in 1..CLASSES {
            if self.of[class] > self.of[most] {
                most = class;
            }
        }
        most
    }
}

/// The impurities of all counts of samples and sums of squares, which have the same parity.
struct Impurities {
    values: Vec<f64>,
    /// Where those of a count begin.
    begin: [u32; MOST + 1],
}

impl Impurities {
    fn new() -> Self {
        let mut values = vec![0.0];
        let mut begin = [0; MOST + 1];
        for (count, begin) in (0..).zip(&mut begin).skip(1) {
            *begin = u32::try_from(values.len()).unwrap_or(0);
            values.extend(
                (count..=count * count)
                    .step_by(2)
                    .map(|squares| impurity(count, squares)),
            );
        }
        Self { values, begin }
    }

    #[inline]
    fn of(&self, counts: &Counts) -> f64 {
        let begin = self.begin[counts.all as usize % (MOST + 1)];
        self.values[(begin + (counts.squares - counts.all) / 2) as usize]
    }
}

/// The best split of a node by one feature.
#[derive(Clone, Copy)]
struct Split {
    impurity: f64,
    /// The places of the samples next to the threshold.
    below: u8,
    above: u8,
}

/// What a feature says of a node.
#[derive(Clone, Copy)]
enum Found {
    Constant,
    Split(Split),
}

/// A node that is not split yet.
#[derive(Clone, Copy, Default)]
struct Pending {
    /// Its samples, in the order of either feature.
    sets: [Sets; 2],
    counts: Counts,
    /// The number of features that are known to be constant.
    constant: usize,
}

/// Nodes that are not split yet. Each has at least one sample of its own.
type Stack = [Pending; MOST];

/// The search in a problem.
pub struct Search {
    features: Vec<Sorted>,
    /// What the sample loses in each class, against the best of all classes.
    losses: Vec<[f64; CLASSES]>,
    folds: Vec<Fold>,
    /// For each feature and fold.
    roots: Vec<Root>,
    impurities: Impurities,
    samples: usize,
    /// The mean of the best logarithms of all samples.
    possible: f64,
}

impl Search {
    /// Sorts the features of a problem.
    ///
    /// # Errors
    ///
    /// If the problem is too large, or its parts do not fit each other.
    pub fn new(problem: &Problem) -> Result<Self, ProblemError> {
        let samples = problem.labels.len();
        check(problem)?;
        let features: Vec<Sorted> = problem
            .features
            .chunks_exact(samples)
            .map(|values| Sorted::new(values, &problem.labels))
            .collect();
        let mut losses = vec![];
        let mut possible = 0.0;
        for gains in problem.gains.chunks_exact(problem.classes) {
            let most = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut of_sample = [0.0; CLASSES];
            for (loss, gain) in of_sample.iter_mut().zip(gains) {
                *loss = most - gain;
            }
            losses.push(of_sample);
            possible += most;
        }
        let every = u64::MAX >> (MOST - samples);
        let last = problem.folds.iter().copied().max().unwrap_or(0);
        let mut folds: Vec<Fold> = (0..=last)
            .map(|fold| {
                let judged = (0..samples)
                    .filter(|&sample| problem.folds[sample] == fold)
                    .fold(0, |set, sample| set | 1 << sample);
                let mut counts = Counts::default();
                for sample in bits(every & !judged) {
                    counts.add(problem.labels[sample]);
                }
                Fold {
                    judged,
                    learned: every & !judged,
                    counts,
                }
            })
            .filter(|fold| fold.judged != 0)
            .collect();
        // The folds with most to lose come first, so that a bad pair is left early.
        let most = |fold: &Fold| -> f64 { bits(fold.judged).map(|sample| losses[sample].iter().sum::<f64>()).sum() };
        folds.sort_by(|one, other| most(other).total_cmp(&most(one)));
        let impurities = Impurities::new();
        let roots = features
            .iter()
            .flat_map(|feature| folds.iter().map(|fold| feature.root(fold, &impurities)))
            .collect();
        Ok(Self {
            features,
            losses,
            folds,
            roots,
            impurities,
            samples,
            possible: possible / samples as f64,
        })
    }

    /// The number of features.
    pub fn features(&self) -> usize {
        self.features.len()
    }

    /// The score of a pair: the mean logarithm of the speed-up.
    pub fn score(&self, one: usize, other: usize) -> f64 {
        self.score_with(one, other, &mut stack())
    }

    fn score_with(&self, one: usize, other: usize, stack: &mut Stack) -> f64 {
        let loss = self.loss(one, other, f64::INFINITY, stack);
        self.possible - loss / self.samples as f64
    }

    /// The class that each sample is predicted to have, in its fold.
    pub fn predict(&self, one: usize, other: usize) -> Vec<u8> {
        let mut classes = vec![0; self.samples];
        let mut stack = stack();
        for fold in 0..self.folds.len() {
            self.grow(one, other, fold, &mut stack, |sample, class| {
                classes[sample] = small(class);
                true
            });
        }
        classes
    }

    /// The scores of all pairs of a feature with later ones, in their order.
    pub fn scores(&self, one: usize) -> Vec<f64> {
        let mut stack = stack();
        (one + 1..self.features.len())
            .map(|other| self.score_with(one, other, &mut stack))
            .collect()
    }

    /// The pair with the highest score; of several the first one. It is exact: a pair is left only where it cannot reach
    /// the best one any more.
    ///
    /// `threads` work on it. `keep` says which features may be used.
    pub fn best(&self, threads: usize, keep: impl Fn(usize) -> bool + Sync) -> Option<Best> {
        let kept: Vec<usize> = (0..self.features.len()).filter(|&feature| keep(feature)).collect();
        let next = AtomicUsize::new(0);
        // The bits of a loss that is not negative have its order.
        let least = AtomicU64::new(f64::INFINITY.to_bits());
        let best: Mutex<Option<(f64, (usize, usize))>> = Mutex::new(None);
        let work = || {
            let mut mine: Option<(f64, (usize, usize))> = None;
            let mut stack = stack();
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(&one) = kept.get(place) else { break };
                for &other in &kept[place + 1..] {
                    let limit = f64::from_bits(least.load(Ordering::Relaxed));
                    let loss = self.loss(one, other, limit, &mut stack);
                    if loss > limit {
                        continue;
                    }
                    least.fetch_min(loss.to_bits(), Ordering::Relaxed);
                    let found = (loss, (one, other));
                    if mine.is_none_or(|mine| found < mine) {
                        mine = Some(found);
                    }
                }
            }
            if let (Some(mine), Ok(mut best)) = (mine, best.lock())
                && best.is_none_or(|best| mine < best)
            {
                *best = Some(mine);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.max(1) {
                scope.spawn(work);
            }
            work();
        });
        let (loss, pair) = best.into_inner().ok()??;
        Some(Best {
            pair,
            score: self.possible - loss / self.samples as f64,
        })
    }

    /// What all samples lose together; more than `limit` as soon as it is more.
    fn loss(&self, one: usize, other: usize, limit: f64, stack: &mut Stack) -> f64 {
        let mut loss = 0.0;
        for fold in 0..self.folds.len() {
            self.grow(one, other, fold, stack, |sample, class| {
                loss += self.losses[sample][class % CLASSES];
                loss <= limit
            });
            if loss > limit {
                break;
            }
        }
        loss
    }

    /// Grows the tree of a pair in a fold, and gives the class of each judged sample to `predict`, until that is false.
    #[inline]
    fn grow(
        &self,
        one: usize,
        other: usize,
        fold: usize,
        stack: &mut Stack,
        mut predict: impl FnMut(usize, usize) -> bool,
    ) {
        let features = [&self.features[one], &self.features[other]];
        let folds = self.folds.len();
        let roots = [&self.roots[one * folds + fold], &self.roots[other * folds + fold]];
        let mut random = Generator::of_a_tree();
        // As in scikit-learn, both orders live as long as the tree.
        let mut order = [0_usize, 1];
        let mut constants = order;
        stack[0] = Pending {
            sets: [roots[0].node, roots[1].node],
            counts: self.folds[fold].counts,
            constant: 0,
        };
        let mut waiting = 1;
        let mut remaining = self.folds[fold].judged.count_ones();
        let mut is_root = true;
        while waiting > 0 && remaining > 0 {
            waiting -= 1;
            let node = stack[waiting];
            let known = node.constant;
            let mut found = 0;
            let mut best: Option<(usize, Split)> = None;
            if node.counts.all >= 2 && !node.counts.is_pure() {
                let mut drawn = 0;
                let mut end = 2;
                while end > known + found {
                    let place = random.draw(drawn, end - found);
                    if place < known {
                        order.swap(drawn, place);
                        drawn += 1;
                        continue;
                    }
                    let place = place + found;
                    let feature = order[place];
                    let said = if is_root {
                        roots[feature].found
                    } else {
                        features[feature].split(node.sets[feature].learned, &node.counts, &self.impurities)
                    };
                    match said {
                        Found::Constant => {
                            order.swap(place, known + found);
                            found += 1;
                        }
                        Found::Split(split) => {
                            end -= 1;
                            order.swap(end, place);
                            // Where neighbours hardly differ, there is no place to split although the feature is not
                            // constant.
                            if split.impurity < best.map_or(f64::INFINITY, |(_, best)| best.impurity) {
                                best = Some((feature, split));
                            }
                        }
                    }
                }
                order[..known].copy_from_slice(&constants[..known]);
                constants[known..known + found].copy_from_slice(&order[known..known + found]);
            }
            is_root = false;
            let Some((feature, split)) = best else {
                let judged = node.sets[0].judged;
                if judged != 0 {
                    let class = node.counts.most();
                    for place in bits(judged) {
                        if !predict(usize::from(features[0].sample[place]), class) {
                            return;
                        }
                    }
                    remaining -= judged.count_ones();
                }
                continue;
            };
            let (mut low, mut high) = divided(&node, features, feature, split);
            low.constant = known + found;
            high.constant = known + found;
            stack[waiting] = high;
            stack[waiting + 1] = low;
            waiting += 2;
        }
    }
}

/// The children of a node: the samples at most as high as the threshold of a split, and the others.
#[inline]
fn divided(node: &Pending, features: [&Sorted; 2], feature: usize, split: Split) -> (Pending, Pending) {
    let (own, other) = (features[feature], features[1 - feature]);
    let sets = node.sets[feature];
    let (below, above) = (usize::from(split.below) % MOST, usize::from(split.above) % MOST);
    let up_to = |place: usize| u64::MAX >> (MOST - 1 - place);
    let low_learned = sets.learned & up_to(below);
    let mut low_judged = sets.judged & up_to(below);
    let between = sets.judged & up_to(above) & !up_to(below);
    if between != 0 {
        let threshold = f64::from(own.values[below]) / 2.0 + f64::from(own.values[above]) / 2.0;
        for place in bits(between) {
            if f64::from(own.values[place]) <= threshold {
                low_judged |= 1 << place;
            }
        }
    }
    let across = |set: u64| {
        bits(set).fold(0_u64, |found, place| {
            found | 1 << (other.place[usize::from(own.sample[place]) % MOST] % 64)
        })
    };
    // The smaller child is counted, and the other one is the rest.
    let high_learned = sets.learned & !low_learned;
    let is_low_smaller = low_learned.count_ones() <= high_learned.count_ones();
    let smaller = if is_low_smaller { low_learned } else { high_learned };
    let mut counts = Counts::default();
    let mut smaller_across = 0;
    for place in bits(smaller) {
        counts.add(own.labels[place]);
        smaller_across |= 1 << (other.place[usize::from(own.sample[place]) % MOST] % 64);
    }
    let rest = node.counts.without(&counts);
    let rest_across = node.sets[1 - feature].learned & !smaller_across;
    let judged_across = across(low_judged);
    let child = |learned: u64, judged: u64, across_learned: u64, across_judged: u64, counts: Counts| {
        let mut sets = [Sets::default(); 2];
        sets[feature] = Sets { learned, judged };
        sets[1 - feature] = Sets {
            learned: across_learned,
            judged: across_judged,
        };
        Pending {
            sets,
            counts,
            constant: 0,
        }
    };
    let high_judged = sets.judged & !low_judged;
    let high_across = node.sets[1 - feature].judged & !judged_across;
    let (low_counts, high_counts, low_across, high_learned_across) = if is_low_smaller {
        (counts, rest, smaller_across, rest_across)
    } else {
        (rest, counts, rest_across, smaller_across)
    };
    (
        child(low_learned, low_judged, low_across, judged_across, low_counts),
        child(high_learned, high_judged, high_learned_across, high_across, high_counts),
    )
}

fn check(problem: &Problem) -> Result<(), ProblemError> {
    let samples = problem.labels.len();
    if !(2..=MOST).contains(&samples) {
        return Err(ProblemError::Samples(samples));
    }
    if !(1..=CLASSES).contains(&problem.classes) {
        return Err(ProblemError::Classes(problem.classes));
    }
    let length = |what, found, wanted| {
        (found == wanted)
            .then_some(())
            .ok_or(ProblemError::Length { what, found, wanted })
    };
    length("gains", problem.gains.len(), samples * problem.classes)?;
    length("folds", problem.folds.len(), samples)?;
    let features = problem.features.len() / samples;
    length("features", problem.features.len(), features * samples)?;
    let invalid = |what, sample: Option<usize>| match sample {
        Some(sample) => Err(ProblemError::Value { what, sample }),
        None => Ok(()),
    };
    let place = problem.features.iter().position(|value| !value.is_finite());
    invalid("a feature", place.map(|place| place % samples))?;
    let place = problem.gains.iter().position(|value| !value.is_finite());
    invalid("a gain", place.map(|place| place / problem.classes))?;
    let wrong = |&class: &u8| usize::from(class) >= problem.classes;
    invalid("the class", problem.labels.iter().position(wrong))
}

fn stack() -> Stack {
    [Pending::default(); MOST]
}

/// A place, sample or class, which are all below 64.
#[expect(clippy::cast_possible_truncation, reason = "it is below 64")]
fn small(value: usize) -> u8 {
    value as u8
}

/// The positions of the bits of a word, in their order.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let place = set.trailing_zeros() as usize;
            set &= set - 1;
            place
        })
    })
}

impl Sorted {
    fn new(values: &[f32], labels: &[u8]) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
        let mut sorted = Self {
            values: [0.0; MOST],
            labels: [0; MOST],
            place: [0; MOST],
            sample: [0; MOST],
        };
        for (place, &sample) in order.iter().enumerate() {
            sorted.values[place] = values[sample];
            sorted.labels[place] = labels[sample];
            sorted.place[sample] = small(place);
            sorted.sample[place] = small(sample);
        }
        sorted
    }

    fn root(&self, fold: &Fold, impurities: &Impurities) -> Root {
        let node = Sets {
            learned: self.sorted(fold.learned),
            judged: self.sorted(fold.judged),
        };
        Root {
            node,
            found: self.split(node.learned, &fold.counts, impurities),
        }
    }

    /// A set of samples in the order of this feature.
    fn sorted(&self, samples: u64) -> u64 {
        bits(samples).fold(0, |set, sample| set | 1 << self.place[sample])
    }

    /// The best split of a set in the order of this feature, with these counts.
    #[inline]
    fn split(&self, set: u64, counts: &Counts, impurities: &Impurities) -> Found {
        let first = set.trailing_zeros() as usize % MOST;
        let last = (MOST - 1 - set.leading_zeros() as usize) % MOST;
        if self.values[last] <= self.values[first] + SAME {
            return Found::Constant;
        }
        let mut high = *counts;
        let mut low = Counts::default();
        let mut best = Split {
            impurity: f64::INFINITY,
            below: 0,
            above: 0,
        };
        let mut place = first;
        let mut rest = set & (set - 1);
        while rest != 0 {
            let next = rest.trailing_zeros() as usize % MOST;
            rest &= rest - 1;
            low.add(self.labels[place]);
            high.remove(self.labels[place]);
            if self.values[next] > self.values[place] + SAME {
                let value = impurities.of(&high) + impurities.of(&low);
                if value < best.impurity {
                    best = Split {
                        impurity: value,
                        below: small(place),
                        above: small(next),
                    };
                }
            }
            place = next;
        }
        Found::Split(best)
    }
}
