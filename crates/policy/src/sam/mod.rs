//! SAM, the sharing-aware mapper (Srikanthan, Dwarkadas and Shen, "Data Sharing or Resource Contention: Toward
//! Performance Transparency on Multicore Systems", USENIX ATC 2015): it gathers tasks that share data and separates
//! memory-intensive tasks.
//!
//! `Mapper` is the algorithm of figures 3 and 4. It is pure: the rates of each task in the last interval, per unhalted
//! cycle (`TaskRates`), give moves (`Move`), each with the rate that caused it. It has three steps, in the order of
//! their priority:
//!
//! 1. `coherence`: tasks with coherence traffic between domains are gathered.
//! 2. `remote`: tasks that use another node's memory go back to it.
//! 3. `bandwidth`: memory-intensive tasks leave domains whose memory is saturated.
//!
//! The moves of the first step lower a potential (`potential`), so that groups do not take each other's place for ever.
//!
//! `Sam` is the policy that runs the mapper in the loop, for one program. `observe` computes rates from two samples.
//!
//! Each file says how it reads the figure if the figure is open or has misprints:
//!
//! - `shape`: the domains of a machine that differs from the paper's two packages;
//! - `placement_sets`: the sets of figure 3;
//! - `groups`: the tasks that are known or assumed to share data;
//! - `faint`: tasks that share less than the threshold;
//! - `memory`: the state of each task between decisions;
//! - `trial`, `trials`: the validation of moves;
//! - `fair`: the comparison of all moves with the unpinned machine;
//! - `options`: the thresholds, and the switches for abilities beyond the paper.
//!
//! The source of each constant stands beside it: a section of the paper, a definition, or "assumed" if nothing is
//! published. The assumed constants are times in intervals, and shares. The evaluation shows the cost of a threshold
//! that is wrong by some factor, and the worth of each ability.
//!
//! Known limits: the mapper sees tasks and not the machine's other load. It assumes equal frequencies, since rates of a
//! package are sums of rates per unhalted cycle. A group that fits into no domain is divided without regard to how much
//! its tasks share. If tasks of two groups exchange their places because each belongs in the other's domain, both are
//! in the trial of one group only.

mod bandwidth;
mod coherence;
mod faint;
mod fair;
mod groups;
mod mapper;
mod memory;
mod observe;
mod options;
mod placement_sets;
mod policy;
mod potential;
mod rates;
mod remote;
mod round;
mod shape;
mod trial;
mod trials;

pub use fair::FairMapper;
pub use mapper::Mapper;
pub use observe::{ActivityEvents, MapperEvents, NotCounted, Observer, ReadEvents, rate};
pub use options::{MapperOptions, Thresholds, ThresholdsError};
pub use policy::{Sam, SamOptions};
pub use rates::{Reads, TaskRates};

pub use pinfold_core::{Activity, Excess, MoveReason as Reason, TaskMove as Move};
