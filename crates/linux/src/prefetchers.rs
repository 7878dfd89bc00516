//! The prefetchers of the machine's cores, read and set through the kernel's device for model-specific registers (MSR).
//!
//! | processors | register | bit that switches off: DCU-IP, DCU, L2 adjacent, L2 streamer |
//! |---|---|---|
//! | Intel Core and Xeon from Nehalem on | 0x1a4 | 3, 2, 1, 0 |
//! | AMD from Zen 4 on | 0xc0000108 | 1, 0, 5, 3 |
//!
//! Intel: "Disclosure of H/W prefetcher control on some Intel processors" (2014), and `MSR_MISC_FEATURE_CONTROL` or
//! `MSR_PREFETCH_CONTROL` in the tables of the Software Developer's Manual, volume 4. AMD: `PrefetchControl`
//! (`MSRC000_0108`) in the Processor Programming References of families 19h, models 10h on, and 1Ah.
//!
//! AMD's prefetchers differ. Each of the four is mapped to the one with the same function: L1 stride (by instruction)
//! for DCU-IP, L1 stream (the following lines) for DCU, L2 up/down (the line before or after) for L2 adjacent, L2
//! stream for L2 streamer. AMD's fifth, L1 region, is not changed.
//!
//! A processor is identified by its family and model. Atom, Xeon Phi and processors with two kinds of cores have other
//! registers or other bits, and are not supported. On Arm processors the kernel shows no such register.
//!
//! Limits: the register belongs to a core, so it is written once for each of the core's PUs, with the same value. The
//! behaviour of a hypervisor is not known: some accept the value and ignore it.

use crate::action::Action;
use pinfold_core::{Prefetcher, Prefetchers, PuId, PuSet, digits};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The kernel's description of the processor.
pub(crate) const CPUINFO: &str = "/proc/cpuinfo";

/// Intel's register.
const INTEL: u32 = 0x1a4;
/// AMD's register.
const AMD: u32 = 0xc000_0108;

/// Why the prefetchers cannot be read or set.
#[derive(Debug, thiserror::Error)]
pub enum PrefetcherError {
    /// The switches of this processor's prefetchers are not known.
    #[error("pinfold cannot switch the prefetchers of this processor ({0})")]
    UnknownProcessor(String),
    /// The device reports an error.
    #[error("{} cannot be {done}: {}", path.display(), remedy(error))]
    Device {
        /// The device's file.
        path: PathBuf,
        /// The operation.
        done: &'static str,
        /// The error.
        error: io::Error,
    },
}

fn remedy(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => format!("{error}; `modprobe msr` creates it, if the PU is online"),
        Some(libc::EACCES | libc::EPERM) => {
            format!("{error}; it needs root with CAP_SYS_RAWIO, on a kernel that is not locked down")
        }
        Some(libc::EIO) => format!("{error}; the processor or the hypervisor lacks this register"),
        _ => error.to_string(),
    }
}

/// The model-specific registers of the machine's PUs.
#[derive(Clone, Debug)]
pub struct Registers {
    devices: PathBuf,
}

impl Default for Registers {
    /// The running kernel's registers.
    fn default() -> Self {
        Self::new("/dev/cpu")
    }
}

impl Registers {
    /// The registers behind the devices in `devices`. `N/msr` is the device of PU N, with the eight bytes of a register
    /// at the register's number.
    pub fn new(devices: impl Into<PathBuf>) -> Self {
        Self {
            devices: devices.into(),
        }
    }

    /// A register's value.
    pub fn read(&self, pu: PuId, register: u32) -> Result<u64, PrefetcherError> {
        let path = self.path(pu);
        let mut bytes = [0; 8];
        File::open(&path)
            .and_then(|file| file.read_exact_at(&mut bytes, u64::from(register)))
            .map_err(|error| PrefetcherError::Device {
                path,
                done: "read",
                error,
            })?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Sets the value of a register.
    pub fn write(&self, pu: PuId, register: u32, value: u64) -> Result<(), PrefetcherError> {
        let path = self.path(pu);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.write_all_at(&value.to_le_bytes(), u64::from(register)))
            .map_err(|error| PrefetcherError::Device {
                path,
                done: "written",
                error,
            })
    }

    /// Checks that a register exists, and that its device opens for writing.
    fn may_write(&self, pu: PuId, register: u32) -> Result<(), PrefetcherError> {
        self.read(pu, register)?;
        let path = self.path(pu);
        match OpenOptions::new().write(true).open(&path) {
            Ok(_) => Ok(()),
            Err(error) => Err(PrefetcherError::Device {
                path,
                done: "written",
                error,
            }),
        }
    }

