//! This machine, with one program running on it.

use crate::claims::{Claims, Taken};
use crate::energy::EnergyCounters;
use crate::launch::{Attach, AttachError, Launch, LaunchError, Phase, Ranked, Running};
use crate::region_code::RegionCode;
use pinfold_core::function::FunctionRequest;
use pinfold_core::{
    Applied, Configuration, Instead, Machine, MachineError, MachineKind, Metric, NodeId, Pinning, PuSet, Refusal,
    RefusalCode, RegionCounts, RegionId, Sample, Topology, Wait,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// This machine, and the program that was launched on it or attached to.
///
/// # Placement of tasks
///
/// Each thread is pinned before its first instruction, to the PU of its rank. A process's first thread is an exception:
/// runtimes (libgomp, libomp, Go) read the number of available PUs at their start, and create as many threads. So a
/// first thread that is alone keeps its original mask for the time `Launch::grace` after its creation and after each
/// exec. It also keeps it while LLVM's OpenMP runtime is mapped, because that runtime reads the mask when the program
/// first uses it. For programs that read the mask later, or from another thread (Java does), the agent answers.
///
/// No task is ever placed outside its original mask. A task that sets its own mask keeps it, and that is reported once.
/// If a mask is as wide as the original one, the runtime has reset it (libomp does so in each new thread). It is
/// narrowed again a tenth of a second after the thread started, or when the masks are next read: by `observe` at most
/// once a second, and by `apply`.
///
/// Unpinned tasks run on the PUs of `Configuration::within`, or on all that the program may use if it names none
/// (`launch::limit`).
///
/// With `Launch::preferring` no mask is written: threads have preferences (`launch::preferring`).
///
/// # The end
///
/// When the main process ends, the remaining tasks of the program get their original masks back and continue. If the
/// machine is dropped before that, the program ends, unless it was launched to outlive pinfold. An attached program is
/// let go with its original masks: at its end, at a signal to pinfold, and when the machine is dropped.
///
/// # Limits
///
/// If the first thread of a process ends before the others, that is only seen at the next observation. A program with
/// the set-user-id bit runs without that privilege unless pinfold is root, like all traced programs. While a thread is
/// observed no other thread can start or end: this takes some microseconds per thread.
pub struct LinuxMachine {
    running: Running,
    topology: Topology,
    sharing: Option<Sharing>,
    /// `None` if the energy is not measured.
    energy: Option<EnergyCounters>,
}

/// The interval of checks for claims of other runs. Each check reads a file of each of them.
const LOOKING: Duration = Duration::from_secs(1);
/// The time that a claim outlasts its pinning, so that a search in turns finds its PUs again.
const KEPT: Duration = Duration::from_secs(10);

/// The sharing of PUs with other runs of pinfold.
struct Sharing {
    claims: Claims,
    /// The whole machine, including the PUs of other runs.
    whole: Topology,
    /// The PUs of the current and of the previous pinning.
    present: PuSet,
    before: PuSet,
    changed: Instant,
    looked: Option<Instant>,
    notes: Vec<String>,
    reported: BTreeSet<String>,
}

impl Sharing {
    fn new(claims: Claims, whole: &Topology, initial: Option<&Pinning>) -> Self {
        Self {
            claims,
            whole: whole.clone(),
            present: initial
                .map(|pinning| pinning.pus().iter().copied().collect())
                .unwrap_or_default(),
            before: PuSet::new(),
            changed: Instant::now(),
            looked: None,
            notes: vec![],
            reported: BTreeSet::new(),
        }
    }

    /// The machine without the PUs of other runs, or all of it if they have all PUs. `None` if no check is due.
    fn look(&mut self) -> Option<Topology> {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOKING) {
            return None;
        }
        self.looked = Some(Instant::now());
        if self.changed.elapsed() > KEPT && !self.before.is_empty() {
            self.before = PuSet::new();
            let _ = self.claims.claim(&self.present);
        }
        let (taken, notes) = self.claims.taken();
        self.notes
            .extend(notes.into_iter().filter(|note| self.reported.insert(note.clone())));
        let free = self.whole.allowed_pus().difference(&taken);
        Some(
            self.whole
                .clone()
                .restricted_to(&free)
                .unwrap_or_else(|_| self.whole.clone()),
        )
    }

    /// Claims the PUs of a configuration, and keeps the previous ones for a while.
    fn claim(&mut self, configuration: &Configuration) -> Result<(), Taken> {
        let regions = configuration
            .regions
            .values()
            .filter_map(|region| region.pinning.as_ref());
        let pinnings = configuration.pinning.iter().chain(regions);
        let wanted: PuSet = pinnings.flat_map(|pinning| pinning.pus().iter().copied()).collect();
        if wanted == self.present {
            return Ok(());
        }
        let mut both = self.present.clone();
        both.extend(wanted.iter());
        self.claims.claim(&both)?;
        self.before = std::mem::replace(&mut self.present, wanted);
        self.changed = Instant::now();
        Ok(())
    }
}

impl LinuxMachine {
    /// Starts the program and follows it. Returns after its exec. From then on until the machine is dropped, signals to
    /// this process are forwarded to the program. Call it while the process has few threads: other threads that do not
    /// block the signals would receive them.
    pub fn launch(mut launch: Launch) -> Result<Self, LaunchError> {
        let topology = launch.topology.clone();
        let claims = launch.claims.take();
        let mut sharing = claims.map(|claims| Sharing::new(claims, &topology, launch.initial.as_ref()));
        let topology = sharing.as_mut().and_then(Sharing::look).unwrap_or(topology);
        Ok(Self {
            running: Running::start(launch)?,
            topology,
            sharing,
            energy: None,
        })
    }

