//! The baselines. `fixed` keeps one pinning. `hint` keeps the placement that an affinity hint gives for the working
//! threads, and so do the policies that are called like other placements with names. `none` keeps the program unpinned.
//! All only measure, by the same rules as `autopin`, so that their rate lines can be compared. `Unchanged` does not even
//! measure.

mod policy;
mod unchanged;
mod user_settings;

pub use policy::{Fixed, Kept};
pub use unchanged::Unchanged;
pub use user_settings::WithUserSettings;
