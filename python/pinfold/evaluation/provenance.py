"""What made a figure: the commit, the build, and the machine. Figures of different builds are never mixed."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pinfold.evaluation.section import PINFOLD, here

#: The files, beside the binary, on which figures depend.
SOURCES = ("python/pinfold/**/*.py", "workloads/**/*.[ch]", "machines/*.toml", "events/*.toml")


@dataclass(frozen=True)
class Provenance:
    """What made a section.

    Attributes
    ----------
    commit : str
        The commit of the sources, with ``+changes`` if the tree has changes that are not committed.
    build : str
        A hash of the binary, the Python package, the workloads, the machine models and the event sets.
    machine : str
        The machine on which it was made. Figures that are simulated name the simulated machine beside them.
    reduced : bool
        Whether it is the reduced set.
    """

    commit: str
    build: str
    machine: str
    reduced: bool

    @classmethod
    def current(cls, root: Path, *, reduced: bool) -> Provenance:
        """Return what figures that are made now come from. ``root`` is the project's folder."""
        return cls(_commit(root), build(root), here(), reduced)

    def sentence(self) -> str:
        """Return it as a sentence."""
        return f"Made by commit {self.commit}, build {self.build}, on: {self.machine}."

    def made(self, data: dict[str, Any], *, measured: bool) -> bool:
        """Return whether the content of a section's JSON file comes from the same build.

        Args:
            data: the content.
            measured: whether the section measures the machine on which it is made. Then the machine is the same, too.
        """
        same = {"build", "reduced", *(["machine"] if measured else [])}
        return all(data.get(key) == value for key, value in asdict(self).items() if key in same)


def _commit(root: Path) -> str:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=root, check=False, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("rev-parse", "HEAD")
    # What this program itself writes is no change of the sources.
    changed = git("status", "--porcelain", "--", ".", ":!docs/evaluation.md", ":!docs/plots", ":!evaluation")
    return f"{commit}+changes" if changed else commit


def build(root: Path) -> str:
    """Return a hash of all files of the project on which figures depend."""
    digest = hashlib.sha256()
    files = sorted(file for pattern in SOURCES for file in root.glob(pattern))
    for file in (root / PINFOLD, *files):
        digest.update(str(file.relative_to(root)).encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:32]