    /// Attaches to a running process, with its threads and descendants, and follows it as if it had been launched here.
    /// From then on until the machine is dropped, SIGHUP, SIGINT, SIGQUIT and SIGTERM to this process end `wait`. Call
    /// it while the process has few threads, like `launch`.
    pub fn attach(mut attach: Attach) -> Result<Self, AttachError> {
        let topology = attach.topology.clone();
        let claims = attach.claims.take();
        let mut sharing = claims.map(|claims| Sharing::new(claims, &topology, attach.initial.as_ref()));
        let topology = sharing.as_mut().and_then(Sharing::look).unwrap_or(topology);
        Ok(Self {
            running: Running::attach(attach)?,
            topology,
            sharing,
            energy: None,
        })
    }

    /// Lists the metric `function`, and looks for one when a policy requests that.
    pub fn find_functions(&mut self) {
        let program = &mut self.running.shared.lock().program;
        program.find_functions();
        self.running.metrics = program.metrics().to_vec();
    }

    /// Measures the energy of the machine from now on, where it can.
    pub fn measure_energy(&mut self) {
        self.energy = EnergyCounters::begin();
    }

    /// Looks up the code of parallel regions from now on.
    pub fn find_region_code(&mut self) {
        self.running.shared.lock().program.find_region_code();
    }

    /// The code of the regions that have run, without code in no file.
    pub fn region_code(&self) -> BTreeMap<RegionId, RegionCode> {
        self.running.shared.lock().program.region_code()
    }

    /// Looks up the code of a region while the machine is in use elsewhere.
    pub fn region_codes(&self) -> impl Fn(RegionId) -> Option<RegionCode> + use<> {
        let shared = Arc::clone(&self.running.shared);
        move |id| shared.lock().program.code_of_region(id)
    }

    /// The number of tasks that have started in the program.
    pub fn tasks_started(&self) -> u64 {
        self.running.shared.lock().program.tasks_started()
    }
}

impl Machine for LinuxMachine {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn kind(&self) -> MachineKind {
        MachineKind::Live
    }

    fn metrics(&self) -> &[Metric] {
        &self.running.metrics
    }

    fn observe(&mut self) -> Sample {
        if let Some(topology) = self.sharing.as_mut().and_then(Sharing::look) {
            self.topology = topology;
        }
        let mut state = self.running.shared.lock();
        let at = state.began.map_or(Duration::ZERO, |began| began.elapsed());
        let sample = state.program.observe(at);
        drop(state);
        let counts = |energy: &mut EnergyCounters| {
            let energy = energy.read();
            RegionCounts {
                core_joules: energy.cores,
                package_joules: energy.packages,
                memory_joules: energy.memory,
                ..RegionCounts::default()
            }
        };
        Sample {
            machine: self.energy.as_mut().map(counts),
            ..sample
        }
    }

    fn take_notes(&mut self) -> Vec<String> {
        let mut notes = self.running.shared.lock().program.take_notes();
        if let Some(sharing) = &mut self.sharing {
            notes.append(&mut sharing.notes);
        }
        notes
    }

    fn memory_by_node(&mut self) -> Option<BTreeMap<NodeId, u64>> {
        // With one node there is nothing to distinguish.
        if self.topology.nodes().len() < 2 {
            return None;
        }
        self.running.pages.memory_by_node(&self.running.shared)
    }

    fn apply(&mut self, configuration: &Configuration) -> Applied {
        let taken = self
            .sharing
            .as_mut()
            .and_then(|sharing| sharing.claim(configuration).err());
        let left = taken.map(|taken| left_to_others(configuration, taken));
        let configuration = left.as_ref().map_or(configuration, |left| &left.configuration);
        let (before, mut applied, after, refuse) = {
            let mut state = self.running.shared.lock();
            let before = state.program.ranked();
            let applied = state.program.apply(configuration);
            (before, applied, state.program.ranked(), state.program.all_refuse())
        };
        let after = if configuration.regions.is_empty() {
            after
        } else {
            placed_by_agent(after, configuration)
        };
        let Running { shared, pages, .. } = &mut self.running;
        pages.apply(shared, &self.topology, configuration, [&before, &after], &mut applied);
        if let Some(left) = left {
            let why = format!("The placement is not applied, and threads run unpinned: {}.", left.why);
            applied.refused.push(Refusal::for_machine(RefusalCode::Claimed, why));
            applied.instead = Some(left);
        } else if let (Some(why), true) = (
            refuse,
            configuration.pinning.is_some() && configuration.regions.is_empty(),
        ) {
            applied.instead = Some(unpinned(configuration, why));
        }
        applied
    }

    fn look_for_function(&mut self, request: &FunctionRequest) {
        self.running.shared.lock().program.look_for_function(request);
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
            state.notice_end();
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

/// The configuration without its pinnings, because another run has one of their PUs.
fn left_to_others(configuration: &Configuration, taken: Taken) -> Instead {
    let Taken { pu, by } = taken;
    let why = format!("another pinfold (process {by}) has pinned its program to CPU {pu}");
    unpinned(configuration, why)
}

/// The configuration without its pinnings.
fn unpinned(configuration: &Configuration, why: String) -> Instead {
    let mut configuration = configuration.clone();
    configuration.pinning = None;
    configuration.regions.clear();
    Instead { configuration, why }
}

/// The ranked tasks, each on its PU outside of regions. The agent places them there, and pages follow these places.
fn placed_by_agent(ranked: Vec<Ranked>, configuration: &Configuration) -> Vec<Ranked> {
    let pinning = configuration.pinning.as_ref();
    ranked
        .into_iter()
        .map(|(task, rank, pu)| (task, rank, pu.or_else(|| Some(pinning?.pu(rank)))))
        .collect()
}
