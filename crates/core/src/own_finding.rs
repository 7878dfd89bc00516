//! Findings that only one policy has.
//!
//! A policy defines a type for what it found, with the values for programs, and a sentence for people:
//!
//! ```
//! use pinfold_core::{Finding, PolicyFinding};
//! use serde::Serialize;
//!
//! /// The rates of two placements.
//! #[derive(Serialize)]
//! struct Compared {
//!     packed: f64,
//!     distributed: f64,
//! }
//!
//! impl PolicyFinding for Compared {
//!     const NAME: &'static str = "compared";
//!
//!     fn text(&self) -> String {
//!         format!("The rate was {} packed and {} distributed.", self.packed, self.distributed)
//!     }
//! }
//!
//! let finding = Finding::own(&Compared { packed: 2.0, distributed: 3.0 });
//! # let Finding::Own(own) = finding else { panic!() };
//! # assert_eq!(own.values["distributed"], 3.0);
//! ```
//!
//! The run reports the sentence, the record keeps both (`findings` in docs/formats/run.md), and `pinfold explain` and
//! the page show the sentence of the record. So no other file knows the finding.

use crate::Finding;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A type of finding that only one policy has.
pub trait PolicyFinding: Serialize {
    /// The `name` in the record. Programs find the finding by it.
    const NAME: &'static str;

    /// A whole sentence for people.
    fn text(&self) -> String;
}

/// A finding that only one policy has, as the record keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnFinding {
    /// What kind of finding it is.
    pub name: String,
    /// The values, for programs. `null` if they are not JSON, such as a map whose keys are no texts.
    #[serde(default)]
    pub values: Value,
    /// A whole sentence for people.
    pub text: String,
}

impl Finding {
    /// A finding that only this policy has.
    pub fn own<Own: PolicyFinding>(finding: &Own) -> Self {
        Self::Own(OwnFinding {
            name: Own::NAME.to_owned(),
            values: serde_json::to_value(finding).unwrap_or_default(),
            text: finding.text(),
        })
    }
}
