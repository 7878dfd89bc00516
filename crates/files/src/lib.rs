//! Files that commands read, write and lock.
//!
//! - [`input`] reads files that other users may have written;
//! - [`output`] checks early whether a result can be written, and writes it completely or not at all;
//! - [`own`] opens files that belong to this user alone;
//! - [`lock`] locks such files, and names the process that holds a lock.

pub mod input;
pub mod lock;
pub mod output;
pub mod own;
