//! What the control group of a process says about it: its container, its pod, and its units of systemd.
//!
//! A runtime gives the group of a container a name that contains the container's id. So the path of a group, as
//! `/proc/PID/cgroup` has it, says which container a process belongs to. The path is read from the root to the leaf:
//!
//! 1. A group of Kubernetes says the pod and its class of service (kubelet:
//!    `pkg/kubelet/cm/pod_container_manager_linux.go` and `cgroup_manager_linux.go`). With the driver `systemd` it is a
//!    slice, in which `_` stands for `-` in the pod's UID:
//!    `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice`. With the driver `cgroupfs` it is
//!    `/kubepods/burstable/podUID`. Guaranteed pods are directly below `kubepods`.
//! 2. A group of a container is below it, or anywhere else. With systemd it is a scope `PREFIX-ID.scope`; the prefix
//!    says the runtime: `docker` (Docker: `daemon/oci_linux.go`), `cri-containerd` (containerd: `internal/cri/server`),
//!    `nerdctl`, `crio` (CRI-O: `internal/config/cgmgr`), `libpod` (Podman: `libpod/container.go`). Without systemd it
//!    is a group `ID`, `libpod-ID` or `crio-ID`. An id has 64 hexadecimal digits.
//! 3. LXC and Incus name the group `lxc.payload.NAME` (lxc.container.conf(5): `lxc.cgroup.pattern`), older ones
//!    `/lxc/NAME`. systemd-nspawn registers `machine-NAME.scope` in `machine.slice`, or runs as
//!    `systemd-nspawn@NAME.service` (systemd-nspawn(1), systemd.unit(5) for escapes such as `\x2d`). libvirt registers
//!    its guests there too, as `machine-qemu\x2d1\x2dNAME.scope`: they are no containers.
//! 4. Other parts that end in `.service` or `.scope` are units of systemd.
//!
//! The supervisors of containers are not in them: `libpod-conmon-ID.scope`, `lxc.monitor.NAME`, and `supervisor` below
//! a group of systemd-nspawn.
//!
//! Limits: a name such as that of `docker run --name` is in no path (`names`). Anybody who may make control groups can
//! give them such names. So `Membership::by_user` says whether a user may have made the group.

mod names;

pub use names::{Names, names_of_docker, names_of_oci, names_of_storage};

use crate::code::codes;

/// The hexadecimal digits of an id that are shown, as by docker and podman.
const SHORT: usize = 12;

codes! {
    /// The program that made a container.
    pub enum Runtime for "tasks.container.runtime" {
        /// Docker.
        Docker = "docker",
        /// Podman.
        Podman = "podman",
        /// containerd, for Kubernetes or for nerdctl.
        Containerd = "containerd",
        /// CRI-O.
        CriO = "cri_o",
        /// LXC, LXD or Incus.
        Lxc = "lxc",
        /// systemd-nspawn.
        Nspawn = "nspawn",
    }

    /// The class of service of a pod.
    pub enum Qos for "tasks.container.qos" {
        /// Each container of the pod has limits that are its requests.
        Guaranteed = "guaranteed",
        /// A container of the pod has a request or a limit.
        Burstable = "burstable",
        /// No container of the pod has a request or a limit.
        BestEffort = "best_effort",
    }
}

/// A pod of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pod {
    /// Its UID, in the form of Kubernetes: with `-`.
    pub uid: String,
    /// Its class of service.
    pub qos: Qos,
    /// Its name, where the runtime says it.
    pub name: Option<String>,
    /// Its namespace, where the runtime says it.
    pub namespace: Option<String>,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Container {
    /// The program that made it, if the path names it.
    pub runtime: Option<Runtime>,
    /// Its id: 64 hexadecimal digits, or the name in LXC and systemd-nspawn.
    pub id: String,
    /// Its name, where the path or the runtime says it.
    pub name: Option<String>,
    /// Its pod.
    pub pod: Option<Pod>,
}

impl Container {
    /// The id in few characters: the first 12 digits.
    pub fn short_id(&self) -> &str {
        if is_id(&self.id) { &self.id[..SHORT] } else { &self.id }
    }

