"""The commit, the build and the machine that made a figure. Figures of different builds are never mixed.

A section depends on two things. The build simulates and decides: it is the binary with the models of machines. The code
is the section's own Python module with all modules that it imports, and the files that it reads. Both have a hash. So a
change of one section, or a new section, does not cost hours of simulation for all others. Comments, docstrings and the
names of modules are not in the hash: they change no figure.
"""

from __future__ import annotations

import ast
import hashlib
import io
import subprocess
import tokenize
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pinfold.evaluation.section import PINFOLD, here

#: The files, beside the binary, that all figures depend on.
SOURCES = ("workloads/**/*.[ch]", "machines/*.toml", "events/*.toml")

CHANGES = "+changes"
PACKAGE = "pinfold"
INPUTS = "INPUTS"
"""The name of a constant of a section's module: patterns of committed files whose content the section reads."""


@dataclass(frozen=True)
class Provenance:
    """The origin of a section.

    Attributes
    ----------
    commit : str
        A commit of the sources that make it, with ``+changes`` if the tree has changes that are not committed.
    build : str
        A hash of the binary, the workloads, the machine models and the event sets.
    machine : str
        The machine that made it. Simulated figures name the simulated machine beside them.
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
        return cls(commit(root), build(root), here(), reduced)

    def sentence(self) -> str:
        """Return it as a sentence."""
        return sentence(asdict(self))

    def mixes(self, data: dict[str, Any]) -> bool:
        """Return whether a section with this content, beside a section made now, would mix builds."""
        return any(data.get(key) != getattr(self, key) for key in ("build", "reduced"))

    def made(self, data: dict[str, Any], code: str, *, measured: bool) -> bool:
        """Return whether the section of this content would now be made in the same way.

        Args:
            data: the content of the section's JSON file.
            code: the hash of the section's code.
            measured: whether the section measures the machine that makes it. Then the machine must be the same.
        """
        same = {**asdict(self), "code": code}
        kept = ("build", "reduced", "code", *(["machine"] if measured else []))
        return all(data.get(key) == same[key] for key in kept)

    def at_this_commit(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the content of a section that would now be made in the same way, as a section of the current commit.

        All that the section depends on has the same hash at this commit, so whoever checks it out gets this section.
        Changes that are not committed cannot be checked out: with these the content is returned as it is.
        """
        return data if self.commit.endswith(CHANGES) else {**data, "commit": self.commit}


def sentence(data: dict[str, Any]) -> str:
    """Return what made a section, from the content of its JSON file, as a sentence."""
    by = data.get("made_by")
    if by is None:
        return f"Made by commit {data['commit']}, build {data['build']}, on: {data['machine']}."
    return (
        f"Made by commit {by['commit']}, build {by['build']}, on: {data['machine']}. Build {data['build']} of commit "
        f"{data['commit']} has the same output in {by['runs']} commands (`evaluation/same_results.json`)."
    )


def commit(root: Path) -> str:
    """Return the commit of a checkout, marked if it has changes that are not committed."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=root, check=False, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    head = git("rev-parse", "HEAD")
    # Output of this program does not count as a change of the sources.
    changed = git("status", "--porcelain", "--", ".", ":!docs/evaluation", ":!docs/plots", ":!evaluation")
    return head + CHANGES if changed else head


def build(root: Path) -> str:
    """Return a hash of all files that every figure depends on."""
    return _hash(root, [root / PINFOLD, *_files(root, SOURCES)])


def code(root: Path, module: str) -> str:
    """Return a hash of a section's module, of all modules of the package that it imports, and of its inputs.

    Args:
        root: the project's folder.
        module: the full name of the module.
    """
    found: dict[str, str] = {}
    inputs: list[str] = []
    pending = [module]
    while pending:
        name = pending.pop()
        file = _file(root, name)
        if name in found or file is None:
            continue
        text = file.read_text()
        tree = ast.parse(text)
        found[name] = _executed(text, tree)
        pending += [name.rpartition(".")[0], *_imported(tree)]
        inputs += _inputs(tree)
    # Sorted by their content, without empty modules: the hash does not depend on the place of a module.
    texts = sorted(filter(None, found.values()))
    digests = "".join(hashlib.sha256(text.encode()).hexdigest() for text in texts)
    return hashlib.sha256((digests + _hash(root, _files(root, sorted(set(inputs))))).encode()).hexdigest()[:32]


def _executed(text: str, tree: ast.Module) -> str:
    """Return a module without comments, docstrings and blank lines, and without the places of the package's modules."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            instead = ""
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            instead = "import " + ", ".join(f"{alias.name} {alias.asname or ''}" for alias in node.names)
        else:
            continue
        rows = slice(node.lineno - 1, node.end_lineno)
        lines[rows] = [instead, *[""] * (len(lines[rows]) - 1)]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _file(root: Path, module: str) -> Path | None:
    """Return the file of a module; None for a name inside of a module."""
    path = root / "python" / Path(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)


def _imported(tree: ast.Module) -> list[str]:
    """Return the modules of the package that a module may import, and names that are none."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.split(".")[0] == PACKAGE]


def _inputs(tree: ast.Module) -> list[str]:
    """Return the patterns of the constant ``INPUTS``."""
    return [
        pattern
        for node in tree.body
        if isinstance(node, ast.Assign) and any(isinstance(of, ast.Name) and of.id == INPUTS for of in node.targets)
        for pattern in ast.literal_eval(node.value)
    ]


def _files(root: Path, patterns: Iterable[str]) -> list[Path]:
    return sorted(file for pattern in patterns for file in root.glob(pattern))


def digest(file: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _hash(root: Path, files: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for file in files:
        found.update(str(file.relative_to(root)).encode() + b"\0")
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:32]
