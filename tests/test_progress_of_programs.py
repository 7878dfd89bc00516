"""The bytes of real programs are their progress: when a quota slows a program, both fall in the same way.

`make progress` does this with two dozen programs. These are the ones that every machine with these tests has.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pinfold.evaluation.progress.figures import StuckError
from pinfold.evaluation.progress.measure import Choice, Lengths, Measured, windows
from pinfold.evaluation.progress.program import Program
from pinfold.evaluation.progress.programs.compressors import FastReader, Reader
from pinfold.evaluation.progress.programs.services import PythonService
from pinfold.evaluation.progress.quota import Group, NoQuotaError, group
from pinfold.evaluation.progress.running import Place, made_folder

LENGTHS = Lengths(settling=0.5, windows=(3.0, 4.0, 5.0))

#: On a machine with much other work, pinfold is stopped between the clock and the counts of a reading. That is chance:
#: a metric that is not the program's progress differs each time.
TRIES = 3

TEXT = 1 << 30

#: A client that sends the next request after the answer to the last, on each of its connections.
CLIENT = """
import http.client, sys, threading

def ask() -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    while True:
        connection.request("GET", "/")
        connection.getresponse().read()

for _ in range(4):
    threading.Thread(target=ask).start()
"""


class AskedService(PythonService):
    """The service in Python with a client in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.needs = ()

    def load(self, folder: Path) -> Sequence[str]:
        return [sys.executable, "-c", CLIENT, str(self.port)]


PROGRAMS = (
    Reader("compressor", "gzip -9 -c", size=TEXT),
    FastReader("hash", "sha256sum"),
    # It reads as fast as it sorts: a machine without other work reads a GiB within the windows.
    Reader("sort", "sort --parallel=2 -S 2M -o /dev/null", size=2 * TEXT),
    AskedService(),
)


@pytest.fixture
def own_group() -> Iterator[Group]:
    try:
        with group(f"pinfold-test-{os.getpid()}") as made:
            yield made
    except NoQuotaError as error:
        pytest.skip(f"programs cannot be slowed by a quota: {error}")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that is not kept, because the text is large."""
    with tempfile.TemporaryDirectory(prefix="pinfold-test-") as directory:
        yield Path(directory)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_bytes_fall_as_the_programs_own_figure_does(
    program: Program, own_group: Group, binary: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parent.parent)
    if missing := program.missing():
        pytest.skip(f"not installed: {', '.join(missing)}")
    place = Place(program, made_folder(program, folder), own_group, binary)
    differences: list[float | None] = []
    try:
        for _ in range(TRIES):
            try:
                found, _ = windows(place, LENGTHS)
            except StuckError:
                # A fast machine had read the program's whole file.
                continue
            free, *slowed = (window.processor for window in found)
            assert max(slowed) < 0.75 * free, "the quota takes processor time from the program"
            differences = Measured(Choice("io", "", None, None), found).differences()
            if all(one is not None and abs(one) < 0.05 for one in differences):
                return
    finally:
        program.clean(folder)
    pytest.fail(f"the bytes change by more or less than the program's own figure: {differences}")
