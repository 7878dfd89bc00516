"""`pinfold daemon` and `pinfold top` as whole programs: start, end, configuration, output, and errors.

tests/guest/test_daemon_moves.py shows that tasks are moved; the guest has several packages.
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import CPUS, PATIENCE, ROOT, Terminal, alive, environment, eventually

#: A metric that needs no counters.
SHARING = ("--metric", "sharing")

#: A configuration that counts progress without hardware counters.
WITH_PROGRESS = """
[thresholds]
memory = 1.0
"""
PROGRESS = ("--metric", "memory_bandwidth=page-faults,progress=task-clock")

#: The shortest interval, for fast tests.
FAST = ("--interval", "10ms")


class UnixConnection(http.client.HTTPConnection):
    """HTTP on a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self.path))


@dataclass
class Daemon:
    """A running daemon with its own folder."""

    binary: Path
    folder: Path
    process: "subprocess.Popen[str]"
    lines: list[str] = field(default_factory=list)

    @property
    def journals(self) -> Path:
        return self.folder / "journals"

    def log(self, event: str) -> list[dict[str, Any]]:
        """Return the events of this name that were logged so far."""
        text = (self.folder / "log").read_text()
        events = [json.loads(line) for line in text.splitlines()]
        return [one for one in events if one["event"] == event]

    def get(self, path: str) -> tuple[int, str]:
        """Send an HTTP request; return the status and the body."""
        connection = UnixConnection(self.journals / "daemon.sock")
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def state(self) -> Any:
        status, body = self.get("/state")
        assert status == 200, body
        return json.loads(body)

    def top(self, *options: str) -> "subprocess.CompletedProcess[str]":
        command: list[str | Path] = [self.binary, "top", "--journals", self.journals, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment())

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE)


