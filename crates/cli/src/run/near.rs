//! `--near`: the CPUs and the memory that are near devices.

use anyhow::{Context, Result, bail};
use pinfold_core::memory::nodes_of_pus;
use pinfold_core::{Device, DeviceName, NodeId, PageMapping, PuSet, Topology};

/// What is near some devices.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Near {
    /// The devices, as the user named them.
    pub(super) devices: String,
    /// The machine with these PUs allowed only.
    pub(super) topology: Topology,
    /// Whether these are all that were allowed before.
    pub(super) is_all: bool,
    /// Where pages go, unless the user says so: to the only node that is near, of several. Where several are near, they
    /// go to the node of the thread that touches them first.
    pub(super) pages: Option<PageMapping>,
    /// What was found, for the user.
    pub(super) note: String,
}

/// Restricts a machine to the PUs that are near any of these devices.
pub(super) fn near(topology: Topology, devices: &[Device], names: &[DeviceName]) -> Result<Near> {
    let mut pus = PuSet::new();
    for name in names {
        let Some(device) = name.find(devices) else {
            bail!("--near {name}: this machine has no such device; {}", known(devices));
        };
        let Some(near) = &device.pus else {
            bail!(
                "--near {name}: the firmware does not say which CPUs are near it (its numa_node is -1); name the NUMA node \
                 yourself, by --cpunodebind NODE --preferred NODE"
            );
        };
        pus.extend(near.iter());
    }
    let shown: Vec<String> = names.iter().map(ToString::to_string).collect();
    let shown = shown.join(", ");
    let allowed = topology.allowed_pus().clone();
    let topology = topology.restricted_to(&pus).with_context(|| {
        format!("--near {shown}: the CPUs {pus} are near, and of these none may be used ({allowed} may)")
    })?;
    let nodes: Vec<NodeId> = nodes_of_pus(&topology, topology.allowed_pus().iter())
        .iter()
        .filter(|node| topology.allowed_nodes().contains(node))
        .collect();
    let pages = match nodes[..] {
        [only] if topology.nodes().len() > 1 => Some(PageMapping::Preferred(only)),
        _ => None,
    };
    let where_nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    Ok(Near {
        note: format!(
            "Near {shown} are the CPUs {} and the memory of node {}.",
            topology.allowed_pus(),
            where_nodes.join(", ")
        ),
        devices: shown,
        is_all: *topology.allowed_pus() == allowed,
        pages,
        topology,
    })
}

/// The devices that can be named.
fn known(devices: &[Device]) -> String {
    if devices.is_empty() {
        return "no devices of it are known".to_owned();
    }
    let names = devices.iter().flat_map(|device| DeviceName::of(device, devices));
    let all: Vec<String> = names.map(|name| name.to_string()).collect();
    format!("there are {} (`pinfold topo` shows them)", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{DeviceKind, NumaNode, ObjectKind, PuId, TopologyBuilder};

    /// Two packages with a node of two PUs each.
    fn machine() -> Topology {
        let mut builder = TopologyBuilder::new("two nodes");
        for node in 0..2 {
            let package = builder.object(builder.root(), ObjectKind::Package, Some(node));
            for pu in [2 * node, 2 * node + 1] {
                let core = builder.object(package, ObjectKind::Core, Some(pu));
                builder.pu(core, PuId(pu));
            }
            builder.node(NumaNode {
                id: NodeId(node),
                attached_to: package,
                pus: [PuId(2 * node), PuId(2 * node + 1)].into_iter().collect(),
                memory: None,
                subtype: None,
            });
        }
        builder.build_all().unwrap()
    }

    fn devices() -> Vec<Device> {
        let device = |kind, address: &str, name: &str, pus: Option<&str>| Device {
            kind,
            pci: Some(address.parse().unwrap()),
            vendor: Some(0x10de),
            names: vec![name.to_owned()],
            pus: pus.map(|pus| pus.parse().unwrap()),
        };
        vec![
            device(DeviceKind::Network, "0000:17:00.0", "eth0", Some("0-1")),
            device(DeviceKind::Gpu, "0000:65:00.0", "card0", Some("2-3")),
            device(DeviceKind::Storage, "0000:e3:00.0", "nvme0n1", None),
        ]
    }

    fn found(names: &[&str]) -> Result<Near> {
        let names: Vec<DeviceName> = names.iter().map(|name| name.parse().unwrap()).collect();
        near(machine(), &devices(), &names)
    }

    #[test]
    fn threads_and_pages_belong_to_the_node_of_a_device() {
        let near = found(&["cuda:0"]).unwrap();
        assert_eq!(near.topology.allowed_pus().to_string(), "2-3");
        assert!(!near.is_all);
        assert_eq!(near.pages, Some(PageMapping::Preferred(NodeId(1))));
        assert_eq!(near.note, "Near cuda:0 are the CPUs 2-3 and the memory of node 1.");
    }

    #[test]
    fn the_cpus_near_any_of_several_devices_are_used() {
        let near = found(&["cuda:0", "net:eth0"]).unwrap();
        assert_eq!(near.topology.allowed_pus().to_string(), "0-3");
        assert!(near.is_all);
        assert_eq!(near.pages, None);
    }

    #[test]
    fn what_is_not_there_or_not_known_is_refused_with_the_remedy() {
        let said = |names: &[&str]| found(names).unwrap_err().to_string();
        assert_eq!(
            said(&["net:eth1"]),
            "--near net:eth1: this machine has no such device; there are net:eth0, pci:0000:17:00.0, cuda:0, pci:0000:65:00.0, \
             block:nvme0n1, pci:0000:e3:00.0 (`pinfold topo` shows them)"
        );
        assert!(said(&["block:nvme0n1"]).contains("by --cpunodebind NODE --preferred NODE"));
        let bound = machine().restricted_to(&"0-1".parse().unwrap()).unwrap();
        let error = near(bound, &devices(), &["cuda:0".parse().unwrap()]).unwrap_err();
        assert!(
            error.to_string().contains("of these none may be used (0-1 may)"),
            "{error}"
        );
    }
}
