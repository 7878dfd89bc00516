"""Programs for the belief that ships: the design fills its space, machines vary within bounds, rows are learned."""

import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomllib

from pinfold.evaluation.priors import machines, worth
from pinfold.evaluation.priors.configurations import FIRST_TOUCH, Placement, of_auto, placements, space
from pinfold.evaluation.priors.design import OWN_BYTES, PATTERNS, Program, programs
from pinfold.evaluation.priors.machines import LARGEST_FACTOR, MODELS, SHARES, Shape, cut_down, varied
from pinfold.evaluation.priors.sweep import auto_study, collect, costs_table, share_of, sweep
from pinfold.evaluation.priors.worth import fixed_order
from pinfold.learn.belief import data
from pinfold.learn.belief import file as belief_file
from pinfold.learn.belief.choice import learner
from pinfold.learn.belief.judging import BELIEF, RANDOM
from pinfold.learn.belief.learning import Settings

ROOT = Path(__file__).resolve().parents[2]

PINFOLD = ROOT / "target/release/pinfold"

SYNTHETIC = ROOT / "target/workloads/synthetic"

THREADS = (8, 16)


@pytest.fixture(autouse=True)
def in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def shapes() -> list[tuple[str, int, Shape]]:
    """Return all shapes of the sweep: model, threads, shape."""
    return [
        (name, threads, cut_down(machines.read(name), round(threads / share))[1])
        for name in MODELS
        for threads in THREADS
        for share in SHARES
    ]


def quantities(model: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], float]:
    """Return all numbers of a model with their places; sizes in bytes."""
    found: dict[tuple[Any, ...], float] = {}
    items: list[tuple[Any, Any]] = list(model.items() if isinstance(model, dict) else enumerate(model))
    for key, value in items:
        if isinstance(value, dict | list):
            found |= quantities(value, (*path, key))
        elif isinstance(value, int | float):
            scale = machines.SIZES.get(key, 1)
            place = (*path, "size" if key in machines.SIZES else key)
            found[place] = float(value * scale)
    return found


def test_the_design_is_reproducible_and_its_first_programs_are_a_design() -> None:
    few, many = programs(20), programs(64)
    assert few == many[:20] == programs(20)
    assert len({one.name for one in many}) == len({tuple(one.words) for one in many}) == 64
    # In the first 2^n points of a Sobol sequence each half of a coordinate has half of them.
    middle = sqrt(OWN_BYTES[0] * OWN_BYTES[1])
    assert sum(int(one.options["size"]) < middle for one in many) == 32
    patterns = Counter(one.options["pattern"] for one in many)
    assert all(abs(patterns[choice.value] - 64 * choice.share) <= 2 for choice in PATTERNS)


def test_windows_go_through_the_data_of_their_program() -> None:
    for one in programs(256):
        options = one.options
        share = int(options["to-shared"]) / 100
        in_line = 8 if options["access"] == "sequential" and options["stride"] == "8" else 1
        lines = int(options["accesses"]) / in_line
        assert lines * (1 - share) >= int(options["size"]) / 64 - 1, one
        assert options["pattern"] == "private" or one.threads * lines * share >= int(options["shared"]) / 64 - 1, one


@pytest.mark.skipif(not SYNTHETIC.exists(), reason="the workloads are not built")
def test_the_workload_accepts_the_options_of_all_programs() -> None:
    for one in programs(32):
        options = one.options | {"accesses": "64", "between": "64"}
        words = [
            str(SYNTHETIC),
            "--threads",
            "2",
            *(word for key, value in options.items() for word in ("--" + key, value)),
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stderr, words)


def test_a_cut_machine_leaves_each_core_its_share() -> None:
    for name in MODELS:
        whole = machines.read(name)
        before = machines.shape_of(whole)
        cut, shape = cut_down(whole, 16)
        assert shape == machines.shape_of(cut)
        assert (shape.all_cores, shape.nodes, shape.siblings) == (16, before.nodes, before.siblings)
        for model, of in ((whole, before), (cut, shape)):
            model["share"] = model["memory"]["bandwidth"]["gb_per_s"] * of.nodes / of.all_cores
        assert cut["share"] == pytest.approx(whole["share"])
        caches = [quantities(model["cache"][-1])[("size", "size")] for model in (whole, cut)]
        in_core = [size / of.cores for size, of in zip(caches, (before, shape), strict=True)]
        assert in_core[1] == pytest.approx(in_core[0] / machines.CACHE_DIVISOR, rel=0.05)
    with pytest.raises(ValueError, match="6 cores cannot be divided among the 4 nodes of e5-4650x4"):
        cut_down(machines.read("e5-4650x4"), 6)


