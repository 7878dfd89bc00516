//! The devices of a machine, through hwloc: PCI devices that it considers important (GPUs, network cards, disks), with
//! the operating system's names, and devices without a PCI bus.
//!
//! A device is near the PUs of the object that hwloc attaches it to. If the firmware does not report a device's place,
//! hwloc attaches it to the machine. On a machine with several NUMA nodes the place of such a device is unknown.

use super::{ReadError, Source, environment, hwloc, index, loader};
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::{OSDeviceType, ObjectType};
use hwlocality::topology::builder::TypeFilter;
use pinfold_core::{Device, DeviceKind, PciAddress, PuId, PuSet};

/// Reads the devices. The devices of a description are read in a separate process, like its topology. Like `read`, this
/// changes the environment during the call.
///
/// # Errors
///
/// The errors of `read`.
pub fn devices(source: &Source) -> Result<Vec<Device>, ReadError> {
    let machine = environment::loading(source, || {
        let loader = loader(source)?;
        let loader = loader
            .with_io_type_filter(TypeFilter::KeepImportant)
            .map_err(|error| hwloc(source, &error))?;
        loader.build().map_err(|error| hwloc(source, &error))
    })?;
    if *source == Source::Live && !machine.is_this_system() {
        return Err(ReadError::AnotherMachine);
    }
    let has_one_node = machine.objects_with_type(ObjectType::NUMANode).len() <= 1;
    let on_buses = machine.pci_devices();
    let others = machine.os_devices().filter(|device| {
        let mut above = device.ancestors();
        above.all(|object| object.object_type() != ObjectType::PCIDevice)
    });
    let mut devices: Vec<Device> = on_buses
        .chain(others)
        .map(|object| device(object, has_one_node))
        .collect();
    devices.sort_by(|one, other| {
        (one.pci.is_none(), one.pci, &one.names).cmp(&(other.pci.is_none(), other.pci, &other.names))
    });
    Ok(devices)
}

fn device(object: &TopologyObject, has_one_node: bool) -> Device {
    let (pci, vendor, class) = match object.attributes() {
        Some(ObjectAttributes::PCIDevice(pci)) => {
            let address = PciAddress {
                domain: u32::from(pci.domain()),
                bus: pci.bus_id(),
                device: pci.bus_device(),
                function: pci.function(),
            };
            // hwloc uses zero for a vendor that a description does not name.
            let vendor = Some(pci.vendor_id()).filter(|&vendor| vendor != 0);
            (Some(address), vendor, kind_of_class(pci.class_id()))
        }
        _ => (None, None, None),
    };
    let mut names = vec![];
    let mut used_as = None;
    named(object, &mut names, &mut used_as);
    names.sort();
    names.dedup();
    let near = object.first_non_io_ancestor();
    let near = near.filter(|near| has_one_node || near.object_type() != ObjectType::Machine);
    let pus = near.and_then(TopologyObject::cpuset);
    Device {
        kind: class.or(used_as).unwrap_or(DeviceKind::Other),
        pci,
        vendor,
        names,
        pus: pus.map(|pus| pus.iter_set().map(|pu| PuId(index(pu))).collect::<PuSet>()),
    }
}

/// Collects the operating system's names for an object and the objects below it, and their kind.
fn named(object: &TopologyObject, names: &mut Vec<String>, used_as: &mut Option<DeviceKind>) {
    if let Some(ObjectAttributes::OSDevice(device)) = object.attributes() {
        names.extend(object.name().map(|name| name.to_string_lossy().into_owned()));
        *used_as = used_as.or(kind_of_use(device.device_type()));
    }
    for child in object.io_children() {
        // Other devices below a bridge have separate names.
        if child.object_type() == ObjectType::OSDevice {
            named(child, names, used_as);
        }
    }
}

/// PCI's base classes (PCI Code and ID Assignment Specification, section 1).
fn kind_of_class(class: u16) -> Option<DeviceKind> {
    match class >> 8 {
        0x01 => Some(DeviceKind::Storage),
        0x02 => Some(DeviceKind::Network),
        0x03 => Some(DeviceKind::Gpu),
        _ => None,
    }
}

fn kind_of_use(used_as: OSDeviceType) -> Option<DeviceKind> {
    match used_as {
        OSDeviceType::Storage => Some(DeviceKind::Storage),
        OSDeviceType::GPU | OSDeviceType::CoProcessor => Some(DeviceKind::Gpu),
        OSDeviceType::Network | OSDeviceType::OpenFabrics => Some(DeviceKind::Network),
        _ => None,
    }
}
