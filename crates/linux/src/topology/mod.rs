//! Reads a topology through hwloc: of this machine, hwloc XML, a copy of another machine's `/sys` and `/proc`, or
//! hwloc's synthetic descriptions.
//!
//! 1. hwloc loads the source, and keeps objects that are not allowed in the tree.
//! 2. Its normal objects become the tree of `pinfold_core::Topology`, parents before children. Its NUMA nodes are
//!    attached to the same normal objects as in hwloc. The kernel decides which PUs belong to each (`nodes`, `kernel`).
//! 3. The allowed objects are those in hwloc's view of the cpuset. On this machine they must also be in the calling
//!    thread's affinity mask: `taskset`, cgroups and a batch system's binding are respected, never widened.
//!
//! I/O devices are read separately (`devices`), if a command needs them: hwloc may add groups to the tree for them.
//!
//! hwloc trusts its input, so a separate process reads each source (`here`, `read_by`). If hwloc fails on this machine,
//! the topology is read from `/sys`, without NUMA nodes (`sysfs`).
//!
//! Known limits, which are hwloc's defaults: instruction caches and offline CPUs are not read, nor are the NUMA nodes
//! of NVIDIA GPUs unless `HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES=1` is in the environment. Memory-side caches are skipped: a
//! node behind one is attached to the object above the cache. If all nodes of a machine have a memory size of zero, the
//! source has no sizes (XML made from CPUID dumps), and the memory of the nodes is unknown, not zero.

mod devices;
mod environment;
mod here;
mod isolated;
mod kernel;
mod name;
mod nodes;
mod sysfs;
mod xml;

pub use devices::devices;
pub use here::{Here, devices_here, here};
pub use isolated::{answer, read_by};

use crate::affinity::CpuMask;
use hwlocality::cpu::binding::CpuBindingFlags;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::{CacheAssociativity, ObjectAttributes};
use hwlocality::object::distance::DistancesKind;
use hwlocality::object::types::{CacheType as HwlocCacheType, ObjectType};
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder as Loader};
use kernel::KernelNodes;
use pinfold_core::{
    Cache, CacheType, CoreKind, Distances, NodeId, NumaNode, ObjectId, ObjectKind, PuId, PuSet, Topology,
    TopologyBuilder, TopologyError,
};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The source of a topology. Its text form is the value of `--machine`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This machine.
    Live,
    /// A file of hwloc's XML, as `lstopo machine.xml` writes it.
    Xml(PathBuf),
    /// A directory with a copy of another machine's `/sys` and `/proc`, as `hwloc-gather-topology` creates it.
    FsRoot(PathBuf),
    /// hwloc's synthetic description, such as `package:2 l3:1 core:8 pu:2`.
    Synthetic(String),
}

/// Why a topology could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file or directory could not be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is not hwloc's XML.
    #[error("`{}` is not hwloc XML: {why}; `lstopo machine.xml` writes a file that can be read", path.display())]
    NotXml {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A path for `fsroot:` is a file.
    #[error(
        "`{}` is not a directory; if it is an archive made by hwloc-gather-topology, unpack it \
         (`tar -xf {0}`) and name the directory that comes out",
        path.display()
    )]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// A directory does not contain a copy of a machine's `/sys`.
    #[error(
        "`{}` is not a copy of a machine's /sys and /proc: it has no `{}`; make one with `hwloc-gather-topology NAME` \
         on that machine and unpack the archive that it writes",
        path.display(),
        CPU_DIRECTORY
    )]
    NoSystem {
        /// The directory.
        path: PathBuf,
    },
    /// The text is not a synthetic description.
    #[error("`{description}` is not a synthetic description; a valid one is `{}`", EXAMPLE)]
    NotSynthetic {
        /// The description.
        description: String,
    },
    /// The environment makes hwloc describe another machine, and this machine was requested.
    #[error(
        "the environment makes hwloc describe another machine (HWLOC_XMLFILE, HWLOC_SYNTHETIC, HWLOC_FSROOT or \
         HWLOC_CPUID_PATH): unset it, name the description with --machine, or set HWLOC_THISSYSTEM=1 if it is of \
         this machine"
    )]
    AnotherMachine,
    /// The kernel does not report the PUs that this thread may run on. hwloc would retry forever.
    #[error(
        "the system refuses sched_getaffinity, which reads the allowed PUs; allow it in the filter of system calls \
         (seccomp) of the container or the service"
    )]
    NoAffinity(#[source] io::Error),
    /// Any other error of hwloc.
    #[error("hwloc cannot read {what}: {why}")]
    Hwloc {
        /// The source.
        what: String,
        /// hwloc's message.
        why: String,
    },
    /// The reader process could not be started or read.
    #[error("cannot read {what}: the reader process failed")]
    Reader {
        /// The source.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The reader process refused the source, with the reason and the remedy.
    #[error("{0}")]
    Refused(String),
    /// hwloc failed in the reader process, with this error.
    #[error("{0}")]
    Failed(String),
    /// The reader process ended without a topology.
    #[error(
        "cannot read {what}: hwloc {how}, as with damaged or oversized descriptions; write the description again, as \
         `lstopo machine.xml` or hwloc-gather-topology do, or name another machine"
    )]
    Ended {
        /// The source.
        what: String,
        /// How it ended.
        how: String,
    },
    /// The result is not a usable topology.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

