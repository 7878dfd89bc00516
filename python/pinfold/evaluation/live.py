"""The workloads on this machine."""

from __future__ import annotations

import os

from pinfold.evaluation.section import Section, Table, here, run_json

WORKLOADS = ("stream", "random_access", "stencil", "compute", "pairs", "barrier", "imbalance", "false_sharing")

FACTOR = 9  # A larger gain is written as a factor.


def gain(share: float | None) -> str:
    """Format a rate's gain over another: in percent, or as a factor if it is large."""
    if share is None:
        return "-"
    return f"{100 * share:+.0f} %" if share < FACTOR else f"{1 + share:,.0f} times"


def live(quick: bool) -> Section:
    """Place every workload on this machine."""
    probe = "1s" if quick else "5s"
    allowed = sorted(os.sched_getaffinity(0))
    apart = f"{allowed[0]},{allowed[-1]}"
    together = str(allowed[0])
    arguments = ["-t", probe, "--warm-up", "500ms", "--initialise", "1s", "--schedule", apart, "--schedule", together]
    seconds = "6" if quick else "16"
    rows, data = [], []
    for workload in WORKLOADS:
        record = run_json(arguments, [f"target/workloads/{workload}", "--threads", "2", "--seconds", seconds])
        metric = record["metric"]
        rates = [candidate["rate"] for candidate in record["candidates"]]
        spreads = [candidate["spread"] for candidate in record["candidates"]]
        chosen = record["chosen"]
        rows.append(
            [
                workload,
                metric["name"] if metric else "-",
                *(
                    "-" if rate is None else f"{rate:,.1f} ± {100 * (spread or 0):.0f} %"
                    for rate, spread in zip(rates, spreads, strict=True)
                ),
                ",".join(map(str, chosen["pus"])) if chosen else "-",
                gain(chosen["gain_over_worst"]) if chosen else "-",
            ]
        )
        data.append({"workload": workload, "record": record})
    machine = here()
    text = (
        f"Measured on: {machine}. Each workload runs with two threads; the two candidates put them on two CPUs "
        f"({apart}) and on one ({together}). Rates are counts per second of the metric that `auto` chose, with the "
        "coefficient of variation of their readings. The sections on simulated machines have the paper's machines, on "
        "which pinnings also differ by caches and memory."
    )
    commands = ["pinfold run " + " ".join(arguments) + f" -- target/workloads/stream --threads 2 --seconds {seconds}"]
    columns = ["workload", "metric", f"on {apart}", f"on {together}", "chosen", "over the worst"]
    return Section("live", "Live runs", text, commands, [Table(columns, rows)], {"runs": data})
