"""AutoFinity on the simulated machine of its paper: learned affinity hints, judged as the paper judges them.

Workloads are recorded and swept (:mod:`pinfold.evaluation.hints.sweep`). ``pinfold learn evaluate hints`` makes the
figures from this data set, as it does from any other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pinfold.evaluation import plot
from pinfold.evaluation.hints.sweep import TRAINING_THREADS, commands, data_set, sweeps
from pinfold.evaluation.hints.weka import weka
from pinfold.evaluation.section import PINFOLD, Check, Section, checks_table, promises_of
from pinfold.learn.hints import report
from pinfold.learn.hints.data_set import read
from pinfold.learn.hints.evaluation import Evaluation, Spread, document, evaluate
from pinfold.learn.hints.variants import OURS

PAGE = Path("evaluation/autofinity.html")

# The shapes of the paper's figure 1, as tested here: the least ratio of the worst to the best placement, the highest
# share of placements as good as the best, and the least such share.
SPREAD, FEW, MOST = 1.5, 0.25, 0.8

# The paper's results (Moore and Childers, 2012, section 3.6), and the targets here.
PAPER: dict[str, Any] = {
    "oracle_ratio": 0.96,
    "interesting_cases": 15,
    "interesting_within_1_percent": 12,
    "streamcluster": {"worst_over_best": 450 / 150, "good_share": 0.05},
    "swaptions": {"worst_over_best": 1.45, "good_share": None},
}
ORACLE_RATIO, INTERESTING = 0.98, 0.9

# A figure above the paper's is unexpected, too. The paper says of the gain over either static policy that it is slight
# (section 3.6), and shows no placement that is more than three times as slow as the best. The first limit is a reading
# of "slight"; the second allows half more, as in the section on SAM.
SLIGHT, UNEXPECTED = 0.1, 1.5

# The names of the static variants.
PACKED, DISTRIBUTED = "packed", "distributed"

# The paper shows streamcluster, which makes frequent use of barriers, and swaptions, which only computes, in figure 1.
BARRIERS, COMPUTING = "barrier", "monte_carlo"


def autofinity(quick: bool) -> Section:
    """Sweep, judge, and compare with the paper."""
    file = data_set(sweeps(quick), quick)
    evaluation = evaluate(
        read([file], PINFOLD), TRAINING_THREADS, lambda text: print(f"autofinity: {text}", file=sys.stderr)
    )
    learners = weka(quick)
    checks = [*_targets(evaluation), *_shapes(evaluation.spreads), *_two_sided(evaluation)]
    reduced = "A reduced set (`make evaluation-quick`).\n\n" if quick else ""
    policies = "\n\n".join(
        f"The rules of {name} policy, learned from all programs:\n\n" + "\n".join(f"    {rule}" for rule in rules)
        for name, rules in evaluation.policies.items()
    )
    text = (
        f"{reduced}{report.summary(evaluation)}\n\n{ABOUT}{_unexpected(evaluation.spreads)}\n\n"
        f"{learners.text}\n\n{policies}\n\nAll of it is also "
        f"a separate page, `{PAGE}`. The last command makes it from any sweep, also of your own programs. The others "
        "make one workload's part of this sweep:"
    )
    plots = [plot.save(drawn, f"autofinity-{name}") for name, drawn in report.figures(evaluation).items()]
    PAGE.write_text(report.page(evaluation), encoding="utf-8")
    tables = [checks_table(checks, "Targets:"), *report.tables(evaluation), learners.table]
    data = {
        "paper": PAPER,
        "checks": [asdict(check) for check in checks],
        **document(evaluation),
        **learners.data,
    }
    title = "AutoFinity's affinity hints"
    return Section("autofinity", title, text, commands(), tables, data, plots, promises_of(checks))


ABOUT = """\
The paper (Moore and Childers, 2012) ran PARSEC, OmpSCR and NAS on four Opteron 6164 HE. Here this project's workloads
run on the simulated machine, with working sets inside, near and beyond its caches. With 8 threads all 80 placements
were swept, and the oracle is the best of these; with 4, 16 and 24 threads those of the eight hints were swept, and
the oracle is the best of these. A window is a few milliseconds with warm caches; the paper samples ten seconds.

Pinfold's policy has the paper's steps with two changes: events are counted per instruction and not per second, and
bins have a logarithmic scale. After the change a second sample shows whether the program is faster than distributed,
by a progress metric; if it is not, threads go back. The changes were chosen among the variants below with earlier
recordings of the same programs, so a part of their lead is chance. Each policy was judged on programs from which its
rules were not learned.