impl ReadError {
    /// Whether hwloc or its process failed. All other errors refuse the source.
    fn is_of_hwloc(&self) -> bool {
        match self {
            Self::Hwloc { .. } | Self::Reader { .. } | Self::Failed(_) | Self::Ended { .. } => true,
            Self::Unreadable { .. }
            | Self::NotXml { .. }
            | Self::NotADirectory { .. }
            | Self::NoSystem { .. }
            | Self::NotSynthetic { .. }
            | Self::AnotherMachine
            | Self::NoAffinity(_)
            | Self::Refused(_)
            | Self::Topology(_) => false,
        }
    }
}

/// A valid synthetic description, for messages.
pub const EXAMPLE: &str = "package:2 l3:1 core:8 pu:2";

/// The directory that a copy of a machine must have.
const CPU_DIRECTORY: &str = "sys/devices/system/cpu";

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => write!(f, "this machine"),
            Self::Xml(path) => write!(f, "xml:{}", path.display()),
            Self::FsRoot(path) => write!(f, "fsroot:{}", path.display()),
            Self::Synthetic(description) => write!(f, "synthetic:{description}"),
        }
    }
}

/// Reads a topology.
///
/// hwloc reads the root of a file-system copy only from the environment, so reading `Source::FsRoot` changes the
/// environment during the call. Calls of this function wait for each other, and Rust's own access to the environment is
/// locked. But C code in another thread must not read the environment meanwhile: read such a source before threads are
/// started.
///
/// # Errors
///
/// See `ReadError`. Each error names the source and the remedy.
pub fn read(source: &Source) -> Result<Topology, ReadError> {
    if *source == Source::Live {
        CpuMask::of_thread(0).map_err(ReadError::NoAffinity)?;
    }
    let machine = environment::loading(source, || load(source))?;
    if *source == Source::Live && !machine.is_this_system() {
        return Err(ReadError::AnotherMachine);
    }

    let mut reading = Reading::new(name::of(&machine, source));
    reading.children(machine.root_object(), ObjectId(0));
    let Reading { mut builder, nodes } = reading;
    let kernel = kernel_root(source).map_or_else(KernelNodes::default, |root| KernelNodes::read(&root));
    for node in nodes::completed(nodes, &machine, &kernel, builder.pus()) {
        builder.node(node);
    }
    if let Some(distances) = distances(&machine, source)? {
        builder.distances(distances);
    }
    for kind in core_kinds(&machine) {
        builder.core_kind(kind);
    }

    let mut allowed: PuSet = machine.allowed_cpuset().iter_set().map(|pu| PuId(index(pu))).collect();
    if *source == Source::Live {
        let bound = machine
            .cpu_binding(CpuBindingFlags::THREAD)
            .map_err(|error| hwloc(source, &error))?;
        allowed = allowed.intersection(&bound.iter_set().map(|pu| PuId(index(pu))).collect());
    }
    let allowed_nodes: Vec<NodeId> = machine
        .allowed_nodeset()
        .iter_set()
        .map(|node| NodeId(index(node)))
        .collect();
    Ok(builder.build(&allowed, &allowed_nodes)?)
}

