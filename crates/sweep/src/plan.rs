//! The work of a sweep: every recording, on every machine, at every point of its space.

use crate::joined::{Joined, MachineThreads, Recorded};
use crate::journal::{Exact, Key, Outcome, OutcomeRow};
use crate::placements::{Placement, Placements};
use crate::spaces::{Point, SpaceMachine, Spaces};
use anyhow::{Context, Result, bail};
use pinfold_core::{MetricColumn, content_hash};
use pinfold_sim::model::Model;
use pinfold_sim::sampled::{Samples, Sampling};
use pinfold_sim::sweep::{Metrics, evaluate, evaluate_sampled, likwid_values};
use pinfold_sim::window::PageProfile;
use pinfold_sim::{Coverage, RecordedProgram, SimulatedProgram as _};
use pinfold_trace::{Recording, RegionPlace};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A machine of the sweep.
pub struct SweptMachine {
    /// Its model.
    pub model: Model,
    /// What it offers to configurations.
    pub space: SpaceMachine,
    /// A hash of the model.
    pub content: u128,
    /// The metrics of its counters.
    pub columns: Vec<MetricColumn>,
    metrics: Metrics,
}

/// A recording of the sweep.
pub struct SweptProgram {
    /// The program's file name.
    pub name: String,
    /// The program and its arguments.
    pub command: String,
    /// A hash of the recording.
    pub content: u128,
    /// The number of placed threads: the highest number that live at the same time.
    pub threads: usize,
    accesses: u64,
    file: PathBuf,
    words: Vec<String>,
    regions: Vec<RegionPlace>,
    recorded: RecordedProgram,
    /// Computed when it is first needed.
    profile: OnceLock<PageProfile>,
    /// The pieces of a sampled program, read when they are first needed. `None` if sampling saves nothing.
    samples: OnceLock<Option<Samples>>,
}

/// How much of each program is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// Pieces of long programs, until the half-width of the interval of the time over the time is at most `precision`.
    Sampled {
        /// Above 0.
        precision: f64,
    },
}

/// One configuration of one program on one machine.
pub struct Job {
    /// The position of the machine in the plan.
    pub machine: usize,
    /// The position of the program in the plan.
    pub program: usize,
    /// The configuration.
    pub point: Point,
    /// The identity of the result.
    pub key: Key,
}

/// All jobs, in the order of the data set's rows.
pub struct Plan {
    /// The machines.
    pub machines: Vec<SweptMachine>,
    /// The programs.
    pub programs: Vec<SweptProgram>,
    /// The jobs.
    pub jobs: Vec<Job>,
    /// What the spaces have and the machines have not, a sentence for each.
    pub left_out: Vec<String>,
    /// The runs of the recordings; `None` unless configurations have a number of threads.
    pub(crate) joined: Option<Joined>,
    pub(crate) build: u128,
    pub(crate) extent: Extent,
    placements: Placements,
}

impl SweptMachine {
    /// Makes a machine from its model.
    pub fn new(model: Model) -> Result<Self> {
        let metrics = Metrics::of(&model);
        Ok(Self {
            space: SpaceMachine::of_model(&model),
            content: content_hash(serde_json::to_string(&model)?.as_bytes()),
            columns: metrics.columns(),
            model,
            metrics,
        })
    }
}

impl SweptProgram {
    /// Makes a program from a recording. `file` is the recording's file.
    pub fn new(file: &Path, recording: Recording) -> Result<Self> {
        let content =
            hash_of_file(file).with_context(|| format!("the recording `{}` cannot be read", file.display()))?;
        let words = &recording.header().command;
        let name = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
        let (name, command, words) = (name.to_owned(), words.join(" "), words.clone());
        let regions = recording.regions().to_vec();
        let accesses = recording.threads().iter().map(pinfold_trace::Thread::accesses).sum();
        let recorded = RecordedProgram::new(recording).with_context(|| file.display().to_string())?;
        // If the starts of threads were not recorded, all threads count as alive.
        let threads = match recorded.threads_at_once() {
            0 => recorded.threads(),
            at_once => at_once,
        };
        Ok(Self {
            name,
            command,
            content,
            threads,
            accesses,
            file: file.to_owned(),
            words,
            regions,
            recorded,
            profile: OnceLock::new(),
            samples: OnceLock::new(),
        })
    }

    /// The file of the recording.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// How much of the program's memory the recording accesses.
    pub(crate) fn coverage(&self) -> Coverage {
        self.recorded.coverage()
    }

    /// The code of the regions that ran, if it is in files.
    pub(crate) fn regions(&self) -> &[RegionPlace] {
        &self.regions
    }

    fn profile(&self) -> &PageProfile {
        self.profile.get_or_init(|| self.recorded.page_profile())
    }

