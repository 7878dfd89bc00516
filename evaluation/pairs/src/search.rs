//! All pairs of features, judged by cross-validation.
//!
//! A set of samples is a word, in the order of a feature's values: the samples below a threshold are its low bits. A
//! node has its set in the orders of both features. Each feature's best split of the root is found once for each fold,
//! because it is the same for all pairs. Words have 64 bits, and more where there are more samples.

use crate::draws::{Drawing, Draws};
use crate::generator::Generator;
use crate::problem::{CLASSES, Problem, ProblemError};
use crate::tree::{SAME, Tree, impurity};
use crate::word::{Word, Words};
use std::cmp::Ordering;
use std::hint;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The best pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// The features, the lower number first.
    pub pair: (usize, usize),
    /// The mean logarithm of the speed-up of all samples, each predicted in its fold.
    pub score: f64,
}

/// A feature's values in their order.
struct Sorted<const MOST: usize> {
    values: [f32; MOST],
    /// The class of the sample at each place.
    labels: [u8; MOST],
    /// The place of each sample.
    place: [u8; MOST],
    /// The sample at each place.
    sample: [u8; MOST],
}

/// The samples of a fold.
struct Fold<W> {
    judged: W,
    /// How many these are.
    size: usize,
    learned: W,
    /// The counts of the classes of those that are learned from.
    counts: Counts,
    /// What the judged samples lose at least: a tree only says classes that it has learned.
    least: f64,
}

/// What is the same for all pairs with a feature, in a fold.
struct Root<W> {
    /// The samples that are learned from and those that are judged, in the order of the feature.
    node: Sets<W>,
    found: Found,
}

/// Samples in the order of a feature.
#[derive(Clone, Copy, Default, PartialEq)]
struct Sets<W> {
    learned: W,
    judged: W,
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

    /// The counts that are left without those of a part. `shared` is the sum over classes of the products of both
    /// counts.
    #[inline]
    fn without(&self, part: &Self, shared: u32) -> Self {
        let mut rest = *self;
        for (count, part) in rest.of.iter_mut().zip(part.of) {
            *count -= part;
        }
        rest.all -= part.all;
        rest.squares = self.squares + part.squares - 2 * shared;
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

/// The impurities of all counts of samples and sums of squares, which have the same parity. For more samples than a
/// word of 64 bits has room for, the table would be larger than a cache, and they are computed.
struct Impurities {
    values: Vec<f64>,
    /// Where those of a count begin.
    begin: [u32; TABLE + 1],
}

/// The largest count in the table of impurities.
const TABLE: usize = 64;

impl Impurities {
    fn new() -> Self {
        let mut values = vec![0.0];
        let mut begin = [0; TABLE + 1];
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
    fn of<const MOST: usize>(&self, count: u32, squares: u32) -> f64 {
        if MOST > TABLE {
            return impurity(count, squares);
        }
        let begin = self.begin[count as usize % (TABLE + 1)];
        self.values[(begin + (squares - count) / 2) as usize]
    }
}

/// What a feature says of a node.
#[derive(Clone, Copy)]
struct Found {
    /// The impurity of its best split; infinite where there is none. Where neighbours hardly differ, there is none
    /// although the feature is not constant.
    impurity: f64,
    cut: Cut,
    is_constant: bool,
}

/// Where a split is: the number of samples below the threshold, and the places of the samples next to it. They are in
/// one word, because bytes that are written alone and read together wait for each other.
#[derive(Clone, Copy)]
struct Cut(u32);

impl Cut {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "they are below 256")]
    fn new(low: u32, below: usize, above: usize) -> Self {
        Self(low | (below as u32) << 8 | (above as u32) << 16)
    }

    fn low(self) -> u32 {
        self.0 & 0xff
    }

    fn below(self) -> usize {
        (self.0 >> 8 & 0xff) as usize
    }

    fn above(self) -> usize {
        (self.0 >> 16) as usize
    }
}

/// A node that is not split yet.
#[derive(Clone, Copy, Default)]
struct Pending<W> {
    /// Its samples, in the order of either feature.
    sets: [Sets<W>; 2],
    counts: Counts,
    /// The number of features that are known to be constant.
    constant: usize,
}

/// Nodes that are not split yet. Each has at least one sample of its own.
type Stack<W, const MOST: usize> = [Pending<W>; MOST];

/// The search in a problem.
pub struct Search(Kind);

/// A search with words that have room for the samples.
enum Kind {
    Few(Words1),
    More(Words2),
    Many(Words4),
}

type Words1 = Searching<u64, 64>;
type Words2 = Searching<u128, 128>;
type Words4 = Searching<Words, 256>;

/// Calls a method of the search, whatever its words.
macro_rules! with {
    ($search:expr, $inner:ident => $call:expr) => {
        match &$search.0 {
            Kind::Few($inner) => $call,
            Kind::More($inner) => $call,
            Kind::Many($inner) => $call,
        }
    };
}

impl Search {
    /// Sorts the features of a problem.
    ///
    /// # Errors
    ///
    /// If the problem is too large, or its parts do not fit each other.
    pub fn new(problem: &Problem) -> Result<Self, ProblemError> {
        problem.check()?;
        Ok(Self(match problem.labels.len() {
            ..=64 => Kind::Few(Searching::new(problem)),
            65..=128 => Kind::More(Searching::new(problem)),
            _ => Kind::Many(Searching::new(problem)),
        }))
    }

