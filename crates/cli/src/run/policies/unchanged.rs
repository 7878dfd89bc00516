//! The default policy where no placement differs from another: the program stays as it is, and nothing is measured.

use super::{Built, PolicyEntry, PolicyRequest, Prepared};
use anyhow::Result;
use pinfold_policy::Unchanged as Policy;
use pinfold_runtime::DecidesOn;

pub(super) struct Unchanged;

impl PolicyEntry for Unchanged {
    fn name(&self) -> &'static str {
        super::DEFAULT.name()
    }

    fn about(&self) -> &'static str {
        "leaves the program as it is"
    }

    fn explained(&self) -> &'static str {
        self.about()
    }

    fn decides_on(&self) -> DecidesOn {
        DecidesOn::Nothing
    }

    fn prepare(&self, _request: &PolicyRequest<'_>) -> Result<Prepared> {
        Ok(Prepared {
            counts: false,
            ..Prepared::new(|_| Ok(Built::new(Policy)))
        })
    }
}