@pytest.mark.parametrize("name", MODELS)
def test_numbers_vary_within_a_quarter_and_anew_for_each_program(name: str) -> None:
    cut, _ = cut_down(machines.read(name), 32)
    drawn = [quantities(varied(cut, np.random.default_rng([machines.SEED, program, 0]))) for program in range(20)]
    before = quantities(cut)
    for after in drawn:
        assert after.keys() == before.keys()
        for place, value in before.items():
            # Counts are whole numbers, and caches a whole number of sets.
            rounding = 0.5 if place[-1] == "count" else 64 * 64 if place[-1] == "size" else 1e-3 * value
            assert value / LARGEST_FACTOR - rounding <= after[place] <= value * LARGEST_FACTOR + rounding, place
    changed = [place for place in before if len({after[place] for after in drawn}) > 10]
    assert {place[0] for place in changed} - {"prefetch"} == {"core", "tlb", "cache", "coherence", "memory", "link"}
    # Each latency has its own factor.
    near, far = ("memory", "latency", "ns"), ("link", 0, "latency", "ns")
    assert len({round(after[near] / after[far], 6) for after in drawn}) == len(drawn)


def test_models_are_written_as_they_are() -> None:
    for name in MODELS:
        cut, _ = cut_down(machines.read(name), 16)
        assert tomllib.loads(machines.text(cut)) == cut


@pytest.mark.skipif(not PINFOLD.exists(), reason="the binary is not built")
@pytest.mark.parametrize("name", MODELS)
def test_pinfold_reads_the_machines_of_the_sweep(name: str, tmp_path: Path) -> None:
    file = tmp_path / "machine.toml"
    for number, cores in enumerate((8, 16, 32, 64)):
        model, shape = cut_down(machines.read(name), cores)
        file.write_text(machines.text(varied(model, np.random.default_rng(number))))
        done = subprocess.run([PINFOLD, "topo", "--machine", file], capture_output=True, text=True, check=True)
        assert f"{shape.all_cores} cores, {shape.all_cores * shape.siblings} PUs" in done.stdout


def test_each_program_fills_all_a_half_and_a_quarter_of_machines_in_turn() -> None:
    for number in range(3):
        assert {share_of(number, machine) for machine in range(3)} == set(SHARES)
        assert {share_of(program, number) for program in range(3)} == set(SHARES)


def test_placements_are_possible_and_differ_and_the_baseline_is_first() -> None:
    for name, threads, shape in shapes():
        found = placements(shape, threads)
        first = found[0].point
        assert (first.nodes, first.llcs, first.page_map) == (
            1.0,
            min(1.0, threads / (shape.nodes * shape.domains)),
            FIRST_TOUCH,
        )
        assert len({one.pus for one in found}) == len({one.point for one in found}) == len(found)
        for one in found:
            assert len(set(one.pus)) == threads
            assert max(one.pus) < shape.all_cores * shape.siblings
            check_shares(one, shape)
        configurations = of_auto(shape, threads)
        assert len(set(configurations)) == len(configurations) == sum(len(one.pages) for one in found)
        first_entry = {"pinnings": [found[0].text], "page_map": FIRST_TOUCH, "prefetch": "0000"}
        assert tomllib.loads(space(configurations))["configurations"][0] == first_entry, name


