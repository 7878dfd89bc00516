"""`pinfold report`: pages of real records and logs, in whole, and in headless Chromium where it is installed."""

import json
import math
import re
import subprocess
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import chromium
import pytest
from conftest import Pinfold
from test_simulated_determinism import record

from pinfold import plot
from pinfold.learn.report import Section, plotted
from pinfold.learn.report import page as learned_page
from pinfold.tables import Table

#: Of HTML; elements of SVG have an end tag.
WITHOUT_END = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

#: The largest page of a run of ten minutes.
LARGEST = 1 << 20

WIDTHS = (360, 1280)


class Elements(HTMLParser):
    """Checks that all elements are closed in the order in which they were opened, and collects what tests ask for."""

    def __init__(self, page: str) -> None:
        """Read a page to its end."""
        super().__init__()
        self._open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember an element."""
        self.tags.append((tag, dict(attrs)))
        if tag not in WITHOUT_END:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the last element."""
        assert self._open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements of this name."""
        return [attributes for name, attributes in self.tags if name == tag]


def report(binary: Path, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([binary, "report", *words], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def run(binary: Path, workload: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a simulated run of about ten minutes."""
    folder = tmp_path_factory.mktemp("run")
    recording = record(binary, folder / "stream.pft", workload("stream"), "--threads", "10", "--size", "16k")
    options = (
        "--policy",
        "autopin",
        "--machine",
        "opteron-6164x4",
        "-t",
        "45s",
        "--warm-up",
        "10s",
        "--repeat",
        "auto",
    )
    made = Pinfold(binary, folder).record(*options, recording)
    assert made.json["ran"] > 300
    (folder / "run.json").write_text(json.dumps(made.json))
    done = report(binary, folder / "run.json", "-o", folder / "run.html")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder / "run.html"


def test_a_page_is_well_formed_small_and_says_that_it_is_simulated(run: Path) -> None:
    text = run.read_text()
    page = Elements(text)
    assert len(text.encode()) < LARGEST
    assert '<span class="badge">simulated</span>' in text
    assert "readings: places between them are left out" in text
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for attributes in page.all("a")]
    assert all(link and link.startswith("#") and link[1:] in ids for link in links)


def test_each_drawing_has_a_name_and_each_chart_a_table(run: Path) -> None:
    page = Elements(run.read_text())
    ids = {attributes.get("id") for _, attributes in page.tags}
    drawings = [attributes for _, attributes in page.tags if attributes.get("role") == "img"]
    assert len(drawings) > 8
    for drawing in drawings:
        named_by = (drawing.get("aria-labelledby") or "").split()
        assert drawing.get("aria-label") or (named_by and set(named_by) <= ids), drawing
    captions = re.findall(r"<caption>([^<]*)", run.read_text())
    for caption in (
        "the place of each thread",
        "rate over time",
        "where each thread was seen",
        "memory on each NUMA node",
    ):
        assert caption in captions


def test_the_record_has_where_threads_ran_and_where_memory_was(run: Path) -> None:
    line = json.loads(run.with_suffix(".json").read_text())["timeline"]
    assert 100 < len(line["at"]) <= 302
    assert len(line["tasks"]) == 10
    assert sum(series["bytes"][0] for series in line["nodes"]) > 0
    assert len(line["configurations"]) >= 9
    assert all(len(series["rates"]) == len(line["at"]) for series in line["metrics"])


