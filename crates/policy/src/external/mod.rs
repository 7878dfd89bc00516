//! A policy in another process, such as one that is written in Python.
//!
//! 1. `message`: the questions and answers of the conversation, as JSON (docs/formats/policy.md).
//! 2. `wanted`: what such a policy wants, and its check against the machine.
//! 3. `policy`: the loop's side. It asks through an `Exchange`, so that nothing here knows processes or sockets.

mod message;
mod policy;
mod wanted;

pub use message::{Answer, AppliedView, MetricView, Question, SampleView, TaskView};
pub use policy::{Exchange, External};
pub use wanted::{Wanted, WantedConfiguration, WantedError, note};
