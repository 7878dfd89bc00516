"""Beliefs from data sets with shares of machines as columns, and a baseline for each number of threads."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from belief_cases import MACHINE, data, rows

from pinfold.learn.belief import file
from pinfold.learn.belief.belief import Belief
from pinfold.learn.belief.choice import learner
from pinfold.learn.belief.data import Region, Times, read
from pinfold.learn.belief.judging import MOST_FOLDS, given, nested
from pinfold.learn.belief.kernel import Lengths, similarity
from pinfold.learn.belief.learning import Settings, spread_of
from pinfold.learn.belief.point import PAGE_MAPS, Point
from pinfold.learn.races import Floats

SHARES = (1.0, 0.5)

PLACES = [(1.0, "scatter"), (1.0, "compact"), (0.5, "compact")]


def shared_rows(programs: int = 6) -> list[dict[str, Any]]:
    """Return rows of programs that fill a machine, or a half of it; every second one wants few last-level caches."""
    random = np.random.default_rng(0)
    return [
        {
            "machine": MACHINE,
            "program": f"made#{program}",
            "region": None,
            "num_threads": 8,
            "num_nodes": 2,
            "thread_map": order,
            "page_map": pages,
            "prefetch": "0000",
            "time_s": float(np.exp(random.normal(0, 0.01) - (program % 2) * (caches < 1))) / share,
            "simulated": True,
            "command": f"made --number {program}",
            "window_covers": True,
            "thread_share": share,
            "core_share": share,
            "node_share": 1.0,
            "llc_share": caches,
            "baseline": (caches, order, pages) == (1.0, "scatter", "first_touch"),
        }
        for program in range(programs)
        for share in SHARES
        for caches, order in PLACES
        for pages in ("first_touch", "interleave")
    ]


def learned(folder: Path) -> tuple[Times, Belief]:
    times = read([data(folder, shared_rows())])
    return times, learner(Settings())(times)


def test_rows_with_as_many_threads_are_a_region_over_its_own_baseline(tmp_path: Path) -> None:
    times = read([data(tmp_path, shared_rows(2))])
    assert len(times.regions) == 2 * len(SHARES)
    assert {point.llcs for point in times.points} == {0.5, 1.0}
    baselines = {times.points[place] for place in times.baselines}
    assert baselines == {Point(share, share, 1.0, "scatter", "first_touch", "0000", 1.0) for share in SHARES}
    # Fewer threads for the machine take longer, but not over their own baseline.
    assert np.nanmax(np.abs(times.logs)) < 1.1
    for region, baseline in enumerate(times.baselines):
        run = np.flatnonzero(np.isfinite(times.logs[region]))
        assert {times.points[place].threads for place in run} == {times.points[baseline].threads}
    half = times.at(np.array([times.points[place].threads < 1 for place in times.baselines]))
    assert all(half.points[place].threads < 1 for place in half.baselines)
    assert not half.logs[range(len(half.regions)), half.baselines].any()


def test_a_region_without_its_baseline_is_named(tmp_path: Path) -> None:
    found = [
        row for row in shared_rows(2) if not (row["baseline"] and row["thread_share"] < 1 and "1" in row["program"])
    ]
    with pytest.raises(ValueError, match=r"made#1, made --number 1  threads for 0.5 of the cores, has no row that is"):
        read([data(tmp_path, found)])


def test_data_without_shares_of_caches_is_read_beside_data_with_them(tmp_path: Path) -> None:
    times = read([data(tmp_path, shared_rows(2), "one.parquet"), data(tmp_path, rows(2), "other.parquet")])
    assert len(times.regions) == 2 * len(SHARES) + 2
    assert {point.llcs for point in times.points} == {None}
    assert {times.points[place].page_map for place in times.baselines} == {"first_touch", "locality"}
    assert learner(Settings())(times).kernel.lengths.llcs is None


def test_a_belief_tells_few_caches_from_many_and_its_file_too(tmp_path: Path) -> None:
    times, belief = learned(tmp_path)
    assert belief.origin.programs == sorted(f"made#{number}" for number in range(6))
    assert belief.kernel.lengths.llcs == belief.kernel.lengths.nodes
    prior = belief.over(times.points, MACHINE)
    few = [place for place, point in enumerate(times.points) if point.llcs == 0.5 and point.threads == 1.0]
    many = [place for place, point in enumerate(times.points) if point.llcs == 1.0 and point.threads == 1.0]
    # A search compares configurations, and what all of them have in common does not matter.
    variances, with_baseline = np.diag(prior.covariance), prior.covariance[times.baselines[0]]
    of_difference = np.sqrt(variances + variances[times.baselines[0]] - 2 * with_baseline)
    assert of_difference[few].min() > 1.5 * of_difference[many].max()
    written = tmp_path / "belief.json"
    written.write_text(file.text(belief), encoding="utf-8")
    again = file.read(written).over(times.points, MACHINE)
    assert again.covariance == pytest.approx(prior.covariance)
    written.write_text(file.text(belief).replace('"llcs":0.5', '"llcs":1.5'), encoding="utf-8")
    with pytest.raises(ValueError, match=r"llcs 1.5 is no share"):
        file.read(written)
    written.write_text(file.text(belief).replace(',"llcs":0.5', ""), encoding="utf-8")
    with pytest.raises(ValueError, match="a point has no `llcs`"):
        file.read(written)


def test_caches_are_not_compared_where_a_configuration_has_no_share_of_them(tmp_path: Path) -> None:
    times, belief = learned(tmp_path)
    prior = belief.over([one._replace(llcs=None) for one in times.points], MACHINE)
    few, many = ([one.llcs for one in times.points].index(share) for share in (0.5, 1.0))
    assert times.points[few]._replace(llcs=1.0) == times.points[many]
    own = belief.over(times.points, MACHINE).mean
    assert own[few] != own[many]
    assert prior.mean[[few, many]] == pytest.approx((own[few] + own[many]) / 2)


def test_a_search_stays_among_configurations_with_as_many_threads(tmp_path: Path) -> None:
    times, belief = learned(tmp_path)
    judged = given(times, belief)
    assert judged.shares("belief")[1].share > 0.9


def test_many_programs_are_left_out_in_groups(tmp_path: Path) -> None:
    times = read([data(tmp_path, shared_rows(MOST_FOLDS + 1))])
    said: list[str] = []
    judged = nested(times, said.append, Settings())
    assert len(said) == 10
    assert all(line.startswith(("without 10 programs", "without 11 programs")) for line in said)
    assert judged.shares("belief")[1].share > 0.9


def test_caches_are_compared_only_where_both_are_known() -> None:
    point = Point(1.0, 1.0, 1.0, "scatter", "balance", "0000", 1.0)
    lengths = Lengths(1, 1, 1, 1, 1, 1, 1)
    assert similarity([point], [point._replace(llcs=0.5)], lengths)[0, 0] == pytest.approx(np.exp(-0.5))
    assert similarity([point], [point._replace(llcs=0.5)], lengths._replace(llcs=None))[0, 0] == 1
    with pytest.raises(ValueError, match="share of last-level caches"):
        similarity([point], [point._replace(llcs=None)], lengths)


def test_a_configuration_of_few_regions_keeps_its_variance_and_its_factors() -> None:
    random = np.random.default_rng(0)
    regions, rare = 400, 20
    kind = random.normal(size=(regions, 2))
    logs = np.zeros((regions, 5))
    logs[:, 1:3] = kind[:, :1] + random.normal(0, 0.1, size=(regions, 2))
    logs[:, 3:] = kind[:, 1:] + random.normal(0, 0.1, size=(regions, 2))
    logs[:rare, 1:3] = np.nan
    logs[rare:, 3:] = np.nan
    spread = spread_of(times_of(logs))
    factors = spread.factors(2)
    covariance = factors @ factors.T
    # The prior of a covariance counts as 30 regions, and only 20 were run there.
    assert covariance[3, 4] == pytest.approx(np.var(kind[:rare, 1]), rel=0.5)
    assert covariance[1, 2] == pytest.approx(np.var(kind[rare:, 0]), rel=0.15)


def times_of(logs: Floats) -> Times:
    """Return times of regions of one program each, on one machine."""
    points = tuple(Point(1.0, 1.0, 1.0, "scatter", pages, "0000") for pages in PAGE_MAPS[: logs.shape[1]])
    names = tuple(Region(MACHINE, f"made#{number}", ()) for number in range(len(logs)))
    zeros = np.zeros(len(logs), dtype=np.int64)
    return Times(names, points, zeros, logs, np.ones(len(logs)), 1e-4)


def test_parts_of_times_keep_their_baselines() -> None:
    logs = np.array([[0.0, 0.5, np.nan], [np.nan, 0.0, 0.5]])
    times = replace(times_of(logs), baselines=np.array([0, 1]))
    part = times.at(np.array([False, True]))
    assert part.points == times.points[1:]
    assert part.baselines.tolist() == [0]
