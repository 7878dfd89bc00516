"""The results of an evaluation of hint policies, as tables and plots, and as one self-contained web page."""

from __future__ import annotations

import html
from collections.abc import Sequence

from matplotlib.figure import Figure

from pinfold import plot
from pinfold.learn import report
from pinfold.learn.hint_evaluation import Evaluation, Judged
from pinfold.learn.judging import Judgement
from pinfold.learn.variants import MEASURED, ONE_SAMPLE, OURS, PAPERS
from pinfold.tables import Table

SHOWN_SPREADS = 8
"""The number of programs in the plot of figure 1: more lines cannot be distinguished."""


def summary(evaluation: Evaluation) -> str:
    """Summarise the main figures in a paragraph."""
    ours, once, papers = (evaluation.of(name).score for name in (OURS, ONE_SAMPLE, PAPERS))
    data = evaluation.data
    programs = {case.program.name for case in data.cases}
    how = "Simulated" if data.simulated else "Measured"
    machines = ", ".join(sorted({case.program.machine for case in data.cases}))
    return (
        f"{how} on {machines}: {len(programs)} programs, {len(data.cases)} cases (a program with its arguments and a "
        f"number of threads). Every policy was learned from {evaluation.threads} threads of programs other than the "
        f"one on which it is judged. Pinfold's policy reaches {ours.oracle_ratio:.1%} of the oracle with "
        f"{evaluation.threads} threads, and is within 1 % of the better of packed and distributed, or better, in "
        f"{ours.good} of {ours.interesting} interesting cases: the cases of all numbers of threads in which the two "
        "differ by 20 % or more. Without its second sample, which shows whether the change helped, it reaches "
        f"{once.oracle_ratio:.1%} and {once.good}. AutoFinity with the paper's parameters reaches "
        f"{papers.oracle_ratio:.1%} and {papers.good}."
    )


def tables(evaluation: Evaluation) -> list[Table]:
    """Return all tables."""
    return [
        *_variant_tables(evaluation),
        _fixed_threads(evaluation),
        _interesting(evaluation),
        _spreads(evaluation),
        _behaviours(evaluation),
    ]


def _variant_tables(evaluation: Evaluation) -> list[Table]:
    columns = [
        *("varies", "", f"time, {evaluation.threads} threads [ms]", "of the oracle", "of the oracle, all threads"),
        *("interesting within 1 %", "samples", "readable"),
    ]

    def table(caption: str, groups: Sequence[str], of: Sequence[str]) -> Table:
        chosen = [one for one in evaluation.judged if one.variant.group in groups and one.variant.of in of]
        # What a learned policy must beat stands in every table.
        baselines = [one for one in evaluation.judged if one.variant.name == MEASURED and one not in chosen]
        return Table(columns, [_variant(one) for one in (*baselines, *chosen)], caption)

    everything = ("", PAPERS, OURS)
    return [
        table(
            "Policies, judged on programs from which they were not learned:", ("static", "policy", "step"), everything
        ),
        table("Figure 9a, discretisation, in the paper's policy:", ("discretisation",), (PAPERS,)),
        table("Figure 9b, condense functions, in the paper's policy:", ("condense",), (PAPERS,)),
        table("Other parameters, in the paper's policy:", ("leeway", "data", "counters"), (PAPERS,)),
        table(
            "The same, in pinfold's policy with one sample:", ("discretisation", "leeway", "data", "counters"), (OURS,)
        ),
        table("What the paper leaves open:", ("samples", "reaction", "learner"), everything),
    ]


def _variant(one: Judged) -> list[str]:
    return [
        one.variant.group,
        one.variant.name,
        f"{one.score.seconds * 1e3:.3f}",
        f"{one.score.oracle_ratio:.1%}",
        f"{one.score.all_oracle_ratio:.1%}",
        f"{one.score.good} of {one.score.interesting}",
        str(one.variant.samples),
        "yes" if one.variant.readable else "no",
    ]


_CASE_COLUMNS = [
    "program",
    "threads",
    "packed [ms]",
    "distributed [ms]",
    "learned [ms]",
    "oracle [ms]",
    "hint",
    "best hint",
]


def _case(one: Judgement) -> list[str]:
    times = (one.packed, one.distributed, one.learned, one.case.oracle)
    milliseconds = [f"{seconds * 1e3:.3f}" for seconds in times]
    return [one.case.label, str(one.case.program.threads), *milliseconds, str(one.hint), str(one.case.best_hint)]


def _fixed_threads(evaluation: Evaluation) -> Table:
    rows = [_case(one) for one in _trained(evaluation)]
    return Table(_CASE_COLUMNS, rows, f"Figure 11, {evaluation.threads} threads, pinfold's policy:")


def _interesting(evaluation: Evaluation) -> Table:
    rows = [[*_case(one), "yes" if one.good else "no"] for one in evaluation.of(OURS).judgements if one.interesting]
    caption = "Figure 12, interesting cases, pinfold's policy; the last column: within 1 % of the better static policy:"
    return Table([*_CASE_COLUMNS, "within 1 %"], rows, caption)


