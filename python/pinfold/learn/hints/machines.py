"""Machines, from the output of the binary: the places of their PUs, and the placements of affinity hints.

``pinfold topo --json`` and ``pinfold placements --hint`` give them; each is run once.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pinfold.learn.hints.hint import HINTS, Hint
from pinfold.learn.hints.llc_domains import LlcDomains, Loads

STATIC_FIRST = tuple(sorted(HINTS, key=lambda hint: str(hint) not in ("SLP", "slp")))
"""All hints. Among hints of the same placement, AutoFinity's static policies go first."""


class Machines:
    """The machines of a data set, read from the binary by their names."""

    def __init__(
        self,
        binary: Path,
        names: Sequence[str],
        files: Sequence[Path] = (),
        described: Mapping[str, str] | None = None,
    ) -> None:
        """Store the parameters.

        Args:
            binary: the path of pinfold.
            names: the machines of the data set.
            files: models of those machines that are not built into pinfold.
            described: the values of ``--machine`` of those machines whose topologies the data set has.
        """
        self._binary = binary
        self._names = list(names)
        self._files = list(files)
        self._described = dict(described or {})
        self.best_matches = lru_cache(maxsize=None)(self._best_matches)

    @cached_property
    def _spelled(self) -> Mapping[str, tuple[str, ...]]:
        """The arguments that select each machine; none for this machine."""
        own: dict[str, tuple[str, ...]] = {
            self._ask("topo", "--machine", str(file))["name"]: ("--machine", str(file)) for file in self._files
        }
        for name, machine in self._described.items():
            own.setdefault(name, ("--machine", machine))
        own.setdefault(self._ask("topo")["name"], ())
        return {name: own.get(name, ("--machine", name)) for name in self._names}

    @cached_property
    def domains(self) -> Mapping[str, LlcDomains]:
        """The domains of each machine's PUs."""
        return {name: LlcDomains.of_topology(self._ask("topo", *spelled)) for name, spelled in self._spelled.items()}

    def _best_matches(self, machine: str, threads: int) -> Mapping[Hint, Loads]:
        """Return the placement of each hint: GETAFFINITY (Moore and Childers, 2012, figure 5).

        Threads that outnumber PUs use the PUs again from the first, as in data sets.
        """
        domains = self.domains[machine]
        placed = min(threads, len(domains.domain))
        matches = {}
        for hint in STATIC_FIRST:
            asked = ("--threads", str(placed), "--hint", str(hint))
            (placement,) = self._ask("placements", *self._spelled[machine], *asked)["placements"]
            pus = placement["pus"]
            matches[hint] = domains.loads([pus[rank % placed] for rank in range(threads)])
        return matches

    def _ask(self, *arguments: str) -> Any:
        command = [str(self._binary), *arguments, "--json"]
        answer = subprocess.run(command, check=False, capture_output=True, text=True)
        if answer.returncode != 0:
            raise ValueError(
                f"`{' '.join(command)}` ended with status {answer.returncode}: {answer.stderr.strip()} "
                "(give the model of a machine that is not built in: `--machine FILE.toml`)"
            )
        return json.loads(answer.stdout)
