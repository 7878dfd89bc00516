//! Topologies of real machines, of synthetic ones and of small invented trees, read through hwloc.
//!
//! The expectations of the captured machines were taken from `lstopo` of hwloc 2.9 on the same files, with
//! `HWLOC_COMPONENTS=linux,stop` for the copies of `/sys`, so that this machine does not mix in.

use pinfold_core::memory::{main_memory, memory_nodes};
use pinfold_core::placement::NamedPlacement;
use pinfold_core::{Device, DeviceKind, MemoryKind, NodeId, NumaNode, ObjectId, ObjectKind, PuId, PuSet, Topology};
use pinfold_linux::topology::{EXAMPLE, ReadError, Source, devices, read};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The expected topology of a captured machine.
struct Expected {
    file: &'static str,
    name: &'static str,
    packages: usize,
    nodes: &'static [u32],
    domains: usize,
    cores: usize,
    pus: &'static str,
    /// The usable PUs and nodes, if these are not all.
    allowed: Option<(&'static str, &'static [u32])>,
    /// The first row of the distances.
    distances: Option<&'static [u64]>,
    core_kinds: &'static [&'static str],
}

const PLAIN: Expected = Expected {
    file: "",
    name: "",
    packages: 1,
    nodes: &[0],
    domains: 1,
    cores: 1,
    pus: "",
    allowed: None,
    distances: None,
    core_kinds: &[],
};

const COPIES: [Expected; 12] = [
    Expected {
        file: "128arm-2pa2n8cluster4co",
        name: "128arm-2pa2n8cluster4co",
        packages: 2,
        nodes: &[0, 1, 2, 3],
        domains: 4,
        cores: 128,
        pus: "0-127",
        distances: Some(&[10, 16, 32, 33]),
        ..PLAIN
    },
    Expected {
        file: "16em64t-4s2c2t-offlines",
        name: "Intel Xeon 2.60GHz",
        packages: 4,
        domains: 4,
        cores: 7,
        pus: "0-1,3-4,6-12,15",
        ..PLAIN
    },
    Expected {
        file: "20em64t-hybrid-1p6c2t+2ca4co1t",
        name: "13th Gen Intel Core i7-1370P",
        cores: 14,
        pus: "0-19",
        core_kinds: &["12-19", "0-11"],
        ..PLAIN
    },
    Expected {
        file: "256ppc-8n8s4t",
        name: "POWER7 (architected)",
        packages: 64,
        nodes: &[0, 1, 4, 5, 8, 9, 12, 13],
        domains: 64,
        cores: 64,
        pus: "0-255",
        distances: Some(&[10, 20, 40, 40, 40, 40, 40, 40]),
        ..PLAIN
    },
    Expected {
        file: "32amd64-4s2n4c-cgroup2",
        name: "AMD Opteron 6134",
        packages: 4,
        nodes: &[0, 1, 2, 3, 4, 5, 6, 7],
        domains: 8,
        cores: 32,
        pus: "0-31",
        allowed: Some(("0-5", &[0, 1, 2, 3, 4, 5])),
        distances: Some(&[10, 16, 16, 22, 16, 22, 16, 22]),
        ..PLAIN
    },
    Expected {
        file: "48amd64-4pa2n6c-sparse",
        name: "AMD Engineering Sample",
        packages: 4,
        nodes: &[0, 1, 2, 33, 34, 45, 72, 73],
        domains: 8,
        cores: 48,
        pus: "0-47",
        distances: Some(&[10, 16, 16, 22, 16, 22, 16, 22]),
        ..PLAIN
    },
    Expected {
        file: "64amd64-4s2n4ca2co",
        name: "AMD Opteron 6276",
        packages: 4,
        nodes: &[0, 1, 2, 3, 4, 5, 6, 7],
        domains: 8,
        cores: 64,
        pus: "0-63",
        distances: Some(&[10, 16, 16, 22, 16, 22, 16, 22]),
        ..PLAIN
    },
    Expected {
        file: "8em64t-2s2ca2c",
        name: "Intel Xeon E5345",
        packages: 2,
        domains: 4,
        cores: 8,
        pus: "0-7",
        ..PLAIN
    },
    Expected {
        file: "96em64t-4no4pa3ca2co",
        name: "Genuine Intel",
        packages: 16,
        nodes: &[0, 1, 2, 3],
        domains: 16,
        cores: 96,
        pus: "0-95",
        distances: Some(&[10, 26, 26, 26]),
        ..PLAIN
    },
    Expected {
        file: "memorysidecaches",
        name: "Intel Xeon Gold 6230",
        packages: 2,
        nodes: &[0, 1, 2, 3],
        domains: 2,
        cores: 40,
        pus: "0-79",
        // hwloc lists this machine's nodes as 0, 2, 1, 3.
        distances: Some(&[10, 21, 11, 21]),
        ..PLAIN
    },
    Expected {
        file: "nvidiagpunumanodes",
        name: "POWER9",
        packages: 2,
        nodes: &[0, 8],
        domains: 4,
        cores: 8,
        pus: "0-15,88-103",
        distances: Some(&[10, 40]),
        ..PLAIN
    },
    Expected {
        file: "offline-cpu0-node0",
        name: "Intel Xeon E5-2680 v3",
        packages: 2,
        nodes: &[1],
        domains: 2,
        cores: 17,
        pus: "4-20",
        ..PLAIN
    },
];