    /// The name, else the short id.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.short_id())
    }

    /// The text for people: the name of the pod, if known, and the label.
    pub fn text(&self) -> String {
        match self.pod.as_ref().and_then(|pod| pod.name.as_deref()) {
            Some(pod) => format!("{pod}/{}", self.label()),
            None => self.label().to_owned(),
        }
    }

    /// The same container with the names that its runtime says.
    #[must_use]
    pub fn named(mut self, names: &Names) -> Self {
        if names.container.is_some() {
            self.name.clone_from(&names.container);
        }
        if let Some(pod) = &mut self.pod {
            pod.name.clone_from(&names.pod);
            pod.namespace.clone_from(&names.namespace);
        }
        self
    }
}

/// What a process belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Its containers. A container in another one is after it, so that the last one is nearest to the process.
    pub containers: Vec<Container>,
    /// Its pod.
    pub pod: Option<Pod>,
    /// Its units of systemd outside of containers, such as `nginx.service` or `session-3.scope`, from the root on.
    pub units: Vec<String>,
    /// Whether the group is below `user.slice`, where a user can make groups of any name.
    pub by_user: bool,
}

impl Membership {
    /// What these paths of control groups say, one for each hierarchy: the first path that names a container counts,
    /// else the first that names a pod or a unit.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut best = Self::default();
        for path in paths {
            let found = Self::of_path(path);
            if found.rank() > best.rank() {
                best = found;
            }
        }
        best
    }

    fn rank(&self) -> u8 {
        match (self.containers.is_empty(), self.pod.is_none() && self.units.is_empty()) {
            (false, _) => 2,
            (true, false) => 1,
            (true, true) => 0,
        }
    }

    fn of_path(path: &str) -> Self {
        let mut found = Self {
            // Within a namespace of control groups, a path can begin with `..`.
            by_user: path.split('/').find(|part| !matches!(*part, "" | "..")) == Some("user.slice"),
            ..Self::default()
        };
        let mut kubernetes = Kubernetes::Outside;
        let mut above = "";
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let in_pod = matches!(kubernetes, Kubernetes::Pod);
            kubernetes = match kubernetes.below(part, above) {
                Below::Pod(pod) => {
                    found.pod = Some(pod);
                    Kubernetes::Pod
                }
                Below::Pods(qos) => Kubernetes::Pods(qos),
                Below::Other => {
                    found.take(part, above, in_pod);
                    Kubernetes::Outside
                }
            };
            above = part;
        }
        found
    }

    /// Takes one part of a path that is not a group of Kubernetes itself.
    fn take(&mut self, part: &str, above: &str, in_pod: bool) {
        let nspawn = self
            .containers
            .last()
            .is_some_and(|last| last.runtime == Some(Runtime::Nspawn));
        if part == "supervisor" && nspawn && nspawn_name(above).is_some() {
            self.containers.pop();
            return;
        }
        if let Some(pod) = pod_of_misplaced(part) {
            self.pod = Some(pod);
        }
        if let Some((runtime, id, name)) = container(part, above, in_pod) {
            self.containers.push(Container {
                runtime,
                id,
                name,
                pod: self.pod.clone(),
            });
        } else if self.containers.is_empty() && [".service", ".scope"].iter().any(|kind| part.ends_with(kind)) {
            // systemd writes `_` before a name that clashes with a file of the kernel.
            self.units.push(part.strip_prefix('_').unwrap_or(part).to_owned());
        }
    }
}

/// The level of a part of a path in the groups of Kubernetes.
#[derive(Clone, Copy)]
enum Kubernetes {
    Outside,
    /// Directly below `kubepods` or a class of service.
    Pods(Qos),
    /// Directly below a pod.
    Pod,
}

enum Below {
    Pods(Qos),
    Pod(Pod),
    Other,
}

impl Kubernetes {
    fn below(self, part: &str, above: &str) -> Below {
        if let Some(pod) = part.strip_suffix(".slice").and_then(pod_of_slice) {
            return Below::Pod(pod);
        }
        match (self, part) {
            (_, "kubepods") => Below::Pods(Qos::Guaranteed),
            (Self::Pods(_), "burstable") if above == "kubepods" => Below::Pods(Qos::Burstable),
            (Self::Pods(_), "besteffort") if above == "kubepods" => Below::Pods(Qos::BestEffort),
            (Self::Pods(qos), _) => match part.strip_prefix("pod").and_then(uid) {
                Some(uid) => Below::Pod(pod(uid, qos)),
                None => Below::Other,
            },
            _ => Below::Other,
        }
    }
}

fn pod(uid: String, qos: Qos) -> Pod {
    Pod {
        uid,
        qos,
        name: None,
        namespace: None,
    }
}

