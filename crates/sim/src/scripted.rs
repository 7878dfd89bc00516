//! A machine with scripted rates and its own clock: a run takes no time and gives the same result every time.
//!
//! Time advances in steps in which nothing changes: to the next tenth of a second (when the noise changes), to the next
//! phase, to a thread's begin or end, or to the end of the program or of the wait, whichever is first. In a step each
//! working thread makes `rate * (1 + noise) * time` steps of work. After threads were moved, the rate recovers as `1 -
//! cold * exp(-time / warm_up)`, and the exact integral of this is used. Threads on one PU share it.
//!
//! Limits: the noise applies to the whole program, not to each thread; an unpinned thread always has a PU to itself.

use crate::script::{Counter, Phase, Script, ScriptError};
use pinfold_core::function::FunctionSearch;
use pinfold_core::random::Random;
use pinfold_core::{
    Applied, Configuration, Count, Machine, MachineError, MachineKind, Metric, PuId, PuSet, Refusal, Sample, Scope,
    TaskId, TaskSample, Topology, Wait,
};
use std::time::Duration;

/// How long the noise keeps its value.
const NOISE_INTERVAL: Duration = Duration::from_millis(100);

/// The process id of the scripted program. The ids of its threads follow.
const PROCESS: i32 = 1000;

#[derive(Clone, Debug)]
struct Task {
    id: TaskId,
    name: String,
    begins: Duration,
    ends: Option<Duration>,
    /// When it starts to use processor time; `None` for a helper.
    works_from: Option<Duration>,
    rank: Option<usize>,
    pu: Option<PuId>,
    steps: f64,
    cpu_time: Duration,
    /// Whether the last sample with this task has been taken.
    seen_ended: bool,
}

impl Task {
    fn lives(&self, now: Duration) -> bool {
        self.begins <= now && self.ends.is_none_or(|ends| now < ends)
    }

    fn works(&self, now: Duration) -> bool {
        self.lives(now) && self.works_from.is_some_and(|from| from <= now)
    }
}

/// The noise of the program's rate.
#[derive(Clone, Debug)]
struct Noise {
    random: Random,
    /// In the current interval, in standard deviations.
    value: f64,
    /// The end of the current interval.
    ends: Duration,
}

impl Noise {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            value: 0.0,
            ends: Duration::ZERO,
        }
    }

    /// Begins the next interval. `correlation` is between its noise and the previous interval's.
    fn draw(&mut self, correlation: f64) {
        let fresh = self.random.normal();
        self.value = if self.ends.is_zero() {
            fresh
        } else {
            correlation * self.value + (1.0 - correlation * correlation).sqrt() * fresh
        };
        self.ends += NOISE_INTERVAL;
    }
}

/// A machine that plays a script.
#[derive(Clone, Debug)]
pub struct Scripted {
    script: Script,
    topology: Topology,
    llc_domains: Vec<PuSet>,
    counters: Vec<Counter>,
    metrics: Vec<Metric>,
    noise: Noise,
    now: Duration,
    ended: bool,
    tasks: Vec<Task>,
    configuration: Configuration,
    moved_at: Option<Duration>,
}

impl Scripted {
    /// A machine of this shape that plays `script`; `Script::topology` describes the shape.
    pub fn new(script: Script, topology: Topology) -> Result<Self, ScriptError> {
        script.check_pus(&topology.object(topology.root()).pus)?;
        let counters = script.counters();
        let first = (0..script.threads.get()).map(|_| (Duration::ZERO, None, None, Duration::ZERO));
        let later = script.later.iter().map(|thread| {
            let ends = thread.ends.map(|ends| ends.0);
            (thread.begins.0, ends, thread.name.clone(), thread.works_from.0)
        });
        let tasks = first
            .chain(later)
            .zip(0u32..)
            .map(|((begins, ends, name, works_from), index)| {
                let serial = u64::from(index);
                Task {
                    id: TaskId {
                        serial,
                        process: PROCESS,
                        thread: PROCESS.saturating_add_unsigned(index),
                    },
                    name: name.unwrap_or_else(|| format!("scripted-{serial}")),
                    begins,
                    ends,
                    works_from: (!script.helpers.contains(&serial)).then_some(works_from),
                    rank: None,
                    pu: None,
                    steps: 0.0,
                    cpu_time: Duration::ZERO,
                    seen_ended: false,
                }
            })
            .collect();
        Ok(Self {
            llc_domains: topology
                .llc_domains()
                .into_iter()
                .map(|domain| topology.object(domain).pus.clone())
                .collect(),
            metrics: counters.iter().map(|counter| counter.metric.clone()).collect(),
            noise: Noise::new(script.seed),
            now: Duration::ZERO,
            ended: false,
            configuration: Configuration::default(),
            moved_at: None,
            script,
            topology,
            counters,
            tasks,
        })
    }

