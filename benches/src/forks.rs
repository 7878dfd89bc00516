//! The cost for a pinned task of the daemon when it starts processes.

use crate::measure::{Missing, median};
use anyhow::{Context, Result, bail, ensure};
use pinfold_core::{Host, Placed};
use pinfold_linux::journal::Directory;
use pinfold_linux::service::Signals;
use pinfold_linux::topology::{self, Source};
use pinfold_linux::watch::{Counts, ForkEvents, PageLimits, Selection, Watcher, WatcherOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Starts programs one after the other; each input line has the number.
const SCRIPT: &str = "while read n; do while [ $n -gt 0 ]; do /bin/true; n=$((n-1)); done; echo done; done";

/// A shell that starts programs.
struct Shell {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Shell {
    fn start() -> Result<Self> {
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().context("sh cannot be run")?;
        let (to, from) = child
            .stdin
            .take()
            .zip(child.stdout.take())
            .context("there are no pipes")?;
        let from = BufReader::new(from);
        Ok(Self { child, to, from })
    }

    /// Starts this number of programs. Returns the seconds.
    fn begin(&mut self, programs: u32) -> Result<f64> {
        let start = Instant::now();
        writeln!(self.to, "{programs}")?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        ensure!(line == "done\n", "the shell has ended");
        Ok(start.elapsed().as_secs_f64())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The time in which a shell starts a program and waits for it, relative to an unwatched shell. The daemon has pinned
/// the shell and restores the masks of its children before they run.
pub(crate) fn of_a_pinned_task(root: &Path) -> Result<f64> {
    // In a separate thread, because the watcher blocks signals in the thread that creates it.
    let measured = thread::scope(|scope| scope.spawn(|| measure(root)).join());
    measured.unwrap_or_else(|_| bail!("the measurement has panicked"))
}

fn measure(root: &Path) -> Result<f64> {
    const ROUNDS: usize = 31;
    const PROGRAMS: u32 = 50;
    let topology = topology::read(&Source::Live)?;
    let pus = topology.allowed_pus().clone();
    let events = ForkEvents::open(&pus).map_err(|error| Missing(error.to_string()))?;
    let (mut pinned, mut free) = (Shell::start()?, Shell::start()?);
    let process = i32::try_from(pinned.child.id())?;
    let watching = WatcherOptions {
        topology,
        selection: Selection {
            processes: vec![process],
            ..Selection::default()
        },
        counts: Counts::default(),
        probing: None,
        release_after: Duration::from_secs(3600),
        pages: PageLimits::default(),
    };
    let directory = Directory::new(&root.join("target/bench-forks"))?;
    let mut watcher = Watcher::new(watching, &directory, Signals::take()?)?;
    let started = watcher.free_children_at_birth(events);
    started.map_err(|error| Missing(error.to_string()))?;
    watcher.observe();
    let shell = watcher
        .task_of(process)
        .context("the watcher does not find the shell")?;
    let pu = pus.first().context("there is no PU")?;
    match watcher.place(shell, pu) {
        Placed::Done => {}
        other => bail!("the shell is not pinned: {other:?}"),
    }
    let mut ratios = vec![];
    for _ in 0..ROUNDS {
        ratios.push(pinned.begin(PROGRAMS)? / free.begin(PROGRAMS)?);
    }
    let freed = watcher.statistics().freed;
    ensure!(
        freed == u64::from(PROGRAMS) * ROUNDS as u64,
        "only {freed} children were freed"
    );
    Ok(median(ratios))
}
