//! The events of this processor that report the addresses of loads and stores, from the kernel's description in
//! `/sys/bus/event_source/devices` (Documentation/ABI/testing/sysfs-bus-event_source-devices-events and -format).
//!
//! - Intel's processors (PEBS), and POWER's: a PMU whose `events` have `mem-loads` or `mem-stores`. On processors with
//!   two kinds of cores each kind has its own PMU. Since Sapphire Rapids loads are only sampled in a group whose leader
//!   counts `mem-loads-aux` (the kernel's arch/x86/events/intel/core.c, `intel_pmu_hw_config`).
//! - AMD's (IBS): the PMU `ibs_op`, which selects micro-operations, some of which are loads and stores. If `cnt_ctl`
//!   exists, it counts dispatched operations instead of cycles, so that all operations are equally likely (Drongowski,
//!   "Instruction-Based Sampling", 2007). Before Linux 6.2 it is available only for whole CPUs, and without `swfilt`
//!   (6.14) only for user space and kernel together (arch/x86/events/amd/ibs.c).
//!
//! Known limits: Intel's `mem-loads` counts the loads that the processor has chosen to time, so a load has less weight
//! than a store. Arm's statistical profiling extension (SPE) writes its own packets into an auxiliary buffer. They are
//! not decoded.

use crate::pfm::{empty_attributes, sys};
use pinfold_core::digits;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory below the root of `/sys`.
const DEVICES: &str = "bus/event_source/devices";

/// An event, resolved for the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Encoding {
    /// The PMU's number.
    pub(super) kind: u32,
    /// `config`, `config1` and `config2` of `perf_event_attr`.
    pub(super) config: [u64; 3],
}

impl Encoding {
    /// The attributes that count this event.
    pub(super) fn attributes(self) -> sys::perf_event_attr {
        let mut attributes = empty_attributes();
        attributes.type_ = self.kind;
        [
            attributes.config,
            attributes.__bindgen_anon_3.config1,
            attributes.__bindgen_anon_4.config2,
        ] = self.config;
        attributes
    }
}

/// The means to limit a PMU's samples to user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UserSpace {
    /// The exclusion bits of `perf_event_attr`.
    Exclusion,
    /// The exclusion bits, which only this variant of the event accepts.
    Filter(Encoding),
    /// They cannot be limited.
    Nothing,
}

/// An event whose samples have addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemoryEvent {
    /// The event in perf's notation.
    pub(super) name: String,
    pub(super) encoding: Encoding,
    /// The leader that its group needs.
    pub(super) leader: Option<Encoding>,
    /// The largest `precise_ip` of the PMU. 0 if its events need none.
    pub(super) precise: u8,
    pub(super) user_space: UserSpace,
    /// Whether it may be available only for whole CPUs.
    pub(super) of_cpus: bool,
    /// The period must be a multiple of this.
    pub(super) multiple: u64,
}

impl MemoryEvent {
    /// The permitted period nearest to the wanted one.
    pub(super) fn period(&self, wanted: u64) -> u64 {
        (wanted / self.multiple).max(1) * self.multiple
    }
}

/// Why there are no memory events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMemoryEvents {
    /// No PMU has a memory event.
    #[error(
        "no event of this machine reports the addresses of loads and stores: `{}` has neither a PMU with mem-loads or mem-stores \
         (Intel's PEBS) nor ibs_op (AMD's IBS), as in most virtual machines{}",
        devices.display(),
        if *spe { "; Arm's SPE exists but is not decoded" } else { "" }
    )]
    None {
        /// The directory that would describe them.
        devices: PathBuf,
        /// Whether Arm's statistical profiling extension exists.
        spe: bool,
    },
    /// A description cannot be parsed.
    #[error("the kernel's description of an event cannot be parsed: `{}`: {why}", file.display())]
    Description {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: String,
    },
}

/// The memory events in the `/sys` at this root.
pub(super) fn read(sysfs: &Path) -> Result<Vec<MemoryEvent>, NoMemoryEvents> {
    let devices = sysfs.join(DEVICES);
    let mut names: Vec<String> = fs::read_dir(&devices)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    let mut events = vec![];
    for name in &names {
        events.extend(Pmu::new(&devices, name).memory_events()?);
    }
    if events.is_empty() {
        let spe = names.iter().any(|name| name.starts_with("arm_spe"));
        return Err(NoMemoryEvents::None { devices, spe });
    }
    Ok(events)
}

/// The description of one PMU.
struct Pmu<'a> {
    name: &'a str,
    directory: PathBuf,
}

impl<'a> Pmu<'a> {
    fn new(devices: &Path, name: &'a str) -> Self {
        Self {
            name,
            directory: devices.join(name),
        }
    }

