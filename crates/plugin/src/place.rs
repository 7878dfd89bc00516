//! Finds the file of an address of the recorded program in this process's memory map. QEMU maps the program's files at
//! the requested addresses plus a constant.

use pinfold_trace::RegionPlace;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// The constant that QEMU adds to the program's addresses. It is 0 for all programs that fit beside QEMU.
static GUEST_BASE: OnceLock<u64> = OnceLock::new();

/// Sets the constant from the address of an instruction in this process and in the program.
pub(crate) fn set_guest_base(host: u64, guest: u64) {
    GUEST_BASE.get_or_init(|| host.wrapping_sub(guest));
}

/// A line of this process's memory map, at the program's addresses.
pub(crate) struct MapsLine {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The permissions: 1 read, 2 write, 4 execute.
    pub(crate) protection: u64,
    pub(crate) offset: u64,
    /// The file's name, or the text in its place. Empty if there is neither.
    pub(crate) file: String,
}

impl MapsLine {
    /// `proc_pid_maps(5)`: from-to, permissions, offset, device, inode, file; the file's name may contain spaces.
    fn parse(line: &str, guest_base: u64) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (from, to) = fields.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let permissions = fields.next()?;
        let bits = [('r', 1), ('w', 2), ('x', 4)].into_iter();
        Some(Self {
            start: number(from)?.wrapping_sub(guest_base),
            end: number(to)?.wrapping_sub(guest_base),
            protection: bits
                .filter(|&(letter, _)| permissions.contains(letter))
                .map(|(_, bit)| bit)
                .sum(),
            offset: number(fields.next()?)?,
            file: fields.nth(2).unwrap_or("").trim_start().to_owned(),
        })
    }
}

/// The current mappings, including QEMU's memory.
pub(crate) fn maps() -> Vec<MapsLine> {
    let Some(&guest_base) = GUEST_BASE.get() else {
        return vec![];
    };
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines()
        .filter_map(|line| MapsLine::parse(line, guest_base))
        .collect()
}

/// The place of the code at this address. `None` if the address belongs to no file.
pub(crate) fn of(identity: u64) -> Option<RegionPlace> {
    let line = maps()
        .into_iter()
        .find(|line| (line.start..line.end).contains(&identity))?;
    let metadata = fs::metadata(&line.file).ok().filter(fs::Metadata::is_file)?;
    Some(RegionPlace {
        identity,
        offset: line.offset + (identity - line.start),
        file: line.file.into(),
        file_size: metadata.size(),
        file_modified: metadata.mtime(),
    })
}
