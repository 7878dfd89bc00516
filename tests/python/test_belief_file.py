"""Files of beliefs: what the policies believe (`crates/policy/tests/belief.rs`) is what the learner judges.

``python tests/python/test_belief_file.py`` writes the cases of both tests again, from the belief beside them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinfold.learn.belief.file import read, text
from pinfold.learn.belief.point import Point
from pinfold.learn.belief.posterior import Posterior

DATA = Path("crates/policy/tests/data")
FIXTURE = DATA / "belief.json"
CASES = DATA / "belief-cases.json"

POINTS = (
    Point(1.0, 1.0, 1.0, "scatter", "locality", "0000", 1.0),
    Point(0.5, 0.5, 0.5, "compact", "interleave", "0000", 0.5),
    Point(2.0, 1.0, 1.0, "scatter", "balance", "1111", 1.0),
    # These are not listed.
    Point(0.5, 0.5, 1.0, "scatter", "first_touch", "0010", 1.0),
    Point(0.25, 0.25, 0.25, "compact", "single", "0000", 0.25),
    Point(1.0, 0.5, 0.5, "compact", "local", "0100", 0.5),
)
"""Configurations of both tests, some of which the belief lists."""

TRIALS = ((3, -0.3), (1, 0.2), (5, -1.0))
"""Trials: the configuration and z."""

NOISE = 0.01
"""The variance of a trial."""


def cases() -> list[dict[str, Any]]:
    """Return what the belief says on two machines, with and without last-level caches, before and after trials."""
    belief = read(FIXTURE)
    found = []
    for machine in (belief.origin.machines[0], "another"):
        for points in (POINTS, tuple(one._replace(llcs=None) for one in POINTS)):
            prior = belief.over(points, machine)
            after = []
            posterior = Posterior(prior, NOISE)
            for place, z in TRIALS:
                posterior.learn(place, z)
                after.append(
                    {
                        "mean": posterior.mean.tolist(),
                        "variance": posterior.variance.tolist(),
                        "spread": posterior.spread,
                    }
                )
            found.append(
                {
                    "machine": machine,
                    "points": [one._asdict() for one in points],
                    "mean": prior.mean.tolist(),
                    "covariance": prior.covariance.tolist(),
                    "trials": [{"of": place, "log": z, "variance": NOISE} for place, z in TRIALS],
                    "after": after,
                }
            )
    return found


def test_the_cases_of_the_policies_are_what_the_learner_says() -> None:
    for said, now in zip(json.loads(CASES.read_text()), cases(), strict=True):
        assert (said["machine"], said["points"], said["trials"]) == (now["machine"], now["points"], now["trials"])
        for key in ("mean", "covariance"):
            assert np.array(said[key]) == pytest.approx(np.array(now[key]), abs=1e-12)
        for earlier, later in zip(said["after"], now["after"], strict=True):
            for key in ("mean", "variance", "spread"):
                assert np.array(earlier[key]) == pytest.approx(np.array(later[key]), abs=1e-12)


def test_a_file_that_is_read_and_written_stays_the_same(tmp_path: Path) -> None:
    again = tmp_path / "belief.json"
    again.write_text(text(read(FIXTURE)), encoding="utf-8")
    assert json.loads(again.read_text()) == json.loads(FIXTURE.read_text())


if __name__ == "__main__":
    CASES.write_text(json.dumps(cases(), indent=1) + "\n", encoding="utf-8")