Of the steps that the paper leaves open, checking the effect of a change helps: it rolls back wrong choices of any
policy. A policy without learning samples packed and distributed and keeps the faster one. In interesting cases it is
the better static policy by definition. It needs two samples of every program; a learned policy needs the second only
after a change. Neither asking a policy again in the placement that it chose nor another learner helps. Waiting uses
no cycles in the simulator, so the instructions of a second sample say more there than on a machine on which threads
spin."""


def _targets(evaluation: Evaluation) -> list[Check]:
    score = evaluation.of(OURS).score
    share = score.good / score.interesting if score.interesting else 0.0
    return [
        Check(
            "of the oracle's performance",
            f"{PAPER['oracle_ratio']:.0%}",
            f"at least {ORACLE_RATIO:.0%}",
            f"{score.oracle_ratio:.1%}",
            score.oracle_ratio >= ORACLE_RATIO,
        ),
        Check(
            "interesting cases within 1 % of the better static policy",
            f"{PAPER['interesting_within_1_percent']} of {PAPER['interesting_cases']}",
            f"at least {INTERESTING:.0%}",
            f"{score.good} of {score.interesting} ({share:.0%})",
            share >= INTERESTING,
        ),
    ]


def _two_sided(evaluation: Evaluation) -> list[Check]:
    """Compare what may be too large with the paper."""
    seconds = {name: evaluation.of(name).score.seconds for name in (OURS, PACKED, DISTRIBUTED)}
    gain = min(seconds[PACKED], seconds[DISTRIBUTED]) / seconds[OURS] - 1
    paper = PAPER["streamcluster"]["worst_over_best"]
    most = max(one.worst_over_best for one in evaluation.spreads)
    return [
        Check(
            "gain over the better static policy, geometric mean",
            "slight",
            f"0% to {SLIGHT:.0%}",
            f"{gain:+.1%}",
            0 <= gain <= SLIGHT,
        ),
        Check(
            "worst over best placement of any program",
            f"{paper:.0f} (streamcluster)",
            f"at most {UNEXPECTED * paper:.1f}",
            f"{most:.1f}",
            most <= UNEXPECTED * paper,
        ),
    ]


def _unexpected(spreads: Sequence[Spread]) -> str:
    """Name the programs for which placement decides more than was expected; empty for none."""
    most = UNEXPECTED * PAPER["streamcluster"]["worst_over_best"]
    named = [f"`{one.label}` {one.worst_over_best:.1f}" for one in spreads if one.worst_over_best > most]
    if not named:
        return ""
    return (
        f"\n\n**Unexpected**: for some programs the worst placement takes more than {most:.1f} times as long as the "
        f"best: {', '.join(named)}. Eight packed threads have 10 MiB of last-level caches, and eight distributed ones "
        "40 MiB: data of a size between these fits the caches of one placement, and comes from memory in another. "
        "Smaller ones pass lines between threads all the time. The paper's programs are mixtures of phases. These "
        "programs also make the gain over both static policies large, because each is many times slower for some."
    )


def _shapes(spreads: Sequence[Spread]) -> list[Check]:
    """Compare the shapes of figure 1."""
    barriers, computing = (next(one for one in spreads if one.label == name) for name in (BARRIERS, COMPUTING))
    return [
        Check(
            f"figure 1, worst over best, `{BARRIERS}`",
            "above 3 (streamcluster)",
            f"> {SPREAD}",
            f"{barriers.worst_over_best:.2f}",
            barriers.worst_over_best > SPREAD,
        ),
        Check(
            f"figure 1, placements as good as the best, `{BARRIERS}`",
            "5 % (streamcluster)",
            f"< {FEW:.0%}",
            f"{barriers.good_share:.0%}",
            barriers.good_share < FEW,
        ),
        Check(
            f"figure 1, placements as good as the best, `{COMPUTING}`",
            "most (swaptions)",
            f"> {MOST:.0%}",
            f"{computing.good_share:.0%}",
            computing.good_share > MOST,
        ),
        Check(
            f"figure 1, worst over best, `{COMPUTING}`",
            "1.45 (swaptions)",
            f"less than `{BARRIERS}`",
            f"{computing.worst_over_best:.2f}",
            computing.worst_over_best < barriers.worst_over_best,
        ),
    ]
