"""The command ``pinfold-learn``, which ``pinfold learn`` runs."""

from __future__ import annotations

import argparse
import importlib
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pinfold.binary import find_binary
from pinfold.learn.cluster import MEASURED
from pinfold.learn.foreign.options import add_import
from pinfold.text import cleaned_output

FAILURE = 125
"""The same as of the binary: a command that failed."""

TRAINING_THREADS = 8
"""The number of threads that AutoFinity learns from (Moore and Childers, 2012, section 3)."""

LEARNERS = ("any", "tree", "forest", "boosting")
"""The kinds of learners of placement models."""

SEEDS = 5
"""The number of seeds for judging models of ``classify`` and ``react``."""

METHODS = ("pinfold", "paper", "regret-tree", "two-samples")

USUAL_DATABASE = Path()
"""Stands for the behaviour database that `pinfold run` uses."""

PARQUET = b"PAR1"
"""The first bytes of every Parquet file."""

CLASSIFY_HELP = """\
A data set has the times of each program in four strategies of placement, {compact, scatter} threads with {first_touch,
interleave} pages, and what `pinfold run --policy classify:forest` observes of it. A program has a thread for each core:

  pinfold record -o app-24.pft -- ./app --threads 24
  pinfold learn observe classify --machine e5-2680v3x2 -o 24.parquet *-24.pft
  pinfold learn train classify --data 24.parquet -o model.json
  pinfold run --policy classify:forest --placement-model model.json -- ./app --threads 24

Programs that differ only in their arguments count as one. It is never judged by a model that was learned from it.
"""

REACT_HELP = """\
A data set has the times and counters of parallel regions in all configurations of threads, pages and prefetchers:

  for n in 8 16 32; do pinfold record --region 1 -o app-$n.pft -- ./app --threads $n; done
  pinfold sweep --machine e5-4650x4 --space ics20 -o data.parquet *.pft
  pinfold learn train react --data data.parquet -o react.json

Programs that differ only in their arguments count as one. It is never judged by a model that was learned from it.
"""

KIB_OF_BELIEF = 100
"""The largest file of a belief."""

BELIEF_HELP = """\
A data set has the times of regions or of whole programs in configurations of threads, pages and prefetchers:

  pinfold sweep --machine e5-4650x4 --space ics20 -o simulated.parquet *.pft
  pinfold learn import --columns numa-prefetch -o measured.parquet TABLE.csv.gz
  pinfold learn train belief --data simulated.parquet --data measured.parquet --weight 1 --weight 2 -o belief.json
  pinfold learn evaluate belief --data measured.parquet

The largest configuration of a machine in a data set stands for the whole machine. Programs that differ only in their
arguments count as one. It is never judged by a belief that was learned from it.
"""

DATA_HELP = """\
A data set has the times and counters of each program in several placements of its threads. One for both commands:

  pinfold record -o app-8.pft -- ./app --threads 8         (one file for each program, and number of threads)
  pinfold sweep --machine M --space threads -o 8.parquet *-8.pft
  pinfold sweep --machine M --space hints -o other.parquet *-4.pft *-16.pft

Programs that differ only in their arguments count as one. It is never judged by a policy that was learned from it.
"""


