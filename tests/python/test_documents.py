"""The Markdown documents: their lengths, and the links between them."""

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"applications/README.md"} | {str(file.relative_to(ROOT)) for file in ROOT.glob("docs/evaluation/*.md")}
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def documents() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [name for name in listed if (ROOT / name).exists()]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def anchors(name: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text(name)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(name: str) -> list[str]:
    prose = INLINE_CODE.sub("", FENCE.sub("", text(name)))
    broken = []
    for link in LINK.findall(prose):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        if not target.exists() or (anchor and anchor not in anchors(str(target.resolve().relative_to(ROOT)))):
            broken.append(link)
    return broken


def test_there_are_documents() -> None:
    assert {"README.md", "docs/ARCHITECTURE.md", "docs/design/README.md"} <= set(documents())


@pytest.mark.parametrize("name", sorted(set(documents()) - GENERATED))
def test_lines_have_at_most_120_characters(name: str) -> None:
    long = [number for number, line in enumerate(text(name).splitlines(), 1) if len(line) > 120]
    assert not long, f"{name}: wrap lines {long}"


@pytest.mark.parametrize("name", documents())
def test_links_lead_to_files_and_headings_that_exist(name: str) -> None:
    assert not broken_links(name)


@pytest.mark.parametrize("folder", ["docs/design", "docs/evaluation", "docs/formats"])
def test_the_first_page_of_a_folder_links_to_every_other_page(folder: str) -> None:
    linked = set(LINK.findall(text(f"{folder}/README.md")))
    pages = {name.removeprefix(f"{folder}/") for name in documents() if name.startswith(f"{folder}/")}
    assert pages - {"README.md"} <= linked


def test_the_readme_has_at_most_150_lines() -> None:
    assert len(text("README.md").splitlines()) <= 150


def test_the_architecture_page_has_at_most_2000_words() -> None:
    assert len(text("docs/ARCHITECTURE.md").split()) <= 2000


#: A path in the recipes: a word in backticks with a slash, in which NAME stands for any name.
PATH = re.compile(r"`([\w.]+(?:/[\w.-]+)+)`")


def recipes() -> dict[str, list[str]]:
    sections = re.split(r"^## (.+)$", text("CONTRIBUTING.md"), flags=re.MULTILINE)[1:]
    return {title: PATH.findall(recipe) for title, recipe in zip(sections[::2], sections[1::2], strict=True)}


def test_there_is_a_recipe_for_each_kind_of_addition() -> None:
    assert list(recipes()) == ["A policy", "A metric source", "A space of a sweep", "A machine model", "An event set"]
    assert all(recipes().values())


@pytest.mark.parametrize(("recipe", "path"), [(recipe, path) for recipe, paths in recipes().items() for path in paths])
def test_a_recipe_names_files_that_exist(recipe: str, path: str) -> None:
    assert list(ROOT.glob(path.replace("NAME", "*"))), f"{recipe}: there is no `{path}`"


@pytest.mark.parametrize(
    ("table", "path"),
    [
        ("POLICIES", "crates/cli/src/run/policies/mod.rs"),
        ("SPACES", "crates/sweep/src/spaces/mod.rs"),
        ("SOURCES", "crates/core/src/metric/sources/mod.rs"),
    ],
)
def test_a_file_that_takes_one_line_has_the_table_that_the_recipe_names(table: str, path: str) -> None:
    assert f"`{table}`" in text("CONTRIBUTING.md")
    assert re.search(rf"const {table}: ", (ROOT / path).read_text(encoding="utf-8"))
