"""Runs of several recordings side by side on a simulated machine, and several such runs at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TypeVar

from pinfold.evaluation.finished import Run, finished

LASTS = "20s"
"""Virtual duration of a run after the policy's first decision."""

T = TypeVar("T")


def run(files: Sequence[Path], *policy: str, machine: str, seed: int = 0) -> Run:
    """Run recordings side by side, unless that was done before."""
    arguments = ["--machine", machine, "--seed", str(seed), "--probe", LASTS, "--warm-up", "0s", *policy]
    # Thresholds, and machines that are no models of pinfold's.
    return finished(arguments, files, [Path(word) for word in arguments if word.endswith(".toml")])


@cache
def pool() -> ThreadPoolExecutor:
    """Return an executor with as many workers as there are processors."""
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)))


def at_once(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Run independent jobs in parallel, and return their results in order."""
    return [future.result() for future in [pool().submit(job) for job in jobs]]