    /// The number of features.
    pub fn features(&self) -> usize {
        with!(self, inner => inner.features.len())
    }

    /// The score of a pair: the mean logarithm of the speed-up.
    pub fn score(&self, one: usize, other: usize) -> f64 {
        with!(self, inner => inner.score(one, other, &mut stack()))
    }

    /// The class that each sample is predicted to have, in its fold.
    pub fn predict(&self, one: usize, other: usize) -> Vec<u8> {
        with!(self, inner => inner.predict(one, other))
    }

    /// The scores of all pairs of a feature with later ones, in their order.
    pub fn scores(&self, one: usize) -> Vec<f64> {
        with!(self, inner => inner.scores(one))
    }

    /// The pair with the highest score; of several the first one. It is exact: a pair is left only where it cannot
    /// reach the best one any more.
    ///
    /// `threads` work on it. `keep` says which features may be used.
    pub fn best(&self, threads: usize, keep: impl Fn(usize) -> bool + Sync) -> Option<Best> {
        with!(self, inner => inner.best(threads, keep))
    }

    /// The scores of trees of a pair and a third feature, for each third feature.
    ///
    /// `threads` work on it.
    pub fn thirds(&self, pair: (usize, usize), threads: usize) -> Vec<f64> {
        with!(self, inner => inner.thirds(pair, threads))
    }

