//! The containers of processes, with the names in the files of their runtimes.
//!
//! `pinfold_core::container` reads the path of a control group. A name that a user gave is in a file of the runtime,
//! which is read once per container. If a runtime keeps its files elsewhere, or its files may not be read, only the id
//! is known. A renamed container has its new name after a restart of the daemon.
//!
//! A name decides which tasks `--cgroup container:NAME` selects. So names are read only for groups that the system's
//! runtime created. Groups below `user.slice` are excluded, because a user can create a group with the id of another
//! container there. Containers in containers are excluded as well.

use crate::procfs::Procfs;
use pinfold_core::container::{
    Container, Membership, Names, Runtime, is_id, names_of_docker, names_of_oci, names_of_storage,
};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest file that is read. A file of Docker or containerd has some ten thousand bytes. containers/storage writes
/// five hundred for each container of the machine.
const LONGEST_FILE: u64 = 4 << 20;

/// If there are more containers than this, all names are read again, so that ended containers take no memory.
const MANY: usize = 10_000;

/// The directories of the system's containerd, and of the one in k3s, with the containers of Kubernetes.
const CONTAINERD: [&str; 2] = [
    "run/containerd/io.containerd.runtime.v2.task/k8s.io",
    "run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io",
];

/// The lists of containers/storage. The second lists the containers of `podman run --rm`.
const STORAGE: [&str; 2] = [
    "var/lib/containers/storage/overlay-containers/containers.json",
    "var/lib/containers/storage/overlay-containers/volatile-containers.json",
];

/// Finds the containers of processes.
#[derive(Debug)]
pub struct Containers {
    /// The root of the runtimes' files.
    root: PathBuf,
    /// The names and the runtime of each container, by id.
    known: HashMap<String, (Option<Runtime>, Names)>,
}

impl Default for Containers {
    fn default() -> Self {
        Self::new("/")
    }
}

impl Containers {
    /// Reads the runtimes' files below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            known: HashMap::new(),
        }
    }

    /// The container, pod and unit of a process from its control groups, with names.
    pub fn of(&mut self, procfs: &Procfs, process: i32) -> Membership {
        self.of_groups(&procfs.cgroups(process))
    }

    /// Like `of`, from these control groups.
    pub(super) fn of_groups(&mut self, groups: &[String]) -> Membership {
        let mut found = Membership::of(groups.iter().map(String::as_str));
        if found.by_user {
            return found;
        }
        if let Some(first) = found.containers.first_mut().filter(|first| is_id(&first.id)) {
            let (runtime, names) = self.known(first);
            first.runtime = first.runtime.or(*runtime);
            *first = first.clone().named(names);
            // All containers in a pod belong to one pod.
            if let Some(pod) = found.pod.as_mut().filter(|pod| Some(&pod.uid) == uid(first)) {
                pod.name.clone_from(&names.pod);
                pod.namespace.clone_from(&names.namespace);
            }
        }
        found
    }

    fn known(&mut self, container: &Container) -> &(Option<Runtime>, Names) {
        if self.known.len() > MANY {
            self.known.clear();
        }
        let root = &self.root;
        self.known
            .entry(container.id.clone())
            .or_insert_with(|| read_names(root, container.runtime, &container.id))
    }
}

fn uid(container: &Container) -> Option<&String> {
    container.pod.as_ref().map(|pod| &pod.uid)
}

/// The names of a container, and the runtime whose files have them.
fn read_names(root: &Path, runtime: Option<Runtime>, id: &str) -> (Option<Runtime>, Names) {
    let may_be = |one: Runtime| runtime.is_none_or(|runtime| runtime == one);
    let found = |one: Runtime, names: Names| (!names.is_empty()).then_some((Some(one), names));
    let in_docker = || {
        let text = read(&root.join("var/lib/docker/containers").join(id).join("config.v2.json"))?;
        found(Runtime::Docker, names_of_docker(&text))
    };
    let in_containerd = || {
        let mut texts = CONTAINERD
            .iter()
            .filter_map(|folder| read(&root.join(folder).join(id).join("config.json")));
        texts.find_map(|text| found(Runtime::Containerd, names_of_oci(&text)))
    };
    let in_crio = || {
        let folder = root.join("run/containers/storage/overlay-containers").join(id);
        found(
            Runtime::CriO,
            names_of_oci(&read(&folder.join("userdata/config.json"))?),
        )
    };
    let in_podman = || {
        let mut texts = STORAGE.iter().filter_map(|file| read(&root.join(file)));
        texts.find_map(|text| found(Runtime::Podman, names_of_storage(&text, id)))
    };
    None.or_else(|| may_be(Runtime::Docker).then(in_docker).flatten())
        .or_else(|| may_be(Runtime::Containerd).then(in_containerd).flatten())
        .or_else(|| may_be(Runtime::CriO).then(in_crio).flatten())
        .or_else(|| may_be(Runtime::Podman).then(in_podman).flatten())
        .unwrap_or((runtime, Names::default()))
}

/// The text of a file. `None` if the path is not a file, or the file is too long or cannot be read.
fn read(path: &Path) -> Option<String> {
    // Opened without waiting for the other end of a pipe, and not through a link.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut text = String::new();
    let length = file.take(LONGEST_FILE + 1).read_to_string(&mut text).ok()?;
    (length as u64 <= LONGEST_FILE).then_some(text)
}

/// A container of watched tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedContainer {
    /// The container.
    pub container: Arc<Container>,
    /// The number of its watched tasks.
    pub tasks: u64,
    /// The number of its pinned tasks.
    pub pinned: u64,
    /// The processor time that its tasks used while they were watched, including tasks that have ended.
    pub processor_time: Duration,
}

/// A container with watched processes.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) container: Arc<Container>,
    /// Nanoseconds of processor time.
    used: AtomicU64,
}

