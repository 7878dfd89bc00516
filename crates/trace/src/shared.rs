//! The memory that `pinfold record` shares with the plugin: what to do, what became of it, and the blocks in the
//! making. When the recorded program has ended, by itself or by a kill, pinfold finds them here.
//!
//! | bytes from | what |
//! |---|---|
//! | 0 | length of the settings (8 bytes), then the settings as JSON |
//! | `STATUS` | the words of [`Status`] |
//! | `SLOTS_BEGIN + i * SLOT` | the `Output` of the thread that has QEMU's vcpu index `i` |

use crate::{Output, Window};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
