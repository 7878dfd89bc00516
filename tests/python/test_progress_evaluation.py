"""How the evaluation compares a metric with a program's own figure of progress."""

from pathlib import Path

import pytest

from pinfold.evaluation.progress.figures import Made, Reading, Written, grown
from pinfold.evaluation.progress.inputs import text
from pinfold.evaluation.progress.measure import Choice, Measured, Window
from pinfold.evaluation.progress.measure import grown as growth
from pinfold.evaluation.progress.programs import PROGRAMS

IO = Choice("io", "", None, None)


def test_the_growth_between_two_readings_is_a_share_of_theirs() -> None:
    assert growth([1.0, 2.0, 3.0], [10.0, 20.0, 40.0], 1.5, 2.25) == pytest.approx(10 + 10)


def test_a_rate_after_a_gap_is_over_the_gap() -> None:
    assert growth([1.0, 2.0, 3.0], [10.0, None, 20.0], 1.0, 3.0 - 1e-9) == pytest.approx(40.0)


def test_a_growth_after_the_last_reading_is_not_known() -> None:
    assert growth([1.0, 2.0], [10.0, 10.0], 1.0, 2.5) is None
    assert growth([1.0, 2.0], [None, None], 0.5, 1.5) is None


def test_a_metric_that_falls_less_than_the_program_differs() -> None:
    free, half = Window(3.0, 1.0, 100.0, {"io": 1000.0}), Window(3.0, 0.5, 50.0, {"io": 550.0})
    measured = Measured(IO, [free, half])
    assert measured.slowed() == [1.0, 2.0]
    assert measured.differences() == [pytest.approx(0.1)]


def test_a_metric_that_was_not_read_has_no_difference() -> None:
    windows = [Window(3.0, 1.0, 100.0, {"io": 1000.0}), Window(3.0, 0.5, 50.0, {"io": None})]
    assert Measured(IO, windows).differences() == [None]
    assert Measured(Choice(None, "nothing counts", None, None), windows).differences() == [None]


def test_lines_are_read_once_and_only_as_a_whole(tmp_path: Path) -> None:
    figure = Written(tmp_path, "progress", grown(r"^frame=\s*(\d+)"))
    file = tmp_path / "progress"
    assert figure.now().value == 0
    file.write_text("frame= 5\nfps=2\nframe=1")
    assert figure.now().value == 5
    file.write_text("frame= 5\nfps=2\nframe=12\n")
    assert figure.now().value == 12


def test_a_line_may_name_its_time(tmp_path: Path) -> None:
    (tmp_path / "log.7").write_text("a 3.5\nb 4.25\n")
    figure = Written(tmp_path, "log.*", lambda line: 1.0, lambda line: float(line.split()[1]))
    assert figure.now() == Reading(4.25, 2.0)


def test_files_of_another_kind_are_not_counted(tmp_path: Path) -> None:
    for name in ("a.o", "b.o", "b.c"):
        (tmp_path / name).touch()
    assert Made(tmp_path, ".o").now().value == 2


def test_a_text_has_its_size(tmp_path: Path) -> None:
    assert text(tmp_path / "text", 1000).stat().st_size == 1000
    assert len(set((tmp_path / "text").read_text().split())) > 50


def test_there_are_programs_enough_and_of_enough_kinds() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS) >= 20
    assert len({program.kind for program in PROGRAMS}) >= 6
