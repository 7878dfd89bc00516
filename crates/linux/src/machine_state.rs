//! The state of the whole machine, which shows whether other programs, a hypervisor or the temperature disturb a
//! measurement: two readings, and what happened between them.
//!
//! The files are read below a root, so that tests bring their own. What the kernel does not report is `None`.
//!
//! Limits: the kernel counts processor time in ticks of 10 ms on most machines, so that the load of a short time is
//! inexact. Where `scaling_cur_freq` is missing, as on virtual machines, the frequency is not known.

use pinfold_core::{NodeId, PuSet, digits};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The processor time of all PUs since boot, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    /// In programs, in the kernel, and in interrupts.
    busy: u64,
    /// Taken by a hypervisor; `None` if the kernel does not report it.
    stolen: Option<u64>,
    all: u64,
    /// The number of PUs.
    pus: usize,
}

impl Ticks {
    /// From the text of `/proc/stat`.
    fn of(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user time.
        let ticks: Vec<u64> = line.split_whitespace().map_while(digits::decimal).take(8).collect();
        let at = |place: usize| ticks.get(place).copied();
        Some(Self {
            busy: at(0)? + at(1)? + at(2)? + at(5).unwrap_or(0) + at(6).unwrap_or(0),
            stolen: at(7),
            all: ticks.iter().sum(),
            pus: stat
                .lines()
                .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
                .count(),
        })
    }
}

/// One reading.
#[derive(Clone, Debug)]
pub struct MachineReading {
    at: Instant,
    root: PathBuf,
    ticks: Option<Ticks>,
    /// How often a core or a package was throttled.
    throttled: Option<u64>,
}

/// What happened between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineInterval {
    /// Its length in seconds.
    pub seconds: f64,
    /// The PUs that were busy, on average, with any program.
    pub busy: Option<f64>,
    /// The share of the time of all PUs that a hypervisor took.
    pub stolen: Option<f64>,
    /// Whether a core or a package was throttled because of its temperature.
    pub throttled: Option<bool>,
}

impl MachineReading {
    /// Reads the state of this machine.
    pub fn now() -> Self {
        Self::below(Path::new("/"))
    }

    /// Reads `proc` and `sys` below `root`.
    fn below(root: &Path) -> Self {
        let stat = fs::read_to_string(root.join("proc/stat")).ok();
        Self {
            at: Instant::now(),
            ticks: stat.and_then(|stat| Ticks::of(&stat)),
            throttled: throttled(root),
            root: root.to_owned(),
        }
    }

    /// What happened since this reading.
    pub fn until_now(&self) -> MachineInterval {
        let now = Self::below(&self.root);
        let seconds = (now.at - self.at).as_secs_f64();
        // The ticks of all PUs give the time of one PU, whatever the length of a tick is.
        let share = |part: fn(&Ticks) -> Option<u64>| {
            let (before, after) = (self.ticks?, now.ticks?);
            let passed = after.all.checked_sub(before.all).filter(|&passed| passed > 0)?;
            Some(part(&after)?.saturating_sub(part(&before)?) as f64 / passed as f64)
        };
        MachineInterval {
            seconds,
            busy: share(|ticks| Some(ticks.busy))
                .zip(now.ticks)
                .map(|(share, ticks)| share * ticks.pus as f64),
            stolen: share(|ticks| ticks.stolen),
            throttled: self.throttled.zip(now.throttled).map(|(before, after)| after > before),
        }
    }
}

/// The sum of the counters of throttling; `None` if there are none.
fn throttled(root: &Path) -> Option<u64> {
    let mut sum = None;
    for pu in fs::read_dir(root.join("sys/devices/system/cpu")).ok()?.flatten() {
        for counter in ["core_throttle_count", "package_throttle_count"] {
            if let Some(count) = number(&pu.path().join("thermal_throttle").join(counter)) {
                sum = Some(sum.unwrap_or(0) + count);
            }
        }
    }
    sum
}

/// The mean of the present frequencies of PUs, in hertz; `None` if one is not known.
pub fn frequency(pus: &PuSet) -> Option<f64> {
    frequency_below(Path::new("/"), pus)
}

