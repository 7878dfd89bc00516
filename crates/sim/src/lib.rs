//! Simulated machines. The scripted one has its rates given, for tests of the loop and of policies, and for trying
//! out what a policy would do.

mod random;
mod script;
mod scripted;

pub use script::{Script, ScriptError};
pub use scripted::Scripted;
