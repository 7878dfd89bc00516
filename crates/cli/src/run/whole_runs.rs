//! Whole runs as measurements, for programs that count nothing while they run: the behaviour database decides where this
//! one runs, and keeps how it went.
//!
//! The history of a program is kept by its context: the working directory, the variables that decide how many threads
//! and processes work, the CPUs that the run may use, and the user's page mapping. Runs in different contexts are not
//! compared.

use super::Arguments;
use super::policies::{Program, Setting};
use anyhow::{Result, bail};
use pinfold_core::{Finding, PuSet, sources};
use pinfold_linux::processor_time;
use pinfold_linux::procfs::Procfs;
use pinfold_policy::MetricRequest;
use pinfold_policy::whole_runs::{Candidate, How, Plan, SHORTEST, WholeRun, WholeRunOptions, candidates};
use pinfold_runtime::Record;
use pinfold_store::{BegunRun, EndedRun, ProgramKey, Store, StoreError};
use std::env;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The variables that decide how many threads or processes work, besides those of `decides`.
const VARIABLES: [&str; 8] = [
    "CARGO_BUILD_JOBS",
    "CMAKE_BUILD_PARALLEL_LEVEL",
    "CTEST_PARALLEL_LEVEL",
    "GLIBC_TUNABLES",
    "GOMAXPROCS",
    "MAKEFLAGS",
    "MALLOC_ARENA_MAX",
    "PYTHON_CPU_COUNT",
];

/// The folders of temporary files. Folders in them have other names in each run.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Whether `--metric` asks for whole runs.
pub(super) fn are_requested(metric: &MetricRequest) -> bool {
    matches!(metric, MetricRequest::Named(name) if name == sources::RUN.code)
}

/// Refuses `--metric run` where no whole run of a program is measured. `is_whole_run`: pinfold starts the program on this
/// machine.
pub(super) fn refuse(arguments: &Arguments, is_default_policy: bool, is_whole_run: bool) -> Result<()> {
    let name = sources::RUN.code;
    if arguments.search.metric != name {
        return Ok(());
    }
    if !is_default_policy {
        bail!("--metric {name} compares whole runs, which only --policy auto does; leave --policy out");
    }
    if !is_whole_run {
        bail!(
            "--metric {name} compares whole runs of a program that pinfold starts on this machine; start it with \
             `pinfold run --metric {name} -- CMD`"
        );
    }
    let with = [
        (arguments.changes.outlive, "--outlive"),
        (arguments.changes.keep_pinned, "--keep-pinned"),
        (!arguments.limits.near.is_empty(), "--near"),
    ];
    match with.iter().find(|(given, _)| *given) {
        Some((_, option)) => {
            bail!("--metric {name} chooses the CPUs of a whole run, and {option} does so too; leave one out")
        }
        None => Ok(()),
    }
}

/// The policy of a run that is not compared with others, for this reason.
pub(super) fn not_compared(why: &str) -> WholeRun {
    WholeRun::new(WholeRunOptions {
        plan: Plan {
            place: None,
            why: why.to_owned(),
        },
        pus: None,
        is_requested: true,
    })
}

/// One run of a program whose runs are compared as wholes.
pub(super) struct Runs {
    key: ProgramKey,
    context: String,
    candidates: Vec<Candidate>,
    plan: Plan,
    /// The PUs of the planned area; `None` for an unpinned run.
    pus: Option<PuSet>,
    is_requested: bool,
    /// Whether the planned area cannot be used now.
    is_held_back: bool,
    run: Progress,
}

/// How far this run is.
#[derive(Default)]
struct Progress {
    /// Its number in the database; `None` before its start.
    number: Option<i64>,
    /// The processor time of former children of this process, before the program was started: a short program may have
    /// ended when its run begins in the database.
    cpu_before: Duration,
    /// Whether a policy placed the program while it ran.
    is_searched: bool,
    /// Whether it was unpinned before its end.
    is_stopped: bool,
    ended: Option<EndedRun>,
}

impl Runs {
    /// The run of the program `key`, with its plan; `None` if its runs are not compared as wholes. `is_known`: an
    /// earlier run was placed while it ran.
    pub(super) fn new(
        setting: &Setting<'_>,
        key: &ProgramKey,
        is_known: bool,
        store: Option<&Store>,
    ) -> Result<Option<Self>, StoreError> {
        let is_requested = are_requested(&setting.common.metric);
        let changes = &setting.arguments.changes;
        let applies = matches!(setting.program, Program::Command(_))
            && setting.simulated.is_none()
            && setting.near.is_none()
            && !(changes.outlive || changes.keep_pinned)
            && (is_requested || (!is_known && setting.common.metric == MetricRequest::Auto));
        let candidates = candidates(setting.machine);
        if !applies || (!is_requested && (store.is_none() || candidates.is_empty())) {
            return Ok(None);
        }
        let mut runs = Self {
            context: context_here(setting),
            key: key.clone(),
            plan: Plan {
                place: None,
                why: "without a behaviour database runs are not compared".to_owned(),
            },
            candidates,
            pus: None,
            is_requested,
            is_held_back: false,
            run: Progress {
                cpu_before: used_by_children(),
                ..Progress::default()
            },
        };
        if runs.candidates.is_empty() {
            "this machine has one NUMA node, one package and one last-level cache, so the placement of \
                             whole runs cannot matter, and nothing is remembered; --machine shows other machines"
                .clone_into(&mut runs.plan.why);
        } else if let Some(store) = store {
            runs.plan = store.history(key, &runs.context)?.plan(&runs.candidates);
            runs.find_area(setting, store.is_running(key, lives)?);
        }
        Ok(Some(runs))
    }

