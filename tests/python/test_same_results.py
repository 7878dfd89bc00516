"""Another build counts as the same only if each command has the same output."""

import json
from pathlib import Path

import pytest

from pinfold.evaluation import provenance, same_results
from pinfold.evaluation.provenance import Provenance
from pinfold.evaluation.same_results import Same, main

NOW = Provenance("c2", "b2", "this machine", reduced=False)

#: Prints its first word, and writes what `--json` or `-o` asks for.
PROGRAM = """#!/bin/sh
echo $1 $WORDS
while [ $# -gt 1 ]; do
    case "$1 $2" in
        "--json "*/* | "-o "*) echo data > $2;;
    esac
    shift
done
"""


@pytest.fixture
def binaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return two binaries with the same output, and let the first one be the project's."""
    (tmp_path / "evaluation").mkdir()
    monkeypatch.chdir(tmp_path)
    one, other = tmp_path / "build/pinfold", tmp_path / "checkout/build/pinfold"
    for file in (one, other):
        file.parent.mkdir(parents=True)
        write(file)
    monkeypatch.setattr(same_results, "PINFOLD", Path("build/pinfold"))
    monkeypatch.setattr(same_results, "record", lambda program, file, *arguments: None)
    monkeypatch.setattr(same_results, "here", lambda: "this machine")
    monkeypatch.setattr(Provenance, "current", lambda root, *, reduced: NOW)
    monkeypatch.setattr(provenance, "build", lambda root: "b2" if root == Path() else "b1")
    monkeypatch.setattr(provenance, "commit", lambda root: "c1")
    return one, other


def write(file: Path, words: str = "") -> None:
    file.write_text(PROGRAM.replace("$WORDS", words))
    file.chmod(0o755)


def test_builds_with_the_same_output_are_the_same(binaries: tuple[Path, Path]) -> None:
    assert main(["checkout"]) == 0
    found = json.loads(Path("evaluation/same_results.json").read_text())
    assert found["same_as"]["runs"] == len(found["commands"]) > len(same_results.PROGRAMS) * len(same_results.ALONE)
    assert all(promise["held"] for promise in found["promises"])
    same = Same.as_this("b2")
    assert same
    assert (same.build, same.commit) == ("b1", "c1")
    assert Same.as_this("b3") is None


def test_a_different_output_is_named_and_nothing_is_written(
    binaries: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(binaries[1], "differs")
    assert main(["checkout"]) == 1
    assert not Path("evaluation/same_results.json").exists()
    assert "different: run --machine opteron-6164x4" in capsys.readouterr().err
