"""Containers from outside, where the daemon knows them by their control groups, and `pinfold run` inside of one.

Outside, a process is put into a group with the name that a runtime would give it. Inside, bubblewrap makes the
namespaces, and a seccomp filter refuses the calls that Docker's default profile refuses.
"""

import errno
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import PATIENCE, Pinfold, Run, environment, eventually
from test_daemon import FAST, SHARING, Daemon, busy, daemon, families, run

__all__ = ["busy", "daemon"]

ID = "5ad0" * 16
OTHER = "c0de" * 16
POD = "1b7c2f7a-5b0e-4f3c-9a51-0d7a0c0c8d11"

#: Where control groups of the second version are, or a hierarchy of the first.
HIERARCHIES = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/systemd")

#: The system calls that Docker's default profile does not allow without a capability, as far as pinfold makes them: it
#: allows those for memory policies with CAP_SYS_NICE, perf_event_open with CAP_PERFMON, and moving pages never
#: (https://github.com/moby/moby/blob/master/profiles/seccomp/default.json). Numbers of x86-64.
DOCKER = {
    "mbind": 237,
    "set_mempolicy": 238,
    "get_mempolicy": 239,
    "migrate_pages": 256,
    "unshare": 272,
    "move_pages": 279,
    "perf_event_open": 298,
    "setns": 308,
    "kcmp": 312,
    "bpf": 321,
    "userfaultfd": 323,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "set_mempolicy_home_node": 450,
}

#: A profile for kernels before 4.8 refuses these as well.
PTRACE = {"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311}

#: An unprivileged user, and what bubblewrap gives a container of Docker's shape: namespaces of its own, a file system
#: that cannot be written, and no capability.
UNPRIVILEGED = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-uts")
FILES = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run")
BUBBLE = ("bwrap", *NAMESPACES, *FILES, "--cap-drop", "ALL", "--new-session", "--die-with-parent")


@pytest.fixture
def grouped(busy: Callable[[int], int]) -> Iterator[Callable[[str, int], int]]:
    """Return a function that starts a busy program in a control group of this path, and returns its process."""
    made: list[tuple[Path, Path]] = []

    def start(path: str, threads: int) -> int:
        process = busy(threads)
        for hierarchy in map(Path, HIERARCHIES):
            if not (hierarchy / "cgroup.procs").exists():
                continue
            group = hierarchy / path.strip("/")
            try:
                group.mkdir(parents=True, exist_ok=True)
                made.append((hierarchy, group))
                (group / "cgroup.procs").write_text(str(process))
            except OSError:
                continue
            return process
        pytest.skip("no control group can be made here")

    yield start
    for hierarchy, group in made:
        # The program has not ended yet: it goes back to the root.
        for process in (group / "cgroup.procs").read_text().split():
            (hierarchy / "cgroup.procs").write_text(process)
        with suppress(OSError):  # A group above has other groups.
            for one in (group, *group.parents):
                one.rmdir()


def seen(one: Daemon, processes: set[int]) -> bool:
    """Return whether exactly these processes are watched and work."""
    state = one.state()
    return state["totals"]["watched"] == len(state["tasks"]) and {t["process"] for t in state["tasks"]} == processes


def test_a_container_is_selected_alone_and_shown_with_its_id(
    daemon: Callable[..., Daemon], grouped: Callable[[str, int], int], busy: Callable[[int], int]
) -> None:
    inside = grouped(f"/docker/{ID}", 2)
    grouped(f"/docker/{OTHER}", 1)
    busy(1)
    one = daemon(*SHARING, *FAST, "--cgroup", f"container:{ID[:12]}")
    eventually(lambda: seen(one, {inside}), "the container's program alone is watched")
    state = one.state()
    expected = {"runtime": "docker", "id": ID, "text": ID[:12]}
    assert [task["container"] for task in state["tasks"]] == [expected] * 2
    (counts,) = state["containers"]
    assert counts.items() >= (expected | {"watched": 2, "pinned": 0}).items()
    eventually(lambda: one.state()["containers"][0]["processor_seconds"] > 0, "its processor time is counted")
    shown = one.top("--once", "--width", "140").stdout
    assert re.search(r"^PID +TID +NAME +CONTAINER +PU ", shown, re.MULTILINE)
    assert re.search(rf"^{inside} +\d+ +spin\S* +{ID[:12]} ", shown, re.MULTILINE)
    metrics = one.get("/metrics")[1]
    families(metrics)
    assert f'\npinfold_container_tasks_watched{{container="{ID[:12]}",runtime="docker"}} 2\n' in metrics
    assert OTHER[:12] not in metrics


def test_a_name_that_the_runtime_wrote_is_shown_and_selects(
    binary: Path, tmp_path: Path, grouped: Callable[[str, int], int]
) -> None:
    inside = grouped(f"/docker/{ID}", 1)
    grouped(f"/docker/{OTHER}", 1)
    folder = f"/var/lib/docker/containers/{ID}"
    script = f"""
        mount -t tmpfs none /var/lib && mkdir -p {folder} || exit 77
        printf '{{"ID": "{ID}", "Name": "/web-1"}}' > {folder}/config.v2.json
        exec "$@"
    """
    files: list[str | Path] = ["--journals", tmp_path / "journals", "--log", tmp_path / "log"]
    words = [binary, "daemon", *files, *SHARING, *FAST, "--cgroup", "container:web-*"]
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *words]
    process = subprocess.Popen(command, env=environment(), text=True, stderr=subprocess.PIPE)
    try:
        one = Daemon(binary, tmp_path, process)
        ready = one.journals / "daemon.sock"
        eventually(lambda: process.poll() is not None or ready.exists(), "the daemon has started")
        if process.poll() in (1, 77):
            pytest.skip(f"no file system can be mounted here: {process.communicate()[1].strip()}")
        eventually(lambda: seen(one, {inside}), "the container of this name alone is watched")
        assert one.state()["tasks"][0]["container"]["name"] == "web-1"
        assert re.search(rf"^{inside} +\d+ +spin\S* +web-1 ", one.top("--once").stdout, re.MULTILINE)
        assert "pinfold_containers 1\n" in one.get("/metrics")[1]
        assert 'watched{container="web-1",runtime="docker"} 1\n' in one.get("/metrics")[1]
    finally:
        process.kill()
        process.communicate()


