"""The results of an evaluation of hint policies, as tables and plots, and as one self-contained web page."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pinfold import plot
from pinfold.learn import report
from pinfold.learn.hints.evaluation import Evaluation, Judged
from pinfold.learn.hints.judging import Judgement
from pinfold.learn.hints.variants import MEASURED, ONE_SAMPLE, OURS, PAPERS
from pinfold.tables import Table

SHOWN_SPREADS = 8
"""The number of programs in the plot of placements: more lines cannot be distinguished."""


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
        table("Ways to discretise counts, in the paper's policy:", ("discretisation",), (PAPERS,)),
        table("Ways to condense the counts of threads, in the paper's policy:", ("condense",), (PAPERS,)),
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
    return Table(_CASE_COLUMNS, rows, f"Programs with {evaluation.threads} threads, pinfold's policy:")


def _interesting(evaluation: Evaluation) -> Table:
    rows = [[*_case(one), "yes" if one.good else "no"] for one in evaluation.of(OURS).judgements if one.interesting]
    caption = "Interesting cases, pinfold's policy; the last column: within 1 % of the better static policy:"
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
    return Table(columns, rows, f"Times of {evaluation.threads} threads in all swept placements:")


def _behaviours(evaluation: Evaluation) -> Table:
    rows = [[one.label, str(one.unique), str(one.cumulative)] for one in evaluation.behaviours]
    caption = "Discretised behaviours of each program in all swept placements, and of all programs so far:"
    return Table(["program", "unique", "cumulative"], rows, caption)


def _trained(evaluation: Evaluation) -> list[Judgement]:
    found = [one for one in evaluation.of(OURS).judgements if one.case.program.threads == evaluation.threads]
    return sorted(found, key=lambda one: one.packed / one.distributed)


def figures(evaluation: Evaluation) -> dict[str, Figure]:
    """Return all plots, each with the name of its file."""
    return {name: draw(evaluation) for name, (_, _, draw) in PLOTS.items()}


def _draw_spreads(evaluation: Evaluation) -> Figure:
    spreads = evaluation.spreads
    shown = sorted({round(place * (len(spreads) - 1) / (SHOWN_SPREADS - 1)) for place in range(SHOWN_SPREADS)})
    drawn = plot.figure(height=4.8)
    axes = drawn.add_subplot()
    for place in shown:
        one = spreads[place]
        share = [100 * number / max(len(one.seconds) - 1, 1) for number in range(len(one.seconds))]
        axes.plot(share, [seconds / one.seconds[0] for seconds in one.seconds], label=one.label)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("placements, the best first [%]", fontsize=plot.TEXT)
    axes.set_ylabel("time over that of the best", fontsize=plot.TEXT)
    axes.tick_params(labelsize=plot.TEXT)
    plot.legend_above(drawn, columns=2)
    return drawn


def _draw_behaviours(evaluation: Evaluation) -> Figure:
    found = evaluation.behaviours
    drawn = plot.figure(height=_height(len(found)))
    axes = drawn.add_subplot()
    places = range(len(found))
    axes.barh(places, [one.cumulative for one in found], 0.8, label="of all programs so far", color="C0", alpha=0.45)
    axes.barh(places, [one.unique for one in found], 0.4, label="of this program", color="C1")
    axes.set_xlabel("number of behaviours", fontsize=plot.TEXT)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _rows(axes, [one.label for one in found])
    plot.legend_above(drawn, columns=2)
    return drawn


def _draw_trained(evaluation: Evaluation) -> Figure:
    return _draw_bars(_trained(evaluation), marked=False)


def _draw_interesting(evaluation: Evaluation) -> Figure:
    return _draw_bars([one for one in evaluation.of(OURS).judgements if one.interesting], marked=True)


def _draw_bars(judgements: Sequence[Judgement], *, marked: bool) -> Figure:
    """Bars from zero: one that is as long as the line at 1 is as fast as the best placement."""
    kinds = ("packed", "distributed", "learned")
    drawn = plot.figure(height=_height(2 * len(judgements)))
    axes = drawn.add_subplot()
    width = 0.8 / len(kinds)
    for number, kind in enumerate(kinds):
        places = [place + (number - 1) * width for place in range(len(judgements))]
        axes.barh(places, [getattr(one, kind) / one.case.oracle for one in judgements], width, label=kind)
    axes.axvline(1, color="black", linewidth=1, linestyle="dotted")
    if marked:
        for place, one in enumerate(judgements):
            length = max(one.packed, one.distributed, one.learned) / one.case.oracle
            mark = "within 1 %" if one.good else "worse"
            axes.annotate(f" {mark}", (length, place), ha="left", va="center", fontsize=plot.TEXT)
        # Room for the words.
        axes.set_xlim(right=1.25 * axes.get_xlim()[1])
    axes.set_xlim(left=0)
    axes.set_xlabel("time over that of the best placement", fontsize=plot.TEXT)
    _rows(axes, [f"{one.case.label}, {one.case.program.threads} threads" for one in judgements])
    plot.legend_above(drawn, columns=len(kinds))
    return drawn


def _rows(axes: Axes, labels: Sequence[str]) -> None:
    """Name the rows of bars, the first one at the top."""
    axes.set_yticks(range(len(labels)), labels, fontsize=plot.TEXT)
    axes.tick_params(labelsize=plot.TEXT)
    axes.set_ylim(max(len(labels), 1) - 0.4, -0.6)


def _height(rows: int) -> float:
    """Return the height of a plot with this number of rows, in inches."""
    return 1.3 + 0.22 * max(rows, 3)


PLOTS: dict[str, tuple[str, str, Callable[[Evaluation], Figure]]] = {
    "placements": (
        "How much placements differ",
        "For some programs the time in each swept placement over that in the best one, the best placement first.",
        _draw_spreads,
    ),
    "behaviours": (
        "How many behaviours programs show",
        "For each program the number of its behaviours, and the number of different ones of all programs so far.",
        _draw_behaviours,
    ),
    "fixed-threads": (
        "Packed, distributed and learned placements",
        "For each program the time in three placements over that in the best one. Bars begin at zero.",
        _draw_trained,
    ),
    "interesting": (
        "The same where packed and distributed differ by 20 % or more",
        "Beside the bars: whether the learned placement is within 1 % of the better of the two others.",
        _draw_interesting,
    ),
}
"""By the name of its file: what a plot shows, the same in more words, and what draws it."""


def page(evaluation: Evaluation) -> str:
    """Return all results as one HTML page, which loads nothing else."""
    plots = [report.plotted(draw(evaluation), caption, text) for caption, text, draw in PLOTS.values()]
    policies = [_policy(name, rules) for name, rules in evaluation.policies.items()]
    sections = [
        report.Section("plots", "Plots", "\n".join(plots)),
        report.Section("tables", "Tables", "\n".join(table.folded() for table in tables(evaluation))),
        report.Section("policies", "Learned policies", "\n".join(policies)),
        report.Section("words", "Words on this page", WORDS),
    ]
    simulated = evaluation.data.simulated
    return report.page("Evaluation of affinity hints", summary(evaluation), sections, simulated=simulated)


WORDS = """
<dl>
<dt>Affinity hint</dt>
<dd>Three letters that say where threads belong, on every machine and for every number of threads. <b>S</b>: use many
packages. <b>L</b>: share last-level caches as little as possible. <b>P</b>: the wish about packages goes before that
about caches. A capital letter means yes, a small one no. So <code>SlP</code> uses many packages first, and lets the
threads of a package share their caches.</dd>
<dt>Packed</dt>
<dd>The hint <code>slp</code>: few packages, and threads that share caches. It suits threads that share data.</dd>
<dt>Distributed</dt>
<dd>The hint <code>SLP</code>: many packages, and caches of their own. It suits threads that need much memory bandwidth
or cache.</dd>
<dt>Learned</dt>
<dd>The hint that the rules gave after a sample of the program. They were learned from other programs.</dd>
<dt>Oracle, best placement</dt>
<dd>The fastest of all placements that hints describe. No policy knows it before.</dd>
<dt>Interesting case</dt>
<dd>A program with a number of threads where packed and distributed differ by 20 % or more.</dd>
</dl>
"""


def _policy(name: str, rules: Sequence[str]) -> str:
    text = html.escape("\n".join(rules))
    return f"<h3>{html.escape(name.capitalize())} policy, learned from all programs</h3>\n<pre>{text}</pre>"
