"""The whole space of generated programs: numbers of threads, siblings, pages, prefetchers, and the rows of a part."""

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from pinfold.evaluation.priors import machines, whole
from pinfold.evaluation.priors.configurations import ALL_PAGES
from pinfold.evaluation.priors.design import LINE, Program, programs
from pinfold.evaluation.priors.machines import Shape
from pinfold.evaluation.priors.sweep import collect, sweep, whole_study
from pinfold.learn.belief.data import is_usual, read

ROOT = Path(__file__).resolve().parents[2]

PINFOLD = ROOT / "target/release/pinfold"

SYNTHETIC = ROOT / "target/workloads/synthetic"


@pytest.fixture(autouse=True)
def in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def machine(name: str) -> tuple[Shape, list[str]]:
    """Return the shape of a machine of the sweep, and the settings of its prefetchers."""
    model, shape = machines.cut_down(machines.read(name), whole.CORES)
    return shape, whole.prefetcher_settings(model)


def test_a_program_has_the_same_part_of_the_space_each_time_and_another_one_has_another() -> None:
    shape, settings = machine("gold-6142x2")
    parts = [whole.drawn(shape, settings, program, 0) for program in (0, 0, 1)]
    assert parts[0] == parts[1] != parts[2]
    assert len(set(parts[0])) == len(parts[0]) == whole.DRAWN + 1
    assert whole.drawn(shape, settings, 0, 1) != parts[0]


@pytest.mark.parametrize("name", sorted(set(whole.MODELS)))
def test_each_part_has_the_baseline_and_as_many_configurations_of_each_number_of_threads(name: str) -> None:
    shape, settings = machine(name)
    for program in range(5):
        part = whole.drawn(shape, settings, program, 0)
        assert [one for one in part if whole.is_baseline(one)] == [part[0]]
        counts = Counter(len(one.placement.pus) for one in part[1:])
        assert sorted(counts) == whole.thread_counts(shape)
        assert max(counts.values()) - min(counts.values()) <= whole.DRAWN % len(counts)
        assert len({one.prefetch for one in part}) > len(settings) / 2


@pytest.mark.parametrize("name", sorted(set(whole.MODELS)))
def test_the_space_has_siblings_prefetchers_and_pages_that_the_machine_has(name: str) -> None:
    shape, settings = machine(name)
    space = whole.space_of(shape, settings)
    assert len(set(space)) == len(space)
    for placement in {one.placement.point: one.placement for one in space}.values():
        cores = Counter(pu % shape.all_cores for pu in placement.pus)
        assert len(set(placement.pus)) == len(placement.pus)
        assert max(placement.pus) < shape.all_cores * shape.siblings
        assert set(cores.values()) <= {1, shape.siblings}
        assert placement.point.cores == len(cores) / shape.all_cores
    on_cores = {one.placement.point.threads / one.placement.point.cores for one in space}
    assert on_cores == {1.0, float(shape.siblings)}
    assert {one.placement.point.nodes for one in space} >= {0.5, 1.0}
    one_node = {one.page_map for one in space if one.placement.point.nodes * shape.nodes == 1}
    assert one_node <= set(whole.ON_ONE_NODE)
    assert {one.page_map for one in space if one.placement.point.nodes == 1} == set(ALL_PAGES)


def test_prefetchers_that_a_machine_lacks_stay_on() -> None:
    _, every = machine("gold-6142x2")
    assert len(set(every)) == 16
    _, few = machine("opteron-6164x4")
    assert few == ["0000", "0010", "1000", "1010"]


def test_a_divided_program_does_the_same_work() -> None:
    def work(program: Program) -> tuple[int, int, int]:
        options = program.options
        accesses = int(options["accesses"])
        barriers = -(-accesses // int(options["between"])) if "between" in options else 0
        return program.threads * accesses, program.threads * int(options["size"]), barriers

    for one in programs(64):
        for threads in (4, 8, 16, 32):
            divided = one.divided(threads)
            assert divided.threads == threads
            (accesses, size, barriers), (before, of_size, of_barriers) = work(divided), work(one)
            assert abs(accesses - before) <= 64 * threads
            assert abs(size - of_size) <= LINE * threads
            # Fewer accesses than a burst are not possible between two barriers.
            if int(one.options.get("between", 0)) >= 64 * 4:
                assert abs(barriers - of_barriers) <= 0.1 * of_barriers + 1
            assert divided.options["shared"] == one.options["shared"]


@pytest.mark.skipif(not (PINFOLD.exists() and SYNTHETIC.exists()), reason="binary or workloads are not built")
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-user, which records, is not installed")
def test_rows_of_several_numbers_of_threads_are_one_region_over_the_usual_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "MODELS", ("gold-6142x2",))
    monkeypatch.setattr(whole, "EACH", 1)
    small = [
        replace(one, threads=8, options=one.options | {"size": "4096", "shared": "4096", "accesses": "1024"})
        for one in programs(3)
    ]
    study = whole_study()
    assert sweep(small, study, 2, tmp_path) == {}
    file = tmp_path / "whole.parquet"
    costs = collect(small, study, tmp_path, file)
    swept = [one for one in costs if one.machine]
    assert [one.machine for one in swept] == [name for one in small for name in whole.models_of(one.number)]
    rows = pyarrow.parquet.read_table(file).to_pylist()
    assert len(rows) == sum(one.configurations for one in swept)
    assert sum(row["baseline"] for row in rows) == len(swept)

    times = read([file])
    expected = {(one.name, name) for one in small for name in whole.models_of(one.number)}
    assert {(one.program, one.machine) for one in times.regions} == expected
    assert len(times.regions) == len(expected)
    for region, baseline in enumerate(times.baselines):
        assert is_usual(times.points[baseline])
        run = np.flatnonzero(np.isfinite(times.logs[region]))
        assert len({times.points[place].threads for place in run}) >= 3
