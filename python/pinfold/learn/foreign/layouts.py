"""Where the threads of a foreign table are on its machine.

A table has one of three forms: the number of nodes and a map of threads, the PU of each rank, or OpenMP's variables.
Each gives the others, by the topology of the machine. The maps of threads are the policies' own (``pinfold._native``).
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pinfold._native import map_threads
from pinfold.learn.cpu_list import cpu_list
from pinfold.learn.foreign import openmp
from pinfold.learn.foreign.column_map import THREAD_MAPS


class Layout(NamedTuple):
    """A placement of threads.

    Attributes
    ----------
    pus : tuple of int
        The PU of each rank.
    nodes : int
        The number of nodes with threads.
    thread_map : str or None
        The map of threads that gives these PUs, or others of the same caches, if one does.
    threads_per_core : int
        The most ranks on one core.
    """

    pus: tuple[int, ...]
    nodes: int
    thread_map: str | None
    threads_per_core: int


@dataclass(frozen=True)
class MachineTopology:
    """The cores of a machine, from ``pinfold topo --json``.

    Attributes
    ----------
    name : str
        The machine, as the data set names it.
    described : mapping
        What the data set keeps: the topology, or hwloc's synthetic description of it.
    document : mapping
        The topology.
    """

    name: str
    described: Mapping[str, Any]
    document: Mapping[str, Any]

    @cached_property
    def cores(self) -> list[list[int]]:
        """The PUs of each core, in the order of the tree."""
        return self._objects("core")

    @cached_property
    def by_node(self) -> list[list[list[int]]]:
        """The PUs of each core of each node that has cores."""
        nodes = [set(cpu_list(node["pus"])) for node in self.document["nodes"] if node["pus"]]
        return [[core for core in self.cores if node.issuperset(core)] for node in nodes]

    @cached_property
    def _node_of(self) -> dict[int, int]:
        return {pu: node for node, cores in enumerate(self.by_node) for core in cores for pu in core}

    @cached_property
    def _core_of(self) -> dict[int, int]:
        return {pu: place for place, core in enumerate(self.cores) for pu in core}

    @cached_property
    def _cache_of(self) -> dict[int, int]:
        return {pu: place for place, cache in enumerate(self._objects("cache")) for pu in cache}

    @cached_property
    def places(self) -> dict[str, list[list[int]]]:
        """The PUs of each place, by the names of OpenMP."""
        caches = self._objects("cache")
        nodes = [cpu_list(node["pus"]) for node in self.document["nodes"] if node["pus"]]
        return {
            "threads": [[pu] for core in self.cores for pu in core],
            "cores": self.cores,
            "ll_caches": caches or self._objects("package"),
            "numa_domains": nodes,
            "sockets": self._objects("package"),
        }

    def _objects(self, kind: str) -> list[list[int]]:
        """Return the PUs of the outermost objects of a kind, in the order of the tree."""
        found: list[list[int]] = []

        def walk(item: Mapping[str, Any]) -> None:
            if item["kind"] == kind:
                found.append(cpu_list(item["pus"]))
                return
            for child in item["children"]:
                walk(child)

        walk(self.document["tree"])
        return found

    def mapped(self, threads: int, nodes: int, thread_map: str, on_a_core: int = 1) -> Layout:
        """Return the layout of threads that a map of threads places on the first nodes.

        Args:
            threads: the number of threads.
            nodes: the number of nodes.
            thread_map: the map of threads.
            on_a_core: the threads that a core gets before the next one is used. With 1, siblings are used when all
                cores of the nodes have a thread.

        Raises:
            ValueError: if the machine cannot have it.
        """
        if thread_map not in THREAD_MAPS:
            raise ValueError(f"`{thread_map}` is no map of threads: give {' or '.join(THREAD_MAPS)}")
        used = max(1, -(-threads // (max(nodes, 1) * on_a_core)))
        pus = map_threads([cores[:used] for cores in self.by_node], threads, nodes, thread_map)
        if pus is None:
            raise ValueError(
                f"{threads} threads on {nodes} nodes are impossible on {self.name}, which has {len(self.by_node)} nodes"
            )
        return self._layout(pus, thread_map)

    def pinned(self, pus: Sequence[int]) -> Layout:
        """Return the layout of threads on these PUs.

        Raises:
            ValueError: if the machine lacks one of them.
        """
        if unknown := sorted(set(pus) - set(self._core_of)):
            raise ValueError(f"{self.name} has no PU {unknown[0]}: check its topology")
        nodes, alike = len({self._node_of[pu] for pu in pus}), self._signature(pus)
        mapped = ((one, map_threads(self.by_node, len(pus), nodes, one)) for one in THREAD_MAPS)
        return self._layout(
            pus, next((one for one, other in mapped if other and self._signature(other) == alike), None)
        )

    def _signature(self, pus: Sequence[int]) -> tuple[object, ...]:
        """Return what is the same for pinnings that differ only in cores of the same cache."""
        nodes = tuple(self._node_of[pu] for pu in pus)
        on_caches = Counter(self._cache_of.get(pu, pu) for pu in pus)
        by_node = sorted((self._node_of[pu], on_caches[self._cache_of.get(pu, pu)]) for pu in pus)
        return nodes, self._on_a_core(pus), tuple(by_node)

    def _on_a_core(self, pus: Sequence[int]) -> int:
        return max(Counter(self._core_of[pu] for pu in pus).values())

    def bound(self, threads: int, places: str, bind: str) -> Layout:
        """Return the layout of an OpenMP program's threads.

        Raises:
            ValueError: if a variable of OpenMP has an unknown value.
        """
        return self.pinned(openmp.pinning(threads, openmp.places(places, self.places), bind, self._by_core))

    def _by_core(self, pus: Sequence[int]) -> list[int]:
        """Return the PUs of a place in the order in which ranks take them: the first ones of all cores first."""
        turn = {pu: core.index(pu) for core in self.cores for pu in core}
        return sorted(pus, key=lambda pu: (turn.get(pu, 0), pus.index(pu)))

    def _layout(self, pus: Sequence[int], thread_map: str | None) -> Layout:
        nodes = len({self._node_of[pu] for pu in pus})
        return Layout(tuple(pus), nodes, thread_map, self._on_a_core(pus))


def topology_of(binary: Path, name: str, described: str) -> MachineTopology:
    """Return the topology of a machine.

    Args:
        binary: the path of pinfold.
        name: the machine, as the data set names it.
        described: hwloc's synthetic description; or what ``pinfold topo --machine`` accepts, such as ``xml:FILE``.

    Raises:
        ValueError: if pinfold knows no such topology; the text has its message.
    """
    synthetic = described.removeprefix("synthetic:") if _is_synthetic(described) else None
    words = ["topo", "--json", "--machine", described if synthetic is None else f"synthetic:{synthetic}"]
    done = subprocess.run([str(binary), *words], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("error: ")
        raise ValueError(f"the topology of {name}, `{described}`, cannot be read: {said}")
    document = json.loads(done.stdout)
    found = MachineTopology(name, document if synthetic is None else {"synthetic": synthetic}, document)
    if not all(found.by_node):
        raise ValueError(
            f"the topology of {name}, `{described}`, has a NUMA node whose borders cut through cores, or none at all"
        )
    return found


def _is_synthetic(described: str) -> bool:
    """Return whether a text is a synthetic description: words of a kind and a number, with PUs at the end."""
    return described.startswith("synthetic:") or "pu:" in described.lower()


class Layouts:
    """The layouts on one machine. A table repeats a few of them in thousands of rows, so each is computed once."""

    def __init__(self, machine: MachineTopology) -> None:
        """Store the machine."""
        self.machine = machine
        self.mapped = lru_cache(maxsize=None)(machine.mapped)
        self.pinned = lru_cache(maxsize=None)(machine.pinned)
        self.bound = lru_cache(maxsize=None)(machine.bound)
