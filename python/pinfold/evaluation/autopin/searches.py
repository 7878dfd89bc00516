"""Exhaustive search and racing on scripted rates."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pinfold.evaluation.section import Section, Table, run_json

SCRIPT = """
topology = "synthetic:package:4 numa:2 l3:1 core:6 pu:1"
threads = 8
seed = {seed}
noise = 0.03
warm_up = 2.0
duration = 3600.0

[[phase]]
start = 0.0
rate = 80.0
{pinnings}
"""


def searches(quick: bool) -> Section:
    """Compare the exhaustive search with racing on scripted rates."""
    seeds = 3 if quick else 10
    # The pinnings of the topology are computed first, so that the script can give each a rate.
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "machine.toml"
        file.write_text(SCRIPT.format(seed=0, pinnings=""))
        found = run_json(["--machine", f"scripted:{file}"], [])
        # Unpinned threads have the rate of the phase.
        candidates = [candidate["pus"] for candidate in found["candidates"] if candidate["pus"] is not None]
        # Rates from 80 to 100, the best in the middle of the list.
        best = len(candidates) // 2
        rates = [100.0 if i == best else 80.0 + 12.0 * i / len(candidates) for i in range(len(candidates))]
        pinnings = "\n".join(
            f'[[phase.pinning]]\npus = "{",".join(map(str, pus))}"\nrate = {rate}'
            for pus, rate in zip(candidates, rates, strict=True)
        )
        rows, data = [], []
        for search in ("exhaustive", "racing"):
            right, measured = 0, 0.0
            for seed in range(1, seeds + 1):
                file.write_text(SCRIPT.format(seed=seed, pinnings=pinnings))
                record = run_json(["--machine", f"scripted:{file}", "--search", search], [])
                right += record["chosen"]["pus"] == candidates[best]
                measured += record["chosen"]["at"]
            rows.append([search, f"{right} of {seeds}", f"{measured / seeds:.0f} s"])
            data.append({"search": search, "right": right, "of": seeds, "mean_time_to_choice_s": measured / seeds})
    text = (
        f"**Simulated**: a scripted machine of the shape of four Opterons, {len(candidates)} candidates for 8 threads "
        "with rates from 80 to 100 per second, 3 % noise, and 2 s of warm-up after each re-pinning; default times "
        "(t = 30 s, w = i = 15 s). Times are virtual."
    )
    commands = ["pinfold run --machine scripted:FILE.toml --search racing"]
    return Section(
        "searches",
        "Exhaustive search and racing",
        text,
        commands,
        [Table(["search", "best candidate chosen", "time to the choice (simulated)"], rows)],
        {"simulated": True, "candidates": candidates, "rates": rates, "searches": data},
    )