const XML: [Expected; 8] = [
    Expected {
        file: "AMD-19h-Zen3-2xEpyc-7763",
        name: "AMD EPYC 7763",
        packages: 2,
        domains: 16,
        cores: 128,
        pus: "0-127",
        ..PLAIN
    },
    Expected {
        file: "AMD-19h-Zen4-2xEpyc-9654",
        name: "AMD EPYC 9654",
        packages: 2,
        domains: 24,
        cores: 192,
        pus: "0-383",
        ..PLAIN
    },
    Expected {
        file: "AMD-K10-MagnyCours-2xOpteron-6164HE",
        name: "AMD Opteron 6164 HE",
        packages: 2,
        domains: 4,
        cores: 24,
        pus: "0-23",
        ..PLAIN
    },
    Expected {
        file: "Intel-Broadwell-2xXeon-E5-2650Lv4",
        name: "Intel Xeon E5-2650L v4",
        packages: 2,
        domains: 2,
        cores: 28,
        pus: "0-55",
        ..PLAIN
    },
    Expected {
        file: "Intel-Core-2xXeon-E5345",
        name: "Intel Xeon E5345",
        packages: 2,
        domains: 4,
        cores: 8,
        pus: "0-7",
        ..PLAIN
    },
    Expected {
        file: "Intel-Haswell-2xXeon-E5-2680v3",
        name: "Intel Xeon E5-2680 v3",
        packages: 2,
        domains: 4,
        cores: 24,
        pus: "0-23",
        ..PLAIN
    },
    Expected {
        file: "Intel-SapphireRapids-2xXeonMax9460",
        name: "Intel Xeon Max 9460",
        packages: 2,
        domains: 2,
        cores: 80,
        pus: "0-159",
        ..PLAIN
    },
    Expected {
        file: "Intel-Skylake-2xXeon6140",
        name: "Intel Xeon Gold 6140",
        packages: 2,
        domains: 2,
        cores: 36,
        pus: "0-71",
        ..PLAIN
    },
];

/// The folder of the captured machines, if it exists.
fn captures() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/topologies");
    if folder.is_dir() {
        return Some(folder);
    }
    pinfold_testing::skip(format_args!("no captured machines at {}", folder.display()));
    None
}

/// A folder for the thousands of small files of a copy, in memory if there is such a file system.
fn temporary_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Unpacks a copy of a machine. Returns its root.
fn unpack(archive: &Path, into: &Path) -> Option<PathBuf> {
    let status = Command::new("tar")
        .arg("-xjf")
        .arg(archive)
        .arg("-C")
        .arg(into)
        .status();
    if !status.is_ok_and(|status| status.success()) {
        pinfold_testing::skip(format_args!("cannot unpack {}; needs tar and bzip2", archive.display()));
        return None;
    }
    let root = fs::read_dir(into).unwrap().next().unwrap().unwrap();
    Some(root.path())
}

