//! The machine at hand, with one program running on it.

use crate::launch::{Attach, AttachError, Launch, LaunchError, Phase, Ranked, Running};
use pinfold_core::{Applied, Configuration, Machine, MachineError, Metric, NodeId, Sample, Topology, Wait};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// The machine at hand, and the program that was launched on it, or that runs on it already.
///
/// # Where tasks run
///
/// Each thread is pinned before its first instruction, to the PU of its rank. A process's first thread is an exception:
/// runtimes (libgomp, libomp, Go) read at their start the number of PUs on which they may run, and create as many
/// threads. So a first thread that is alone keeps its original mask for the time `Launch::grace` after its creation and
/// after each exec. It also keeps it while LLVM's OpenMP runtime is mapped, which reads the mask at the program's first
/// use of it. For programs that read it later, or from another thread (Java does), the agent answers.
///
/// No task is ever placed outside its original mask. A task that sets its own mask keeps it, and that is reported once.
/// A mask that is as wide as the original one was reset by the runtime (libomp does so in each new thread). It is
/// narrowed again a tenth of a second after the thread began, or when the masks are next read: by `observe` at most
/// once a second, and by `apply`.
///
/// # The end
///
/// When the main process ends, the remaining tasks of the program get their original masks back and continue. If the
/// machine is dropped before, the program ends, unless it was launched to outlive pinfold. A program that ran before is
/// let go as it was: at its end, at a signal to pinfold, and when the machine is dropped.
///
/// # Limits
///
/// If the first thread of a process ends before the others, that is only seen at the next observation. A program with
/// the set-user-id bit runs without it unless pinfold is root, as all traced programs. While a thread is observed no
/// other one can begin or end: some microseconds per thread.
pub struct LinuxMachine {
    running: Running,
    topology: Topology,
}

impl LinuxMachine {
    /// Starts the program and follows it. Returns after its exec. From then on until the machine is dropped, signals
    /// that are sent to this process are forwarded to the program. Call it while the process has few threads: other
    /// threads that do not block the signals would receive them.
    pub fn launch(launch: Launch) -> Result<Self, LaunchError> {
        let topology = launch.topology.clone();
        Ok(Self {
            running: Running::start(launch)?,
            topology,
        })
    }

    /// Attaches to a running process, with its threads and descendants, and follows it as if it had been launched here.
    /// From then on until the machine is dropped, SIGHUP, SIGINT, SIGQUIT and SIGTERM to this process end `wait`. Call
    /// it while the process has few threads, as `launch`.
    pub fn attach(attach: Attach) -> Result<Self, AttachError> {
        let topology = attach.topology.clone();
        Ok(Self {
            running: Running::attach(attach)?,
            topology,
        })
    }

    /// The number of tasks that the program has had so far.
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

    fn memory_by_node(&mut self) -> Option<BTreeMap<NodeId, u64>> {
        // On one node there is nothing to distinguish.
        if self.topology.nodes().len() < 2 {
            return None;
        }
        self.running.pages.by_node(&self.running.shared)
    }

    fn apply(&mut self, configuration: &Configuration) -> Applied {
        let (before, mut applied, after) = {
            let mut state = self.running.shared.lock();
            let before = state.program.ranked();
            let applied = state.program.apply(configuration);
            (before, applied, state.program.ranked())
        };
        let after = if configuration.regions.is_empty() {
            after
        } else {
            placed_by_agent(after, configuration)
        };
        let Running { shared, pages, .. } = &mut self.running;
        pages.apply(shared, &self.topology, configuration, [&before, &after], &mut applied);
        applied
    }

    fn let_go(&mut self) -> Applied {
        self.running.let_go()
    }

    fn now(&self) -> Duration {
        let began = self.running.shared.lock().began;
        began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    fn wait(&mut self, duration: Duration) -> Result<Wait, MachineError> {
        let deadline = Instant::now().checked_add(duration);
        let end = self.running.until;
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
            if state.end_wanted || end.is_some_and(|end| end <= now) {
                return Ok(Wait::Left);
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(Wait::Elapsed);
            }
            let until = [deadline, end, state.program.next_verification()];
            let until = until.into_iter().flatten().min();
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

/// The ranked tasks, each on the PU outside of regions: there the agent places them, and pages are where these threads are.
fn placed_by_agent(ranked: Vec<Ranked>, configuration: &Configuration) -> Vec<Ranked> {
    let pinning = configuration.pinning.as_ref();
    ranked
        .into_iter()
        .map(|(task, rank, pu)| (task, rank, pu.or_else(|| Some(pinning?.pu(rank)))))
        .collect()
}
