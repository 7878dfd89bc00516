//! `--policy none`: threads are left to the operating system.

use super::{Built, PolicyEntry, PolicyRequest, Prepared};
use anyhow::Result;
use pinfold_policy::Kept;
use pinfold_runtime::DecidesOn;

pub(super) struct None;

impl PolicyEntry for None {
    fn name(&self) -> &'static str {
        "none"
    }

    fn about(&self) -> &'static str {
        "leaves threads to the operating system"
    }

    fn explained(&self) -> &'static str {
        "leaves threads where the operating system puts them and only measures"
    }

    fn decides_on(&self) -> DecidesOn {
        DecidesOn::Nothing
    }

    fn is_compared(&self) -> bool {
        false
    }

    fn prepare(&self, _request: &PolicyRequest<'_>) -> Result<Prepared> {
        Ok(Prepared::new(|setting| {
            Ok(Built::new(setting.common.keep(Kept::Nothing)))
        }))
    }
}
