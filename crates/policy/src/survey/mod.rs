//! A survey: many configurations of a program while it runs, each measured several times.
//!
//! - `configuration`: the configurations, and which of them have their pages at the same places;
//! - `schedule`: the order: passes over the places of pages, and in each of them all configurations in random order;
//! - `subjects`: what is measured, and `walk`: the way of these through a list of configurations;
//! - `drift`: how the speed of the program changes while it is measured, and `estimate`: the times without that;
//! - `results`: what was measured, in this run and in earlier ones (`sessions`), `known` what is still due, and
//!   `outlook` how long that takes;
//! - `findings`: what users see of it, `request` what is requested of the machine, and `refusals` what it refuses;
//! - `policy`: the order of events.

mod configuration;
mod drift;
mod estimate;
mod findings;
mod known;
mod options;
mod outlook;
mod policy;
mod refusals;
mod request;
mod results;
mod schedule;
mod sessions;
mod subjects;
mod walk;

pub use configuration::SurveyConfiguration;
pub use findings::{SurveyEnded, SurveyProgress};
pub use options::{By, Configurations, SurveyOptions, Surveyed};
pub use policy::Survey;
pub use results::{Measured, Subject, THIS_RUN, Turn, measured};