    /// The scores of all pairs: those of the first feature with all later ones, then those of the second, and so on.
    ///
    /// `threads` work on it. Scores are rounded to single precision, because there may be many millions.
    pub fn all_scores(&self, threads: usize) -> Vec<f32> {
        with!(self, inner => inner.all_scores(threads))
    }
}

/// The search with words of a type, which have room for `MOST` samples.
struct Searching<W, const MOST: usize> {
    features: Vec<Sorted<MOST>>,
    /// What the sample loses in each class, against the best of all classes.
    losses: Vec<[f64; CLASSES]>,
    folds: Vec<Fold<W>>,
    /// For each feature and fold.
    roots: Vec<Root<W>>,
    /// The folds in the order in which a pair is judged, each with a little less than what all later ones lose at
    /// least.
    order: Vec<(usize, f64)>,
    impurities: Impurities,
    draws: Vec<(Draws, usize)>,
    samples: usize,
    /// The mean of the best logarithms of all samples.
    possible: f64,
}

impl<W: Word, const MOST: usize> Searching<W, MOST> {
    fn new(problem: &Problem) -> Self {
        let samples = problem.labels.len();
        let features: Vec<Sorted<MOST>> = problem
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
        let every = W::up_to(samples - 1);
        let last = problem.folds.iter().copied().max().unwrap_or(0);
        let folds: Vec<Fold<W>> = (0..=last)
            .map(|fold| {
                let judged = (0..samples)
                    .filter(|&sample| problem.folds[sample] == fold)
                    .fold(W::default(), |set, sample| set | W::of(sample));
                let mut counts = Counts::default();
                for sample in every.without(judged).places() {
                    counts.add(problem.labels[sample]);
                }
                let least = judged.places().map(|sample| {
                    let learned = losses[sample].iter().zip(counts.of).filter(|(_, count)| *count > 0);
                    learned.map(|(loss, _)| *loss).fold(f64::INFINITY, f64::min)
                });
                Fold {
                    judged,
                    size: judged.places().count(),
                    learned: every.without(judged),
                    least: least.sum(),
                    counts,
                }
            })
            .filter(|fold| !fold.judged.is_empty())
            .collect();
        let impurities = Impurities::new();
        let roots = features
            .iter()
            .flat_map(|feature| folds.iter().map(|fold| feature.root(fold, &impurities)))
            .collect();
        let order = (0..folds.len()).map(|fold| (fold, 0.0)).collect();
        let mut search = Self {
            features,
            losses,
            folds,
            roots,
            order,
            impurities,
            draws: Draws::without_constants(MOST),
            samples,
            possible: possible / samples as f64,
        };
        search.put_in_order();
        search
    }

    /// The folds in which pairs lose most more than they must come first, so that a bad pair is left early. That is the
    /// mean of some pairs.
    fn put_in_order(&mut self) {
        const PAIRS: usize = 300;
        /// Sums in another order differ in the last digits.
        const ROUNDING: f64 = 1e-9;
        let features = self.features.len();
        if features < 2 {
            return;
        }
        let mut lost: Vec<f64> = self.folds.iter().map(|fold| -fold.least * PAIRS as f64).collect();
        let mut random = Generator::of_a_tree();
        let mut stack = stack();
        for _ in 0..PAIRS {
            let (one, other) = (random.draw(0, features), random.draw(0, features));
            for (fold, lost) in lost.iter_mut().enumerate() {
                self.grow(one, other, fold, &mut stack, |sample, class| {
                    *lost += self.losses[sample][class % CLASSES];
                    true
                });
            }
        }
        let mut order: Vec<usize> = (0..self.folds.len()).collect();
        order.sort_by(|&one, &other| lost[other].total_cmp(&lost[one]));
        let mut later = -ROUNDING;
        self.order = vec![];
        for fold in order.into_iter().rev() {
            self.order.push((fold, later));
            later += self.folds[fold].least;
        }
        self.order.reverse();
    }

    fn score(&self, one: usize, other: usize, stack: &mut Stack<W, MOST>) -> f64 {
        let loss = self.loss(one, other, f64::INFINITY, stack);
        self.possible - loss / self.samples as f64
    }

