//! The initial memory policy of a program: `set_mempolicy(2)` between fork and exec. Threads and child processes
//! inherit it, and an exec keeps it. So one call decides the node of each page that is touched later, unless the
//! program sets another policy.
//!
//! Known limits: a policy belongs to a thread, and only the thread itself can set it. So pinfold cannot set different
//! policies for the threads of a program, nor change the policy of a running one: then pages can only be moved
//! (`mover`).
//!
//! Automatic NUMA balancing includes only memory whose policy allows it: memory with the system's default policy, and
//! memory bound with `MPOL_F_NUMA_BALANCING`. Linux has no `prctl` for it. So any other policy excludes a program from
//! it; `MPOL_LOCAL` places pages like the default. Interleaved or preferred memory cannot be included.

use pinfold_core::memory::Spread;
use pinfold_core::memory::{Unavailable, main_memory, spread};
use pinfold_core::{NodeSet, PageMapping, Topology};
use std::fmt;
use std::io;

/// How the kernel places a page at first touch: `MPOL_*` of `linux/mempolicy.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Mode {
    /// The system's default: the node of the thread that touches it.
    Default = 0,
    /// One node, and others when it is full.
    Preferred = 1,
    /// Only these nodes.
    Bind = 2,
    /// These nodes in turn.
    Interleave = 3,
    /// The node of the thread that touches it, without automatic NUMA balancing.
    Local = 4,
    /// These nodes in turn, by the weights in `/sys/kernel/mm/mempolicy/weighted_interleave`. Linux 6.9.
    WeightedInterleave = 6,
}

/// Whether automatic NUMA balancing may move the program's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balancing {
    /// Includes the program's memory if the page mapping allows that.
    #[default]
    Keep,
    /// Excludes the program's memory.
    Off,
}

/// A memory policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPolicy {
    mode: Mode,
    nodes: NodeSet,
}

/// The system call in the format of strace.
impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            Mode::Default => "MPOL_DEFAULT",
            Mode::Preferred => "MPOL_PREFERRED",
            Mode::Bind => "MPOL_BIND",
            Mode::Interleave => "MPOL_INTERLEAVE",
            Mode::Local => "MPOL_LOCAL",
            Mode::WeightedInterleave => "MPOL_WEIGHTED_INTERLEAVE",
        };
        if self.nodes.is_empty() {
            write!(f, "set_mempolicy({mode})")
        } else {
            write!(f, "set_mempolicy({mode}, nodes {})", self.nodes)
        }
    }
}

/// Why the kernel refuses a memory policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The system call is not allowed, or does not exist. This should not end a run.
    #[error(
        "the kernel does not permit setting a memory policy ({0}): a container may forbid set_mempolicy(2) without CAP_SYS_NICE"
    )]
    Forbidden(io::Error),
    /// The kernel is too old.
    #[error(
        "this kernel has no weighted interleaving, which needs Linux 6.9; use --interleave, which gives each node the \
         same number of pages"
    )]
    NoWeights,
    /// Any other error.
    #[error("the kernel refuses the memory policy {policy:?}: {error}")]
    Other {
        /// The requested policy.
        policy: MemoryPolicy,
        /// The kernel's error.
        error: io::Error,
    },
}

impl MemoryPolicy {
    /// Pages on the node of the thread that touches them, without automatic NUMA balancing.
    pub fn local() -> Self {
        Self {
            mode: Mode::Local,
            nodes: NodeSet::default(),
        }
    }

    /// The initial policy of a program whose pages are placed by `mapping`, with threads on `threads`. `None` if the
    /// inherited policy suffices, or if no policy can express the mapping (then the machine refuses it when it is
    /// applied).
    ///
    /// `single` and `remote` prefer their node, so that a program that needs more memory than the node has continues.
    /// `bind` is strict, like numactl's `--membind`, and such a program is killed.
    pub fn at_launch(
        mapping: Option<PageMapping>,
        topology: &Topology,
        threads: &NodeSet,
        balancing: Balancing,
    ) -> Result<Option<Self>, Unavailable> {
        let with = |mode, nodes| Some(Self { mode, nodes });
        let none = NodeSet::default();
        let first_touch = || match balancing {
            Balancing::Keep => with(Mode::Default, none),
            Balancing::Off => with(Mode::Local, none),
        };
        let mapping = match mapping {
            Some(mapping) if !mapping.needs_accesses() => mapping,
            _ if balancing == Balancing::Off => return Ok(first_touch()),
            _ => return Ok(None),
        };
        let spread = spread(mapping, topology, threads, |_| 1)?;
        Ok(match mapping {
            PageMapping::FirstTouch => first_touch(),
            PageMapping::Local => with(Mode::Local, none),
            PageMapping::Interleave => with(Mode::Interleave, main_memory(topology)),
            PageMapping::InterleaveOver(nodes) => with(Mode::Interleave, nodes),
            PageMapping::WeightedInterleave(nodes) => with(Mode::WeightedInterleave, nodes),
            PageMapping::Bind(nodes) => with(Mode::Bind, nodes),
            PageMapping::Preferred(node) | PageMapping::Single(node) => with(Mode::Preferred, node.into()),
            PageMapping::Remote => match spread {
                Some(Spread::On(node)) => with(Mode::Preferred, node.into()),
                _ => None,
            },
            PageMapping::Locality | PageMapping::Balance => None,
        })
    }

