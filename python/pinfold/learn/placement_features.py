"""What a model of placements sees: a program under the default strategy, its machine, and a strategy.

All features are ratios: counts per instruction, access or cycle, traffic over what the machine can carry, and numbers
that describe the machine. So a model can be used on a machine from which it was not learned.
"""

from __future__ import annotations

import heapq
import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pinfold.learn.strategies import STRATEGIES, Example, Strategy

Floats = npt.NDArray[np.float64]

PROGRAM = {
    "ipc": "instructions per unhalted cycle",
    "LD_INSTANT": "loads per unhalted cycle",
    "SR_INSTANT": "stores per unhalted cycle",
    "L1_MISS_REL": "L1 misses per access",
    "L2_MISS_REL": "L2 misses per access",
    "L3_MISS_REL": "L3 misses per access",
    "NODE_MISS_REL": "accesses served by the memory of another node, per access",
    "stalled": "cycles in which a core waits for a miss, per unhalted cycle",
    "intra_package_coherence": "accesses served by another core of the package, per access",
    "inter_package_coherence": "accesses served by a cache of another package, per access",
    "remote_share": "bytes from memory of other nodes, over those from all memory, by demand misses",
    "memory_load": "traffic of all memory, over what all memory can carry",
    "busiest_memory_load": "traffic of the busiest node's memory, over what it can carry",
    "memory_imbalance": "traffic of the busiest node's memory, over the mean of all nodes",
    "busiest_link_load": "traffic of the busiest link between nodes, over what it can carry",
    "footprint_over_caches": "memory that the program uses, over all last-level caches",
}
"""Of a program under the default strategy: names and meanings."""

MACHINE = {
    "nodes": "NUMA nodes",
    "cores_per_node": "cores of a node",
    "latency_ratio": "latency of other nodes' memory in the mean, over that of the own",
    "memory_bytes_per_cycle": "bytes that a node's memory can carry per cycle and core",
    "link_over_memory": "what the narrowest link between nodes can carry, over a node's memory",
}
"""Of a machine."""

STRATEGY = {"scatter": "1 if neighbouring threads are on different nodes", "interleave": "1 if pages are interleaved"}
"""Of a strategy."""

FEATURES = (*PROGRAM, *MACHINE, *STRATEGY)
"""All features, in their order."""


@dataclass(frozen=True)
class Peaks:
    """What a machine has, and what it can carry.

    Attributes
    ----------
    nodes, cores_per_node : int
        Their numbers.
    frequency : float
        Of a core, in Hz.
    node_bandwidth : float
        Of a node's memory, in bytes per second.
    link_bandwidths : tuple of float
        Of each link between nodes, in the order of ``Example.link_bytes``, in bytes per second.
    local_latency, remote_latency : float
        Of the own node's memory, and the mean of those of all other nodes, in seconds.
    """

    nodes: int
    cores_per_node: int
    frequency: float
    node_bandwidth: float
    link_bandwidths: tuple[float, ...]
    local_latency: float
    remote_latency: float

    @classmethod
    def of_model(cls, model: Mapping[str, Any]) -> Peaks:
        """Return those of a machine model.

        Args:
            model: what ``pinfold machines --json NAME`` prints.
        """
        values = _values(model)
        shape, frequency = values["shape"], values["core"]["frequency"]
        links = [(pair, link) for link in values.get("link") or [] for pair in link["between"]]
        latency = _seconds(values["memory"]["latency"], frequency)
        hops = [(*pair, _seconds(link["latency"], frequency)) for pair, link in links]
        others = _other_latencies(shape["nodes"], hops)
        return cls(
            nodes=shape["nodes"],
            cores_per_node=shape["packages"] * shape["cores_per_package"] // shape["nodes"],
            frequency=frequency,
            node_bandwidth=values["memory"]["bandwidth"],
            link_bandwidths=tuple(link["bandwidth"] for _, link in links),
            local_latency=latency,
            remote_latency=latency + (math.fsum(others) / len(others) if others else 0.0),
        )


def read_peaks(binary: Path, machine: str) -> Peaks:
    """Return what a machine model has.

    Args:
        binary: the path of pinfold.
        machine: the name of a model, or a file.

    Raises:
        ValueError: if there is no such model; the message is that of the binary.
    """
    command = [str(binary), "machines", "--json", machine]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    if answer.returncode != 0:
        raise ValueError(f"the model of {machine} cannot be read: {answer.stderr.strip()}")
    return Peaks.of_model(json.loads(answer.stdout))


