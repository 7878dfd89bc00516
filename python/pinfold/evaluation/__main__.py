"""Makes the JSON in evaluation/ and the pages in docs/evaluation/. The programs themselves make every figure.

Run in the project's root after ``make build`` and ``make bench``::

    python -m pinfold.evaluation [--quick] [--partial] [SECTION...]
    python -m pinfold.evaluation --pages

Each section runs commands and stores their output, its tables and its text as ``evaluation/NAME.json``.
:mod:`pinfold.evaluation.pages` writes ``docs/evaluation/`` from these files; ``--pages`` does only that. A figure that
one of the five papers (docs/papers.md) also has is beside theirs, with the machine of its measurement. Simulated
figures are marked. Each JSON file begins with the commit, the build and the machine that made it, and its promises. A
section is kept if this build and the same code made it, so an interrupted evaluation can continue. It can also continue
on another machine, which makes again the sections that measure the machine. Kept sections get the current commit, which
would make the same. Files of sections of another build are removed: figures of different builds are not mixed, unless
the builds are known to give the same results (:mod:`pinfold.evaluation.same_results`). At the end the broken promises
are printed.

If sections are named, these are made again; all others must be of this build. A section that stands apart (``APART``)
may be of another build than the others. ``--partial`` makes a named section from the part of its sweep that is there,
and the section says how much that is. An evaluation without ``--partial`` makes it again, with the whole sweep.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pinfold.evaluation import pages
from pinfold.evaluation.auto.regions import regions
from pinfold.evaluation.auto.section import auto
from pinfold.evaluation.autopin.searches import searches
from pinfold.evaluation.autopin.section import autopin
from pinfold.evaluation.belief.section import belief
from pinfold.evaluation.changes import changes
from pinfold.evaluation.classify.section import classify
from pinfold.evaluation.costs import costs
from pinfold.evaluation.hints.section import autofinity
from pinfold.evaluation.judged.section import judged
from pinfold.evaluation.live import live
from pinfold.evaluation.measured.section import measured, missing
from pinfold.evaluation.placements import placements
from pinfold.evaluation.progress.section import progress
from pinfold.evaluation.provenance import Provenance, code
from pinfold.evaluation.react.section import react
from pinfold.evaluation.reality.section import PARTIAL, partial_reality, reality
from pinfold.evaluation.sam.fairness import fairness
from pinfold.evaluation.sam.section import sam
from pinfold.evaluation.same_results import FOUND as SAME_RESULTS
from pinfold.evaluation.same_results import Same
from pinfold.evaluation.section import PINFOLD, Section
from pinfold.evaluation.simulator.validation import host, validation
from pinfold.evaluation.simulator.windows import windows

Make = Callable[[bool], Section]
"""Makes a section, whole or reduced."""

SECTIONS: dict[str, Make] = {
    make.__name__: make
    for make in (
        *(
            placements,
            live,
            progress,
            host,
            windows,
            autopin,
            autofinity,
            judged,
            sam,
            fairness,
            classify,
            react,
            auto,
            regions,
            searches,
            validation,
            measured,
            belief,
            reality,
            costs,
        ),
        changes,
    )
}
MEASURED = {make.__name__ for make in (live, progress, host, costs)}
"""The sections that measure the machine that makes them."""
APART = {make.__name__ for make in (progress, fairness, react, classify, auto, regions, measured, belief, reality)}
"""The sections whose figures stand beside no other section's: they learn from committed data, or run programs of their
own. Such a section names its build, and may be of another one than the rest of the page."""
NEEDS: dict[str, Callable[[], str | None]] = {make.__name__: missing for make in (measured, belief, reality)}
"""The sections that need what few machines have, each with a function that says what is missing. A section whose need
is missing stays as it is."""
PARTS: dict[str, Make] = {reality.__name__: partial_reality}
"""Makes sections from the part of their sweep that is there, for ``--partial``."""
DERIVED = {changes.__name__}
"""The sections that only read the figures of others. They take no time, and are always made again."""

FOLDER = Path("evaluation")


def committed(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the content of the sections' JSON files, by section."""
    files = {name: folder / f"{name}.json" for name in SECTIONS}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line. An unknown section ends the program with an error."""
    parser = argparse.ArgumentParser(prog="python -m pinfold.evaluation", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a reduced set, in minutes")
    parser.add_argument("--pages", action="store_true", help="only write the pages again, from the JSON files")
    parser.add_argument(
        "--partial", action="store_true", help=f"do not complete the sweep of these: {', '.join(PARTS)}"
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"only these of: {', '.join(SECTIONS)}")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section `{unknown[0]}`; the sections are {', '.join(SECTIONS)}")
    if asked.partial and (not asked.sections or set(asked.sections) - PARTS.keys()):
        parser.error(f"--partial needs the names of sections, of: {', '.join(PARTS)}")
    return asked


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the requested sections."""
    asked = parsed(arguments)
    makes = SECTIONS | (PARTS if asked.partial else {})
    if asked.pages:
        pages.write(committed(FOLDER), SECTIONS)
        return
    if not PINFOLD.exists():
        sys.exit(f"{PINFOLD} is missing: run this in the project's root after `make build`")
    FOLDER.mkdir(exist_ok=True)
    provenance = Provenance.current(Path(), reduced=asked.quick)
    found = committed(FOLDER)
    codes = {name: code(Path(), make.__module__) for name, make in SECTIONS.items()}
    same = Same.as_this(provenance.build)
    lacking = {name: why for name, need in NEEDS.items() if name in SECTIONS and (why := need())}
    for name, data in found.items():
        if same and name not in MEASURED and data["build"] == same.build:
            found[name] = same.restamped(data, provenance)
    ours = _ours(found, asked.sections, provenance) | (lacking.keys() & found.keys())
    if asked.sections and (others := sorted(set(found) - ours - set(asked.sections))):
        sys.exit(
            f"the sections {', '.join(others)} come from another build, and figures of different builds are not mixed: "
            "make all sections (`make evaluation`)"
        )
    made = {name for name in ours if provenance.made(found[name], codes.get(name, ""), measured=name in MEASURED)}
    made -= DERIVED | {name for name, data in found.items() if data.get(PARTIAL)}
    found = _without(found, found.keys() - ours)
    for name, why in lacking.items():
        print(f"evaluation: {name} is not made: {why}", file=sys.stderr)
    for name in [one for one in asked.sections or SECTIONS if one not in lacking]:
        if name in made and name not in asked.sections:
            print(f"evaluation: {name} is there, of this build", file=sys.stderr)
            found[name] = provenance.at_this_commit(found[name])
        else:
            print(f"evaluation: {name}", file=sys.stderr)
            found[name] = _made(makes[name](asked.quick), provenance, codes[name])
        (FOLDER / f"{name}.json").write_text(_json(found[name]))
        # Written after each section, so that a later failure loses nothing, and the next call goes on here.
        pages.write(found, SECTIONS)
    if same:
        SAME_RESULTS.write_text(_json(provenance.at_this_commit(json.loads(SAME_RESULTS.read_text()))))
    for line in not_held(FOLDER):
        print(line, file=sys.stderr)