    fn samples(&self) -> Option<&Samples> {
        self.samples.get_or_init(|| Samples::of(&self.recorded)).as_ref()
    }
}

impl Plan {
    /// Makes a job of each point of `spaces`, for each program on each machine.
    pub fn new(
        machines: Vec<SweptMachine>,
        programs: Vec<SweptProgram>,
        spaces: &Spaces,
        extent: Extent,
    ) -> Result<Self> {
        for (number, machine) in machines.iter().enumerate() {
            if machines[..number]
                .iter()
                .any(|other| other.model.name == machine.model.name)
            {
                bail!(
                    "there are two machines of the name `{}`: name each once",
                    machine.model.name
                );
            }
        }
        for (number, program) in programs.iter().enumerate() {
            if let Some(other) = programs[..number].iter().find(|other| other.content == program.content) {
                bail!(
                    "`{}` and `{}` are the same recording: name it once",
                    other.file.display(),
                    program.file.display()
                );
            }
        }
        let joined = joined(&machines, &programs, spaces)?;
        let build = build_id()?;
        let mut jobs: Vec<Job> = vec![];
        let mut left_out: Vec<String> = vec![];
        for (machine_number, machine) in machines.iter().enumerate() {
            for (program_number, program) in programs.iter().enumerate() {
                let selection = spaces.points(&machine.space, program.threads)?;
                for sentence in selection.left_out {
                    if !left_out.contains(&sentence) {
                        left_out.push(sentence);
                    }
                }
                for point in selection.points {
                    jobs.push(Job {
                        machine: machine_number,
                        program: program_number,
                        key: key(build, machine, program, &point, extent),
                        point,
                    });
                }
            }
        }
        for (number, program) in programs.iter().enumerate() {
            if jobs.iter().all(|job| job.program != number) {
                bail!(
                    "`{}` has {} threads, and no configuration of --space {} on the machines has: leave it out, or record the \
                     program with the numbers of threads of a machine's configurations",
                    program.file.display(),
                    program.threads,
                    spaces.with_thread_counts(),
                );
            }
        }
        Ok(Self {
            machines,
            programs,
            jobs,
            left_out,
            joined,
            build,
            extent,
            placements: Placements::default(),
        })
    }

    /// An estimate of a job's cost, without a unit.
    pub fn cost(&self, job: usize) -> u64 {
        self.programs[self.jobs[job].program].accesses
    }

    /// Runs one job.
    pub fn evaluate(&self, job: usize) -> Result<Outcome> {
        let job = &self.jobs[job];
        let machine = &self.machines[job.machine];
        let program = &self.programs[job.program];
        let configuration = job.point.window_configuration();
        let needs_profile = configuration.pages.needs_accesses();
        let profile = needs_profile.then(|| program.profile());
        let sampled = match self.extent {
            Extent::Sampled { precision } => program.samples().zip(Some(precision)),
            Extent::Whole => None,
        };
        let (model, recorded) = (&machine.model, &program.recorded);
        let evaluation = match sampled {
            Some((samples, precision)) => {
                let states = self.placements.states(Placement {
                    machine: job.machine,
                    program: job.program,
                    pinning: configuration.pinning.clone(),
                });
                let sampling = Sampling {
                    samples,
                    precision,
                    states: &states,
                };
                evaluate_sampled(model, recorded, &sampling, &configuration, profile)
            }
            None => evaluate(model, recorded, &configuration, profile),
        };
        let evaluation = evaluation.with_context(|| {
            format!(
                "{} cannot be simulated on {}",
                program.file.display(),
                machine.model.name
            )
        })?;
        if let Some(error) = program.recorded.error() {
            bail!(error);
        }
        let rows = evaluation.parts.iter().map(|part| OutcomeRow {
            region: part.region,
            time: Exact(part.totals.seconds),
            time_error: part.time_error.map(Exact),
            node_bytes: part.totals.traffic.as_ref().map(|traffic| traffic.nodes.clone()),
            link_bytes: part.totals.traffic.as_ref().map(|traffic| traffic.links.clone()),
            metrics: machine
                .metrics
                .values(&machine.model, program.threads, part)
                .into_iter()
                .map(|value| value.map(Exact))
                .collect(),
            // Only joined rows have these.
            likwid: self.joined.as_ref().map_or_else(Vec::new, |_| {
                let values = likwid_values(&machine.model, part).into_iter();
                values.map(|value| value.map(Exact)).collect()
            }),
        });
        Ok(Outcome {
            rows: rows.collect(),
            released: evaluation.released,
            unrecorded_wait_share: evaluation.unrecorded_wait_share.map(Exact),
            simulated_share: Exact(evaluation.simulated_share),
        })
    }
}