    fn predict(&self, one: usize, other: usize) -> Vec<u8> {
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

    fn scores(&self, one: usize) -> Vec<f64> {
        let mut stack = stack();
        (one + 1..self.features.len())
            .map(|other| self.score(one, other, &mut stack))
            .collect()
    }

    fn thirds(&self, pair: (usize, usize), threads: usize) -> Vec<f64> {
        let samples = || 0..self.samples;
        let column = |feature: &Sorted<MOST>| -> Vec<f32> {
            let places = samples().map(|sample| usize::from(feature.place[sample]));
            places.map(|place| feature.values[place]).collect()
        };
        let of_pair = [pair.0, pair.1].map(|feature| column(&self.features[feature]));
        let first = &self.features[pair.0];
        let labels: Vec<u8> = samples()
            .map(|sample| first.labels[usize::from(first.place[sample])])
            .collect();
        let score = |feature: &Sorted<MOST>| {
            let third = column(feature);
            let columns = [&of_pair[0][..], &of_pair[1][..], &third[..]];
            let losses = self.folds.iter().flat_map(|fold| {
                let learned: Vec<usize> = fold.learned.places().collect();
                let tree = Tree::fit(&columns, &labels, CLASSES, &learned);
                let judged: Vec<usize> = fold.judged.places().collect();
                let loss = move |sample: usize| self.losses[sample][usize::from(tree.predict(&columns, sample))];
                judged.into_iter().map(loss).collect::<Vec<f64>>()
            });
            self.possible - losses.sum::<f64>() / self.samples as f64
        };
        let mut scores = vec![0.0; self.features.len()];
        let cells = Mutex::new(self.features.iter().zip(&mut scores));
        let next = || cells.lock().ok()?.next();
        in_threads(threads, || {
            while let Some((feature, cell)) = next() {
                *cell = score(feature);
            }
        });
        scores
    }

    fn all_scores(&self, threads: usize) -> Vec<f32> {
        let features = self.features.len();
        let mut scores = vec![0.0; features * features.saturating_sub(1) / 2];
        let mut rows = vec![];
        let mut rest = &mut scores[..];
        for one in 0..features {
            let (row, later) = rest.split_at_mut(features - one - 1);
            rows.push((one, row));
            rest = later;
        }
        // The last row is the shortest, so that the threads end together.
        rows.reverse();
        let rows = Mutex::new(rows);
        let next = || rows.lock().ok()?.pop();
        in_threads(threads, || {
            let mut stack = stack();
            while let Some((one, row)) = next() {
                for (other, score) in (one + 1..).zip(row) {
                    *score = single(self.score(one, other, &mut stack));
                }
            }
        });
        scores
    }

    fn best(&self, threads: usize, keep: impl Fn(usize) -> bool + Sync) -> Option<Best> {
        let kept: Vec<usize> = (0..self.features.len()).filter(|&feature| keep(feature)).collect();
        let next = AtomicUsize::new(0);
        // The bits of a loss that is not negative have its order.
        let least = AtomicU64::new(f64::INFINITY.to_bits());
        let best: Mutex<Option<(f64, (usize, usize))>> = Mutex::new(None);
        let work = || {
            let mut mine: Option<(f64, (usize, usize))> = None;
            let mut stack = stack();
            loop {
                let place = next.fetch_add(1, Relaxed);
                let Some(&one) = kept.get(place) else { break };
                for &other in &kept[place + 1..] {
                    let limit = f64::from_bits(least.load(Relaxed));
                    let loss = self.loss(one, other, limit, &mut stack);
                    if loss > limit {
                        continue;
                    }
                    least.fetch_min(loss.to_bits(), Relaxed);
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
        in_threads(threads, work);
        let (loss, pair) = best.into_inner().ok()??;
        Some(Best {
            pair,
            score: self.possible - loss / self.samples as f64,
        })
    }

    /// What all samples lose together; more than `limit` as soon as it is more.
    fn loss(&self, one: usize, other: usize, limit: f64, stack: &mut Stack<W, MOST>) -> f64 {
        let mut loss = 0.0;
        for &(fold, later) in &self.order {
            self.grow(one, other, fold, stack, |sample, class| {
                loss += self.losses[sample][class % CLASSES];
                loss + later <= limit
            });
            if loss + later > limit {
                return loss + later;
            }
        }
        loss
    }

    /// Grows the tree of a pair in a fold, and gives the class of each judged sample to `predict`, until that is false.
    /// What would grow after the last of them is left out.
    #[inline]
    fn grow(
        &self,
        one: usize,
        other: usize,
        fold: usize,
        stack: &mut Stack<W, MOST>,
        mut predict: impl FnMut(usize, usize) -> bool,
    ) {
        let features = [&self.features[one], &self.features[other]];
        let folds = self.folds.len();
        let roots = [&self.roots[one * folds + fold], &self.roots[other * folds + fold]];
        let mut left = self.folds[fold].size;
        let mut predict_all = |judged: W, class: usize| {
            let mut samples = judged
                .places()
                .map(|place| usize::from(features[0].sample[place % MOST]));
            samples.all(|sample| {
                left -= 1;
                predict(sample, class) && left > 0
            })
        };
        let root = Pending {
            sets: [roots[0].node, roots[1].node],
            counts: self.folds[fold].counts,
            constant: 0,
        };
        if root.counts.is_pure() {
            predict_all(root.sets[0].judged, root.counts.most());
            return;
        }
        stack[0] = root;
        let mut waiting = 1;
        let mut drawing = Drawing::new(&self.draws);
        let mut is_root = true;
        while waiting > 0 {
            waiting -= 1;
            let node = stack[waiting];
            let both = if is_root {
                [roots[0].found, roots[1].found]
            } else {
                found(
                    features,
                    node.sets.map(|sets| sets.learned),
                    &node.counts,
                    &self.impurities,
                )
            };
            is_root = false;
            let first = drawing.first(node.constant, both.map(|found| found.is_constant));
            let Some(feature) = better(both, first) else {
                if !predict_all(node.sets[0].judged, node.counts.most()) {
                    return;
                }
                continue;
            };
            if node.counts.all == 2 && node.sets[0].judged.is_empty() {
                continue;
            }
            let (low, high) = divided(&node, features, feature, both[feature].cut);
            let constant = both.into_iter().filter(|found| found.is_constant).count();
            for mut child in [high, low] {
                if !child.counts.is_pure() {
                    child.constant = constant;
                    stack[waiting] = child;
                    waiting += 1;
                } else if !child.sets[0].judged.is_empty() {
                    let place = child.sets[0].learned.first();
                    let class = usize::from(features[0].labels[place % MOST]);
                    if !predict_all(child.sets[0].judged, class) {
                        return;
                    }
                }
            }
        }
    }
}

/// The feature with the better split; of equally good ones `first`.
#[inline]
fn better(both: [Found; 2], first: usize) -> Option<usize> {
    let [one, other] = both.map(|found| found.impurity);
    if one.min(other) == f64::INFINITY {
        return None;
    }
    Some(match one.total_cmp(&other) {
        Ordering::Less => 0,
        Ordering::Equal => first,
        Ordering::Greater => 1,
    })
}

/// The children of a node: the samples at most as high as the threshold, and the others.
#[inline]
fn divided<W: Word, const MOST: usize>(
    node: &Pending<W>,
    features: [&Sorted<MOST>; 2],
    feature: usize,
    cut: Cut,
) -> (Pending<W>, Pending<W>) {
    let (own, other) = (features[feature], features[1 - feature]);
    let sets = node.sets[feature];
    let (below, above) = (cut.below() % MOST, cut.above() % MOST);
    let low_learned = sets.learned & W::up_to(below);
    let mut low_judged = sets.judged & W::up_to(below);
    let between = (sets.judged & W::up_to(above)).without(W::up_to(below));
    if !between.is_empty() {
        let threshold = f64::from(own.values[below]) / 2.0 + f64::from(own.values[above]) / 2.0;
        for place in between.places() {
            if f64::from(own.values[place]) <= threshold {
                low_judged = low_judged | W::of(place);
            }
        }
    }
    let across = |place: usize| W::of(usize::from(other.place[usize::from(own.sample[place % MOST]) % MOST]));
    // The smaller child is counted, and the other one is the rest.
    let high_learned = sets.learned.without(low_learned);
    let is_low_smaller = 2 * cut.low() <= node.counts.all;
    let smaller = if is_low_smaller { low_learned } else { high_learned };
    let mut counts = Counts::default();
    let mut shared = 0;
    let mut smaller_across = W::default();
    for place in smaller.places() {
        let class = own.labels[place % MOST];
        counts.add(class);
        shared += u32::from(node.counts.of[usize::from(class) % CLASSES]);
        smaller_across = smaller_across | across(place);
    }
    let rest = node.counts.without(&counts, shared);
    let rest_across = node.sets[1 - feature].learned.without(smaller_across);
    let judged_across = low_judged.places().fold(W::default(), |set, place| set | across(place));
    let child = |learned: W, judged: W, across_learned: W, across_judged: W, counts: Counts| {
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
    let high_judged = sets.judged.without(low_judged);
    let high_across = node.sets[1 - feature].judged.without(judged_across);
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

fn stack<W: Word, const MOST: usize>() -> Stack<W, MOST> {
    [Pending::default(); MOST]
}

/// Does the same work in several threads.
fn in_threads(threads: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(&work);
        }
        work();
    });
}

/// A place, sample or class, which are all below 256.
#[expect(clippy::cast_possible_truncation, reason = "it is below 256")]
fn small(value: usize) -> u8 {
    value as u8
}

#[expect(clippy::cast_possible_truncation, reason = "a score needs no more digits")]
fn single(score: f64) -> f32 {
    score as f32
}

impl<const MOST: usize> Sorted<MOST> {
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

    fn root<W: Word>(&self, fold: &Fold<W>, impurities: &Impurities) -> Root<W> {
        let node = Sets {
            learned: self.sorted(fold.learned),
            judged: self.sorted(fold.judged),
        };
        let [found, _] = found([self; 2], [node.learned; 2], &fold.counts, impurities);
        Root { node, found }
    }

    /// A set of samples in the order of this feature.
    fn sorted<W: Word>(&self, samples: W) -> W {
        let places = samples.places().map(|sample| usize::from(self.place[sample]));
        places.fold(W::default(), |set, place| set | W::of(place))
    }
}

/// The best splits of samples by two features, in whose orders their sets are.
///
/// There is hardly a branch that depends on the values: nodes are small and each is met once, so that a processor would
/// guess wrong.
#[inline]
fn found<W: Word, const MOST: usize>(
    features: [&Sorted<MOST>; 2],
    sets: [W; 2],
    counts: &Counts,
    impurities: &Impurities,
) -> [Found; 2] {
    let firsts = sets.map(|set| set.first() % MOST);
    let lasts = sets.map(|set| set.last() % MOST);
    let is_constant = [0, 1].map(|one| {
        let values = &features[one].values;
        values[lasts[one]] <= values[firsts[one]] + SAME
    });
    let mut best = [f64::INFINITY; 2];
    let mut cuts = [0, 1].map(|one| Cut::new(1, firsts[one], lasts[one]));
    if counts.all == 2 {
        // They are of two classes, because the node is split.
        best = [0.0; 2];
    } else {
        let mut below = [[0_u8; CLASSES]; 2];
        let mut low_squares = [0; 2];
        let mut high_squares = [counts.squares; 2];
        let mut places = firsts;
        let mut rest = sets.map(Word::rest);
        for low in 1..counts.all {
            for one in 0..2 {
                let feature = features[one];
                let place = places[one];
                let next = rest[one].first() % MOST;
                rest[one] = rest[one].rest();
                places[one] = next;
                let class = usize::from(feature.labels[place]) % CLASSES;
                let count = u32::from(below[one][class]);
                below[one][class] += 1;
                low_squares[one] += 2 * count + 1;
                high_squares[one] -= 2 * (u32::from(counts.of[class]) - count) - 1;
                let high = impurities.of::<MOST>(counts.all - low, high_squares[one]);
                let value = high + impurities.of::<MOST>(low, low_squares[one]);
                let may_split = feature.values[next] > feature.values[place] + SAME;
                let value = hint::select_unpredictable(may_split, value, f64::INFINITY);
                let is_better = value < best[one];
                best[one] = hint::select_unpredictable(is_better, value, best[one]);
                cuts[one] = hint::select_unpredictable(is_better, Cut::new(low, place, next), cuts[one]);
            }
        }
    }
    [0, 1].map(|one| Found {
        impurity: if is_constant[one] { f64::INFINITY } else { best[one] },
        cut: cuts[one],
        is_constant: is_constant[one],
    })
}