    /// Finds the area on the CPUs that no other run has claimed. Beside another run of the program, the operating
    /// system places both: what was measured was one run alone.
    fn find_area(&mut self, setting: &Setting<'_>, is_running: bool) {
        let Some(place) = &self.plan.place else { return };
        self.is_held_back = true;
        let unpinned = |why: String| Plan { place: None, why };
        let free = setting.topology.allowed_pus();
        match place.area.pus(setting.machine, free).filter(|_| !is_running) {
            Some(pus) => (self.pus, self.is_held_back) = (Some(pus), false),
            None if is_running => {
                self.plan =
                    unpinned("another run of this program is not at its end, and one run alone was measured".into());
            }
            None => {
                let area = place.area;
                self.plan = unpinned(format!("other runs of pinfold have CPUs of each area of {area}"));
            }
        }
    }

    /// Why an area that was found or is tried is not used in this run; `None` if it is, or if there is none.
    pub(super) fn why_not_placed(&self) -> Option<&str> {
        (self.is_held_back && !self.is_requested).then_some(self.plan.why.as_str())
    }

    /// Whether the whole run is the measurement. If not, the program is measured while it runs, and the database is
    /// told whether that was possible.
    pub(super) fn decides(&self) -> bool {
        self.is_requested || self.pus.is_some()
    }

    /// The PUs of the area; `None` for an unpinned run.
    pub(super) fn pus(&self) -> Option<&PuSet> {
        self.pus.as_ref()
    }

    /// The policy of the run.
    pub(super) fn policy(&self) -> WholeRun {
        WholeRun::new(WholeRunOptions {
            plan: self.plan.clone(),
            pus: self.pus.clone(),
            is_requested: self.is_requested,
        })
    }

    /// The program has begun.
    pub(super) fn begin(&mut self, store: &mut Store) -> Result<(), StoreError> {
        if self.candidates.is_empty() {
            return Ok(());
        }
        let run = BegunRun {
            began: now(),
            area: self
                .plan
                .place
                .as_ref()
                .filter(|_| self.pus.is_some())
                .map(|place| place.area),
            pus: self.pus.as_ref().map(PuSet::to_string).unwrap_or_default(),
            process: this_process(),
        };
        self.run.number = Some(store.begin_run(&self.key, &self.context, &run, lives)?);
        Ok(())
    }

    /// Follows the findings of a policy: whether it placed the program, or ended its placement.
    pub(super) fn finding(&mut self, finding: &Finding) {
        match finding {
            Finding::WarmingUp { candidate: 1.., .. } => self.run.is_searched = true,
            Finding::Note {
                code: pinfold_core::NoteCode::Stopped,
                ..
            } => self.run.is_stopped = true,
            _ => {}
        }
    }

    /// The program has ended.
    pub(super) fn program_ended(&mut self, record: &Record) {
        let cpu = used_by_children();
        let how = match (self.run.is_searched, self.run.is_stopped) {
            (true, _) => How::Searched,
            (_, true) => How::Stopped,
            _ => How::Whole,
        };
        self.run.ended = Some(EndedRun {
            wall: record.program.ran.unwrap_or(0.0),
            cpu: cpu.saturating_sub(self.run.cpu_before).as_secs_f64(),
            how: (record.program.exit_status == Some(0)).then_some(how),
        });
    }

    /// Keeps the run, and returns what the next one does, for the user.
    pub(super) fn end(&mut self, store: &mut Store) -> Result<Option<String>, StoreError> {
        let Some((number, ended)) = self.run.number.zip(self.run.ended) else {
            return Ok(None);
        };
        if ended.cpu <= 0.0 {
            // Another process has started the program, so its CPU time is not known here.
            store.drop_run(number)?;
            return Ok(None);
        }
        let plan = store.end_run(&self.key, number, ended, &self.candidates, lives)?;
        let is_worth_a_line = self.decides() || (ended.how == Some(How::Whole) && ended.wall >= SHORTEST.as_secs_f64());
        let Some(plan) = plan.filter(|_| is_worth_a_line) else {
            return Ok(None);
        };
        if ended.how.is_none() {
            return Ok(Some("whole runs: this run failed, so it does not count".to_owned()));
        }
        let next = match &plan.place {
            Some(place) => format!("the next one is in {}", place.area),
            None => "the next one is unpinned".to_owned(),
        };
        Ok(Some(format!(
            "whole runs: this one took {:.3} s, with {:.3} s of CPU time; {next}: {}",
            ended.wall, ended.cpu, plan.why
        )))
    }
}

