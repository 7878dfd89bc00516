//! The CPUs that runs of pinfold on one machine have, so that none takes another's.

use clap::Args;
use pinfold_linux::claims::Claims;
use std::path::PathBuf;

/// Where runs say which CPUs they have.
#[derive(Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// The folder where the runs of pinfold on this machine list the CPUs that they have pinned their programs to. Each
    /// leaves the others' CPUs alone; with `none` it does not look.
    #[arg(
        long,
        env = "PINFOLD_CLAIMS",
        hide_env_values = true,
        default_value = "/dev/shm",
        value_name = "DIR"
    )]
    claims: PathBuf,
}

impl Arguments {
    /// The record of this run; `None` if it has none, with a note on the reason.
    pub(crate) fn open_for_this_run(&self, notes: &mut Vec<String>) -> Option<Claims> {
        if self.claims.as_os_str() == "none" {
            return None;
        }
        let claims = Claims::new(&self.claims);
        claims
            .map_err(|error| {
                notes.push(format!(
                    "Other runs of pinfold are not seen, and may use the same CPUs: {error}."
                ));
            })
            .ok()
    }
}
