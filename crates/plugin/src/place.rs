//! In which file an address of the recorded program lies, from this process's own memory map: QEMU maps the program's
//! files as the program asks for it, at its addresses plus a constant.

use pinfold_trace::RegionPlace;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// What is added to the program's addresses: 0 for all programs that fit in beside QEMU.
static GUEST_BASE: OnceLock<u64> = OnceLock::new();

/// Tells where an instruction is, in our memory and in the program's.
pub(crate) fn set_guest_base(host: u64, guest: u64) {
    GUEST_BASE.get_or_init(|| host.wrapping_sub(guest));
}

/// The place of the code at this address; `None` where it is in no file.
pub(crate) fn of(identity: u64) -> Option<RegionPlace> {
    let host = identity.wrapping_add(*GUEST_BASE.get()?);
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        // proc_pid_maps(5): from-to, permissions, offset, device, inode, file; the file's name may hold spaces.
        let mut fields = line.splitn(6, ' ');
        let (from, to) = fields.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (from, to) = (number(from)?, number(to)?);
        if !(from..to).contains(&host) {
            return None;
        }
        let offset = number(fields.nth(1)?)? + (host - from);
        let file = fields.nth(2)?.trim_start();
        let metadata = fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
        Some(RegionPlace {
            identity,
            file: file.into(),
            offset,
            file_size: metadata.size(),
            file_modified: metadata.mtime(),
        })
    })
}
