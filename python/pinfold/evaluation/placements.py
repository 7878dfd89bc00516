"""How many placements there are."""

from __future__ import annotations

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
    text = (
        "Pinnings up to the machine's symmetries. The AutoFinity paper (2012, section 3) prints 78 and 1941 for 8 and "
        "24 threads on its four Opterons; brute force over its own definition, kept as a test in "
        "`crates/core/tests`, gives 80 and 1979. Counting is arithmetic; no machine is measured here."
    )
    commands = [f"pinfold placements --machine '{opteron}' --threads 8 --count"]
    return Section(
        "placements",
        "Placements",
        text,
        commands,
        [Table(["machine", "threads", "placements", "paper"], rows)],
        {"cases": data},
    )
