"""Where a study keeps what a build of pinfold has simulated for it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pinfold.evaluation import provenance
from pinfold.evaluation.same_results import Same
from pinfold.evaluation.workloads import build


@cache
def build_folder(results: Path) -> Path:
    """Return the folder in ``results`` of this build, or of one that gives the same results."""
    same = Same.as_this(provenance.build(Path()))
    return results / (same.binary if same else build())