fn frequency_below(root: &Path, pus: &PuSet) -> Option<f64> {
    let of = |pu: pinfold_core::PuId| {
        number(&root.join(format!("sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", pu.0)))
    };
    let kilohertz: Option<Vec<u64>> = pus.iter().map(of).collect();
    let kilohertz = kilohertz.filter(|values| !values.is_empty())?;
    Some(kilohertz.iter().sum::<u64>() as f64 * 1e3 / kilohertz.len() as f64)
}

/// The free memory of each of these nodes, in bytes; `None` if one is not known.
pub fn free_memory(nodes: &[NodeId]) -> Option<Vec<u64>> {
    free_memory_below(Path::new("/"), nodes)
}

fn free_memory_below(root: &Path, nodes: &[NodeId]) -> Option<Vec<u64>> {
    let of = |node: &NodeId| {
        let file = root.join(format!("sys/devices/system/node/node{}/meminfo", node.0));
        let text = fs::read_to_string(file).ok()?;
        // Node 0 MemFree:  123 kB
        let line = text.lines().find(|line| line.contains(" MemFree:"))?;
        let kibibytes: u64 = digits::decimal(line.split_whitespace().nth(3)?)?;
        Some(kibibytes * 1024)
    };
    nodes
        .iter()
        .map(of)
        .collect::<Option<Vec<u64>>>()
        .filter(|bytes| !bytes.is_empty())
}

fn number(file: &Path) -> Option<u64> {
    digits::decimal(fs::read_to_string(file).ok()?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of a machine in a folder.
    struct Files(tempfile::TempDir);

    impl Files {
        fn new(files: &[(&str, &str)]) -> Self {
            let this = Self(tempfile::tempdir().unwrap());
            for (name, text) in files {
                this.write(name, text);
            }
            this
        }

        fn write(&self, name: &str, text: &str) {
            let file = self.0.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
    }

    const THROTTLES: &str = "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count";

    #[test]
    fn load_steal_and_throttling_are_between_two_readings() {
        let files = Files::new(&[
            ("proc/stat", "cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 5\ncpu1 5\nintr 1\n"),
            (THROTTLES, "3\n"),
        ]);
        let before = MachineReading::below(files.0.path());
        files.write("proc/stat", "cpu  35 10 20 120 0 3 2 10 0 0\ncpu0 5\ncpu1 5\nintr 1\n");
        files.write(THROTTLES, "4\n");
        let between = before.until_now();
        // 50 of 100 ticks of two PUs, and 10 stolen.
        assert_eq!((between.busy, between.stolen), (Some(1.0), Some(0.1)));
        assert_eq!(between.throttled, Some(true));
    }

    #[test]
    fn what_the_kernel_does_not_report_is_not_known() {
        let files = Files::new(&[("proc/stat", "cpu  10 0 10 80\n")]);
        let before = MachineReading::below(files.0.path());
        let between = before.until_now();
        // No time has passed, and there are no counters.
        assert_eq!((between.busy, between.stolen, between.throttled), (None, None, None));
        let none = Files::new(&[]);
        assert_eq!(MachineReading::below(none.0.path()).until_now().busy, None);
        assert_eq!(frequency_below(none.0.path(), &"0".parse().unwrap()), None);
        assert_eq!(free_memory_below(none.0.path(), &[NodeId(0)]), None);
    }

    #[test]
    fn frequencies_are_of_the_named_pus_and_memory_of_the_named_nodes() {
        let frequency = |pu: u32| format!("sys/devices/system/cpu/cpu{pu}/cpufreq/scaling_cur_freq");
        let files = Files::new(&[
            (&frequency(0), "1000000\n"),
            (&frequency(1), "3000000\n"),
            (&frequency(2), "9000000\n"),
            (
                "sys/devices/system/node/node1/meminfo",
                "Node 1 MemTotal:  2000 kB\nNode 1 MemFree:    1000 kB\n",
            ),
        ]);
        assert_eq!(frequency_below(files.0.path(), &"0-1".parse().unwrap()), Some(2e9));
        assert_eq!(frequency_below(files.0.path(), &"0,7".parse().unwrap()), None);
        assert_eq!(free_memory_below(files.0.path(), &[NodeId(1)]), Some(vec![1_024_000]));
    }
}
