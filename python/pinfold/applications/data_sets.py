"""Makes data sets of the recordings: one for development and one for judging.

1. Sweep each recording on its own on machines of four nodes, unless that was done before with the same recording and
   the same binary: first in one placement, then in a few more on each machine whose rows say that the window covers the
   program. The rows of other machines are flagged, and nothing is learned from them or judged with them.
2. Give the rows the names of application, run and phase instead of a file and a command line.
3. Write the rows of each part of the split to one file, with the versions of everything in it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from pinfold.applications.description import Application, Phase, Run
from pinfold.applications.places import Places
from pinfold.applications.recording import FailedError
from pinfold.joined import joined
from pinfold.split import Part

MACHINES = ("opteron-6164x4", "e5-4650x4")
"""Two machines of four packages, of different makers and generations."""

LIMIT = 6
"""Placements of the threads, the most different ones."""

SWEEP_SECONDS = 1800


@dataclass(frozen=True)
class Rows:
    """The rows of one recording, with its application, run and phase."""

    application: Application
    description: dict[str, Any]
    table: pyarrow.Table


def sweep(application: Application, run: Run, phase: Phase, places: Places) -> bool:
    """Sweep a recording, unless that was done; return whether it was done now.

    Raises:
        FailedError: if the sweep fails.
    """
    recording = places.recording(run, phase)
    rows, key_file = recording.with_suffix(".parquet"), recording.with_suffix(".swept")
    key = _key(recording, places)
    if rows.exists() and key_file.exists() and key_file.read_text() == key:
        return False
    started = time.monotonic()
    title = run.title(phase)
    one = rows.with_suffix(".one")
    output = ["-o", str(one), str(recording)]
    _sweep(title, places, "--machine", ",".join(MACHINES), "--limit", "1", *output)
    table = pyarrow.parquet.read_table(one)
    covering = set(table.filter(pyarrow.compute.field("window_covers"))["machine"].to_pylist())
    if covering:
        some = rows.with_suffix(".some")
        machines = [machine for machine in MACHINES if machine in covering]
        output = ["-o", str(some), str(recording)]
        _sweep(title, places, "--machine", ",".join(machines), "--limit", str(LIMIT), *output)
        flagged = table.filter(~pyarrow.compute.field("machine").isin(machines))
        pyarrow.parquet.write_table(joined([pyarrow.parquet.read_table(some), flagged]), some)
        one.unlink()
        one = some
    one.rename(rows)
    key_file.write_text(key)
    rows.with_suffix(".seconds").write_text(f"{time.monotonic() - started:.1f}\n")
    return True


def _sweep(title: str, places: Places, *options: str) -> None:
    words = [str(places.pinfold), "sweep", "--space", "threads", "--quiet", "--force", *options]
    try:
        done = subprocess.run(
            ["nice", "-n", "10", *words], check=False, capture_output=True, text=True, timeout=SWEEP_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"{title}: the sweep has not ended after {SWEEP_SECONDS} s") from error
    if done.returncode != 0:
        raise FailedError(f"{title}: {done.stderr.strip()}")


def _key(recording: Path, places: Places) -> str:
    digest = hashlib.sha256(f"{MACHINES} {LIMIT}".encode())
    for file in (recording, places.pinfold):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:32]


def read_rows(application: Application, run: Run, phase: Phase, places: Places) -> Rows | None:
    """Read the rows of a recording, named after application, run and phase; None without rows."""
    recording = places.recording(run, phase)
    rows, described = recording.with_suffix(".parquet"), recording.with_suffix(".json")
    if not (rows.exists() and described.exists()):
        return None
    table = named(pyarrow.parquet.read_table(rows), application.name, run.title(phase))
    return Rows(application, json.loads(described.read_text()), table)


def named(table: pyarrow.Table, program: str, command: str) -> pyarrow.Table:
    """Return a table whose rows have these names of program and command."""
    for column, value in (("program", program), ("command", command)):
        values = pyarrow.array([value] * table.num_rows, pyarrow.string())
        table = table.set_column(table.column_names.index(column), column, values)
    return table


def write(found: Iterable[Rows], places: Places) -> list[Path]:
    """Write the data set of each part that has rows; return the files."""
    found = list(found)
    places.data.mkdir(parents=True, exist_ok=True)
    written = []
    for part in get_args(Part):
        of_part = [rows for rows in found if rows.application.part == part]
        if of_part:
            file = places.data / f"{part}.parquet"
            pyarrow.parquet.write_table(_joined(of_part, places), file, compression="zstd", compression_level=19)
            written.append(file)
    return written


def _joined(found: list[Rows], places: Places) -> pyarrow.Table:
    table = joined([rows.table for rows in found])
    provenance = json.dumps(_provenance(found, places), sort_keys=True).encode()
    return table.replace_schema_metadata(table.schema.metadata | {b"pinfold.applications": provenance})


def _provenance(found: list[Rows], places: Places) -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=places.root, check=False, capture_output=True, text=True
    ).stdout.strip()
    return {
        "commit": commit,
        "pinfold": hashlib.sha256(places.pinfold.read_bytes()).hexdigest()[:32],
        "part": found[0].application.part,
        "applications": {
            rows.application.name: {
                "field": rows.application.field,
                "licence": rows.application.licence,
                "versions": rows.description["versions"],
            }
            for rows in found
        },
    }
