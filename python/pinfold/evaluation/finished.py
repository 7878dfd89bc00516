"""Runs of ``pinfold run`` on simulated machines that are kept, so that an interrupted section loses minutes, not hours.

Each finished run is a small file under ``target/evaluation/runs``. Its name is a digest of the binary, the content of
the recording, the arguments, and the content of files that arguments name. Runs of another build are never found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pinfold.evaluation.section import PINFOLD, run_json

FOLDER = Path("target/evaluation/runs")


@dataclass(frozen=True)
class Run:
    """What is kept of a run.

    Attributes
    ----------
    seconds : float
        Its virtual time.
    chosen : str or None
        The placement that was kept: a CPU list, ``unpinned``, or None if the run ended before a choice.
    repetitions : float
        How often it repeated what was recorded.
    rates : list of float or None
        The rate of each candidate; None for one that was not measured.
    """

    seconds: float
    chosen: str | None
    repetitions: float
    rates: list[float | None]


def finished(arguments: Sequence[str], recording: Path, files: Sequence[Path] = ()) -> Run:
    """Return a run with these arguments; do it unless it is there.

    Args:
        arguments: of ``pinfold run``, without the recording.
        recording: the recording to run.
        files: the files that the arguments name. Their content counts, not their name.
    """
    kept = FOLDER / f"{_key(arguments, recording, files)}.json"
    if not kept.exists():
        run = _of(run_json([*arguments, str(recording)], []))
        kept.parent.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_suffix(".new")
        unfinished.write_text(json.dumps({"arguments": list(arguments), "run": asdict(run)}) + "\n")
        unfinished.rename(kept)
    return Run(**json.loads(kept.read_text())["run"])


def _of(record: dict[str, Any]) -> Run:
    chosen = record["chosen"]
    pus = None if chosen is None else "unpinned" if chosen["pus"] is None else ",".join(map(str, chosen["pus"]))
    rates = [candidate["rate"] for candidate in record["candidates"]]
    return Run(record["ran"], pus, record["simulation"]["repetitions"], rates)


def _key(arguments: Sequence[str], recording: Path, files: Sequence[Path]) -> str:
    named = {str(file): _digest(file) for file in files}
    words = [_digest(PINFOLD), _digest(recording), *(named.get(word, word) for word in arguments)]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]


@cache
def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
