"""What the evaluation says of the simulated scheduler."""

from pathlib import Path

import tomllib

from pinfold.evaluation.simulator.scheduler import agreement, moves, same_shape, shares, spread, table


def test_the_fullest_package_comes_first() -> None:
    assert spread([0, 1, 2, 7], 2) == (2, 1, 1, 0)
    assert spread([0, 1, 2, 7], 16) == (4, 0, 0, 0)


def test_different_spreads_do_not_agree_and_a_rare_one_counts_by_its_share() -> None:
    even, uneven = (1, 1, 1, 1), (2, 1, 1, 0)
    assert agreement([even] * 3, [even]) == 1
    assert agreement([even], [uneven]) == 0
    assert agreement([even, even, even, uneven], [even, uneven]) == 0.75


def test_a_move_is_a_change_of_the_cpu_between_two_times() -> None:
    still, one_of_two = [[0, 1], [0, 1], [0, 1]], [[0, 1], [0, 2], [0, 1]]
    assert moves([still]) == 0
    assert moves([still, one_of_two]) == 0.5


def test_the_model_has_the_shape_of_the_emulated_machine(tmp_path: Path) -> None:
    model = tomllib.loads(same_shape(16, tmp_path).read_text())
    shape = {
        key: model["shape"][key]["count"] for key in ("packages", "nodes", "cores_per_package", "threads_per_core")
    }
    assert shape == {"packages": 4, "nodes": 4, "cores_per_package": 16, "threads_per_core": 1}
    assert model["cache"][-1]["cores"]["count"] == 16


def test_the_table_has_the_share_of_each_spread() -> None:
    found = shares([(2, 1), (2, 1), (1, 1), (2, 1)])
    row = {"cores": 2, "threads": 3, "observed": found, "modelled": found, "agreement": 1.0, "moves_per_task": 0.25}
    assert table([row]).rows == [["2", "3", "2+1 (75%), 1+1 (25%)", "2+1 (75%), 1+1 (25%)", "100%", "0.25"]]