    fn path(&self, pu: PuId) -> PathBuf {
        self.devices.join(pu.to_string()).join("msr")
    }
}

/// The switches of a processor's four prefetchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// The register.
    pub register: u32,
    /// The bit of each prefetcher, in the order of `Prefetcher::ALL`.
    bits: [u32; 4],
}

impl Switches {
    /// The switches of the processor that `cpuinfo` (`/proc/cpuinfo`) describes.
    pub fn read(cpuinfo: &Path) -> Result<Self, PrefetcherError> {
        let text = fs::read_to_string(cpuinfo).map_err(|error| PrefetcherError::Device {
            path: cpuinfo.to_path_buf(),
            done: "read",
            error,
        })?;
        Self::parse(&text)
    }

    fn parse(cpuinfo: &str) -> Result<Self, PrefetcherError> {
        let field = |name: &str| {
            let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            fields
                .find(|(key, _)| key.trim() == name)
                .map(|(_, value)| value.trim())
        };
        // Only kernels for Arm report these.
        if let (Some(implementer), Some(part)) = (field("CPU implementer"), field("CPU part")) {
            return Err(PrefetcherError::UnknownProcessor(format!(
                "Arm's architecture, implementer {implementer}, part {part}; Intel's and AMD's can be switched"
            )));
        }
        let number = |name| field(name).and_then(digits::decimal::<u32>);
        let vendor = field("vendor_id").unwrap_or("of an unknown vendor");
        let intel = Self {
            register: INTEL,
            bits: [3, 2, 1, 0],
        };
        let amd = Self {
            register: AMD,
            bits: [1, 0, 5, 3],
        };
        match (vendor, number("cpu family"), number("model")) {
            ("GenuineIntel", Some(6), Some(model)) if INTEL_MODELS.contains(&model) => Ok(intel),
            ("AuthenticAMD", Some(0x19), Some(0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf))
            | ("AuthenticAMD", Some(0x1a), Some(_)) => Ok(amd),
            (_, family, model) => {
                let shown = |number: Option<u32>| number.map_or_else(|| "unknown".to_owned(), |n| format!("{n:#x}"));
                Err(PrefetcherError::UnknownProcessor(format!(
                    "{vendor}, family {}, model {}",
                    shown(family),
                    shown(model)
                )))
            }
        }
    }

    /// The bits of the register that are switches.
    pub fn mask(self) -> u64 {
        self.bits.iter().map(|bit| 1 << bit).sum()
    }

    /// The value of these bits for a setting.
    pub fn value(self, setting: Prefetchers) -> u64 {
        let switches = Prefetcher::ALL.into_iter().zip(self.bits);
        let off = switches.filter(|&(prefetcher, _)| !setting.enabled(prefetcher));
        off.map(|(_, bit)| 1 << bit).sum()
    }

    /// The setting of a register's value.
    pub fn setting(self, value: u64) -> Prefetchers {
        let switches = Prefetcher::ALL.into_iter().zip(self.bits);
        switches
            .filter(|&(_, bit)| value >> bit & 1 == 0)
            .map(|(prefetcher, _)| prefetcher)
            .collect()
    }

    /// The new value of a register with the value `now` for a setting.
    pub fn applied(self, now: u64, setting: Prefetchers) -> u64 {
        now & !self.mask() | self.value(setting)
    }
}

/// Why the prefetchers of these PUs cannot be set; `None` if they can. Nothing is written.
pub fn obstacle(pus: &PuSet) -> Option<PrefetcherError> {
    let first = pus.iter().next()?;
    let may = || {
        let register = Switches::read(Path::new(CPUINFO))?.register;
        Registers::default().may_write(first, register)
    };
    may().err()
}

/// The calls that apply a setting to these PUs.
pub fn calls(pus: &[PuId], setting: Prefetchers) -> Result<Vec<Action>, PrefetcherError> {
    let switches = Switches::read(Path::new(CPUINFO))?;
    let register = switches.register;
    let registers = Registers::default();
    pus.iter()
        .map(|&pu| {
            let now = registers.read(pu, register)?;
            let to = switches.applied(now, setting);
            Ok(Action::Register { pu, register, now, to })
        })
        .collect()
}

