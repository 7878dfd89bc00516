//! The fields of `/proc` that are needed to follow and place threads.
//!
//! The root is an argument, so that a test can use its own directory. A value that cannot be read is `None`: a thread
//! may end between any two system calls.

use crate::affinity::CpuMask;
use nix::sys::resource::{Resource, getrlimit};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};
use pinfold_core::{PuId, PuSet, digits};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A `/proc` file system.
#[derive(Clone, Debug)]
pub struct Procfs {
    root: PathBuf,
}

/// The fields of `/proc/PROCESS/task/THREAD/stat` that pinfold uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStat {
    /// The thread's name (`comm`).
    pub name: String,
    /// The state's letter: `R`, `S`, `T` …; `Z` for a thread that has ended and was not reaped.
    pub state: char,
    /// The start time of the thread, in clock ticks since boot. It identifies a thread together with the thread id.
    pub start: u64,
    /// The PU that it last ran on.
    pub last_pu: Option<PuId>,
    /// The parent of its process.
    pub parent: i32,
    /// Whether it is a kernel thread.
    pub is_kernel_thread: bool,
    /// Whether the kernel runs it for its process: it belongs to an `io_uring` ring or to vhost.
    pub is_user_worker: bool,
    /// Whether it has real-time priority or deadlines.
    pub is_real_time: bool,
}

/// `CAP_SYS_PTRACE`: linux/capability.h.
const SYS_PTRACE: u32 = 19;

/// `PF_KTHREAD` in the flags of `stat`: linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// `PF_IO_WORKER` (Linux 5.12) and `PF_USER_WORKER` (6.4) there.
const USER_WORKER: u64 = 0x0000_4010;

/// The fields of `/proc/THREAD/status` that pinfold uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinship {
    /// The process that the thread belongs to.
    pub process: i32,
    /// That process's parent.
    pub parent: i32,
}

impl Default for Procfs {
    /// The running kernel's `/proc`.
    fn default() -> Self {
        Self::new("/proc")
    }
}

impl Procfs {
    /// The file system at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The mount point.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A file of a process. `process` is a number or `self`.
    pub(crate) fn file(&self, process: &str, name: &str) -> PathBuf {
        self.root.join(process).join(name)
    }

    /// The state of one thread.
    pub fn stat(&self, process: i32, thread: i32) -> Option<ThreadStat> {
        let bytes = fs::read(self.thread(process, thread).join("stat")).ok()?;
        parse_stat(&String::from_utf8_lossy(&bytes))
    }

    /// The open file with the state of one thread. Reading it again costs half as much as opening it.
    pub fn open_stat(&self, process: i32, thread: i32) -> Option<StatFile> {
        let file = File::open(self.thread(process, thread).join("stat")).ok()?;
        Some(StatFile(file))
    }

    /// The processor time of one thread, user and system together. The kernel updates it at scheduler ticks, so the
    /// time of a running thread may lag by one tick.
    pub fn cpu_time(&self, process: i32, thread: i32) -> Option<Duration> {
        self.open_cpu_time(process, thread)?.read()
    }

    /// The processor time and the run delay of one thread.
    pub(crate) fn times(&self, process: i32, thread: i32) -> Option<TaskTimes> {
        self.open_cpu_time(process, thread)?.read_times()
    }

    /// The open file with the processor time of one thread. Reading it again costs a fifth.
    pub fn open_cpu_time(&self, process: i32, thread: i32) -> Option<CpuTimeFile> {
        let file = File::open(self.thread(process, thread).join("schedstat")).ok()?;
        Some(CpuTimeFile(file))
    }

    /// The open file with the bytes that one thread reads and writes. The kernel adds nothing of its children.
    pub(crate) fn open_io(&self, process: i32, thread: i32) -> Option<IoFile> {
        let file = File::open(self.thread(process, thread).join("io")).ok()?;
        Some(IoFile(file))
    }

