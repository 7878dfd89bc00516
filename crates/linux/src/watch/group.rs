//! A control group as a user names it: by its path, or by the container, pod or unit in it.
//!
//! `/user.slice` is a path. `container:NAME`, `container:ID`, `pod:NAMESPACE/NAME`, `pod:UID` and `unit:NAME` name the
//! container, pod or unit of the processes. Names are shell patterns, because Kubernetes appends random letters to the
//! names of pods.

use super::selection::fits;
use pinfold_core::container::{Container, Membership, Pod};
use std::fmt;
use std::str::FromStr;

/// The fewest digits of an id. A shorter text is more often a name, such as `cafe`.
const FEWEST_DIGITS: usize = 6;

/// A control group, or the contents that identify it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// The group with this path, and the groups below it.
    Path(String),
    /// The containers whose names match this pattern, or whose ids start with it, and the containers in them.
    Container(String),
    /// The pods whose names match, in namespaces that match, or the pod with this UID.
    Pod {
        /// A pattern for the namespace; `None` for all namespaces.
        namespace: Option<String>,
        /// A pattern for the name, or the UID.
        name: String,
    },
    /// The units of systemd whose names match.
    Unit(String),
}

/// The text names no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no control group: write a path as in /proc/PID/cgroup, such as /user.slice, or container:NAME, \
     container:ID, pod:NAMESPACE/NAME, pod:UID or unit:NAME, such as container:web or unit:nginx.service"
)]
pub struct NoGroup(String);

impl FromStr for Group {
    type Err = NoGroup;

    fn from_str(text: &str) -> Result<Self, NoGroup> {
        let refused = || NoGroup(text.to_owned());
        let usual = |word: &str| !word.is_empty() && !word.contains('/') && !word.chars().any(char::is_control);
        // A path may contain `:`. A text that starts with `/` is always a path.
        let kind = text.split_once(':').filter(|(kind, _)| !kind.contains('/'));
        match kind {
            Some(("container", name)) if usual(name) => Ok(Self::Container(name.to_owned())),
            Some(("unit", name)) if usual(name) => Ok(Self::Unit(name.to_owned())),
            Some(("pod", name)) => {
                let (namespace, name) = match name.split_once('/') {
                    Some((namespace, name)) => (Some(namespace), name),
                    None => (None, name),
                };
                if !usual(name) || namespace.is_some_and(|namespace| !usual(namespace)) {
                    return Err(refused());
                }
                Ok(Self::Pod {
                    namespace: namespace.map(ToOwned::to_owned),
                    name: name.to_owned(),
                })
            }
            Some(_) => Err(refused()),
            None => {
                let path = text.strip_prefix("/sys/fs/cgroup").unwrap_or(text);
                if path.is_empty() || path.split('/').any(|part| part == "..") {
                    return Err(refused());
                }
                Ok(Self::Path(path.to_owned()))
            }
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::Container(name) => write!(f, "container:{name}"),
            Self::Pod { namespace: None, name } => write!(f, "pod:{name}"),
            Self::Pod {
                namespace: Some(namespace),
                name,
            } => write!(f, "pod:{namespace}/{name}"),
            Self::Unit(name) => write!(f, "unit:{name}"),
        }
    }
}

impl Group {
    /// Whether a process with these paths and this membership is in the group.
    pub(super) fn has(&self, paths: &[String], membership: &Membership) -> bool {
        match self {
            Self::Path(wanted) => paths.iter().any(|path| is_within(path, wanted)),
            Self::Container(wanted) => membership.containers.iter().any(|one| is_container(one, wanted)),
            Self::Pod { namespace, name } => {
                let is_it = |pod: &Pod| is_pod(pod, namespace.as_deref(), name);
                membership.pod.as_ref().is_some_and(is_it)
            }
            Self::Unit(wanted) => membership.units.iter().any(|unit| fits(wanted, unit)),
        }
    }
}

fn is_within(path: &str, wanted: &str) -> bool {
    let wanted = wanted.trim_matches('/');
    let rest = path.trim_matches('/').strip_prefix(wanted);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || wanted.is_empty())
}

