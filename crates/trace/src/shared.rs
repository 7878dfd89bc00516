//! The memory that `pinfold record` shares with the plugin: the settings, the status, and the unfinished blocks.
//! pinfold reads the blocks after the recorded program has ended, even if it was killed.
//!
//! | bytes from | what |
//! |---|---|
//! | 0 | length of the settings (8 bytes), then the settings as JSON |
//! | `STATUS` | the words of [`Status`] |
//! | `SLOTS_BEGIN + i * SLOT` | the `Output` of the thread that has QEMU's vcpu index `i` |

use crate::{Output, Recording, TraceError, Window, Writer};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The offset of the status.
pub const STATUS: usize = 64 << 10;
/// The offset of the first slot.
pub const SLOTS_BEGIN: usize = 68 << 10;
/// The distance between two slots: an `Output`, rounded up to pages.
pub const SLOT: usize = size_of::<Output>().next_multiple_of(4096);
/// The most threads at one time.
pub const SLOTS: usize = 4096;
/// The size of the memory in bytes. Pages that are never written take no memory.
pub const SIZE: usize = SLOTS_BEGIN + SLOTS * SLOT;

/// The system call that the agent uses to make a mark for the plugin. No kernel has this number, so the call only
/// fails.
pub const MARK_SYSCALL: i64 = 0x7069_6e66;
/// Its first argument.
pub const MARK_MAGIC: u64 = 0x0070_696e_666f_6c64;

/// The plugin's task.
#[derive(Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The recording. Its header exists; frames are appended.
    pub output: PathBuf,
    /// The part of the run to record.
    pub window: Option<Window>,
    /// Whether the program ends after the last window.
    pub stop: bool,
}

/// The words of the recording's status. They are 0 at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The system's error number if the recording could not be written.
    WriteError = 0,
    /// 1 once the recording is complete.
    Complete = 1,
    /// 1 while the program's process tries to replace itself by `exec`.
    Exec = 2,
    /// The number of processes that the program forked.
    Forks = 3,
    /// The number of threads that found no free slot.
    Unrecorded = 4,
    /// 1 once the plugin has started.
    Started = 5,
}

impl Status {
    /// The offset of its word.
    pub fn offset(self) -> usize {
        STATUS + 8 * self as usize
    }
}

/// The memory, as `pinfold record` sees it.
#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    /// Initialises the memory in an empty file, with the settings.
    pub fn create(file: File, settings: &Settings) -> io::Result<Self> {
        file.set_len(SIZE as u64)?;
        let text = serde_json::to_vec(settings)?;
        file.write_all_at(&(text.len() as u64).to_ne_bytes(), 0)?;
        file.write_all_at(&text, 8)?;
        Ok(Self(file))
    }

    /// The file that holds the memory.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// A word of the status.
    pub fn status(&self, which: Status) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, which.offset() as u64)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Completes the recording of a program that ended during the recording: appends the unfinished blocks and the end
    /// mark.
    pub fn complete(&self, output: &Path) -> Result<(), TraceError> {
        let (recording, _) = Recording::salvage(output)?;
        self.append_blocks(&recording, output)
            .map_err(|source| TraceError::File {
                path: output.to_owned(),
                source,
            })
    }

    fn append_blocks(&self, recording: &Recording, output: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(output)?;
        // Removes an incomplete frame.
        file.set_len(recording.file_size())?;
        let mut slot = vec![0; SLOT];
        for index in 0..SLOTS {
            let offset = SLOTS_BEGIN + index * SLOT;
            self.0.read_exact_at(&mut slot[..24], offset as u64)?;
            if slot[..24].iter().all(|byte| *byte == 0) {
                continue;
            }
            self.0.read_exact_at(&mut slot, offset as u64)?;
            let salvaged = Output::from_memory(&slot).and_then(|block| block.salvaged());
            let Some((thread, first_instruction, block)) = salvaged else {
                continue;
            };
            // The program may have been killed after writing a block and before starting the next.
            let written = recording
                .threads()
                .iter()
                .find(|known| known.number == thread)
                .and_then(|known| known.blocks.last())
                .is_some_and(|last| last.first_instruction + last.instructions > first_instruction);
            if !written && let Ok(frame) = Writer::salvaged_block(thread, first_instruction, &block) {
                file.write_all(&frame)?;
            }
        }
        file.write_all(&Writer::end())
    }
}