    /// The open file with the bytes that all threads of a process read and write, and the children that it has waited
    /// for.
    pub(crate) fn open_process_io(&self, process: i32) -> Option<IoFile> {
        let file = File::open(self.root.join(process.to_string()).join("io")).ok()?;
        Some(IoFile(file))
    }

    /// The number of times that the scheduler has moved a thread to another PU. `None` if the kernel does not report
    /// it.
    pub(crate) fn migrations(&self, process: i32, thread: i32) -> Option<u64> {
        let text = fs::read_to_string(self.thread(process, thread).join("sched")).ok()?;
        let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
        digits::decimal(line.rsplit_once(':')?.1.trim())
    }

    /// The process of a thread, and the parent of that process.
    pub fn kinship(&self, thread: i32) -> Option<Kinship> {
        let bytes = fs::read(self.root.join(thread.to_string()).join("status")).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let field = |name: &str| -> Option<i32> {
            let value = text.lines().find_map(|line| line.strip_prefix(name))?;
            digits::decimal(value.trim())
        };
        Some(Kinship {
            process: field("Tgid:")?,
            parent: field("PPid:")?,
        })
    }

    /// Whether a process is the first of a PID namespace. It becomes the parent of processes whose parent has ended.
    pub(crate) fn adopts(&self, process: i32) -> bool {
        self.own_numbers(process).last() == Some(&1)
    }

    /// A checksum of the control groups of a process. `None` if the process has ended. Children inherit the groups of
    /// their creator.
    pub(crate) fn groups_checksum(&self, process: i32) -> Option<u32> {
        let text = fs::read(self.file(&process.to_string(), "cgroup")).ok()?;
        (!text.is_empty()).then(|| crc32fast::hash(&text))
    }

    /// Whether a process is in a PID namespace below this `/proc`'s namespace. False if the process has ended.
    pub(crate) fn is_in_nested_namespace(&self, process: i32) -> bool {
        self.own_numbers(process).len() > 1
    }