def _ours(found: Mapping[str, dict[str, Any]], asked: Collection[str], provenance: Provenance) -> set[str]:
    """Return the sections whose figures may stand beside those that are made now."""
    alone = bool(asked) and set(asked) <= APART
    return {
        name
        for name, data in found.items()
        if ((alone or name in APART) and data["reduced"] == provenance.reduced) or not provenance.mixes(data)
    }


def _without(found: Mapping[str, dict[str, Any]], stale: Collection[str]) -> dict[str, dict[str, Any]]:
    """Remove the files of sections of another build, at once, so that the pages never show two builds."""
    for name in stale:
        (FOLDER / f"{name}.json").unlink()
    return {name: data for name, data in found.items() if name not in stale}


def _made(section: Section, provenance: Provenance, code: str) -> dict[str, Any]:
    """Return the content of a section's JSON file."""
    promises = {"promises": [asdict(promise) for promise in section.promises]}
    head = asdict(provenance) | {"code": code} | promises | {"page": pages.content(section)}
    if taken := sorted(head.keys() & section.data.keys()):
        raise ValueError(f"the section {section.name} has data under the key `{taken[0]}`, which says what made it")
    return head | section.data


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=2) + "\n"


def not_held(folder: Path) -> list[str]:
    """Return a line for each figure that is asked for and not reached, or was not measured."""
    lines = []
    for file in sorted(folder.glob("*.json")):
        for promise in json.loads(file.read_text()).get("promises", []):
            if not promise["held"]:
                value = "not measured" if promise["value"] is None else f"{promise['value']}{promise['unit']}"
                lines.append(f"{file.stem}: {promise['name']}: {value}, asked for: {promise['promise']}")
    return [f"{len(lines)} figures are not what is asked for:", *lines] if lines else ["every figure is held"]


if __name__ == "__main__":
    main()
