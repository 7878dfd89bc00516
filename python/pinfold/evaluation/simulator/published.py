"""Latencies and bandwidths of the simulated machines compared with published figures of these machines.

Each model contains the published figures with their sources. ``pinfold machines NAME --measure`` runs microbenchmarks
on the simulated machine and compares. A figure that is the source of a number of the model is an *input*: it shows that
caches, directory, page walks and queues together reproduce it. Every other figure is a *check*.
"""

from __future__ import annotations

import json
from typing import Any

from pinfold.evaluation.section import PINFOLD, Part, Table, output

SCALE = {"s": (1e9, "ns"), "bytes/s": (1e-9, "GB/s")}


def published(quick: bool) -> Part:
    """Measure every machine, or every fourth."""
    machines = [model["name"] for model in json.loads(output([str(PINFOLD), "machines", "--json"]))]
    reports: list[dict[str, Any]] = [
        json.loads(output([str(PINFOLD), "machines", name, "--measure", "--json"]))
        for name in machines[:: 4 if quick else 1]
    ]
    compared = [(report["machine"], row) for report in reports for row in report["measures"] if row["published"]]
    off: dict[str, list[float]] = {"latency": [], "loaded_latency": [], "bandwidth": []}
    for _, row in compared:
        off[row["quantity"]].append(abs(row["difference_percent"]))
    worst = {quantity: max(values) for quantity, values in off.items() if values}
    loaded = f", the worst latency under load {worst['loaded_latency']:.1f} %" if "loaded_latency" in worst else ""
    checks = [row for _, row in compared if not row["published"]["calibrates"]]
    missing = "; ".join(
        f"{report['machine']}: {', '.join(report['none_found'])}" for report in reports if report["none_found"]
    )
    text = (
        "**Simulated**: latencies and saturated bandwidths, measured by microbenchmarks on the models, compared "
        f"with the published figures. {len(compared)} figures of {len(reports)} machines; the worst latency is "
        f"{worst['latency']:.1f} % off, the worst bandwidth {worst['bandwidth']:.1f} %{loaded}. A figure marked "
        f"*input* is also the source of a number of the model, and shows that the simulated machine reproduces it; "
        f"{len(checks)} are *checks*, from which no number comes. Several are of a closely related machine, as the "
        f"source says. No figures were found of: {missing}."
    )
    columns = ["machine", "measure", "simulated", "published", "diff [%]", "", "source"]
    rows = [[machine, *cells(row)] for machine, row in compared]
    data = {
        "latency_worst_percent": worst["latency"],
        "bandwidth_worst_percent": worst["bandwidth"],
        "loaded_latency_worst_percent": worst.get("loaded_latency"),
        "published": {"simulated": True, "machines": reports},
    }
    return Part(data, Table(columns, rows), text, ["pinfold machines xeon-8480x2 --measure"])


def cells(row: dict[str, Any]) -> list[str]:
    """Return a figure as the cells of the table."""
    scale, unit = SCALE[row["unit"]]
    figure = row["published"]
    how = f" by {row['by']}, {row['mix']}" if row["by"] else ""
    if "bytes_per_second" in row:
        how += f", at {row['bytes_per_second'] / 1e9:.1f} GB/s"
    return [
        f"{row['quantity']} {row['of']}{how}".replace("_", " "),
        f"{row['simulated'] * scale:.1f} {unit}",
        f"{figure['value'] * scale:.1f} {unit}",
        f"{row['difference_percent']:+.1f}",
        "input" if figure["calibrates"] else "check",
        figure["source"],
    ]
