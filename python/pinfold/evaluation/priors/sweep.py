"""The sweep: programs are recorded, and simulated on machines in the configurations of a space.

In the space of ``auto`` each program is recorded once, and simulated on every machine in all configurations. It fills
all, a half or a quarter of a machine, in turn over machines and programs. In the whole space
(:mod:`pinfold.evaluation.priors.whole`) it is recorded with each number of threads. Each program has its own random
draw of each machine. Results are in ``target/evaluation/priors``, in a folder for each build of pinfold, with a data
set for each program; existing ones are not made again. The data set of all of them can be made at any time, from the
programs that are there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from pinfold.applications.recording import FailedError
from pinfold.evaluation.build_folder import build_folder
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.priors import machines, whole
from pinfold.evaluation.priors.configurations import Configuration, of_auto, space
from pinfold.evaluation.priors.design import Program
from pinfold.evaluation.priors.machines import MODELS, SHARES
from pinfold.evaluation.section import PINFOLD
from pinfold.joined import joined
from pinfold.learn.cpu_list import cpu_list
from pinfold.tables import Table

RESULTS = Path("target/evaluation/priors")

PRECISION = "5%"
"""The half-width of the intervals of sampled times."""

REGION = "1"
"""The region with the work: the second that begins."""

KEPT = (
    "machine", "program", "region", "num_threads", "num_nodes", "threads_per_core", "thread_map", "page_map",
    "prefetch", "time_s", "pinning", "simulated", "command", "window_covers", "time_error",
)  # fmt: skip
"""The columns of a data set that are kept."""

PASSIVE = {"OMP_WAIT_POLICY": "passive"}
"""Threads wait without spinning: how long a thread spins while a program is recorded says nothing of the program."""


@dataclass(frozen=True)
class Subject:
    """A recorded program, on a machine.

    Attributes
    ----------
    program : str
        Its name in the data set.
    recording : Path
        Its recording.
    model : dict
        The model of the machine.
    joined : str or None
        What its recordings with other numbers of threads have in common; None if there are none.
    """

    program: str
    recording: Path
    model: machines.Model
    joined: str | None = None


@dataclass(frozen=True)
class Cost:
    """What a step took, in seconds of all processors."""

    machine: str
    configurations: int
    seconds: float


def share_of(program: int, machine: int) -> float:
    """Return the share of a machine's cores that a program fills: each in turn.

    >>> [share_of(0, machine) for machine in range(3)], share_of(1, 0)
    ([1.0, 0.5, 0.25], 0.5)
    """
    return SHARES[(program + machine) % len(SHARES)]


def folder(results: Path = RESULTS) -> Path:
    """Return the folder of this build, or of one that gives the same results."""
    return build_folder(results)


@dataclass(frozen=True)
class Study:
    """What is simulated of each program.

    Attributes
    ----------
    name : str
        The name of its data set.
    make : callable
        Gets a program, and the file for its data set.
    """

    name: str
    make: Callable[[Program, Path], None]

    def data_of(self, program: Program, results: Path) -> Path:
        """Return the data set of a program."""
        return folder(results) / self.name / f"{program.number:04}.parquet"


def auto_study(models: Sequence[str] = MODELS) -> Study:
    """Return the space of ``auto`` on some machines."""
    name = "priors" if tuple(models) == MODELS else "priors-quick"
    return Study(name, partial(_sweep_auto, models))


WHOLE = "priors-whole"


def whole_study() -> Study:
    """Return the whole space."""
    return Study(WHOLE, _sweep_whole)


def sweep(
    programs: Sequence[Program], study: Study, jobs: int | None = None, results: Path = RESULTS
) -> dict[str, str]:
    """Sweep the missing programs, some of them at the same time.

    Args:
        programs: the programs.
        study: what is simulated.
        jobs: how many programs are swept at the same time; None: as many as there are CPUs.
        results: gets a folder for the build.

    Returns:
        the reasons of programs without results.

    Raises:
        KeyboardInterrupt: if the user stops it, after the programs that are being swept are done.
    """
    missing = [one for one in programs if not _is_done(one, study, results)]
    started, done = perf_counter(), len(programs) - len(missing)
    pool = ThreadPoolExecutor(jobs or len(os.sched_getaffinity(0)))
    try:
        for number, program in enumerate(pool.map(partial(_swept, study=study, results=results), missing), done + 1):
            each = (perf_counter() - started) / (number - done)
            left = each * (len(programs) - number) / 60
            print(
                f"{study.name}: {number} of {len(programs)}: {program.name}, {each:.1f} s each, {left:.0f} min left",
                file=sys.stderr,
                flush=True,
            )
    finally:
        pool.shutdown(cancel_futures=True)
    failures = {one.name: study.data_of(one, results).with_suffix(".failed") for one in programs}
    return {name: file.read_text() for name, file in failures.items() if file.exists()}


def _is_done(program: Program, study: Study, results: Path) -> bool:
    data = study.data_of(program, results)
    return data.exists() or data.with_suffix(".failed").exists()


def _swept(program: Program, study: Study, results: Path) -> Program:
    data = study.data_of(program, results)
    try:
        made_once(data, partial(study.make, program))
    except FailedError as error:
        data.with_suffix(".failed").write_text(str(error))
    return program


def _sweep_auto(models: Sequence[str], program: Program, data: Path) -> None:
    """Record a program and simulate it on all machines in the space of ``auto``."""
    with TemporaryDirectory(dir=data.parent) as temporary:
        recording = Path(temporary) / "program.pft"
        tables, costs = [], [Cost("", 0, record(program.words, recording))]
        for number, name in enumerate(models):
            cores = round(program.threads / share_of(program.number, number))
            cut, shape = machines.cut_down(machines.read(name), cores)
            draw = np.random.default_rng([machines.SEED, program.number, number])
            subject = Subject(program.name, recording, machines.varied(cut, draw))
            chosen = of_auto(shape, program.threads)
            table, seconds = simulate(subject, chosen, chosen[0], Path(temporary))
            tables.append(table)
            costs.append(Cost(name, table.num_rows, seconds))
        pyarrow.parquet.write_table(with_costs(joined(tables), costs), data, compression="zstd")


def _sweep_whole(program: Program, data: Path) -> None:
    """Record a program with each number of threads, and simulate it on its machines in a part of the whole space."""
    with TemporaryDirectory(dir=data.parent) as temporary:
        recordings: dict[int, Path] = {}
        tables, costs, recorded = [], [], 0.0
        for number, name in enumerate(whole.models_of(program.number)):
            cut, shape = machines.cut_down(machines.read(name), whole.CORES)
            draw = np.random.default_rng([whole.SEED, machines.SEED, program.number, number])
            model = machines.varied(cut, draw)
            chosen = whole.drawn(shape, whole.prefetcher_settings(model), program.number, number)
            found, seconds = [], 0.0
            for threads, configurations in whole.by_threads(chosen).items():
                if threads not in recordings:
                    recordings[threads] = Path(temporary) / f"{threads}.pft"
                    recorded += record(program.divided(threads).words, recordings[threads])
                subject = Subject(program.name, recordings[threads], model, program.joined_command)
                table, took = simulate(subject, configurations, chosen[0], Path(temporary))
                found.append(table)
                seconds += took
            table = joined(found)
            if not pyarrow.compute.all(table.filter(table["baseline"])["window_covers"]).as_py():
                raise FailedError(f"the window of its baseline on {name} does not stand for the program")
            tables.append(table)
            costs.append(Cost(name, table.num_rows, seconds))
        every = [Cost("", 0, recorded), *costs]
        pyarrow.parquet.write_table(with_costs(joined(tables), every), data, compression="zstd")


def record(words: Sequence[str], recording: Path, region: str = REGION) -> float:
    """Record a region of a program; return the seconds that this took of all processors.

    Raises:
        FailedError: if the program cannot be recorded.
    """
    command = [str(PINFOLD), "record", "-o", str(recording), "--region", region, "--", *words]
    return _timed(command, recording.parent / "said")


def simulate(
    subject: Subject, configurations: Sequence[Configuration], baseline: Configuration, folder: Path
) -> tuple[pyarrow.Table, float]:
    """Simulate a recording in some configurations; return the rows, and the seconds of all processors.

    The rows have the shares of the machine that each configuration uses, because others do not know the model.

    Raises:
        FailedError: if it cannot be simulated.
    """
    model, spaces, data = folder / "machine.toml", folder / "space.toml", folder / "data.parquet"
    model.write_text(machines.text(subject.model), encoding="utf-8")
    spaces.write_text(space(configurations), encoding="utf-8")
    words = ["sweep", "--quiet", "--force", "--jobs", "1", "--sampled", "--precision", PRECISION]
    words += ["--machine", str(model), "--space", str(spaces), "-o", str(data), str(subject.recording)]
    seconds = _timed([str(PINFOLD), *words], folder / "said")
    table = pyarrow.parquet.read_table(data)
    places = {one.placement.pus: one.placement for one in configurations}
    reference = (baseline.placement.pus, baseline.page_map, baseline.prefetch)
    rows = [row for row in table.select(KEPT).to_pylist() if row["region"] is None]
    for row in rows:
        pus = tuple(cpu_list(row["pinning"]))
        point = places[pus].point
        row |= {
            "program": subject.program,
            "thread_map": point.thread_map,
            "thread_share": point.threads,
            "core_share": point.cores,
            "node_share": point.nodes,
            "llc_share": point.llcs,
            "baseline": (pus, row["page_map"], row["prefetch"]) == reference,
        }
        if subject.joined is not None:
            row["joined_command"] = subject.joined
    made = pyarrow.Table.from_pylist(rows).replace_schema_metadata(table.schema.metadata)
    return made, seconds


def _timed(command: Sequence[str], output: Path) -> float:
    """Run a command, and return the seconds that it took of all processors.

    Raises:
        FailedError: if it fails; the message is its output.
    """
    with output.open("w+") as said:
        # An interrupt at the terminal does not end it: what has begun is finished.
        environment = os.environ | PASSIVE
        process = subprocess.Popen(command, stdout=said, stderr=said, env=environment, start_new_session=True)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise FailedError(f"{' '.join(command[:2])}: {said.read().strip()}")
    return usage.ru_utime + usage.ru_stime


COSTS = b"pinfold.priors"
"""The metadata of a data set with the cost of its program."""


def with_costs(table: pyarrow.Table, costs: Sequence[Cost]) -> pyarrow.Table:
    """Return a data set with its costs as metadata."""
    said = json.dumps([asdict(one) for one in costs]).encode()
    return table.replace_schema_metadata({**(table.schema.metadata or {}), COSTS: said})


def collect(programs: Sequence[Program], study: Study, results: Path, file: Path) -> list[Cost]:
    """Write the data set of the programs that are there, and return their costs.

    Raises:
        ValueError: if there is none.
    """
    there = [data for one in programs if (data := study.data_of(one, results)).exists()]
    tables = [pyarrow.parquet.read_table(data) for data in there]
    if not tables:
        raise ValueError(f"no program was swept: {folder(results)} has no data set")
    costs = [Cost(**one) for table in tables for one in json.loads(table.schema.metadata[COSTS])]
    pyarrow.parquet.write_table(joined(tables), file, compression="zstd")
    return costs


def costs_table(costs: Sequence[Cost]) -> Table:
    """Return the costs of recordings and simulations, for a program."""
    rows = []
    for machine in dict.fromkeys(one.machine for one in costs):
        here = [one for one in costs if one.machine == machine]
        seconds = np.array([one.seconds for one in here])
        configurations = np.mean([one.configurations for one in here])
        rows.append(
            [
                machine or "recording",
                str(len(here)),
                f"{configurations:.1f}" if machine else "",
                f"{seconds.mean():.2f}",
                f"{np.median(seconds):.2f}",
                f"{seconds.max():.2f}",
            ]
        )
    columns = ["", "programs", "configurations", "mean", "median", "most"]
    return Table(columns, rows, "Seconds of processors for a program:")
