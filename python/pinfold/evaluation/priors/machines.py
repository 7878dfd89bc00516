"""Machines for the sweep: models of ``machines/`` that are cut down, and each of whose numbers is varied.

*Cut down*: a program with few threads shall fill all, a half or a quarter of a machine. So a machine has fewer cores
and last-level-cache domains. What cores share (last-level caches, memory, links) becomes smaller in proportion, so that
a core has its share of the whole machine. The TLB and all caches but the first have an eighth of their size, so that a
short window covers data beyond them. Latencies and the private parts of a core stay.

*Varied* (domain randomisation): each number is multiplied by its own factor, uniform in its logarithm and within a
quarter. Numbers that depend on each other share a factor: clocks, the buffers of a core, and the waits of one memory.
What is learned must then hold for machines between and around the models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomllib

SEED = 21

MODELS = (
    "e5-4650x4",
    "e5-2680v3x2",
    "gold-6142x2",
    "xeon-8480x2",
    "epyc-7763x2",
    "epyc-9654x2",
    "opteron-6164x4",
)
"""Two, four and eight nodes; one and several last-level caches a node; with siblings and without; Intel and AMD."""

FOLDER = Path("machines")

SHARES = (1.0, 0.5, 0.25)
"""The shares of the cores that the threads of a program fill."""

MOST_DOMAINS = 4
"""The most last-level-cache domains of a node."""

CACHE_DIVISOR = 8
"""All caches but the first, and the TLB, are smaller by this."""

LARGEST_FACTOR = 1.25
"""A number is multiplied by at most this, and divided by at most this."""

LINE = 64

SIZES = {"bytes": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}

Model = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """The shape of a machine.

    Attributes
    ----------
    packages, nodes : int
        Their numbers.
    domains : int
        The last-level-cache domains of a node.
    cores : int
        The cores of a domain.
    siblings : int
        The PUs of a core.
    """

    packages: int
    nodes: int
    domains: int
    cores: int
    siblings: int

    @property
    def all_cores(self) -> int:
        """The number of cores of the machine."""
        return self.nodes * self.domains * self.cores

    def pu(self, core: int, sibling: int) -> int:
        """Return the PU of a core: the first ones of all cores come first."""
        return sibling * self.all_cores + core


def read(name: str) -> Model:
    """Return a model of ``machines/``."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def shape_of(model: Mapping[str, Any]) -> Shape:
    """Return the shape of a model, which has NUMA nodes."""
    shape = model["shape"]
    packages, nodes = _count(shape["packages"]), _count(shape["nodes"])
    in_node = packages * _count(shape["cores_per_package"]) // nodes
    in_domain = _count(model["cache"][-1]["cores"])
    return Shape(packages, nodes, in_node // in_domain, in_domain, _count(shape["threads_per_core"]))


def cut_down(model: Mapping[str, Any], cores: int) -> tuple[Model, Shape]:
    """Return a model with this number of cores, and its shape.

    Raises:
        ValueError: if the cores cannot be divided among the nodes.
    """
    whole = shape_of(model)
    in_node, rest = divmod(cores, whole.nodes)
    if rest or not in_node:
        raise ValueError(f"{cores} cores cannot be divided among the {whole.nodes} nodes of {model['name']}")
    domains = max(one for one in range(1, min(MOST_DOMAINS, whole.domains) + 1) if in_node % one == 0)
    shape = Shape(whole.packages, whole.nodes, domains, in_node // domains, whole.siblings)
    cut: Model = {key: value for key, value in json.loads(json.dumps(model)).items() if key != "published"}
    cut["shape"]["cores_per_package"]["count"] = cores // shape.packages
    cut["shape"]["pu_numbering"] = {"order": "contiguous", "source": "assumed: the first PUs of all cores come first"}
    _cut_caches(cut, shape.cores / whole.cores, shape.cores)
    of_node = in_node / (whole.domains * whole.cores)
    for quantity in [cut["memory"]["bandwidth"], *(link["bandwidth"] for link in cut.get("link", []))]:
        quantity["gb_per_s"] *= of_node
    for name in ("domain_in", "domain_out"):
        if name in cut["memory"]:
            cut["memory"][name]["gb_per_s"] *= shape.cores / whole.cores
    if "turbo" in cut["core"]:
        cut["core"]["turbo"]["cores_ghz"] = _turbo(cut["core"]["turbo"]["cores_ghz"], cores // shape.packages)
    _drop_absent(cut, shape)
    return cut, shape


def varied(model: Mapping[str, Any], draw: np.random.Generator) -> Model:
    """Return a model each of whose numbers is multiplied by a random factor within a quarter."""
    changed: Model = json.loads(json.dumps(model))

    def factor() -> float:
        return float(LARGEST_FACTOR ** draw.uniform(-1, 1))

    core = changed["core"]
    clock, buffers = factor(), factor()
    core["frequency"] = _times(core["frequency"], clock)
    if "turbo" in core:
        core["turbo"]["cores_ghz"] = [[number, round(ghz * clock, 4)] for number, ghz in core["turbo"]["cores_ghz"]]
    for table in (core, changed["prefetch"]):
        for name, quantity in table.items():
            if "count" in quantity and name != "next_page":
                quantity["count"] = max(round(quantity["count"] * buffers), 1)
    siblings = _count(changed["shape"]["threads_per_core"])
    bounds = {"smt_throughput": (1.0, siblings), "smt_buffers": (1 / siblings, 1.0), "write_cost": (1.0, 4.0)}
    for table in (core, changed["tlb"], *changed["cache"], changed["coherence"], changed["memory"], *_links(changed)):
        for name, quantity in table.items():
            if name in ("frequency", "turbo", "capacity", "energy") or not isinstance(quantity, dict):
                continue
            if "ns_at_share" in quantity:
                longer = factor()
                quantity["ns_at_share"] = [[share, round(ns * longer, 3)] for share, ns in quantity["ns_at_share"]]
            elif not {"count", "policy", "name"} & set(quantity):
                low, high = bounds.get(name, (0.0, np.inf))
                table[name] = _times(quantity, factor(), low, high)
    for cache in changed["cache"]:
        _whole_sets(cache)
    return changed


def text(model: Mapping[str, Any]) -> str:
    """Return a model as TOML."""
    lines = [f"{key} = {_inline(value)}" for key, value in model.items() if isinstance(value, str)]
    for key, value in model.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]", *(f"{name} = {_inline(quantity)}" for name, quantity in value.items())]
        elif isinstance(value, list):
            for table in value:
                lines += ["", f"[[{key}]]", *(f"{name} = {_inline(quantity)}" for name, quantity in table.items())]
    return "\n".join(lines) + "\n"


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _links(model: Model) -> list[dict[str, Any]]:
    links: list[dict[str, Any]] = model.get("link", [])
    return links


def _count(quantity: Mapping[str, Any]) -> int:
    return int(quantity["count"])


def _times(quantity: Mapping[str, Any], factor: float, low: float = 0.0, high: float = np.inf) -> dict[str, Any]:
    """Return a quantity, which has one number beside its source, multiplied and within bounds."""
    return {
        unit: value if isinstance(value, str) else float(f"{min(max(value * factor, low), high):.6g}")
        for unit, value in quantity.items()
    }


def _cut_caches(model: Model, of_domain: float, cores: int) -> None:
    """Make caches smaller: the last one by the cores that share it, and all but the first by the divisor."""
    for level, cache in enumerate(model["cache"]):
        if level == 0:
            continue
        last = level == len(model["cache"]) - 1
        cache["size"] = _bytes(cache["size"], (of_domain if last else 1) / CACHE_DIVISOR)
        if last:
            cache["cores"]["count"] = cores
        _whole_sets(cache)
    tlb = model["tlb"]
    tlb["entries"]["count"] = max(tlb["entries"]["count"] // CACHE_DIVISOR, tlb["ways"]["count"])


def _bytes(size: Mapping[str, Any], factor: float) -> dict[str, Any]:
    unit = next(unit for unit in SIZES if unit in size)
    return {"bytes": size[unit] * SIZES[unit] * factor, "source": size["source"]}


def _whole_sets(cache: dict[str, Any]) -> None:
    """Round the size of a cache to a whole number of sets, at least one."""
    row = _count(cache["ways"]) * LINE
    size = _bytes(cache["size"], 1)
    cache["size"] = {**size, "bytes": max(round(size["bytes"] / row), 1) * row}


def _turbo(clocks: list[list[float]], cores: int) -> list[list[float]]:
    """Return the clocks by active cores of a package with fewer cores: at the same shares of them.

    >>> _turbo([[2, 3.7], [4, 3.5], [16, 3.3]], 4)
    [[1, 3.5], [4, 3.3]]
    """
    most = clocks[-1][0]
    found = {max(round(number * cores / most), 1): ghz for number, ghz in clocks}
    return [[number, ghz] for number, ghz in sorted(found.items())]


def _drop_absent(model: Model, shape: Shape) -> None:
    """Remove latencies between cores that the machine no longer has."""
    coherence = model["coherence"]
    needed = {
        "same_domain": shape.cores > 1,
        "same_package": shape.nodes * shape.domains > shape.packages,
        "other_package": shape.packages > 1,
    }
    for kind in ("clean", "modified"):
        for where, present in needed.items():
            if not present:
                coherence.pop(f"{where}_{kind}", None)
