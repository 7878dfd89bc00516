"""Runs on one machine that want the same CPUs: what is pinned, and what is reported."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import CPUS, PATIENCE, Pinfold, cpu_list, environment, eventually, masks

pytestmark = pytest.mark.usefixtures("several_cpus")


@pytest.fixture
def claimed(pinfold: Pinfold, compiled: Callable[..., Path]) -> Iterator[int]:
    """Have another run pin its program to all CPUs; return its process."""
    process = pinfold.start(
        "--policy", "fixed", "--schedule", cpu_list(CPUS), "--", compiled("spin"), str(len(CPUS)), "600"
    )
    assert process.stdout
    program = int(process.stdout.readline())
    eventually(lambda: all(len(mask) == 1 for mask in masks(program).values()), "the program is pinned")
    yield process.pid
    process.terminate()
    process.communicate(timeout=PATIENCE)


def test_a_run_whose_cpus_another_run_has_reports_that_nothing_was_pinned(
    pinfold: Pinfold, compiled: Callable[..., Path], claimed: int
) -> None:
    wanted = cpu_list(CPUS)
    run = pinfold.record(
        *("-t", "100ms", "--metric", "regions", "--policy", "fixed", "--schedule", wanted),
        *("--", compiled("spin"), str(len(CPUS)), "1"),
    )
    why = f"another pinfold (process {claimed}) has pinned its program to CPU {CPUS[0]}"
    assert f"pinfold: unpinned, and not on CPUs {wanted}: {why}" in run.err.splitlines()
    (candidate,) = run.json["candidates"]
    assert candidate["not_pinned"] == why
    assert all(one["pus"] is None for one in run.json["timeline"]["configurations"])
    explained = subprocess.run(
        [pinfold.binary, "explain", pinfold.folder / "record.json"], capture_output=True, text=True, check=True
    ).stdout
    assert f"threads ran unpinned, because {why}" in explained


def test_a_stranger_who_claims_all_cpus_and_sleeps_keeps_no_program_of_root_from_its_cpus(
    pinfold: Pinfold, compiled: Callable[..., Path]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can run a program as another user")
    with tempfile.TemporaryDirectory() as name:
        claims = Path(name)
        claims.chmod(0o1777)
        for tool in (pinfold.binary, compiled("spin")):
            copy = claims / tool.name
            copy.write_bytes(tool.read_bytes())
            copy.chmod(0o755)
        wanted = cpu_list(CPUS)
        words = [str(claims / "pinfold"), "run", "--policy", "fixed", "--schedule", wanted, "--", "sleep", "600"]
        home = {"HOME": name, "PINFOLD_CLAIMS": name, "PINFOLD_DB": str(claims / "db")}
        stranger = subprocess.Popen(words, user=65534, group=65534, extra_groups=[], env=environment(home))
        try:
            eventually(lambda: list(claims.glob("pinfold-claims-1-65534-*")), "the stranger claims CPUs")
            run = pinfold.start(
                "--policy", "fixed", "--schedule", wanted, "--", compiled("spin"), str(len(CPUS)), "600",
                env={"PINFOLD_CLAIMS": name},
            )  # fmt: skip
            assert run.stdout
            program = int(run.stdout.readline())
            eventually(lambda: all(len(mask) == 1 for mask in masks(program).values()), "root's program is pinned")
            run.terminate()
            _, err = run.communicate(timeout=PATIENCE)
            assert "another pinfold" not in err
        finally:
            with suppress(ProcessLookupError):
                stranger.send_signal(signal.SIGTERM)
            stranger.wait(timeout=PATIENCE)
