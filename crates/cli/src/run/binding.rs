//! The user's environment variables that bind the program's threads. They take precedence, unless `--override`.

use super::Arguments;
use pinfold_linux::launch::RunningProcess;
use std::env;
use std::ffi::OsString;

/// Whether a variable with this value binds threads.
type Binds = fn(&str) -> bool;

/// The variables that can bind threads, and which of their values do.
const VARIABLES: [(&str, Binds); 4] = [
    // OpenMP 5.2, section 21.2.3: only `false` leaves threads unbound.
    ("OMP_PROC_BIND", |value| {
        !value.is_empty() && !value.eq_ignore_ascii_case("false")
    }),
    // OpenMP 5.2, section 21.2.3: without OMP_PROC_BIND, places bind.
    ("OMP_PLACES", |value| !value.is_empty()),
    // libgomp's manual, section GOMP_CPU_AFFINITY.
    ("GOMP_CPU_AFFINITY", |value| !value.is_empty()),
    // LLVM's OpenMP documentation, KMP_AFFINITY: modifiers and a type. These two types bind nothing.
    ("KMP_AFFINITY", |value| {
        !value.is_empty()
            && !value
                .split(',')
                .any(|word| word.eq_ignore_ascii_case("none") || word.eq_ignore_ascii_case("disabled"))
    }),
];

/// The variables among these that bind the program's threads, as `NAME=VALUE`. `SLURM_CPU_BIND` is not among them:
/// Slurm has bound pinfold itself by then, and the mask that it gave is respected like any other.
pub(crate) fn in_force(variable: impl Fn(&str) -> Option<OsString>) -> Vec<(&'static str, String)> {
    let unbound =
        variable("OMP_PROC_BIND").is_some_and(|value| value.to_string_lossy().trim().eq_ignore_ascii_case("false"));
    VARIABLES
        .iter()
        .filter_map(|&(name, binds)| {
            let value = variable(name)?.to_string_lossy().into_owned();
            // libgomp then ignores its own variable, too.
            let overruled = matches!(name, "OMP_PLACES" | "GOMP_CPU_AFFINITY") && unbound;
            (binds(value.trim()) && !overruled).then_some((name, value))
        })
        .collect()
}

/// The variables of this process that would bind the threads of a program that it starts, as `NAME=VALUE`.
pub(crate) fn variables() -> Vec<String> {
    let bound = in_force(|name| env::var_os(name));
    bound.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// What follows from the variables that bind threads.
#[derive(Default)]
pub(super) struct Bound {
    /// Whether the program binds its own threads, so that no policy does.
    pub(super) stays: bool,
    /// The variables that are taken away from the program.
    pub(super) removed: Vec<OsString>,
    /// A note for the user.
    pub(super) note: Option<String>,
}

/// Looks for variables that bind threads, in the environment of pinfold or of a running process.
pub(super) fn found(arguments: &Arguments, process: Option<&RunningProcess>) -> Bound {
    let bound = in_force(|name| match process {
        Some(process) => process.variable(name),
        None => env::var_os(name),
    });
    if bound.is_empty() {
        return Bound::default();
    }
    let shown: Vec<String> = bound.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let shown = shown.join(", ");
    if arguments.changes.overrides {
        return Bound {
            stays: false,
            removed: bound.iter().map(|(name, _)| OsString::from(name)).collect(),
            note: Some(format!("{shown} is taken away from the program (--override).")),
        };
    }
    let remedy = match process {
        Some(_) => "start it without that, by `pinfold run -- CMD`, to have them placed",
        None => "--override takes this away from the program",
    };
    Bound {
        stays: true,
        removed: vec![],
        note: Some(format!(
            "{shown}: the program binds its own threads, so they are measured and left where they are; {remedy}."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(environment: &[(&str, &str)]) -> Vec<&'static str> {
        let variable = |name: &str| {
            environment
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        in_force(variable).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn variables_that_bind_are_found() {
        assert_eq!(
            names(&[("OMP_PROC_BIND", "close"), ("GOMP_CPU_AFFINITY", "0-3")]),
            ["OMP_PROC_BIND", "GOMP_CPU_AFFINITY"]
        );
        assert_eq!(names(&[("OMP_PLACES", "cores")]), ["OMP_PLACES"]);
        assert_eq!(
            names(&[("KMP_AFFINITY", "verbose,granularity=fine,compact")]),
            ["KMP_AFFINITY"]
        );
    }

    #[test]
    fn variables_that_bind_nothing_are_not() {
        assert!(
            names(&[
                ("OMP_PROC_BIND", "FALSE"),
                ("OMP_PLACES", "cores"),
                ("GOMP_CPU_AFFINITY", "0")
            ])
            .is_empty()
        );
        assert!(names(&[("OMP_PROC_BIND", " "), ("KMP_AFFINITY", "verbose,none")]).is_empty());
        assert!(names(&[("SLURM_CPU_BIND", "quiet,mask_cpu:0x3"), ("OMP_NUM_THREADS", "4")]).is_empty());
    }
}