fn node_ids(nodes: &[NumaNode]) -> Vec<u32> {
    nodes.iter().map(|node| node.id.0).collect()
}

fn assert_as_expected(topology: &Topology, expected: &Expected) {
    let file = expected.file;
    let count = |kind| topology.objects_of(kind).count();
    assert_eq!(topology.name(), expected.name, "name of {file}");
    assert_eq!(count(ObjectKind::Package), expected.packages, "packages of {file}");
    assert_eq!(node_ids(topology.nodes()), expected.nodes, "nodes of {file}");
    assert_eq!(topology.llc_domains().len(), expected.domains, "LLC domains of {file}");
    assert_eq!(count(ObjectKind::Core), expected.cores, "cores of {file}");
    let pus = &topology.object(topology.root()).pus;
    assert_eq!(pus.to_string(), expected.pus, "PUs of {file}");
    assert_eq!(count(ObjectKind::Pu), pus.len(), "PU objects of {file}");

    let (allowed_pus, allowed_nodes) = expected.allowed.unwrap_or((expected.pus, expected.nodes));
    assert_eq!(topology.allowed_pus().to_string(), allowed_pus, "allowed PUs of {file}");
    let allowed: Vec<u32> = topology.allowed_nodes().iter().map(|node| node.0).collect();
    assert_eq!(allowed, allowed_nodes, "allowed nodes of {file}");

    let distances = topology.distances();
    assert_eq!(
        distances.map(|distances| distances.values[0].as_slice()),
        expected.distances,
        "distances of {file}"
    );
    if let Some(distances) = distances {
        let ids: Vec<NodeId> = topology.nodes().iter().map(|node| node.id).collect();
        assert_eq!(distances.nodes, ids, "rows of the distances of {file}");
    }
    let kinds: Vec<String> = topology.core_kinds().iter().map(|kind| kind.pus.to_string()).collect();
    assert_eq!(kinds, expected.core_kinds, "core kinds of {file}");
}

#[test]
fn every_copied_machine_is_read_as_lstopo_reads_it() {
    let Some(folder) = captures() else { return };
    for expected in &COPIES {
        let temporary = temporary_folder();
        let archive = folder.join(format!("sysfs/{}.tar.bz2", expected.file));
        let Some(root) = unpack(&archive, temporary.path()) else {
            return;
        };
        let topology = read(&Source::FsRoot(root)).unwrap();
        assert_as_expected(&topology, expected);
        assert_consistent(&topology);
    }
}

#[test]
fn the_gpus_of_a_copied_machine_are_near_the_node_of_their_bus() {
    let Some(folder) = captures() else { return };
    let temporary = temporary_folder();
    let archive = folder.join("sysfs/nvidiagpunumanodes.tar.bz2");
    let Some(root) = unpack(&archive, temporary.path()) else {
        return;
    };
    let devices = devices(&Source::FsRoot(root)).unwrap();
    let near = |device: &Device| {
        let address = device.pci.map(|address| address.to_string());
        (address, device.kind, device.pus.as_ref().map(PuSet::to_string))
    };
    let gpu = |address: &str, pus: &str| (Some(address.to_owned()), DeviceKind::Gpu, Some(pus.to_owned()));
    assert_eq!(
        devices.iter().map(near).collect::<Vec<_>>(),
        [
            gpu("0004:05:00.0", "0-15"),
            gpu("0004:06:00.0", "0-15"),
            gpu("0006:00:00.0", "0-15"),
            gpu("0007:00:00.0", "88-103"),
            gpu("0035:04:00.0", "88-103"),
            gpu("0035:05:00.0", "88-103"),
        ]
    );
    // The copy does not name the vendors.
    assert!(devices.iter().all(|device| device.vendor.is_none()));
}

#[test]
fn a_synthetic_machine_has_no_devices() {
    assert_eq!(devices(&Source::Synthetic("package:2 pu:2".to_owned())).unwrap(), []);
}