def test_a_program_that_really_ran_has_its_threads_in_the_record(
    pinfold: Pinfold, compiled: Callable[..., Path]
) -> None:
    made = pinfold.record("--policy", "none", "-t", "100ms", "--", compiled("spin"), "2", "1")
    line = made.json["timeline"]
    assert len(line["tasks"]) >= 2
    seen = [pu for task in line["tasks"] for _, pu in task["places"] if pu is not None]
    assert seen
    done = report(pinfold.binary, pinfold.folder / "record.json")
    Elements(done.stdout)
    assert "simulated</span>" not in done.stdout


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        (None, "cannot read", "No such file"),
        ("not JSON", "this is no JSON", ""),
        ("{}", "no record of a run", "pinfold run --json FILE"),
        ('{"version": 99, "pinfold": "9.9", "policy": "x", "candidates": []}', "version 99", "pinfold 9.9"),
        ("time=2026-01-02T03:04:05.000Z event=started", "key=value", "--log-format json"),
    ],
)
def test_an_error_names_the_file_and_the_remedy(
    binary: Path, tmp_path: Path, text: str | None, problem: str, remedy: str
) -> None:
    file = tmp_path / "input.json"
    if text is not None:
        file.write_text(text)
    done = report(binary, file, "-o", tmp_path / "page.html")
    assert done.returncode == 125
    assert str(file) in done.stderr
    assert problem in done.stderr
    assert remedy in done.stderr
    assert not (tmp_path / "page.html").exists()


def test_a_page_that_cannot_be_written_is_an_error_with_the_option(binary: Path, run: Path, tmp_path: Path) -> None:
    done = report(binary, run.with_suffix(".json"), "-o", tmp_path / "missing" / "page.html")
    assert done.returncode == 125
    assert "--output" in done.stderr


