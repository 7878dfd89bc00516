//! Trees of learned models, as model files have them (docs/formats/models.md): a list of nodes, the root first.
//!
//! A value is compared as in scikit-learn: it has single precision, and the threshold double precision. So both
//! programs take the same way through a tree.

use serde::Deserialize;
use std::fmt::Write as _;

/// A node. A leaf is one value in a list. A split is a feature, a threshold, the node for values up to the threshold,
/// and the node for others.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Node<L> {
    Leaf([L; 1]),
    Split(usize, f64, usize, usize),
}

/// A tree that can be followed from the root to a leaf.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tree<L>(Vec<Node<L>>);

/// A threshold as text. Small ones keep their first digits.
fn shown(threshold: f64) -> String {
    if threshold != 0.0 && threshold.abs() < 0.001 {
        format!("{threshold:.3e}")
    } else {
        format!("{threshold:.5}")
    }
}

/// Why a tree cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// The number of the node, from 0.
    pub(crate) node: usize,
    /// What is wrong, as the rest of a sentence.
    pub(crate) what: &'static str,
}

impl<L: Copy> Tree<L> {
    /// The tree of these nodes, over `features`. `wrong` says what is wrong with a leaf, if something is.
    pub(crate) fn checked(
        nodes: Vec<Node<L>>,
        features: usize,
        wrong: impl Fn(L) -> Option<&'static str>,
    ) -> Result<Self, Damage> {
        if nodes.is_empty() {
            let what = "is missing";
            return Err(Damage { node: 0, what });
        }
        for (node, &one) in nodes.iter().enumerate() {
            let what = match one {
                Node::Leaf([leaf]) => wrong(leaf),
                Node::Split(feature, ..) if feature >= features => Some("has a feature that is not listed"),
                // Children come later, so that each way through the tree ends.
                Node::Split(_, _, low, high) if low.min(high) <= node || low.max(high) >= nodes.len() => {
                    Some("has a child that does not come after it")
                }
                Node::Split(..) => None,
            };
            if let Some(what) = what {
                return Err(Damage { node, what });
            }
        }
        Ok(Self(nodes))
    }

    /// The nodes, the root first.
    pub(crate) fn nodes(&self) -> &[Node<L>] {
        &self.0
    }

    /// The tree as indented text, a line for each condition and each leaf. Each line begins with a newline.
    pub(crate) fn written(&self, feature: &dyn Fn(usize) -> String, leaf: &dyn Fn(L) -> String) -> String {
        let mut text = String::new();
        self.write_below(0, 1, feature, leaf, &mut text);
        text
    }

    fn write_below(
        &self,
        place: usize,
        depth: usize,
        feature: &dyn Fn(usize) -> String,
        leaf: &dyn Fn(L) -> String,
        text: &mut String,
    ) {
        let indent = "  ".repeat(depth);
        match self.0[place] {
            Node::Leaf([value]) => {
                let _ = write!(text, "\n{indent}{}", leaf(value));
            }
            Node::Split(split, threshold, low, high) => {
                let _ = write!(text, "\n{indent}if {} <= {}:", feature(split), shown(threshold));
                self.write_below(low, depth + 1, feature, leaf, text);
                let _ = write!(text, "\n{indent}else:");
                self.write_below(high, depth + 1, feature, leaf, text);
            }
        }
    }

    /// The leaf that the values of features lead to. The first value that is an error ends the way.
    pub(crate) fn leaf<E>(&self, mut value: impl FnMut(usize) -> Result<f32, E>) -> Result<L, E> {
        let mut place = 0;
        loop {
            match self.0[place] {
                Node::Leaf([leaf]) => return Ok(leaf),
                Node::Split(feature, threshold, low, high) => {
                    place = if f64::from(value(feature)?) <= threshold {
                        low
                    } else {
                        high
                    };
                }
            }
        }
    }
}
