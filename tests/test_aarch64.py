"""The binary for aarch64 (`make aarch64`), run by qemu-user: it does what the one for x86-64 does, byte for byte.

Under qemu-user there is no ptrace, and times mean nothing. So what is tested is what needs neither: reading machines,
simulating, explaining; and that `pinfold run` and `pinfold record` say what is missing.
"""

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, environment
from test_simulated_determinism import record

ARM = ROOT / "target/aarch64-unknown-linux-gnu/release/pinfold"

#: Seconds after which a command counts as one that hangs. The longest takes about a tenth of it.
LONGEST = 600

#: /proc/cpuinfo of each CPU of an Ampere Altra (Neoverse N1).
CPUINFO = "processor\t: {cpu}\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0c\n\n"


@pytest.fixture(scope="module")
def emulator() -> str:
    """Return qemu-user, or skip where it or the binary is not there."""
    if not ARM.exists():
        pytest.skip(f"there is no {ARM.relative_to(ROOT)}; `make aarch64` builds it")
    found = shutil.which("qemu-aarch64")
    if found is None:
        pytest.skip("qemu-aarch64 is not installed (apt install qemu-user)")
    return found


@pytest.fixture
def arm(emulator: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the binary for aarch64."""
    return lambda *words: run(emulator, ARM, *words)


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        list(map(str, words)),
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        stdin=subprocess.DEVNULL,
        timeout=LONGEST,
    )


def both(emulator: str, binary: Path, *words: str | Path) -> str:
    """Show that a command prints the same in both binaries, and return it."""
    done, expected = (run(*prefix, *words) for prefix in ((emulator, ARM), (binary,)))
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == (expected.stdout, expected.stderr)
    return done.stdout


def server(root: Path) -> None:
    """Write what the kernel shows of a machine of two packages with a node and four cores each."""
    system = root / "sys/devices/system"
    files = {
        system / "cpu/online": "0-7",
        system / "cpu/possible": "0-7",
        system / "cpu/present": "0-7",
        system / "node/online": "0-1",
        system / "node/possible": "0-1",
        root / "proc/cpuinfo": "".join(CPUINFO.format(cpu=cpu) for cpu in range(8)).rstrip("\n"),
        root / "proc/meminfo": "MemTotal:       33554432 kB",
    }
    for package in (0, 1):
        cores = 0xF << 4 * package
        node = system / f"node/node{package}"
        files |= {
            node / "cpumap": f"{cores:08x}",
            node / "meminfo": f"Node {package} MemTotal:       16777216 kB",
            node / "distance": "10 20" if package == 0 else "20 10",
        }
        for cpu in range(4 * package, 4 * package + 4):
            place = system / f"cpu/cpu{cpu}"
            files |= {
                place / "topology/physical_package_id": str(package),
                place / "topology/core_id": str(cpu),
                place / "topology/core_cpus": f"{1 << cpu:02x}",
                place / "topology/package_cpus": f"{cores:02x}",
            }
            for number, (level, kind, size, sharing) in enumerate(
                ((1, "Data", "64K", 1 << cpu), (2, "Unified", "1024K", 1 << cpu), (3, "Unified", "32768K", cores))
            ):
                cache = place / f"cache/index{number}"
                files |= {
                    cache / "level": str(level),
                    cache / "type": kind,
                    cache / "size": size,
                    cache / "shared_cpu_map": f"{sharing:02x}",
                    cache / "coherency_line_size": "64",
                }
    for file, content in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content + "\n")


def test_it_has_the_same_version(emulator: str, binary: Path) -> None:
    assert both(emulator, binary, "--version").startswith("pinfold 0.")


@pytest.mark.parametrize("kind", ["fsroot", "synthetic"])
def test_a_captured_machine_is_the_same(emulator: str, binary: Path, tmp_path: Path, kind: str) -> None:
    """A process of its own reads it, which an emulated program cannot start. So the test calls that one."""
    server(tmp_path)
    described = {"fsroot": str(tmp_path), "synthetic": "pack:2 numa:2 l3:1 core:4 pu:4"}
    answer = both(emulator, binary, "read-topology", kind, "--", described[kind])
    assert json.loads(answer)["Ok"]["nodes"]


@pytest.mark.parametrize("how", [(), ("--json",)], ids=["text", "json"])
def test_a_machine_is_shown_in_the_same_words(emulator: str, binary: Path, how: tuple[str, ...]) -> None:
    assert both(emulator, binary, "topo", *how, "--machine", "e5-4650x4")


def test_the_machine_at_hand_is_read(arm: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    shown = arm("topo")
    assert shown.returncode == 0, shown.stderr
    assert "PU" in shown.stdout


@pytest.fixture(scope="module")
def recording(
    emulator: str, binary: Path, workload: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return the recording of a program of four threads, which the binary for x86-64 has made."""
    assert emulator
    program = (workload("false_sharing"), "--threads", "4", "--size", "16k", "--iterations", "2")
    return record(binary, tmp_path_factory.mktemp("recording") / "false_sharing.pft", *program)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--machine", "e5-4650x4", "--policy", "auto"),
        ("--machine", "e5-4650x4", "--policy", "sam"),
        ("--machine", "opteron-6164x4", "--policy", "autopin"),
    ],
    ids=["auto", "sam", "autopin"],
)
def test_decisions_on_a_simulated_machine_are_the_same(
    emulator: str, binary: Path, recording: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    written = []
    for name, prefix in {"x86-64": (binary,), "aarch64": (emulator, ARM)}.items():
        # Each has an empty behaviour database: `auto` asks it for earlier runs.
        own = ("--db", tmp_path / f"{name}.db", "--json", tmp_path / f"{name}.json")
        done = run(*prefix, "run", *arguments, *own, recording)
        assert done.returncode == 0, done.stderr
        written.append((tmp_path / f"{name}.json").read_bytes())
    assert written[0] == written[1]


def test_a_sweep_makes_the_same_data_set(emulator: str, binary: Path, recording: Path, tmp_path: Path) -> None:
    written = []
    for name, prefix in {"x86-64": (binary,), "aarch64": (emulator, ARM)}.items():
        data = tmp_path / f"{name}.parquet"
        done = run(*prefix, "sweep", "--machine", "opteron-6164x4", "--space", "threads", "-o", data, recording)
        assert done.returncode == 0, done.stderr
        written.append(data.read_bytes())
    assert written[0] == written[1]


def test_the_metrics_of_a_recording_are_the_same(emulator: str, binary: Path, recording: Path) -> None:
    assert both(emulator, binary, "trace", "metrics", "--paper", "denoyelle", "--machine", "e5-2680v3x2", recording)


@pytest.mark.parametrize("model", ["classify.json", "belief.json"])
def test_a_model_is_explained_in_the_same_words(emulator: str, binary: Path, model: str) -> None:
    assert both(emulator, binary, "explain", ROOT / "models" / model)


def test_it_measures_a_machine(arm: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    """Each loop in its own instructions ends. What the figures are is the emulator's."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("measuring between CPUs needs two")
    model = tmp_path / "here.toml"
    done = arm("calibrate", "--model", "--quick", "-o", model)
    assert done.returncode == 0, done.stderr
    assert "frequency" in model.read_text()


def test_without_ptrace_a_run_is_refused(arm: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = arm("run", "--", "true")
    assert done.returncode == 125, done
    assert "cannot follow the program with ptrace: " in done.stderr
    assert "panicked" not in done.stderr


def test_programs_of_x86_64_are_recorded_elsewhere(
    arm: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = arm("record", "-o", tmp_path / "true.pft", "--", "/bin/true")
    assert done.returncode != 0
    assert "this pinfold has no recorder" in done.stderr


def library_of(binary: Path, name: str) -> bytes:
    """Return a shared object for aarch64 that a binary for aarch64 carries, by its name, and what follows it there."""
    content = binary.read_bytes()
    at = 0
    # Byte 16 of an ELF file is 3 in a shared object, and the word after it is 183 for aarch64.
    while (at := content.find(b"\x7fELF\x02\x01\x01", at + 1)) > 0:
        # Its name stands in its table of strings.
        end = content.find(b"\x7fELF\x02\x01\x01", at + 1)
        if content[at + 16 : at + 20] == struct.pack("<HH", 3, 183) and f"\0{name}\0".encode() in content[at:end]:
            return content[at:]
    pytest.fail(f"there is no {name} in it")


def test_it_is_linked_statically(emulator: str) -> None:
    assert emulator
    with ARM.open("rb") as file:
        assert b"ld-linux-aarch64" not in file.read(4096), "it names no loader of shared libraries"


#: Regions and barriers of what agent/tests/constructs.c does in ten rounds, as in crates/linux/tests/agent.rs.
CONSTRUCTS = {"empty": (10, 0), "dynamic_loop": (10, 10), "explicit_barriers": (10, 70), "nested": (40, 30)}


@pytest.fixture
def counted(emulator: str, tmp_path: Path) -> Callable[..., list[int]]:
    """Return a function that compiles a program, runs it with a library of the binary, and returns three totals."""

    def count(library: str, sources: list[Path], *flags: str | Path, words: tuple[str, ...] = ()) -> list[int]:
        program, preloaded = tmp_path / "program", tmp_path / library
        built = run("aarch64-linux-gnu-gcc", "-O1", "-o", program, *sources, *flags)
        assert built.returncode == 0, built.stderr
        preloaded.write_bytes(library_of(ARM, library))
        # The layout of the channel is that of agent/pinfold.h.
        channel = tmp_path / "channel"
        channel.write_bytes(struct.pack("<QI52x", 0x4C4E484344464E50, 1) + bytes(1024 * 64))
        variables = (f"LD_PRELOAD={preloaded}", f"PINFOLD_CHANNEL={channel}")
        into = [word for variable in variables for word in ("-E", variable)]
        done = run(emulator, "-L", "/usr/aarch64-linux-gnu", *into, program, *words)
        assert (done.returncode, done.stderr) == (0, "")
        slots = [struct.unpack_from("<QQQQ", channel.read_bytes(), 64 + 64 * slot) for slot in range(1024)]
        return [sum(slot[column] for slot in slots) for column in (1, 2, 3)]

    return count


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_its_agent_counts_the_regions_of_an_openmp_program(counted: Callable[..., list[int]], construct: str) -> None:
    source = ROOT / "agent/tests/constructs.c"
    totals = counted("libpinfold_agent.so", [source], "-fopenmp", words=(construct,))
    assert tuple(totals[:2]) == CONSTRUCTS[construct]


def test_its_interposer_counts_mpi_calls_and_passes_their_arguments(
    counted: Callable[..., list[int]], tmp_path: Path
) -> None:
    """The library has the names of MPI functions and checks what arrives."""
    tests, library = ROOT / "agent/tests", tmp_path / "libfake.so"
    built = run("aarch64-linux-gnu-gcc", "-O1", "-shared", "-fPIC", "-o", library, tests / "mpi_fake.c")
    assert built.returncode == 0, built.stderr
    assert counted("libpinfold_mpi.so", [tests / "mpi_fake_user.c"], library) == [0, 0, 60]
