//! Which of two features is drawn first in each node of a tree: of equally good splits, it decides.

use crate::generator::Generator;

/// The draws of a tree so far.
pub(crate) struct Drawing<'a> {
    /// Those of a tree in which no feature is constant in a node.
    known: &'a [(Draws, usize)],
    /// How many nodes have been drawn for.
    nodes: usize,
    /// The draws since a feature was constant in a node.
    own: Option<Draws>,
}

impl<'a> Drawing<'a> {
    pub(crate) fn new(known: &'a [(Draws, usize)]) -> Self {
        Self {
            known,
            nodes: 0,
            own: None,
        }
    }

    /// Draws the features of a node, of which `known` are known to be constant, and returns the first one that is not
    /// constant.
    #[inline]
    pub(crate) fn first(&mut self, known: usize, is_constant: [bool; 2]) -> usize {
        if self.own.is_none() && is_constant == [false; 2] {
            let (_, first) = self.known[self.nodes];
            self.nodes += 1;
            return first;
        }
        let begin = &self.known[self.nodes].0;
        self.own.get_or_insert_with(|| begin.clone()).first(known, is_constant)
    }
}

/// The draws of scikit-learn. As there, both orders live as long as the tree.
#[derive(Clone)]
pub(crate) struct Draws {
    random: Generator,
    order: [usize; 2],
    constants: [usize; 2],
}

impl Draws {
    /// The draws before each node of a tree in which no feature is constant, and the feature that is drawn first.
    pub(crate) fn without_constants(nodes: usize) -> Vec<(Self, usize)> {
        let mut draws = Self {
            random: Generator::of_a_tree(),
            order: [0, 1],
            constants: [0, 1],
        };
        (0..nodes)
            .map(|_| {
                let before = draws.clone();
                (before, draws.first(0, [false; 2]))
            })
            .collect()
    }

    fn first(&mut self, known: usize, is_constant: [bool; 2]) -> usize {
        let mut first = None;
        let mut found = 0;
        let mut drawn = 0;
        let mut end = 2;
        while end > known + found {
            let place = self.random.draw(drawn, end - found);
            if place < known {
                self.order.swap(drawn, place);
                drawn += 1;
                continue;
            }
            let place = place + found;
            let feature = self.order[place];
            if is_constant[feature] {
                self.order.swap(place, known + found);
                found += 1;
            } else {
                end -= 1;
                self.order.swap(end, place);
                first.get_or_insert(feature);
            }
        }
        self.order[..known].copy_from_slice(&self.constants[..known]);
        self.constants[known..known + found].copy_from_slice(&self.order[known..known + found]);
        first.unwrap_or(0)
    }
}
