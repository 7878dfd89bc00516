//! Devices of a machine, such as GPUs, network cards and disks, and the PUs that are near them.
//!
//! They are not part of a [`crate::Topology`]: no policy needs them, and to find them takes longer than the rest.

use crate::{PuSet, digits};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The kind of a device, by its PCI class or by its use in the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A GPU, or another display controller.
    Gpu,
    /// A network card, InfiniBand among them.
    Network,
    /// A disk, or its controller.
    Storage,
    /// Any other.
    Other,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gpu => "GPU",
            Self::Network => "network",
            Self::Storage => "storage",
            Self::Other => "other",
        })
    }
}

/// The place of a device on the PCI buses, as `lspci -D` writes it: `0000:65:00.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PciAddress {
    /// The domain.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The device on the bus.
    pub device: u8,
    /// The function of the device.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

/// The text is not a PCI address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no PCI address; `lspci -D` writes them, such as 0000:65:00.0")]
pub struct NoPciAddress(String);

impl FromStr for PciAddress {
    type Err = NoPciAddress;

    /// A domain or function that is left out is 0.
    fn from_str(text: &str) -> Result<Self, NoPciAddress> {
        let parse = || {
            let (place, function) = text.rsplit_once('.').unwrap_or((text, "0"));
            let parts: Vec<&str> = place.split(':').collect();
            let (domain, bus, device) = match parts[..] {
                [domain, bus, device] => (domain, bus, device),
                [bus, device] => ("0", bus, device),
                _ => return None,
            };
            Some(Self {
                domain: digits::hexadecimal(domain)?,
                bus: digits::hexadecimal(bus)?,
                device: digits::hexadecimal(device).filter(|&device: &u8| device < 32)?,
                function: digits::hexadecimal(function).filter(|&function: &u8| function < 8)?,
            })
        };
        parse().ok_or_else(|| NoPciAddress(text.to_owned()))
    }
}

impl TryFrom<String> for PciAddress {
    type Error = NoPciAddress;

    fn try_from(text: String) -> Result<Self, NoPciAddress> {
        text.parse()
    }
}

impl From<PciAddress> for String {
    fn from(address: PciAddress) -> Self {
        address.to_string()
    }
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// What it is.
    pub kind: DeviceKind,
    /// Its PCI address; `None` for a device on another bus.
    pub pci: Option<PciAddress>,
    /// The number of its vendor, as PCI has it.
    pub vendor: Option<u16>,
    /// What the operating system calls it, such as `eth0` or `nvme0n1`.
    pub names: Vec<String>,
    /// The online PUs near it; `None` if the firmware does not list them.
    pub pus: Option<PuSet>,
}

/// Which device is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// The NVIDIA GPU with this number, in the order of PCI addresses.
    Cuda(usize),
    /// The AMD GPU with this number, in the order of PCI addresses.
    Rocm(usize),
    /// A network card by its interface.
    Network(String),
    /// A disk, or one of its partitions.
    Block(String),
    /// The device at this place.
    Pci(PciAddress),
}

/// A text names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDeviceName {
    /// It has another form.
    #[error("`{0}` names no device; write cuda:N, rocm:N, net:NAME, block:NAME or pci:ADDRESS")]
    Form(String),
    /// The address is wrong.
    #[error(transparent)]
    Address(#[from] NoPciAddress),
}

impl FromStr for DeviceName {
    type Err = NoDeviceName;

    /// `netdev` is numactl's word for `net`; a disk may be a path.
    fn from_str(text: &str) -> Result<Self, NoDeviceName> {
        let wrong = || NoDeviceName::Form(text.to_owned());
        let (kind, name) = text
            .split_once(':')
            .filter(|(_, name)| !name.is_empty())
            .ok_or_else(wrong)?;
        let number = || digits::decimal(name).ok_or_else(wrong);
        Ok(match kind {
            "cuda" => Self::Cuda(number()?),
            "rocm" => Self::Rocm(number()?),
            "net" | "netdev" => Self::Network(name.to_owned()),
            "block" => Self::Block(name.strip_prefix("/dev/").unwrap_or(name).to_owned()),
            "pci" => Self::Pci(name.parse()?),
            _ => return Err(wrong()),
        })
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Rocm(number) => write!(f, "rocm:{number}"),
            Self::Network(name) => write!(f, "net:{name}"),
            Self::Block(name) => write!(f, "block:{name}"),
            Self::Pci(address) => write!(f, "pci:{address}"),
        }
    }
}

/// PCI's numbers of vendors.
const NVIDIA: u16 = 0x10de;
const AMD: u16 = 0x1002;

