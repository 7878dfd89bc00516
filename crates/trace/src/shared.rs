//! The memory that `pinfold record` shares with the plugin: what to do, what became of it, and the blocks in the
//! making. When the recorded program has ended, by itself or by a kill, pinfold finds them here.
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

/// Where the status begins.
pub const STATUS: usize = 64 << 10;
/// Where the first slot begins.
pub const SLOTS_BEGIN: usize = 68 << 10;
/// From one slot to the next: an `Output`, rounded up to pages.
pub const SLOT: usize = size_of::<Output>().next_multiple_of(4096);
/// Threads that can live at one time.
pub const SLOTS: usize = 4096;
/// All of it. Pages that are never written take no memory.
pub const SIZE: usize = SLOTS_BEGIN + SLOTS * SLOT;

/// The mark that the agent makes for the plugin: a system call of this number, which no kernel has, so that it does
/// nothing but fail.
pub const MARK_SYSCALL: i64 = 0x7069_6e66;
/// Its first argument.
pub const MARK_MAGIC: u64 = 0x0070_696e_666f_6c64;

/// What the plugin is to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The recording. Its header is written; frames are appended.
    pub output: PathBuf,
    /// Which part of the run.
    pub window: Option<Window>,
}

/// What became of it. The words are 0 until something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The system's error number when the recording could not be written.
    WriteError = 0,
    /// 1 when the recording was completed.
    Complete = 1,
    /// 1 while the program's process tries to replace itself by `exec`.
    Exec = 2,
    /// Processes that the program forked.
    Forks = 3,
    /// Threads that found no slot.
    Unrecorded = 4,
    /// 1 when the plugin was started at all.
    Started = 5,
}

impl Status {
    /// Where its word lies.
    pub fn offset(self) -> usize {
        STATUS + 8 * self as usize
    }
}

/// The memory, on the side of `pinfold record`.
#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    /// Lays the memory out in an empty file, with the settings.
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

    /// Completes the recording of a program that was ended while it was recorded: appends the blocks that the program left
    /// unfinished, and the end mark.
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
        // Removes a frame that was cut off in the middle.
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
            // The program may have been killed between writing a block and beginning the next.
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
