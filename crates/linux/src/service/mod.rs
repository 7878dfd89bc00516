//! What a service needs of the system: one of it only, privileges that it gives up, signals that tell it what to do, and a
//! word to the service manager.

mod capabilities;
mod lock;
mod notify;
mod signals;
mod users;

pub use capabilities::{CapabilityError, keep_only_what_is_needed};
pub use lock::{Instance, InstanceError};
pub use notify::notify;
pub use signals::{Signals, raise_descriptor_limit};
pub use users::{UserError, Users};