def test_a_pod_is_known_by_its_uid_and_an_excepted_one_is_not_watched(
    daemon: Callable[..., Daemon], grouped: Callable[[str, int], int]
) -> None:
    slices = "kubepods.slice/kubepods-burstable.slice"
    pod = f"/{slices}/kubepods-burstable-pod{POD.replace('-', '_')}.slice"
    first = grouped(f"{pod}/cri-containerd-{ID}.scope", 1)
    second = grouped(f"{pod}/cri-containerd-{OTHER}.scope", 1)
    one = daemon(*SHARING, *FAST, "--cgroup", f"pod:{POD}")
    eventually(lambda: seen(one, {first, second}), "both containers of the pod are watched")
    keys = {"runtime": "containerd", "pod_uid": POD, "qos": "burstable"}
    assert all(task["container"].items() >= keys.items() for task in one.state()["tasks"])
    assert f'pod="{POD}",runtime="containerd"' in one.get("/metrics")[1]
    assert one.end() == 0
    two = daemon(*SHARING, *FAST, "--cgroup", f"pod:{POD}", "--except", f"container:{OTHER[:12]}")
    eventually(lambda: seen(two, {first}), "one container is excepted")


def test_without_containers_there_is_no_column(daemon: Callable[..., Daemon], busy: Callable[[int], int]) -> None:
    one = daemon(*SHARING, *FAST, "-p", str(busy(1)))
    eventually(lambda: one.state()["tasks"], "the program works")
    assert "containers" not in one.state()
    assert "container" not in one.state()["tasks"][0]
    assert "CONTAINER" not in one.top("--once").stdout
    assert "pinfold_containers 0\n" in one.get("/metrics")[1]


@pytest.mark.parametrize(
    ("named", "status", "words"),
    [
        ("container:nosuch", 125, ["no container nosuch", "docker ps"]),
        ("pod:shop/nosuch", 125, ["no pod shop/nosuch", "kubectl get pods"]),
        ("unit:nosuch.service", 125, ["unit nosuch.service", "systemctl list-units"]),
        ("pod:a/b/c", 125, ["`pod:a/b/c` names no control group", "pod:NAMESPACE/NAME"]),
        ("box:web", 125, ["`box:web` names no control group", "container:web"]),
    ],
)
def test_what_is_not_there_or_has_another_form_is_refused_with_a_remedy(
    binary: Path, tmp_path: Path, named: str, status: int, words: Sequence[str]
) -> None:
    refused = run(binary, "daemon", *SHARING, "--journals", tmp_path, "--cgroup", named)
    assert refused.returncode == status
    assert all(word in refused.stderr for word in words), refused.stderr


def filtered(calls: Sequence[int], unknown: Sequence[int]) -> bytes:
    """Return a seccomp filter that answers calls with EPERM and ENOSYS, as bubblewrap takes it."""

    def step(code: int, equal: int, other: int, value: int) -> bytes:
        return struct.pack("HBBI", code, equal, other, value)

    load, jump_if_equal, give = 0x20, 0x15, 0x06
    refuse, allow = 0x00050000, 0x7FFF0000
    steps = [step(load, 0, 0, 0)]
    answers = [(call, errno.EPERM) for call in calls] + [(call, errno.ENOSYS) for call in unknown]
    for call, answer in answers:
        steps += [step(jump_if_equal, 0, 1, call), step(give, 0, 0, refuse | answer)]
    return b"".join([*steps, step(give, 0, 0, allow)])


