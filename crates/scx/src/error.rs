//! Why the scheduler cannot run.

/// Why the scheduler does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// It is not part of this build.
    #[error("this build of pinfold has no scheduler, because it was built without {missing}")]
    NotBuilt {
        /// What the build lacked.
        missing: &'static str,
    },
    /// The kernel has no such schedulers.
    #[error("the kernel has no sched_ext: Linux 6.12 or later is needed, with CONFIG_SCHED_CLASS_EXT")]
    NoKernelSupport,
    /// Another one runs.
    #[error("the scheduler \"{0}\" runs already, and the kernel has one at a time: end it first")]
    OtherScheduler(String),
    /// The permission is missing.
    #[error("loading a scheduler needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_NICE")]
    Forbidden,
    /// The machine is too large.
    #[error("the machine has {found} {what}, and the scheduler is built for {most}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// The kernel refused it.
    #[error("the kernel refuses the scheduler: {0}")]
    Refused(String),
}
