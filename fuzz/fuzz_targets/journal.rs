//! Journals: unchanged, and with the valid checksum before each line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_linux::journal::Directory;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let line = |body: &[u8]| [format!("{:08x} ", crc32fast::hash(body)).as_bytes(), body, b"\n"].concat();
    let checked: Vec<u8> = bytes.split(|&byte| byte == b'\n').flat_map(line).collect();
    std::fs::write(folder.path().join("1-plain.journal"), bytes).unwrap();
    std::fs::write(folder.path().join("1-checked.journal"), checked).unwrap();
    let _ = Directory::new(folder.path()).and_then(|directory| directory.survey());
});