@pytest.fixture
def inside(pinfold: Pinfold, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Return a function that runs pinfold in a container, unprivileged, with a filter for these calls."""
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed (apt install bubblewrap)")
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers of the system calls are those of x86-64")
    user = UNPRIVILEGED if os.geteuid() == 0 else ()
    tried = subprocess.run([*user, *BUBBLE, pinfold.binary, "--version"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"an unprivileged user can make no container here: {tried.stderr.strip()}")
    writable = Path(f"/tmp/{tmp_path.name}-{os.getpid()}")
    writable.mkdir()
    writable.chmod(0o777)
    # clone3, whose arguments a filter cannot see, is refused as unknown: then a C library uses clone.
    clone3 = 435

    def go(calls: dict[str, int], *words: str | Path) -> Run:
        bound = ("--bind", str(writable), str(writable), "--setenv", "HOME", str(writable))
        profile = tmp_path / "profile"
        profile.write_bytes(filtered(list(calls.values()), [clone3]))
        with profile.open("rb") as file:
            number = str(file.fileno())
            command = [*user, *BUBBLE, *bound, "--seccomp", number, "--", pinfold.binary, *words]
            variables = environment({"PINFOLD_CLAIMS": str(writable), "PINFOLD_DB": str(writable / "db")})
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE,
                env=variables,
                pass_fds=[file.fileno()],
            )
        return Run(done.returncode, done.stdout, done.stderr)

    yield go
    shutil.rmtree(writable, ignore_errors=True)


@pytest.fixture
def worker(compiled: Callable[..., Path]) -> Path:
    """Return a program of threads, which others than its owner can run."""
    program = compiled("spin")
    for folder in [program, *program.parents]:
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    return program


@pytest.mark.parametrize("calls", [{}, DOCKER], ids=["no filter", "Docker's"])
def test_an_unprivileged_run_inside_places_a_program(
    inside: Callable[..., Run], several_cpus: list[int], calls: dict[str, int]
) -> None:
    until_pinned = 'while grep -q "Cpus_allowed_list:.*[-,]" /proc/$$/status; do :; done; echo pinned'
    options = ("--policy", "packed", "--threads", "1", "--initialise", "0", "-t", "100ms")
    placed = inside(calls, "run", *options, "--", "sh", "-c", until_pinned)
    assert placed.status == 0, placed.err
    assert placed.out == "pinned\n"


def test_without_counters_a_run_inside_names_the_option_of_the_container(
    inside: Callable[..., Run], worker: Path
) -> None:
    refused = inside(DOCKER, "run", "-e", "task-clock", "--", worker, "1", "0")
    assert refused.status == 125
    assert "--cap-add PERFMON" in refused.err
    # The default policy goes on without them.
    unmeasured = inside(DOCKER, "run", "-t", "100ms", "--initialise", "0", "--", worker, "2", "1")
    assert unmeasured.status == 0, unmeasured.err


def test_without_memory_policies_a_run_inside_says_so_and_goes_on(inside: Callable[..., Run], worker: Path) -> None:
    placed = inside(DOCKER, "run", "--policy", "close", "--page-map", "interleave", "--", worker, "2", "1")
    assert placed.status == 0, placed.err
    assert "set_mempolicy(2) without CAP_SYS_NICE" in placed.err


def test_without_ptrace_a_run_inside_is_refused_with_a_remedy(inside: Callable[..., Run], worker: Path) -> None:
    refused = inside(DOCKER | PTRACE, "run", "--policy", "close", "--", worker, "2", "1")
    assert refused.status == 125
    assert "--cap-add SYS_PTRACE" in refused.err


def test_a_database_that_cannot_be_written_is_named_with_the_option_for_another(pinfold: Pinfold) -> None:
    """The root of a container may be read-only, and have a database from its image."""
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed (apt install bubblewrap)")
    file = pinfold.folder / "behaviour.db"
    assert pinfold.run("--db", file, "--", "true").status == 0
    read_only = ("bwrap", "--unshare-user", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    again = pinfold.run("--db", file, "--", "true", prefix=read_only)
    if "bwrap:" in again.err:
        pytest.skip(again.err.strip())
    assert again.status == 0, again.err
    assert again.said("Nothing is remembered of this run") == again.said("--db names another file") == 1
    assert again.said(str(file)) == 1


def test_a_daemon_inside_refuses_counters_and_names_what_replaces_them(inside: Callable[..., Run]) -> None:
    checked = inside(DOCKER, "daemon", "--check-config", "--metric", "sharing")
    assert checked.status == 0, checked.err
    refused = inside(DOCKER, "daemon", "--metric", "counters", "--journals", "/run/pinfold")
    assert refused.status == 125
    assert "--metric sharing" in refused.err
