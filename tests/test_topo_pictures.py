"""`pinfold topo FILE.svg|FILE.png`: machines as pictures, with the threads of a run."""

import json
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import chromium
import pytest
from conftest import QUICK, Pinfold

SVG = "{http://www.w3.org/2000/svg}"


def topo(binary: Path, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([binary, "topo", *words], capture_output=True, text=True, check=False)


def texts(file: Path) -> list[str]:
    return [element.text or "" for element in ET.parse(file).iter(f"{SVG}text")]


@pytest.fixture
def record(pinfold: Pinfold, several_cpus: list[int], workload: Callable[[str], Path]) -> Path:
    """Return the record of a run with two threads, on one CPU each."""
    file = pinfold.folder / "run.json"
    cpus = ",".join(map(str, several_cpus[:2]))
    program = (workload("compute"), "--threads", "2", "--size", "64k", "--seconds", "2")
    words = ("--policy", "fixed", "--metric", "regions", "--schedule", cpus)
    run = pinfold.run(*words, *QUICK, "--json", file, "--", *program)
    assert run.status == 0, run.err
    return file


def test_every_model_is_drawn_with_all_its_cpus(binary: Path, tmp_path: Path) -> None:
    listed = subprocess.run([binary, "machines", "--json"], capture_output=True, text=True, check=True)
    models = [model["name"] for model in json.loads(listed.stdout)]
    assert len(models) > 10
    for model in models:
        file = tmp_path / f"{model}.svg"
        assert topo(binary, "--machine", model, file).returncode == 0
        numbers = sorted(int(text) for text in texts(file) if text.strip().isdigit())
        tree = json.loads(topo(binary, "--machine", model, "--json").stdout)
        first, last = map(int, tree["tree"]["pus"].split("-"))
        assert numbers == list(range(first, last + 1)), model


def test_the_threads_of_a_run_are_on_its_cpus(binary: Path, record: Path, several_cpus: list[int]) -> None:
    file = record.with_suffix(".svg")
    done = topo(binary, "--run", record, file)
    assert done.returncode == 0, done.stderr
    found = texts(file)
    assert sum(text.startswith("T") and text[1:].isdigit() for text in found) == 2
    assert any("compute --threads 2" in text for text in found)
    colours = [element.get("fill") for element in ET.parse(file).iter(f"{SVG}rect")]
    assert colours.count("#9ecae1") == 2


def test_a_png_is_what_the_svg_is(binary: Path, tmp_path: Path) -> None:
    svg, png = tmp_path / "machine.svg", tmp_path / "machine.PNG"
    for file in (svg, png):
        assert topo(binary, "--machine", "e5-4650x4", file).returncode == 0
    begin = png.read_bytes()[:24]
    assert begin[:8] == b"\x89PNG\r\n\x1a\n"
    root = ET.parse(svg).getroot()
    sizes = [int.from_bytes(begin[16:20]), int.from_bytes(begin[20:24])]
    assert sizes == [2 * int(root.get("width", "0")), 2 * int(root.get("height", "0"))]


def test_a_browser_shows_each_text_inside_of_the_picture(binary: Path, tmp_path: Path) -> None:
    if why := chromium.missing():
        pytest.skip(why)
    file = tmp_path / "machine.svg"
    assert topo(binary, "--machine", "epyc-7763x2", file).returncode == 0
    script = (
        "[...document.querySelectorAll('text')].filter(text => {"
        "  const box = text.getBoundingClientRect(), all = document.documentElement.getBoundingClientRect();"
        "  return box.right > all.right || box.bottom > all.bottom || box.left < all.left; }).length"
    )
    with chromium.browser(tmp_path) as browser:
        page = browser.page()
        page.open(file, width=1280)
        assert page.evaluate("document.querySelectorAll('text').length") > 128
        assert page.evaluate(script) == 0
        assert page.complaints() == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ("machine.pdf",),
            "`machine.pdf` says not which form the picture shall have; let its name end with .svg or .png",
        ),
        (("machine",), "let its name end with .svg or .png"),
        (("--run", "nothing.json"), "FILE.svg|FILE.png"),
        (("--run", "nothing.json", "a.svg"), "cannot read `nothing.json`"),
        (("--json", "a.svg"), "cannot be used with"),
        (("/nowhere/a.svg",), "/nowhere/a.svg"),
    ],
)
def test_bad_input_is_named(binary: Path, words: tuple[str, ...], error: str) -> None:
    done = topo(binary, *words)
    assert done.returncode != 0
    assert error in done.stderr


def test_a_record_without_places_of_threads_is_refused(binary: Path, record: Path) -> None:
    without = json.loads(record.read_text())
    del without["timeline"]
    file = record.with_name("old.json")
    file.write_text(json.dumps(without))
    done = topo(binary, "--run", file, record.with_suffix(".svg"))
    assert done.returncode != 0
    assert "run the program again with `pinfold run --json FILE`" in done.stderr
    assert not record.with_suffix(".svg").exists()