/// The models of Intel's family 6 that have the register with these four bits (Software Developer's Manual, volume 4,
/// with tables by CPUID signature).
const INTEL_MODELS: &[u32] = &[
    0x1a, 0x1e, 0x1f, 0x2e, // Nehalem
    0x25, 0x2c, 0x2f, // Westmere
    0x2a, 0x2d, // Sandy Bridge
    0x3a, 0x3e, // Ivy Bridge
    0x3c, 0x3f, 0x45, 0x46, // Haswell
    0x3d, 0x47, 0x4f, 0x56, // Broadwell
    0x4e, 0x5e, 0x55, // Skylake, with Cascade Lake and Cooper Lake
    0x8e, 0x9e, // Kaby Lake and Coffee Lake
    0xa5, 0xa6, // Comet Lake
    0x66, // Cannon Lake
    0x7d, 0x7e, 0x6a, 0x6c, // Ice Lake
    0x8c, 0x8d, // Tiger Lake
    0xa7, // Rocket Lake
    0x8f, // Sapphire Rapids
    0xcf, // Emerald Rapids
    0xad, 0xae, // Granite Rapids
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cpuinfo(vendor: &str, family: u32, model: u32) -> String {
        format!("processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: x\n")
    }

    fn switches(vendor: &str, family: u32, model: u32) -> Result<Switches, PrefetcherError> {
        Switches::parse(&cpuinfo(vendor, family, model))
    }

    #[test]
    fn on_intel_the_setting_read_as_a_binary_number_is_the_registers_value() {
        let switches = switches("GenuineIntel", 6, 0x55).unwrap();
        assert_eq!((switches.register, switches.mask()), (0x1a4, 0b1111));
        for value in 0..16 {
            let setting: Prefetchers = format!("{value:04b}").parse().unwrap();
            assert_eq!((switches.value(setting), switches.setting(value)), (value, setting));
            assert_eq!(switches.applied(0x126, setting), 0x120 | value);
        }
    }

    #[test]
    fn on_amd_the_bits_are_those_of_the_programming_reference() {
        let switches = switches("AuthenticAMD", 0x19, 0x11).unwrap();
        assert_eq!((switches.register, switches.mask()), (0xc000_0108, 0b10_1011));
        let off = |text: &str| switches.value(text.parse().unwrap());
        assert_eq!(
            [off("1000"), off("0100"), off("0010"), off("0001")],
            [1 << 1, 1, 1 << 5, 1 << 3]
        );
    }

    #[test]
    fn an_unknown_processor_is_named() {
        // Zen 3, an Atom, a processor with two kinds of cores, and no processor.
        for (vendor, family, model) in [
            ("AuthenticAMD", 0x19, 0x01),
            ("GenuineIntel", 6, 0x5c),
            ("GenuineIntel", 6, 0x97),
            ("Nobody", 1, 2),
        ] {
            let why = switches(vendor, family, model).unwrap_err().to_string();
            assert!(why.contains(vendor) && why.contains(&format!("{model:#x}")), "{why}");
        }
        assert!(Switches::parse("").is_err());
        // Neoverse N1.
        let arm =
            "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0c\n";
        let why = Switches::parse(arm).unwrap_err().to_string();
        assert!(why.contains("Arm") && why.contains("0xd0c"), "{why}");
    }

    #[test]
    fn a_register_is_eight_bytes_at_its_number() {
        let devices = tempfile::tempdir().unwrap();
        fs::create_dir(devices.path().join("3")).unwrap();
        fs::write(devices.path().join("3/msr"), [0xff; 0x200]).unwrap();
        let registers = Registers::new(devices.path());
        registers.write(PuId(3), 0x1a4, 0x1122_3344_5566_7788).unwrap();
        assert_eq!(registers.read(PuId(3), 0x1a4).unwrap(), 0x1122_3344_5566_7788);
        assert_eq!(registers.read(PuId(3), 0x1ac).unwrap(), u64::MAX);
        let bytes = fs::read(devices.path().join("3/msr")).unwrap();
        assert_eq!((bytes.len(), bytes[0x1a4], bytes[0x1a3]), (0x200, 0x88, 0xff));
    }

    #[test]
    fn a_device_that_is_not_there_is_named_with_the_remedy() {
        let why = Registers::new("/nowhere").read(PuId(7), 0x1a4).unwrap_err().to_string();
        assert!(why.contains("/nowhere/7/msr") && why.contains("modprobe msr"), "{why}");
    }

    proptest! {
        #[test]
        fn any_cpuinfo_is_read_without_a_panic(
            text in "((vendor_id|cpu family|model|CPU part|CPU implementer)[\t ]*:? ?[GenuiteIlAMD0-9x-]{0,14}\n?|[ -~\n]{0,20}){0,9}"
        ) {
            let _ = Switches::parse(&text);
        }
    }
}
