"""`pinfold run` and affinity masks: which thread runs where, which masks stay, and which settings have priority."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import CPUS, PATIENCE, QUICK, Pinfold, Run, cpu_list, eventually, masks, patience, printed


def team(run: Run) -> tuple[set[int], list[set[int]]]:
    """Return the output of tests/programs/team.c: the CPUs before there was a team, and those of each thread."""
    lines = re.findall(r"^(before|\d+): ([\d,]*)$", run.out, re.MULTILINE)
    before, *threads = [{int(cpu) for cpu in cpus.split(",")} for _, cpus in lines]
    return before, threads


@pytest.fixture
def team_program(compiled: Callable[..., Path]) -> Path:
    """Return a program that prints the masks of its OpenMP threads."""
    return compiled("team", "-fopenmp")


def test_each_thread_runs_on_the_cpu_of_its_rank(pinfold: Pinfold, team_program: Path, several_cpus: list[int]) -> None:
    backwards = several_cpus[::-1]
    _, threads = team(pinfold.run("--schedule", cpu_list(backwards), "--", team_program))
    assert threads == [{cpu} for cpu in backwards]


def test_threads_of_llvms_runtime_also_run_there(
    pinfold: Pinfold, compiled: Callable[..., Path], several_cpus: list[int]
) -> None:
    """LLVM's runtime resets the mask of each thread that it begins, so pinfold must pin it again."""
    program = compiled("team", "-fopenmp", compiler="clang")
    before, threads = team(pinfold.run("--schedule", cpu_list(several_cpus), "--", program))
    assert before == set(several_cpus)
    assert len(threads) == len(several_cpus)


def test_a_program_keeps_its_masks_until_it_is_measured(pinfold: Pinfold, team_program: Path) -> None:
    run = pinfold.run("--", team_program)
    _, threads = team(run)
    assert threads == [set(CPUS)] * len(CPUS)
    assert run.said("pinned from the start") == 0


def test_where_nothing_can_be_measured_nothing_is_pinned_and_the_remedy_is_named(
    pinfold: Pinfold, compiled: Callable[..., Path]
) -> None:
    command = (*QUICK, "--metric", "regions", "--", compiled("spin", "-static"), "2", "600")
    process = pinfold.start(*command)
    assert process.stdout
    assert process.stderr
    with patience(process):
        program = int(process.stdout.readline())
        printed(process, r"nothing is measured, so nothing is pinned[\s\S]*Remedy: .*heartbeats")
        assert set(map(frozenset, masks(program).values())) == {frozenset(CPUS)}
        process.terminate()
        process.communicate()


def test_the_pinning_and_its_reason_are_printed(pinfold: Pinfold, several_cpus: list[int]) -> None:
    run = pinfold.run("--policy", "fixed", "--", "true")
    assert run.said("threads are pinned from the start, each to one of the CPUs ") == 1
    assert run.said(": --policy fixed asks for it") == 1
    run = pinfold.run("--schedule", cpu_list(several_cpus), "--", "true")
    assert run.said("it is the first of the pinnings that were asked for") == 1


def test_fixed_gives_each_thread_one_cpu_of_its_own(
    pinfold: Pinfold, team_program: Path, several_cpus: list[int]
) -> None:
    _, threads = team(pinfold.run("--policy", "fixed", "--", team_program))
    assert sorted(cpu for thread in threads for cpu in thread) == several_cpus
    assert all(len(thread) == 1 for thread in threads)


@pytest.mark.parametrize("policy", ["autopin", "fixed", "none"])
@pytest.mark.parametrize("again", range(5))
def test_a_runtime_sees_every_cpu_and_begins_as_many_threads(
    pinfold: Pinfold, team_program: Path, policy: str, again: int
) -> None:
    before, threads = team(pinfold.run("--policy", policy, "--", team_program))
    assert before == set(CPUS)
    assert len(threads) == len(CPUS)


#: Asks the C library for the number of CPUs after the kernel has restricted the mask to one.
ASKS_LATE = """
import os
def of_kernel():
    return [line for line in open("/proc/self/status") if line.startswith("Cpus_allowed_list")]
before = of_kernel()
while of_kernel() == before:
    pass
print(len(os.sched_getaffinity(0)))
"""


def test_a_program_that_asks_late_still_sees_every_cpu(pinfold: Pinfold, python: str, several_cpus: list[int]) -> None:
    run = pinfold.run("--initialise", "0", "--policy", "fixed", "--", python, "-c", ASKS_LATE)
    assert run.out == f"{len(several_cpus)}\n"


def test_a_process_of_a_single_thread_is_pinned_once_it_has_initialised(
    pinfold: Pinfold, compiled: Callable[..., Path], several_cpus: list[int]
) -> None:
    process = pinfold.start("--initialise", "50ms", "--policy", "fixed", "--", compiled("spin"), "1", "600")
    assert process.stdout
    program = int(process.stdout.readline())
    eventually(lambda: len(masks(program)[program]) == 1, "its thread is pinned")
    process.terminate()
    process.communicate(timeout=PATIENCE)


def test_without_a_policy_nothing_is_pinned(pinfold: Pinfold, team_program: Path) -> None:
    _, threads = team(pinfold.run("--policy", "none", "--", team_program))
    assert threads == [set(CPUS)] * len(CPUS)


