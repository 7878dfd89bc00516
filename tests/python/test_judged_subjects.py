"""What policies are judged on: the oracle of a sweep, windows that cover, and policies learned from other programs."""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from pinfold.evaluation.hints.sweep import MACHINE
from pinfold.evaluation.judged import subjects as judged_subjects
from pinfold.evaluation.judged.subjects import of_applications, of_sweep
from pinfold.evaluation.simulator import windows
from pinfold.split import APPLICATIONS, part


def row(pinning: str, seconds: float, **changes: Any) -> dict[str, Any]:
    return {
        "machine": MACHINE,
        "program": "fft",
        "command": "bin/fft --threads 2 --size 1M",
        "region": None,
        "page_map": "first_touch",
        "prefetch": "0000",
        "num_threads": 2,
        "pinning": pinning,
        "time_s": seconds,
        "window_covers": True,
        "footprint_bytes": 3.0,
        "llc_bytes": 2.0,
    } | changes


def write(file: Path, *rows: dict[str, Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), file)
    return file


def test_the_oracle_is_the_fastest_pinning_of_the_whole_program_in_any_order_of_ranks(tmp_path: Path) -> None:
    rows = [
        row("0,1", 2.0),
        row("0,6", 1.5),
        row("6,0", 1.0),
        row("0,2", 0.1, region="0x1"),
        row("0,3", 0.1, page_map="interleave"),
        row("0,4", 0.1, machine="e5-4650x4"),
    ]
    subject = of_sweep(write(tmp_path / "fft.parquet", *rows), Path("fft.pft"), MACHINE)
    assert subject is not None
    assert (subject.oracle, subject.seconds, subject.threads) == ("6,0", 1.0, 2)
    assert subject.label == "fft --size 1M"
    assert subject.footprint_over_caches == pytest.approx(1.5)


def test_a_window_that_does_not_cover_its_program_is_not_judged(tmp_path: Path) -> None:
    data = write(tmp_path / "fft.parquet", row("0,1", 1.0, window_covers=False))
    assert of_sweep(data, Path("fft.pft"), MACHINE) is None


def test_applications_are_judged_by_their_part_of_the_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged_subjects, "APPLICATIONS", tmp_path)
    for name in APPLICATIONS[:12]:
        write(tmp_path / name / "run-2-whole.parquet", row("0,1", 1.0, program=f"/usr/bin/{name}-of-debian"))
        (tmp_path / name / "run-2-whole.pft").touch()
    (tmp_path / APPLICATIONS[0] / "not-swept-2-whole.pft").touch()
    found = of_applications()
    for which, subjects in found.items():
        assert subjects
        assert all(part(subject.program) == which for subject in subjects)
    names = {subject.program: subject.label for subjects in found.values() for subject in subjects}
    assert names == {name: f"{name} run-2-whole" for name in APPLICATIONS[:12]}
    assert of_applications("another-machine") == {"development": [], "judged": []}


def test_windows_are_counted_by_group_and_machine(tmp_path: Path) -> None:
    """What is not known is neither covered nor waiting. One data set has several recordings."""

    def window(command: str, covers: bool | None, waits: float | None) -> list[dict[str, Any]]:
        known = {"window_covers": covers, "footprint_bytes": 4.0, "unrecorded_wait_share": waits}
        return [
            row("0,1", 1.0, command=command, window_bytes=1.0, **known),
            row("0,1", 1.0, command=command, window_bytes=1.0, region="0x1", unrecorded_wait_share=0.9),
        ]

    rows = [*window("a", True, 0.0), *window("b", False, 0.4), *window("c", None, None)]
    found = windows.read("some", write(tmp_path / "all.parquet", *rows))
    assert [one.command for one in found] == ["a", "b", "c"]
    assert windows.table(found).rows == [["some", MACHINE, "3", "1", "1", "25%", "20%", "1 of 2"]]
