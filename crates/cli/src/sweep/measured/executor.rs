//! One run of the program in one configuration.
//!
//! 1. The command of `--before` runs.
//! 2. `pinfold run` runs the program: pinned from its start on, with its pages placed and its prefetchers set. It rolls
//!    everything back, also if it is killed, and the kernel kills the program with it. If this process is killed, the
//!    kernel kills `pinfold run`.
//! 3. The record of the run shows whether the configuration was applied. The state of the machine before and after shows
//!    whether others disturbed the run. The record has the counts of the program's tasks, and the meters of the
//!    processors give the energy of the machine (`counted`).
//! 4. The command of `--check` reads the program's output.

use super::super::Arguments;
use super::counted::Counted;
use super::program::Program;
use super::seen;
use crate::finished::{Commands, Finished};
use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use pinfold_core::{PageMapping, PuSet, Topology};
use pinfold_linux::energy::EnergyMeter;
use pinfold_linux::machine_state::{self, MachineInterval, MachineReading};
use pinfold_linux::processor_time;
use pinfold_runtime::RunDocument;
use pinfold_sweep::Exact;
use pinfold_sweep::measured::{MachineState, MeasuredJob, MeasuredRun, RunEnd};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The variable with the folder of a run.
const OUTPUT_VARIABLE: &str = "PINFOLD_OUTPUT_DIR";

/// The variables of the commands of `--before` and `--check`: the configuration of the run.
const THREADS_VARIABLE: &str = "PINFOLD_THREADS";
const PINNING_VARIABLE: &str = "PINFOLD_PINNING";
const PAGE_MAP_VARIABLE: &str = "PINFOLD_PAGE_MAP";
const PREFETCH_VARIABLE: &str = "PINFOLD_PREFETCH";

/// Runs the program in configurations.
pub(super) struct Executor<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) program: &'a Program<'a>,
    pub(super) topology: &'a Topology,
    pub(super) commands: Commands,
    pub(super) pinfold: PathBuf,
    /// The identity of this sweep.
    pub(super) session: u64,
    /// Whether the configurations set prefetchers.
    pub(super) sets_prefetchers: bool,
    pub(super) counted: Counted,
}

/// How a run ended.
pub(super) enum Ended {
    /// It is over, also if it failed.
    Over(Box<MeasuredRun>),
    /// A signal asked pinfold to end.
    Interrupted(i32),
}

/// The wanted number of threads of a run.
#[derive(Clone, Copy)]
pub(super) enum Team {
    /// The program decides.
    Own,
    /// The command or the environment tells the program. It must have them.
    Told(usize),
    /// The program had them in an earlier run, and must have them again.
    Seen(usize),
}

impl Team {
    fn told(self) -> Option<usize> {
        match self {
            Self::Told(threads) => Some(threads),
            Self::Own | Self::Seen(_) => None,
        }
    }
}

