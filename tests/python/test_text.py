"""Text of others reaches the terminal without what a terminal obeys."""

from __future__ import annotations

import sys

import pytest

from pinfold.tables import Table
from pinfold.text import clean, cleaned_output, one_line

HOSTILE = "solver\x1b[2J\x1b]0;owned\x07\x7f\x9b31m\u202eevil\u2028\ud800\r"


def test_what_a_terminal_obeys_is_shown_as_its_escape() -> None:
    assert one_line(HOSTILE) == (r"solver\x1b[2J\x1b]0;owned\x07\u007f\u009b31m\u202eevil\u2028\ud800\r")
    assert one_line("a\nb\tc") == r"a\nb\tc"
    assert clean("a\nb\tc") == "a\nb\tc"
    assert one_line("größe 漢字 क्\u200dष") == "größe 漢字 क्\u200dष"


def test_what_a_command_prints_is_cleaned_on_both_streams(capsys: pytest.CaptureFixture[str]) -> None:
    with cleaned_output():
        print(HOSTILE)
        print(HOSTILE, file=sys.stderr)
    assert capsys.readouterr() == (one_line(HOSTILE) + "\n", one_line(HOSTILE) + "\n")


def test_a_name_with_a_newline_is_one_row_of_a_table() -> None:
    table = Table(["Program"], [["a\n| forged |"]])
    assert table.markdown() == ["| Program |", "|---|", r"| a\n| forged | |", ""]
