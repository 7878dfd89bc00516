//! The code of parallel regions: the file that has it, and the offset in this file. The address of a region, which is
//! its identity in a run, differs between runs.

use crate::functions::areas::Areas;
use crate::procfs::Procfs;
use pinfold_core::{RegionId, RegionSample};
use std::collections::BTreeMap;

/// The place of a region's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionCode {
    /// The file's name, without folders.
    pub object: String,
    /// The offset in the file, in bytes.
    pub offset: u64,
}

/// The places of all regions that have run.
#[derive(Debug, Default)]
pub(crate) struct RegionCodes {
    /// `None` for code in no file.
    known: BTreeMap<RegionId, Option<RegionCode>>,
}

impl RegionCodes {
    /// Looks up the regions that are new, in one of the program's processes.
    pub(crate) fn see(&mut self, procfs: &Procfs, processes: &[i32], regions: &[RegionSample]) {
        let is_known = |region: &RegionSample| self.known.contains_key(&region.id);
        if regions.iter().all(is_known) {
            return;
        }
        let areas: Vec<Areas> = processes
            .iter()
            .filter_map(|&process| Areas::read(procfs, process))
            .collect();
        for region in regions {
            let code = areas.iter().find_map(|areas| {
                let area = areas.at(region.id.0)?;
                area.file.as_ref()?;
                Some(RegionCode {
                    object: area.file_name().to_owned(),
                    offset: area.offset(region.id.0),
                })
            });
            self.known.entry(region.id).or_insert(code);
        }
    }

    /// The place of a region's code; `None` if it has not run, or its code is in no file.
    pub(crate) fn place(&self, id: RegionId) -> Option<RegionCode> {
        self.known.get(&id).cloned().flatten()
    }

    /// The places, without regions whose code is in no file.
    pub(crate) fn places(&self) -> BTreeMap<RegionId, RegionCode> {
        let known = self.known.iter();
        known.filter_map(|(&id, code)| Some((id, code.clone()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::RegionKeeps;
    use std::fs;

    #[test]
    fn a_region_has_the_place_of_its_code_in_the_file_that_is_mapped_there() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("7")).unwrap();
        let maps = "55d0c0001000-55d0c0003000 r-xp 00001000 fd:01 131 /opt/solver\n\
                    7f0000000000-7f0000010000 rwxp 00000000 00:00 0\n";
        fs::write(folder.path().join("7/maps"), maps).unwrap();
        let region = |id| RegionSample {
            id: RegionId(id),
            executions: 1.0,
            seconds: 1.0,
            counts: None,
            keeps: RegionKeeps::default(),
        };
        let mut codes = RegionCodes::default();
        codes.see(
            &Procfs::new(folder.path()),
            &[7],
            &[region(0x55d0_c000_1234), region(0x7f00_0000_0010)],
        );
        let code = RegionCode {
            object: "solver".to_owned(),
            offset: 0x1234,
        };
        assert_eq!(codes.places(), BTreeMap::from([(RegionId(0x55d0_c000_1234), code)]));
    }
}
