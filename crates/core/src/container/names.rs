//! The names that runtimes write into files beside their containers. The files are read elsewhere; this is their
//! content.
//!
//! - Docker: `config.v2.json` has `Name`, with `/` before it (moby: `daemon/container/container.go`). cri-dockerd names
//!   the containers of a pod `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT` (cri-dockerd: `core/naming.go`).
//! - containerd and CRI-O: `config.json` of the OCI runtime has annotations (containerd: `pkg/cri/annotations`; CRI-O:
//!   `pkg/annotations`, and kubelet's `pkg/kubelet/types/labels.go`).
//! - Podman: `containers.json` of containers/storage lists the ids with their names (containers/storage:
//!   `containers.go`).
//!
//! A file that is not of this form, or a name that cannot be shown, says nothing.

use super::acceptable;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The names of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Of the container.
    pub container: Option<String>,
    /// Of its pod.
    pub pod: Option<String>,
    /// Of the namespace of its pod.
    pub namespace: Option<String>,
}

impl Names {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The names in Docker's `config.v2.json`.
pub fn names_of_docker(text: &str) -> Names {
    #[derive(Deserialize)]
    struct File {
        #[serde(rename = "Name")]
        name: String,
    }
    let Ok(file) = serde_json::from_str::<File>(text) else {
        return Names::default();
    };
    let name = file.name.strip_prefix('/').unwrap_or(&file.name);
    let words: Vec<&str> = name.split('_').collect();
    match words[..] {
        ["k8s", container, pod, namespace, _, _] => Names {
            container: acceptable(container),
            pod: acceptable(pod),
            namespace: acceptable(namespace),
        },
        _ => Names {
            container: acceptable(name),
            ..Names::default()
        },
    }
}

/// The names in the annotations of an OCI runtime's `config.json`, as containerd and CRI-O write them.
pub fn names_of_oci(text: &str) -> Names {
    #[derive(Deserialize)]
    struct File {
        annotations: BTreeMap<String, String>,
    }
    let Ok(file) = serde_json::from_str::<File>(text) else {
        return Names::default();
    };
    let first = |keys: [&str; 2]| {
        let mut found = keys.iter().filter_map(|&key| file.annotations.get(key));
        found.find_map(|name| acceptable(name))
    };
    Names {
        container: first(["io.kubernetes.cri.container-name", "io.kubernetes.container.name"]),
        pod: first(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]),
        namespace: first(["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"]),
    }
}

/// The names of the container `id` in `containers.json` of containers/storage.
pub fn names_of_storage(text: &str, id: &str) -> Names {
    #[derive(Deserialize)]
    struct Stored {
        id: String,
        #[serde(default)]
        names: Vec<String>,
    }
    let stored: Vec<Stored> = serde_json::from_str(text).unwrap_or_default();
    let names = stored.into_iter().find(|one| one.id == id).map(|one| one.names);
    Names {
        container: names.into_iter().flatten().find_map(|name| acceptable(&name)),
        ..Names::default()
    }
}
