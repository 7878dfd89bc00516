"""The documentation site: `make site`."""

import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

SITE = ROOT / "target" / "site"


@pytest.fixture(scope="module")
def site(binary: Path, python: str) -> Path:
    made = subprocess.run([python, ROOT / "scripts" / "site"], check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    return SITE


def test_every_document_has_a_page_that_the_navigation_shows(site: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    start = (site / "index.html").read_text(encoding="utf-8")
    for name in listed.split():
        page = re.sub(r"README$", "index", name.removesuffix(".md")) + ".html"
        assert (site / page).exists(), page
        assert f'href="{page}"' in start, page


def test_the_reference_has_the_help_of_every_command(site: Path, binary: Path) -> None:
    reference = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for command in ("pinfold run", "pinfold daemon", "pinfold trace metrics", "pinfold sweep merge"):
        assert f">{command}<" in reference, command
    assert "--near" in reference


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*src="(https?:)?//', text)
        loaded += re.findall(r'<link[^>]*rel="(?:stylesheet|preload|preconnect)[^>]*href="(https?:)?//', text)
        assert not loaded, page