#[test]
fn every_xml_file_is_read_as_lstopo_reads_it() {
    let Some(folder) = captures() else { return };
    for expected in &XML {
        let topology = read(&Source::Xml(folder.join(format!("xml/{}.xml", expected.file)))).unwrap();
        assert_as_expected(&topology, expected);
        assert_consistent(&topology);
        // These files were made from CPUID dumps, which have no memory sizes.
        assert_eq!(topology.nodes()[0].memory, None, "memory of {}", expected.file);
    }
}

#[test]
fn reading_a_copy_leaves_no_trace_in_the_environment() {
    let tree = FakeTree::new();
    read(&Source::FsRoot(tree.root())).unwrap();
    // Loads of copies wait for each other. This load of the real machine fails if a copy's variable is still set.
    assert!(read(&Source::Live).is_ok());
}

/// An invented `/sys`: two packages of two CPUs each, and these nodes.
struct FakeTree(tempfile::TempDir);

impl FakeTree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.write("sys/devices/system/cpu/online", "0-3");
        tree.write("sys/devices/system/cpu/possible", "0-3");
        for cpu in 0..4 {
            let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            let package = cpu / 2;
            tree.write(&format!("{topology}/thread_siblings"), &format!("{:x}", 1 << cpu));
            tree.write(
                &format!("{topology}/core_siblings"),
                &format!("{:x}", 3 << (2 * package)),
            );
            tree.write(&format!("{topology}/physical_package_id"), &package.to_string());
            tree.write(&format!("{topology}/core_id"), &cpu.to_string());
        }
        tree
    }

    /// Adds nodes, each with its CPUs as a mask and its memory in KiB.
    fn with_nodes(self, nodes: &[(u32, u32)]) -> Self {
        let last = nodes.len() - 1;
        self.write("sys/devices/system/node/online", &format!("0-{last}"));
        for (id, (mask, memory)) in nodes.iter().enumerate() {
            let node = format!("sys/devices/system/node/node{id}");
            self.write(&format!("{node}/cpumap"), &format!("{mask:08x}"));
            self.write(
                &format!("{node}/meminfo"),
                &format!("Node {id} MemTotal:       {memory} kB"),
            );
        }
        self
    }

    fn with_distances(self, rows: &[&str]) -> Self {
        for (id, row) in rows.iter().enumerate() {
            self.write(&format!("sys/devices/system/node/node{id}/distance"), row);
        }
        self
    }

    fn root(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn read(&self) -> Topology {
        read(&Source::FsRoot(self.root())).unwrap()
    }
}

#[test]
fn a_node_without_memory_has_none_and_is_not_unknown() {
    let topology = FakeTree::new().with_nodes(&[(0b0011, 1 << 20), (0b1100, 0)]).read();
    let memory: Vec<Option<u64>> = topology.nodes().iter().map(|node| node.memory).collect();
    assert_eq!(memory, [Some(1 << 30), Some(0)]);
}

#[test]
fn a_node_without_cpus_is_beside_the_nearest_node_and_has_none_of_its_pus() {
    let topology = FakeTree::new()
        .with_nodes(&[(0b0011, 1 << 20), (0b1100, 1 << 20), (0, 1 << 19)])
        .with_distances(&["10 21 13", "21 10 23", "13 23 10"])
        .read();
    let node = &topology.nodes()[2];
    assert_eq!(node.pus, PuSet::new());
    assert_eq!(node.attached_to, topology.nodes()[0].attached_to);
    assert_eq!(topology.nodes()[0].pus.to_string(), "0-1");
    assert_consistent(&topology);
}

#[test]
fn nodes_that_cut_across_packages_have_the_cpus_that_the_kernel_lists() {
    let topology = FakeTree::new()
        .with_nodes(&[(0b0101, 1 << 20), (0b1010, 1 << 20)])
        .read();
    let pus: Vec<String> = topology.nodes().iter().map(|node| node.pus.to_string()).collect();
    assert_eq!(pus, ["0,2", "1,3"]);
    assert!(topology.nodes().iter().all(|node| topology.is_cut(node)));
    assert_consistent(&topology);
}

