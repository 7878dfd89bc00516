//! Recordings: the data accesses of a program's threads, and what orders the threads.
//!
//! A recording is made by the plugin in `crates/plugin` while the program runs under qemu-user, and read by the
//! simulator and by `pinfold trace`. docs/formats.md describes the file. In the order in which data flow:
//!
//! - [`Encoder`] turns one thread's accesses and events into a block of bytes, predicting each from those before;
//! - [`Writer`] compresses blocks, guards them with a checksum and appends them to a file;
//! - [`Recording`] opens a file, strictly or saving what precedes a damage, and hands out a [`ThreadReader`] for each
//!   thread, which gives the accesses back in batches;
//! - [`Summary`], [`Metrics`] and [`Mappings`] are what can be said about a recording without any machine.

mod block;
mod bytes;
mod decoder;
mod encoder;
mod error;
mod event;
mod file;
mod footprint;
mod mappings;
mod place;
mod predictor;
mod reader;
mod reuse;
pub mod shared;
mod summary;
mod writer;

pub use block::{Access, Site};
pub use decoder::{Batch, FromAccess};
pub use encoder::{BLOCK_ACCESSES, BLOCK_CAPACITY, Encoder, Finished, Output};
pub use error::TraceError;
pub use event::{Event, EventKind, NO_PARENT};
pub use file::{BlockEntry, FORMAT_VERSION, Header, Region, Window};
pub use mappings::{Area, Backing, Mappings, PageAccesses};
pub use place::{Functions, MappedFile, RegionPlace};
pub use reader::{Recording, Thread, ThreadReader};
pub use summary::{Metrics, RegionSummary, Summary, ThreadSummary};
pub use writer::Writer;