impl Tracked {
    /// Adds the processor time of a task of the container.
    pub(super) fn add(&self, used: Duration) {
        let nanoseconds = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
        self.used.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> Duration {
        Duration::from_nanos(self.used.load(Ordering::Relaxed))
    }
}

/// The containers of watched processes, in the order of discovery.
#[derive(Debug, Default)]
pub(super) struct TrackedContainers(Vec<Arc<Tracked>>);

impl TrackedContainers {
    pub(super) fn track(&mut self, container: &Container) -> Arc<Tracked> {
        if let Some(known) = self.0.iter().find(|known| *known.container == *container) {
            return Arc::clone(known);
        }
        let new = Arc::new(Tracked {
            container: Arc::new(container.clone()),
            used: AtomicU64::new(0),
        });
        self.0.push(Arc::clone(&new));
        new
    }

    /// Removes the containers without watched processes.
    pub(super) fn forget_ended(&mut self) {
        self.0.retain(|known| Arc::strong_count(known) > 1);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Tracked>> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const POD: &str = "/kubepods/burstable/pod1b7c2f7a-5b0e-4f3c-9a51-0d7a0c0c8d11";
    const ANNOTATIONS: &str = r#"{"annotations": {"io.kubernetes.cri.container-name": "nginx",
        "io.kubernetes.cri.sandbox-name": "web-0", "io.kubernetes.cri.sandbox-namespace": "shop"}}"#;

    fn files(files: &[(String, String)]) -> (tempfile::TempDir, Containers) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let containers = Containers::new(root.path());
        (root, containers)
    }

    fn docker_file(text: &str) -> (String, String) {
        let path = format!("var/lib/docker/containers/{ID}/config.v2.json");
        (path, text.to_owned())
    }

    fn text(containers: &mut Containers, group: &str) -> String {
        let found = containers.of_groups(&[group.to_owned()]);
        found.containers.last().map_or_else(String::new, Container::text)
    }

    #[test]
    fn each_runtime_has_its_own_file() {
        let list = format!(r#"[{{"id": "{ID}", "names": ["web"]}}]"#);
        for (group, file, content, runtime, expected) in [
            (
                format!("/docker/{ID}"),
                docker_file("").0,
                r#"{"Name": "/web"}"#,
                Runtime::Docker,
                "web",
            ),
            (
                format!("/system.slice/libpod-{ID}.scope"),
                STORAGE[1].to_owned(),
                list.as_str(),
                Runtime::Podman,
                "web",
            ),
            (
                format!("{POD}/{ID}"),
                format!("{}/{ID}/config.json", CONTAINERD[0]),
                ANNOTATIONS,
                Runtime::Containerd,
                "web-0/nginx",
            ),
            (
                format!("{POD}/crio-{ID}"),
                format!("run/containers/storage/overlay-containers/{ID}/userdata/config.json"),
                &ANNOTATIONS.replace("cri.container-name", "container.name"),
                Runtime::CriO,
                "web-0/nginx",
            ),
        ] {
            let (_root, mut containers) = files(&[(file, content.to_owned())]);
            assert_eq!(text(&mut containers, &group), expected, "{group}");
            let found = containers.of_groups(std::slice::from_ref(&group));
            assert_eq!(found.containers[0].runtime, Some(runtime), "{group}");
            let name = found.pod.map(|pod| (pod.namespace.unwrap(), pod.name.unwrap()));
            assert_eq!(
                name,
                group.starts_with(POD).then(|| ("shop".to_owned(), "web-0".to_owned()))
            );
        }
    }

    #[test]
    fn a_file_is_read_once() {
        let (root, mut containers) = files(&[docker_file(r#"{"Name": "/web"}"#)]);
        let group = format!("/docker/{ID}");
        assert_eq!(text(&mut containers, &group), "web");
        fs::remove_dir_all(root.path().join("var")).unwrap();
        assert_eq!(text(&mut containers, &group), "web");
    }

    #[test]
    fn a_group_that_a_user_may_have_made_has_no_name() {
        let (_root, mut containers) = files(&[docker_file(r#"{"Name": "/web"}"#)]);
        for group in [
            format!("/user.slice/user-1000.slice/user@1000.service/docker-{ID}.scope"),
            format!("/lxc.payload.box/docker/{ID}"),
        ] {
            assert_eq!(text(&mut containers, &group), "0123456789ab");
        }
    }

    #[test]
    fn a_file_that_is_long_a_link_or_a_pipe_is_ignored() {
        let long = " ".repeat(usize::try_from(LONGEST_FILE).unwrap()) + r#"{"Name": "/web"}"#;
        let (root, mut containers) = files(&[docker_file(&long)]);
        let group = format!("/docker/{ID}");
        assert_eq!(text(&mut containers, &group), "0123456789ab");
        let file = root.path().join(docker_file("").0);
        let elsewhere = root.path().join("elsewhere");
        fs::write(&elsewhere, r#"{"Name": "/web"}"#).unwrap();
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert_eq!(text(&mut Containers::new(root.path()), &group), "0123456789ab");
        fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(text(&mut Containers::new(root.path()), &group), "0123456789ab");
    }

    #[test]
    fn a_container_is_tracked_as_long_as_a_process_is_in_it() {
        let one = Membership::of(["/lxc/web"]).containers.remove(0);
        let mut tracked = TrackedContainers::default();
        let first = tracked.track(&one);
        tracked.track(&one).add(Duration::from_secs(2));
        assert_eq!(first.used(), Duration::from_secs(2));
        tracked.forget_ended();
        assert_eq!(tracked.iter().count(), 1);
        drop(first);
        tracked.forget_ended();
        assert_eq!(tracked.iter().count(), 0);
    }
}
