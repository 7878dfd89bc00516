//! System services for a daemon: a lock so that it runs once, dropping of privileges, signals, messages to the service
//! manager, and a server for its state.

mod capabilities;
mod http;
mod lock;
mod notify;
mod on_request;
mod signals;
mod users;

pub use capabilities::{CapabilityError, keep_only_what_is_needed};
pub use http::{Answer, ListenError, Listeners, Response, Server};
pub use lock::{Instance, InstanceError};
pub use notify::notify;
pub use on_request::OnRequest;
pub use signals::{Signals, raise_descriptor_limit};
pub use users::{UserError, Users};
