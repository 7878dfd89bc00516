"""`pinfold run` and its metrics: every source, the choice of `auto`, and none at all."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import QUICK, Pinfold, Run, cpu_list, eventually, masks, patience, printed, unwrapped

#: tests/programs/spin.c calls step() this number of times per second.
STEPS = 1000


#: `auto` chooses among the sources that have counted by then; all of them must have.
PATIENT = ("-t", "300ms", "--warm-up", "50ms", "--initialise", "1s", "--interval", "30ms")


def rates(run: Run) -> list[float]:
    """Return every measured rate."""
    every = [*run.json["candidates"], *run.json["rates"]]
    return [one["rate"] for one in every if one["rate"] is not None]


@pytest.fixture(params=["gcc", "clang"])
def openmp(request: pytest.FixtureRequest, compiled: Callable[..., Path]) -> Path:
    """Return a program of parallel regions, built by each compiler with its own runtime."""
    return compiled("regions", "-fopenmp", compiler=request.param)


def test_auto_compares_an_openmp_program_by_its_regions(pinfold: Pinfold, openmp: Path) -> None:
    run = pinfold.record_until("chosen: ", *PATIENT, "--", openmp, "600")
    assert run.json["metric"] == {"name": "regions", "unit": "region", "scope": "program"}
    assert run.said(f"metric: regions: {run.json['metric_why']}") == 1
    assert "the program reports no heartbeats" in run.json["metric_why"]
    assert min(rates(run)) > 0


def test_barriers_are_counted(pinfold: Pinfold, openmp: Path) -> None:
    """Each region of the program has four."""
    run = pinfold.record_until("chosen: ", *QUICK, "--metric", "barriers", "--", openmp, "600")
    assert run.json["metric"]["name"] == "barriers"
    of = {metric["name"]: metric["rate"] for metric in run.json["candidates"][0]["metrics"]}
    assert of["barriers"] == pytest.approx(4 * of["regions"], rel=0.5)


def test_auto_prefers_a_heartbeat_from_c(pinfold: Pinfold, workload: Callable[[str], Path]) -> None:
    program = (workload("pairs"), "--seconds", "600", "--threads", "2")
    run = pinfold.record_until("chosen: ", *PATIENT, "--", *program)
    assert run.json["metric"]["name"] == "heartbeat"
    assert min(rates(run)) > 0


def test_a_heartbeat_from_python(pinfold: Pinfold, python: str) -> None:
    if subprocess.run([python, "-c", "import pinfold"], capture_output=True, check=False).returncode != 0:
        pytest.skip("the package pinfold is not installed for this Python; `pip install .` does so")
    program = "import pinfold\nwhile True: pinfold.heartbeat()"
    run = pinfold.record_until("chosen: ", *PATIENT, "--", python, "-c", program)
    assert run.json["metric"]["name"] == "heartbeat"
    assert min(rates(run)) > 0


@pytest.mark.usefixtures("uprobes")
@pytest.mark.parametrize("with_path", [False, True])
def test_a_uprobe_counts_the_calls_of_a_function(
    pinfold: Pinfold, compiled: Callable[..., Path], with_path: bool
) -> None:
    program = compiled("spin")
    metric = f"uprobe:{program}:step" if with_path else "uprobe:step"
    run = pinfold.record_until("chosen: ", *QUICK, "--metric", metric, "--", program, "1", "600")
    assert run.json["metric"]["unit"] == "call"
    # The program makes up for late calls, so the rate is known; a third is the margin for a very busy machine.
    assert all(STEPS / 3 < rate < STEPS * 3 for rate in rates(run))


def test_processor_time_is_an_event_of_each_thread(
    pinfold: Pinfold, compiled: Callable[..., Path], cpu_time: tuple[str, str]
) -> None:
    run = pinfold.record_until("chosen: ", *QUICK, *cpu_time, "--", compiled("spin"), "2", "600")
    assert run.json["metric"]["scope"] == "task"
    # No thread gets more than a second of it per second; a twentieth is the margin for clocks that are not read at the
    # same time.
    assert all(0 < rate < 1.05e9 for rate in rates(run))


@pytest.mark.usefixtures("cpu_time")
def test_further_events_are_also_counted(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    events = ("-e", "page-faults", "-e", "task-clock")
    run = pinfold.record_until("chosen: ", *QUICK, *events, "--", compiled("spin"), "1", "600")
    assert run.json["metric"]["name"] == "event:page-faults"
    assert min(rates(run)) > 0
    of = {metric["name"]: metric["rate"] for metric in run.json["candidates"][0]["metrics"]}
    assert of["event:task-clock"] > 0
    assert run.said("; event:task-clock: ") >= 1


def test_a_program_without_metrics_stays_pinned_and_it_is_reported(
    pinfold: Pinfold, compiled: Callable[..., Path], several_cpus: list[int]
) -> None:
    """A static program takes no agent, and this one reports nothing itself."""
    schedule = ("--schedule", cpu_list(several_cpus[::-1]))
    command = ("--metric", "regions", *schedule, "--", compiled("spin", "-static"), "2", "600")
    process = pinfold.start("--json", pinfold.folder / "record.json", *QUICK, *command)
    assert process.stdout
    assert process.stderr
    with patience(process):
        program = int(process.stdout.readline())
        said = printed(process, "nothing is measured")
        eventually(
            lambda: (
                [masks(program)[thread] for thread in sorted(masks(program))] == [{cpu} for cpu in several_cpus[:-3:-1]]
            ),
            "both threads are pinned",
        )
        process.terminate()
        # Lines that were read ahead are in this stream, where `communicate` does not look.
        said += process.stderr.read()
        process.communicate()
    record = json.loads((pinfold.folder / "record.json").read_text())
    assert record["metric"] is None
    assert record["metric_why"] in unwrapped(said)


def test_the_advice_for_a_program_too_short_for_a_search_is_printed(
    pinfold: Pinfold, workload: Callable[[str], Path]
) -> None:
    run = pinfold.run("--policy", "autopin", "--", workload("stream"), "--seconds", "1.5", "--threads", "2")
    assert run.status == 0
    assert run.said("The program ended before a metric was chosen. It has 15.0s to initialise. Run it for longer") == 1
    assert run.said("or measure for shorter times: -t ") == 1


def test_a_program_that_sleeps_is_waited_for(pinfold: Pinfold) -> None:
    run = pinfold.record_until("The program is idle; the search begins when its threads run.", *QUICK, "--", "cat")
    assert run.json["metric"] is None


def test_the_best_of_several_candidates_is_kept(
    pinfold: Pinfold, compiled: Callable[..., Path], several_cpus: list[int], cpu_time: tuple[str, str]
) -> None:
    """Two threads on one CPU get half of it each."""
    one, other = several_cpus[:2]
    schedules = ("--schedule", f"{one},{one}", "--schedule", f"{one},{other}", "--search-again", "0")
    run = pinfold.record_until("chosen: ", *QUICK, *schedules, *cpu_time, "--", compiled("spin"), "2", "600")
    assert [candidate["pus"] for candidate in run.json["candidates"]] == [[one, one], [one, other]]
    together, apart = (candidate["rate"] for candidate in run.json["candidates"])
    assert run.json["chosen"]["candidate"] == (0 if together > apart else 1)
    assert run.json["chosen"]["gain_over_first"] == pytest.approx(max(together, apart) / together - 1)
    assert run.json["chosen"]["gain_over_worst"] == pytest.approx(max(together, apart) / min(together, apart) - 1)
