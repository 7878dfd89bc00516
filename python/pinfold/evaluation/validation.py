"""The simulator compared with other simulators, published figures and real machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pinfold.evaluation.determinism import determinism
from pinfold.evaluation.host import host
from pinfold.evaluation.misses import misses
from pinfold.evaluation.published import published
from pinfold.evaluation.section import Part, Section

PARTS: tuple[Callable[[bool], Part], ...] = (misses, published, determinism, host)


def validation(quick: bool) -> Section:
    """Run all checks."""
    parts = [make(quick) for make in PARTS]
    data: dict[str, Any] = {"reduced": quick}
    for part in parts:
        data |= part.data
    return Section(
        "validation",
        "Validation of the simulator",
        "\n\n".join([*(["A reduced set (`make evaluation-quick`)."] if quick else []), *(part.text for part in parts)]),
        [command for part in parts for command in part.commands],
        [part.table for part in parts],
        data,
    )
