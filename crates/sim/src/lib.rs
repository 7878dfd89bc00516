//! Simulated machines. The scripted one has its rates given, for tests of the loop and of policies, and for trying
//! out what a policy would do.

pub mod model;
mod random;
mod script;
mod scripted;
pub mod window;

pub use script::{Script, ScriptError};
pub use scripted::Scripted;
