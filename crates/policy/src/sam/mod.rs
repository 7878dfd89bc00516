//! SAM, the sharing-aware mapper (Srikanthan, Dwarkadas and Shen, "Data Sharing or Resource Contention: Toward
//! Performance Transparency on Multicore Systems", USENIX ATC 2015): tasks that share data go together, memory-bound
//! tasks apart.
//!
//! `Mapper` is the algorithm of figures 3 and 4, and pure: what each task did in the last interval comes in, per
//! unhalted cycle (`TaskRates`), and moves come out (`Move`), each with the figure that caused it. Three steps, in the
//! order of their priority:
//!
//! 1. `coherence`: tasks with coherence traffic between domains are brought together;
//! 2. `remote`: tasks that use another node's memory go back to it;
//! 3. `bandwidth`: where a domain's memory is saturated, memory-intensive tasks go to others.
//!
//! `Sam` is the policy that has the mapper decide in the loop, for one program; `observe` makes rates of two samples.
//!
//! Each file says how the figure is read where it is open or has misprints. `shape` says what the domains are on a
//! machine that has more than the paper's two packages, `placement_sets` has the sets of figure 3, `groups` which tasks share data
//! as far as that is known, `faint` tries those that share less than the threshold, `worth` weighs a move's gain
//! against its cost, `memory` is what is kept of a task between decisions, `trial` how moves are validated, `options`
//! the thresholds and what can be switched off of what the paper does not have.
//!
//! Known limits: the mapper sees tasks and not the machine's other load; frequencies are taken to be equal, since rates
//! of a package are sums of rates per unhalted cycle; a group that fits into no domain is not divided by who shares
//! most; a task that changes places with one of another group, because each is to go where the other is, is in the
//! trial of the other's group alone.

mod bandwidth;
mod coherence;
mod faint;
mod groups;
mod mapper;
mod memory;
mod observe;
mod options;
mod placement_sets;
mod policy;
mod rates;
mod remote;
mod round;
mod shape;
mod trial;
mod worth;

pub use mapper::Mapper;
pub use observe::{ActivityEvents, MapperEvents, NotCounted, Observer, rate};
pub use options::{MapperOptions, Thresholds, ThresholdsError};
pub use policy::{Sam, SamOptions};
pub use rates::TaskRates;

pub use pinfold_core::{Activity, MoveReason as Reason, TaskMove as Move};
