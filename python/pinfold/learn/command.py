"""The command ``pinfold-learn``, to which ``pinfold learn`` hands over."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pinfold.learn import data_set, hint_evaluation, hint_report
from pinfold.learn.data_set import DataSet
from pinfold.learn.hint_policy import learn_best_observed, learn_policy
from pinfold.learn.machines import find_binary
from pinfold.learn.rule_policy import Trained, write_rule_policy
from pinfold.learn.variants import DEFAULT, PAPER, TREE

FAILURE = 125
"""As of the binary: a command that could not do its work."""

TRAINING_THREADS = 8
"""The number of threads that the paper learns from (Moore and Childers, 2012, section 3)."""

METHODS = {"pinfold": DEFAULT, "paper": PAPER, "regret-tree": TREE}

DATA_HELP = """\
A data set has, for each program, its times and counters in the placements of its threads. One for learning and judging:

  pinfold record -o app-8.pft -- ./app --threads 8         (one file for each program, and number of threads)
  pinfold sweep --machine M --space threads -o 8.parquet *-8.pft
  pinfold sweep --machine M --space hints -o other.parquet *-4.pft *-16.pft

Programs that differ in their arguments only count as one: it is never judged by a policy that has seen it.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    asked = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], None] = asked.run
    try:
        run(asked)
    except (OSError, ValueError) as error:
        print(f"pinfold learn: {error}", file=sys.stderr)
        return FAILURE
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pinfold learn", description="Learn from data sets which affinity suits a program."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_train(commands.add_parser("train", help="learn a policy from a data set"))
    _add_evaluate(commands.add_parser("evaluate", help="judge policies by programs that they have not seen"))
    return parser


def _add_train(parser: argparse.ArgumentParser) -> None:
    hints = parser.add_subparsers(metavar="POLICY", required=True).add_parser(
        "hints",
        help="which affinity hint a program gets after one sample (AutoFinity)",
        description="Learn rules that say of a program's sample which affinity hint it gets, and write them as JSON.",
        epilog=DATA_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_data(hints)
    hints.add_argument("-o", "--output", type=Path, required=True, metavar="POLICY.json", help="the policy")
    hints.add_argument(
        "--method",
        choices=list(METHODS),
        default="pinfold",
        help="the paper's steps on events an instruction in logarithmic bins (pinfold, the default), exactly the "
        "paper's (paper), or a tree of what a wrong hint costs (regret-tree)",
    )
    hints.add_argument(
        "--incomplete",
        action="store_true",
        help="programs may have been observed in some placements only, as in a behaviour database; with --method paper",
    )
    hints.set_defaults(run=_train_hints)


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    judged = parser.add_subparsers(metavar="POLICY", required=True).add_parser(
        "hints",
        help="the figures of AutoFinity's evaluation, for your own data",
        description=(
            "Judge how affinity hints are chosen, as AutoFinity's paper does: each program by a policy that was "
            "learned of all others, beside packed, distributed and the best placement."
        ),
        epilog=DATA_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_data(judged)
    judged.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    judged.add_argument("--report", type=Path, metavar="FILE.html", help="write tables and plots to this web page")
    judged.set_defaults(run=_evaluate_hints)


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, action="append", required=True, metavar="FILE.parquet", help="a data set; repeat for more"
    )
    parser.add_argument(
        "--threads",
        type=_threads,
        default=TRAINING_THREADS,
        metavar="N",
        help="learn from programs with so many threads (default %(default)s), or with any number: all",
    )
    parser.add_argument(
        "--machine",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.toml",
        help="the model of a machine in the data set that is not pinfold's own; repeat for more",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="tell nothing but errors and results")


def _threads(text: str) -> int | None:
    return None if text == "all" else int(text)


def _read(asked: argparse.Namespace) -> DataSet:
    return data_set.read(asked.data, find_binary(), asked.machine, getattr(asked, "incomplete", False))


def _teller(asked: argparse.Namespace) -> Callable[[str], None]:
    def tell(text: str) -> None:
        if not asked.quiet:
            print(f"pinfold learn: {text}", file=sys.stderr)

    return tell


def _train_hints(asked: argparse.Namespace) -> None:
    if asked.incomplete and asked.method != "paper":
        raise ValueError("--incomplete is for --method paper: the other ways compare all hints of a program")
    recipe = METHODS[asked.method]
    data = _read(asked).seen(recipe.view)
    cases = data.training(asked.threads)
    if asked.incomplete:
        policy, learner = learn_best_observed(cases), "RIPPER of the best hint that each program was observed with"
    else:
        policy, learner = learn_policy(cases, data.machines.best_matches, recipe), recipe.text()
    trained = Trained(
        data.simulated,
        sorted({case.program.machine for case in cases}),
        sorted({case.program.name for case in cases}),
        policy.rows,
        learner,
    )
    write_rule_policy(asked.output, policy.rules, data.metrics, trained)
    names = [metric.name for metric in data.metrics]
    tell = _teller(asked)
    for rule in policy.rules:
        tell(rule.text(names))


def _evaluate_hints(asked: argparse.Namespace) -> None:
    if asked.threads is None:
        raise ValueError(
            "--threads all is for training: a judgement is of policies from one number of threads for others"
        )
    evaluation = hint_evaluation.evaluate(_read(asked), asked.threads, _teller(asked))
    if asked.json:
        text = json.dumps(hint_evaluation.document(evaluation), indent=2, ensure_ascii=False, allow_nan=False)
        asked.json.write_text(text + "\n", encoding="utf-8")
    if asked.report:
        asked.report.write_text(hint_report.page(evaluation), encoding="utf-8")
    print(hint_report.summary(evaluation))
    for table in hint_report.tables(evaluation)[:1]:
        print()
        print("\n".join(table.markdown()).rstrip())


if __name__ == "__main__":
    raise SystemExit(main())
