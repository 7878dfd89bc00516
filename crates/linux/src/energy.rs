//! The energy that the processor meters (RAPL): of all packages, of their cores (PP0), and of the memory.
//!
//! 1. `/sys/class/powercap/intel-rapl:N` is a package, and `intel-rapl:N:M` a part of it. AMD's processors have the same
//!    files. A processor with several dies can have a domain for each (`package-0-die-1`).
//! 2. `EnergyCounters::begin` reads each counter, and `EnergyCounters::read` reads it again.
//! 3. A counter begins again after `max_energy_range_uj`. That takes a loaded package a quarter of an hour. `EnergyMeter`
//!    has a thread that reads all counters every half minute.
//!
//! The whole machine is metered, with its idle parts and other programs. The energy is missing if a part of it is missing:
//! if a package has no counter, if a counter cannot be read, which needs root since Linux 5.10, or if it vanishes.
//!
//! Limits: other domains (`uncore`, `psys`) are not read. Of AMD's processors `core` is not read: they meter each core,
//! and Linux shows one core of a package (`MSR_AMD_CORE_ENERGY_STATUS` in `drivers/powercap/intel_rapl_msr.c`). The
//! processor renews a counter about once a millisecond.

use pinfold_core::digits;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A counter of memory has the smallest range, 65 kJ. Only 2 kW would make it begin again within this time.
const INTERVAL: Duration = Duration::from_secs(30);

/// The counter of one domain, in microjoules.
#[derive(Debug)]
struct Counter {
    file: PathBuf,
    /// The counter begins again after this value.
    range: u64,
    last: u64,
    /// The growth since the first reading.
    grown: u64,
}

impl Counter {
    /// The first reading of the domain in a folder; `None` if it cannot be read.
    fn begin(folder: &Path) -> Option<Self> {
        let file = folder.join("energy_uj");
        Some(Self {
            last: number(&file)?,
            range: number(&folder.join("max_energy_range_uj"))?,
            grown: 0,
            file,
        })
    }

    /// Reads it again; `None` if it cannot be read any more.
    fn advanced(mut self) -> Option<Self> {
        let now = number(&self.file)?;
        self.grown += match now.checked_sub(self.last) {
            Some(grown) => grown,
            None => (self.range.checked_sub(self.last)?).checked_add(now)?,
        };
        self.last = now;
        Some(self)
    }
}

/// The counters of a package, or of a die of it.
#[derive(Debug)]
struct Package {
    whole: Option<Counter>,
    cores: Option<Counter>,
    memory: Option<Counter>,
}

impl Package {
    /// `folders` has the domains of all packages and of their parts. `core` is read if it has all cores.
    fn begin(package: &Path, folders: &[PathBuf], has_all_cores: bool) -> Self {
        let prefix = format!("{}:", file_name(package));
        let part = |name: &str| {
            let of_package = folders.iter().filter(|folder| file_name(folder).starts_with(&prefix));
            let mut found = of_package.filter(|folder| text(&folder.join("name")).as_deref() == Some(name));
            Counter::begin(found.next()?)
        };
        Self {
            whole: Counter::begin(package),
            cores: has_all_cores.then(|| part("core")).flatten(),
            memory: part("dram"),
        }
    }

    fn advance(&mut self) {
        for counter in [&mut self.whole, &mut self.cores, &mut self.memory] {
            *counter = counter.take().and_then(Counter::advanced);
        }
    }
}

/// The energy of the whole machine between two points in time, in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    /// All packages.
    pub packages: Option<f64>,
    /// The cores of all packages, with their private caches (PP0).
    pub cores: Option<f64>,
    /// All memory.
    pub memory: Option<f64>,
    /// The time between the two points, in seconds.
    pub seconds: f64,
}

/// The counters of the machine.
#[derive(Debug)]
pub struct EnergyCounters {
    began: Instant,
    packages: Vec<Package>,
}

impl EnergyCounters {
    /// The counters from now on; `None` if there are none that can be read.
    pub fn begin() -> Option<Self> {
        let counters = Self::below(Path::new("/"));
        counters.can_be_read().then_some(counters)
    }

    /// The energy until now. Call it at least once a minute.
    pub fn read(&mut self) -> Energy {
        self.advance();
        self.energy()
    }