def _values(item: Any) -> Any:
    """Return the values of a model without their sources."""
    if isinstance(item, dict):
        return (
            _values(item["value"])
            if item.keys() == {"source", "value"}
            else {key: _values(value) for key, value in item.items()}
        )
    return [_values(value) for value in item] if isinstance(item, list) else item


def _seconds(latency: Mapping[str, float], frequency: float) -> float:
    return latency["nanoseconds"] * 1e-9 if "nanoseconds" in latency else latency["cycles"] / frequency


def _other_latencies(nodes: int, links: Sequence[tuple[int, int, float]]) -> list[float]:
    """Return the latency that links add between each node and each other one, by the shortest paths (Dijkstra)."""
    found = []
    for begin in range(nodes):
        least: dict[int, float] = {}
        waiting = [(0.0, begin)]
        while waiting:
            far, node = heapq.heappop(waiting)
            if node in least:
                continue
            least[node] = far
            for one, other, adds in links:
                for near, next_one in ((one, other), (other, one)):
                    if near == node and next_one not in least:
                        heapq.heappush(waiting, (far + adds, next_one))
        found += [far for node, far in least.items() if node != begin]
    return found


def features(example: Example, peaks: Peaks) -> Floats:
    """Return the features of a program on a machine in each strategy but the default.

    Args:
        example: the program.
        peaks: those of its machine.

    Returns:
        Shape (3, number of features), in the orders of ``STRATEGIES`` and ``FEATURES``. NaN is not known.
    """
    known = {**example.metrics, **_traffic(example, peaks), **_machine(peaks)}
    common = [known.get(name, math.nan) for name in (*PROGRAM, *MACHINE)]
    return np.array([[*common, *_strategy(strategy)] for strategy in STRATEGIES[1:]])


def _strategy(strategy: Strategy) -> tuple[float, float]:
    return float(strategy.threads == "scatter"), float(strategy.pages == "interleave")


def _machine(peaks: Peaks) -> dict[str, float]:
    return {
        "nodes": float(peaks.nodes),
        "cores_per_node": float(peaks.cores_per_node),
        "latency_ratio": peaks.remote_latency / peaks.local_latency,
        "memory_bytes_per_cycle": peaks.node_bandwidth / (peaks.cores_per_node * peaks.frequency),
        "link_over_memory": min(peaks.link_bandwidths, default=math.nan) / peaks.node_bandwidth,
    }


def _traffic(example: Example, peaks: Peaks) -> dict[str, float]:
    metrics, seconds = example.metrics, example.seconds[0]
    found = {}
    if {"loads", "LD_INSTANT", "stall_cycles"} <= metrics.keys() and metrics["loads"]:
        found["stalled"] = metrics["stall_cycles"] * metrics["LD_INSTANT"] / metrics["loads"]
    if {"local_dram_bytes_per_s", "remote_dram_bytes_per_s"} <= metrics.keys():
        local, remote = metrics["local_dram_bytes_per_s"], metrics["remote_dram_bytes_per_s"]
        # A program that misses no memory has no remote accesses.
        found["remote_share"] = remote / (local + remote) if local + remote else 0.0
    if "memory_bytes_per_s" in metrics:
        found["memory_load"] = metrics["memory_bytes_per_s"] / (peaks.nodes * peaks.node_bandwidth)
    if example.node_bytes:
        most, all_nodes = max(example.node_bytes), math.fsum(example.node_bytes)
        found["busiest_memory_load"] = most / seconds / peaks.node_bandwidth
        found["memory_imbalance"] = most * len(example.node_bytes) / all_nodes if all_nodes else 1.0
    if example.link_bytes is not None and len(example.link_bytes) == len(peaks.link_bandwidths):
        pairs = zip(example.link_bytes, peaks.link_bandwidths, strict=True)
        found["busiest_link_load"] = max((carried / seconds / most for carried, most in pairs), default=0.0)
    if "footprint_bytes" in metrics and metrics.get("llc_bytes"):
        found["footprint_over_caches"] = metrics["footprint_bytes"] / metrics["llc_bytes"]
    return found