/// The root of the file system with the kernel's lists of this machine, or of this copy of one. `None` for a
/// description.
fn kernel_root(source: &Source) -> Option<PathBuf> {
    match source {
        Source::Live => Some(std::env::var_os("HWLOC_FSROOT").map_or_else(|| "/".into(), PathBuf::from)),
        Source::FsRoot(root) => Some(root.clone()),
        Source::Xml(_) | Source::Synthetic(_) => None,
    }
}

/// Makes hwloc load the source.
fn load(source: &Source) -> Result<hwlocality::Topology, ReadError> {
    loader(source)?.build().map_err(|error| match source {
        Source::Xml(path) => ReadError::NotXml {
            path: path.clone(),
            why: "hwloc finds no topology in it".to_owned(),
        },
        _ => hwloc(source, &error),
    })
}

/// A loader that makes hwloc load the source, including objects that are not allowed.
fn loader(source: &Source) -> Result<Loader, ReadError> {
    let loader = Loader::new();
    let (loader, flags) = match source {
        // hwloc's x86 component would move this thread to each CPU in turn. The kernel reports all that pinfold needs.
        Source::Live => (loader, BuildFlags::DONT_CHANGE_BINDING),
        Source::Xml(path) => {
            let text = xml::text(path)?;
            let loader = loader.from_xml(&text).map_err(|error| ReadError::NotXml {
                path: path.clone(),
                why: error.to_string(),
            })?;
            (loader, BuildFlags::empty())
        }
        Source::FsRoot(path) => {
            check_copy(path)?;
            // The x86 component would mix this machine's CPUID into the copy. hwloc has this component only on x86
            // machines.
            let loader = if cfg!(target_arch = "x86_64") {
                loader.without_component("x86").map_err(|error| hwloc(source, &error))?
            } else {
                loader
            };
            (loader, BuildFlags::empty())
        }
        Source::Synthetic(description) => {
            let loader = loader
                .from_synthetic(description)
                .map_err(|_| ReadError::NotSynthetic {
                    description: description.clone(),
                })?;
            (loader, BuildFlags::empty())
        }
    };
    loader
        .with_flags(flags | BuildFlags::INCLUDE_DISALLOWED)
        .map_err(|error| hwloc(source, &error))
}