    /// The numbers of a process in the PID namespaces from this `/proc`'s namespace down to its own.
    fn own_numbers(&self, process: i32) -> Vec<i32> {
        let text = fs::read(self.root.join(process.to_string()).join("status")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let numbers = line.unwrap_or_default().split_ascii_whitespace();
        numbers.filter_map(|number| number.parse().ok()).collect()
    }

    /// Whether a process has mapped a file whose path contains one of these texts. False if the mappings cannot be
    /// read.
    pub fn has_mapped(&self, process: i32, texts: &[&str]) -> bool {
        let maps = fs::read(self.root.join(process.to_string()).join("maps")).unwrap_or_default();
        let maps = String::from_utf8_lossy(&maps);
        texts.iter().any(|text| maps.contains(text))
    }

    /// A variable of the environment that the program of a process started with.
    pub(crate) fn variable(&self, process: i32, name: &str) -> Option<OsString> {
        let environment = fs::read(self.file(&process.to_string(), "environ")).unwrap_or_default();
        let value = environment
            .split(|&byte| byte == 0)
            .find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        value.map(|value| OsString::from_vec(value.to_vec()))
    }

    /// The processes, in ascending order.
    pub fn processes(&self) -> Vec<i32> {
        numbered(&self.root)
    }

    /// The number of the newest task, from `loadavg`. While it stays the same, no task has started. The kernel assigns
    /// numbers in ascending order, and starts again after the highest.
    pub fn newest(&self) -> Option<i32> {
        let text = fs::read_to_string(self.root.join("loadavg")).ok()?;
        digits::decimal(text.split_whitespace().nth(4)?)
    }

    /// The control groups of a process, as paths below the roots of their hierarchies.
    pub fn cgroups(&self, process: i32) -> Vec<String> {
        let text = fs::read_to_string(self.root.join(process.to_string()).join("cgroup")).unwrap_or_default();
        let path = |line: &str| Some(line.splitn(3, ':').nth(2)?.to_owned());
        text.lines().filter_map(path).collect()
    }

    /// The effective user of a process.
    pub fn user(&self, process: i32) -> Option<u32> {
        let users = self.status_field(&process.to_string(), "Uid:")?;
        // The real user is the first.
        digits::decimal(users.split_whitespace().nth(1)?)
    }

    /// The mask of a task, including offline CPUs.
    ///
    /// # Errors
    ///
    /// `NotFound` for a task that has ended.
    pub(crate) fn mask(&self, task: i32) -> io::Result<CpuMask> {
        let list = self.status_field(&task.to_string(), "Cpus_allowed_list:");
        let set: Option<PuSet> = list.and_then(|list| list.parse().ok());
        set.map(|set| CpuMask::from(&set))
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The thread that traces a task. `None` if no thread does.
    pub(crate) fn tracer(&self, task: i32) -> Option<i32> {
        self.status_field(&task.to_string(), "TracerPid:")
            .and_then(|text| digits::decimal(&text))
            .filter(|&tracer| tracer != 0)
    }

    /// Whether this process may trace the processes of all users.
    pub(crate) fn may_trace_all(&self) -> bool {
        let effective = self.status_field("self", "CapEff:");
        let effective = effective.and_then(|text| u64::from_str_radix(&text, 16).ok());
        effective.is_some_and(|effective| effective >> SYS_PTRACE & 1 == 1)
    }

    /// A process and its descendants, each after its parent. Kernels without `CONFIG_PROC_CHILDREN` show no
    /// descendants.
    pub fn family(&self, process: i32) -> Vec<i32> {
        self.family_without(process, &BTreeSet::new())
    }

    /// Like `family`, without some processes and their descendants.
    pub(crate) fn family_without(&self, process: i32, without: &BTreeSet<i32>) -> Vec<i32> {
        let mut family = vec![process];
        let mut at = 0;
        while let Some(&parent) = family.get(at) {
            at += 1;
            for thread in self.threads(parent) {
                for child in self.children(parent, thread) {
                    if !without.contains(&child) && !family.contains(&child) {
                        family.push(child);
                    }
                }
            }
        }
        family
    }

    /// The text after a field's name in `status` of a task. `task` is a number or `self`.
    fn status_field(&self, task: &str, name: &str) -> Option<String> {
        let bytes = fs::read(self.file(task, "status")).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(value.trim().to_owned())
    }

    /// The threads of a process, in ascending order. Empty if the process has ended.
    pub fn threads(&self, process: i32) -> Vec<i32> {
        numbered(&self.root.join(process.to_string()).join("task"))
    }

    /// The children of a thread. Empty if the kernel does not report them.
    pub fn children(&self, process: i32, thread: i32) -> Vec<i32> {
        fs::read_to_string(self.thread(process, thread).join("children"))
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(digits::decimal)
            .collect()
    }

    fn thread(&self, process: i32, thread: i32) -> PathBuf {
        self.root.join(Path::new(&format!("{process}/task/{thread}")))
    }
}

/// The time since boot in clock ticks, the unit of start times.
pub(crate) fn ticks_since_boot() -> io::Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME)?;
    let ticks = sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100);
    let nanoseconds = i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec());
    Ok(u64::try_from(nanoseconds * i128::from(ticks) / 1_000_000_000).unwrap_or(0))
}

/// The entries of a directory whose names are numbers, in ascending order.
fn numbered(directory: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(directory) else {
        return vec![];
    };
    let mut numbers: Vec<i32> = entries
        .filter_map(|entry| digits::decimal(entry.ok()?.file_name().to_str()?))
        .collect();
    numbers.sort_unstable();
    numbers
}

/// File descriptors that are left for other uses. If fewer are left, a file is opened for each reading.
const SPARE: u64 = 64;

fn may_stay_open(file: &File) -> bool {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    u64::try_from(file.as_raw_fd()).is_ok_and(|descriptor| descriptor + SPARE < limit)
}

/// An open `stat` of one thread. It stays with that thread, even if the number is reused.
#[derive(Debug)]
pub struct StatFile(File);