    /// A file's text. `None` if the file does not exist.
    fn text(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.directory.join(file)).ok()?;
        Some(text.trim().to_owned())
    }

    fn memory_events(&self) -> Result<Vec<MemoryEvent>, NoMemoryEvents> {
        if self.name == "ibs_op" {
            return Ok(vec![self.picked_operations()?]);
        }
        let mut events = vec![];
        for name in ["mem-loads", "mem-stores"] {
            let Some(encoding) = self.named(name)? else { continue };
            let leader = self.named(&format!("{name}-aux"))?;
            events.push(MemoryEvent {
                name: format!("{}/{name}/", self.name),
                encoding,
                leader,
                precise: self.number("caps/max_precise")?.unwrap_or(0),
                user_space: UserSpace::Exclusion,
                of_cpus: false,
                multiple: 1,
            });
        }
        Ok(events)
    }

    /// IBS: all micro-operations.
    fn picked_operations(&self) -> Result<MemoryEvent, NoMemoryEvents> {
        let has = |term: &str| self.text(&format!("format/{term}")).is_some();
        let terms = if has("cnt_ctl") { "cnt_ctl=1" } else { "" };
        let file = self.directory.join("format");
        let user_space = if has("swfilt") {
            let filtered = [terms, "swfilt=1"].into_iter().filter(|term| !term.is_empty());
            let filtered: Vec<&str> = filtered.collect();
            UserSpace::Filter(self.encode(&filtered.join(","), &file)?)
        } else {
            UserSpace::Nothing
        };
        Ok(MemoryEvent {
            name: format!("{}/{terms}/", self.name),
            encoding: self.encode(terms, &file)?,
            leader: None,
            precise: 0,
            user_space,
            of_cpus: true,
            // The lowest four bits of the counter cannot be set.
            multiple: 16,
        })
    }

    /// The event of this name. `None` if the PMU lacks it.
    fn named(&self, name: &str) -> Result<Option<Encoding>, NoMemoryEvents> {
        let file = format!("events/{name}");
        let Some(terms) = self.text(&file) else { return Ok(None) };
        self.encode(&terms, &self.directory.join(file)).map(Some)
    }

    /// The number in a file. `None` if the file does not exist.
    fn number<N: std::str::FromStr>(&self, file: &str) -> Result<Option<N>, NoMemoryEvents> {
        let Some(text) = self.text(file) else { return Ok(None) };
        let number = digits::decimal(&text).ok_or_else(|| NoMemoryEvents::Description {
            file: self.directory.join(file),
            why: format!("`{text}` is not a number"),
        })?;
        Ok(Some(number))
    }

    /// Encodes terms such as `event=0xcd,umask=0x1,ldlat=3` from `from`, with the PMU's formats.
    fn encode(&self, terms: &str, from: &Path) -> Result<Encoding, NoMemoryEvents> {
        let wrong = |why: String| NoMemoryEvents::Description {
            file: from.to_owned(),
            why,
        };
        let kind = self.number("type")?;
        let kind = kind.ok_or_else(|| wrong("the PMU has no number: there is no file `type`".to_owned()))?;
        let mut config = [0; 3];
        for term in terms.split(',').filter(|term| !term.is_empty()) {
            let (name, value) = term.split_once('=').unwrap_or((term, "1"));
            let value = number(value).ok_or_else(|| wrong(format!("`{term}` has no number")))?;
            if let Some(word) = word(name) {
                config[word] = value;
                continue;
            }
            let format = self.text(&format!("format/{name}"));
            let format = format.ok_or_else(|| wrong(format!("`{name}` has no file in `format`")))?;
            put(&mut config, &format, value).ok_or_else(|| wrong(format!("`{term}` does not fit `{format}`")))?;
        }
        Ok(Encoding { kind, config })
    }
}

/// A number in the kernel's notation: decimal, or hexadecimal with `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(text) => digits::hexadecimal(text),
        None => digits::decimal(text),
    }
}

/// The word of `perf_event_attr` with this name.
fn word(name: &str) -> Option<usize> {
    ["config", "config1", "config2"].iter().position(|word| *word == name)
}

/// Writes a value's bits to the positions of a format such as `config:0-7,21`, the lowest first. `None` if the format
/// is invalid or the value is too large.
fn put(config: &mut [u64; 3], format: &str, mut value: u64) -> Option<()> {
    let (name, ranges) = format.split_once(':')?;
    let word = config.get_mut(word(name)?)?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (digits::decimal(first)?, digits::decimal(last)?);
        for bit in first..=last {
            *word |= (value & 1).checked_shl(bit)?;
            value >>= 1;
        }
    }
    (value == 0).then_some(())
}

#[cfg(test)]
mod tests;
