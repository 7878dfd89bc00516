"""Tests that a simulated run depends only on the recording, the model and the seed.

Everything is run twice with one seed and once with another, and the digests of the output are compared. Another seed
changes a run that has random choices: those of the scheduler, and the latency of transfers between caches.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pinfold.evaluation.section import PINFOLD, Part, Table, output, record

#: A stream of ten threads.
PROGRAM = ("target/workloads/stream", "--threads", "10", "--size", "16k", "--iterations", "2")

#: The runs: the name, the arguments, and the random parts.
RUNS = (
    ("pinned", ("run", "--machine", "opteron-6164x4", "--policy", "fixed", "--schedule", "0-9"), "transfers"),
    (
        "unpinned, with more tasks than CPUs",
        ("run", "--machine", "clovertown", "--policy", "none", "--repeat", "2000"),
        "scheduler and transfers",
    ),
    (
        "a race of two pinnings",
        (
            "run",
            *("--machine", "e5-2660v2x2", "--search", "racing"),
            *("--schedule", "0-9", "--schedule", "0-4,10-14"),
        ),
        "transfers",
    ),
    ("a sweep", ("sweep", "--machine", "e5-2660v2x2", "--space", "threads"), "nothing"),
)


@dataclass(frozen=True)
class Outcome:
    """The output of the three runs of one kind."""

    name: str
    command: str
    random: str
    first: str
    again: str
    other: str

    @property
    def same(self) -> bool:
        """Whether one seed gave the same bytes twice."""
        return self.first == self.again


def digest(file: Path) -> str:
    """Return a file's digest; for a record without the seed, which it contains."""
    data = file.read_bytes()
    if file.suffix == ".json":
        written = json.loads(data)
        written["simulation"].pop("seed")
        data = json.dumps(written).encode()
    return hashlib.sha256(data).hexdigest()[:12]


def run(arguments: tuple[str, ...], seed: int, recording: Path, folder: Path) -> str:
    """Run once and return the digest of the output."""
    sweeping = arguments[0] == "sweep"
    file = folder / ("data.parquet" if sweeping else "run.json")
    file.unlink(missing_ok=True)
    # A sweep takes no seed: its transfers vary with a fixed one.
    target = ["-o", str(file)] if sweeping else ["--seed", str(seed), "--json", str(file)]
    output([str(PINFOLD), *arguments, "--quiet", *target, str(recording)])
    return digest(file)


def determinism(_quick: bool) -> Part:
    """Run everything three times."""
    outcomes = []
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        recording = folder / "stream.pft"
        record(list(PROGRAM), recording)
        for name, arguments, random in RUNS:
            first, again, other = (run(arguments, seed, recording, folder) for seed in (7, 7, 8))
            outcomes.append(Outcome(name, " ".join(arguments), random, first, again, other))
    same = sum(outcome.same for outcome in outcomes)
    text = (
        f"**Simulated**: the same seed gives the same bytes in {same} of {len(outcomes)} cases. Another seed gives "
        "other bytes where a run has random choices: those of the scheduler, and the latency of transfers between "
        "caches, which varies by up to a sixteenth. Digests are of the JSON record, or of the data set."
    )
    rows = [
        [
            outcome.name,
            outcome.first,
            outcome.again,
            outcome.other,
            "the same" if outcome.same else "**differs**",
            outcome.random,
        ]
        for outcome in outcomes
    ]
    columns = ["what", "seed 7", "seed 7 again", "seed 8", "one seed", "random"]
    data = {
        "deterministic": same == len(outcomes),
        "determinism": {
            "simulated": True,
            "runs": [
                {
                    "name": outcome.name,
                    "command": f"pinfold {outcome.command}",
                    "sha256": {"7": [outcome.first, outcome.again], "8": [outcome.other]},
                }
                for outcome in outcomes
            ],
        },
    }
    return Part(
        data,
        Table(columns, rows),
        text,
        ["pinfold run --machine clovertown --policy none --seed 7 --json run.json stream.pft"],
    )
