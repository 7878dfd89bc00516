"""Regions in all configurations, as the data set has them."""

from pathlib import Path

import numpy as np
import pytest
from react_cases import regions, rows_of, write

from pinfold.learn.react.data import Configuration, enough, matched, read, require_counters


def test_what_was_written_is_read(tmp_path: Path) -> None:
    made = regions("noise", programs=4, settings=("0000", "1111"))
    (found,) = read([write(tmp_path / "data.parquet", rows_of(made)[::-1])])
    assert found.configurations[found.baseline] == Configuration(32, 4, "scatter", "locality", "0000")
    assert set(found.configurations) == set(made.configurations)
    assert (found.machine, found.simulated, found.counters) == (made.machine, True, made.counters)
    here = made.names.index(found.names[5])
    places = [made.configurations.index(one) for one in found.configurations]
    assert found.programs[5] == made.programs[here]
    assert np.allclose(found.gains[5], made.gains[here][places])
    assert np.array_equal(found.values[5], made.values[here][places])


def test_missing_and_constant_counters_are_no_features() -> None:
    made = regions("noise", programs=3, counters=2)
    made.values[4, 1, 0] = np.nan
    made.values[:, 2, 1] = 7
    values, places = made.features()
    assert values.shape == (9, 2 * 18 - 2)
    assert (1, 0) not in places
    assert (2, 1) not in places
    assert np.array_equal(values[:, places.index((3, 1))], made.values[:, 3, 1].astype(np.float32))


def test_counters_that_were_not_measured_are_no_features(tmp_path: Path) -> None:
    rows = rows_of(regions("noise", programs=3, each=1, counters=4))
    names = [name for name in rows[0] if name.startswith("likwid:")]
    for row in rows:
        # A processor without one of the counters, and one whose count is missing in a single row.
        row["simulated"] = False
        row[names[0]] = None
        row["likwid:Energy"] = 5.0 + row["num_threads"] + len(row["program"] + row["page_map"])
        del row[names[3]]
    rows[0][names[1]] = None
    (found,) = read([write(tmp_path / "data.parquet", rows)])
    assert not found.simulated
    assert {"Energy", *(name.removeprefix("likwid:") for name in names[:3])} == set(found.counters)
    _, places = found.features()
    used = {found.counters[counter] for _, counter in places}
    assert names[0].removeprefix("likwid:") not in used
    of_second = [place for place, counter in places if found.counters[counter] == names[1].removeprefix("likwid:")]
    assert len(of_second) == len(found.configurations) - 1


def test_rows_that_stand_for_nothing_are_left_out(tmp_path: Path) -> None:
    rows = rows_of(regions("noise", programs=3, each=1))
    for row in rows:
        row["window_covers"] = row["program"] != "program0"
        row["region_complete"] = row["program"] != "program1"
    (found,) = read([write(tmp_path / "data.parquet", rows)])
    assert found.programs == ("program2",)
    with pytest.raises(ValueError, match="regions of 1 program: at least 3 are needed"):
        enough(found)
    for row in rows:
        row["time_s"] = 0.0 if row["program"] == "program2" and row["num_threads"] == 8 else row["time_s"]
    with pytest.raises(ValueError, match="no row is of a parallel region"):
        read([write(tmp_path / "idle.parquet", rows)])
    whole = [{**row, "region": None} for row in rows]
    with pytest.raises(ValueError, match="no row is of a parallel region"):
        read([write(tmp_path / "whole.parquet", whole)])


def test_a_time_without_a_unit_gives_the_same_gains_and_unpinned_rows_are_left_out(tmp_path: Path) -> None:
    made = regions("noise", programs=3, each=1)
    rows = rows_of(made)
    unpinned = [{**row, "num_nodes": None, "thread_map": None} for row in rows[:1]]
    for row in rows + unpinned:
        row["time"] = 1e9 * row.pop("time_s")
    (found,) = read([write(tmp_path / "data.parquet", rows + unpinned)])
    assert np.allclose(sorted(found.gains.ravel()), sorted(made.gains.ravel()))


def test_threads_on_siblings_are_configurations_of_their_own_and_never_the_baseline(tmp_path: Path) -> None:
    rows = rows_of(regions("noise", programs=3, each=1))
    for row in rows:
        row["threads_per_core"] = 1
    siblings = [{**row, "num_threads": 2 * row["num_threads"], "threads_per_core": 2} for row in rows]
    packed = [{**row, "threads_per_core": 2} for row in rows if row["num_threads"] == 8]
    (found,) = read([write(tmp_path / "data.parquet", rows + siblings + packed)])
    assert len(found.configurations) == 18 + 18 + 2
    assert found.configurations[found.baseline] == Configuration(32, 4, "scatter", "locality", "0000")
    assert Configuration(64, 4, "scatter", "locality", "0000", 2) in found.configurations


def test_a_missing_configuration_is_an_error(tmp_path: Path) -> None:
    rows = rows_of(regions("noise", programs=3, each=1))
    with pytest.raises(ValueError, match=r"program0 .* was not run with 8 threads on 1 node, own map, local"):
        read([write(tmp_path / "data.parquet", rows[1:])])
    without = [row for row in rows if row["page_map"] != "locality"]
    with pytest.raises(ValueError, match="with which the others are compared"):
        read([write(tmp_path / "data.parquet", without)])


def test_a_missing_column_is_an_error(tmp_path: Path) -> None:
    rows = rows_of(regions("noise", programs=3, each=1))
    with pytest.raises(ValueError, match="no column `prefetch`"):
        read([write(tmp_path / "a.parquet", [{k: v for k, v in row.items() if k != "prefetch"} for row in rows])])
    without = [{name: value for name, value in row.items() if not name.startswith("likwid:")} for row in rows]
    (found,) = read([write(tmp_path / "b.parquet", without)])
    with pytest.raises(ValueError, match="no counters"):
        require_counters(found)


def test_regions_are_matched_between_machines() -> None:
    here = regions("noise", programs=4)
    there = regions("noise", programs=4, seed=1, machine="platinum-8168x2").at([7, 2, 3])
    one, other = matched(here, there)
    assert one.names == other.names == (here.names[2], here.names[3], here.names[7])
    with pytest.raises(ValueError, match="no region was observed on both"):
        matched(here.at([0]), there)
