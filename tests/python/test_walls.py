"""The Python package has walls: what users install imports no evaluation, and folders form no circle."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import tomllib

SOURCES = Path(__file__).resolve().parents[2] / "python"
PACKAGE = SOURCES / "pinfold"
EVALUATION = "pinfold.evaluation"
#: The methods of learning: a folder of `pinfold.learn` each.
METHODS = ("belief", "classify", "hints", "react")


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")


def sources() -> dict[str, Path]:
    """Return the file of each module."""
    return {module_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def imported(tree: ast.AST, package: str = "") -> Iterator[str]:
    """Yield what a module imports, also inside functions; `from a import b` yields both `a` and `a.b`.

    Args:
        tree: the module.
        package: the package of the module, for imports with dots.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def uses() -> dict[str, set[str]]:
    """Return the modules of the package that each module imports.

    The face of the package does not count: `from pinfold import tables` is an import of `pinfold.tables`.
    """
    files = sources()
    found = {}
    for name, file in files.items():
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        names = imported(ast.parse(file.read_text(encoding="utf-8")), package)
        found[name] = {one for one in names if one in files} - {"pinfold"}
    return found


def is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def room(module: str) -> str:
    """Return the folder of a module of a policy or a method; any other module stands for itself."""
    parts = module.split(".")
    nested = len(parts) > 2 and parts[1] in ("learn", "evaluation") and (PACKAGE / parts[1] / parts[2]).is_dir()
    return ".".join(parts[:3]) if nested else module


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """Return rooms that import each other in a circle; none if there is no circle."""
    done: set[str] = set()

    def walk(one: str, way: list[str]) -> list[str]:
        if one in way:
            return [*way[way.index(one) :], one]
        if one in done:
            return []
        found = next((found for other in sorted(arrows.get(one, ())) if (found := walk(other, [*way, one]))), [])
        done.add(one)
        return found

    return next((found for one in sorted(arrows) if (found := walk(one, []))), [])


def test_the_product_imports_nothing_of_an_evaluation() -> None:
    wrong = {
        (name, other)
        for name, others in uses().items()
        if not is_inside(name, EVALUATION)
        for other in others
        if is_inside(other, EVALUATION)
    }
    assert not wrong


def test_no_study_of_a_paper_is_outside_the_evaluation() -> None:
    studies = [name for name in sources() if any(word in name for word in ("paper", "study"))]
    assert studies
    assert all(is_inside(name, EVALUATION) for name in studies)


@pytest.mark.parametrize("method", METHODS)
def test_a_method_of_learning_imports_no_other_method(method: str) -> None:
    own = f"pinfold.learn.{method}"
    others = [f"pinfold.learn.{other}" for other in METHODS if other != method]
    wrong = {
        (name, one)
        for name, ones in uses().items()
        if is_inside(name, own)
        for one in ones
        if any(is_inside(one, other) for other in others)
    }
    assert not wrong


def test_what_the_methods_share_imports_no_method() -> None:
    methods = [f"pinfold.learn.{method}" for method in METHODS]
    shared = {name: ones for name, ones in uses().items() if room(name) == name and is_inside(name, "pinfold.learn")}
    wrong = {(name, one) for name, ones in shared.items() for one in ones if any(is_inside(one, m) for m in methods)}
    assert not wrong


def test_folders_import_each_other_in_no_circle() -> None:
    arrows: dict[str, set[str]] = defaultdict(set)
    for name, others in uses().items():
        arrows[room(name)] |= {room(other) for other in others} - {room(name)}
    assert not circle(arrows)


def test_modules_import_each_other_in_no_circle() -> None:
    assert not circle(uses())


def test_the_wheel_has_every_package() -> None:
    project = tomllib.loads((SOURCES.parent / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {module_of(file) for file in PACKAGE.rglob("__init__.py")}
    assert set(project["tool"]["setuptools"]["packages"]) == packages


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pinfold.evaluation.react.online",
        "from pinfold.evaluation import react",
        "from pinfold import evaluation",
        "from . import evaluation",
        "from .evaluation.react import online",
        "def late():\n    from pinfold.evaluation.react.online import run_online",
    ],
)
def test_an_import_of_the_evaluation_is_seen_in_every_form(text: str) -> None:
    assert any(is_inside(name, EVALUATION) for name in imported(ast.parse(text), "pinfold"))
