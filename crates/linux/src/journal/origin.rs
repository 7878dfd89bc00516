//! The origin of a journal: the boot of the machine, the namespaces of its numbers and times, and the process that
//! writes it.
//!
//! Process numbers are valid in one PID namespace, and start times in one time namespace. The boot's identifier is the
//! same in all containers of a machine. A journal of other namespaces is left alone, because here its numbers name
//! other threads or none. `Elsewhere` names the place where it can be rolled back.
//!
//! A PID namespace ends with its last process. The machine's first namespace sees all processes. So if no process is in
//! a namespace, the first namespace knows that it has ended, with all threads of the journal.

use super::error::{JournalError, failure};
use crate::procfs::Procfs;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;

/// The inode number of the machine's first PID namespace: `PROC_PID_INIT_INO` in `linux/proc_ns.h`.
const FIRST: u64 = 0xEFFF_FFFC;

/// Nanoseconds in a second.
const SECOND: i64 = 1_000_000_000;

/// The origin of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The boot of the machine.
    pub(crate) boot: String,
    /// The namespaces. `None` in a journal of version 1, which does not name them.
    pub(crate) namespaces: Option<Namespaces>,
    /// The process that writes it. `None` in a journal of version 1 or 2, which does not name it.
    pub(crate) writer: Option<Writer>,
}

/// A process that writes a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    /// Its number.
    pub(crate) process: i32,
    /// Its start time, in clock ticks since boot.
    pub(crate) start: u64,
}

impl Writer {
    /// Whether it runs. A process that was killed and is not yet reaped does not run.
    pub(super) fn lives(self, procfs: &Procfs) -> bool {
        let stat = procfs.stat(self.process, self.process);
        stat.is_some_and(|stat| stat.start == self.start && !matches!(stat.state, 'Z' | 'X'))
    }
}

/// The namespaces of a process's numbers and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespaces {
    /// The PID namespace.
    pub(crate) pid: PidNamespace,
    /// The offset of the time namespace to the time since boot, in nanoseconds.
    pub(crate) boot_offset: i64,
}

/// A PID namespace: `/proc/PID/ns/pid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PidNamespace {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// The format of readlink(1).
impl fmt::Display for PidNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid:[{}]", self.inode)
    }
}

/// The relation of a journal to a process of another origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// It names threads of this process's namespaces.
    Here,
    /// The machine was rebooted since then.
    EarlierBoot,
    /// It names threads of other namespaces.
    Elsewhere(Namespaces),
}

impl Origin {
    /// The origin of this process.
    pub(super) fn here(procfs: &Procfs) -> Result<Self, JournalError> {
        let boot = procfs.root().join("sys/kernel/random/boot_id");
        let boot = fs::read_to_string(&boot).map_err(failure(&boot, "read"))?;
        let this = procfs.root().join("self");
        let number = fs::read_link(&this).map_err(failure(&this, "read"))?;
        if number.to_str() != Some(&process::id().to_string()) {
            return Err(JournalError::AnotherProc);
        }
        let namespaces = Namespaces::of(procfs, "self").map_err(failure(&this.join("ns"), "read"))?;
        let process = process::id().cast_signed();
        let stat = procfs.stat(process, process);
        Ok(Self {
            boot: boot.trim().to_owned(),
            namespaces: Some(namespaces),
            writer: stat.map(|stat| Writer {
                process,
                start: stat.start,
            }),
        })
    }

    /// The relation of a journal from `other` to a process of this origin.
    pub(super) fn relation(&self, other: &Self) -> Relation {
        if self.boot != other.boot {
            return Relation::EarlierBoot;
        }
        match other.namespaces {
            Some(namespaces) if self.namespaces != Some(namespaces) => Relation::Elsewhere(namespaces),
            _ => Relation::Here,
        }
    }

