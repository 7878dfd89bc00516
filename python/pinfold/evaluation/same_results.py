"""Compares the results of two builds. If they are equal, sections of both can be on one page.

Run in the project's root, with a built checkout of another commit (``make build``)::

    python -m pinfold.evaluation.same_results CHECKOUT

Most changes of the sources change no simulated figure: another message, another calibration, another policy. But each
makes another binary, and the whole evaluation takes a night. Simulations are deterministic. So:

1. Programs are recorded once, by this build.
2. Both binaries execute the same commands on these recordings: each policy with and without noise, alone and side by
   side, all kinds of sweeps, and the analyses of a recording or a model.
3. If all outputs are equal, byte by byte, this is written to ``evaluation/same_results.json``. Sections that only
   simulate, and that the other build made, then count as made by this one. Otherwise the commands with different
   outputs are printed, and nothing is written.

Sections that measure the machine are not covered.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from os import sched_getaffinity
from pathlib import Path
from typing import Any

from pinfold.evaluation import provenance
from pinfold.evaluation.section import PINFOLD, Promise, here, record

FOUND = Path("evaluation/same_results.json")
RULES = "crates/policy/tests/data/two_rules.json"
PROGRAMS: dict[str, tuple[int | None, str]] = {
    "stream": (1, "--size 3M --iterations 2 --init serial"),
    "graph_chase": (1, "--mode update --size 1M --iterations 1"),
    "false_sharing": (0, "--size 32k --iterations 2"),
    "spmv": (1, "--size 2M --iterations 2 --init serial"),
    "pipeline": (None, "--size 64k --iterations 20"),
    "hubench": (0, "--size 16k --iterations 2"),
}
"""The programs, with the region that has their work, and their arguments."""

THREADS = 8
PINNED = f"--policy fixed --threads {THREADS} --schedule"
TIMES = "--initialise 1s -t 2s --warm-up 1s --repeat 20000"

ALONE = (
    f"run --machine opteron-6164x4 {PINNED} packed --repeat 20",
    f"run --machine e5-4650x4 {PINNED} distributed --repeat 20 --page-map interleave",
    "run --machine e5-4650x4 --policy none --repeat 200 --seed 3",
    f"run --machine opteron-6164x4 --policy autopin --noise 6 {TIMES}",
    f"run --machine barcelona --policy autopin --search racing --noise 6 {TIMES}",
    f"run --machine opteron-6164x4 --policy hints:rules --rules {RULES} --noise 6 {TIMES}",
    f"run --machine opteron-6164x4 --policy hints:rules --rules {RULES} --unverified --observe SLP {TIMES}",
    f"run --machine e5-4650x4 --policy classify:forest --noise 6 {TIMES}",
    f"run --machine e5-4650x4 --policy sam --noise 6 {TIMES}",
    "run --machine opteron-6164x4 --policy auto --noise 6 --repeat 20000",
    "sweep --machine e5-4650x4 --space threads --limit 6",
    "sweep --machine e5-2680v3x2 --space threads --limit 4 --sampled",
    "sweep --machine e5-4650x4 --space placement",
    "trace metrics --json",
    "trace metrics --paper denoyelle --json --machine e5-2680v3x2",
)
"""Commands on one recording. ``sweep`` writes a data set, and the others JSON."""

REGIONS = (f"run --machine e5-4650x4 --policy react --noise 6 {TIMES}",)
"""Commands on one recording with parallel regions."""

TOGETHER = (
    f"run --machine e5-2660v2x2 --policy sam --noise 6 {TIMES}",
    "run --machine e5-4650x4 --policy none --repeat 200",
)
"""Commands on two recordings, side by side."""

WITHOUT = (
    "placements --machine opteron-6164x4 --threads 8 --leeway 2 --json",
    "calibrate --thresholds --machine e5-2660v2x2",
)
"""Commands on no recording."""


@dataclass(frozen=True)
class Same:
    """The evidence that two builds give the same results.

    Attributes
    ----------
    build : str
        The other build, as :func:`pinfold.evaluation.provenance.build` names it.
    binary : str
        The start of its binary's SHA-256, which names kept results.
    commit : str
        A commit that makes it.
    runs : int
        The number of commands whose outputs were compared.
    """

    build: str
    binary: str
    commit: str
    runs: int

    @classmethod
    def as_this(cls, build: str) -> Same | None:
        """Return the build that was compared with this one, if there is one.

        Args:
            build: this build.
        """
        found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
        return cls(**found["same_as"]) if found.get("build") == build else None

    def restamped(self, data: dict[str, Any], now: provenance.Provenance) -> dict[str, Any]:
        """Return the content of a section of the other build as one of this build."""
        made_by = {"commit": self.commit, "build": self.build, "runs": self.runs}
        return {**data, "commit": now.commit, "build": now.build, "made_by": made_by}


def compare(binaries: Sequence[Path], folder: Path) -> tuple[list[str], list[str]]:
    """Execute all commands with both binaries; return all commands, and the commands with different outputs."""
    recordings = {name: folder / f"{name}.pft" for name in PROGRAMS}
    for name, file in recordings.items():
        region, words = PROGRAMS[name]
        program = [f"target/workloads/{name}", "--threads", str(THREADS), *words.split()]
        record(program, file, *([] if region is None else ["--region", str(region)]))
    files = list(recordings.values())
    commands = [(words, [file]) for words in ALONE for file in files]
    with_regions = [recordings[name] for name, (region, _) in PROGRAMS.items() if region is not None]
    commands += [(words, [file]) for words in REGIONS for file in with_regions]
    commands += [(words, [one, other]) for words in TOGETHER for one, other in pairwise(files)]
    commands += [(words, []) for words in WITHOUT]
    with ThreadPoolExecutor(len(sched_getaffinity(0))) as pool:
        outputs = [list(pool.map(partial(_output, binary, folder), commands)) for binary in binaries]
    texts = [" ".join([words, *(file.name for file in on)]) for words, on in commands]
    return texts, [text for text, one, other in zip(texts, *outputs, strict=True) if one != other]


def _output(binary: Path, folder: Path, command: tuple[str, Sequence[Path]]) -> bytes:
    words, recordings = command
    with tempfile.TemporaryDirectory(dir=folder) as directory:
        file = Path(directory) / "output"
        options: list[str] = []
        if words.startswith("run"):
            options = ["--quiet", "--db", f"{directory}/db", "--json", str(file)]
        elif words.startswith("sweep"):
            options = ["--quiet", "--jobs", "1", "-o", str(file.with_suffix(".parquet"))]
        elif words.startswith("calibrate"):
            options = ["-o", str(file.with_suffix(".toml"))]
        done = subprocess.run(
            [str(binary), *words.split(), *options, *map(str, recordings)], check=False, capture_output=True
        )
        if done.returncode != 0:
            sys.exit(f"`{binary} {words}` ended with status {done.returncode}:\n{done.stderr.decode()}")
        return b"".join([done.stdout, *(made.read_bytes() for made in sorted(Path(directory).glob("output*")))])


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and write the result; return the exit status: 1 if the results differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT", help="a checkout of the other commit, built")
    checkout = parser.parse_args(arguments).checkout
    with tempfile.TemporaryDirectory() as directory:
        commands, different = compare([PINFOLD, checkout / PINFOLD], Path(directory))
    if different:
        print(*(f"different: {text}" for text in different), sep="\n", file=sys.stderr)
        return 1
    now = provenance.Provenance.current(Path(), reduced=False)
    binary = provenance.digest(checkout / PINFOLD)[:12]
    same = Same(provenance.build(checkout), binary, provenance.commit(checkout), len(commands))
    promises = [
        Promise("commands with the same output by both builds", len(commands), "", f"all {len(commands)}", held=True),
    ]
    document = {
        "commit": now.commit,
        "build": now.build,
        "machine": here(),
        "promises": [asdict(one) for one in promises],
        "same_as": asdict(same),
        "commands": commands,
    }
    FOUND.write_text(json.dumps(document, indent=2) + "\n")
    print(f"{len(commands)} commands have the same output; written to {FOUND}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
