"""The workloads build without a warning, their results are correct and repeatable, and a wrong result is detected."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

WORKLOADS = Path(__file__).resolve().parents[2] / "workloads"

#: Every workload, with each of its modes.
RUNS = [
    ("stream",),
    ("random_access", "--mode", "independent"),
    ("random_access", "--mode", "dependent"),
    ("stencil",),
    ("compute",),
    ("pairs",),
    ("barrier",),
    ("imbalance", "--mode", "static"),
    ("imbalance", "--mode", "dynamic"),
    ("false_sharing", "--mode", "shared"),
    ("false_sharing", "--mode", "padded"),
    ("spmv",),
    ("fft",),
    ("lu",),
    ("kmeans",),
    ("bfs",),
    ("sort",),
    ("nbody",),
    ("mandelbrot",),
    ("hash_join",),
    ("graph_chase", "--mode", "read"),
    ("graph_chase", "--mode", "update"),
    ("pipeline",),
    ("monte_carlo",),
    ("histogram", "--mode", "private"),
    ("histogram", "--mode", "shared"),
    ("multigrid",),
    ("cg",),
    ("transpose",),
    ("radix_sort",),
    ("gups",),
    ("lattice",),
    ("adi",),
    ("ring",),
    ("wavefront",),
    ("hubench",),
    ("lubench", "--mode", "1600"),
    ("lubench", "--mode", "100"),
    ("lubench", "--mode", "200"),
    ("lubench", "--mode", "400"),
    ("lubench", "--mode", "800"),
    ("lubench", "--mode", "3200"),
    ("lubench", "--mode", "6400"),
    ("lubench", "--mode", "25600"),
    ("membench", "--mode", "row"),
    ("membench", "--mode", "line"),
    ("fir",),
    ("del_dot",),
    ("energy",),
    ("pressure",),
    ("vol3d",),
    ("couple",),
    ("pic",),
    ("hydro",),
    ("su3",),
    ("short_force",),
    ("anneal",),
    ("swaptions",),
    ("frequent",),
    ("particles",),
    ("phases", "--mode", "threads"),
    ("phases", "--mode", "pages"),
    ("synthetic",),
    ("synthetic", "--pattern", "read", "--access", "gather", "--touch", "spread"),
    ("synthetic", "--pattern", "neighbours", "--access", "chase", "--chains", "4", "--between", "256"),
    ("synthetic", "--pattern", "pipeline", "--stride", "256", "--operations", "0", "--imbalance", "90"),
    ("synthetic", "--pattern", "random", "--access", "chase", "--writes", "100", "--critical", "10"),
]
NAMES = sorted({name for name, *_ in RUNS})

#: The work of these grows with the number of threads, so their results depend on it.
GROWS_WITH_THREADS = {"pairs", "barrier", "synthetic"}

#: These are pthreads programs; all others use OpenMP.
PTHREADS = {"pairs", "pipeline"}

#: A barrier of more threads than CPUs takes milliseconds, and so does a lock that threads take in turns. The sizes of
#: these workloads are numbers of barriers or of such turns. A row of membench has 4 KiB.
SMALL = {"barrier": "20", "hubench": "100", "membench": "32k"}

#: Every iteration of these does the same, so more work needs another size; for the others it needs more iterations.
LARGER = {"compute": "8k", "imbalance": "8k"}

LINE = re.compile(
    r"(?P<name>\w+): threads (?P<threads>\d+), size (?P<size>\d+) \w+, iterations (?P<iterations>\d+), "
    r"time (?P<time>[\d.]+) s, rate (?P<rate>[\d.e+-]+) [\w ]+/s, result (?P<result>[0-9a-f]{16})\n"
)


@pytest.fixture(scope="session", params=["gcc", "clang"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build all workloads with this compiler; a warning is an error. Return their folder."""
    compiler = request.param
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    target = tmp_path_factory.mktemp(compiler)
    subprocess.run(
        ["make", "-C", WORKLOADS, f"TARGET={target}", f"CC={compiler}", "CFLAGS=-O2 -pedantic -Werror"], check=True
    )
    return target


