"""Model files of `react`: what is written is read, and damage is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from react_cases import own_binary, regions, rows_of, write

from pinfold.learn.command import FAILURE, main
from pinfold.learn.origin import Origin
from pinfold.learn.react.data import Regions
from pinfold.learn.react.file import ReactModel
from pinfold.learn.react.jobs import predictions, trained_model
from pinfold.learn.react.method import ALL_PAIRS

__all__ = ["own_binary"]

SIMULATED = Origin(measured=0, simulated=1)


@pytest.fixture(scope="module")
def made() -> Regions:
    return regions("structured", programs=8, counters=3)


@pytest.fixture
def model(made: Regions) -> ReactModel:
    return trained_model(made, made, ALL_PAIRS, 1, SIMULATED)


def test_a_model_chooses_the_best_output_for_what_it_has_learned(made: Regions, model: ReactModel) -> None:
    outputs = [made.configurations.index(one) for one in model.outputs]
    best = [made.configurations[outputs[place]] for place in made.gains[:, outputs].argmax(axis=1)]
    assert predictions(model, made) == best
    assert model.score.nested > model.score.control
    assert model.trained.programs == sorted(set(made.programs))
    assert len(model.features) == 2
    assert 1 <= len(model.profiles) <= 2
    assert all(one.least < one.greatest for one in model.features)


def test_a_file_has_what_was_written(tmp_path: Path, made: Regions, model: ReactModel) -> None:
    file = tmp_path / "react.json"
    file.write_text(model.text())
    read = ReactModel.read(file)
    assert read == model
    assert read.text() == model.text()
    assert predictions(read, made) == predictions(model, made)


def test_threads_on_siblings_are_read_and_the_sizes_of_an_earlier_version_are_ignored(
    tmp_path: Path, model: ReactModel
) -> None:
    packed = replace(model, profiles=tuple(one._replace(threads_per_core=2) for one in model.profiles))
    document = json.loads(packed.text()) | {"sizes": [{"threads": 8, "nodes": 1, "threads_per_core": 2}]}
    file = tmp_path / "react.json"
    file.write_text(json.dumps(document))
    assert ReactModel.read(file) == packed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: one.update(react_model=1), "version 1, and this pinfold reads versions 2 and 3"),
        (lambda one: one.pop("react_model"), "lacks the key `react_model`"),
        (lambda one: one.pop("tree"), "damaged: the key 'tree' is missing"),
        (lambda one: one["tree"].__setitem__(0, [0, 1.5, 0, 1]), "node 0 of the tree"),
        (lambda one: one["tree"].__setitem__(-1, [99]), "cannot be followed"),
        (lambda one: one["features"][0].update(profile=2), "a feature is of profile 2"),
        (lambda one: one["features"].pop(), "it has 1 features"),
        (lambda one: one.update(tree=[]), "races are no longer read; `--policy react` needs no model"),
        (lambda one: one.update(profiles=4 * one["profiles"][:1]), "it has 4 profiles, and must have 1 to 3"),
        (lambda one: one["outputs"][0].update(threads=0), "0 threads on"),
        (lambda one: one["outputs"][0].pop("nodes"), "damaged"),
        (lambda one: one["outputs"][0].update(threads_per_core=0), "0 of .* threads on a core"),
    ],
)
def test_damage_is_refused(
    tmp_path: Path, model: ReactModel, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    document = json.loads(model.text())
    change(document)
    file = tmp_path / "react.json"
    file.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        ReactModel.read(file)
    file.write_text(model.text()[:-20])
    with pytest.raises(ValueError, match="not JSON"):
        ReactModel.read(file)


def test_a_missing_profile_or_counter_is_named(made: Regions, model: ReactModel) -> None:
    first = made.configurations.index(model.profiles[0])
    kept = [place for place in range(len(made.configurations)) if place != first]
    others = Regions(
        **{
            **vars(made),
            "configurations": tuple(made.configurations[place] for place in kept),
            "values": made.values[:, kept],
        }
    )
    with pytest.raises(ValueError, match="no rows with"):
        predictions(model, others)
    made.values[0, first][np.isfinite(made.values[0, first])] *= 1
    blind = Regions(**{**vars(made), "values": np.full_like(made.values, np.nan)})
    with pytest.raises(ValueError, match="the counter `counter"):
        predictions(model, blind)


def test_the_commands_train_judge_and_predict(
    tmp_path: Path, made: Regions, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(write(tmp_path / "data.parquet", rows_of(made)))
    file, figures = tmp_path / "react.json", tmp_path / "figures.json"
    assert main(["train", "react", "--data", data, "--seeds", "1", "-o", str(file)]) == 0
    assert ReactModel.read(file).trained.learner == "tree, two features"
    assert "of the possible gain on programs that it has not seen" in capsys.readouterr().err
    assert main(["evaluate", "react", "--data", data, "--seeds", "1", "--json", str(figures), "-q"]) == 0
    assert "model, nested, control" in capsys.readouterr().out
    found = json.loads(figures.read_text())
    assert found["nested"]["ways"]["best possible"]["share"] == 1
    assert found["nested"]["ways"]["model"]["share"] < found["paper"]["share"] + 0.2
    assert main(["predict", "react", "--model", str(file), "--data", data, "--json", str(figures)]) == 0
    choices = [one["configuration"] for one in json.loads(figures.read_text())]
    assert len(choices) == len(made.programs)
    expected = {one.text() for one in ReactModel.read(file).outputs}
    assert all(any(text in line for text in expected) for line in capsys.readouterr().out.splitlines()[4:])


def test_counters_of_one_machine_choose_for_another(tmp_path: Path, made: Regions) -> None:
    there = Regions(**{**vars(made), "machine": "platinum-8168x2", "values": np.zeros_like(made.values)})
    data = write(tmp_path / "data.parquet", [*rows_of(made), *rows_of(there)])
    file = tmp_path / "react.json"
    words = ["train", "react", "--data", str(data), "--seeds", "1", "-q", "-o", str(file)]
    assert main(words) == FAILURE, "the machine must be named"
    words += ["--machine", "platinum-8168x2", "--counted-on", "e5-4650x4"]
    assert main(words) == 0
    model = ReactModel.read(file)
    assert (model.machine, model.counted_on) == ("platinum-8168x2", "e5-4650x4")


def test_too_few_programs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(tmp_path / "data.parquet", rows_of(regions("noise", programs=2)))
    assert main(["train", "react", "--data", str(data), "-o", str(tmp_path / "react.json")]) == FAILURE
    assert "regions of 2 programs: at least 3 are needed" in capsys.readouterr().err
    assert not (tmp_path / "react.json").exists()