/// The pod of `kubepods-podUID`, `kubepods-burstable-podUID` or `kubepods-besteffort-podUID`. The kubelet's option
/// `--cgroup-root` puts other words before `kubepods`, as kind does.
fn pod_of_slice(name: &str) -> Option<Pod> {
    let (groups, after) = name.rsplit_once("-pod")?;
    let uid = uid(after)?;
    let within = |end: &str| groups == end || groups.strip_suffix(end).is_some_and(|before| before.ends_with('-'));
    let qos = [
        ("kubepods", Qos::Guaranteed),
        ("kubepods-burstable", Qos::Burstable),
        ("kubepods-besteffort", Qos::BestEffort),
    ];
    let (_, qos) = qos.into_iter().find(|(end, _)| within(end))?;
    Some(pod(uid, qos))
}

/// The UID of a pod: a UUID, or 32 digits for a pod of a file. A slice has `_` in place of `-`.
fn uid(text: &str) -> Option<String> {
    let plausible = (32..=36).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'));
    plausible.then(|| text.replace('_', "-"))
}

/// The pod of a group `SLICE:cri-containerd:ID`: the kubelet uses systemd and the runtime does not.
fn pod_of_misplaced(part: &str) -> Option<Pod> {
    let (slice, rest) = part.split_once(".slice:")?;
    rest.contains(':').then_some(())?;
    pod_of_slice(slice)
}

/// The runtime, the id and the name of the container whose group this is.
fn container(part: &str, above: &str, in_pod: bool) -> Option<(Option<Runtime>, String, Option<String>)> {
    if let Some(name) = part.strip_prefix("lxc.payload.").or((above == "lxc").then_some(part)) {
        let name = acceptable(name)?;
        return Some((Some(Runtime::Lxc), name.clone(), Some(name)));
    }
    if let Some(name) = nspawn_name(part).filter(|_| above == "machine.slice") {
        return Some((Some(Runtime::Nspawn), name.clone(), Some(name)));
    }
    if is_id(part) {
        let runtime = (above == "docker").then_some(Runtime::Docker);
        return Some((runtime, part.to_owned(), None));
    }
    let scope = part.strip_suffix(".scope").unwrap_or(part);
    let (prefix, id) = scope.rsplit_once(['-', ':']).filter(|(_, id)| is_id(id))?;
    // A group of containerd's without systemd: `SLICE:cri-containerd:ID`.
    let prefix = prefix.rsplit_once(':').map_or(prefix, |(_, prefix)| prefix);
    let runtime = match prefix {
        "docker" => Some(Runtime::Docker),
        "libpod" | "libpod-payload" => Some(Runtime::Podman),
        "cri-containerd" | "nerdctl" => Some(Runtime::Containerd),
        "crio" => Some(Runtime::CriO),
        // Only a runtime makes groups in a pod. Supervisors of containers are beside them.
        _ if in_pod && !prefix.ends_with("conmon") => None,
        _ => return None,
    };
    Some((runtime, id.to_owned(), None))
}

/// The name of a container of systemd-nspawn whose unit this is.
fn nspawn_name(unit: &str) -> Option<String> {
    let escaped = match unit.strip_prefix("machine-") {
        Some(scope) => scope.strip_suffix(".scope")?,
        None => unit.strip_prefix("systemd-nspawn@")?.strip_suffix(".service")?,
    };
    let name = acceptable(&unescaped(escaped)?)?;
    // A guest of libvirt's: driver, number and name.
    let mut words = name.splitn(3, '-');
    let (driver, number, rest) = (words.next(), words.next(), words.next());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_guest = matches!(driver, Some("qemu" | "lxc" | "ch" | "xen" | "bhyve")) && number.is_some_and(is_number);
    (!is_guest || rest.is_none()).then_some(name)
}

/// Replaces the escapes of systemd.unit(5): `\x2d` is a byte, and `-` is `/`, which no name of a machine contains.
/// `None` if that is no text.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = vec![];
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once("\\x") {
        bytes.extend_from_slice(plain.as_bytes());
        let digits = escape
            .get(..2)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &escape[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

/// Whether this is the id of a container: 64 hexadecimal digits (Docker, containerd, CRI-O, Podman).
pub fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The longest name that is accepted. A pod's name is a DNS subdomain, which has this limit.
const LONGEST_NAME: usize = 253;

/// A name from outside that can be shown: not empty, not long, and without control characters.
fn acceptable(name: &str) -> Option<String> {
    let shown = !name.is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(char::is_control);
    shown.then(|| name.to_owned())
}

#[cfg(test)]
mod tests;