fn is_container(one: &Container, wanted: &str) -> bool {
    one.name.as_ref().is_some_and(|name| fits(wanted, name))
        || one.id == wanted
        || one.short_id() != one.id && wanted.len() >= FEWEST_DIGITS && one.id.starts_with(wanted)
}

fn is_pod(pod: &Pod, namespace: Option<&str>, name: &str) -> bool {
    let named = pod.name.as_ref().is_some_and(|known| fits(name, known));
    let within = namespace.is_none_or(|wanted| pod.namespace.as_ref().is_some_and(|known| fits(wanted, known)));
    named && within || namespace.is_none() && pod.uid == name
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::container::Names;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "1b7c2f7a-5b0e-4f3c-9a51-0d7a0c0c8d11";

    fn has(group: &str, path: &str, names: &Names) -> bool {
        let path = path.replace("ID", ID).replace("POD", UID);
        let mut membership = Membership::of([path.as_str()]);
        if let Some(first) = membership.containers.first_mut() {
            *first = first.clone().named(names);
            membership.pod.clone_from(&first.pod);
        }
        group.parse::<Group>().unwrap().has(&[path], &membership)
    }

    #[test]
    fn a_container_is_named_by_its_name_or_the_begin_of_its_id() {
        let web = Names {
            container: Some("web-1".to_owned()),
            ..Names::default()
        };
        for (group, expected) in [
            ("container:web-1", true),
            ("container:web-*", true),
            ("container:web", false),
            ("container:012345", true),
            ("container:0123456789ab", true),
            ("container:01234", false),
            ("container:123456", false),
        ] {
            assert_eq!(has(group, "/docker/ID/below", &web), expected, "{group}");
        }
        assert!(has(&format!("container:{ID}"), "/docker/ID", &web));
        assert!(!has("container:web-1", "/docker", &web));
        assert!(has("container:box", "/lxc.payload.box/docker/ID", &Names::default()));
        assert!(!has("container:longbo", "/lxc.payload.longbox", &Names::default()));
    }

    #[test]
    fn a_pod_is_named_by_its_namespace_and_name_or_its_uid() {
        let shop = Names {
            container: Some("nginx".to_owned()),
            pod: Some("web-7d4b9".to_owned()),
            namespace: Some("shop".to_owned()),
        };
        for (group, expected) in [
            ("pod:shop/web-7d4b9", true),
            ("pod:shop/web-*", true),
            ("pod:*/web-*", true),
            ("pod:web-7d4b9", true),
            ("pod:other/web-7d4b9", false),
            ("pod:nginx", false),
            ("pod:1b7c2f7a-5b0e-4f3c-9a51-0d7a0c0c8d11", true),
        ] {
            assert_eq!(has(group, "/kubepods/podPOD/ID", &shop), expected, "{group}");
        }
        // Without names only the UID is known.
        assert!(!has("pod:*/web-*", "/kubepods/podPOD/ID", &Names::default()));
    }

    #[test]
    fn a_unit_is_named_by_its_name_and_a_path_by_its_begin() {
        let none = Names::default();
        assert!(has("unit:nginx.service", "/system.slice/nginx.service/worker", &none));
        assert!(!has("unit:nginx", "/system.slice/nginx.service", &none));
        assert!(has("/system.slice", "/system.slice/nginx.service", &none));
        assert!(!has("/system", "/system.slice/nginx.service", &none));
    }

    #[test]
    fn what_names_no_group_is_refused_with_the_forms() {
        for text in [
            "",
            "/a/../b",
            "container:",
            "container:a/b",
            "pod:",
            "pod:a/",
            "pod:/a",
            "pod:a/b/c",
            "unit:",
            "web:x",
        ] {
            let refused = text.parse::<Group>().unwrap_err().to_string();
            assert!(
                refused.starts_with(&format!("`{text}` names no")) && refused.contains("container:web"),
                "{refused}"
            );
        }
        for text in [
            "/a:b/c",
            "user.slice",
            "container:web",
            "pod:a/b",
            "pod:b",
            "unit:x.service",
        ] {
            assert_eq!(text.parse::<Group>().unwrap().to_string(), text);
        }
    }
}
