//! Makes the kernel write-protect all of a process's pages, through a 4 in `/proc/PROCESS/clear_refs`
//! (`proc_pid_clear_refs(5)`), which starts the tracking of *soft-dirty* pages. The next write to a page is a page
//! fault that the kernel handles itself, as after a fork: neither the program nor its system calls notice it. A page
//! that is not written again stays protected, at no cost. So no roll-back is needed.
//!
//! Known limits: the whole process is protected, and its address space is locked meanwhile. Kernels without
//! `CONFIG_MEM_SOFT_DIRTY` accept the 4 and do nothing; Arm lacks it. An incremental checkpoint of the program by CRIU
//! uses the same bits, and would miss pages.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The bit of a `pagemap` word that is set if the page was written since the tracking started.
const SOFT_DIRTY: u32 = 55;

/// Whether this kernel tracks soft-dirty pages: whether it marks a page that was just written.
pub(super) fn is_available(procfs: &Path, page_size: u64) -> bool {
    let written = [1u8];
    let mut word = [0; size_of::<u64>()];
    let at = std::hint::black_box(written.as_ptr()) as u64 / page_size * word.len() as u64;
    let read = File::open(procfs.join("self/pagemap")).and_then(|file| file.read_exact_at(&mut word, at));
    read.is_ok() && u64::from_ne_bytes(word) >> SOFT_DIRTY & 1 == 1
}

/// The protection of one process's pages. The open file belongs to the process even if its number is reused.
pub(super) struct Protection {
    file: File,
}

impl Protection {
    pub(super) fn open(procfs: &Path, process: i32) -> io::Result<Self> {
        let path = procfs.join(process.to_string()).join("clear_refs");
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(path)?;
        Ok(Self { file })
    }

    /// Protects all pages that are in memory.
    pub(super) fn protect(&mut self) -> io::Result<()> {
        self.file.write_all(b"4")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_file_has_no_tracking() {
        let empty = tempfile::tempdir().unwrap();
        assert!(!is_available(empty.path(), 4096));
    }

    #[test]
    fn the_bit_of_the_pages_word_decides() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("self")).unwrap();
        for (word, expected) in [(1u64 << 63, false), (1 << 63 | 1 << 55, true)] {
            // With pages of this size every address is in the first.
            std::fs::write(root.path().join("self/pagemap"), word.to_ne_bytes()).unwrap();
            assert_eq!(is_available(root.path(), 1 << 63), expected);
        }
    }
}
