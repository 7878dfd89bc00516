//! A decision tree without limits, for any number of features and samples.

use crate::generator::Generator;

/// Values that differ by less are the same value.
pub(crate) const SAME: f32 = 1e-7;

/// A node. Children come after their parent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Node {
    /// The class with the most samples; of several the first.
    Leaf(u8),
    /// A feature is compared.
    Split {
        /// The position of the feature among those of the tree.
        feature: usize,
        /// Samples whose value is at most this go to `low`.
        threshold: f64,
        /// The position of a child.
        low: usize,
        /// The position of the other child.
        high: usize,
    },
}

/// A fitted tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    nodes: Vec<Node>,
}

/// The impurity of samples, times their number, as scikit-learn rounds it. `squares` is the sum of the squares of the
/// classes' counts.
pub(crate) fn impurity(count: u32, squares: u32) -> f64 {
    let count = f64::from(count);
    count * (1.0 - f64::from(squares) / (count * count))
}

/// The counts of classes, and the sum of their squares.
#[derive(Clone)]
struct Counts {
    of: Vec<u32>,
    all: u32,
    squares: u32,
}

impl Counts {
    fn new(classes: usize) -> Self {
        Self {
            of: vec![0; classes],
            all: 0,
            squares: 0,
        }
    }

    fn add(&mut self, class: u8) {
        let count = &mut self.of[usize::from(class)];
        self.squares += 2 * *count + 1;
        *count += 1;
        self.all += 1;
    }

    fn remove(&mut self, class: u8) {
        let count = &mut self.of[usize::from(class)];
        self.squares -= 2 * *count - 1;
        *count -= 1;
        self.all -= 1;
    }

    fn is_pure(&self) -> bool {
        self.squares == self.all * self.all
    }

    fn most(&self) -> u8 {
        let mut most = 0;
        for (class, &count) in (0..).zip(&self.of) {
            if count > self.of[usize::from(most)] {
                most = class;
            }
        }
        most
    }
}

/// Samples that are not in the tree yet.
struct Pending {
    samples: Vec<usize>,
    /// The number of features that are known to be constant.
    constant: usize,
    /// The parent, and whether this is its lower child.
    parent: Option<(usize, bool)>,
}

impl Tree {
    /// Fits a tree to the samples at `places`.
    ///
    /// `features` has the values of all samples for each feature, and `labels` the class of each, below `classes`.
    pub fn fit(features: &[&[f32]], labels: &[u8], classes: usize, places: &[usize]) -> Self {
        let mut random = Generator::of_a_tree();
        let mut nodes = vec![];
        // As in scikit-learn, both orders live as long as the tree.
        let mut order: Vec<usize> = (0..features.len()).collect();
        let mut constants = order.clone();
        let mut pending = vec![Pending {
            samples: places.to_vec(),
            constant: 0,
            parent: None,
        }];
        while let Some(mut next) = pending.pop() {
            let mut counts = Counts::new(classes);
            for &sample in &next.samples {
                counts.add(labels[sample]);
            }
            let place = nodes.len();
            if let Some((parent, is_low)) = next.parent
                && let Node::Split { low, high, .. } = &mut nodes[parent]
            {
                *(if is_low { low } else { high }) = place;
            }
            let split = if next.samples.len() < 2 || counts.is_pure() {
                None
            } else {
                let mut drawing = Drawing {
                    features,
                    labels,
                    order: &mut order,
                    constants: &mut constants,
                    random: &mut random,
                };
                drawing.split(&mut next, &counts)
            };
            let Some((feature, threshold)) = split else {
                nodes.push(Node::Leaf(counts.most()));
                continue;
            };
            nodes.push(Node::Split {
                feature,
                threshold,
                low: 0,
                high: 0,
            });
            let (low, high) = next
                .samples
                .iter()
                .partition(|&&sample| f64::from(features[feature][sample]) <= threshold);
            for (samples, is_low) in [(high, false), (low, true)] {
                pending.push(Pending {
                    samples,
                    constant: next.constant,
                    parent: Some((place, is_low)),
                });
            }
        }
        Self { nodes }
    }

    /// The nodes, the root first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The class of a sample.
    pub fn predict(&self, features: &[&[f32]], sample: usize) -> u8 {
        let mut place = 0;
        loop {
            match self.nodes[place] {
                Node::Leaf(class) => return class,
                Node::Split {
                    feature,
                    threshold,
                    low,
                    high,
                } => {
                    let value = f64::from(features[feature][sample]);
                    place = if value <= threshold { low } else { high };
                }
            }
        }
    }
}

struct Drawing<'a> {
    features: &'a [&'a [f32]],
    labels: &'a [u8],
    order: &'a mut [usize],
    constants: &'a mut [usize],
    random: &'a mut Generator,
}

impl Drawing<'_> {
    /// The best split of a node: of all features in a drawn order, the first with the least impurity.
    ///
    /// Features that are constant in a node are constant in its children. They are kept at the begin of `order`, and
    /// are drawn, too, but cost nothing.
    fn split(&mut self, node: &mut Pending, counts: &Counts) -> Option<(usize, f64)> {
        let known = node.constant;
        let mut found = 0;
        let mut drawn = 0;
        let mut end = self.order.len();
        let mut best = f64::INFINITY;
        let mut split = None;
        while end > known + found {
            let place = self.random.draw(drawn, end - found);
            if place < known {
                self.order.swap(drawn, place);
                drawn += 1;
                continue;
            }
            let place = place + found;
            let feature = self.order[place];
            let values = self.features[feature];
            node.samples
                .sort_by(|&one, &other| values[one].total_cmp(&values[other]));
            let (first, last) = (node.samples[0], node.samples[node.samples.len() - 1]);
            if values[last] <= values[first] + SAME {
                self.order.swap(place, known + found);
                found += 1;
                continue;
            }
            end -= 1;
            self.order.swap(end, place);
            let mut high = counts.clone();
            let mut low = Counts::new(counts.of.len());
            for pair in node.samples.windows(2) {
                let &[one, other] = pair else { continue };
                low.add(self.labels[one]);
                high.remove(self.labels[one]);
                if values[other] <= values[one] + SAME {
                    continue;
                }
                let value = impurity(high.all, high.squares) + impurity(low.all, low.squares);
                if value < best {
                    best = value;
                    let threshold = f64::from(values[one]) / 2.0 + f64::from(values[other]) / 2.0;
                    split = Some((feature, threshold));
                }
            }
        }
        self.order[..known].copy_from_slice(&self.constants[..known]);
        self.constants[known..known + found].copy_from_slice(&self.order[known..known + found]);
        node.constant = known + found;
        split
    }
}
