//! Which tasks a daemon watches.

use crate::procfs::Procfs;
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

/// Which processes are watched. A process in any of the lists is watched with all its threads; empty lists select all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Processes of these control groups and of the groups below them, such as `/user.slice`.
    pub cgroups: Vec<String>,
    /// Processes of these users.
    pub users: Vec<u32>,
    /// These processes, and their future children.
    pub processes: Vec<i32>,
    /// Processes whose names (`comm`, at most 15 characters) match one of these shell patterns.
    pub names: Vec<String>,
    /// Except for processes whose names match one of these patterns.
    pub except: Vec<String>,
}

/// Something in a selection that the machine does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// A process.
    #[error("there is no process {0}: `ps -e` lists the processes")]
    Process(i32),
    /// A thread that is not the first of its process.
    #[error("{thread} is a thread of process {process}: name the process")]
    Thread {
        /// The named thread.
        thread: i32,
        /// Its process.
        process: i32,
    },
    /// A control group.
    #[error("there is no control group {0}: /proc/PID/cgroup has the one of a process, and `systemd-cgls` lists them")]
    Cgroup(String),
}

impl Selection {
    /// The processes and control groups in the selection that do not exist at present. `hierarchies` is where those of
    /// control groups are mounted.
    pub fn absent(&self, procfs: &Procfs, hierarchies: &Path) -> Vec<Absent> {
        let process = |&number: &i32| match procfs.kinship(number) {
            None => Some(Absent::Process(number)),
            Some(kinship) if kinship.process != number => Some(Absent::Thread {
                thread: number,
                process: kinship.process,
            }),
            Some(_) => None,
        };
        let groups = groups(hierarchies);
        let in_use = |wanted: &str| {
            let only = Self {
                cgroups: vec![wanted.to_owned()],
                ..Self::default()
            };
            let mut processes = procfs.processes().into_iter();
            processes.any(|process| only.in_a_cgroup(&procfs.cgroups(process)))
        };
        let cgroup = |wanted: &String| {
            let below = wanted.trim_matches('/');
            let there = groups.iter().any(|root| root.join(below).is_dir()) || in_use(wanted);
            (!there).then(|| Absent::Cgroup(wanted.clone()))
        };
        let processes = self.processes.iter().filter_map(process);
        processes.chain(self.cgroups.iter().filter_map(cgroup)).collect()
    }

    /// Whether all processes are watched that `except` does not name.
    pub fn is_everything(&self) -> bool {
        self.cgroups.is_empty() && self.users.is_empty() && self.processes.is_empty() && self.names.is_empty()
    }

    /// Whether a process with this name is watched. `inherited` says that a process which is watched by its number
    /// created it.
    pub(super) fn includes(&self, procfs: &Procfs, process: i32, name: &str, inherited: bool) -> bool {
        if self.except.iter().any(|pattern| fits(pattern, name)) {
            return false;
        }
        self.is_everything()
            || inherited
            || self.processes.contains(&process)
            || self.names.iter().any(|pattern| fits(pattern, name))
            || (!self.users.is_empty() && procfs.user(process).is_some_and(|user| self.users.contains(&user)))
            || (!self.cgroups.is_empty() && self.in_a_cgroup(&procfs.cgroups(process)))
    }

    fn in_a_cgroup(&self, groups: &[String]) -> bool {
        let within = |group: &str, wanted: &str| {
            let rest = group.trim_matches('/').strip_prefix(wanted.trim_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || wanted.trim_matches('/').is_empty())
        };
        groups
            .iter()
            .any(|group| self.cgroups.iter().any(|wanted| within(group, wanted)))
    }
}

/// The roots of the hierarchies: version 2 has one, version 1 one for each controller.
fn groups(hierarchies: &Path) -> Vec<PathBuf> {
    let each = fs::read_dir(hierarchies).into_iter().flatten().flatten();
    let roots = each
        .map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").exists());
    roots.chain([hierarchies.to_owned()]).collect()
}

/// Whether a name matches a shell pattern: fnmatch(3).
fn fits(pattern: &str, name: &str) -> bool {
    let (Ok(pattern), Ok(name)) = (CString::new(pattern), CString::new(name)) else {
        return false;
    };
    // SAFETY: two strings that end in a zero byte, which the call only reads.
    unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    /// A process 7 of user 1000 in `/user.slice/a.scope`.
    fn includes(selection: &Selection, name: &str) -> bool {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("7")).unwrap();
        fs::write(root.path().join("7/status"), "Uid:\t0\t1000\t0\t0\n").unwrap();
        fs::write(root.path().join("7/cgroup"), "0::/user.slice/a.scope\n").unwrap();
        selection.includes(&Procfs::new(root.path()), 7, name, false)
    }

    #[test]
    fn without_lists_everything_is_watched_but_for_the_exceptions() {
        let selection = Selection {
            except: words(&["ssh*"]),
            ..Selection::default()
        };
        assert!(selection.is_everything());
        assert!(includes(&selection, "solver") && !includes(&selection, "sshd"));
    }

    #[test]
    fn each_list_names_processes_in_its_own_way() {
        let none = Selection {
            processes: vec![8],
            ..Selection::default()
        };
        assert!(!includes(&none, "solver"));
        for selection in [
            Selection {
                processes: vec![7],
                ..none.clone()
            },
            Selection {
                users: vec![1000],
                ..none.clone()
            },
            Selection {
                names: words(&["sol*"]),
                ..none.clone()
            },
            Selection {
                cgroups: words(&["user.slice"]),
                ..none.clone()
            },
            Selection {
                cgroups: words(&["/user.slice/a.scope/"]),
                ..none.clone()
            },
        ] {
            assert!(includes(&selection, "solver"), "{selection:?}");
        }
    }

    #[test]
    fn a_cgroup_whose_name_only_begins_alike_is_another() {
        let selection = Selection {
            cgroups: words(&["/user"]),
            ..Selection::default()
        };
        assert!(!includes(&selection, "solver"));
    }

    #[test]
    fn an_exception_counts_more_than_a_list() {
        let selection = Selection {
            processes: vec![7],
            except: words(&["solver"]),
            ..Selection::default()
        };
        assert!(!includes(&selection, "solver"));
    }

    #[test]
    fn what_is_not_there_is_named_with_the_remedy() {
        let (procfs, cgroups) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (number, process, group) in [(7, 7, "/user.slice/a.scope"), (8, 7, "/user.slice/a.scope")] {
            let folder = procfs.path().join(number.to_string());
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("status"), format!("Tgid:\t{process}\nPPid:\t1\n")).unwrap();
            fs::write(folder.join("cgroup"), format!("0::{group}\n")).unwrap();
        }
        fs::create_dir_all(cgroups.path().join("batch.slice")).unwrap();
        let selection = Selection {
            processes: vec![7, 8, 99_999_999],
            cgroups: words(&["/user.slice", "/batch.slice", "/nosuch"]),
            ..Selection::default()
        };
        let absent = selection.absent(&Procfs::new(procfs.path()), cgroups.path());
        let thread = Absent::Thread { thread: 8, process: 7 };
        let group = Absent::Cgroup("/nosuch".to_owned());
        assert_eq!(absent, [thread, Absent::Process(99_999_999), group]);
    }
}