    /// The mode of the policy.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The nodes. Empty for a mode without nodes.
    pub fn nodes(&self) -> &NodeSet {
        &self.nodes
    }

    /// Whether automatic NUMA balancing excludes memory with this policy.
    pub fn is_outside_balancing(&self) -> bool {
        self.mode != Mode::Default
    }

    /// Sets this policy for the calling thread. It is a single system call, so it may run between fork and exec.
    pub fn set(&self) -> io::Result<()> {
        let words = self.nodes.words();
        // The kernel reads one bit less than this number.
        let bits = words.len() as u64 * u64::from(u64::BITS) + 1;
        let (mask, bits) = if self.nodes.is_empty() {
            (std::ptr::null(), 0)
        } else {
            (words.as_ptr(), bits)
        };
        // SAFETY: the kernel reads this number of bits, all of them in `words`, and keeps no pointer.
        let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, self.mode as i32, mask, bits) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Tests in a separate thread whether the kernel accepts this policy. The policy of this process stays.
    pub fn try_out(&self) -> Result<(), PolicyError> {
        let policy = *self;
        let tried = std::thread::spawn(move || policy.set()).join();
        let Err(error) = tried.unwrap_or_else(|_| Err(io::Error::other("cannot start a thread"))) else {
            return Ok(());
        };
        Err(match error.raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS | libc::EACCES) => PolicyError::Forbidden(error),
            Some(libc::EINVAL) if self.mode == Mode::WeightedInterleave => PolicyError::NoWeights,
            _ => PolicyError::Other { policy, error },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{NodeId, NumaNode, ObjectKind, PuId, TopologyBuilder};

    fn machine(nodes: u32) -> Topology {
        let mut builder = TopologyBuilder::new("nodes");
        let root = builder.root();
        for node in 0..nodes {
            let package = builder.object(root, ObjectKind::Package, Some(node));
            builder.pu(package, PuId(node));
            builder.node(NumaNode {
                id: NodeId(node),
                attached_to: package,
                pus: [PuId(node)].into_iter().collect(),
                memory: Some(1 << 30),
                subtype: None,
            });
        }
        let ids: Vec<NodeId> = (0..nodes).map(NodeId).collect();
        builder.build(&(0..nodes).map(PuId).collect(), &ids).unwrap()
    }

    fn policy(mapping: &str, threads: &str, balancing: Balancing) -> Option<(Mode, String)> {
        let mapping = (!mapping.is_empty()).then(|| mapping.parse().unwrap());
        let policy = MemoryPolicy::at_launch(mapping, &machine(4), &threads.parse().unwrap(), balancing).unwrap();
        policy.map(|policy| (policy.mode, policy.nodes.to_string()))
    }

    #[test]
    fn each_mapping_has_its_policy() {
        for (mapping, mode, nodes) in [
            ("first_touch", Mode::Default, ""),
            ("local", Mode::Local, ""),
            ("interleave", Mode::Interleave, "0-3"),
            ("interleave:1,3", Mode::Interleave, "1,3"),
            ("weighted_interleave:1,3", Mode::WeightedInterleave, "1,3"),
            ("bind:0-1", Mode::Bind, "0-1"),
            ("preferred:2", Mode::Preferred, "2"),
            ("single:3", Mode::Preferred, "3"),
            ("remote", Mode::Preferred, "0"),
        ] {
            assert_eq!(
                policy(mapping, "2", Balancing::Keep),
                Some((mode, nodes.to_owned())),
                "{mapping}"
            );
        }
    }

    #[test]
    fn nothing_is_set_without_a_request() {
        assert_eq!(policy("", "0-3", Balancing::Keep), None);
        assert_eq!(policy("balance", "0-3", Balancing::Keep), None);
    }

    #[test]
    fn a_program_without_a_mapping_is_taken_out_of_balancing_by_the_local_policy() {
        let local = Some((Mode::Local, String::new()));
        assert_eq!(policy("", "0-3", Balancing::Off), local);
        assert_eq!(policy("first_touch", "0-3", Balancing::Off), local);
        assert_eq!(policy("balance", "0-3", Balancing::Off), local);
    }

    #[test]
    fn the_kernel_takes_the_policies_that_need_one_node() {
        for mapping in [PageMapping::FirstTouch, PageMapping::Local, PageMapping::Interleave] {
            let policy = MemoryPolicy::at_launch(Some(mapping), &machine(1), &NodeId(0).into(), Balancing::Keep);
            match policy.unwrap().unwrap().try_out() {
                Ok(()) => {}
                Err(PolicyError::Forbidden(error)) => {
                    pinfold_testing::skip(format_args!("set_mempolicy is forbidden here: {error}"));
                }
                Err(error) => panic!("{mapping}: {error}"),
            }
        }
    }

    #[test]
    fn a_node_that_the_kernel_does_not_have_is_refused_by_it() {
        let policy = MemoryPolicy {
            mode: Mode::Bind,
            nodes: NodeSet::HIGHEST.into(),
        };
        assert!(policy.try_out().is_err());
    }
}