    /// The steps of all threads since the program began.
    pub fn work_done(&self) -> f64 {
        self.tasks.iter().map(|task| task.steps).sum()
    }

    fn phase(&self) -> &Phase {
        let phases = &self.script.phases;
        let begun = phases.iter().rfind(|phase| phase.start.0 <= self.now);
        begun.unwrap_or(&phases[0])
    }

    /// The current rate of each task, warm and without noise.
    fn rates(&self) -> Vec<f64> {
        let phase = self.phase();
        let working: Vec<&Task> = self.tasks.iter().filter(|task| task.works(self.now)).collect();
        let exact = phase.pinnings.iter().find(|pinning| {
            let pus = &pinning.pus.0;
            let mut pairs = working.iter().zip(pus.iter().cycle());
            pairs.all(|(task, &pu)| task.pu == Some(pu))
        });
        let rate = |task: &Task| {
            if phase.idle || !task.works(self.now) {
                return 0.0;
            }
            if let Some(exact) = exact {
                return exact.rate.0;
            }
            let Some(pu) = task.pu else {
                let limited = phase.limited.filter(|_| self.configuration.within.is_some());
                return limited.or(phase.unpinned).unwrap_or(phase.rate).0;
            };
            let domain = self.llc_domains.iter().find(|domain| domain.contains(pu));
            let neighbours = working
                .iter()
                .filter(|other| other.id != task.id)
                .filter(|other| {
                    other
                        .pu
                        .is_some_and(|pu| domain.is_some_and(|domain| domain.contains(pu)))
                })
                .count();
            let sharing = i32::try_from(neighbours).unwrap_or(i32::MAX);
            phase.rate.0 * phase.llc_sharing.0.powi(sharing) / self.on_one_pu(pu) as f64
        };
        self.tasks.iter().map(rate).collect()
    }

    /// How many threads work on this PU.
    fn on_one_pu(&self, pu: PuId) -> usize {
        let there = |task: &&Task| task.works(self.now) && task.pu == Some(pu);
        self.tasks.iter().filter(there).count()
    }

    /// The factor on the steps at full rate for the time from now to `length` later, in seconds.
    fn warm_seconds(&self, length: Duration) -> f64 {
        let seconds = length.as_secs_f64();
        let constant = self.script.warm_up.0.as_secs_f64();
        let Some(moved_at) = self.moved_at.filter(|_| constant > 0.0) else {
            return seconds;
        };
        let since = (self.now.saturating_sub(moved_at)).as_secs_f64();
        let decay = |time: f64| (-time / constant).exp();
        seconds - self.script.cold.0 * constant * (decay(since) - decay(since + seconds))
    }

    /// The end of the current step, at most `limit`.
    fn step_end(&self, limit: Duration) -> Duration {
        let phases = self.script.phases.iter().map(|phase| phase.start.0);
        let begins = self.tasks.iter().map(|task| task.begins);
        let ends = self.tasks.iter().filter_map(|task| task.ends);
        let works = self.tasks.iter().filter_map(|task| task.works_from);
        phases
            .chain(begins)
            .chain(ends)
            .chain(works)
            .chain([self.noise.ends, limit])
            .chain(self.script.duration.map(|duration| duration.0))
            .filter(|&time| time > self.now)
            .min()
            .unwrap_or(limit)
    }