impl StatFile {
    /// Whether there are enough file descriptors to keep this file open.
    pub fn may_stay_open(&self) -> bool {
        may_stay_open(&self.0)
    }

    /// The state of the thread. `None` if it has been reaped.
    pub fn read(&self) -> Option<ThreadStat> {
        // The buffer holds fifty-two numbers of at most twenty digits, and a name.
        let mut buffer = [0; 2048];
        let length = self.0.read_at(&mut buffer, 0).ok()?;
        parse_stat(&String::from_utf8_lossy(&buffer[..length]))
    }
}

/// An open `schedstat` of one thread. It stays with that thread, even if the number is reused.
#[derive(Debug)]
pub struct CpuTimeFile(File);

impl CpuTimeFile {
    /// Whether there are enough file descriptors to keep this file open.
    pub fn may_stay_open(&self) -> bool {
        may_stay_open(&self.0)
    }

    /// The processor time of the thread. `None` if it has been reaped.
    pub fn read(&self) -> Option<Duration> {
        Some(self.read_times()?.used)
    }

    /// The times of the thread. `None` if it has been reaped.
    pub(crate) fn read_times(&self) -> Option<TaskTimes> {
        // The buffer holds three numbers of at most twenty digits.
        let mut buffer = [0; 64];
        let length = self.0.read_at(&mut buffer, 0).ok()?;
        let mut fields = std::str::from_utf8(&buffer[..length]).ok()?.split_whitespace();
        let mut time = || Some(Duration::from_nanos(digits::decimal(fields.next()?)?));
        Some(TaskTimes {
            used: time()?,
            run_delay: time(),
        })
    }
}

/// What `schedstat` says of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskTimes {
    /// The processor time, user and system together.
    pub(crate) used: Duration,
    /// The time that it was ready to run and waited for a PU.
    pub(crate) run_delay: Option<Duration>,
}

/// An open `io` of one thread or process. It stays with that one, even if the number is reused.
#[derive(Debug)]
pub(crate) struct IoFile(File);

impl IoFile {
    /// Whether there are enough file descriptors to keep this file open.
    pub(crate) fn may_stay_open(&self) -> bool {
        may_stay_open(&self.0)
    }

    /// The bytes that it has read and written, from the page cache or not. `None` if it has been reaped.
    pub(crate) fn read(&self) -> Option<u64> {
        // The buffer holds seven names and numbers of at most twenty digits.
        let mut buffer = [0; 512];
        let length = self.0.read_at(&mut buffer, 0).ok()?;
        parse_io(std::str::from_utf8(&buffer[..length]).ok()?)
    }
}

/// The sum of `rchar` and `wchar` in proc(5)'s `io`.
fn parse_io(text: &str) -> Option<u64> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        digits::decimal(line[name.len()..].trim_start())
    };
    field("rchar:")?.checked_add(field("wchar:")?)
}

