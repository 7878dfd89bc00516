//! SAM's mapper, on a machine of formulas (`world`): what the paper says that it does, what it adds, and what it must
//! never do.

#[path = "../../../core/tests/support/hybrid.rs"]
mod hybrid;

mod examples;
mod fair;
mod properties;
mod world;
