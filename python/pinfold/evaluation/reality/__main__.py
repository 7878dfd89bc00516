"""Compares simulated regions with the measured table that the environment names, and prints the figures.

``python -m pinfold.evaluation.reality [--quick] [--partial]``, in the project's root after ``make build workloads``.
``python -m pinfold.evaluation [--partial] reality`` makes the section of the evaluation from the same sweep.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from pinfold.evaluation.provenance import Provenance
from pinfold.evaluation.reality.section import partial_reality, reality
from pinfold.evaluation.reality.sweep import RESULTS


def main() -> None:
    """Sweep the missing regions, print the table, and write the JSON file."""
    parser = argparse.ArgumentParser(prog="python -m pinfold.evaluation.reality", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few small regions, in minutes")
    parser.add_argument("--partial", action="store_true", help="only the regions that are swept already")
    asked = parser.parse_args()
    made = (partial_reality if asked.partial else reality)(asked.quick)
    file = RESULTS / f"reality{'-quick' if asked.quick else ''}{'-partial' if asked.partial else ''}.json"
    promises = {"promises": [asdict(one) for one in made.promises]}
    document = asdict(Provenance.current(Path(), reduced=asked.quick)) | promises | made.data
    file.write_text(json.dumps(document, indent=2) + "\n")
    print(made.text, *("\n".join(table.markdown()) for table in made.tables), f"Written: {file}", sep="\n\n")


if __name__ == "__main__":
    main()
