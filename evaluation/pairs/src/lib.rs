//! The search for the two features whose decision tree chooses configurations best (Sánchez Barrera et al., ICS 2020,
//! section 4.2.2).
//!
//! A tree is scikit-learn's `DecisionTreeClassifier(random_state=0)`, with the same splits and predictions: where two
//! splits are as good as each other, chance decides, and so its generator of random numbers belongs to it. [`Tree`] is
//! one for any number of features and samples. [`Search`] judges all pairs of features by cross-validation, for up to
//! 255 samples.
//!
//! The library only computes. The program `pinfold-pairs` reads the problem and writes the result. Only the evaluation
//! and `pinfold learn --features` use it, so it is no part of the binary `pinfold`.

mod draws;
mod generator;
mod problem;
mod search;
mod tree;
mod word;

pub use problem::{Problem, ProblemError};
pub use search::{Best, Search};
pub use tree::{Node, Tree};
