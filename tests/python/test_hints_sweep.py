"""The sweep for the evaluation of AutoFinity has existing programs, at least as many as the paper."""

from pathlib import Path

from pinfold.evaluation.hints.sweep import TRAINING_THREADS, commands
from pinfold.evaluation.workloads import WORKLOADS

#: Moore and Childers (2012), section 3.
PROGRAMS_OF_THE_PAPER = 18
SOURCES = Path(__file__).resolve().parents[2] / "workloads"


def test_there_are_as_many_programs_as_in_the_paper_and_each_is_a_workload() -> None:
    programs = {workload.program for workload in WORKLOADS}
    assert len(programs) >= PROGRAMS_OF_THE_PAPER
    assert all((SOURCES / program / f"{program}.c").exists() for program in programs)


def test_no_two_workloads_share_a_file() -> None:
    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS)


def test_the_commands_that_are_shown_name_the_training_threads() -> None:
    assert f"--threads {TRAINING_THREADS}" in commands()[0]