/// Parses proc(5)'s `stat` line. The name is in parentheses and may itself contain parentheses and spaces, so the
/// fields are counted from the last closing one: state is field 3, ppid 4, flags 9, starttime 22, processor 39, policy
/// 41.
fn parse_stat(line: &str) -> Option<ThreadStat> {
    let (before, after) = line.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut fields = (3..).zip(after.split_ascii_whitespace());
    let mut field = |number: i32| fields.find_map(|(at, field)| (at == number).then_some(field));
    // The fields are read in ascending order, because each is searched after the previous one.
    let state = field(3)?.chars().next()?;
    let parent = digits::decimal(field(4)?)?;
    let flags: u64 = digits::decimal(field(9)?)?;
    Some(ThreadStat {
        state,
        parent,
        is_kernel_thread: flags & KERNEL_THREAD != 0,
        is_user_worker: flags & USER_WORKER != 0,
        start: digits::decimal(field(22)?)?,
        last_pu: field(39).and_then(digits::decimal).map(PuId),
        is_real_time: field(41)
            .and_then(digits::decimal)
            .is_some_and(|policy| [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&policy)),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(files: &[(&str, &str)]) -> (tempfile::TempDir, Procfs) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let procfs = Procfs::new(root.path());
        (root, procfs)
    }

    const STAT: &str = "17 (a) (b c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21 22 23 24 25 26 27 28 \
                        29 30 31 32 33 34 35 6 37 38";

    #[test]
    fn a_mapped_library_is_found_by_a_part_of_its_path() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 17 /usr/lib/llvm-14/lib/libomp.so.5\n";
        let (_root, procfs) = fake(&[("7/maps", maps)]);
        assert!(procfs.has_mapped(7, &["/libiomp", "/libomp"]));
        assert!(!procfs.has_mapped(7, &["/libgomp"]) && !procfs.has_mapped(8, &["/libomp"]));
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let (_root, procfs) = fake(&[("7/task/17/stat", STAT)]);
        let expected = ThreadStat {
            name: "a) (b c)".into(),
            state: 'S',
            start: 4711,
            last_pu: Some(PuId(6)),
            parent: 1,
            is_kernel_thread: false,
            is_user_worker: false,
            is_real_time: false,
        };
        assert_eq!(procfs.stat(7, 17), Some(expected));
    }

    #[test]
    fn a_thread_that_has_ended_has_no_values() {
        let (_root, procfs) = fake(&[]);
        assert_eq!(procfs.stat(7, 17), None);
        assert_eq!(procfs.cpu_time(7, 17), None);
        assert_eq!(procfs.kinship(17), None);
        assert!(procfs.threads(7).is_empty() && procfs.children(7, 17).is_empty());
    }

    #[test]
    fn threads_children_and_times_are_read() {
        let (_root, procfs) = fake(&[
            ("7/task/7/schedstat", "1500000000 20 3\n"),
            ("7/task/7/children", "30 41 "),
            ("7/task/17/schedstat", "1 2 3\n"),
            ("17/status", "Name:\tx\nTgid:\t7\nPid:\t17\nPPid:\t1\n"),
        ]);
        assert_eq!(procfs.threads(7), [7, 17]);
        assert_eq!(procfs.children(7, 7), [30, 41]);
        assert_eq!(procfs.cpu_time(7, 7), Some(Duration::from_millis(1500)));
        assert_eq!(procfs.kinship(17), Some(Kinship { process: 7, parent: 1 }));
    }

    #[test]
    fn migrations_are_counted_where_the_kernel_reports_them() {
        let sched = "a (7, #threads: 2)\n---\nse.nr_migrations         :                 12\nnr_switches : 3\n";
        let (_root, procfs) = fake(&[("7/task/17/sched", sched), ("7/task/18/sched", "nr_switches : 3\n")]);
        assert_eq!(
            [17, 18, 19].map(|thread| procfs.migrations(7, thread)),
            [Some(12), None, None]
        );
    }

    #[test]
    fn a_family_has_each_descendant_once_without_excluded_subtrees() {
        let (_root, procfs) = fake(&[
            ("7/task/7/children", "30 41 "),
            ("7/task/17/children", "52"),
            ("30/task/30/children", "60"),
            ("60/task/60/children", ""),
        ]);
        assert_eq!(procfs.family(7), [7, 30, 41, 52, 60]);
        assert_eq!(procfs.family_without(7, &[30].into()), [7, 41, 52]);
    }

    #[test]
    fn a_task_that_nobody_traces_has_no_tracer() {
        let (_root, procfs) = fake(&[
            ("7/status", "TracerPid:\t0\n"),
            ("8/status", "Name:\tx\nTracerPid:\t9\n"),
        ]);
        assert_eq!([7, 8, 9].map(|task| procfs.tracer(task)), [None, Some(9), None]);
    }

    #[test]
    fn the_running_kernel_is_understood() {
        let process = i32::try_from(std::process::id()).unwrap();
        let procfs = Procfs::default();
        assert!(procfs.threads(process).contains(&process));
        assert!(procfs.stat(process, process).unwrap().start > 0);
        assert_eq!(procfs.kinship(process).unwrap().process, process);
    }
}