impl Executor<'_> {
    /// Runs the program once. `job` is `None` for a run before the first measured one. `number` names the folder of the
    /// run.
    pub(super) fn run(&mut self, job: Option<&MeasuredJob>, team: Team, number: usize) -> Result<Ended> {
        let folder = self.folder(number)?;
        if let Some(before) = self.arguments.measured.before.clone() {
            let finished = self.shell(&before, job, folder.as_deref(), None)?;
            if let Some(signal) = self.commands.interruption(finished.status) {
                return Ok(Ended::Interrupted(signal));
            }
            if !finished.status.success() {
                bail!(
                    "the command of --before, `{}`, ended with status {}{}",
                    before.display(),
                    finished.code(),
                    finished.last_lines()
                );
            }
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nodes = self.topology.allowed_nodes();
        let free = machine_state::free_memory(nodes);
        let record = self.commands.folder().join("record.json");
        let _ = fs::remove_file(&record);
        let mut stdout = self.stdout(folder.as_deref())?;
        let (mut command, stderr) = self.command(job, team, &record, folder.as_deref(), stdout.as_ref())?;
        let (reading, before) = (MachineReading::now(), used()?);
        let meter = EnergyMeter::begin();
        let finished = self.commands.finish(&mut command, Some(stderr))?;
        let energy = meter.end();
        let (interval, own) = (reading.until_now(), used()?.saturating_sub(before));
        if let Some(signal) = self.commands.interruption(finished.status) {
            return Ok(Ended::Interrupted(signal));
        }
        let document = read(&record, &finished)?;
        let status = document.record.program.exit_status.unwrap_or(0);
        if status == 128 + Signal::SIGINT as i32 {
            return Ok(Ended::Interrupted(Signal::SIGINT as i32));
        }
        let seconds = document
            .record
            .program
            .ran
            .context("the record lacks the time of the run")?;
        let state = self.state(job, &interval, own, free);
        let threads = seen::threads(&document);
        let mut metrics = seen::metrics(&document);
        metrics.extend(self.counted.likwid(&metrics, &energy, seconds));
        let why = match self.failure(job, team, status, &finished, &document) {
            None => self.check(job, folder.as_deref(), stdout.as_mut())?,
            failure => failure,
        };
        Ok(Ended::Over(Box::new(MeasuredRun {
            session: self.session,
            at: Exact(at.as_secs_f64()),
            end: why.map_or(
                RunEnd::Done {
                    seconds: Exact(seconds),
                },
                |why| RunEnd::Failed { why },
            ),
            counts: false,
            disturbed: state.disturbance(self.topology.allowed_pus().len(), interval.seconds),
            threads,
            state,
            metrics,
        })))
    }

    /// The folder of a run, which is made; `None` without `--output-dir`.
    fn folder(&self, number: usize) -> Result<Option<PathBuf>> {
        let Some(parent) = &self.arguments.measured.output_dir else {
            return Ok(None);
        };
        let folder = std::path::absolute(parent)?.join(format!("{}-{number:04}", self.session));
        fs::create_dir_all(&folder).with_context(|| format!("--output-dir: {} cannot be made", folder.display()))?;
        Ok(Some(folder))
    }

    /// The file that gets the program's standard output; `None` if nobody reads it.
    fn stdout(&self, folder: Option<&Path>) -> Result<Option<File>> {
        match folder {
            Some(folder) => Ok(Some(created(&folder.join("stdout"))?)),
            None if self.arguments.measured.check.is_some() => Ok(Some(self.commands.nameless_file()?)),
            None => Ok(None),
        }
    }

    /// The command of a run, and the file that gets its standard error.
    fn command(
        &self,
        job: Option<&MeasuredJob>,
        team: Team,
        record: &Path,
        folder: Option<&Path>,
        stdout: Option<&File>,
    ) -> Result<(Command, File)> {
        let mut command = Command::new(&self.pinfold);
        command.args(["run", "-qq", "--initialise=0s"]);
        command.arg(joined("--json=", record.as_os_str()));
        command.arg(joined(
            "--journals=",
            self.arguments.measured.journals.path().as_os_str(),
        ));
        command.args(self.placement(job));
        command.args(self.counted.events().iter().map(|event| format!("--event={event}")));
        command.arg("--");
        command.args(self.program.command(team.told(), folder));
        command.envs(self.program.variable(team.told()));
        command.envs(folder.map(|folder| (OUTPUT_VARIABLE, folder)));
        command.stdin(match &self.arguments.measured.input {
            Some(file) => {
                Stdio::from(File::open(file).with_context(|| format!("--input {} cannot be read", file.display()))?)
            }
            None => Stdio::null(),
        });
        command.stdout(match stdout {
            Some(file) => Stdio::from(file.try_clone()?),
            None => Stdio::null(),
        });
        let stderr = match folder {
            Some(folder) => created(&folder.join("stderr"))?,
            None => self.commands.nameless_file()?,
        };
        command.stderr(stderr.try_clone()?);
        Ok((command, stderr))
    }

    /// The options of `pinfold run` for a configuration.
    fn placement(&self, job: Option<&MeasuredJob>) -> Vec<String> {
        let Some(point) = job.and_then(|job| job.point.as_ref()) else {
            return vec!["--policy=none".to_owned()];
        };
        let mut words = vec!["--policy=fixed".to_owned(), format!("--schedule={}", point.pinning)];
        if point.pages != PageMapping::FirstTouch {
            words.push(format!("--page-map={}", point.pages));
            words.extend(
                self.arguments
                    .measured
                    .page_options
                    .as_ref()
                    .filter(|_| point.pages.needs_accesses())
                    .map(|options| format!("--page-options={options}")),
            );
        }
        if self.sets_prefetchers {
            words.push(format!("--prefetch={}", point.prefetchers));
        }
        words
    }

    /// Why a run does not count as one of its configuration; `None` if it does.
    fn failure(
        &self,
        job: Option<&MeasuredJob>,
        team: Team,
        status: i32,
        finished: &Finished,
        document: &RunDocument,
    ) -> Option<String> {
        if status != 0 {
            return Some(format!(
                "the program ended with status {status}{}",
                finished.last_lines()
            ));
        }
        let point = job.and_then(|job| job.point.as_ref());
        if let Some(why) = point.and_then(|point| seen::not_applied(document, point)) {
            return Some(format!("the configuration could not be applied: {why}"));
        }
        let threads = seen::threads(document)?;
        match team {
            Team::Told(told) if threads < told => Some(format!(
                "the program had {threads} threads and not {told}: {}",
                if self.program.names_threads() {
                    "it does not take the number that the command names".to_owned()
                } else {
                    "it does not follow OMP_NUM_THREADS; write {threads} in the command where it takes the number"
                        .to_owned()
                }
            )),
            Team::Seen(before) if threads != before => Some(format!(
                "the program had {threads} threads and {before} in an earlier run: give the number with --threads N, or keep \
                 the program from changing it (OMP_DYNAMIC=false)"
            )),
            _ => None,
        }
    }

    /// Runs the command of `--check`. Returns why the run has failed, if it has.
    fn check(
        &mut self,
        job: Option<&MeasuredJob>,
        folder: Option<&Path>,
        stdout: Option<&mut File>,
    ) -> Result<Option<String>> {
        let Some(check) = self.arguments.measured.check.clone() else {
            return Ok(None);
        };
        let finished = self.shell(&check, job, folder, stdout)?;
        Ok((!finished.status.success()).then(|| {
            format!(
                "its check, `{}`, ended with status {}{}",
                check.display(),
                finished.code(),
                finished.last_lines()
            )
        }))
    }

    /// Runs a command of the shell around a run of this configuration.
    fn shell(
        &mut self,
        text: &OsString,
        job: Option<&MeasuredJob>,
        folder: Option<&Path>,
        stdin: Option<&mut File>,
    ) -> Result<Finished> {
        use std::io::{Seek, SeekFrom};
        let mut command = Command::new("sh");
        command.arg("-c").arg(text).stdout(Stdio::null());
        command.envs(folder.map(|folder| (OUTPUT_VARIABLE, folder)));
        if let Some(job) = job {
            let columns = job.columns();
            command.env(THREADS_VARIABLE, columns.num_threads.to_string());
            command.env(PINNING_VARIABLE, columns.pinning.as_deref().unwrap_or("unpinned"));
            command.env(PAGE_MAP_VARIABLE, columns.page_map);
            command.env(PREFETCH_VARIABLE, columns.prefetch);
        }
        command.stdin(match stdin {
            Some(file) => {
                file.seek(SeekFrom::Start(0))?;
                Stdio::from(file.try_clone()?)
            }
            None => Stdio::null(),
        });
        let stderr = self.commands.nameless_file()?;
        command.stderr(stderr.try_clone()?);
        self.commands.finish(&mut command, Some(stderr))
    }

    /// The state of the machine during a run. `own` is the processor time of pinfold and the program.
    fn state(
        &self,
        job: Option<&MeasuredJob>,
        interval: &MachineInterval,
        own: Duration,
        free: Option<Vec<u64>>,
    ) -> MachineState {
        let pinning = job.and_then(|job| job.point.as_ref()).map(|point| &point.pinning);
        let pus = pinning.map_or_else(
            || self.topology.allowed_pus().clone(),
            |pinning| pinning.pus().iter().copied().collect::<PuSet>(),
        );
        let of_own = own.as_secs_f64() / interval.seconds;
        MachineState {
            load_of_others: interval.busy.map(|busy| Exact((busy - of_own).max(0.0))),
            steal_share: interval.stolen.map(Exact),
            frequency_hz: machine_state::frequency(&pus).map(Exact),
            throttled: interval.throttled,
            free_memory_bytes: free,
        }
    }
}

/// The processor time of this process and of its former children.
fn used() -> Result<Duration> {
    Ok(processor_time::this_process()?.total() + processor_time::reaped_children()?.total())
}

/// The record of a run.
fn read(record: &Path, finished: &Finished) -> Result<RunDocument> {
    let Ok(text) = fs::read_to_string(record) else {
        bail!(
            "pinfold could not run the program, and ended with status {}{}",
            finished.code(),
            finished.last_lines()
        );
    };
    Ok(RunDocument::read(&text)?)
}

fn created(file: &Path) -> Result<File> {
    let options = &mut File::options();
    let opened = options.read(true).write(true).create(true).truncate(true).open(file);
    opened.with_context(|| format!("{} cannot be written", file.display()))
}

fn joined(option: &str, value: &std::ffi::OsStr) -> OsString {
    let mut word = OsString::from(option);
    word.push(value);
    word
}
