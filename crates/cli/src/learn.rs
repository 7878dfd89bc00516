//! `pinfold learn`: runs `pinfold-learn`, which is Python, as git runs its subcommands.
//!
//! It is looked for beside this binary, where `pip install` puts both; in the environment `.venv` of the checkout that
//! this binary was built in; and in `PATH`. It replaces this process, so its exit status and its signals are the
//! command's. The environment variable `PINFOLD` names the calling binary, which `pinfold-learn` asks about machines.

use anyhow::{Context, Result, bail};
use clap::Args;
use std::env;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Learn from data sets which affinity suits a program, and judge what was learned (Python; see `pinfold learn
/// --help`).
#[derive(Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Arguments {
    /// The arguments of `pinfold-learn`.
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

const NAME: &str = "pinfold-learn";

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut command = command()?;
    let error = command.args(&arguments.arguments).exec();
    Err(error).with_context(|| format!("`{}` cannot be started", Path::new(command.get_program()).display()))
}

/// The learner, without arguments.
pub(crate) fn command() -> Result<Command> {
    let own = env::current_exe().context("this program's own file cannot be found")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let places = places(&own, env::split_paths(&path));
    let Some(learner) = places.iter().find(|place| is_executable(place)) else {
        bail!(
            "`{NAME}` is not installed: it is neither beside {}, nor in the `.venv` of a checkout, nor in PATH; install pinfold's \
             Python package (`pip install .` in its source, or `make setup` to use it from there)",
            own.display()
        );
    };
    let mut command = Command::new(learner);
    command.env("PINFOLD", &own);
    Ok(command)
}

/// The files that it may be, in the order of preference.
fn places(own: &Path, path: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let beside = own.parent().map(Path::to_owned);
    // A checkout has the binary in target/release or target/debug.
    let checkout = own
        .ancestors()
        .nth(2)
        .filter(|target| target.ends_with("target"))
        .and_then(Path::parent);
    let environment = checkout.map(|checkout| checkout.join(".venv/bin"));
    // An empty entry of PATH is the working directory. Nothing is run from there.
    let path = path.filter(|folder| folder.is_absolute());
    let folders = beside.into_iter().chain(environment).chain(path);
    folders.map(|folder| folder.join(NAME)).collect()
}

fn is_executable(file: &Path) -> bool {
    const ANY_EXECUTE: u32 = 0o111;
    file.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & ANY_EXECUTE != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked_for(own: &str, path: &[&str]) -> Vec<String> {
        let places = places(Path::new(own), path.iter().map(PathBuf::from));
        places.iter().map(|place| place.display().to_string()).collect()
    }

    #[test]
    fn an_installed_binary_looks_beside_itself_and_in_path() {
        assert_eq!(
            looked_for("/opt/bin/pinfold", &["/usr/bin", "", "relative"]),
            ["/opt/bin/pinfold-learn", "/usr/bin/pinfold-learn"]
        );
    }

    #[test]
    fn a_binary_of_a_checkout_looks_in_its_python_environment_before_path() {
        assert_eq!(
            looked_for("/src/target/release/pinfold", &["/usr/bin"]),
            [
                "/src/target/release/pinfold-learn",
                "/src/.venv/bin/pinfold-learn",
                "/usr/bin/pinfold-learn"
            ]
        );
    }
}
