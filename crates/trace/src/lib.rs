//! Recordings: the data accesses of a program's threads, and the events that order the threads.
//!
//! The plugin in `crates/plugin` makes a recording while the program runs under qemu-user. The simulator and `pinfold
//! trace` read it. docs/formats/internals/recordings.md describes the file. The parts in the order of the data flow:
//!
//! - [`Encoder`] encodes one thread's accesses and events into a block of bytes, and predicts each from earlier ones;
//! - [`Writer`] compresses blocks, adds a checksum and appends them to a file;
//! - [`Recording`] opens a file, either completely or up to the first damage, and has a [`ThreadReader`] for each
//!   thread, which returns the accesses in batches;
//! - [`Summary`], [`Metrics`] and [`Mappings`] are properties of a recording that do not depend on a machine.

mod block;
mod bytes;
mod code;
mod decoder;
mod encoder;
mod error;
mod event;
mod file;
mod footprint;
mod interactions;
mod mappings;
mod place;
mod predictor;
mod reader;
mod reuse;
pub mod shared;
mod summary;
mod writer;

pub use block::{Access, Site};
pub use code::CodeBlock;
pub use decoder::{Batch, Context, FromAccess};
pub use encoder::{BLOCK_ACCESSES, BLOCK_CAPACITY, Encoder, Finished, Output};
pub use error::TraceError;
pub use event::{Event, EventKind, NO_PARENT};
pub use file::{BlockEntry, FORMAT_VERSION, Header, Region, Window};
pub use interactions::{InteractionMetrics, Interactions, LineStatistics, Matrix, PairMetrics, Spread, ThreadPlaces};
pub use mappings::{Area, Backing, Mappings, PageAccesses};
pub use place::{Functions, MappedFile, RegionPlace};
pub use reader::{Recording, Thread, ThreadReader, is_recording};
pub use summary::{Metrics, RegionSummary, Summary, ThreadSummary};
pub use writer::Writer;
