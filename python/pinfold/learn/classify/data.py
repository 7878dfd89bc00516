"""Makes and reads the data sets of ``classify``: programs in all strategies, with the observations of the policy.

``pinfold sweep --space placement`` has the times. A model sees the observations of ``pinfold run --policy
classify:forest`` under the default strategy. So the recording runs under the policy, without a model, and its record is
read. The metrics of Denoyelle et al. (ICPP 2019, table 2) come from the recording.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow
import pyarrow.parquet

from pinfold.joined import joined
from pinfold.learn import tables
from pinfold.learn.classify.features import MACHINE, PROGRAM
from pinfold.learn.classify.strategies import STRATEGIES, Example, examples
from pinfold.learn.tables import INSTRUMENTATION, OBSERVED

DEFAULT = (None, *STRATEGIES[0])
"""Region, map of threads and mapping of pages of the rows of whole programs in the default strategy."""

OBSERVED_SECONDS = 8
"""The virtual time of a run that observes a program. The program initialises, is measured unpinned, warms up and is
observed in the default strategy, each for a second; unpinned it may be twice as fast.
"""

LEAST_PROGRAMS = 3
"""With fewer, nothing can be held out to judge a model."""


def observe(binary: Path, recording: Path, machine: str) -> pyarrow.Table:
    """Sweep a recording in all strategies, and observe it.

    Args:
        binary: the path of pinfold.
        recording: a recording with a thread for each core of the machine.
        machine: the name of a machine, or the file of its model.

    Returns:
        The rows of the sweep. The metrics of table 2 and the observations are columns of all rows.

    Raises:
        ValueError: if pinfold fails; the text is its error output. Or if there is nothing to observe.
    """
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        rows = folder / "rows.parquet"
        words = ["--machine", machine, "--space", "placement", "--jobs", "1", "--quiet"]
        _run(binary, "sweep", *words, "-o", str(rows), str(recording))
        table = pyarrow.parquet.read_table(rows)
        metrics = ["trace", "metrics", "--paper", "denoyelle", "--json", "--machine", machine, str(recording)]
        instrumented = json.loads(_run(binary, *metrics))["metrics"]
    values = {name: instrumented[name] for name in INSTRUMENTATION}
    return with_columns(table, values | sampled(binary, recording, machine, default_seconds(table)))


def default_seconds(table: pyarrow.Table) -> float:
    """Return the time of the whole program in the default strategy, from the rows of its sweep."""
    whole = table.select(["region", "thread_map", "page_map", "time_s"]).to_pylist()
    (seconds,) = (row["time_s"] for row in whole if (row["region"], row["thread_map"], row["page_map"]) == DEFAULT)
    return float(seconds)


def sampled(binary: Path, recording: Path, machine: str, seconds: float) -> dict[str, float | None]:
    """Observe a recording under the default strategy, as the policy does.

    Args:
        binary: the path of pinfold.
        recording: a recording with a thread for each core of the machine.
        machine: the name of a machine, or the file of its model.
        seconds: the time of the recording in the default strategy.

    Returns:
        What was observed, by the names of columns; None is not known.

    Raises:
        ValueError: if pinfold fails; the text is its error output. Or if there is nothing to observe.
    """
    with tempfile.TemporaryDirectory() as directory:
        sample = Path(directory) / "run.json"
        words = ["--quiet", "--machine", machine, "--policy", "classify:forest", "--placement-model", "none"]
        words += ["--initialise", "1s", "--probe", "1s", "--warm-up", "1s"]
        words += ["--repeat", str(math.ceil(OBSERVED_SECONDS / seconds))]
        _run(binary, "run", *words, "--json", str(sample), str(recording))
        record = json.loads(sample.read_text())
        if "forecast" not in record:
            why = (record.get("ended_early") or {}).get("why") or "it idles"
            raise ValueError(f"the policy classify cannot observe it: {why}")
    return {OBSERVED + one["name"]: one["value"] for one in record["forecast"]["observed"]}


def _run(binary: Path, *words: str) -> str:
    done = subprocess.run([str(binary), *words], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip() or f"`pinfold {' '.join(words)}` ended with status {done.returncode}")
    return done.stdout


def with_columns(table: pyarrow.Table, values: Mapping[str, float | None]) -> pyarrow.Table:
    """Return a table with columns that have one value in all rows; None is null.

    They replace columns of the same names.
    """
    for name, value in values.items():
        if name in table.column_names:
            table = table.drop_columns([name])
        table = table.append_column(name, pyarrow.array([value] * table.num_rows, pyarrow.float64()))
    return table


def read_programs(files: Sequence[Path]) -> list[Example]:
    """Read the programs of data sets, sorted: the distribution of rows over files has no effect.

    Raises:
        ValueError: if a file lacks the columns of such a data set; the message names it.
    """
    found = [tables.to_learn(file) for file in files]
    needed = ["region", "program", "command", "machine", "num_threads", "thread_map", "page_map", "time_s"]
    needed += ["window_covers", *(OBSERVED + name for name in (*PROGRAM, *MACHINE))]
    for file, table in zip(files, found, strict=True):
        tables.require(file, table, needed, "placements: make one with `pinfold learn observe classify`")
    return ordered(examples(joined(found)))


def ordered(found: Sequence[Example]) -> list[Example]:
    """Return programs in an order of their own, so that the same ones always give the same model."""
    return sorted(found, key=lambda one: (one.program, one.command, one.machine, one.threads))


def read(files: Sequence[Path]) -> list[Example]:
    """Read the programs to learn from: their recorded windows stand for them.

    Raises:
        ValueError: if the programs are too few; the message names what to add.
    """
    every = read_programs(files)
    found = [one for one in every if one.covers]
    programs = {one.program for one in found}
    if len(programs) < LEAST_PROGRAMS:
        left_out = len(every) - len(found)
        without = f" ({left_out} inputs are left out, whose windows do not cover their programs)" if left_out else ""
        raise ValueError(
            f"the data has {len(programs)} programs{without}: at least {LEAST_PROGRAMS} are needed, and many more for "
            "a model that is sure of anything"
        )
    if len({one.is_sensitive for one in found}) == 1:
        kind = "sensitive" if found[0].is_sensitive else "insensitive"
        raise ValueError(f"all programs of the data are {kind} to placement: add programs of the other class")
    return found
