//! The machine at hand, with one program running on it.

use crate::launch::{Launch, LaunchError, Phase, Running};
use pinfold_core::{Applied, Configuration, Machine, MachineError, Metric, Sample, Topology, Wait};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// The machine at hand, and the program that was launched on it.
///
/// # Where tasks run
///
/// Each thread is pinned before its first instruction, to the PU of its rank. A process's first thread is an
/// exception: runtimes (libgomp, libomp, Go) ask at their start on how many PUs they may run, and make as many
/// threads. So from its creation, and again from each exec, a first thread that is alone keeps all the PUs that it
/// would have without us for the time `Launch::grace`, and for as long as LLVM's OpenMP runtime is mapped, which asks
/// at the program's first use of it. Programs that ask later, or from another thread (Java does), are answered by the
/// agent.
///
/// No task is ever put on a PU outside the mask that it would have without us. A task that gives itself a mask of its
/// own keeps it, and that is reported once; a mask that is as wide again as the one it would have without us was reset by
/// its runtime (libomp does so in each new thread), and is narrowed again a tenth of a second after the thread began,
/// or when the masks are looked at next: by `observe` at most once a second, and by `apply`.
///
/// # The end
///
/// When the main process ends, what is left of the program is given back the PUs that it would have without us, and
/// goes on by itself. Dropping the machine before ends the program, unless it was launched to outlive us.
///
/// # Limits
///
/// A process whose first thread ends before its others is only seen to have lost it when it is observed. A program
/// with the set-user-id bit runs without it unless we are root, as all that is traced. While a thread is observed no
/// other can begin or end: some microseconds a thread.
pub struct LinuxMachine {
    running: Running,
    topology: Topology,
}

impl LinuxMachine {
    /// Starts the program and follows it. Back when it has been executed. From then on until the machine is dropped,
    /// signals that are sent to this process go to the program; the thread that calls must be one of few, since other
    /// threads that do not block the signals would take them.
    pub fn launch(launch: Launch) -> Result<Self, LaunchError> {
        let topology = launch.topology.clone();
        Ok(Self {
            running: Running::start(launch)?,
            topology,
        })
    }

    /// How many tasks the program has had so far.
    pub fn tasks_begun(&self) -> u64 {
        self.running.shared.lock().program.tasks_begun()
    }
}

impl Machine for LinuxMachine {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn simulated(&self) -> bool {
        false
    }

    fn metrics(&self) -> &[Metric] {
        &self.running.metrics
    }

    fn observe(&mut self) -> Sample {
        let mut state = self.running.shared.lock();
        let at = state.began.map_or(Duration::ZERO, |began| began.elapsed());
        state.program.observe(at)
    }

    fn take_notes(&mut self) -> Vec<String> {
        self.running.shared.lock().program.take_notes()
    }

    fn apply(&mut self, configuration: &Configuration) -> Applied {
        let (before, mut applied, after) = {
            let mut state = self.running.shared.lock();
            let before = state.program.ranked();
            let applied = state.program.apply(configuration);
            (before, applied, state.program.ranked())
        };
        let Running { shared, pages, .. } = &mut self.running;
        pages.apply(shared, &self.topology, configuration, [&before, &after], &mut applied);
        applied
    }

    fn now(&self) -> Duration {
        let began = self.running.shared.lock().began;
        began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    fn wait(&mut self, duration: Duration) -> Result<Wait, MachineError> {
        let deadline = Instant::now().checked_add(duration);
        let mut state = self.running.shared.lock();
        loop {
            match &state.phase {
                Phase::Over(Some(status)) => return Ok(Wait::Ended(*status)),
                Phase::Over(None) => return Err(MachineError("the program is no longer followed".to_owned())),
                Phase::Failed(error) => return Err(MachineError(error.to_string())),
                Phase::Starting | Phase::Running | Phase::Leaving(_) => {}
            }
            state.program.verify_if_due();
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(Wait::Elapsed);
            }
            let until = deadline.into_iter().chain(state.program.next_verification()).min();
            let changed = &self.running.shared.changed;
            state = match until {
                Some(until) => {
                    changed
                        .wait_timeout(state, until.saturating_duration_since(now))
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
