"""The command ``pinfold-learn``, which ``pinfold learn`` runs."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

FAILURE = 125
"""The same as of the binary: a command that failed."""

TRAINING_THREADS = 8
"""The number of threads that the paper learns from (Moore and Childers, 2012, section 3)."""

METHODS = ("pinfold", "paper", "regret-tree", "two-samples")

PARQUET = b"PAR1"
"""The first bytes of every Parquet file."""

DATA_HELP = """\
A data set has the times and counters of each program in several placements of its threads. One for both commands:

  pinfold record -o app-8.pft -- ./app --threads 8         (one file for each program, and number of threads)
  pinfold sweep --machine M --space threads -o 8.parquet *-8.pft
  pinfold sweep --machine M --space hints -o other.parquet *-4.pft *-16.pft

Programs that differ only in their arguments count as one. It is never judged by a policy that was learned from it.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    asked = _parser().parse_args(arguments)
    try:
        _check(asked)
        # Errors in the arguments are reported before this import, which takes seconds.
        getattr(importlib.import_module("pinfold.learn.jobs"), asked.job)(asked)
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
    _add_evaluate(commands.add_parser("evaluate", help="judge policies by programs from which they were not learned"))
    return parser


def _add_train(parser: argparse.ArgumentParser) -> None:
    hints = parser.add_subparsers(metavar="POLICY", required=True).add_parser(
        "hints",
        help="the choice of a program's affinity hint after one sample (AutoFinity)",
        description="Learn rules that choose an affinity hint from a program's sample, and write them as JSON.",
        epilog=DATA_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_data(hints)
    hints.add_argument("-o", "--output", type=Path, required=True, metavar="POLICY.json", help="the policy")
    hints.add_argument(
        "--method",
        choices=METHODS,
        default="pinfold",
        help="the paper's steps on events per instruction in logarithmic bins (pinfold, the default), exactly the "
        "paper's (paper), a tree of the costs of wrong hints (regret-tree), or the two placements that are worth "
        "sampling (two-samples)",
    )
    hints.add_argument(
        "--incomplete",
        action="store_true",
        help="programs may have been observed in only some placements, as in a behaviour database; with --method paper",
    )
    hints.set_defaults(job="train_hints")


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    judged = parser.add_subparsers(metavar="POLICY", required=True).add_parser(
        "hints",
        help="the figures of AutoFinity's evaluation, for your own data",
        description=(
            "Judge the choice of affinity hints as AutoFinity's paper does: each program by a policy that was "
            "learned from all others, compared with packed, distributed and the best placement."
        ),
        epilog=DATA_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_data(judged)
    judged.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    judged.add_argument("--report", type=Path, metavar="FILE.html", help="write tables and plots to this web page")
    judged.set_defaults(job="evaluate_hints")


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, action="append", required=True, metavar="FILE.parquet", help="a data set; repeat for more"
    )
    parser.add_argument(
        "--threads",
        type=_threads,
        default=TRAINING_THREADS,
        metavar="N",
        help="learn from programs with this number of threads (default %(default)s), or with any number: all",
    )
    parser.add_argument(
        "--machine",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.toml",
        help="the model of a machine in the data set that is not built into pinfold; repeat for more",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only errors and results")


def _threads(text: str) -> int | None:
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a number of threads: give a whole number of 1 or more, or all")
    return int(text)


def _check(asked: argparse.Namespace) -> None:
    """Raise an error where the arguments are not valid, as far as this is known without reading data sets."""
    if getattr(asked, "incomplete", False) and asked.method != "paper":
        raise ValueError("--incomplete needs --method paper: the other methods compare all hints of a program")
    if asked.job == "evaluate_hints" and asked.threads is None:
        raise ValueError(
            "--threads all is for training: evaluation learns from one number of threads and judges the others"
        )
    for file in asked.data:
        try:
            with file.open("rb") as opened:
                begin = opened.read(len(PARQUET))
        except OSError as error:
            raise ValueError(
                f"{file} cannot be read as a data set: {error.strerror}; `pinfold sweep -o` writes one"
            ) from error
        if begin != PARQUET:
            raise ValueError(f"{file} is not a data set: it is not Parquet; `pinfold sweep -o` writes one")
    for file in asked.machine:
        file.open("rb").close()
    for file in (getattr(asked, name, None) for name in ("output", "json", "report")):
        if file and not file.parent.is_dir():
            raise ValueError(f"{file} cannot be written: there is no folder {file.parent}")
        if file and file.is_dir():
            raise ValueError(f"{file} cannot be written: it is a folder")


if __name__ == "__main__":
    raise SystemExit(main())