SWEEP_HELP = """\
On a login node:

  pinfold learn sweep --slurm --shards 20 --time 120 --cpus 8 --machine M --space numa -o data.parquet *.pft

  pinfold learn sweep --slurm --shards 4 --time 240 --space numa -o measured.parquet -- ./solver input.dat

The first one simulates recordings, and its data set has the same bytes as that of `pinfold sweep`. The second one runs
the program on nodes of one kind, and each job has a node for itself. It needs the Python package submitit.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    with cleaned_output():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        asked = _parser().parse_args(arguments)
    except SystemExit as ended:
        # argparse ends with 2 after a usage error, and every command of pinfold with the status of its failures.
        return FAILURE if ended.code else 0
    try:
        with tempfile.TemporaryDirectory() as folder:
            if getattr(asked, "from_db", None) is not None:
                _export(asked, Path(folder) / "samples.parquet")
            _check(asked)
            # Errors in the arguments are reported before this import, which takes seconds.
            module, _, job = asked.job.rpartition(".")
            getattr(importlib.import_module(f"pinfold.learn.{module}"), job)(asked)
    except (OSError, ValueError) as error:
        print(f"pinfold learn: {error}", file=sys.stderr)
        return FAILURE
    except KeyboardInterrupt:
        return 130
    return 0


def _export(asked: argparse.Namespace, file: Path) -> None:
    """Use the samples of a behaviour database as the data set.

    Raises:
        ValueError: if they cannot be had; the message says why.
    """
    # This import takes seconds.
    database = [] if asked.from_db == USUAL_DATABASE else ["--db", str(asked.from_db)]
    command = [str(find_binary()), "db", "export", *database, "--data", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(f"the behaviour database has no data set: {done.stderr.removeprefix('error: ').strip()}")
    asked.data = [file]
    # As `pinfold db rebuild` does: programs were run in some placements, with any number of threads.
    asked.method, asked.threads, asked.incomplete = "paper", None, True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pinfold learn", description="Learn from data sets which placement suits a program."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def policies(command: str, text: str) -> Any:
        return commands.add_parser(command, help=text).add_subparsers(metavar="POLICY", required=True)

    _add_observe_classify(policies("observe", "make a data set of recordings"))
    train = policies("train", "learn a policy from a data set")
    _add_train_hints(train)
    _add_train_classify(train)
    _add_train_react(train)
    _add_train_belief(train)
    evaluate = policies("evaluate", "judge policies by programs from which they were not learned")
    _add_evaluate_hints(evaluate)
    _add_evaluate_classify(evaluate)
    _add_evaluate_react(evaluate)
    _add_evaluate_belief(evaluate)
    predict = policies("predict", "show what a model says of the programs of a data set")
    _add_predict_classify(predict)
    _add_predict_react(predict)
    _add_sweep(commands)
    add_import(commands)
    return parser


def _add_sweep(commands: Any) -> None:
    parser = _add(
        commands,
        "sweep",
        "make a data set on a cluster",
        "Sweep recordings or a program as `pinfold sweep` does, in shards that are jobs of Slurm, and merge them.\n"
        "Jobs that hit their time limit are resubmitted. Ctrl-C cancels the jobs; the same command goes on from\n"
        "what is done.",
        SWEEP_HELP,
    )
    parser.add_argument("--slurm", action="store_true", help="submit the shards as a job array of Slurm (required)")
    parser.add_argument("--shards", type=_positive, required=True, metavar="N", help="the number of shards")
    parser.add_argument(
        "--time", type=_positive, default=60, metavar="MINUTES", help="the time limit of a job (default %(default)s)"
    )
    parser.add_argument("--partition", metavar="NAME", help="the partition (default that of the cluster)")
    parser.add_argument(
        "--cpus",
        type=_positive,
        metavar="N",
        help="CPUs of a job (default 1; for a measured program all of its node)",
    )
    parser.add_argument(
        "--logs",
        type=Path,
        metavar="FOLDER",
        help="logs and shards, in a folder that all nodes see (default DATA.parquet.slurm)",
    )
    parser.add_argument(
        "--machine",
        action="append",
        default=[],
        help="simulate recordings on this machine, as of `pinfold sweep`; repeat for more. Without it, the program is "
        "measured on the nodes",
    )
    parser.add_argument("--space", action="append", required=True, help="configurations, as there; repeat for more")
    parser.add_argument("--threads", type=_positive, metavar="N", help="the program has N threads")
    parser.add_argument("--limit", type=_positive, metavar="N", help="at most N placements of `--space threads`")
    parser.add_argument("--sampled", action="store_true", help="simulate pieces of long recordings")
    parser.add_argument("--force", action="store_true", help="replace the data set if it exists")
    _add_output(parser, "DATA.parquet", "the data set")
    measured = parser.add_argument_group("for a measured program, as those of `pinfold sweep`")
    for name, value in MEASURED:
        measured.add_argument(f"--{name}", metavar=value, dest=f"measured_{name}")
    parser.add_argument("what", nargs="+", metavar="WHAT", help="recordings (FILE.pft), or -- and a command")
    parser.set_defaults(job="cluster.sweep", data=[])


def _add(policies: Any, name: str, text: str, description: str, epilog: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = policies.add_parser(
        name, help=text, description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only errors and results")
    return parser


def _add_observe_classify(policies: Any) -> None:
    parser = _add(
        policies,
        "classify",
        "times in four strategies of placement, and what one sample shows",
        "Simulate recordings in four strategies of placement, and observe them as the policy classify does.",
        CLASSIFY_HELP,
    )
    parser.add_argument(
        "--machine",
        action="append",
        required=True,
        metavar="NAME|FILE.toml",
        help="a machine with as many cores as the recordings have threads; repeat for more",
    )
    _add_output(parser, "FILE.parquet", "the data set")
    parser.add_argument("recordings", type=Path, nargs="+", metavar="FILE.pft", help="the recordings")
    parser.set_defaults(job="classify.jobs.observe", data=[])


def _add_train_hints(policies: Any) -> None:
    parser = _add(
        policies,
        "hints",
        "the choice of a program's affinity hint after one sample (AutoFinity)",
        "Learn rules that choose an affinity hint from a program's sample, and write them as JSON.",
        DATA_HELP,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    _add_data(source, required=False)
    source.add_argument(
        "--from-db",
        type=Path,
        nargs="?",
        const=USUAL_DATABASE,
        metavar="FILE",
        help="what earlier runs have left in the behaviour database (default the one that `pinfold run` uses), as "
        "`pinfold db rebuild` learns from it: --method paper --threads all --incomplete",
    )
    _add_of_hints(parser)
    _add_output(parser, "POLICY.json", "the policy")
    parser.add_argument(
        "--method",
        choices=METHODS,
        default="pinfold",
        help="the paper's steps on events per instruction in logarithmic bins (pinfold, the default), exactly the "
        "paper's (paper), a tree of the costs of wrong hints (regret-tree), or the two placements that are worth "
        "sampling (two-samples)",
    )
    parser.add_argument(
        "--incomplete",
        action="store_true",
        help="programs may have been observed in only some placements, as in a behaviour database; with --method paper",
    )
    _add_mixed(parser)
    parser.set_defaults(job="hints.jobs.train_hints")


def _add_train_classify(policies: Any) -> None:
    parser = _add(
        policies,
        "classify",
        "a model of a program's time in four strategies of placement (Denoyelle et al.)",
        "Choose a learner, fit a model of the times in four strategies of placement, and write it as JSON.",
        CLASSIFY_HELP,
    )
    _add_data(parser)
    _add_output(parser, "MODEL.json", "the model")
    parser.add_argument(
        "--learner",
        choices=LEARNERS,
        default="any",
        help="the kind of learner (default any: the easiest to read of those that are as good as the best)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of folds and learner (default %(default)s)")
    _add_mixed(parser)
    parser.set_defaults(job="classify.jobs.train")


def _add_evaluate_hints(policies: Any) -> None:
    parser = _add(
        policies,
        "hints",
        "the figures of AutoFinity's evaluation, for your own data",
        "Judge the choice of affinity hints as AutoFinity's paper does: each program by a policy that was\n"
        "learned from all others, compared with packed, distributed and the best placement.",
        DATA_HELP,
    )
    _add_data(parser)
    _add_of_hints(parser)
    _add_results(parser)
    parser.set_defaults(job="hints.jobs.evaluate_hints")


def _add_evaluate_classify(policies: Any) -> None:
    parser = _add(
        policies,
        "classify",
        "how well models of placement do on programs and machines that they have not seen",
        "Judge models of placement, nested: each program by models that were chosen, fitted and calibrated without\n"
        "it, and on each machine also by models that know other machines only. Beside them are policies without a\n"
        "model, and a control that has learned from exchanged times.",
        CLASSIFY_HELP,
    )
    _add_data(parser)
    _add_results(parser)
    _add_seeds(parser)
    parser.set_defaults(job="classify.jobs.evaluate")


def _add_predict_classify(policies: Any) -> None:
    parser = _add(
        policies,
        "classify",
        "the strategy that a model forecasts for each program",
        "Show what a model forecasts for the programs of a data set, beside the truth.",
        CLASSIFY_HELP,
    )
    _add_asked_of_model(parser, "forecasts")
    parser.set_defaults(job="classify.jobs.predict")


def _add_train_react(policies: Any) -> None:
    parser = _add(
        policies,
        "react",
        "the configuration of a parallel region after two profiles (Sánchez Barrera et al.)",
        "Choose two counters, each in a configuration, from which a decision tree best predicts the configuration of\n"
        "a parallel region. The model is written as JSON, and judged: nested, and against a control. It is for\n"
        "--policy react:tree; --policy react needs no model.",
        REACT_HELP,
    )
    _add_data(parser)
    _add_of_react(parser)
    _add_output(parser, "MODEL.json", "the model")
    _add_mixed(parser)
    parser.set_defaults(job="react.jobs.train")


def _add_evaluate_react(policies: Any) -> None:
    parser = _add(
        policies,
        "react",
        "how well two profiles predict the configuration of regions of programs that were not seen",
        "Judge models, nested: each region by models that were chosen and fitted without its program. Beside them are\n"
        "the paper's score, choices without a model, and a control that has learned from exchanged times.",
        REACT_HELP,
    )
    _add_data(parser)
    _add_of_react(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    parser.set_defaults(job="react.jobs.evaluate")


def _add_predict_react(policies: Any) -> None:
    parser = _add(
        policies,
        "react",
        "the configuration that a model chooses for each region",
        "Show what a model chooses for the regions of a data set, beside the truth.",
        REACT_HELP,
    )
    _add_asked_of_model(parser, "choices")
    parser.set_defaults(job="react.jobs.predict")


def _add_train_belief(policies: Any) -> None:
    parser = _add(
        policies,
        "belief",
        "what a program's time may be in any configuration, before it was tried in one",
        "Learn the mean and the covariance of times over configurations, and write them as JSON. Trials of a program\n"
        "update the belief, and it chooses the next one.",
        BELIEF_HELP,
    )
    _add_data(parser)
    _add_weight(parser)
    parser.add_argument(
        "--kib",
        type=_kib_of_belief,
        metavar="N",
        default=KIB_OF_BELIEF,
        help=f"the largest file, in KiB: a smaller one lists fewer configurations (default, and most: {KIB_OF_BELIEF})",
    )
    _add_output(parser, "BELIEF.json", "the belief")
    _add_mixed(parser)
    parser.set_defaults(job="belief.jobs.train")


def _add_evaluate_belief(policies: Any) -> None:
    parser = _add(
        policies,
        "belief",
        "how soon a belief finds fast configurations of programs that it has not seen",
        "Judge beliefs, nested: each program by a belief that was learned from all others, with settings that were\n"
        "chosen without it. Beside them are random trials, the best single configuration, a greedy race, and a\n"
        "control that has learned from exchanged times.",
        BELIEF_HELP,
    )
    _add_data(parser)
    _add_weight(parser)
    parser.add_argument(
        "--belief",
        type=Path,
        metavar="BELIEF.json",
        help="judge this belief, which was learned from other programs (default: learn one for each program)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    parser.set_defaults(job="belief.jobs.evaluate")


def _add_weight(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--weight",
        type=_weight,
        action="append",
        default=[],
        metavar="W",
        help="how much a region of a data set counts, once for each --data in the same order (default 1)",
    )


def _add_of_react(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--machine", metavar="NAME", help="choose configurations of this machine, where the data is of several"
    )
    parser.add_argument(
        "--counted-on", metavar="NAME", help="learn from the counters of this machine (default: the same)"
    )
    parser.add_argument(
        "--features",
        type=int,
        choices=(2, 3),
        default=2,
        help="the number of counters that a tree sees (default %(default)s)",
    )
    _add_seeds(parser)


def _add_asked_of_model(parser: argparse.ArgumentParser, answers: str) -> None:
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL.json", help="the model")
    _add_data(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help=f"write all {answers} to this file")


def _add_seeds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds", type=_count, default=SEEDS, metavar="N", help="the number of seeds (default %(default)s)"
    )


def _add_output(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    parser.add_argument("-o", "--output", type=Path, required=True, metavar=name, help=text)


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write tables and plots to this web page")


def _add_data(parser: Any, *, required: bool = True) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        action="append",
        required=required,
        default=[],
        metavar="FILE.parquet",
        help="a data set; repeat for more",
    )


def _add_mixed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mixed",
        action="store_true",
        help="learn from measured and simulated rows together; without it they are refused",
    )


def _add_of_hints(parser: argparse.ArgumentParser) -> None:
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


def _is_positive(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) > 0


def _threads(text: str) -> int | None:
    if text == "all":
        return None
    if not _is_positive(text):
        raise argparse.ArgumentTypeError(f"{text} is not a number of threads: give a whole number of 1 or more, or all")
    return int(text)


def _count(text: str) -> int:
    if not _is_positive(text):
        raise argparse.ArgumentTypeError(f"{text} is no number of seeds: give a whole number of 1 or more")
    return int(text)


def _weight(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no weight: give a number above 0")
    return value


def _kib_of_belief(text: str) -> int:
    if not _is_positive(text) or int(text) > KIB_OF_BELIEF:
        raise argparse.ArgumentTypeError(
            f"{text} is no size of a belief: give a whole number from 1 to {KIB_OF_BELIEF}"
        )
    return int(text)


def _positive(text: str) -> int:
    if not _is_positive(text):
        raise argparse.ArgumentTypeError(f"{text} is no number that fits: give a whole number of 1 or more")
    return int(text)


def _check(asked: argparse.Namespace) -> None:
    """Raise an error for invalid arguments. Data sets are not read yet."""
    if check := getattr(asked, "check", None):
        check(asked)
    if getattr(asked, "incomplete", False) and asked.method != "paper":
        raise ValueError("--incomplete needs --method paper: the other methods compare all hints of a program")
    if asked.job == "hints.jobs.evaluate_hints" and asked.threads is None:
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
    machines = getattr(asked, "machine", None)
    named = [
        *(machines if isinstance(machines, list) else []),
        getattr(asked, "model", None),
        getattr(asked, "belief", None),
        *getattr(asked, "recordings", []),
    ]
    for file in (one for one in named if isinstance(one, Path)):
        file.open("rb").close()
    for file in (getattr(asked, name, None) for name in ("output", "json", "report")):
        if file and not file.parent.is_dir():
            raise ValueError(f"{file} cannot be written: there is no folder {file.parent}")
        if file and file.is_dir():
            raise ValueError(f"{file} cannot be written: it is a folder")


if __name__ == "__main__":
    raise SystemExit(main())