    /// Whether this is the first PID namespace: there all processes of the machine have numbers.
    fn sees_all(&self) -> bool {
        self.namespaces.is_some_and(|namespaces| namespaces.pid.inode == FIRST)
    }
}

impl Namespaces {
    /// The namespaces of a process: its number, or `self`.
    fn of(procfs: &Procfs, process: &str) -> io::Result<Self> {
        let namespace = fs::metadata(procfs.file(process, "ns/pid"))?;
        // A kernel without time namespaces lacks this file.
        let offsets = fs::read_to_string(procfs.file(process, "timens_offsets")).unwrap_or_default();
        Ok(Self {
            pid: PidNamespace {
                device: namespace.dev(),
                inode: namespace.ino(),
            },
            boot_offset: boot_offset(&offsets),
        })
    }
}

/// The offset of the time since boot: the line of `/proc/PID/timens_offsets` with the clock, seconds and nanoseconds.
fn boot_offset(text: &str) -> i64 {
    let offset = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let seconds: i64 = words.next()?.parse().ok()?;
        let nanoseconds: i64 = words.next()?.parse().ok()?;
        Some(seconds.saturating_mul(SECOND).saturating_add(nanoseconds))
    };
    let line = text.lines().find(|line| line.starts_with("boottime"));
    line.and_then(offset).unwrap_or(0)
}

/// Why a journal is left alone, and where it can be rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    namespaces: Namespaces,
    /// Whether the boot offset differs from this process's offset.
    other_time: bool,
    /// A process of these namespaces that is visible from here, if there is one.
    process: Option<i32>,
    /// The directory of the journal.
    directory: PathBuf,
}

impl Elsewhere {
    /// Looks for the namespaces of the journal at `path`. `None` if they have ended, and with them all threads of the
    /// journal.
    pub(super) fn find(path: &Path, procfs: &Procfs, here: &Origin, namespaces: Namespaces) -> Option<Self> {
        let mut may_live = !here.sees_all();
        let mut found = None;
        for process in procfs.processes() {
            match Namespaces::of(procfs, &process.to_string()) {
                Ok(of) => {
                    may_live |= of.pid == namespaces.pid;
                    found = found.or((of == namespaces).then_some(process));
                }
                // If the namespace of a process cannot be read, the process may belong to it, unless it is in the
                // namespace of /proc.
                Err(_) => may_live |= procfs.is_in_nested_namespace(process),
            }
        }
        may_live.then(|| Self {
            namespaces,
            other_time: here.namespaces.map(|here| here.boot_offset) != Some(namespaces.boot_offset),
            process: found,
            directory: path.parent().unwrap_or(path).to_path_buf(),
        })
    }
}