def test_an_inherited_mask_is_never_widened(pinfold: Pinfold, team_program: Path, several_cpus: list[int]) -> None:
    only = several_cpus[-1]
    run = pinfold.record("--", team_program, env={"OMP_NUM_THREADS": "3"}, prefix=["taskset", "-c", str(only)])
    assert team(run) == ({only}, [{only}] * 3)
    assert run.json["allowed_pus"] == str(only)


@pytest.mark.parametrize("option", ["--physcpubind", "--schedule"])
def test_only_the_named_cpus_are_used(
    pinfold: Pinfold, team_program: Path, several_cpus: list[int], option: str
) -> None:
    only = several_cpus[-1]
    _, threads = team(pinfold.run(option, str(only), "--", team_program, env={"OMP_NUM_THREADS": "2"}))
    assert threads == [{only}] * 2


def test_only_the_named_node_is_used(pinfold: Pinfold, team_program: Path) -> None:
    local = Path("/sys/devices/system/node/node0/cpulist")
    if not local.exists():
        pytest.skip("this kernel does not tell which CPUs NUMA node 0 has")
    cpus: set[int] = set()
    for part in local.read_text().strip().split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    if not cpus & set(CPUS):
        pytest.skip("NUMA node 0 has no CPU that we may use")
    before, threads = team(pinfold.run("--cpunodebind", "0", "--", team_program))
    assert before == cpus & set(CPUS)
    assert set.union(*threads) <= cpus


def test_a_thread_that_pins_itself_stays_there_and_is_reported_once(
    pinfold: Pinfold, compiled: Callable[..., Path], several_cpus: list[int]
) -> None:
    wanted, own = several_cpus[:2]
    run = pinfold.run(*QUICK, "--schedule", str(wanted), "--", compiled("own_mask"), str(own), "1")
    assert run.out == f"{own}\n"
    assert run.said("the task itself or another program has set them") == 1


@pytest.mark.parametrize("skip", ["1", "spi*"])
def test_threads_named_by_skip_are_not_pinned(
    pinfold: Pinfold, compiled: Callable[..., Path], several_cpus: list[int], skip: str
) -> None:
    process = pinfold.start(*QUICK, "--policy", "fixed", "--skip", skip, "--", compiled("spin"), "2", "600")
    assert process.stdout
    program = int(process.stdout.readline())

    def free() -> set[int]:
        by_thread = masks(program)
        return {number for number, thread in enumerate(sorted(by_thread)) if by_thread[thread] == set(several_cpus)}

    # With the number the second thread is skipped; with the name both are.
    eventually(lambda: free() == ({1} if skip == "1" else {0, 1}), "the named threads are free and the others not")
    process.terminate()
    process.communicate(timeout=PATIENCE)


BINDING = [
    ("OMP_PROC_BIND", "close"),
    ("OMP_PLACES", "cores"),
    ("GOMP_CPU_AFFINITY", cpu_list(CPUS)),
    ("KMP_AFFINITY", "compact"),
]


@pytest.mark.parametrize(("name", "value"), BINDING)
def test_a_program_that_binds_its_own_threads_is_not_pinned(
    pinfold: Pinfold, team_program: Path, name: str, value: str
) -> None:
    backwards = cpu_list(CPUS[::-1])
    run = pinfold.record("--schedule", backwards, "--", team_program, env={name: value})
    assert run.said(f"{name}={value}: the program binds its own threads") == 1
    assert run.json["policy"] == "none"
    _, threads = team(run)
    # LLVM's variable has no effect on GCC's runtime.
    expected = [set(CPUS)] * len(CPUS) if name == "KMP_AFFINITY" else [{cpu} for cpu in CPUS]
    assert sorted(threads, key=min) == expected


@pytest.mark.parametrize(("name", "value"), BINDING)
def test_override_removes_the_binding(pinfold: Pinfold, team_program: Path, name: str, value: str) -> None:
    backwards = CPUS[::-1]
    printed = ["sh", "-c", f'printenv {name}; exec "$0"', str(team_program)]
    run = pinfold.record("--override", "--schedule", cpu_list(backwards), "--", *printed, env={name: value})
    assert run.said(f"{name}={value} is taken away from the program (--override)") == 1
    assert run.json["policy"] == "autopin"
    assert run.out.startswith("before: "), "printenv printed nothing"
    assert team(run)[1] == [{cpu} for cpu in backwards]


@pytest.mark.parametrize(("name", "value"), [("OMP_PROC_BIND", "false"), ("KMP_AFFINITY", "none")])
def test_a_variable_without_binding_has_no_effect(pinfold: Pinfold, team_program: Path, name: str, value: str) -> None:
    run = pinfold.record("--schedule", cpu_list(CPUS[::-1]), "--", team_program, env={name: value})
    assert run.said("binds its own threads") == 0
    assert run.json["policy"] == "autopin"
    assert team(run)[1] == [{cpu} for cpu in CPUS[::-1]]


def test_fewer_cpus_than_threads_are_allowed_and_reported_once(
    pinfold: Pinfold, compiled: Callable[..., Path], cpu_time: tuple[str, str]
) -> None:
    threads = len(CPUS) + 2
    schedules = ("--schedule", cpu_list(CPUS), "--schedule", cpu_list(CPUS[::-1]))
    run = pinfold.record_until("chosen: ", *QUICK, *schedules, *cpu_time, "--", compiled("spin"), str(threads), "600")
    assert run.said("fewer CPUs than threads") == 1
    assert run.json["threads"] == threads