/// Whether a directory contains a copy of a machine's `/sys`.
fn check_copy(path: &Path) -> Result<(), ReadError> {
    let metadata = std::fs::metadata(path).map_err(|source| ReadError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    if !metadata.is_dir() {
        return Err(ReadError::NotADirectory { path: path.to_owned() });
    }
    if !path.join(CPU_DIRECTORY).is_dir() {
        return Err(ReadError::NoSystem { path: path.to_owned() });
    }
    Ok(())
}

/// The tree under construction, and its nodes.
struct Reading {
    builder: TopologyBuilder,
    nodes: Vec<NumaNode>,
}

impl Reading {
    fn new(name: String) -> Self {
        Self {
            builder: TopologyBuilder::new(name),
            nodes: vec![],
        }
    }

    /// Adds the objects below `object`, which is `id` in pinfold's tree. An object without PUs only groups nodes
    /// without PUs: it is left out, and the nodes are attached to its parent.
    fn children(&mut self, object: &TopologyObject, id: ObjectId) {
        self.memory_children(object, id);
        for child in object.normal_children() {
            if child.cpuset().is_none_or(|pus| pus.is_empty()) {
                self.children(child, id);
                continue;
            }
            let os_index = child.os_index().and_then(|os_index| u32::try_from(os_index).ok());
            let child_id = match (child.object_type(), os_index) {
                (ObjectType::PU, Some(pu)) => self.builder.pu(id, PuId(pu)),
                (ObjectType::Package, _) => self.builder.object(id, ObjectKind::Package, os_index),
                (ObjectType::Die, _) => self.builder.object(id, ObjectKind::Die, os_index),
                (ObjectType::Core, _) => self.builder.object(id, ObjectKind::Core, os_index),
                _ => match cache(child) {
                    Some(cache) => self.builder.cache(id, cache),
                    None => self.builder.object(id, ObjectKind::Group, os_index),
                },
            };
            self.children(child, child_id);
        }
    }

    /// Collects the NUMA nodes below `object`, through memory-side caches.
    fn memory_children(&mut self, object: &TopologyObject, attached_to: ObjectId) {
        for child in object.memory_children() {
            self.nodes.extend(nodes::node(child, attached_to));
            self.memory_children(child, attached_to);
        }
    }
}

/// An object's cache details, if it is a cache.
fn cache(object: &TopologyObject) -> Option<Cache> {
    let Some(ObjectAttributes::Cache(attributes)) = object.attributes() else {
        return None;
    };
    Some(Cache {
        level: u32::try_from(attributes.depth()).expect("hwloc knows five levels of caches"),
        cache_type: match attributes.cache_type() {
            HwlocCacheType::Data => CacheType::Data,
            HwlocCacheType::Instruction => CacheType::Instruction,
            _ => CacheType::Unified,
        },
        size: attributes.size().map(u64::from),
        line_size: attributes.line_size().and_then(|size| u32::try_from(size.get()).ok()),
        ways: match attributes.associativity() {
            CacheAssociativity::Ways(ways) => u32::try_from(ways.get()).ok(),
            _ => None,
        },
    })
}

/// The latency matrix between NUMA nodes, rows and columns by operating-system index. If hwloc has several, the first
/// is the firmware's.
fn distances(machine: &hwlocality::Topology, source: &Source) -> Result<Option<Distances>, ReadError> {
    let matrices = machine
        .distances_with_type(Some(DistancesKind::MEANS_LATENCY), ObjectType::NUMANode)
        .map_err(|error| hwloc(source, &error))?;
    let Some(matrix) = matrices.first() else {
        return Ok(None);
    };
    let size = matrix.num_objects();
    let mut rows: Vec<(NodeId, usize)> = matrix
        .objects()
        .enumerate()
        .filter_map(|(row, object)| {
            let node = u32::try_from(object?.os_index()?).ok()?;
            Some((NodeId(node), row))
        })
        .collect();
    rows.sort_unstable();
    let values = matrix.distances();
    Ok(Some(Distances {
        nodes: rows.iter().map(|&(node, _)| node).collect(),
        values: rows
            .iter()
            .map(|&(_, row)| rows.iter().map(|&(_, column)| values[row * size + column]).collect())
            .collect(),
    }))
}

/// The kinds of cores. Empty if all cores are alike. hwloc also reports one kind if a machine has one frequency for
/// all.
fn core_kinds(machine: &hwlocality::Topology) -> Vec<CoreKind> {
    let Ok(kinds) = machine.cpu_kinds() else {
        return vec![];
    };
    if kinds.len() < 2 {
        return vec![];
    }
    kinds
        .map(|kind| CoreKind {
            pus: kind.cpuset.iter_set().map(|pu| PuId(index(pu))).collect(),
            efficiency: kind
                .efficiency
                .map(|class| u32::try_from(class).expect("hwloc counts classes in an int")),
            info: kind
                .infos
                .iter()
                .map(|info| {
                    (
                        info.name().to_string_lossy().into_owned(),
                        info.value().to_string_lossy().into_owned(),
                    )
                })
                .collect(),
        })
        .collect()
}

/// A bit's position as the kernel's number.
fn index(bit: hwlocality::bitmap::BitmapIndex) -> u32 {
    u32::try_from(usize::from(bit)).expect("hwloc counts in 31 bits")
}

fn hwloc(source: &Source, error: &dyn fmt::Display) -> ReadError {
    ReadError::Hwloc {
        what: source.to_string(),
        why: error.to_string(),
    }
}