needs_browser = pytest.mark.skipif(chromium.missing() is not None, reason=str(chromium.missing()))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    """Return a page of a running browser."""
    with chromium.browser(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser.page()


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_fits_every_width_and_needs_nothing_but_itself(run: Path, page: chromium.Page, width: int) -> None:
    page.open(run, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("innerWidth") == width
    assert page.complaints() == []
    assert page.requests() == [run.as_uri()]


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_no_text_is_smaller_than_12_pixels(run: Path, page: chromium.Page, width: int) -> None:
    page.open(run, width=width)
    sizes = page.evaluate(
        """[...document.body.querySelectorAll("*")]
        .filter((one) => one.getClientRects().length)
        .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
        .map((one) => parseFloat(getComputedStyle(one).fontSize))"""
    )
    assert min(sizes) >= 12


#: The contrast of each text on its ground, by the formula of the WCAG 2.
CONTRAST = """
(() => {
  const channels = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const luminance = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (let here = one; here; here = here.parentElement) {
      const found = channels(getComputedStyle(here).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const worst = [Infinity, ""];
  for (const one of document.body.querySelectorAll("*")) {
    const text = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!text || !one.getClientRects().length) continue;
    const style = getComputedStyle(one);
    const colour = channels(one.closest("svg") ? style.fill : style.color);
    const [light, dark] = [luminance(colour), luminance(ground(one))].sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < worst[0]) { worst[0] = contrast; worst[1] = one.outerHTML.slice(0, 200); }
  }
  return worst;
})()
"""


#: Of each element that a selector finds: its text, and how far down it reaches.
BOXES = "[...document.querySelectorAll('{}')].map((one) => [one.innerText, one.getBoundingClientRect().bottom])"

QUESTIONS = ("Did it help?", "By how much?", "Where are threads and pages now?")


@needs_browser
def test_the_first_screen_answers_three_questions(run: Path, page: chromium.Page) -> None:
    page.open(run, width=1280)
    answers = page.evaluate(BOXES.format(".answer"))
    assert len(answers) == len(QUESTIONS)
    for (text, bottom), question in zip(answers, QUESTIONS, strict=True):
        assert text.startswith(question)
        assert bottom <= page.evaluate("innerHeight"), "it is on the first screen"
    helped, gain, now = (text for text, _ in answers)
    assert re.search(r"\n(Yes|No|Not known)", helped)
    assert "\N{MULTIPLICATION SIGN}" in gain
    assert "node 0" in now
    assert "thread" in now


@needs_browser
def test_a_long_run_is_a_short_page_with_its_log_folded(run: Path, page: chromium.Page) -> None:
    page.open(run, width=1280)
    assert page.evaluate("document.documentElement.scrollHeight") < 4000
    assert page.evaluate("document.querySelectorAll('details[open]').length") == 0
    page.evaluate("document.querySelector('#log summary').click()")
    assert "Kept: candidate" in page.evaluate("document.querySelector('#log').innerText")


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
def test_every_thread_has_a_label(run: Path, page: chromium.Page, width: int) -> None:
    threads = len(json.loads(run.with_suffix(".json").read_text())["timeline"]["tasks"])
    page.open(run, width=width)
    labels = page.evaluate(
        "[...document.querySelectorAll('#threads .thread-name')].map((one) => one.firstChild.textContent.trim())"
    )
    assert labels == [f"T{thread}" for thread in range(threads)]
    lefts = page.evaluate(
        "[...document.querySelectorAll('#threads .thread-name')].map((one) => one.getBoundingClientRect().left)"
    )
    assert min(lefts) >= 0


def test_no_two_candidates_share_a_name(run: Path) -> None:
    names = re.findall(r"<h3>(#[^<]*)", run.read_text())
    candidates = json.loads(run.with_suffix(".json").read_text())["candidates"]
    assert len(names) == len(set(names)) == len(candidates)
    assert any("spread" in name or "close" in name for name in names)


@needs_browser
def test_a_node_has_one_colour_in_every_drawing(run: Path, page: chromium.Page) -> None:
    page.open(run, width=1280)
    colours = page.evaluate(
        """[...document.querySelectorAll("[class~=n0]")]
        .map((one) => getComputedStyle(one).getPropertyValue("--node"))"""
    )
    assert len(colours) > 10
    assert len(set(colours)) == 1


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_has_contrast(run: Path, page: chromium.Page, dark: bool) -> None:
    page.open(run, width=1280, dark=dark)
    contrast, where = page.evaluate(CONTRAST)
    assert contrast >= 4.5, where


@needs_browser
def test_dark_and_light_differ(run: Path, page: chromium.Page) -> None:
    shots = set()
    for dark in (False, True):
        page.open(run, width=1280, dark=dark)
        shots.add(page.screenshot())
    assert len(shots) == 2


#: What the slider moves.
STATE = """[document.getElementById("shown").textContent, document.querySelector(".machine").textContent,
document.querySelector("[data-thread]").textContent, document.querySelector(".cursor").getAttribute("x1")].join("|")"""


@needs_browser
def test_the_keyboard_moves_the_time(run: Path, page: chromium.Page) -> None:
    page.open(run, width=1280)
    last = page.evaluate(STATE)
    page.evaluate("document.getElementById('moment').focus()")
    page.press("Home")
    first = page.evaluate(STATE)
    page.press("ArrowRight")
    second = page.evaluate(STATE)
    assert len({last, first, second}) == 3
    assert page.evaluate("document.getElementById('moment').getAttribute('aria-valuetext')").endswith(" s")
    page.press("End")
    assert "CPU" not in page.evaluate(STATE), "all threads have ended"


@needs_browser
def test_without_javascript_the_end_and_the_tables_are_there(run: Path, page: chromium.Page) -> None:
    page.open(run, width=360, script=False)
    assert page.evaluate("document.querySelector('.time').getClientRects().length") == 0
    assert page.evaluate("document.querySelectorAll('.machine .pu.one, .machine .pu.many').length") > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@needs_browser
def test_the_page_prints(run: Path, page: chromium.Page) -> None:
    page.open(run, width=1280)
    assert page.pdf().startswith(b"%PDF")


@needs_browser
def test_the_page_of_an_older_record_fits_too(binary: Path, run: Path, page: chromium.Page, tmp_path: Path) -> None:
    old = json.loads(run.with_suffix(".json").read_text())
    del old["timeline"]
    (tmp_path / "old.json").write_text(json.dumps(old))
    assert report(binary, tmp_path / "old.json", "-o", tmp_path / "old.html").returncode == 0
    page.open(tmp_path / "old.html", width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.complaints() == []


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page as `pinfold learn evaluate --report` writes it, with a wide table and a plot."""
    drawn = plot.figure()
    axes = drawn.add_subplot()
    axes.barh(range(3), [1.0, 2.0, 3.0], label="a <bar>")
    axes.set_xlabel("times", fontsize=plot.TEXT)
    axes.tick_params(labelsize=plot.TEXT)
    plot.legend_above(drawn, columns=1)
    table = Table(["a long head"] * 12, [["**no**", *["a <cell>"] * 11]], "A wide table:")
    sections = [Section("plots", "Plots", plotted(drawn, "Bars <b>", "Three.")), Section("all", "All", table.html())]
    file = tmp_path_factory.mktemp("evaluation") / "evaluation.html"
    file.write_text(learned_page("Evaluation & more", "A <lead>.", sections, simulated=True))
    return file


def test_a_page_of_an_evaluation_escapes_texts_and_has_the_same_style(evaluation: Path, run: Path) -> None:
    text = evaluation.read_text()
    for written in (
        "Evaluation &amp; more",
        "A &lt;lead&gt;.",
        "a &lt;cell&gt;",
        "<strong>no</strong>",
        "Bars &lt;b&gt;",
    ):
        assert written in text
    style = re.compile("<style>(.*?)</style>", re.DOTALL)
    assert style.findall(run.read_text())[0] == style.findall(text)[0]


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_of_an_evaluation_fits_and_is_readable(
    evaluation: Path, page: chromium.Page, width: int, dark: bool
) -> None:
    page.open(evaluation, width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.complaints() == []
    contrast, where = page.evaluate(CONTRAST)
    assert contrast >= 4.5, where
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg text')].map((one) => parseFloat(getComputedStyle(one).fontSize))"
    )
    drawing = "document.querySelector('svg')"
    scale = page.evaluate(f"{drawing}.getBoundingClientRect().width / {drawing}.viewBox.baseVal.width")
    assert min(sizes) * scale >= 11.9


@pytest.fixture(scope="module")
def shared(binary: Path, workload: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of four threads that write to the same cache lines."""
    file = tmp_path_factory.mktemp("shared") / "sharing.pft"
    program = (workload("false_sharing"), "--threads", "4", "--size", "64k", "--iterations", "3")
    return record(binary, file, *program)


SIMULATED = ("--machine", "e5-4650x4")

#: A row of the table of trials: the time, what was tried, and six values.
TRIAL = re.compile(r'<tr><td class="number">[\d.]+ s</td><th class="words" scope="row">(.*?)</th>(.*?)</tr>')

#: A number below the axis of the trials, and the bars and the dot of a trial.
NUMBER = re.compile(r'<text class="middle" x="([\d.]+)%" y="\d+">([\d.]+)</text>')
BAR = r'<rect class="{}" x="([\d.]+)%" width="([\d.]+)%"'
DOT = r'<circle class="measured" cx="([\d.]+)%"'


@pytest.fixture(scope="module")
def believed(
    binary: Path, workload: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    """Return the record and the page of a simulated run of `auto`, whose trials a belief plans."""
    folder = tmp_path_factory.mktemp("believed")
    recording = record(binary, folder / "stream.pft", workload("stream"), "--threads", "4", "--size", "16k")
    options = ("--policy", "auto", "--db", "none", "--repeat", "auto", "--report", str(folder / "run.html"))
    made = Pinfold(binary, folder).record(*SIMULATED, *options, recording)
    return made.json, folder / "run.html"


def trials(page: Path) -> str:
    """Return the section of a page that draws what was expected of trials."""
    (section,) = re.findall(r'<section id="beliefs".*?</section>', page.read_text(), re.DOTALL)
    return str(section)


def test_the_table_of_trials_has_what_the_record_has(believed: tuple[dict[str, Any], Path]) -> None:
    found, page = believed
    rows = TRIAL.findall(trials(page))
    assert len(rows) == len(found["beliefs"]) > 2
    for (name, cells), one in zip(rows, found["beliefs"], strict=True):
        assert name.startswith(f"#{one['candidate'] + 1} ")
        before, after = one["before"], one["after"]
        assert re.findall(r"<td[^>]*>(.*?)</td>", cells) == [
            "unpinned" if one["with"] is None else f"#{one['with'] + 1}",
            f"{before['time']:.2f}",
            f"{before['low']:.2f} to {before['high']:.2f}",
            f"{one['measured']:.2f}",
            f"{after['time']:.2f}",
            f"{after['low']:.2f} to {after['high']:.2f}",
        ]


def test_the_drawing_of_trials_has_a_row_for_each_where_its_axis_says(believed: tuple[dict[str, Any], Path]) -> None:
    found, page = believed
    section = trials(page)
    numbers = [(float(at), math.log(float(text))) for at, text in NUMBER.findall(section)]
    (first, low), *_, (last, high) = numbers

    def at(time: float) -> float:
        return first + (last - first) * (math.log(time) - low) / (high - low)

    beliefs = found["beliefs"]
    for name in ("before", "after"):
        bars = [(float(left), float(left) + float(width)) for left, width in re.findall(BAR.format(name), section)]
        assert [left for left, _ in bars] == pytest.approx([at(one[name]["low"]) for one in beliefs], abs=0.1)
        assert [right for _, right in bars] == pytest.approx([at(one[name]["high"]) for one in beliefs], abs=0.4)
    dots = [float(x) for x in re.findall(DOT, section)]
    assert dots == pytest.approx([at(one["measured"]) for one in beliefs], abs=0.1)


def test_a_run_without_a_belief_draws_no_trials(run: Path) -> None:
    assert 'id="beliefs"' not in run.read_text()


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_with_trials_fits_and_is_readable(
    believed: tuple[dict[str, Any], Path], page: chromium.Page, width: int, dark: bool
) -> None:
    page.open(believed[1], width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.complaints() == []
    contrast, where = page.evaluate(CONTRAST)
    assert contrast >= 4.5, where
    lefts = "[...document.querySelectorAll('#beliefs .side text')].map((one) => one.getBoundingClientRect().left)"
    assert min(page.evaluate(lefts)) >= 0


def test_a_simulated_run_draws_who_shares_and_what_limits_it(pinfold: Pinfold, shared: Path, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    run = pinfold.record(*SIMULATED, "--policy", "none", "--report", page, shared)
    assert run.status == 0, run.err
    for title in ("Who shares with whom", "What limits it", "Memory bandwidth by node"):
        assert title in page.read_text()
    Elements(page.read_text())
    # The same from the record; the recording is an option.
    record_file = pinfold.folder / "record.json"
    without = report(pinfold.binary, record_file)
    assert "Who shares with whom" not in without.stdout
    with_recording = report(pinfold.binary, record_file, "--recording", shared)
    assert "Who shares with whom" in with_recording.stdout


@pytest.mark.parametrize(("command", "status"), [("true", 0), ("false", 1), ("kill -9 $$", 137)])
def test_a_run_writes_its_page_also_where_the_program_fails(
    pinfold: Pinfold, tmp_path: Path, command: str, status: int
) -> None:
    page = tmp_path / "run.html"
    run = pinfold.run("--report", page, "--", "sh", "-c", command)
    assert run.status == status
    text = page.read_text()
    Elements(text)
    assert "Did it help?" in text
    assert (f"exit status {status}" in text) == (status != 0)


def test_a_page_that_a_run_cannot_write_is_an_error_before_the_program_starts(pinfold: Pinfold, tmp_path: Path) -> None:
    started = tmp_path / "started"
    run = pinfold.run("--report", tmp_path / "missing" / "page.html", "--", "touch", started)
    assert run.status == 125
    assert "--report" in run.err
    assert not started.exists()


def test_two_runs_are_compared_on_one_page(pinfold: Pinfold, shared: Path, tmp_path: Path) -> None:
    files = {}
    for name, options in {
        "packed": (*SIMULATED, "--policy", "packed"),
        "apart": (*SIMULATED, "--policy", "distributed"),
        "elsewhere": ("--machine", "e5-2660v2x2", "--policy", "packed"),
    }.items():
        made = pinfold.record(*options, shared).json
        files[name] = tmp_path / f"{name}.json"
        files[name].write_text(json.dumps(made))

    def compared(one: str, other: str) -> str:
        made = report(pinfold.binary, files[one], files[other])
        assert made.returncode == 0, made.stderr
        Elements(made.stdout)
        return made.stdout

    both = compared("apart", "packed")
    assert f'<p class="big">{files["packed"]}</p>' in both, "threads that share are faster together"
    assert "The same program on the same machine." in both
    assert "They ran on different machines, e5-4650x4 and e5-2660v2x2." in compared("packed", "elsewhere")
    other = json.loads(files["packed"].read_text())
    other["command"] = ["another"]
    files["other"] = tmp_path / "other.json"
    files["other"].write_text(json.dumps(other))
    assert "They are runs of different programs" in compared("packed", "other")


@pytest.fixture(scope="module")
def both(binary: Path, run: Path) -> Path:
    """Return the page of two runs, which are the same one."""
    record_file, file = run.with_suffix(".json"), run.with_name("both.html")
    assert report(binary, record_file, record_file, "-o", file).returncode == 0
    return file


@needs_browser
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_of_two_runs_fits_and_is_readable(both: Path, page: chromium.Page, width: int, dark: bool) -> None:
    page.open(both, width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.complaints() == []
    contrast, where = page.evaluate(CONTRAST)
    assert contrast >= 4.5, where
    assert page.evaluate("document.querySelector('.answer .big').innerText") == "Neither"


def test_a_log_is_not_compared(binary: Path, run: Path, tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    log.write_text('{"time":"2026-01-02T03:04:05.000Z","event":"started","pinfold":"1.2.3","process":9}\n')
    done = report(binary, run.with_suffix(".json"), log)
    assert done.returncode == 125
    assert "only runs are compared" in done.stderr


def test_a_record_of_any_length_gives_a_page_of_limited_length_that_says_what_it_leaves_out(
    pinfold: Pinfold, compiled: Callable[..., Path], tmp_path: Path
) -> None:
    document = pinfold.record("--policy", "none", "--", compiled("spin"), "2", "1").json
    line, points = document["timeline"], 100_000
    line["at"] = [float(point + 1) for point in range(points)]
    for series in line["metrics"]:
        series["rates"] = [float(point % 2) for point in range(points)]
    for series in line["nodes"]:
        series["bytes"] = [point for point in range(points)]
    for task in line["tasks"]:
        task["places"] = [[point, point % 2] for point in range(points)]
    document["notes"] = [{"at": 1.0, "code": "machine", "text": "note"}] * points
    document["command"] = ["x" * points]
    file, page = tmp_path / "long.json", tmp_path / "page.html"
    file.write_text(json.dumps(document))
    assert file.stat().st_size > 8 * LARGEST
    made = report(pinfold.binary, file, "-o", page)
    assert made.returncode == 0, made.stderr
    assert page.stat().st_size < LARGEST
    left_out = f"{points - 4096} of `command`, {points - 512} of `notes`"
    assert left_out in page.read_text()
    explained = subprocess.run([pinfold.binary, "explain", file], capture_output=True, text=True, check=True).stdout
    assert left_out in explained
    assert len(explained) < LARGEST


def test_a_file_without_an_end_is_refused(pinfold: Pinfold) -> None:
    command = [str(pinfold.binary), "explain", "/dev/zero"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "cannot read `/dev/zero`: it has more than 64 MiB" in refused.stderr
