//! A policy's view of a program: its working tasks, the metric that counts its progress, and its rate.
//! `observed_program` is the interface; the other files are its parts.

pub(crate) mod flow;
pub(crate) mod function_search;
pub(crate) mod meter;
pub(crate) mod metric_choice;
pub(crate) mod observed_program;
pub(crate) mod opening;
pub(crate) mod requested;
mod roles;
pub(crate) mod times;
pub(crate) mod working_tasks;
