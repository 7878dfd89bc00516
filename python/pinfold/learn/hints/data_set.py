"""Reads the data sets for learning hints: one or more files of ``pinfold sweep``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet

from pinfold.joined import TOPOLOGIES
from pinfold.learn.hints.discretize import Floats
from pinfold.learn.hints.judging import Case, cases
from pinfold.learn.hints.machines import Machines
from pinfold.learn.hints.observations import (
    SPEED,
    Observation,
    behaviour_metrics,
    covered,
    read_observations,
    read_table,
)
from pinfold.learn.hints.rule_file import RuleMetric

VERSIONS = (2, 3)
"""Of the data sets that are read (docs/formats/data-sets.md)."""

EVENT = "event:"
INSTRUCTIONS = "event:instructions"

IPC = "ipc"
"""The performance in AutoFinity. Without it, as in measurements without counters, the performance is the speed."""

View = Literal["events", "events per instruction", "all metrics"]
"""The metrics that a policy sees: events per thread and second, as in AutoFinity (section 3.1); events per instruction;
or also ratios and rates.
"""


@dataclass(frozen=True)
class DataSet:
    """Cases, and the metrics of their counters."""

    cases: tuple[Case, ...]
    metrics: tuple[RuleMetric, ...]
    simulated: bool
    machines: Machines

    def seen(self, view: View) -> DataSet:
        """Return the same cases with the metrics that a policy may use.

        Raises:
            ValueError: if there is none.
        """
        if view == "all metrics":
            return self
        places = [place for place, metric in enumerate(self.metrics) if metric.name.startswith(EVENT)]
        if not places:
            raise ValueError("the data set has no events, columns whose names begin with `event:`: sweep again")
        metrics = tuple(self.metrics[place] for place in places)
        if view == "events":
            return self._with(metrics, lambda values: values[places])
        names = [metric.name for metric in self.metrics]
        if INSTRUCTIONS not in names:
            raise ValueError(f"the data set has no column `{INSTRUCTIONS}` to divide other events by: sweep again")
        instructions = names.index(INSTRUCTIONS)
        per_instruction = tuple(
            replace(metric, unit=f"{metric.unit.partition(' per ')[0]} per instruction", normalised="per_instruction")
            for metric in metrics
        )
        return self._with(per_instruction, lambda values: values[places] / values[instructions])

    def _with(self, metrics: tuple[RuleMetric, ...], counters: Callable[[Floats], Floats]) -> DataSet:
        def changed(one: Observation) -> Observation:
            return replace(one, counters=tuple(counters(np.array(one.counters)).tolist()))

        def of_case(case: Case) -> Case:
            return replace(case, observed={loads: changed(one) for loads, one in case.observed.items()})

        return replace(self, cases=tuple(map(of_case, self.cases)), metrics=metrics)

    def training(self, threads: int | None) -> list[Case]:
        """Return the cases with this number of threads, or all of them.

        Raises:
            ValueError: if there is none; the message names the existing numbers.
        """
        found = [case for case in self.cases if threads in (None, case.program.threads)]
        if not found:
            there = sorted({case.program.threads for case in self.cases})
            raise ValueError(f"no program has {threads} threads, only {', '.join(map(str, there))}: see --threads")
        return found


def read(files: Sequence[Path], binary: Path, models: Sequence[Path] = (), incomplete: bool = False) -> DataSet:
    """Read data sets of ``pinfold sweep``.

    Args:
        files: Parquet files (docs/formats/data-sets.md). The distribution of rows over files has no effect.
        binary: pinfold, which knows the machines.
        models: of machines that are not built into pinfold.
        incomplete: programs may have been observed in only some placements.

    Raises:
        ValueError: if a file is not valid; the message names the file and the reason.
    """
    for file in files:
        _require_data_set(file)
    table = covered(read_table(files))
    described = {name: machine for file in files for name, machine in _described(file).items()}
    machines = Machines(binary, sorted(set(table["machine"].to_pylist())), models, described)
    performance = IPC if IPC in table.column_names and table[IPC].null_count < table.num_rows else SPEED
    observations, metrics = read_observations(
        table, behaviour_metrics(table), machines.domains, performance=performance
    )
    simulated = any(_metadata(file)[b"pinfold.simulated"] == b"true" for file in files)
    return DataSet(tuple(cases(observations, machines.best_matches, incomplete)), tuple(metrics), simulated, machines)


def _metadata(file: Path) -> dict[bytes, bytes]:
    return pyarrow.parquet.read_schema(file).metadata or {}


def _described(file: Path) -> dict[str, str]:
    """Return the value of ``--machine`` for each machine whose topology a data set has."""
    topologies = json.loads(_metadata(file).get(TOPOLOGIES, b"{}"))
    return {
        name: f"synthetic:{topology['synthetic']}" if "synthetic" in topology else f"data:{file}@{name}"
        for name, topology in topologies.items()
    }


def _require_data_set(file: Path) -> None:
    try:
        metadata = _metadata(file)
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise ValueError(f"{file} cannot be read as a data set: {error}; `pinfold sweep -o` writes one") from error
    if b"pinfold.dataset" not in metadata:
        raise ValueError(f"{file} is Parquet, but not a data set of `pinfold sweep`: it has no metadata of pinfold")
    version = json.loads(metadata[b"pinfold.dataset"])
    if version not in VERSIONS:
        known = " and ".join(map(str, VERSIONS))
        raise ValueError(
            f"{file} is a data set of version {version}, this pinfold reads {known}: sweep again, or update"
        )