impl DeviceName {
    /// All names of a device, which is one of `devices`.
    pub fn of(device: &Device, devices: &[Device]) -> Vec<Self> {
        let as_gpu: Option<fn(usize) -> Self> = match device.vendor {
            Some(NVIDIA) if device.kind == DeviceKind::Gpu => Some(Self::Cuda),
            Some(AMD) if device.kind == DeviceKind::Gpu => Some(Self::Rocm),
            _ => None,
        };
        let numbered = as_gpu.and_then(|name| {
            let mut all = (0..devices.len()).map(name);
            all.find(|name| name.find(devices) == Some(device))
        });
        let by_name: Option<fn(String) -> Self> = match device.kind {
            DeviceKind::Network => Some(Self::Network),
            DeviceKind::Storage => Some(Self::Block),
            DeviceKind::Gpu | DeviceKind::Other => None,
        };
        let named = by_name
            .into_iter()
            .flat_map(|name| device.names.iter().cloned().map(name));
        numbered
            .into_iter()
            .chain(named)
            .chain(device.pci.map(Self::Pci))
            .collect()
    }

    /// The device with this name, if there is one.
    pub fn find<'a>(&self, devices: &'a [Device]) -> Option<&'a Device> {
        let gpu = |vendor: u16, number: usize| {
            let is_meant = |device: &&Device| device.kind == DeviceKind::Gpu && device.vendor == Some(vendor);
            let mut gpus: Vec<&Device> = devices.iter().filter(is_meant).collect();
            gpus.sort_by_key(|device| device.pci);
            gpus.get(number).copied()
        };
        let named = |kind: DeviceKind, name: &str| {
            let is_meant = |device: &&Device| device.kind == kind && device.names.iter().any(|one| one == name);
            devices.iter().find(is_meant)
        };
        match self {
            Self::Cuda(number) => gpu(NVIDIA, *number),
            Self::Rocm(number) => gpu(AMD, *number),
            Self::Network(name) => named(DeviceKind::Network, name),
            Self::Block(name) => named(DeviceKind::Storage, name),
            Self::Pci(address) => devices.iter().find(|device| device.pci == Some(*address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(kind: DeviceKind, address: &str, vendor: u16, names: &[&str]) -> Device {
        Device {
            kind,
            pci: Some(address.parse().unwrap()),
            vendor: Some(vendor),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            pus: None,
        }
    }

    fn devices() -> Vec<Device> {
        vec![
            device(DeviceKind::Gpu, "0000:b3:00.0", NVIDIA, &["card1"]),
            device(DeviceKind::Gpu, "0000:03:00.0", 0x1a03, &["card0"]),
            device(DeviceKind::Gpu, "0000:65:00.0", NVIDIA, &[]),
            device(DeviceKind::Network, "0000:17:00.1", 0x15b3, &["ens1f1", "mlx5_1"]),
            device(DeviceKind::Storage, "0000:e3:00.0", 0x144d, &["nvme0n1"]),
        ]
    }

    fn found(name: &str) -> Option<String> {
        let name: DeviceName = name.parse().unwrap();
        let devices = devices();
        name.find(&devices)?.pci.map(|address| address.to_string())
    }

    #[test]
    fn gpus_are_counted_by_vendor_in_the_order_of_their_addresses() {
        assert_eq!(found("cuda:0").as_deref(), Some("0000:65:00.0"));
        assert_eq!(found("cuda:1").as_deref(), Some("0000:b3:00.0"));
        assert_eq!(found("cuda:2"), None);
        assert_eq!(found("rocm:0"), None);
    }

    #[test]
    fn a_device_is_found_by_each_of_its_names_and_by_numactls_words() {
        for name in [
            "net:ens1f1",
            "netdev:ens1f1",
            "net:mlx5_1",
            "pci:17:00.1",
            "pci:0000:17:00.1",
        ] {
            assert_eq!(found(name).as_deref(), Some("0000:17:00.1"), "{name}");
        }
        assert_eq!(found("block:/dev/nvme0n1"), found("pci:e3:00"));
        assert_eq!(found("block:ens1f1"), None);
    }

    #[test]
    fn what_names_no_device_is_refused_with_the_forms() {
        for text in [
            "",
            "cuda",
            "cuda:",
            "cuda:x",
            "cuda:-1",
            "gpu:0",
            "eth0",
            "pci:1",
            "pci:00:20.0",
            "pci:00:00.8",
        ] {
            let error = text.parse::<DeviceName>().unwrap_err().to_string();
            assert!(error.contains("write cuda:N") || error.contains("lspci -D"), "{error}");
        }
    }

    #[test]
    fn names_and_addresses_are_written_as_they_are_read() {
        for text in ["cuda:3", "rocm:0", "net:eth0", "block:sda", "pci:0001:65:1f.7"] {
            assert_eq!(text.parse::<DeviceName>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn every_name_of_a_device_finds_it() {
        let all = devices();
        let names = |place: usize| {
            DeviceName::of(&all[place], &all)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["cuda:1", "pci:0000:b3:00.0"]);
        assert_eq!(names(1), ["pci:0000:03:00.0"]);
        assert_eq!(names(3), ["net:ens1f1", "net:mlx5_1", "pci:0000:17:00.1"]);
        for device in &all {
            for name in DeviceName::of(device, &all) {
                assert_eq!(name.find(&all), Some(device), "{name}");
            }
        }
    }
}