    /// Reads `sys` below `root`. A machine has no packages here if one of them has no domain.
    fn below(root: &Path) -> Self {
        let (packages, folders) = domains(root);
        let complete = are_complete(&packages, &expected(root));
        let packages = packages.iter().filter(|_| complete);
        let has_all_cores = is_of_intel(root);
        let begin = |(_, folder): &(String, PathBuf)| Package::begin(folder, &folders, has_all_cores);
        Self {
            packages: packages.map(begin).collect(),
            began: Instant::now(),
        }
    }

    fn can_be_read(&self) -> bool {
        let mut packages = self.packages.iter();
        packages.any(|package| package.whole.is_some() || package.cores.is_some() || package.memory.is_some())
    }

    fn advance(&mut self) {
        self.packages.iter_mut().for_each(Package::advance);
    }

    /// The energy since the first reading.
    fn energy(&self) -> Energy {
        let sum = |of: fn(&Package) -> Option<&Counter>| {
            let grown = self
                .packages
                .iter()
                .map(|package| of(package).map(|counter| counter.grown));
            let all: Option<u64> = grown.sum();
            all.filter(|_| !self.packages.is_empty())
                .map(|microjoules| microjoules as f64 / 1e6)
        };
        Energy {
            packages: sum(|package| package.whole.as_ref()),
            cores: sum(|package| package.cores.as_ref()),
            memory: sum(|package| package.memory.as_ref()),
            seconds: self.began.elapsed().as_secs_f64(),
        }
    }
}

/// Measures the energy of the machine from one point in time to another: a thread reads the counters until the channel
/// closes. `None` if there are none that can be read.
#[derive(Debug)]
pub struct EnergyMeter(Option<(Sender<()>, JoinHandle<EnergyCounters>)>);

impl EnergyMeter {
    /// Begins now.
    pub fn begin() -> Self {
        Self::below(Path::new("/"))
    }

    fn below(root: &Path) -> Self {
        let mut counters = EnergyCounters::below(root);
        if !counters.can_be_read() {
            return Self(None);
        }
        let (sender, ended) = channel::<()>();
        let reader = thread::spawn(move || {
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                counters.advance();
            }
            counters
        });
        Self(Some((sender, reader)))
    }

    /// The energy until now.
    pub fn end(self) -> Energy {
        let Some((sender, reader)) = self.0 else {
            return Energy::default();
        };
        drop(sender);
        reader.join().expect("the thread only reads files").read()
    }
}

/// Why this process may not read the energy that the machine meters; `None` if it may, or if the machine meters none.
pub fn obstacle() -> Option<String> {
    obstacle_below(Path::new("/"))
}

fn obstacle_below(root: &Path) -> Option<String> {
    domains(root).0.iter().find_map(|(_, folder)| {
        let file = folder.join("energy_uj");
        let error = fs::read_to_string(&file).err()?;
        refusal(&file, error.kind())
    })
}

fn refusal(file: &Path, error: ErrorKind) -> Option<String> {
    (error == ErrorKind::PermissionDenied).then(|| {
        format!(
            "only root may read {}: run pinfold as root, or let root permit it (chmod a+r) on a machine without untrusted \
             users",
            file.display()
        )
    })
}

/// The domains of packages with their names, and the folders of all domains.
fn domains(root: &Path) -> (Vec<(String, PathBuf)>, Vec<PathBuf>) {
    // Other control types have folders of their own, such as `intel-rapl-mmio:0`, with the same packages.
    let mut folders = folders(&root.join("sys/class/powercap"), |name| name.starts_with("intel-rapl:"));
    folders.sort();
    let packages = folders.iter().filter_map(|folder| {
        let name = text(&folder.join("name"))?;
        name.starts_with("package-").then(|| (name, folder.clone()))
    });
    (packages.collect(), folders.clone())
}

/// The packages of the online CPUs, with the dies of each.
fn expected(root: &Path) -> BTreeSet<(u64, u64)> {
    let is_cpu = |name: &str| name.strip_prefix("cpu").and_then(digits::decimal::<u64>).is_some();
    let cpus = folders(&root.join("sys/devices/system/cpu"), is_cpu);
    let place = |cpu: PathBuf| {
        let topology = cpu.join("topology");
        let package = number(&topology.join("physical_package_id"))?;
        Some((package, number(&topology.join("die_id")).unwrap_or(0)))
    };
    cpus.into_iter().filter_map(place).collect()
}