/// The namespaces, and the command that rolls the journal back.
impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Namespaces { pid, boot_offset } = self.namespaces;
        write!(f, "its threads belong to the PID namespace {pid}")?;
        if self.other_time {
            write!(f, " with a boot offset of {} s", boot_offset / SECOND)?;
        }
        let (time, directory) = (if self.other_time { "-T " } else { "" }, self.directory.display());
        match self.process {
            Some(process) => write!(
                f,
                "; run `pinfold reset` in that container, or `nsenter -t {process} -p {time}unshare --mount-proc pinfold \
                 reset --journals {directory}` here"
            ),
            None => f.write_str(
                ", and none of its processes is visible here; run `pinfold reset` in that container, or as root \
                 outside all containers",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespaces(inode: u64, boot_offset: i64) -> Namespaces {
        let pid = PidNamespace { device: 4, inode };
        Namespaces { pid, boot_offset }
    }

    fn origin(namespaces: Option<Namespaces>) -> Origin {
        Origin {
            boot: "4711".to_owned(),
            namespaces,
            writer: None,
        }
    }

    #[test]
    fn this_process_is_here() {
        let here = Origin::here(&Procfs::default()).unwrap();
        assert_eq!(here.relation(&here.clone()), Relation::Here);
    }

    /// A `/proc` where `self` is the process with this number.
    fn fake(process: &str) -> (tempfile::TempDir, Procfs) {
        let root = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("sys/kernel/random/boot_id", "4711-0815\n");
        file(&format!("{process}/ns/pid"), "");
        file(&format!("{process}/timens_offsets"), "boottime           2        5\n");
        std::os::unix::fs::symlink(process, root.path().join("self")).unwrap();
        let procfs = Procfs::new(root.path());
        (root, procfs)
    }

    #[test]
    fn boot_and_namespaces_are_read_from_the_given_proc() {
        let (root, procfs) = fake(&process::id().to_string());
        let here = Origin::here(&procfs).unwrap();
        let namespaces = here.namespaces.unwrap();
        let pid = fs::metadata(root.path().join("self/ns/pid")).unwrap();
        assert_eq!(
            (here.boot.as_str(), namespaces.boot_offset),
            ("4711-0815", 2 * SECOND + 5)
        );
        assert_eq!(namespaces.pid.inode, pid.ino());
    }

    #[test]
    fn a_proc_of_other_namespaces_is_refused() {
        let (_root, procfs) = fake("2000000000");
        assert!(matches!(Origin::here(&procfs), Err(JournalError::AnotherProc)));
    }

    #[test]
    fn another_pid_namespace_and_another_boot_offset_are_elsewhere() {
        let here = origin(Some(namespaces(7, 0)));
        for other in [namespaces(8, 0), namespaces(7, 5)] {
            assert_eq!(here.relation(&origin(Some(other))), Relation::Elsewhere(other));
        }
    }

    #[test]
    fn a_journal_without_namespaces_counts_as_one_of_this_process() {
        let here = origin(Some(namespaces(7, 0)));
        assert_eq!(here.relation(&origin(None)), Relation::Here);
    }

    #[test]
    fn the_offset_of_the_boot_clock_is_read() {
        let text = "monotonic           1         2\nboottime           -3        500\n";
        assert_eq!(boot_offset(text), -3 * SECOND + 500);
        assert_eq!(boot_offset(""), 0);
    }

    /// A `/proc` with these processes, each in the PID namespace of its own file. Returns the namespaces.
    fn machine(processes: &[i32]) -> (tempfile::TempDir, Procfs, Vec<Namespaces>) {
        let root = tempfile::tempdir().unwrap();
        let procfs = Procfs::new(root.path());
        let made = processes.iter().map(|process| {
            let folder = root.path().join(process.to_string()).join("ns");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("pid"), "").unwrap();
            Namespaces::of(&procfs, &process.to_string()).unwrap()
        });
        let made = made.collect();
        (root, procfs, made)
    }

    #[test]
    fn a_process_of_the_namespace_is_named() {
        let (_root, procfs, made) = machine(&[10, 20]);
        let found = Elsewhere::find(
            Path::new("/j/1-0.journal"),
            &procfs,
            &origin(Some(namespaces(FIRST, 0))),
            made[1],
        )
        .unwrap();
        let text = found.to_string();
        assert!(
            text.contains("nsenter -t 20 -p unshare") && text.contains("--journals /j`"),
            "{text}"
        );
    }

    #[test]
    fn a_namespace_without_a_process_has_ended_where_all_processes_are_seen_and_else_may_live() {
        let (_root, procfs, _) = machine(&[10]);
        let gone = namespaces(1, 0);
        assert_eq!(
            Elsewhere::find(
                Path::new("/j/1-0.journal"),
                &procfs,
                &origin(Some(namespaces(FIRST, 0))),
                gone
            ),
            None
        );
        let text = Elsewhere::find(
            Path::new("/j/1-0.journal"),
            &procfs,
            &origin(Some(namespaces(7, 0))),
            gone,
        )
        .unwrap()
        .to_string();
        assert!(text.contains("outside all containers"), "{text}");
    }
}