def _spreads(evaluation: Evaluation) -> Table:
    rows = [
        [
            one.label,
            str(len(one.seconds)),
            f"{one.seconds[0] * 1e3:.3f}",
            f"{one.seconds[len(one.seconds) // 2] * 1e3:.3f}",
            f"{one.seconds[-1] * 1e3:.3f}",
            f"{one.worst_over_best:.2f}",
            f"{one.good_share:.0%}",
        ]
        for one in evaluation.spreads
    ]
    columns = [
        "program",
        "placements",
        "best [ms]",
        "median [ms]",
        "worst [ms]",
        "worst over best",
        "within 5 % of the best",
    ]
    return Table(columns, rows, f"Figure 1, times of {evaluation.threads} threads in all swept placements:")


def _behaviours(evaluation: Evaluation) -> Table:
    rows = [[one.label, str(one.unique), str(one.cumulative)] for one in evaluation.behaviours]
    caption = "Figure 10, discretised behaviours of each program in all swept placements, and of all programs so far:"
    return Table(["program", "unique", "cumulative"], rows, caption)


def _trained(evaluation: Evaluation) -> list[Judgement]:
    found = [one for one in evaluation.of(OURS).judgements if one.case.program.threads == evaluation.threads]
    return sorted(found, key=lambda one: one.packed / one.distributed)


def figures(evaluation: Evaluation) -> dict[str, Figure]:
    """Return all plots, each with the name of its file."""
    interesting = [one for one in evaluation.of(OURS).judgements if one.interesting]
    return {
        "placements": _draw_spreads(evaluation),
        "behaviours": _draw_behaviours(evaluation),
        "fixed-threads": _draw_bars(
            _trained(evaluation), f"{evaluation.threads} threads (figure 11), {_how(evaluation)}", marked=False
        ),
        "interesting": _draw_bars(interesting, f"interesting cases (figure 12), {_how(evaluation)}", marked=True),
    }


def _how(evaluation: Evaluation) -> str:
    machines = ", ".join(sorted({case.program.machine for case in evaluation.data.cases}))
    return f"{'simulated' if evaluation.data.simulated else 'measured'}: {machines}"


def _draw_spreads(evaluation: Evaluation) -> Figure:
    spreads = evaluation.spreads
    shown = sorted({round(place * (len(spreads) - 1) / (SHOWN_SPREADS - 1)) for place in range(SHOWN_SPREADS)})
    drawn = plot.figure()
    axes = drawn.add_subplot()
    for place in shown:
        one = spreads[place]
        share = [100 * number / max(len(one.seconds) - 1, 1) for number in range(len(one.seconds))]
        axes.plot(share, [seconds / one.seconds[0] for seconds in one.seconds], label=one.label)
    axes.set_yscale("log")
    axes.set_xlabel("placements, the best first [%]")
    axes.set_ylabel("time over that of the best")
    axes.set_title(f"{evaluation.threads} threads in all swept placements (figure 1), {_how(evaluation)}", fontsize=10)
    axes.legend(fontsize=7)
    return drawn


def _draw_behaviours(evaluation: Evaluation) -> Figure:
    drawn = plot.figure(height=4.2)
    axes = drawn.add_subplot()
    places = range(len(evaluation.behaviours))
    axes.plot(places, [one.cumulative for one in evaluation.behaviours], marker="x", label="cumulative")
    axes.plot(places, [one.unique for one in evaluation.behaviours], marker="+", label="unique")
    axes.set_xticks(places, [one.label for one in evaluation.behaviours], rotation=90, fontsize=6)
    axes.set_ylabel("behaviours")
    axes.set_title(f"behaviours of programs (figure 10), {_how(evaluation)}", fontsize=10)
    axes.legend(fontsize=8)
    return drawn


def _draw_bars(judgements: Sequence[Judgement], title: str, *, marked: bool) -> Figure:
    drawn = plot.figure(width=max(plot.SIZE[0], 2 + 0.2 * len(judgements)), height=4.2)
    axes = drawn.add_subplot()
    kinds = ("packed", "distributed", "learned")
    width = 0.8 / len(kinds)
    for number, kind in enumerate(kinds):
        places = [place + (number - 1) * width for place in range(len(judgements))]
        axes.bar(places, [getattr(one, kind) / one.case.oracle for one in judgements], width, label=kind)
    if marked:
        for place, one in enumerate(judgements):
            height = max(one.packed, one.distributed, one.learned) / one.case.oracle
            axes.annotate("✓" if one.good else "!", (place, height), ha="center", va="bottom")
    axes.set_yscale("log")
    labels = [f"{one.case.label}, {one.case.program.threads}" for one in judgements]
    axes.set_xticks(range(len(judgements)), labels, rotation=90, fontsize=6)
    axes.set_ylabel("time over the oracle's")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8)
    return drawn


def page(evaluation: Evaluation) -> str:
    """Return all results as one HTML page, which loads nothing else."""
    parts = [
        f"<p>{html.escape(summary(evaluation))}</p>",
        *(_policy(name, rules) for name, rules in evaluation.policies.items()),
        *(_without_prolog(plot.svg(drawn)) for drawn in figures(evaluation).values()),
        *(table.html() for table in tables(evaluation)),
    ]
    return report.page("Evaluation of affinity hints", parts)


def _policy(name: str, rules: Sequence[str]) -> str:
    text = html.escape("\n".join(rules))
    return f"<h2>{html.escape(name.capitalize())} policy, learned from all programs</h2>\n<pre>{text}</pre>"


def _without_prolog(svg: str) -> str:
    """Remove the text before the root element, which HTML does not allow."""
    return svg[svg.index("<svg") :]