def check_shares(one: Placement, shape: Shape) -> None:
    """Count what a placement uses, by numbers of cores alone."""
    cores = [pu % shape.all_cores for pu in one.pus]
    in_node = shape.all_cores // shape.nodes
    nodes = [core // in_node for core in cores]
    point = one.point
    assert point.threads == round(len(cores) / shape.all_cores, 4)
    assert point.cores == round(len(set(cores)) / shape.all_cores, 4)
    assert point.nodes == round(len(set(nodes)) / shape.nodes, 4)
    assert point.llcs == round(len({core // shape.cores for core in cores}) / (shape.nodes * shape.domains), 4)
    apart = sum(a != b for a, b in pairwise(nodes))
    assert point.thread_map == ("scatter" if apart > (len(nodes) - 1) / 2 else "compact")


def test_threads_are_also_on_few_caches_and_on_siblings() -> None:
    found = placements(Shape(packages=2, nodes=2, domains=4, cores=4, siblings=2), 8)
    shares = {(one.point.nodes, one.point.llcs, one.point.cores) for one in found}
    assert {(1.0, 1.0, 0.25), (0.5, 0.5, 0.25), (1.0, 0.25, 0.25), (0.5, 0.125, 0.125)} <= shares


def test_the_fixed_order_tries_each_configuration_once_and_then_pages_of_the_best() -> None:
    found = placements(Shape(packages=2, nodes=2, domains=1, cores=8, siblings=2), 8)
    points = [one.point._replace(page_map=pages) for one in found for pages in one.pages]
    logs = np.array([-1.0 if point.nodes == 1 and point.page_map == FIRST_TOUCH else 0.0 for point in points])
    baseline = points.index(found[0].point)
    best = points.index(found[1].point)
    logs[best] = -2.0
    order = fixed_order(points, logs, baseline)
    assert sorted([baseline, *order]) == list(range(len(points)))
    assert order[0] == best
    named = sum(point.page_map == FIRST_TOUCH for point in points) - 1
    assert points[order[named]] == points[best]._replace(page_map="interleave")


@pytest.mark.skipif(not (PINFOLD.exists() and SYNTHETIC.exists()), reason="binary or workloads are not built")
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-user, which records, is not installed")
def test_a_sweep_of_small_programs_on_two_machines_makes_data_that_a_belief_learns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [shortened(one) for one in programs(3)]
    models = ("e5-4650x4", "epyc-7763x2")
    study = auto_study(models)
    assert sweep(small, study, 2, tmp_path) == {}
    assert "priors-quick: 3 of 3" in capsys.readouterr().err
    file = tmp_path / "priors.parquet"
    costs = collect(small, study, tmp_path, file)
    assert [row[:2] for row in costs_table(costs).rows] == [
        ["recording", "3"],
        ["e5-4650x4", "3"],
        ["epyc-7763x2", "3"],
    ]

    times = data.read([file])
    assert times.machines == sorted(models)
    assert times.names == [one.name for one in small]
    assert len(times.regions) == 6
    for region, baseline in enumerate(times.baselines):
        point = times.points[baseline]
        assert (point.nodes, point.thread_map, point.page_map) == (1.0, "scatter", FIRST_TOUCH)
        run = [place for place in np.flatnonzero(np.isfinite(times.logs[region]))]
        assert times.logs[region, baseline] == 0
        assert {times.points[place].threads for place in run} == {point.threads}
    belief = learner(Settings())(times)
    assert belief.kernel.lengths.llcs is not None
    assert all(point.llcs is not None for point in belief.points)
    written = tmp_path / "belief.json"
    written.write_text(belief_file.text(belief), encoding="utf-8")
    found = worth.judged(times, written)
    assert set(found.gains) == {BELIEF, RANDOM, worth.FIXED}
    for gains in found.gains.values():
        assert (gains <= found.possible[:, None] + 1e-12).all()
    # The last trial of the fixed order has tried everything of the smaller machines.
    assert found.gains[worth.FIXED][:, -1] == pytest.approx(found.possible, abs=0.05)
    assert len(worth.table(found, "here").rows) == 3
    # Nothing is made again, and an interrupted sweep has a data set of the finished programs.
    assert sweep(small, study, 1, tmp_path) == {}
    assert capsys.readouterr().err == ""
    assert len(collect(small[:2], study, tmp_path, file)) == 6


def shortened(program: Program) -> Program:
    return replace(program, threads=8, options=program.options | {"size": "4096", "shared": "4096", "accesses": "256"})


def test_a_failed_program_is_named_and_not_tried_again(tmp_path: Path) -> None:
    broken = replace(programs(1)[0], options={"pattern": "none"})
    study = auto_study(("e5-4650x4",))
    for _ in range(2):
        assert "unknown word" in sweep([broken], study, 1, tmp_path)[broken.name]
    with pytest.raises(ValueError, match="no program was swept"):
        collect([broken], study, tmp_path, tmp_path / "none.parquet")