#[test]
fn memory_without_cpus_is_named_by_the_kernels_memory_tier() {
    let tree = FakeTree::new().with_nodes(&[(0b0011, 1 << 20), (0b1100, 1 << 20), (0, 1 << 19), (0, 1 << 19)]);
    tree.write("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0-2");
    tree.write("sys/devices/virtual/memory_tiering/memory_tier22/nodelist", "3");
    let topology = tree.read();
    let kinds: Vec<_> = topology.nodes().iter().map(NumaNode::kind).collect();
    assert_eq!(kinds, [None, None, Some(MemoryKind::Dram), Some(MemoryKind::Other)]);
    assert_eq!(main_memory(&topology).to_string(), "0-2");
}

#[test]
fn unknown_memory_without_cpus_is_not_main_memory() {
    let topology = FakeTree::new()
        .with_nodes(&[(0b0011, 1 << 20), (0b1100, 1 << 20), (0, 1 << 19)])
        .read();
    assert_eq!(main_memory(&topology).to_string(), "0-1");
    assert_eq!(memory_nodes(&topology).to_string(), "0-2");
}

#[test]
fn memory_with_less_than_half_of_the_bandwidth_is_not_main_memory() {
    let tree = FakeTree::new().with_nodes(&[(0b0011, 1 << 20), (0b1100, 1 << 20), (0, 1 << 19)]);
    tree.write("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0-2");
    for (node, initiator, bandwidth) in [(0, 0, 100_000), (1, 1, 100_000), (2, 0, 30_000)] {
        let initiators = format!("sys/devices/system/node/node{node}/access0/initiators");
        for direction in ["read", "write"] {
            tree.write(&format!("{initiators}/{direction}_bandwidth"), &bandwidth.to_string());
        }
        fs::create_dir(tree.root().join(&initiators).join(format!("node{initiator}"))).unwrap();
    }
    let topology = tree.read();
    assert_eq!(topology.nodes()[2].subtype.as_deref(), Some("low bandwidth"));
    assert_eq!(main_memory(&topology).to_string(), "0-1");
}

#[test]
fn a_node_without_cpus_and_neighbours_is_below_the_machine() {
    let topology = FakeTree::new()
        .with_nodes(&[(0b0011, 1 << 20), (0b1100, 1 << 20), (0, 1 << 19)])
        .read();
    let node = &topology.nodes()[2];
    assert_eq!(node.pus, PuSet::new());
    assert_eq!(node.attached_to, topology.root());
    assert_consistent(&topology);
}

#[test]
fn the_live_machine_allows_no_more_than_the_affinity_mask() {
    // A separate thread, so that the mask of the other tests stays.
    std::thread::spawn(|| {
        let topology = read(&Source::Live).unwrap();
        assert_consistent(&topology);
        let only = topology.allowed_pus().first().unwrap();
        let mut mask = nix::sched::CpuSet::new();
        mask.set(only.0 as usize).unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &mask).unwrap();
        let bound = read(&Source::Live).unwrap();
        assert_eq!(bound.allowed_pus().iter().collect::<Vec<PuId>>(), [only]);
        assert_eq!(bound.objects(), topology.objects());
    })
    .join()
    .unwrap();
}

#[test]
fn reading_the_live_machine_leaves_the_affinity_mask_alone() {
    let mask = || nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
    let before = mask();
    read(&Source::Live).unwrap();
    assert_eq!(mask(), before);
}

fn synthetic(description: &str) -> Topology {
    read(&Source::Synthetic(description.to_owned())).unwrap()
}

#[test]
fn a_synthetic_machine_has_the_shape_that_its_description_says() {
    let topology = synthetic("package:4 numa:2 l3:1 core:6 pu:1");
    let count = |kind| topology.objects_of(kind).count();
    assert_eq!(topology.name(), "package:4 numa:2 l3:1 core:6 pu:1");
    assert_eq!(count(ObjectKind::Package), 4);
    assert_eq!(topology.nodes().len(), 8);
    assert_eq!(topology.llc_domains().len(), 8);
    assert_eq!(count(ObjectKind::Core), 48);
    assert_eq!(topology.allowed_pus().to_string(), "0-47");
}

