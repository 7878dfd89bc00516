"""`python -m pinfold.applications [STEP] [NAME...]`: the program behind `make applications`.

The steps are install, record, sweep and catalogue; without one, all in this order. A step skips its earlier work. If an
application fails, the reason is printed and the others go on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pinfold.applications import catalogue, data_sets
from pinfold.applications.description import Application, Phase, Run, read
from pinfold.applications.install import install
from pinfold.applications.places import Places
from pinfold.applications.recording import FailedError, Recorder

STEPS = ("install", "record", "sweep", "catalogue")


def say(text: str) -> None:
    """Print progress."""
    print(f"applications: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps; return the exit status: 1 if an application failed."""
    parser = argparse.ArgumentParser(prog="python -m pinfold.applications", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="STEP|NAME")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder (default: this one)")
    asked = parser.parse_args(arguments)
    places = Places(asked.root.resolve())
    try:
        applications = read(asked.root)
    except ValueError as error:
        parser.error(str(error))
    names = [word for word in asked.words if word not in STEPS]
    if unknown := sorted(set(names) - {application.name for application in applications}):
        parser.error(f"there is no application {unknown[0]}, and no step of this name ({', '.join(STEPS)})")
    steps = [step for step in STEPS if step in asked.words] or STEPS
    chosen = [one for one in applications if one.runs and (not names or one.name in names)]
    failed: dict[str, str] = {}
    if "install" in steps:
        failed |= install(chosen, places)
    chosen = [application for application in chosen if application.name not in failed]
    if "record" in steps:
        failed |= _each(chosen, lambda application: _record(application, places))
    if "sweep" in steps:
        failed |= _each(chosen, lambda application: _sweep(application, places))
        for file in data_sets.write(_rows(applications, places), places):
            say(f"wrote {file}")
    if "catalogue" in steps:
        say(f"wrote {catalogue.write(asked.root, applications)}")
    for name, reason in failed.items():
        say(f"failed: {name}: {reason}")
    return 1 if failed else 0


def _each(applications: Sequence[Application], act: Callable[[Application], list[str]]) -> dict[str, str]:
    failed = {}
    for number, application in enumerate(applications, 1):
        say(f"{application.name}, {number} of {len(applications)}")
        if reasons := act(application):
            failed[application.name] = "; ".join(reasons)
            say(f"failed: {application.name}: {failed[application.name]}")
    return failed


def _record(application: Application, places: Places) -> list[str]:
    recorder = Recorder(application, places)
    try:
        recorder.prepare()
    except FailedError as error:
        return [str(error)]
    return _phases(application, recorder.record)


def _sweep(application: Application, places: Places) -> list[str]:
    def act(run: Run, phase: Phase) -> bool:
        recorded = places.recording(run, phase).with_suffix(".json").exists()
        return recorded and data_sets.sweep(application, run, phase, places)

    return _phases(application, act)


def _phases(application: Application, act: Callable[[Run, Phase], bool]) -> list[str]:
    failed = []
    for run in application.runs:
        for phase in run.phases:
            started = time.monotonic()
            try:
                if act(run, phase):
                    say(f"{run.title(phase)}: {time.monotonic() - started:.1f} s")
            except FailedError as error:
                failed.append(str(error))
    return failed


def _rows(applications: Sequence[Application], places: Places) -> list[data_sets.Rows]:
    found = [
        data_sets.read_rows(application, run, phase, places)
        for application in applications
        for run in application.runs
        for phase in run.phases
    ]
    return [rows for rows in found if rows is not None]


if __name__ == "__main__":
    raise SystemExit(main())