/// The runs of the recordings; `None` unless configurations have a number of threads.
fn joined(machines: &[SweptMachine], programs: &[SweptProgram], spaces: &Spaces) -> Result<Option<Joined>> {
    let mut counts = vec![];
    for machine in machines {
        let Some(threads) = spaces.thread_counts(&machine.space)? else {
            return Ok(None);
        };
        counts.push(MachineThreads {
            machine: machine.model.name.clone(),
            threads,
        });
    }
    let recordings: Vec<Recorded<'_>> = programs
        .iter()
        .map(|program| Recorded {
            file: &program.file,
            name: &program.name,
            words: &program.words,
            threads: program.threads,
            regions: &program.regions,
        })
        .collect();
    Joined::new(&recordings, &counts, &spaces.with_thread_counts()).map(Some)
}

/// A hash of everything that a result depends on. Each type is destructured by name, so that a new field does not
/// compile until somebody decides here whether results depend on it.
fn key(build: u128, machine: &SweptMachine, program: &SweptProgram, point: &Point, extent: Extent) -> Key {
    let SweptMachine {
        content: machine,
        // The model determines these.
        model: _,
        space: _,
        columns: _,
        metrics: _,
    } = machine;
    let SweptProgram {
        content: program,
        threads,
        // The recording determines these.
        name: _,
        command: _,
        accesses: _,
        words: _,
        regions: _,
        recorded: _,
        profile: _,
        samples: _,
        // The same recording in another file gives the same results.
        file: _,
    } = program;
    key_of(build, *machine, *program, *threads, point, extent)
}

/// `key` from the hashes of a machine's model and of a recording.
fn key_of(build: u128, machine: u128, program: u128, threads: usize, point: &Point, extent: Extent) -> Key {
    let Point {
        pinning,
        pages,
        prefetchers,
        // This is the program's number of threads.
        threads: _,
        // The pinning and the model determine these.
        num_nodes: _,
        threads_per_core: _,
        thread_map: _,
    } = point;
    let text = format!(
        "{build:032x} {machine:032x} {program:032x} {threads} {pinning:?} {pages:?} {prefetchers:?} {extent:?}"
    );
    Key(content_hash(text.as_bytes()))
}

/// A hash of this binary: another build may give other results.
pub(crate) fn build_id() -> Result<u128> {
    hash_of_file(Path::new("/proc/self/exe")).context("this program's own file cannot be read")
}

fn hash_of_file(path: &Path) -> std::io::Result<u128> {
    let mut file = File::open(path)?;
    let mut hasher = twox_hash::xxhash3_128::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish_128()),
            length => hasher.write(&buffer[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{NodeId, PageMapping, Pinning, Prefetchers, PuId};
    use std::collections::HashSet;

    #[test]
    fn results_are_reused_only_where_all_their_inputs_are_the_same() {
        let point = |pus: &[u32], pages, prefetchers| Point {
            threads: pus.len(),
            pinning: Pinning::new(pus.iter().copied().map(PuId).collect()).unwrap(),
            pages,
            prefetchers,
            num_nodes: 1,
            threads_per_core: 1,
            thread_map: None,
        };
        let first = point(&[0, 1], PageMapping::Single(NodeId(0)), Prefetchers::ALL);
        let other_node = point(&[0, 1], PageMapping::Single(NodeId(1)), Prefetchers::ALL);
        let other_mapping = point(&[0, 1], PageMapping::Interleave, Prefetchers::ALL);
        let other_pinning = point(&[1, 0], PageMapping::Single(NodeId(0)), Prefetchers::ALL);
        let other_prefetchers = point(&[0, 1], PageMapping::Single(NodeId(0)), Prefetchers::NONE);
        let keys = [
            key_of(1, 2, 3, 4, &first, Extent::Whole),
            key_of(0, 2, 3, 4, &first, Extent::Whole),
            key_of(1, 0, 3, 4, &first, Extent::Whole),
            key_of(1, 2, 0, 4, &first, Extent::Whole),
            key_of(1, 2, 3, 0, &first, Extent::Whole),
            key_of(1, 2, 3, 4, &other_node, Extent::Whole),
            key_of(1, 2, 3, 4, &other_mapping, Extent::Whole),
            key_of(1, 2, 3, 4, &other_pinning, Extent::Whole),
            key_of(1, 2, 3, 4, &other_prefetchers, Extent::Whole),
            key_of(1, 2, 3, 4, &first, Extent::Sampled { precision: 0.02 }),
            key_of(1, 2, 3, 4, &first, Extent::Sampled { precision: 0.04 }),
        ];
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        assert_eq!(keys[0], key_of(1, 2, 3, 4, &first.clone(), Extent::Whole));
    }
}
