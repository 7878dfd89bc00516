//! Selects the tasks that a daemon watches.

use super::containers::Containers;
use super::group::Group;
use crate::procfs::Procfs;
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

/// The processes to watch. A process in any of the lists is watched with all its threads. Empty lists select all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Processes of these control groups and of the groups below them, such as `/user.slice`, or of these containers.
    pub cgroups: Vec<Group>,
    /// Processes of these users.
    pub users: Vec<u32>,
    /// These processes, and their future children.
    pub processes: Vec<i32>,
    /// Processes whose names (`comm`, at most 15 characters) match one of these shell patterns.
    pub names: Vec<String>,
    /// Except for processes whose names match one of these patterns.
    pub except: Vec<String>,
    /// Except for processes of these control groups or containers.
    pub except_groups: Vec<Group>,
}

/// An item of a selection that does not exist on the machine.
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
    #[error(
        "there is no control group {0}: /proc/PID/cgroup has a process's control group, and `systemd-cgls` lists all"
    )]
    Cgroup(String),
    /// A container.
    #[error(
        "there is no container {0}, by name or by the first 6 or more digits of an id: `docker ps`, `podman ps` and \
         `crictl ps` list containers; names are known if the daemon can read the runtime's files"
    )]
    Container(String),
    /// A pod.
    #[error(
        "there is no pod {0}, by name or by UID: `kubectl get pods --all-namespaces` lists pods; names are known if \
         the daemon can read the runtime's files"
    )]
    Pod(String),
    /// A unit.
    #[error("there is no process in a unit {0}: `systemctl list-units` lists units")]
    Unit(String),
}

impl Selection {
    /// The processes, control groups and containers in the selection that do not exist. `hierarchies` is the mount
    /// point of control groups.
    pub fn absent(&self, procfs: &Procfs, containers: &mut Containers, hierarchies: &Path) -> Vec<Absent> {
        let process = |&number: &i32| match procfs.kinship(number) {
            None => Some(Absent::Process(number)),
            Some(kinship) if kinship.process != number => Some(Absent::Thread {
                thread: number,
                process: kinship.process,
            }),
            Some(_) => None,
        };
        let mut absent: Vec<Absent> = self.processes.iter().filter_map(process).collect();
        let roots = groups(hierarchies);
        for wanted in &self.cgroups {
            let is_directory = |path: &str| roots.iter().any(|root| root.join(path.trim_matches('/')).is_dir());
            let only = std::slice::from_ref(wanted);
            let mut processes = procfs.processes().into_iter();
            let there = matches!(wanted, Group::Path(path) if is_directory(path))
                || processes.any(|process| in_a_group(only, procfs, containers, process));
            let missing = match wanted {
                Group::Path(path) => Absent::Cgroup(path.clone()),
                Group::Container(name) => Absent::Container(name.clone()),
                Group::Pod { namespace: None, name } => Absent::Pod(name.clone()),
                Group::Pod {
                    namespace: Some(namespace),
                    name,
                } => Absent::Pod(format!("{namespace}/{name}")),
                Group::Unit(name) => Absent::Unit(name.clone()),
            };
            if !there {
                absent.push(missing);
            }
        }
        absent
    }

    /// Whether all processes are watched except for those of `except` and `except_groups`.
    pub fn is_everything(&self) -> bool {
        self.cgroups.is_empty() && self.users.is_empty() && self.processes.is_empty() && self.names.is_empty()
    }

    /// Whether there are exceptions.
    pub(super) fn has_exceptions(&self) -> bool {
        !self.except.is_empty() || !self.except_groups.is_empty()
    }

    /// Whether a process with this name is watched. `inherited` is true if its creator is watched by number.
    pub(super) fn includes(
        &self,
        procfs: &Procfs,
        containers: &mut Containers,
        process: i32,
        name: &str,
        inherited: bool,
    ) -> bool {
        if self.except.iter().any(|pattern| fits(pattern, name))
            || in_a_group(&self.except_groups, procfs, containers, process)
        {
            return false;
        }
        self.is_everything()
            || inherited
            || self.processes.contains(&process)
            || self.names.iter().any(|pattern| fits(pattern, name))
            || (!self.users.is_empty() && procfs.user(process).is_some_and(|user| self.users.contains(&user)))
            || in_a_group(&self.cgroups, procfs, containers, process)
    }
}

/// Whether a process is in one of these groups.
fn in_a_group(wanted: &[Group], procfs: &Procfs, containers: &mut Containers, process: i32) -> bool {
    if wanted.is_empty() {
        return false;
    }
    let paths = procfs.cgroups(process);
    let membership = containers.of_groups(&paths);
    wanted.iter().any(|group| group.has(&paths, &membership))
}

/// The roots of the hierarchies: version 2 has one, version 1 has one per controller.
fn groups(hierarchies: &Path) -> Vec<PathBuf> {
    let each = fs::read_dir(hierarchies).into_iter().flatten().flatten();
    let roots = each
        .map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").exists());
    roots.chain([hierarchies.to_owned()]).collect()
}

/// Whether a name matches a shell pattern: fnmatch(3).
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let (Ok(pattern), Ok(name)) = (CString::new(pattern), CString::new(name)) else {
        return false;
    };
    // SAFETY: both strings end in a zero byte, and the call only reads them.
    unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn groups(words: &[&str]) -> Vec<Group> {
        words.iter().map(|word| word.parse().unwrap()).collect()
    }

    /// A process 7 of user 1000 in `/user.slice/a.scope`.
    fn includes(selection: &Selection, name: &str) -> bool {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("7")).unwrap();
        fs::write(root.path().join("7/status"), "Uid:\t0\t1000\t0\t0\n").unwrap();
        fs::write(root.path().join("7/cgroup"), "0::/user.slice/a.scope\n").unwrap();
        selection.includes(
            &Procfs::new(root.path()),
            &mut Containers::new(root.path()),
            7,
            name,
            false,
        )
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
                cgroups: groups(&["user.slice"]),
                ..none.clone()
            },
            Selection {
                cgroups: groups(&["/user.slice/a.scope/"]),
                ..none.clone()
            },
        ] {
            assert!(includes(&selection, "solver"), "{selection:?}");
        }
    }

    #[test]
    fn a_cgroup_whose_name_only_begins_alike_is_another() {
        let selection = Selection {
            cgroups: groups(&["/user"]),
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
        let selection = Selection {
            except_groups: groups(&["unit:a.scope"]),
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
            cgroups: groups(&[
                "/user.slice",
                "/batch.slice",
                "/nosuch",
                "unit:a.scope",
                "unit:b.scope",
                "container:web",
                "pod:shop/web",
            ]),
            ..Selection::default()
        };
        let absent = selection.absent(
            &Procfs::new(procfs.path()),
            &mut Containers::new(cgroups.path()),
            cgroups.path(),
        );
        let thread = Absent::Thread { thread: 8, process: 7 };
        let expected = [
            thread,
            Absent::Process(99_999_999),
            Absent::Cgroup("/nosuch".to_owned()),
            Absent::Unit("b.scope".to_owned()),
            Absent::Container("web".to_owned()),
            Absent::Pod("shop/web".to_owned()),
        ];
        assert_eq!(absent, expected);
        assert!(
            absent
                .iter()
                .all(|one| one.to_string().contains("list") || matches!(one, Absent::Thread { .. }))
        );
    }
}