    /// Plays one step, to `limit` at most.
    fn advance(&mut self, limit: Duration) {
        if self.now >= self.noise.ends {
            self.noise.draw(self.script.noise_correlation.0);
        }
        let mut length = self.step_end(limit).saturating_sub(self.now);
        let speed = (1.0 + self.script.noise.0 * self.noise.value).max(0.0);
        let mut steps: Vec<f64> = self
            .rates()
            .iter()
            .map(|rate| rate * speed * self.warm_seconds(length))
            .collect();
        if let Some(work) = self.script.work {
            let (all, left) = (steps.iter().sum::<f64>(), work.0 - self.work_done());
            if all >= left {
                // The work ends within this step. The rate is taken to be constant within a tenth of a second.
                let share = if all > 0.0 { left / all } else { 0.0 };
                length = length.mul_f64(share);
                for steps in &mut steps {
                    *steps *= share;
                }
                self.ended = true;
            }
        }
        let (idle, busy) = (self.phase().idle, self.phase().busy.0);
        let shares: Vec<usize> = self
            .tasks
            .iter()
            .map(|task| match task.pu {
                Some(pu) if task.works(self.now) => self.on_one_pu(pu),
                _ => 1,
            })
            .collect();
        let before = self.now;
        for ((task, steps), sharers) in self.tasks.iter_mut().zip(steps).zip(shares) {
            if task.works(before) && !idle {
                task.cpu_time += length.mul_f64(busy / sharers as f64);
                task.steps += steps;
            }
        }
        self.now += length;
        self.ended |= self.script.duration.is_some_and(|duration| self.now >= duration.0);
        for index in 0..self.tasks.len() {
            if self.tasks[index].begins > before && self.tasks[index].begins <= self.now {
                self.begin(index);
            }
        }
    }

    /// A task begins and takes the lowest free rank.
    fn begin(&mut self, index: usize) {
        let now = self.now;
        let taken = |rank: usize| self.tasks.iter().any(|task| task.lives(now) && task.rank == Some(rank));
        let rank = (0..self.tasks.len()).find(|&rank| !taken(rank));
        self.tasks[index].rank = rank;
        self.tasks[index].pu = self.configuration.pu_of(self.tasks[index].id, rank);
    }

    fn count(&self, counter: &Counter, scope: Scope, steps: f64) -> Option<Count> {
        let missing = counter
            .missing
            .iter()
            .any(|&(from, to)| from <= self.now && self.now < to);
        if missing || counter.metric.scope != scope {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a counter shows whole counts, and steps are never negative"
        )]
        let value = (steps * counter.per_step) as u64;
        Some(Count::exact(value))
    }
}

impl Machine for Scripted {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn kind(&self) -> MachineKind {
        MachineKind::Simulated
    }

    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn observe(&mut self) -> Sample {
        let now = self.now;
        let counts = |scope: Scope, steps: f64| -> Vec<Option<Count>> {
            let counters = self.counters.iter();
            counters.map(|counter| self.count(counter, scope, steps)).collect()
        };
        let shown = self.tasks.iter().filter(|task| task.begins <= now && !task.seen_ended);
        let sample = Sample {
            function: FunctionSearch::NotBegun,
            at: now,
            tasks: shown
                .map(|task| TaskSample {
                    id: task.id,
                    name: task.name.clone(),
                    alive: task.lives(now),
                    cpu_time: Some(task.cpu_time),
                    run_delay: None,
                    last_pu: task.pu,
                    counts: counts(Scope::Task, task.steps),
                })
                .collect(),
            program: counts(Scope::Program, self.work_done()),
            regions: vec![],
            machine: None,
        };
        for task in &mut self.tasks {
            task.seen_ended = task.begins <= now && !task.lives(now);
        }
        sample
    }

    fn apply(&mut self, configuration: &Configuration) -> Applied {
        let mut applied = Applied::default();
        let mut ranks = 0..;
        let mut workers_moved = false;
        for task in self.tasks.iter_mut().filter(|task| task.lives(self.now)) {
            task.rank = if configuration.left_alone.contains(&task.id) {
                None
            } else {
                ranks.next()
            };
            let pu = configuration.pu_of(task.id, task.rank);
            if pu == task.pu {
                continue;
            }
            if let Some(pu) = pu.filter(|&pu| self.script.refused.contains(pu)) {
                applied.refused.push(Refusal::for_task(
                    task.id,
                    format!("the script lets no thread run on CPU {pu}"),
                ));
                continue;
            }
            task.pu = pu;
            workers_moved |= task.works_from.is_some();
            applied.moved.push(task.id);
        }
        applied.refused.extend(configuration.beyond_pinning());
        if workers_moved {
            self.moved_at = Some(self.now);
        }
        self.configuration = configuration.clone();
        applied
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn wait(&mut self, duration: Duration) -> Result<Wait, MachineError> {
        let until = self.now + duration;
        while !self.ended && self.now < until {
            self.advance(until);
        }
        if self.ended {
            return Ok(Wait::Ended(i32::from(self.script.exit_status)));
        }
        Ok(Wait::Elapsed)
    }
}
