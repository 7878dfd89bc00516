//! `--policy hint:SLP`: the placement of an affinity hint for the whole run.

use super::{Parameter, PolicyEntry, PolicyRequest, Prepared, named};
use anyhow::Result;
use pinfold_core::hint::{AffinityHint, ParseAffinityHintError};
use pinfold_core::placement::NamedPlacement;

pub(super) struct Hint;

impl PolicyEntry for Hint {
    fn name(&self) -> &'static str {
        "hint"
    }

    fn parameter(&self) -> Option<Parameter> {
        Some(Parameter {
            form: "SLP",
            check: |text| parse(text).map(|_| ()).map_err(|error| error.to_string()),
            values: || AffinityHint::ALL.iter().map(AffinityHint::to_string).collect(),
        })
    }

    fn about(&self) -> &'static str {
        "keeps the placement of an affinity hint (three letters, such as SlP), as `pinfold placements --hint` shows it"
    }

    fn explained(&self) -> &'static str {
        "keeps the placement of an affinity hint and only measures"
    }

    fn is_compared(&self) -> bool {
        false
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let hint = parse(request.parameter.unwrap_or_default())?;
        Ok(Prepared::new(move |setting| {
            let why = format!("--policy hint:{hint} asks for it");
            Ok(named::kept(setting, "hint", NamedPlacement::Hint(hint), &why))
        }))
    }
}

fn parse(text: &str) -> Result<AffinityHint, ParseAffinityHintError> {
    text.parse()
}
