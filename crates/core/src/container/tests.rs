use super::*;
use proptest::prelude::*;

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const UID: &str = "1b7c2f7a-5b0e-4f3c-9a51-0d7a0c0c8d11";

fn of(path: &str) -> Membership {
    let path = path.replace("UUID", UID);
    let path = path.replace("UNDERSCORED", &UID.replace('-', "_"));
    let path = path.replace("ID", ID);
    Membership::of([path.as_str()])
}

/// Runtime, short id and class of service of the nearest container.
fn nearest(path: &str) -> Option<(Option<Runtime>, String, Option<Qos>)> {
    let found = of(path);
    let one = found.containers.last()?;
    Some((one.runtime, one.label().to_owned(), one.pod.as_ref().map(|pod| pod.qos)))
}

#[test]
fn the_groups_of_pods_are_recognised_with_both_drivers() {
    use {Qos::*, Runtime::*};
    for (path, runtime, qos) in [
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUNDERSCORED.slice/cri-containerd-ID.scope",
            Some(Containerd),
            Burstable,
        ),
        (
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podUNDERSCORED.slice/crio-ID.scope",
            Some(CriO),
            BestEffort,
        ),
        (
            "/kubepods.slice/kubepods-podUNDERSCORED.slice/docker-ID.scope",
            Some(Docker),
            Guaranteed,
        ),
        ("/kubepods/burstable/podUUID/ID", None, Burstable),
        ("/kubepods/besteffort/podUUID/crio-ID", Some(CriO), BestEffort),
        ("/kubepods/podUUID/ID", None, Guaranteed),
        // A runtime that is not known here.
        (
            "/kubepods.slice/kubepods-podUNDERSCORED.slice/other-ID.scope",
            None,
            Guaranteed,
        ),
        // kind: a node is a container, and its kubelet has another root.
        (
            "/docker/ID/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/\
             kubelet-kubepods-burstable-podUNDERSCORED.slice/cri-containerd-ID.scope",
            Some(Containerd),
            Burstable,
        ),
        // The kubelet uses systemd and containerd does not.
        (
            "/system.slice/containerd.service/kubepods-burstable-podUNDERSCORED.slice:cri-containerd:ID",
            Some(Containerd),
            Burstable,
        ),
    ] {
        assert_eq!(
            nearest(path),
            Some((runtime, "0123456789ab".to_owned(), Some(qos))),
            "{path}"
        );
        assert_eq!(of(path).pod.unwrap().uid, UID, "{path}");
    }
}

#[test]
fn containers_without_pods_are_recognised() {
    use Runtime::*;
    for (path, runtime) in [
        ("/docker/ID", Some(Docker)),
        ("/system.slice/docker-ID.scope", Some(Docker)),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope",
            Some(Docker),
        ),
        ("/machine.slice/libpod-ID.scope/container", Some(Podman)),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope",
            Some(Podman),
        ),
        ("/libpod_parent/libpod-ID", Some(Podman)),
        ("/system.slice/web.service/libpod-payload-ID", Some(Podman)),
        (
            "/machine.slice/machine-libpod_pod_ID.slice/libpod-ID.scope",
            Some(Podman),
        ),
        ("/system.slice/nerdctl-ID.scope", Some(Containerd)),
        ("/default/ID", None),
    ] {
        assert_eq!(
            nearest(path),
            Some((runtime, "0123456789ab".to_owned(), None)),
            "{path}"
        );
    }
    for (path, runtime, name) in [
        ("/lxc.payload.web", Lxc, "web"),
        ("/lxc/web/init.scope", Lxc, "web"),
        (
            "/lxc.payload.project_web/system.slice/nginx.service",
            Lxc,
            "project_web",
        ),
        ("/machine.slice/machine-my\\x2dbox.scope/payload", Nspawn, "my-box"),
        ("/machine.slice/systemd-nspawn@box.service/payload", Nspawn, "box"),
    ] {
        assert_eq!(nearest(path), Some((Some(runtime), name.to_owned(), None)), "{path}");
    }
}

#[test]
fn supervisors_guests_and_other_groups_are_no_containers() {
    for path in [
        "/",
        "/machine.slice/libpod-conmon-ID.scope",
        "/kubepods.slice/kubepods-podUNDERSCORED.slice/crio-conmon-ID.scope",
        "/lxc.monitor.web",
        "/machine.slice/machine-box.scope/supervisor",
        "/machine.slice/machine-qemu\\x2d1\\x2dwindows.scope/libvirt/vcpu0",
        "/machine.slice/machine-bad\\xzz.scope",
        "/system.slice/docker.service",
        "/system.slice/docker-0123456789ab.scope",
        "/kubepods.slice/kubepods-burstable.slice",
        "/app/podUUID",
    ] {
        assert_eq!(nearest(path), None, "{path}");
    }
}

#[test]
fn units_are_those_outside_of_containers() {
    assert_eq!(of("/system.slice/nginx.service/worker").units, ["nginx.service"]);
    assert_eq!(
        of("/user.slice/user-1000.slice/session-3.scope").units,
        ["session-3.scope"]
    );
    let app = of("/user.slice/user-1000.slice/user@1000.service/app.slice/_x.service");
    assert_eq!(app.units, ["user@1000.service", "x.service"]);
    assert!(of("/../../user.slice/user-1000.slice/session-3.scope").by_user);
    assert!(app.by_user && !of("/system.slice/nginx.service").by_user);
    assert!(of("/lxc.payload.web/system.slice/nginx.service").units.is_empty());
}

