"""The split of the applications: a third is for judging, the name decides, and nothing is learned from that third."""

import subprocess
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from conftest import PATIENCE, Sweep

from pinfold.evaluation.workloads import WORKLOADS
from pinfold.split import APPLICATIONS, judged, part, refuse_judged

THREADS = 4


def test_the_sha_256_of_the_name_decides() -> None:
    # `printf bwa | sha256sum` and so on; the sum of a number's digits in base 16 has the same remainder by 3.
    assert part("bwa") == "development"
    assert part("blast") == "judged"
    assert judged(["bwa", "blast", "openfoam", "blast"]) == ["blast", "openfoam"]


def test_a_third_of_the_applications_is_for_judging() -> None:
    assert len(set(APPLICATIONS)) == len(APPLICATIONS)
    assert len(APPLICATIONS) / 4 < len(judged(APPLICATIONS)) < len(APPLICATIONS) / 2


def test_a_program_that_is_no_application_is_never_judged() -> None:
    others = [f"program-{number}" for number in range(20)]
    assert {part(name) for name in others} == {"development", "judged"}
    assert judged(others) == []


def test_our_own_workloads_may_be_learned_from() -> None:
    refuse_judged(workload.program for workload in WORKLOADS)


def test_an_error_names_all_programs_from_which_nothing_may_be_learned() -> None:
    with pytest.raises(ValueError, match=r"blast, openfoam: .* leave their rows out"):
        refuse_judged(["openfoam", "bwa", "blast"])


def test_training_refuses_the_rows_of_an_application_for_judging(binary: Path, sweep: Sweep, tmp_path: Path) -> None:
    data = sweep(tmp_path, {"barrier": ("--size", "60", "--iterations", "1")}, THREADS, "opteron-6164x4", "hints")
    table = pyarrow.parquet.read_table(data)
    name = pyarrow.array(["blast"] * table.num_rows)
    pyarrow.parquet.write_table(table.set_column(table.column_names.index("program"), "program", name), data)
    policy = tmp_path / "policy.json"
    words = ["learn", "train", "hints", "--data", str(data), "--threads", str(THREADS), "-o", str(policy)]
    done = subprocess.run([str(binary), *words], check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 125
    assert "rows of blast" in done.stderr
    assert not policy.exists()
