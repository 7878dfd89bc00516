"""The number of placements, and how many of them are near one of an affinity hint."""

from __future__ import annotations

import json

from pinfold.evaluation.section import PINFOLD, Section, Table, output


def placements(quick: bool) -> Section:
    """Count placements on the AutoFinity paper's machine and on a large one."""
    del quick
    opteron = "synthetic:package:4 numa:2 l3:1 core:6 pu:1"
    epyc = "synthetic:package:2 l3:12 core:8 pu:1"
    printed = {8: "78", 24: "1941"}
    cases = [(opteron, threads) for threads in (4, 8, 16, 24)] + [(epyc, 64)]
    rows, data = [], []
    for machine, threads in cases:
        count = int(output([str(PINFOLD), "placements", "--machine", machine, "--threads", str(threads), "--count"]))
        paper = printed.get(threads) if machine == opteron else None
        rows.append([f"`{machine}`", str(threads), f"{count:,}", paper or "-"])
        data.append({"machine": machine, "threads": threads, "count": count, "paper": paper and int(paper)})
    near = destinations(opteron, 8)
    text = (
        "Pinnings up to the machine's symmetries. The AutoFinity paper (2012, section 3) prints 78 and 1941 for 8 and "
        "24 threads on its four Opterons; brute force by its own definition, a test in `crates/core/tests`, gives 80 "
        "and 1979. Counting is arithmetic; no machine is measured here.\n\nThe second table counts the placements of "
        "8 threads that are at most the given number of moved threads away from the placement of one of the eight "
        "affinity hints; a thread moves to another last-level cache. With a leeway of 2 the paper (section 3.4) "
        "counts 31. With any rule for ties, at least 53 of pinfold's placements are this near. If a thread's move "
        "counted as two edits, because it leaves a cache and enters another, the paper's leeway of 2 would be 1 here, "
        "which gives 22 (15 to 30 with other rules for ties)."
    )
    commands = [
        f"pinfold placements --machine '{opteron}' --threads 8 --count",
        f"pinfold placements --machine '{opteron}' --threads 8 --leeway 2 --json",
    ]
    return Section(
        "placements",
        "Placements",
        text,
        commands,
        [
            Table(["machine", "threads", "placements", "paper"], rows),
            Table(
                ["leeway", "destinations", "paper"],
                [[str(one["leeway"]), str(one["count"]), str(one["paper"] or "-")] for one in near],
            ),
        ],
        {"cases": data, "destinations": near},
    )


def destinations(machine: str, threads: int) -> list[dict[str, int | None]]:
    """Count the placements that belong to a hint, by leeway."""
    printed = {2: 31}
    counts: list[dict[str, int | None]] = []
    for leeway in range(3):
        asked = ["--machine", machine, "--threads", str(threads), "--leeway", str(leeway), "--json"]
        placed = json.loads(output([str(PINFOLD), "placements", *asked]))["placements"]
        count = sum(1 for placement in placed if placement["hints"])
        counts.append({"leeway": leeway, "count": count, "paper": printed.get(leeway)})
    return counts
