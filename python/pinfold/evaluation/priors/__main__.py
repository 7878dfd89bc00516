"""Sweeps generated programs on varied machines, and makes the data set that the belief that ships is learned from.

``python -m pinfold.evaluation.priors [--space auto|whole] [--quick] [--programs N] [--collect]``, in the project's root
after ``make build workloads``. SIGINT and SIGTERM stop it after the programs that are being swept.
"""

from __future__ import annotations

import argparse
import signal
import sys

from pinfold.evaluation.priors.design import PROGRAMS, programs
from pinfold.evaluation.priors.machines import MODELS
from pinfold.evaluation.priors.sweep import RESULTS, auto_study, collect, costs_table, sweep, whole_study

QUICK_PROGRAMS = 6

QUICK_MODELS = ("e5-4650x4", "epyc-7763x2")


def main() -> None:
    """Sweep the missing programs, and write the data set of those that are there."""
    parser = argparse.ArgumentParser(prog="python -m pinfold.evaluation.priors", description=__doc__.splitlines()[0])
    parser.add_argument("--space", choices=("auto", "whole"), default="auto", help="the configurations")
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_PROGRAMS} programs; in the space of auto on two machines"
    )
    parser.add_argument("--programs", type=int, help=f"the first programs of the design (default {PROGRAMS})")
    parser.add_argument("--jobs", type=int, help="programs at the same time (default: the number of CPUs)")
    parser.add_argument("--collect", action="store_true", help="sweep nothing: take what is there")
    asked = parser.parse_args()
    made = programs(asked.programs or (QUICK_PROGRAMS if asked.quick else PROGRAMS))
    study = whole_study() if asked.space == "whole" else auto_study(QUICK_MODELS if asked.quick else MODELS)
    file = RESULTS / f"{study.name}.parquet"
    failed = {}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        failed = {} if asked.collect else sweep(made, study, asked.jobs)
    except KeyboardInterrupt:
        print("priors: stopped; the same command goes on", file=sys.stderr)
    table = costs_table(collect(made, study, RESULTS, file))
    print(*(f"failed: {name}: {why}" for name, why in failed.items()), "\n".join(table.markdown()), sep="\n")
    print(f"Written: {file}")


if __name__ == "__main__":
    main()