#[test]
fn several_nodes_may_be_attached_at_different_places() {
    let topology = synthetic("package:1 [numa] l3:4 [numa] core:2 pu:1");
    let places: Vec<ObjectKind> = topology
        .nodes()
        .iter()
        .map(|node| topology.object(node.attached_to).kind)
        .collect();
    let l3 = ObjectKind::Cache;
    assert_eq!(places, [l3, l3, l3, l3, ObjectKind::Package]);
}

#[test]
fn the_numbers_of_pus_are_the_described_ones() {
    let topology = synthetic("package:2 core:2 pu:2(indexes=0,4,2,6,1,5,3,7)");
    let packages: Vec<String> = topology
        .objects_of(ObjectKind::Package)
        .map(|(_, package)| package.pus.to_string())
        .collect();
    assert_eq!(packages, ["0,2,4,6", "1,3,5,7"]);
}

#[test]
fn a_machine_without_caches_has_its_packages_as_domains() {
    assert_eq!(synthetic("package:3 core:2 pu:1").llc_domains().len(), 3);
}

#[test]
fn a_missing_file_is_named_and_so_is_the_reason() {
    let error = read(&Source::Xml("/nowhere/machine.xml".into())).unwrap_err();
    assert!(matches!(error, ReadError::Unreadable { .. }), "{error}");
    assert!(error.to_string().contains("/nowhere/machine.xml"), "{error}");
}

#[test]
fn a_file_that_is_no_topology_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.xml");
    let truncated = r#"<?xml version="1.0"?><topology version="2.0"><object type="Machine">"#;
    for content in ["", "hello", "<html></html>", truncated, "<topology version=\"2.0\"/>"] {
        fs::write(&path, content).unwrap();
        let error = read(&Source::Xml(path.clone())).unwrap_err();
        assert!(matches!(error, ReadError::NotXml { .. }), "{content}: {error}");
        assert!(error.to_string().contains("machine.xml"), "{error}");
        assert!(error.to_string().contains("lstopo"), "{error}");
    }
}

#[test]
fn a_directory_without_sys_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let error = read(&Source::FsRoot(folder.path().to_owned())).unwrap_err();
    assert!(matches!(error, ReadError::NoSystem { .. }), "{error}");
    assert!(error.to_string().contains("sys/devices/system/cpu"), "{error}");
    assert!(error.to_string().contains("hwloc-gather-topology"), "{error}");
}

#[test]
fn an_archive_instead_of_a_directory_is_refused_with_the_command_to_unpack_it() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("machine.tar.bz2");
    fs::write(&archive, "").unwrap();
    let error = read(&Source::FsRoot(archive)).unwrap_err();
    assert!(matches!(error, ReadError::NotADirectory { .. }), "{error}");
    assert!(error.to_string().contains("tar -xf"), "{error}");
}

#[test]
fn a_bad_description_is_named_and_a_good_one_is_shown() {
    for description in ["", "foo", "package:2 foo:3", "package:0 pu:1", "a\0b"] {
        let error = read(&Source::Synthetic(description.to_owned())).unwrap_err();
        assert!(matches!(error, ReadError::NotSynthetic { .. }), "{error}");
        assert!(error.to_string().contains(description), "{error}");
        assert!(error.to_string().contains(EXAMPLE), "{error}");
    }
    synthetic(EXAMPLE);
}

/// Properties of every topology.
fn assert_consistent(topology: &Topology) {
    let all = &topology.object(topology.root()).pus;
    assert!(topology.allowed_pus().is_subset(all));
    for pu in all.iter() {
        let path = topology.path_to(pu);
        let last = topology.object(*path.last().unwrap());
        assert_eq!((last.kind, last.os_index), (ObjectKind::Pu, Some(pu.0)));
    }
    for (index, object) in topology.objects().iter().enumerate() {
        assert!(!object.pus.is_empty(), "an object without PUs");
        if object.kind != ObjectKind::Pu {
            let children = object.children.iter().map(|&child| &topology.object(child).pus);
            assert_partition(&object.pus, children);
        }
        for &child in &object.children {
            assert_eq!(topology.object(child).parent, Some(ObjectId(index)));
        }
    }
    let domains = topology.llc_domains();
    assert_partition(all, domains.iter().map(|&domain| &topology.object(domain).pus));
    let mut parse_nodes = PuSet::new();
    for node in topology.nodes() {
        assert!(node.pus.is_subset(&topology.object(node.attached_to).pus));
        for pu in node.pus.iter() {
            assert!(parse_nodes.insert(pu), "PU {pu} is in two nodes");
        }
    }
    assert_ranks_are_distinct(topology);
}