#[test]
fn a_container_in_a_container_is_after_it() {
    let found = of("/lxc.payload.web/system.slice/docker-ID.scope");
    let labels: Vec<&str> = found.containers.iter().map(Container::label).collect();
    assert_eq!(labels, ["web", "0123456789ab"]);
}

#[test]
fn the_first_hierarchy_that_names_a_container_counts() {
    let docker = format!("/docker/{ID}");
    let found = Membership::of(["/", "/system.slice/docker.service", &docker, "/lxc/other"]);
    assert_eq!(found.containers[0].runtime, Some(Runtime::Docker));
    assert!(found.units.is_empty());
}

#[test]
fn names_are_those_that_the_runtime_wrote() {
    let docker = names_of_docker(r#"{"ID": "x", "Name": "/web", "Config": {"Env": []}}"#);
    assert_eq!(docker.container.as_deref(), Some("web"));
    let dockershim = names_of_docker(r#"{"Name": "/k8s_nginx_web-7d4b9_shop_1b7c2f7a_0"}"#);
    let oci = names_of_oci(
        r#"{"ociVersion": "1.1.0", "annotations": {"io.kubernetes.cri.container-name": "nginx",
            "io.kubernetes.cri.sandbox-name": "web-7d4b9", "io.kubernetes.cri.sandbox-namespace": "shop"}}"#,
    );
    let crio = names_of_oci(
        r#"{"annotations": {"io.kubernetes.container.name": "nginx", "io.kubernetes.pod.name": "web-7d4b9",
            "io.kubernetes.pod.namespace": "shop"}}"#,
    );
    let expected = Names {
        container: Some("nginx".to_owned()),
        pod: Some("web-7d4b9".to_owned()),
        namespace: Some("shop".to_owned()),
    };
    assert_eq!([&dockershim, &oci, &crio], [&expected; 3]);
    let list = format!(r#"[{{"id": "other"}}, {{"id": "{ID}", "names": ["web", "alias"], "layer": "x"}}]"#);
    assert_eq!(names_of_storage(&list, ID).container.as_deref(), Some("web"));
    assert!(names_of_storage(&list, "another").is_empty());
}

#[test]
fn files_of_another_form_and_names_that_cannot_be_shown_say_nothing() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = format!(r#"{{"Name": "{}"}}"#, "x".repeat(1000));
    for text in [
        "",
        "{",
        "[]",
        "7",
        r#"{"Name": 7}"#,
        r#"{"annotations": [1]}"#,
        r#"{"Name": "/"}"#,
        &deep,
        &long,
    ] {
        assert!(
            names_of_docker(text).is_empty() && names_of_oci(text).is_empty(),
            "{text:.40}"
        );
        assert!(names_of_storage(text, ID).is_empty(), "{text:.40}");
    }
    assert!(names_of_docker(r#"{"Name": "/a\u001b[2J"}"#).is_empty());
}

#[test]
fn a_text_has_the_pod_where_its_name_is_known() {
    let found = of("/kubepods/podUUID/ID");
    let container = found.containers[0].clone();
    assert_eq!(container.text(), "0123456789ab");
    let names = Names {
        container: Some("nginx".to_owned()),
        pod: Some("web-0".to_owned()),
        namespace: None,
    };
    assert_eq!(container.named(&names).text(), "web-0/nginx");
}

/// Parts of paths that mean something, or nearly do.
const KNOWN: &[&str] = &[
    "kubepods",
    "burstable",
    "besteffort",
    "docker",
    "lxc",
    "machine.slice",
    "user.slice",
    "supervisor",
    "kubepods-pod.slice",
    "lxc.payload.",
    "machine-\\x",
    "machine-\\x2d.scope",
    "machine-\\xff.scope",
    ".scope",
    ".slice:cri-containerd:",
    "-pod.slice",
    "docker-.scope",
    "systemd-nspawn@.service",
];

/// These parts, and others.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(KNOWN).prop_map(ToOwned::to_owned),
        Just(ID.to_owned()),
        Just(format!("pod{UID}")),
        Just(format!("libpod-{ID}.scope")),
        Just(format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"))),
        "[^/\n]{0,12}",
    ]
}

proptest! {
    #[test]
    fn any_path_is_read_and_each_container_can_be_shown(parts in proptest::collection::vec(part(), 0..8)) {
        let path = format!("/{}", parts.join("/"));
        let found = Membership::of([path.as_str()]);
        prop_assert!(found.containers.len() <= parts.len());
        for one in &found.containers {
            prop_assert!(!one.text().is_empty() && !one.text().chars().any(char::is_control));
            prop_assert!(one.short_id().len() <= 12 || !is_id(&one.id));
        }
    }

    #[test]
    fn a_group_below_a_container_belongs_to_it(below in proptest::collection::vec("[a-z]{1,8}", 0..4)) {
        let container = format!("/system.slice/docker-{ID}.scope");
        let path = format!("{container}/{}", below.join("/"));
        prop_assert_eq!(
            Membership::of([path.as_str()]).containers.first().cloned(),
            Membership::of([container.as_str()]).containers.first().cloned()
        );
    }

    #[test]
    fn any_file_is_read(text in ".*") {
        let _ = (names_of_docker(&text), names_of_oci(&text), names_of_storage(&text, ID));
    }
}
