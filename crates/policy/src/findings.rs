//! Findings that several policies have.

use crate::program::meter::Measurement;
use pinfold_core::{ChoiceCode, Finding};

/// A candidate was measured; `dropped`: it had lost before the end.
pub(crate) fn probed(candidate: usize, measurement: &Measurement, dropped: bool) -> Finding {
    Finding::Probed {
        candidate,
        rate: measurement.rate,
        spread: measurement.spread,
        error: measurement.error(),
        measured: measurement.over,
        dropped,
    }
}

/// A candidate was chosen of a few that are not compared with a worst one.
pub(crate) fn chosen(candidate: usize, gain_over_first: Option<f64>, code: ChoiceCode, why: &str) -> Finding {
    Finding::Chosen {
        candidate,
        gain_over_first,
        gain_over_worst: None,
        code,
        why: why.to_owned(),
    }
}
