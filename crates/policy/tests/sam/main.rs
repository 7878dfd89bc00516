//! SAM's mapper, on a machine of formulas (`world`): what the paper says that it does, what it adds, and what it must
//! never do.

mod examples;
mod properties;
mod world;