/// The processor time of former children of this process.
fn used_by_children() -> Duration {
    processor_time::reaped_children().map_or(Duration::ZERO, processor_time::ProcessorTime::total)
}

/// The time in seconds since 1970.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// This process, so that other runs recognise it: its number, its start, and the namespace of its number.
fn this_process() -> String {
    let process = std::process::id().cast_signed();
    let start = Procfs::default().stat(process, process).map_or(0, |stat| stat.start);
    format!("{process} {start}")
}

/// Whether a process of another run has not ended.
fn lives(process: &str) -> bool {
    let known = process.split_once(' ');
    let Some((number, start)) = known.and_then(|(number, start)| {
        Some((
            pinfold_core::digits::decimal::<i32>(number)?,
            pinfold_core::digits::decimal::<u64>(start)?,
        ))
    }) else {
        return false;
    };
    let stat = Procfs::default().stat(number, number);
    stat.is_some_and(|stat| stat.start == start && !matches!(stat.state, 'Z' | 'X'))
}

/// The context of a run in this process.
fn context_here(setting: &Setting<'_>) -> String {
    let folder = env::current_dir().unwrap_or_default();
    let mut temporary: Vec<PathBuf> = TEMPORARY.iter().map(PathBuf::from).collect();
    temporary.extend(
        env::var_os("TMPDIR")
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute()),
    );
    let variables = env::vars_os().map(|(name, value)| {
        (
            name.to_string_lossy().into_owned(),
            value.to_string_lossy().into_owned(),
        )
    });
    let mut words = context(&folder, &temporary, variables);
    words.push(format!("CPUs {}", setting.machine.allowed_pus()));
    words.extend(setting.pages.map(|pages| format!("pages {pages}")));
    words.join(" ")
}

/// The variables of this process that decide how many threads or processes of a program work, or where they are, as
/// `NAME=VALUE`, sorted.
pub(crate) fn deciding_variables() -> Vec<String> {
    let variables = env::vars_os().map(|(name, value)| {
        (
            name.to_string_lossy().into_owned(),
            value.to_string_lossy().into_owned(),
        )
    });
    deciding(variables)
}

/// Those of these variables, sorted.
fn deciding(variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut variables: Vec<String> = variables
        .filter(|(name, _)| decides(name))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    variables.sort();
    variables
}

/// The parts of the context that follow from the working directory and the environment.
fn context(folder: &Path, temporary: &[PathBuf], variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let variables = deciding(variables);
    let within = temporary
        .iter()
        .find(|one| folder != one.as_path() && folder.starts_with(one));
    let folder = match within {
        Some(temporary) => format!("{}/*", temporary.display()),
        None => without_numbers(&folder.to_string_lossy()),
    };
    std::iter::once(folder).chain(variables).collect()
}

/// Whether a variable decides how many threads or processes work, or where threads are.
fn decides(name: &str) -> bool {
    name.ends_with("_NUM_THREADS")
        || ["OMP_", "KMP_", "GOMP_"].iter().any(|prefix| name.starts_with(prefix))
        || VARIABLES.contains(&name)
}

/// The text with `#` in place of each number: folders of jobs have the number of the job.
fn without_numbers(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        let letter = if letter.is_ascii_digit() { '#' } else { letter };
        if letter != '#' || !shown.ends_with('#') {
            shown.push(letter);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(folder: &str, variables: &[(&str, &str)]) -> String {
        let temporary = ["/tmp".into(), "/scratch".into()];
        let variables = variables
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        context(Path::new(folder), &temporary, variables).join(" ")
    }

    #[test]
    fn folders_of_jobs_are_alike_and_others_are_not() {
        assert_eq!(words("/home/a/project", &[]), "/home/a/project");
        assert_eq!(words("/home/a/job-1234", &[]), words("/home/a/job-99", &[]));
        assert_eq!(words("/tmp/tmp.Xy12/deep", &[]), "/tmp/*");
        assert_eq!(words("/scratch/7", &[]), "/scratch/*");
        assert_eq!(words("/tmp", &[]), "/tmp");
    }

    #[test]
    fn variables_that_decide_the_number_of_threads_belong_to_the_context() {
        let variables = [
            ("OMP_NUM_THREADS", "4"),
            ("HOME", "/root"),
            ("MAKEFLAGS", "-j8"),
            ("RAYON_NUM_THREADS", "2"),
        ];
        assert_eq!(
            words("/", &variables),
            "/ MAKEFLAGS=-j8 OMP_NUM_THREADS=4 RAYON_NUM_THREADS=2"
        );
    }

    #[test]
    fn this_process_lives_and_others_with_its_number_do_not() {
        assert!(lives(&this_process()));
        let (number, _) = this_process()
            .split_once(' ')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        assert!(!lives(&format!("{number} 1")));
        assert!(!lives("") && !lives("x y"));
    }
}