@pytest.fixture
def daemon(binary: Path, tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Return a function that starts a daemon and waits until it answers."""
    begun: list[Daemon] = []

    def start(*options: str | Path, log: bool = True, before: Sequence[str] = ()) -> Daemon:
        words = ["--log", str(tmp_path / "log"), "--log-format", "json"] if log else []
        earlier = (tmp_path / "log").read_text().count("started") if (tmp_path / "log").exists() else 0
        command = [*before, binary, "daemon", "--journals", tmp_path / "journals", *words, *options]
        process = subprocess.Popen(
            command, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        one = Daemon(binary, tmp_path, process)
        begun.append(one)

        def ready() -> bool:
            assert process.poll() is None, process.communicate()[1]
            if log:
                return (tmp_path / "log").exists() and len(one.log("started")) > earlier
            # The socket exists before the daemon listens on it.
            with suppress(OSError):
                UnixConnection(one.journals / "daemon.sock").connect()
                return True
            return False

        eventually(ready, "the daemon has started")
        return one

    yield start
    for one in begun:
        one.process.kill()
        one.process.communicate()


@pytest.fixture
def busy(compiled: Callable[..., Path]) -> Iterator[Callable[[int], int]]:
    """Return a function that starts a program with this number of working threads, and returns its process."""
    begun: list[subprocess.Popen[str]] = []

    def start(threads: int) -> int:
        command: list[str | Path] = [compiled("spin"), str(threads), "600"]
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE)
        begun.append(process)
        assert process.stdout
        return int(process.stdout.readline())

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def run(binary: Path, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [binary, *words], capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment()
    )


def test_it_reports_when_children_of_pinned_tasks_get_their_masks_back(daemon: Callable[..., Daemon]) -> None:
    one = daemon(*SHARING, *FAST)
    (started,) = one.log("started")
    assert started["children"] in ("at_birth", "when_met")
    assert one.state()["children"] == started["children"]
    said = [note for note in one.log("note") if "until it is met" in note["text"]]
    assert len(said) == (started["children"] == "when_met")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_and_nothing_is_left(daemon: Callable[..., Daemon], number: int) -> None:
    one = daemon(*SHARING, *FAST)
    assert one.end(number) == 0
    assert [event["signal"] for event in one.log("ended")] == [number]
    # The file of the lock stays; no process holds it.
    assert [path.name for path in one.journals.iterdir()] == ["daemon.lock"]


def test_the_second_of_two_is_refused_and_names_the_first(daemon: Callable[..., Daemon], binary: Path) -> None:
    one = daemon(*SHARING)
    second = run(binary, "daemon", "--journals", one.journals, *SHARING)
    assert second.returncode == 125
    assert f"process {one.process.pid}" in second.stderr
    assert one.state()["process"] == one.process.pid


def test_after_a_kill_the_next_daemon_starts_without_help(daemon: Callable[..., Daemon]) -> None:
    one = daemon(*SHARING)
    one.process.kill()
    one.process.wait()
    two = daemon(*SHARING)
    assert two.state()["process"] == two.process.pid
    assert two.end() == 0


def test_without_counters_it_refuses_and_names_the_alternatives(binary: Path, tmp_path: Path) -> None:
    if run(binary, "run", "-e", "instructions", "--", "true").returncode == 0:
        pytest.skip("this machine counts instructions")
    refused = run(binary, "daemon", "--journals", tmp_path, "--metric", "counters")
    assert refused.returncode == 125
    assert "--metric sharing" in refused.stderr
    assert "--metric memory_bandwidth=page-faults" in refused.stderr


def test_it_sees_tasks_begin_work_and_end(daemon: Callable[..., Daemon], busy: Callable[[int], int]) -> None:
    one = daemon(*SHARING, *FAST, "--name", "spin*")
    assert one.state()["tasks"] == []
    process = busy(3)

    def seen() -> bool:
        return {task["process"] for task in one.state()["tasks"]} == {process} and len(one.state()["tasks"]) == 3

    eventually(seen, "the tasks are seen working")
    task = one.state()["tasks"][0]
    assert task["name"].startswith("spin")
    assert 0 <= task["busy"] <= 1
    # These are not counted.
    assert task["rates"]["memory_bandwidth"] is None
    os.kill(process, signal.SIGKILL)
    eventually(lambda: one.state()["totals"]["watched"] == 0, "the tasks have ended")


def test_kernel_threads_and_itself_are_not_watched(daemon: Callable[..., Daemon]) -> None:
    one = daemon(*SHARING, *FAST)
    state = one.state()
    numbers = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    threads = 0
    for number in numbers:
        try:
            kernel = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[6]) & 0x200000
            threads += 0 if kernel else len(os.listdir(f"/proc/{number}/task"))
        except OSError:
            continue
    own = len(os.listdir(f"/proc/{one.process.pid}/task"))
    # Other programs begin and end while the test counts.
    assert abs(state["totals"]["watched"] - (threads - own)) < own + threads / 2
    assert one.process.pid not in {task["process"] for task in state["tasks"]}


def test_only_the_needed_capabilities_are_kept(daemon: Callable[..., Daemon]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has capabilities to drop")
    one = daemon(*SHARING)
    status = Path(f"/proc/{one.process.pid}/status").read_text()
    fields = dict(line.split(":\t") for line in status.splitlines() if line.startswith(("Cap", "NoNewPrivs")))
    # The kernel shows the bytes of other users' processes to whoever may trace them.
    nice_perfmon_and_ptrace = 1 << 23 | 1 << 38 | 1 << 19
    for name in ("CapPrm", "CapEff", "CapBnd"):
        assert int(fields[name], 16) & ~nice_perfmon_and_ptrace == 0, fields
    assert fields["NoNewPrivs"] == "1"


def test_an_invalid_file_is_refused_with_file_line_key_and_correction(binary: Path, tmp_path: Path) -> None:
    file = tmp_path / "daemon.toml"
    file.write_text('metric = "sharing"\n\n[tasks]\nuser = ["root"]\n')
    refused = run(binary, "daemon", "--check-config", "--config", file)
    assert refused.returncode == 125
    assert f"{file}:4: `tasks.user`" in refused.stderr
    assert "did you mean `users`?" in refused.stderr
    file.write_text('metric = "sharing"\n\n[tasks]\nusers = ["root"]\n')
    assert run(binary, "daemon", "--check-config", "--config", file).returncode == 0


def test_an_unknown_user_is_refused_with_a_remedy(binary: Path, tmp_path: Path) -> None:
    """The binary is static: a name service in its own process would end it by SIGSEGV."""
    file = tmp_path / "daemon.toml"
    file.write_text('metric = "sharing"\n\n[tasks]\nusers = ["nosuch"]\n')
    for arguments in (["--user", "nosuch"], ["--check-config", "--config", file]):
        refused = run(binary, "daemon", *arguments)
        assert refused.returncode == 125
        assert "there is no user `nosuch`" in refused.stderr
        assert "getent passwd" in refused.stderr
    for known in ("root", "0"):
        assert run(binary, "daemon", "--check-config", "--metric", "sharing", "--user", known).returncode == 0


@pytest.mark.parametrize(
    ("option", "named"), [(("-p", "99999999"), "99999999"), (("--cgroup", "/nosuch.slice"), "/nosuch.slice")]
)
def test_a_missing_object_to_watch_is_refused_by_name(
    binary: Path, tmp_path: Path, option: tuple[str, str], named: str
) -> None:
    command: list[str | Path] = [binary, "daemon", *SHARING, "--journals", tmp_path, *option]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment())
    assert ended.returncode == 125
    assert named in ended.stderr
    assert "lists" in ended.stderr


def test_the_example_configuration_is_valid(binary: Path) -> None:
    assert run(binary, "daemon", "--check-config", "--config", ROOT / "dist/daemon.toml").returncode == 0


def test_sighup_reads_the_file_again_and_an_invalid_one_changes_nothing(
    daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    file = tmp_path / "daemon.toml"
    file.write_text('metric = "sharing"\ninterval = "10ms"\n')
    one = daemon("--config", file, *SHARING)
    file.write_text('metric = "sharing"\ninterval = "20ms"\n[tasks]\nnames = ["nobody"]\n')
    one.process.send_signal(signal.SIGHUP)
    eventually(lambda: one.log("reloaded"), "the file is read again")
    assert one.state()["interval"] == 0.02
    eventually(lambda: one.state()["totals"]["watched"] == 0, "no task is watched")
    file.write_text('metric = "sharing"\ninterval = "fast"\n')
    one.process.send_signal(signal.SIGHUP)
    (refused,) = eventually(lambda: one.log("reload_refused"), "the file is refused")
    assert f"{file}:2: `interval`" in refused["text"]
    state = one.state()
    assert state["interval"] == 0.02
    assert (state["totals"]["reloads"], state["totals"]["reloads_refused"]) == (1, 1)


def test_a_log_with_states_is_drawn(
    daemon: Callable[..., Daemon], busy: Callable[[int], int], binary: Path, tmp_path: Path
) -> None:
    one = daemon(*SHARING, *FAST, "--name", "spin*", "--log-state", "50ms")
    process = busy(2)
    eventually(lambda: any(state["tasks"] for state in one.log("state")), "a state with tasks")
    assert one.end() == 0
    (machine,) = one.log("machine")
    assert machine["packages"]
    drawn = run(binary, "report", tmp_path / "log")
    assert drawn.returncode == 0, drawn.stderr
    for text in (
        "pinfold daemon on ",
        f"of process {process}" if one.log("move") else "spin",
        'id="moment"',
        "spin-gcc",
    ):
        assert text in drawn.stdout


def test_states_in_a_log_for_people_are_refused(binary: Path) -> None:
    refused = run(binary, "daemon", "--check-config", "--metric", "sharing", "--log-state", "1s")
    assert refused.returncode == 125
    assert "--log-format json" in refused.stderr


def test_a_rotated_log_is_opened_again(daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    one = daemon(*SHARING)
    (tmp_path / "log").rename(tmp_path / "log.1")
    one.process.send_signal(signal.SIGHUP)
    eventually((tmp_path / "log").exists, "there is a new file")
    eventually(lambda: one.log("reloaded"), "it is written to the new file")


def test_a_full_disk_under_the_log_does_not_stop_it(daemon: Callable[..., Daemon]) -> None:
    one = daemon(*SHARING, *FAST, "--log", "/dev/full", log=False)
    assert one.state()["totals"]["log_lines_lost"] >= 1
    assert one.end() == 0


def test_lines_for_a_person_go_to_standard_error(daemon: Callable[..., Daemon]) -> None:
    one = daemon(*SHARING, log=False)
    one.process.terminate()
    out, err = one.process.communicate(timeout=PATIENCE)
    assert out == ""
    assert re.search(r"^time=\S+Z event=started .*metric=sharing", err, re.MULTILINE)
    assert "event=ended" in err


def test_a_stopped_daemon_makes_no_decision_about_the_gap(daemon: Callable[..., Daemon]) -> None:
    one = daemon(*SHARING, "--interval", "1ms")
    eventually(lambda: one.state()["totals"]["intervals"] > 3, "intervals pass")
    before = one.state()["totals"]["intervals_skipped"]
    one.process.send_signal(signal.SIGSTOP)
    eventually(
        lambda: "T" in Path(f"/proc/{one.process.pid}/stat").read_text().rpartition(")")[2][:3], "the daemon is stopped"
    )
    subprocess.run(["sleep", "0.1"], check=True)
    one.process.send_signal(signal.SIGCONT)
    eventually(lambda: one.state()["totals"]["intervals_skipped"] > before, "the gap is detected")


def test_the_service_manager_is_notified_of_the_start_and_of_the_end(binary: Path, tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(PATIENCE)
        process = subprocess.Popen(
            [binary, "daemon", "--journals", tmp_path / "journals", *SHARING],
            env=environment({"NOTIFY_SOCKET": str(path)}),
            stderr=subprocess.DEVNULL,
        )
        try:
            assert manager.recv(64) == b"READY=1"
            process.terminate()
            assert manager.recv(64) == b"STOPPING=1"
            assert process.wait(timeout=PATIENCE) == 0
        finally:
            process.kill()
            process.wait()


def families(text: str) -> dict[str, str]:
    """Parse Prometheus's text format strictly; return the type of each metric."""
    types: dict[str, str] = {}
    helped = set()
    for line in text.splitlines():
        if match := re.fullmatch(r"# HELP (\w+) \S.*", line):
            helped.add(match[1])
        elif match := re.fullmatch(r"# TYPE (\w+) (counter|gauge)", line):
            assert match[1] in helped
            assert match[1] not in types
            types[match[1]] = match[2]
        else:
            label = r'\w+="(?:[^"\\\n]|\\[\\"n])*"'
            sample = re.fullmatch(rf"(\w+)(?:\{{{label}(?:,{label})*\}})? (-?[0-9.]+(?:e-?[0-9]+)?)", line)
            assert sample, line
            assert list(types)[-1] == sample[1], line
    return types


def test_prometheus_is_answered_in_its_own_format(daemon: Callable[..., Daemon], busy: Callable[[int], int]) -> None:
    one = daemon(*SHARING, *FAST)
    busy(2)
    eventually(lambda: one.state()["totals"]["working"] >= 2, "tasks work")
    status, text = one.get("/metrics")
    assert status == 200
    types = families(text)
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in types.items())
    assert re.search(r"^pinfold_tasks_working [1-9]", text, re.MULTILINE)
    assert one.get("/nothing")[0] == 404