def run(
    built: Path, name: str, *options: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a workload, in an environment with only these settings of OpenMP and of the workloads."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "WORKLOAD_"))}
    return subprocess.run(
        [built / name, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=inherited | (environment or {}),
    )


def small_run(
    built: Path, run_of: Sequence[str], threads: int, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a workload with a size that takes milliseconds."""
    name, *mode = run_of
    size = SMALL.get(name, "64k")
    return run(
        built, name, *mode, "--size", size, "--iterations", "3", "--threads", str(threads), environment=environment
    )


def line_of(completed: subprocess.CompletedProcess[str]) -> re.Match[str]:
    """Return the single line that a correct run prints."""
    assert completed.returncode == 0, completed.stderr
    assert completed.stderr == ""
    line = LINE.fullmatch(completed.stdout)
    assert line, completed.stdout
    return line


def test_every_folder_is_tested() -> None:
    assert sorted(folder.name for folder in WORKLOADS.iterdir() if folder.is_dir()) == NAMES


@pytest.mark.parametrize("run_of", RUNS, ids=" ".join)
def test_the_result_does_not_depend_on_who_touches_the_memory_first(built: Path, run_of: Sequence[str]) -> None:
    results = [line_of(small_run(built, [*run_of, "--init", init], 2))["result"] for init in ("serial", "parallel")]
    assert results[0] == results[1]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("run_of", RUNS, ids=" ".join)
def test_a_run_prints_its_parameters_and_results(built: Path, run_of: Sequence[str], threads: int) -> None:
    line = line_of(small_run(built, run_of, threads))
    assert line["name"] == run_of[0]
    assert int(line["threads"]) == threads
    assert int(line["iterations"]) == 3
    assert float(line["rate"]) > 0


@pytest.mark.parametrize("run_of", RUNS, ids=" ".join)
def test_results_are_the_same_in_every_run(built: Path, run_of: Sequence[str]) -> None:
    results = {line_of(small_run(built, run_of, 2))["result"] for _ in range(3)}
    assert len(results) == 1


@pytest.mark.parametrize("run_of", [r for r in RUNS if r[0] not in GROWS_WITH_THREADS], ids=" ".join)
def test_results_are_the_same_for_any_number_of_threads(built: Path, run_of: Sequence[str]) -> None:
    results = {line_of(small_run(built, run_of, threads))["result"] for threads in (1, 2, 3, 7)}
    assert len(results) == 1


@pytest.mark.parametrize("run_of", RUNS, ids=" ".join)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_wrong_result_is_detected(built: Path, run_of: Sequence[str], threads: int) -> None:
    completed = small_run(built, run_of, threads, environment={"WORKLOAD_CORRUPT": "1"})
    assert completed.returncode == 1
    assert completed.stdout == ""
    assert completed.stderr.startswith(f"{run_of[0]}: wrong result: ")


@pytest.mark.parametrize("name", NAMES)
def test_the_smallest_sizes_work(built: Path, name: str) -> None:
    refusal = run(built, name, "--size", "0").stderr
    smallest = re.search(r"from (\d+) up", refusal)
    assert smallest, refusal
    for size in range(int(smallest[1]), int(smallest[1]) + 3):
        line_of(run(built, name, "--size", str(size), "--iterations", "2", "--threads", "3"))


@pytest.mark.parametrize("name", NAMES)
def test_more_work_is_another_result(built: Path, name: str) -> None:
    """The result depends on the work."""
    more = ["--size", LARGER[name]] if name in LARGER else ["--iterations", "5"]
    few = ["--size", SMALL.get(name, "4k"), "--iterations", "3", "--threads", "2"]
    small, large = (line_of(run(built, name, *options))["result"] for options in (few, few + more))
    assert small != large


@pytest.mark.parametrize("name", NAMES)
def test_time_can_be_the_limit(built: Path, name: str) -> None:
    line = line_of(run(built, name, "--size", SMALL.get(name, "4k"), "--seconds", "0.01", "--threads", "2"))
    assert float(line["time"]) >= 0.01


@pytest.mark.parametrize("name", [name for name in NAMES if name not in PTHREADS])
def test_openmp_chooses_the_number_of_threads(built: Path, name: str) -> None:
    size = SMALL.get(name, "4k")
    completed = run(built, name, "--size", size, "--iterations", "1", environment={"OMP_NUM_THREADS": "2"})
    assert int(line_of(completed)["threads"]) == 2


@pytest.mark.parametrize("name", sorted(PTHREADS))
def test_pthreads_programs_take_the_cpus_that_they_may_use(built: Path, name: str) -> None:
    cpus = len(os.sched_getaffinity(0))
    assert int(line_of(run(built, name, "--size", "4k", "--iterations", "1"))["threads"]) == cpus


@pytest.mark.parametrize("name", NAMES)
def test_help_names_every_option(built: Path, name: str) -> None:
    completed = run(built, name, "--help")
    assert completed.returncode == 0
    assert completed.stderr == ""
    assert completed.stdout.startswith(f"{name}: ")
    for option in ("--size", "--iterations", "--seconds", "--threads"):
        assert option in completed.stdout
    has_modes = any(run_of[0] == name and "--mode" in run_of for run_of in RUNS)
    assert ("--mode" in completed.stdout) == has_modes


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--size", "0"], "--size 0: not a number of bytes from 24 up"),
        (["--size", "-64"], "--size -64: not a number of bytes from 24 up"),
        (["--size", "64q"], "--size 64q: not a number of bytes from 24 up"),
        (["--size", "64kB"], "--size 64kB: not a number of bytes from 24 up"),
        (["--size", "99999999999G"], "--size 99999999999G: not a number of bytes from 24 up"),
        (["--size"], "--size: a value is missing"),
        (["--iterations", "0"], "--iterations 0: not a whole number from 1 up"),
        (["--iterations", "many"], "--iterations many: not a whole number from 1 up"),
        (["--seconds", "0"], "--seconds 0: not a number above 0"),
        (["--seconds", "nan"], "--seconds nan: not a number above 0"),
        (["--seconds", "1s"], "--seconds 1s: not a number above 0"),
        (["--seconds", "1", "--iterations", "1"], "--iterations and --seconds exclude each other"),
        (["--threads", "0"], "--threads 0: not a whole number from 1 to 65536"),
        (["--threads", "65537"], "--threads 65537: not a whole number from 1 to 65536"),
        (["--mode", "fast"], "--mode fast: this program has no modes"),
        (["--fast"], "--fast: unknown option"),
        (["-f"], "-f: unknown option"),
        (["fast"], "fast: unexpected argument"),
    ],
)
def test_invalid_options_are_refused(built: Path, options: list[str], sentence: str) -> None:
    completed = run(built, "stream", *options)
    assert completed.returncode == 2
    assert completed.stdout == ""
    assert completed.stderr == f"stream: {sentence}; stream --help lists the options\n"


def test_an_unknown_mode_is_refused(built: Path) -> None:
    completed = run(built, "imbalance", "--mode", "guided")
    assert completed.returncode == 2
    assert completed.stderr == "imbalance: --mode guided: unknown mode; imbalance --help lists the options\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--pattern", "all"], "--pattern all: unknown word"),
        (["--access"], "--access: a value is missing"),
        (["--writes", "101"], "--writes 101: not a whole number from 0 to 100"),
        (["--writes", "some"], "--writes some: not a whole number from 0 to 100"),
        (["--accesses", "0"], "--accesses 0: not a whole number from 64 to 1099511627776"),
        (["--chains", "3"], "--chains 3: not 1, 2, 4 or 8"),
        (["--stride", "12"], "--stride 12: not a multiple of 8"),
    ],
)
def test_invalid_options_of_one_workload_are_refused(built: Path, options: list[str], sentence: str) -> None:
    completed = run(built, "synthetic", *options)
    assert completed.returncode == 2
    assert completed.stderr == f"synthetic: {sentence}; synthetic --help lists the options\n"


def test_data_that_a_workload_shares_is_used_as_its_pattern_says(built: Path) -> None:
    results = {
        line_of(run(built, "synthetic", "--size", "4k", "--iterations", "1", "--threads", "3", "--pattern", pattern))[
            "result"
        ]
        for pattern in ("private", "read", "neighbours", "pipeline")
    }
    assert len(results) == 4


def test_more_threads_than_openmp_allows_are_refused(built: Path) -> None:
    completed = run(built, "stream", "--threads", "3", environment={"OMP_THREAD_LIMIT": "2"})
    assert completed.returncode == 2
    assert "OMP_THREAD_LIMIT allows 2" in completed.stderr


def test_too_much_memory_is_refused_with_a_remedy(built: Path) -> None:
    completed = run(built, "stream", "--size", "8000000000G", "--iterations", "1")
    assert completed.returncode == 1
    assert "choose a smaller --size" in completed.stderr
