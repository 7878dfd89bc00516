"""The promised costs of pinfold."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pinfold.evaluation.section import Promise, Section, Table, here

SIGNS = {"<=": "≤", ">=": "≥"}


def costs(quick: bool) -> Section:
    """Use the measurements of ``make bench``."""
    del quick
    file = Path("target/bench.json")
    if not file.exists():
        sys.exit(f"{file} is missing: `make bench` writes it")
    measured = json.loads(file.read_text())
    rows = [
        [
            one["name"],
            f"{one['value']:.3f}",
            one["unit"],
            "-" if one["held"] is None else f"{SIGNS[one['bound']]} {one['promise']}",
            {True: "held", False: "**broken**", None: ""}[one["held"]],
        ]
        for one in measured
    ]
    machine = here()
    text = f"Measured on: {machine}. Ratios and differences are taken within one run; rates are this machine's."
    columns = ["cost", "measured", "unit", "promised", ""]
    promises = [
        Promise(one["name"], one["value"], one["unit"], f"{SIGNS[one['bound']]} {one['promise']}", one["held"])
        for one in measured
        if one["promise"] is not None
    ]
    return Section(
        "costs", "Costs", text, ["make bench"], [Table(columns, rows)], {"costs": measured}, promises=promises
    )
