//! A followed program, and the threads that follow it: their start and their end.

use super::counting::Counting;
use super::exec::Prepared;
use super::limit::Limit;
use super::signals::{Blocked, Forwarder, wake_up};
use super::waiting::Changes;
use super::{Attach, AttachError, FollowError, Launch, LaunchError, Phase, Program, ProgramPages, Shared, State};
use super::{inherited, preferring, tracer};
use crate::affinity::CpuMask;
use crate::cpuset::Cpusets;
use crate::journal::Journal;
use crate::requested::Requested;
use pinfold_core::{Applied, Metric, Refusal, RefusalCode};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The interval of wake-ups for a tracer that has to end, until it has ended.
const WAKING: Duration = Duration::from_millis(1);

/// A followed program, and the threads that follow it.
pub(crate) struct Running {
    pub(crate) shared: Arc<Shared>,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) pages: ProgramPages,
    /// The time when an attached program is let go.
    pub(crate) until: Option<Instant>,
    outlive: bool,
    tracer: Option<JoinHandle<()>>,
    forwarder: Option<Forwarder>,
    /// This is unblocked last, after the forwarder has ended: fields are dropped in this order.
    _blocked: Blocked,
}

/// Converts a missing resource of pinfold itself into an error.
fn resource(what: &'static str) -> impl Fn(io::Error) -> LaunchError {
    move |error| LaunchError::Resource { what, error }
}

impl Running {
    /// Starts the program. Returns after its exec.
    pub(crate) fn start(launch: Launch) -> Result<Self, LaunchError> {
        let unknown = resource("without the list of allowed PUs");
        let usable = CpuMask::read(0).map_err(&unknown)?.to_set();
        let pus = usable.intersection(launch.topology.allowed_pus());
        if pus.is_empty() {
            return Err(LaunchError::NoPu {
                topology: launch.topology.allowed_pus().clone(),
                own: usable,
            });
        }
        let own = Requested::read(std::process::id().cast_signed(), &Cpusets::default()).map_err(&unknown)?;
        let whole = match &launch.chosen {
            Some(chosen) => Requested::Cpus(own.among(&chosen.into())),
            None => own.clone(),
        };
        if let (Requested::Unset, Some(channel)) = (&whole, &launch.counted.channel) {
            channel.mask_is_unset(usable.len());
        }
        let environment = std::env::vars_os()
            .filter(|(name, _)| {
                !launch.removed_environment.contains(name) && !launch.environment.iter().any(|(added, _)| added == name)
            })
            .chain(launch.environment.iter().cloned());
        let mut limit = Limit::none(whole, pus);
        if launch.preferring.is_none() {
            limit.set(launch.within.as_ref()).map_err(LaunchError::Limit)?;
        }
        let first = match &**limit.present() {
            Requested::Cpus(cpus) if **limit.present() != own => Some(cpus.clone()),
            _ => None,
        };
        let prepared = Prepared::new(&launch.command, environment, first, launch.pages.policy)?;
        let waiting = launch.waiting.map(|child| {
            let changes = Changes::new(&launch.environment, &launch.removed_environment, launch.pages.policy);
            (child, changes)
        });

        // The journal's guard is forked first, while this process has as few threads as possible.
        let journal = launch.journal.as_ref().map(Journal::create).transpose()?;
        let blocked = Blocked::new();
        let program = Program::new(
            limit,
            launch.initial,
            launch.grace,
            launch.skipped,
            Counting::new(launch.counted),
            journal,
            launch.regions,
        )
        .with_journals_in(launch.journals);
        let program = match launch.preferring {
            Some(preferring) => program
                .with_preferences(preferring, launch.within.as_ref())
                .map_err(LaunchError::Limit)?,
            None => program,
        };
        let kill_with_us = !launch.outlive;
        let state = State::new(program, launch.preload, launch.keep_pinned, false);
        let follow = move |shared: &Shared| match waiting {
            Some((child, changes)) => tracer::follow_waiting(shared, &child, &changes, kill_with_us),
            None => tracer::follow(shared, &prepared, kill_with_us),
        };
        let running = Self::follow(state, ProgramPages::new(launch.pages), blocked, follow);
        let mut running = running.map_err(|error| match error {
            FollowError::Launch(error) => error,
            FollowError::Attach(error) => LaunchError::Attach(io::Error::other(error)),
        })?;
        running.outlive = launch.outlive;
        Ok(running)
    }

