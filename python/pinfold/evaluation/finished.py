"""Runs of ``pinfold run`` on simulated machines that are kept, so that an interrupted section loses minutes, not hours.

Each finished run is a small file under ``target/evaluation/runs``. Its name is a digest of the binary, the content of
the recordings, the arguments, and the content of files that arguments name. Runs of another build are never found.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.section import PINFOLD, run_json

FOLDER = Path("target/evaluation/runs")


@dataclass(frozen=True)
class Run:
    """The figures of a run that are kept.

    Attributes
    ----------
    seconds : float
        Its virtual time.
    chosen : str or None
        The placement that was kept: a CPU list, ``unpinned``, or None if the run ended before a choice.
    repetitions : float
        How often it repeated the recorded work; of all programs together.
    rates : list of float or None
        The rate of each candidate; None for one that was not measured.
    speeds : list of float
        By program: repetitions of its recorded region per second, over the whole run.
    events : list of dict
        By program: the counts of all its tasks, by event.
    moves : dict
        SAM's moves of tasks for each reason, as ``moves`` counts them; empty for other policies.
    comparisons : dict
        SAM's comparisons of its moves with unpinned tasks for each outcome; empty without them.
    chosen_at : float or None
        When the placement was chosen that was kept: 0 if that is the unpinned program with its pages where they were,
        None if the run ended before a choice.
    """

    seconds: float
    chosen: str | None
    repetitions: float
    rates: list[float | None]
    speeds: list[float]
    events: list[dict[str, float]]
    moves: dict[str, int]
    comparisons: dict[str, int] = field(default_factory=dict)
    chosen_at: float | None = None


def finished(arguments: Sequence[str], recordings: Sequence[Path], files: Sequence[Path] = ()) -> Run:
    """Return a run with these arguments; do it unless it is there.

    Args:
        arguments: of ``pinfold run``, without the recordings.
        recordings: the recordings to run, side by side.
        files: the files that the arguments name. Their content counts, not their name.
    """

    def run() -> Run:
        return _of(run_json([*arguments, *map(str, recordings)], []))

    return _kept(_key(arguments, recordings, files), arguments, run)


def finished_twice(arguments: Sequence[str], recordings: Sequence[Path], files: Sequence[Path] = ()) -> Run:
    """Return the second of two runs with these arguments, which knows the results of the first."""

    def run() -> Run:
        with tempfile.TemporaryDirectory() as directory:
            words = ["--db", str(Path(directory) / "behaviour.db"), *arguments, *map(str, recordings)]
            run_json(words, [])
            return _of(run_json(words, []))

    return _kept(_key(["twice", *arguments], recordings, files), arguments, run)


def _kept(key: str, arguments: Sequence[str], run: Callable[[], Run]) -> Run:
    """Return the run with this key; do it unless it is there."""

    def make(file: Path) -> None:
        file.write_text(json.dumps({"arguments": list(arguments), "run": asdict(run())}) + "\n")

    kept = made_once(FOLDER / f"{key}.json", make)
    return Run(**json.loads(kept.read_text())["run"])


def moves(record: dict[str, Any]) -> dict[str, int]:
    """Count the moves of a run by their reasons, without those that only make room for another."""
    return dict(Counter(move["reason"] for move in record.get("moves", []) if not move["makes_room"]))


def _of(record: dict[str, Any]) -> Run:
    chosen, simulation = record["chosen"], record["simulation"]
    pus = None if chosen is None else "unpinned" if chosen["pus"] is None else ",".join(map(str, chosen["pus"]))
    return Run(
        seconds=record["ran"],
        chosen=pus,
        repetitions=simulation["repetitions"],
        rates=[candidate["rate"] for candidate in record["candidates"]],
        speeds=[program["speed"] for program in simulation["programs"]],
        events=[program["events"] for program in simulation["programs"]],
        moves=moves(record),
        comparisons=dict(Counter(one["outcome"] for one in record.get("mapping_comparisons", []))),
        chosen_at=None if chosen is None else 0.0 if _changes_nothing(record, chosen) else chosen["at"],
    )


def _changes_nothing(record: dict[str, Any], chosen: dict[str, Any]) -> bool:
    """Return whether the choice is the unpinned program with its pages where they were."""
    return chosen["pus"] is None and "pages" not in record["candidates"][chosen["candidate"]]


def _key(arguments: Sequence[str], recordings: Sequence[Path], files: Sequence[Path]) -> str:
    named = {str(file): _digest(file) for file in files}
    words = [_digest(PINFOLD), *map(_digest, recordings), *(named.get(word, word) for word in arguments)]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]


@cache
def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
