//! The pages of a process that are in memory, and which of them belong to a file: `/proc/PROCESS/pagemap`. A process
//! that may trace the other process sees these bits (`proc_pid_pagemap(5)`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The word of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// The kernel's word.
    pub fn new(word: u64) -> Self {
        Self(word)
    }

    /// Whether the page is in memory.
    pub fn present(self) -> bool {
        self.0 >> 63 & 1 == 1
    }

    /// Whether it is in swap space.
    pub fn swapped(self) -> bool {
        self.0 >> 62 & 1 == 1
    }

    /// Whether it is a page of a file, or of shared memory.
    pub fn of_file(self) -> bool {
        self.0 >> 61 & 1 == 1
    }
}

/// The map of one process's pages.
#[derive(Debug)]
pub struct PageMap {
    file: File,
    page_size: u64,
}

impl PageMap {
    /// The map of a process in the `/proc` at `procfs`, on a machine with a smallest page size of `page_size` bytes.
    pub fn open(procfs: &Path, process: i32, page_size: u64) -> io::Result<Self> {
        let file = File::open(procfs.join(process.to_string()).join("pagemap"))?;
        Ok(Self { file, page_size })
    }

    /// The words of the pages from `start` up to `end`.
    pub fn entries(&self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        const WORD: usize = size_of::<u64>();
        let pages = usize::try_from(end.saturating_sub(start) / self.page_size).map_err(io::Error::other)?;
        let mut bytes = vec![0; pages * WORD];
        self.file
            .read_exact_at(&mut bytes, start / self.page_size * WORD as u64)?;
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).map(Entry);
        Ok(bytes.chunks_exact(WORD).filter_map(|bytes| word(bytes).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_written_memory_is_present_and_no_files() {
        let memory = vec![1u8; 3 * 4096];
        // SAFETY: the call only queries.
        let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
        let map = PageMap::open(Path::new("/proc"), std::process::id().cast_signed(), page).unwrap();
        let first = (memory.as_ptr() as u64).next_multiple_of(page);
        let entries = map.entries(first, first + page).unwrap();
        assert!(entries[0].present() && !entries[0].of_file() && !entries[0].swapped());
        let code = our_own_written_memory_is_present_and_no_files as *const () as u64 / page * page;
        assert!(map.entries(code, code + page).unwrap()[0].of_file());
    }
}
