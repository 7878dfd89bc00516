//! Which programs get the interposer that counts MPI calls (`agent/mpi.c`): those that have MPI.
//!
//! The interposer has functions with the names of MPI's. A program without MPI must not find them: a weak reference to
//! one would tell it that there is MPI. So a program gets the interposer only if
//!
//! - its executable needs an MPI library, or
//! - an MPI launcher has started it. The MPI library may then come later, such as with a module of Python.

/// How the names of MPI libraries start: Open MPI, MPICH, Intel MPI, MVAPICH, and those of Cray, HPE and IBM; the
/// bindings for Fortran and C++ too.
const LIBRARIES: [&str; 6] = [
    "libmpi.so",
    "libmpi_",
    "libmpich",
    "libmpifort",
    "libmpicxx",
    "libmpitrampoline",
];

/// The variables in which launchers tell a process its rank. The second one is of Hydra, the launcher of MPICH and Intel
/// MPI, and of Slurm.
const RANKS: [&str; 5] = [
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "MV2_COMM_WORLD_RANK",
    "PALS_RANKID",
];

/// Whether a library that an executable needs is one of MPI.
pub(crate) fn is_library(name: &str) -> bool {
    LIBRARIES.iter().any(|start| name.starts_with(start))
}

/// Whether an MPI launcher has started a process whose environment has these variables.
pub fn is_rank(has_variable: impl Fn(&str) -> bool) -> bool {
    RANKS.iter().any(|name| has_variable(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_mpi_are_known_by_their_names() {
        for name in [
            "libmpi.so.40",
            "libmpi.so.12",
            "libmpich.so.12",
            "libmpi_mpifh.so.40",
            "libmpifort.so.12",
            "libmpi_cray.so.12",
        ] {
            assert!(is_library(name), "{name}");
        }
        for name in ["libmpfr.so.6", "libmp3lame.so.0", "libmpdec.so.3", "libc.so.6"] {
            assert!(!is_library(name), "{name}");
        }
    }

    #[test]
    fn a_rank_is_known_by_what_its_launcher_has_set() {
        assert!(is_rank(|name| name == "PMI_RANK"));
        assert!(!is_rank(|name| name == "SLURM_PROCID"));
    }
}