/// Whether each package has a domain, or each of its dies.
fn are_complete(packages: &[(String, PathBuf)], expected: &BTreeSet<(u64, u64)>) -> bool {
    let has = |name: &str| packages.iter().any(|(known, _)| known == name);
    !expected.is_empty()
        && expected
            .iter()
            .all(|(package, die)| has(&format!("package-{package}")) || has(&format!("package-{package}-die-{die}")))
}

fn is_of_intel(root: &Path) -> bool {
    let text = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let vendor = text.lines().find(|line| line.starts_with("vendor_id"));
    vendor.is_some_and(|vendor| vendor.ends_with("GenuineIntel"))
}

fn folders(parent: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let wanted = entries.filter(|entry| entry.file_name().to_str().is_some_and(&is_wanted));
    wanted.map(|entry| entry.path()).collect()
}

fn file_name(folder: &Path) -> String {
    folder
        .file_name()
        .map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

fn number(file: &Path) -> Option<u64> {
    digits::decimal(&text(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of a machine.
    struct Files(tempfile::TempDir);

    const RANGE: u64 = 1_000_000_000;

    impl Files {
        /// A machine with these domains, each a folder, a name and microjoules, and with a CPU on each of these packages
        /// and dies.
        fn new(domains: &[(&str, &str, u64)], cpus: &[(u64, u64)]) -> Self {
            let this = Self(tempfile::tempdir().unwrap());
            for &(folder, name, microjoules) in domains {
                let folder = format!("sys/class/powercap/{folder}");
                this.write(&format!("{folder}/name"), name);
                this.write(&format!("{folder}/max_energy_range_uj"), &RANGE.to_string());
                this.write(&format!("{folder}/energy_uj"), &microjoules.to_string());
            }
            for (cpu, (package, die)) in cpus.iter().enumerate() {
                let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
                this.write(&format!("{topology}/physical_package_id"), &package.to_string());
                this.write(&format!("{topology}/die_id"), &die.to_string());
            }
            this.write("sys/devices/system/cpu/cpufreq/boost", "1");
            this.write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel");
            this
        }

        /// A machine with two packages.
        fn of_two() -> Self {
            let domains = [
                ("intel-rapl:0", "package-0", 1_000_000),
                ("intel-rapl:0:0", "core", 500_000),
                ("intel-rapl:0:1", "dram", 0),
                ("intel-rapl:1", "package-1", RANGE - 1_000_000),
                ("intel-rapl:1:0", "core", 0),
                ("intel-rapl:1:1", "dram", 0),
                ("intel-rapl:2", "psys", 0),
                ("intel-rapl-mmio:0", "package-0", 0),
            ];
            Self::new(&domains, &[(0, 0), (1, 0), (0, 0), (1, 0)])
        }

        fn write(&self, name: &str, text: &str) {
            let file = self.0.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }

        fn counter(&self, folder: &str) -> PathBuf {
            self.0.path().join("sys/class/powercap").join(folder).join("energy_uj")
        }

        fn set(&self, folder: &str, microjoules: u64) {
            fs::write(self.counter(folder), format!("{microjoules}\n")).unwrap();
        }

        fn begin(&self) -> EnergyMeter {
            EnergyMeter::below(self.0.path())
        }
    }

    fn joules(energy: Energy) -> [Option<f64>; 3] {
        [energy.packages, energy.cores, energy.memory]
    }

    #[test]
    fn the_energy_of_all_packages_is_added_also_where_a_counter_begins_again() {
        let files = Files::of_two();
        let meter = files.begin();
        files.set("intel-rapl:0", 3_000_000);
        // It was 1 J below its range.
        files.set("intel-rapl:1", 4_000_000);
        files.set("intel-rapl:0:0", 1_000_000);
        files.set("intel-rapl:1:1", 250_000);
        files.set("intel-rapl:2", 77_000_000);
        files.set("intel-rapl-mmio:0", 99_000_000);
        assert_eq!(joules(meter.end()), [Some(7.0), Some(0.5), Some(0.25)]);
    }

    #[test]
    fn a_counter_may_begin_again_several_times() {
        let files = Files::new(&[("intel-rapl:0", "package-0", RANGE - 1)], &[(0, 0)]);
        let mut machine = EnergyCounters::below(files.0.path());
        for _ in 0..3 {
            files.set("intel-rapl:0", 5);
            machine.advance();
            files.set("intel-rapl:0", RANGE - 1);
            machine.advance();
        }
        assert_eq!(machine.energy().packages, Some(3.0 * RANGE as f64 / 1e6));
    }

    #[test]
    fn a_package_without_a_domain_makes_the_sum_missing() {
        let one = [("intel-rapl:0", "package-0", 0)];
        let measured = |domains: &[(&str, &str, u64)], cpus: &[(u64, u64)]| {
            let files = Files::new(domains, cpus);
            let meter = files.begin();
            files.set("intel-rapl:0", 2_000_000);
            joules(meter.end())
        };
        // This machine meters neither cores nor memory.
        assert_eq!(measured(&one, &[(0, 0), (0, 1)]), [Some(2.0), None, None]);
        assert_eq!(measured(&one, &[(0, 0), (1, 0)]), [None; 3]);
        assert_eq!(measured(&one, &[]), [None; 3]);
        let dies = [
            ("intel-rapl:0", "package-0-die-0", 0),
            ("intel-rapl:1", "package-0-die-1", 0),
        ];
        assert_eq!(measured(&dies, &[(0, 0), (0, 1)]), [Some(2.0), None, None]);
        assert_eq!(measured(&dies, &[(0, 0), (0, 1), (0, 2)]), [None; 3]);
        // The memory of one package is not all memory.
        let memory = [
            ("intel-rapl:0", "package-0", 0),
            ("intel-rapl:0:0", "dram", 0),
            ("intel-rapl:1", "package-1", 0),
        ];
        assert_eq!(measured(&memory, &[(0, 0), (1, 0)]), [Some(2.0), None, None]);
    }

    #[test]
    fn the_one_core_of_a_package_that_amd_shows_is_not_the_energy_of_all() {
        let files = Files::of_two();
        files.write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD");
        assert_eq!(joules(files.begin().end()), [Some(0.0), None, Some(0.0)]);
    }

    #[test]
    fn a_domain_that_vanishes_is_missing_and_others_are_not() {
        let files = Files::of_two();
        let meter = files.begin();
        fs::remove_file(files.counter("intel-rapl:1")).unwrap();
        files.set("intel-rapl:1:0", 1_000_000);
        assert_eq!(joules(meter.end()), [None, Some(1.0), Some(0.0)]);
        // It does not come back.
        let mut machine = EnergyCounters::below(files.0.path());
        files.set("intel-rapl:1", 1_000_000);
        machine.advance();
        assert_eq!(machine.energy().packages, None);
    }

    #[test]
    fn a_counter_that_cannot_be_read_is_missing() {
        let files = Files::of_two();
        fs::remove_file(files.counter("intel-rapl:0:1")).unwrap();
        fs::create_dir(files.counter("intel-rapl:0:1")).unwrap();
        assert_eq!(joules(files.begin().end()), [Some(0.0), Some(0.0), None]);
        files.write("sys/class/powercap/intel-rapl:0/energy_uj", "much");
        assert_eq!(joules(files.begin().end()), [None, Some(0.0), None]);
        let none = Files::new(&[], &[(0, 0)]);
        assert_eq!(joules(none.begin().end()), [None; 3]);
        assert!(!EnergyCounters::below(none.0.path()).can_be_read());
    }

    #[test]
    fn only_a_missing_permission_is_an_obstacle_that_the_user_is_told() {
        assert_eq!(obstacle_below(Files::of_two().0.path()), None);
        assert_eq!(obstacle_below(Files::new(&[], &[(0, 0)]).0.path()), None);
        let file = Path::new("/sys/class/powercap/intel-rapl:0/energy_uj");
        let why = refusal(file, ErrorKind::PermissionDenied).unwrap();
        assert!(why.contains("intel-rapl:0/energy_uj") && why.contains("root"), "{why}");
        assert_eq!(refusal(file, ErrorKind::NotFound), None);
    }
}
