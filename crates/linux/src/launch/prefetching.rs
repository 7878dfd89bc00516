//! The prefetchers during the program's run, on the PUs that it may run on.
//!
//! 1. The registers of all PUs are read. If one cannot be read, none is changed: measurements would be useless if only
//!    some cores had other prefetchers.
//! 2. All changes are written to the journal, with the original values. Two PUs of one core have one register, so all
//!    are read before one is written.
//! 3. All registers are written.

use crate::journal::{Change, Journal, RegisterChange, Target};
use crate::prefetchers::{CPUINFO, PrefetcherError, Registers, Switches};
use pinfold_core::{Prefetchers, PuId};
use std::path::PathBuf;

pub(super) struct Prefetching {
    registers: Registers,
    cpuinfo: PathBuf,
    pus: Vec<PuId>,
    /// The setting in force. `None` while the original values are in force.
    set: Option<Prefetchers>,
}

impl Prefetching {
    pub(super) fn new(pus: Vec<PuId>) -> Self {
        Self {
            registers: Registers::default(),
            cpuinfo: PathBuf::from(CPUINFO),
            pus,
            set: None,
        }
    }

    /// Applies the setting, or with `None` restores the original values. Returns the problems.
    pub(super) fn apply(&mut self, wanted: Option<Prefetchers>, journal: Option<&mut Journal>) -> Vec<String> {
        if wanted == self.set {
            return vec![];
        }
        let Some(journal) = journal else {
            let why = "the prefetchers stay as they are: without a journal the change could not be rolled back";
            return vec![why.to_owned()];
        };
        let Some(wanted) = wanted else {
            return self.give_back(journal);
        };
        match self.set(wanted, journal) {
            Ok(()) => {
                self.set = Some(wanted);
                vec![]
            }
            Err(why) => {
                // The registers written before the failure are rolled back.
                let mut problems = vec![format!("the prefetchers stay as they are: {why}")];
                problems.extend(self.give_back(journal));
                problems
            }
        }
    }

    fn set(&self, wanted: Prefetchers, journal: &mut Journal) -> Result<(), String> {
        let explained = |error: PrefetcherError| error.to_string();
        let switches = Switches::of_processor(&self.cpuinfo).map_err(explained)?;
        let (register, bits, written) = (switches.register, switches.mask(), switches.value(wanted));
        let mut changes = vec![];
        for &pu in &self.pus {
            let now = self.registers.read(pu, register).map_err(explained)? & bits;
            let known = journal.change(Target::Register(register, pu));
            let (original, replaced) = match known {
                Some(Change::Register(known)) => (known.original, Some(known.written)),
                _ => (now, None),
            };
            changes.push(RegisterChange {
                pu,
                register,
                bits,
                original,
                replaced,
                written,
            });
        }
        for &change in &changes {
            journal
                .note(Change::Register(change))
                .map_err(|error| format!("the journal cannot be written: {error}"))?;
        }
        for &pu in &self.pus {
            let now = self.registers.read(pu, register).map_err(explained)?;
            self.registers
                .write(pu, register, switches.applied(now, wanted))
                .map_err(explained)?;
        }
        Ok(())
    }

    fn give_back(&mut self, journal: &mut Journal) -> Vec<String> {
        self.set = None;
        journal.give_back_registers(&self.registers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Directory;
    use std::fs;
    use std::path::Path;

    /// A machine of two PUs whose registers are files, and a journal.
    struct Fake {
        root: tempfile::TempDir,
        prefetching: Prefetching,
        journal: Journal,
    }

    impl Fake {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            for pu in ["0", "1"] {
                let device = root.path().join("cpu").join(pu);
                fs::create_dir_all(&device).unwrap();
                fs::write(device.join("msr"), [0; 0x1b0]).unwrap();
            }
            let cpuinfo = root.path().join("cpuinfo");
            fs::write(&cpuinfo, "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\n").unwrap();
            let directory = Directory::new(&root.path().join("journals")).unwrap();
            Self {
                prefetching: Prefetching {
                    registers: Registers::new(root.path().join("cpu")),
                    cpuinfo,
                    pus: vec![PuId(0), PuId(1)],
                    set: None,
                },
                journal: Journal::begin_unguarded(&directory).unwrap(),
                root,
            }
        }

        fn apply(&mut self, text: Option<&str>) -> Vec<String> {
            let wanted = text.map(|text| text.parse().unwrap());
            self.prefetching.apply(wanted, Some(&mut self.journal))
        }

        fn values(&self) -> [u64; 2] {
            [0, 1].map(|pu| self.prefetching.registers.read(PuId(pu), 0x1a4).unwrap())
        }

        fn write(&self, pu: u32, value: u64) {
            self.prefetching.registers.write(PuId(pu), 0x1a4, value).unwrap();
        }
    }

    #[test]
    fn only_the_switches_change_and_all_comes_back_as_it_was() {
        let mut fake = Fake::new();
        fake.write(0, 0x8000_0002);
        assert_eq!(fake.apply(Some("1000")), [] as [String; 0]);
        assert_eq!(fake.values(), [0x8000_0008, 8]);
        assert_eq!(fake.apply(Some("0101")), [] as [String; 0]);
        assert_eq!(fake.values(), [0x8000_0005, 5]);
        assert_eq!(fake.apply(None), [] as [String; 0]);
        assert_eq!(fake.values(), [0x8000_0002, 0]);
    }

    #[test]
    fn a_value_that_another_program_has_set_stays_and_is_reported() {
        let mut fake = Fake::new();
        fake.apply(Some("1111"));
        fake.write(1, 3);
        let problems = fake.apply(None);
        assert_eq!(fake.values(), [0, 3]);
        assert!(problems.len() == 1 && problems[0].contains("PU 1"), "{problems:?}");
    }

    #[test]
    fn where_one_pu_has_no_device_nothing_is_changed_anywhere() {
        let mut fake = Fake::new();
        fs::remove_file(fake.root.path().join("cpu/1/msr")).unwrap();
        let problems = fake.apply(Some("1111"));
        assert_eq!(fake.prefetching.registers.read(PuId(0), 0x1a4).unwrap(), 0);
        assert!(problems.len() == 1 && problems[0].contains("1/msr"), "{problems:?}");
    }

    #[test]
    fn an_unknown_processor_is_not_changed_and_is_named() {
        let mut fake = Fake::new();
        fake.prefetching.cpuinfo = Path::new("/dev/null").to_path_buf();
        let problems = fake.apply(Some("1111"));
        assert_eq!(fake.values(), [0, 0]);
        assert!(
            problems.len() == 1 && problems[0].contains("cannot switch"),
            "{problems:?}"
        );
    }

    #[test]
    fn without_a_journal_nothing_is_changed() {
        let mut fake = Fake::new();
        let problems = fake.prefetching.apply(Some(Prefetchers::NONE), None);
        assert_eq!((fake.values(), problems.len()), ([0, 0], 1));
    }
}