/// Each thread has a separate PU if there are enough.
fn assert_ranks_are_distinct(topology: &Topology) {
    let all = topology.allowed_pus().len();
    for name in ["compact", "scatter", "close", "spread", "packed", "distributed"] {
        let placement: NamedPlacement = name.parse().unwrap();
        for threads in [1, 2, 3, all / 2, all - 1, all].map(|threads| threads.clamp(1, all)) {
            let ranks = placement.pinning(topology, threads);
            let pus: PuSet = ranks.pus().iter().copied().collect();
            assert_eq!(pus.len(), threads, "{name} of {threads} threads on {}", topology.name());
        }
    }
}

/// `parts` are disjoint and together form `whole`.
fn assert_partition<'a>(whole: &PuSet, parts: impl Iterator<Item = &'a PuSet>) {
    let mut seen = PuSet::new();
    for pu in parts.flat_map(PuSet::iter) {
        assert!(seen.insert(pu), "PU {pu} is in two parts");
    }
    assert_eq!(&seen, whole);
}

/// A description of a machine, and its numbers of packages, nodes, cores and PUs.
fn description() -> impl Strategy<Value = (String, [usize; 4])> {
    let optional = |name: &'static str| prop_oneof![Just(None), (1usize..4).prop_map(move |count| Some((name, count)))];
    let levels = (optional("die"), optional("numa"), optional("l3"), optional("l2"));
    (1usize..4, levels, 1usize..4, 1usize..4).prop_map(|(packages, (die, numa, l3, l2), cores, pus)| {
        let mut levels = vec![format!("package:{packages}")];
        let mut number = packages;
        let mut nodes = 1;
        for (name, count) in [die, numa, l3, l2].into_iter().flatten() {
            levels.push(format!("{name}:{count}"));
            number *= count;
            if name == "numa" {
                nodes = number;
            }
        }
        levels.push(format!("core:{cores} pu:{pus}"));
        (
            levels.join(" "),
            [packages, nodes, number * cores, number * cores * pus],
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_synthetic_machine_is_consistent_and_complete((text, [packages, nodes, cores, pus]) in description()) {
        let topology = synthetic(&text);
        assert_consistent(&topology);
        prop_assert_eq!(topology.objects_of(ObjectKind::Package).count(), packages);
        prop_assert_eq!(topology.nodes().len(), nodes);
        prop_assert_eq!(topology.objects_of(ObjectKind::Core).count(), cores);
        prop_assert_eq!(topology.allowed_pus().len(), pus);
    }
}

/// Makes the kernel refuse `sched_getaffinity` for the calling thread, as a container's filter of system calls may.
fn refuse_affinity() {
    let [load, equal, leave] = [
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    ]
    .map(|code| u16::try_from(code).unwrap());
    let step = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    let mut filter = [
        step(load, 0, 0),
        // For this call, skip one instruction, to the last one.
        step(equal, 1, u32::try_from(libc::SYS_sched_getaffinity).unwrap()),
        step(leave, 0, libc::SECCOMP_RET_ALLOW),
        step(leave, 0, refused),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the kernel reads the program, which outlives the call, and keeps no pointer.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        ]
    };
    assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
}

#[test]
fn a_refused_affinity_mask_is_an_error_with_the_remedy() {
    let (done, result) = std::sync::mpsc::channel();
    // The filter applies only to this thread. hwloc would never return if it were called.
    std::thread::spawn(move || {
        refuse_affinity();
        done.send(read(&Source::Live).map(drop)).unwrap();
    });
    let error = result
        .recv_timeout(std::time::Duration::from_secs(60))
        .unwrap()
        .unwrap_err();
    assert!(error.to_string().contains("seccomp"), "{error}");
}
