//! Real programs under the default policy, beside the same programs alone.

use crate::measure::{Missing, PINFOLD, Times, time};
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often each is run alone and under pinfold, in turns. The best runs are compared: other programs only take time.
const TURNS: usize = 5;

/// The requests of one run: for some seconds, so that the policy measures and tries.
const REQUESTS: &str = "2000000";

/// The time for which a server may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts a server, under pinfold if `prefix` says so, and waits until it is ready.
    fn start(
        root: &Path,
        prefix: &[&str],
        server: &[&str],
        database: &Path,
        is_ready: impl Fn() -> bool,
    ) -> Result<Self> {
        let words = [prefix, server].concat();
        let started = Command::new(words[0])
            .args(&words[1..])
            .current_dir(root)
            .env("PINFOLD_DB", database)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let server = Self(started.with_context(|| format!("{} cannot be run", words[0]))?);
        let began = Instant::now();
        while !is_ready() {
            ensure!(began.elapsed() < PATIENCE, "`{}` does not start", words.join(" "));
            sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

/// The best of several rates under `pinfold run`, over the best without it, in turns.
fn with_over_without(rate: impl Fn(&[&str]) -> Result<f64>) -> Result<f64> {
    let (mut alone, mut under) = (0f64, 0f64);
    for _ in 0..TURNS {
        alone = alone.max(rate(&[])?);
        under = under.max(rate(&[PINFOLD, "run", "--policy", "auto", "-qq", "--"])?);
    }
    Ok(under / alone)
}

/// The name of a folder, as an argument.
fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the temporary folder has no name in UTF-8")
}

/// Requests per second of a Redis server under `pinfold run`, over those of the server alone.
pub(crate) fn redis(root: &Path) -> Result<f64> {
    if Command::new("redis-server").arg("--version").output().is_err() {
        return Err(Missing("redis-server is not installed".to_owned()).into());
    }
    with_over_without(|prefix| requests(root, prefix))
}

/// The requests per second that `redis-benchmark` finds.
fn requests(root: &Path, prefix: &[&str]) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("redis");
    let server = [
        "redis-server",
        "--port",
        "0",
        "--save",
        "",
        "--unixsocket",
        text(&socket)?,
    ];
    let database = folder.path().join("behaviour.db");
    let _server = Server::start(root, prefix, &server, &database, || socket.exists())?;
    let socket = text(&socket)?;
    let client = [
        "redis-benchmark",
        "-s",
        socket,
        "-t",
        "get",
        "-P",
        "8",
        "-n",
        REQUESTS,
        "--csv",
    ];
    let output = time(root, &client)?.output;
    let line = output.lines().find(|line| line.starts_with("\"GET\""));
    let rate = line.and_then(|line| line.split(',').nth(1));
    let rate = rate.with_context(|| format!("redis-benchmark printed no rate: {output}"))?;
    Ok(rate.trim_matches('"').parse()?)
}

/// A folder with a `PostgreSQL` cluster and the tables of `pgbench`.
struct Cluster {
    folder: tempfile::TempDir,
    programs: PathBuf,
    /// What runs a program as the user of the cluster: `postgres` does not run as root.
    user: &'static [&'static str],
}

/// Transactions per second of a `PostgreSQL` server under `pinfold run`, over those of the server alone.
pub(crate) fn postgres(root: &Path) -> Result<f64> {
    let cluster = Cluster::new()?;
    with_over_without(|prefix| cluster.transactions(root, prefix))
}

impl Cluster {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let user: &'static [&'static str] = if geteuid().is_root() {
            let owner = User::from_name("postgres")?.ok_or_else(Self::missing)?;
            chown(folder.path(), Some(owner.uid.as_raw()), Some(owner.gid.as_raw()))?;
            &["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        } else {
            &[]
        };
        let cluster = Self {
            programs: Self::programs().ok_or_else(Self::missing)?,
            user,
            folder,
        };
        let data = cluster.data();
        let initdb = cluster.program("initdb");
        time(
            cluster.folder.path(),
            &[cluster.user, &[text(&initdb)?, "--no-sync", "-D", text(&data)?]].concat(),
        )?;
        let server = cluster.start(cluster.folder.path(), &[])?;
        cluster.bench(&["-i", "-q", "-s", "10"])?;
        drop(server);
        Ok(cluster)
    }

    fn missing() -> Missing {
        Missing("PostgreSQL is not installed".to_owned())
    }

    /// Where distributions have the programs of the newest version, of which few are in PATH.
    fn programs() -> Option<PathBuf> {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
        let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
        folders.sort();
        folders.pop().filter(|folder| folder.join("postgres").exists())
    }

    fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn start(&self, root: &Path, prefix: &[&str]) -> Result<Server> {
        let (program, data) = (self.program("postgres"), self.data());
        let own = [text(&program)?, "-D", text(&data)?, "-k", text(self.folder.path())?];
        let server = [self.user, &own[..], &["-c", "listen_addresses=", "-c", "fsync=off"]].concat();
        let database = tempfile::tempdir()?;
        // Its socket is there before it takes connections.
        let is_ready = || {
            let mut asked = Command::new(self.program("pg_isready"));
            let answer = asked.arg("-q").arg("-h").arg(self.folder.path()).status();
            answer.is_ok_and(|status| status.success())
        };
        Server::start(root, prefix, &server, &database.path().join("behaviour.db"), is_ready)
    }

    /// What `pgbench` prints.
    fn bench(&self, arguments: &[&str]) -> Result<Times> {
        let (program, folder) = (self.program("pgbench"), self.folder.path());
        let client = [self.user, &[text(&program)?, "-h", text(folder)?]].concat();
        time(folder, &[&client[..], arguments, &["postgres"]].concat())
    }

    fn transactions(&self, root: &Path, prefix: &[&str]) -> Result<f64> {
        let _server = self.start(root, prefix)?;
        self.bench(&["-S", "-n", "-c", "2", "-T", "5"])?.number("tps = ", " (")
    }
}

/// The rate of an OpenMP solver, conjugate gradients on two threads, under `pinfold run` over that alone.
pub(crate) fn solver(root: &Path) -> Result<f64> {
    let program = [
        "target/workloads/cg",
        "--threads",
        "2",
        "--size",
        "16M",
        "--seconds",
        "6",
    ];
    with_over_without(|prefix| iterations(root, &[prefix, &program[..]].concat()))
}

/// The iterations per second that a workload reports.
fn iterations(root: &Path, words: &[&str]) -> Result<f64> {
    let times = time(root, words)?;
    Ok(times.number(", iterations ", ",")? / times.work()?)
}
