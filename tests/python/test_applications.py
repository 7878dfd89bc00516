"""The descriptions of real applications, and their way from a description to a data set."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow.parquet
import pytest

from pinfold import split
from pinfold.applications import catalogue, data_sets, inputs
from pinfold.applications.description import FIELDS, FILE, Application, read, read_one
from pinfold.applications.places import Places
from pinfold.applications.recording import FailedError, Recorder

ROOT = Path(__file__).resolve().parents[2]

DESCRIPTION = """
name = "{name}"
summary = "One of the project's own programs."
field = "benchmarks"
licence = "MIT"
packages = ["make"]
input = "none"
threads_of = "OpenMP"
recorded = "the start"
prepare = "echo $SEED > made"

[[run]]
name = "small"
threads = [4]
command = "{command}"
phases = {{ begin = ["0", "8M"] }}
"""


@pytest.fixture(scope="module")
def applications() -> list[Application]:
    """Return the project's applications."""
    return read(ROOT)


def test_the_applications_are_those_of_the_split(applications: list[Application]) -> None:
    assert [application.name for application in applications] == sorted(split.APPLICATIONS)


def test_an_application_has_runs_or_a_reason_why_not(applications: list[Application]) -> None:
    assert all(bool(one.runs) != bool(one.not_recorded) for one in applications)


def test_titles_of_phases_are_unique(applications: list[Application]) -> None:
    titles = Counter(run.title(phase) for one in applications for run in one.runs for phase in run.phases)
    assert {title for title, count in titles.items() if count > 1} == set()


def test_the_catalogue_is_made_from_the_descriptions(applications: list[Application]) -> None:
    assert (ROOT / "applications/README.md").read_text(encoding="utf-8") == catalogue.page(applications)


def test_an_application_without_a_description_is_named(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "applications", tmp_path / "applications")
    shutil.rmtree(tmp_path / "applications/bwa")
    with pytest.raises(ValueError, match=r"no bwa/application.toml"):
        read(tmp_path)


def test_an_application_that_the_split_does_not_have_is_named(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "applications", tmp_path / "applications")
    folder = tmp_path / "applications/other"
    folder.mkdir()
    (folder / FILE).write_text(DESCRIPTION.format(name="other", command="true"))
    with pytest.raises(ValueError, match=r"other is not in pinfold.split"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('field = "benchmarks"', 'field = "games"', "`field` is games; it is one of"),
        ('licence = "MIT"', "", "`licence` is missing"),
        ('input = "none"', "", "`input` is missing"),
        ('name = "fake"', 'name = "other"', "`name` is other, and the folder fake"),
        ('["0", "8M"]', '["0", "2 million"]', "phase begin"),
        ("threads = [4]", "", "a run has no `threads`"),
        ('input = "none"', 'input = "none"\nspeed = 1', "`speed` is no key"),
        ('input = "none"', 'input = "none"\nnot_recorded = "no time"', "either `run` tables or `not_recorded`"),
    ],
)
def test_a_wrong_description_is_refused_with_its_key(tmp_path: Path, old: str, new: str, named: str) -> None:
    file = tmp_path / "fake" / FILE
    file.parent.mkdir()
    text = DESCRIPTION.format(name="fake", command="true")
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=named):
        read_one(file)


@pytest.mark.parametrize("kind", sorted(inputs.KINDS))
def test_an_input_depends_on_its_seed_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for seed in ("1", "1", "2"):
        monkeypatch.setenv("SEED", seed)
        made.append(next(piece for number, piece in enumerate(inputs.KINDS[kind]()) if number == 1 or kind in ONE))
    assert made[0] == made[1] != made[2]


#: Inputs of a single piece; the others begin with a head that is the same for each seed.
ONE = ("genome", "image", "text")


def test_a_data_set_has_applications_of_one_part() -> None:
    files = sorted((ROOT / "applications/data").glob("*.parquet"))
    assert "development" in {file.stem for file in files}
    for file in files:
        programs = set(pyarrow.parquet.read_table(file, columns=["program"])["program"].to_pylist())
        assert programs <= set(split.APPLICATIONS)
        assert {split.part(program) for program in programs} == {file.stem}


@pytest.fixture
def fake(tmp_path: Path, binary: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Return the recorder of an application that is one of the project's own programs."""
    monkeypatch.setenv("PINFOLD", str(binary.resolve()))
    file = tmp_path / "applications/fake" / FILE
    file.parent.mkdir(parents=True)
    command = f"{binary.resolve().parents[1]}/workloads/stream --threads {{threads}} --size 256k --iterations 4"
    file.write_text(DESCRIPTION.format(name="fake", command=command))
    return Recorder(read_one(file), Places(tmp_path))


def test_an_application_is_recorded_once_and_becomes_a_data_set(
    fake: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_sets, "MACHINES", ("opteron-6164x4",))
    monkeypatch.setattr(data_sets, "LIMIT", 2)
    (run,) = fake.application.runs
    (phase,) = run.phases
    fake.prepare()
    assert (fake.places.work(fake.application) / "made").read_text() == "1\n"
    assert fake.record(run, phase)
    assert not fake.record(run, phase)
    assert data_sets.sweep(fake.application, run, phase, fake.places)
    assert not data_sets.sweep(fake.application, run, phase, fake.places)
    rows = data_sets.read_rows(fake.application, run, phase, fake.places)
    assert rows
    (file,) = data_sets.write([rows], fake.places)
    table = pyarrow.parquet.read_table(file)
    assert set(table["program"].to_pylist()) == {"fake"}
    assert set(table["command"].to_pylist()) == {"fake small 4 begin"}
    described = json.loads(table.schema.metadata[b"pinfold.applications"])
    assert list(described["applications"]["fake"]["versions"]) == ["make"]


def test_a_phase_that_the_program_never_reaches_is_a_failure_with_its_reason(fake: Recorder) -> None:
    file = fake.application.file
    file.write_text(file.read_text().replace('["0", "8M"]', '["900G", "2M"]'))
    recorder = Recorder(read_one(file), fake.places)
    recorder.prepare()
    (run,) = recorder.application.runs
    with pytest.raises(FailedError, match="before the window of --from 900000000000 began"):
        recorder.record(run, run.phases[0])


def test_a_script_that_fails_is_a_failure_with_its_last_line(fake: Recorder) -> None:
    file = fake.application.file
    file.write_text(file.read_text().replace("echo $SEED > made", "echo no room >&2; false"))
    with pytest.raises(FailedError, match="its input cannot be made: no room"):
        Recorder(read_one(file), fake.places).prepare()


def test_the_fields_are_those_of_the_page(applications: list[Application]) -> None:
    assert {application.field for application in applications} == set(FIELDS)
