//! The executable areas of a process, from `/proc/PROCESS/maps`: which file, and where in it, an address belongs to.

use crate::procfs::Procfs;
use pinfold_core::digits;
use std::fs::{self, File};
use std::io;

/// The executable areas of one process, by address.
pub(crate) struct Areas {
    process: i32,
    areas: Vec<Area>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    start: u64,
    end: u64,
    /// The offset in the file of its first byte.
    offset: u64,
    /// Device and inode, as the kernel writes them; `None` without a file: a JIT compiler's code.
    pub(crate) file: Option<String>,
    /// The file's path, in the mount namespace of the process.
    pub(super) path: String,
}

impl Areas {
    /// `None` if the process has ended or may not be read.
    pub(crate) fn read(procfs: &Procfs, process: i32) -> Option<Self> {
        let text = fs::read(procfs.file(&process.to_string(), "maps")).ok()?;
        let text = String::from_utf8_lossy(&text);
        Some(Self {
            process,
            areas: text.lines().filter_map(Area::parse).collect(),
        })
    }

    /// The area with an address.
    pub(crate) fn at(&self, address: u64) -> Option<&Area> {
        // Most words of a stack are beyond all code, and need no search.
        if address < self.areas.first()?.start || address >= self.areas.last()?.end {
            return None;
        }
        let before = self.areas.partition_point(|area| area.start <= address);
        let area = &self.areas[before.checked_sub(1)?];
        (address < area.end).then_some(area)
    }

    /// Opens the file of an area: the very file that is mapped, or where that is not permitted, the one under its path.
    pub(super) fn open(&self, procfs: &Procfs, area: &Area) -> io::Result<File> {
        let process = self.process.to_string();
        let mapped = format!("map_files/{:x}-{:x}", area.start, area.end);
        let path = format!("root{}", area.path);
        File::open(procfs.file(&process, &mapped)).or_else(|_| File::open(procfs.file(&process, &path)))
    }
}

impl Area {
    /// An executable area from a line of `maps`; `None` for another one, and for the kernel's own code in a process, such
    /// as `[vdso]`. proc(5) has the format.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        if !fields.next()?.contains('x') {
            return None;
        }
        let offset = digits::hexadecimal(fields.next()?)?;
        let (device, inode) = (fields.next()?, fields.next()?);
        let path = fields.next().unwrap_or_default().trim_start();
        if path.starts_with('[') && !path.starts_with("[anon") {
            return None;
        }
        Some(Self {
            start: digits::hexadecimal(start)?,
            end: digits::hexadecimal(end)?,
            offset,
            file: (inode != "0").then(|| format!("{device} {inode}")),
            path: path.to_owned(),
        })
    }

    /// The offset in the file of an address of this area.
    pub(crate) fn offset(&self, address: u64) -> u64 {
        address - self.start + self.offset
    }

    /// The file's name without folders.
    pub(crate) fn file_name(&self) -> &str {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        path.rsplit('/').next().unwrap_or(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 fd:01 131 /opt/my program (deleted)
55d0c0001000-55d0c0003000 r-xp 00001000 fd:01 131 /opt/my program (deleted)
7f0000000000-7f0000010000 rwxp 00000000 00:00 0
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0                          [vdso]
";

    fn areas() -> Areas {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("7")).unwrap();
        fs::write(folder.path().join("7/maps"), MAPS).unwrap();
        Areas::read(&Procfs::new(folder.path()), 7).unwrap()
    }

    #[test]
    fn an_address_is_an_offset_of_the_file_that_is_mapped_there() {
        let areas = areas();
        let area = areas.at(0x55d0_c000_1234).unwrap();
        assert_eq!(area.offset(0x55d0_c000_1234), 0x1234);
        assert_eq!(area.file.as_deref(), Some("fd:01 131"));
        assert_eq!(area.file_name(), "my program");
    }

    #[test]
    fn only_executable_areas_have_code() {
        let areas = areas();
        for data in [0, 0x55d0_c000_0000, 0x55d0_c000_3000, 0x7ffc_0000_0010, u64::MAX] {
            assert_eq!(areas.at(data), None, "{data:#x}");
        }
    }

    #[test]
    fn code_of_a_jit_compiler_has_no_file() {
        assert_eq!(areas().at(0x7f00_0000_0010).unwrap().file, None);
    }
}
