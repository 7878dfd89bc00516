"""The crates depend on each other as docs/ARCHITECTURE.md says."""

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = "pinfold-"


def dependencies() -> dict[str, set[str]]:
    """Return, for each crate, the crates of this workspace that it links, as Cargo knows them."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)["packages"]
    return {
        package["name"].removeprefix(OURS): {
            dependency["name"].removeprefix(OURS)
            for dependency in package["dependencies"]
            if dependency["kind"] is None and dependency["name"].startswith(OURS)
        }
        for package in packages
    }


def documented(crates: set[str]) -> dict[str, set[str]]:
    """Return the same as the code map says it: the last words of each entry."""
    text = " ".join((ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8").split())
    found: dict[str, set[str]] = {}
    for crate, entry in re.findall(r"- \*\*`crates/(\w+)`\*\*:(.*?)(?= - \*\*`|$)", text):
        if uses := re.search(r"\*Uses (.*?)\.\*", entry):
            words = set(re.findall(r"\w+", re.sub(r"\(.*?\)", "", uses[1])))
            # The binary: "all of the above except".
            found[crate] = set(found) - (words & crates) if "all" in words else words & crates
    return found


def test_every_crate_depends_on_what_the_code_map_says() -> None:
    cargo = dependencies()
    written = documented(set(cargo))
    assert written == {crate: uses for crate, uses in cargo.items() if crate in written}
    # What tests share, the benchmarks, and a program of the evaluation: the page has their entries in other words.
    assert set(cargo) - set(written) == {"testing", "bench", "pairs"}


@pytest.mark.parametrize("crate", ["core", "policy", "runtime", "calibrate", "view"])
def test_a_pure_crate_links_no_crate_that_touches_the_system(crate: str) -> None:
    cargo = dependencies()
    reached, todo = set(), {crate}
    while todo:
        one = todo.pop()
        reached.add(one)
        todo |= cargo[one] - reached
    assert not reached & {"dataset", "files", "linux", "plugin", "cli", "store", "sweep"}


def test_no_file_has_the_marks_of_an_unresolved_merge() -> None:
    command = ["git", "grep", "-lE", r"^(<{7} |>{7} |={7}$)"]
    found = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True).stdout.split()
    assert not found