    /// Attaches to a running process. Returns when all its threads are followed.
    pub(crate) fn attach(attach: Attach) -> Result<Self, AttachError> {
        let journal = Journal::create(&attach.journal)?;
        let blocked = Blocked::new();
        let program = Program::new(
            Limit::none(Requested::Unset, attach.topology.allowed_pus().clone()),
            attach.initial,
            attach.grace,
            attach.skipped,
            Counting::new(attach.counted),
            Some(journal),
            None,
        );
        let state = State::new(program, None, false, true);
        let process = attach.process;
        let follow = move |shared: &Shared| tracer::attach(shared, &process);
        let running = Self::follow(state, ProgramPages::new(attach.pages), blocked, follow);
        let mut running = running.map_err(|error| match error {
            FollowError::Attach(error) => error,
            FollowError::Launch(LaunchError::Resource { what, error }) => AttachError::Resource { what, error },
            FollowError::Launch(error) => AttachError::Wait(io::Error::other(error)),
        })?;
        running.until = attach.lasts.and_then(|lasts| Instant::now().checked_add(lasts));
        Ok(running)
    }

    /// Starts the threads that follow a program. Returns when the program runs and is followed.
    fn follow(
        state: State,
        pages: ProgramPages,
        blocked: Blocked,
        follow: impl FnOnce(&Shared) + Send + 'static,
    ) -> Result<Self, FollowError> {
        inherited::raise_open_files();
        let metrics = state.program.metrics().to_vec();
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            reaping: Mutex::new(()),
            stop: AtomicBool::new(false),
            tracer: AtomicI32::new(0),
        });
        let scheduler = shared.lock().program.scheduler();
        if let Some((scheduler, called)) = scheduler {
            let shared = Arc::downgrade(&shared);
            let call = move || {
                if let Some(reason) = preferring::call(&scheduler, called)
                    && let Some(shared) = shared.upgrade()
                {
                    shared.lock().program.scheduler_ended(&reason);
                }
            };
            // It ends by itself when the program has no scheduler any more.
            let caller = std::thread::Builder::new().name("caller".into());
            caller.spawn(call).map_err(resource("a thread"))?;
        }
        let tracer = std::thread::Builder::new()
            .name("tracer".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || follow(&shared)
            })
            .map_err(resource("a thread"))?;

        let mut state = shared.lock();
        while matches!(state.phase, Phase::Starting) {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Phase::Failed(_) = state.phase
            && let Phase::Failed(error) = std::mem::replace(&mut state.phase, Phase::Over(None))
        {
            drop(state);
            // When the thread ends, the kernel detaches from the tasks that it had attached to before the failure.
            let _ = tracer.join();
            return Err(error);
        }
        drop(state);
        let mut running = Self {
            shared,
            metrics,
            pages,
            until: None,
            outlive: false,
            tracer: Some(tracer),
            forwarder: None,
            _blocked: blocked,
        };
        let forwarder = Forwarder::start(Arc::clone(&running.shared)).map_err(resource("a thread"))?;
        running.forwarder = Some(forwarder);
        Ok(running)
    }

    /// Lets an attached program go, and rolls all changes back. Pages return to their old places while the program is
    /// still followed; another signal interrupts that. Does nothing for a launched program, or if called again.
    pub(crate) fn let_go(&mut self) -> Applied {
        let mut applied = Applied::default();
        let followed = {
            let mut state = self.shared.lock();
            if !state.attached || self.tracer.is_none() {
                return applied;
            }
            state.end_wanted = false;
            matches!(state.phase, Phase::Running)
        };
        if followed {
            self.pages.all_back(&self.shared, &mut applied);
        }
        self.stop_following();
        let problems = self.shared.lock().program.roll_back();
        applied.refused.extend(
            problems
                .into_iter()
                .map(|why| Refusal::for_machine(RefusalCode::Task, why)),
        );
        applied
    }

    /// Ends the tracer. The kernel detaches from its tasks without stopping them.
    fn stop_following(&mut self) {
        let Some(tracer) = self.tracer.take() else {
            return;
        };
        self.shared.stop.store(true, Ordering::Release);
        // A signal that arrives before the tracer waits is lost, so it is repeated.
        while !tracer.is_finished() {
            wake_up(self.shared.tracer.load(Ordering::Acquire));
            std::thread::sleep(WAKING);
        }
        let _ = tracer.join();
    }
}

/// Dropping a running program ends it. With `outlive` it continues. An attached program is let go.
impl Drop for Running {
    fn drop(&mut self) {
        self.let_go();
        let mut state = self.shared.lock();
        // This holds in each phase, because the registers outlive the tracer.
        state.program.apply_prefetchers(None);
        if matches!(state.phase, Phase::Running) && !state.attached {
            if self.outlive {
                // The tracer detaches from each thread at its next event. The kernel detaches from the others when this
                // process ends, without stopping them.
                state.part();
                state.phase = Phase::Leaving(None);
                return;
            }
            for process in state.program.processes_to_end() {
                // SAFETY: a plain system call. A live process in the table is not reaped, or its identity was compared.
                unsafe { libc::kill(process, libc::SIGKILL) };
            }
        }
        drop(state);
        if let Some(tracer) = self.tracer.take() {
            let _ = tracer.join();
        }
    }
}