def test_the_dashboard_shows_exactly_the_existing_metrics(daemon: Callable[..., Daemon]) -> None:
    text = daemon(*SHARING, *FAST).get("/metrics")[1]
    dashboard = json.loads((ROOT / "dist/grafana.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    shown = set(re.findall(r"pinfold_\w+", " ".join(queries)))
    assert shown == set(families(text))


def test_a_local_port_is_served_and_a_network_address_refused(
    daemon: Callable[..., Daemon], binary: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    daemon(*SHARING, *FAST, "--listen", f"127.0.0.1:{port}")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", "/metrics")
    assert connection.getresponse().status == 200
    refused = run(binary, "daemon", "--journals", tmp_path / "other", *SHARING, "--listen", f"0.0.0.0:{port}")
    assert refused.returncode == 125
    assert "127.0.0.1:9798" in refused.stderr


def test_only_the_daemons_user_may_connect_unless_the_configuration_allows_more(
    daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    one = daemon(*SHARING)
    assert (one.journals / "daemon.sock").stat().st_mode & 0o777 == 0o600
    one.end()
    file = tmp_path / "daemon.toml"
    file.write_text('metric = "sharing"\n[export]\nmode = "0660"\n')
    two = daemon("--config", file, *SHARING)
    assert (two.journals / "daemon.sock").stat().st_mode & 0o777 == 0o660


def test_top_shows_a_frame_as_text(daemon: Callable[..., Daemon], busy: Callable[[int], int]) -> None:
    one = daemon(*SHARING, *FAST)
    process = busy(2)
    eventually(lambda: one.state()["totals"]["working"] >= 2, "tasks work")
    shown = one.top("--once", "--width", "120")
    assert shown.returncode == 0, shown.stderr
    assert f"pinfold daemon {one.process.pid}" in shown.stdout
    assert "assumed and not measured" in shown.stdout
    assert re.search(rf"^{process} +\d+ +spin\S* ", shown.stdout, re.MULTILINE)
    assert max(map(len, shown.stdout.splitlines())) <= 120
    assert json.loads(one.top("--json").stdout)["process"] == one.process.pid


def test_top_without_a_daemon_says_what_to_do(binary: Path, tmp_path: Path) -> None:
    refused = run(binary, "top", "--once", "--journals", tmp_path)
    assert refused.returncode == 125
    assert "pinfold daemon" in refused.stderr
    assert "--socket" in refused.stderr


def test_top_draws_in_a_terminal_until_q(daemon: Callable[..., Daemon], terminal: Callable[..., Terminal]) -> None:
    one = daemon(*SHARING, *FAST)
    command = f"stty rows 30 cols 100; exec {one.binary} top --journals {one.journals}"
    shown = terminal("sh", "-c", command, env={"TERM": "xterm"})
    shown.until(f"pinfold daemon {one.process.pid}")
    shown.type("p")
    shown.until("paused")
    shown.type("q")
    assert shown.end() == 0


def test_systemd_accepts_the_unit(binary: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / "pinfold.service"
    file.write_text((ROOT / "dist/pinfold.service").read_text().replace("/usr/bin/pinfold", str(binary)))
    verify: list[str | Path] = ["systemd-analyze", "verify", "--man=no", file]
    said = subprocess.run(verify, capture_output=True, text=True, check=False, timeout=PATIENCE)
    about_ours = [line for line in said.stderr.splitlines() if "pinfold.service" in line]
    assert (said.returncode, about_ours) == (0, []), said.stderr


def test_a_killed_daemon_leaves_no_process(daemon: Callable[..., Daemon]) -> None:
    one = daemon(*SHARING)
    children = Path(f"/proc/{one.process.pid}/task/{one.process.pid}/children").read_text().split()
    assert children
    one.process.kill()
    one.process.wait()
    eventually(lambda: not any(alive(int(child)) for child in children), "the guard has ended")


def test_a_process_whose_program_is_known_goes_where_that_was_fastest(
    daemon: Callable[..., Daemon],
    busy: Callable[[int], int],
    tmp_path: Path,
    binary: Path,
    compiled: Callable[..., Path],
) -> None:
    if len(CPUS) < 2:
        pytest.skip("only one CPU is allowed here")
    database = tmp_path / "behaviour.db"
    # A run adds this machine and the program. Where it was fastest is made up.
    fast = (
        "--policy",
        "hints:rules",
        "--metric",
        "event:page-faults",
        "--initialise",
        "200ms",
        "--warm-up",
        "50ms",
        "--probe",
        "200ms",
        "--interval",
        "50ms",
    )
    result = run(binary, "run", "--db", database, *fast, "--", compiled("spin"), "2", "1")
    assert result.returncode == 0, result.stderr
    pus = ",".join(map(str, CPUS[1::-1]))
    with closing(sqlite3.connect(database)) as connection, connection:
        assert connection.execute("UPDATE program SET shape = '2 512'").rowcount == 1
        connection.execute(
            "CREATE TABLE IF NOT EXISTS placement (program INTEGER, threads INTEGER, pus TEXT, pages TEXT, metric TEXT,"
            " rate REAL, gain REAL, at INTEGER, PRIMARY KEY (program, threads)) STRICT"
        )
        connection.execute(f"INSERT INTO placement SELECT id, 2, '{pus}', '', 'event:x', 1.0, 0.5, 1 FROM program")
    configuration = tmp_path / "daemon.toml"
    configuration.write_text(WITH_PROGRESS)
    process = busy(2)
    one = daemon("--config", configuration, *PROGRESS, "--db", database, "--process", str(process), *FAST)

    def moves() -> list[dict[str, Any]]:
        return [move for move in one.log("move") if move["reason"] == "known"]

    eventually(lambda: len(moves()) == 2, "both threads are moved")
    (known,) = one.log("known")
    assert (known["process"], known["threads"], known["placement"], known["gain"]) == (process, 2, pus, 0.5)
    assert known["program"] == compiled("spin").name
    assert not known["other_build"]
    assert all("activity" not in move for move in moves())
    assert one.end() == 0
    masks = [os.sched_getaffinity(int(thread)) for thread in os.listdir(f"/proc/{process}/task")]
    assert masks == [set(CPUS)] * 2


def test_a_database_that_cannot_be_read_is_told_and_the_daemon_goes_on(
    daemon: Callable[..., Daemon], busy: Callable[[int], int], tmp_path: Path
) -> None:
    database = tmp_path / "behaviour.db"
    database.write_text("no database")
    process = busy(1)
    configuration = tmp_path / "daemon.toml"
    configuration.write_text(WITH_PROGRESS)
    one = daemon("--config", configuration, *PROGRESS, "--db", database, "--process", str(process), *FAST)
    eventually(lambda: bool(one.log("note")), "a note")
    (note,) = [note for note in one.log("note") if note["code"] == "nothing_known"]
    assert str(database) in note["text"]
    assert one.state()["totals"]["intervals"] > 0
    assert database.read_text() == "no database"
