"""The evaluation says what made each figure, mixes no builds, can be interrupted, and names what is not reached."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pinfold.evaluation import __main__ as evaluation
from pinfold.evaluation import changes, pages, provenance
from pinfold.evaluation.provenance import Provenance
from pinfold.evaluation.reality.section import PARTIAL
from pinfold.evaluation.sam.mixes import mixes_checks
from pinfold.evaluation.section import Check, Part, Promise, Section, Table, promises_of
from pinfold.evaluation.simulator import validation
from pinfold.evaluation.simulator.validation import ASKED_FOR, ASKED_OF_HOST, promises

ONE = Provenance("c1", "b1", "this machine", reduced=False)
OTHER = Provenance("c2", "b2", "this machine", reduced=False)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put two sections in the place of the real ones; return the names of those that are made."""
    calls: list[str] = []

    def section(name: str) -> evaluation.Make:
        def make(quick: bool) -> Section:
            calls.append(name)
            broken = Promise(f"{name}'s figure", 2.0, "%", "<= 1", held=False)
            missing = Promise("unmeasured", None, "", "<= 1", held=None)
            kept = Promise("kept", 1.0, "", "<= 1", held=True)
            return Section(name, name.upper(), "text", [], [], {"figure": 2}, promises=[broken, missing, kept])

        return make

    (tmp_path / "docs").mkdir()
    (tmp_path / "target/release").mkdir(parents=True)
    (tmp_path / "target/release/pinfold").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluation, "SECTIONS", {name: section(name) for name in ("one", "two")})
    return calls


def shown() -> str:
    """Return the text of all pages."""
    return "\n".join(file.read_text() for file in sorted(Path("docs/evaluation").glob("*.md")))


def run(monkeypatch: pytest.MonkeyPatch, provenance: Provenance, *arguments: str) -> None:
    monkeypatch.setattr(Provenance, "current", lambda root, *, reduced: provenance)
    evaluation.main(arguments)


def test_each_file_begins_with_what_made_it_and_has_its_promises(
    made: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, ONE)
    data = json.loads(Path("evaluation/one.json").read_text())
    assert list(data) == ["commit", "build", "machine", "reduced", "code", "promises", "page", "figure"]
    assert [promise["held"] for promise in data["promises"]] == [False, None, True]
    assert "Made by commit c1, build b1, on: this machine." in shown()
    said = capsys.readouterr().err
    assert "4 figures are not what is asked for:" in said
    assert "one: one's figure: 2.0%, asked for: <= 1" in said
    assert "two: unmeasured: not measured, asked for: <= 1" in said


def test_what_is_there_of_this_build_is_not_made_again_unless_it_is_named(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, ONE, "one")
    assert "Not made by this build yet: `two`." in shown()
    run(monkeypatch, ONE)
    assert "Not made" not in shown()
    run(monkeypatch, ONE)
    assert made == ["one", "two"]
    run(monkeypatch, ONE, "two")
    assert made == ["one", "two", "two"]


def test_figures_of_another_build_are_refused_beside_new_ones_and_replaced_by_a_whole_run(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, ONE)
    with pytest.raises(SystemExit, match=r"the sections two come from another build, and"):
        run(monkeypatch, OTHER, "one")
    assert made == ["one", "two"]
    run(monkeypatch, OTHER)
    assert made == ["one", "two", "one", "two"]
    builds = {json.loads(file.read_text())["build"] for file in Path("evaluation").glob("*.json")}
    assert builds == {"b2"}
    assert "b1" not in shown()


def test_a_section_that_stands_apart_may_be_of_another_build(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "APART", {"two"})
    run(monkeypatch, ONE)
    run(monkeypatch, OTHER, "two")
    page = shown()
    assert "Made by commit c1, build b1" in page
    assert "Made by commit c2, build b2" in page
    run(monkeypatch, ONE, "one")
    assert made == ["one", "two", "two", "one"]
    assert shown() == page
    run(monkeypatch, ONE)
    assert made[4:] == ["two"], "a whole evaluation makes it for its build"


def test_a_section_that_needs_what_is_missing_stays_as_it_is(
    made: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, ONE)
    monkeypatch.setattr(evaluation, "NEEDS", {"two": lambda: "TABLE is not set"})
    run(monkeypatch, OTHER)
    assert made == ["one", "two", "one"]
    assert "evaluation: two is not made: TABLE is not set" in capsys.readouterr().err
    assert json.loads(Path("evaluation/two.json").read_text())["build"] == "b1"
    run(monkeypatch, OTHER, "two")
    assert made == ["one", "two", "one"]
    monkeypatch.setattr(evaluation, "NEEDS", {"two": lambda: None})
    run(monkeypatch, OTHER)
    assert made == ["one", "two", "one", "two"]


def test_a_part_of_a_sweep_is_used_only_if_it_is_asked_for_and_is_replaced_by_the_whole(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def part(quick: bool) -> Section:
        made.append("part of two")
        return Section("two", "TWO", "3 of 79 regions have rows.", [], [], {PARTIAL: True})

    monkeypatch.setattr(evaluation, "PARTS", {"two": part})
    run(monkeypatch, ONE, "--partial", "two")
    assert "3 of 79 regions have rows." in shown()
    run(monkeypatch, ONE)
    assert made == ["part of two", "one", "two"]
    assert "3 of 79 regions" not in shown()
    run(monkeypatch, ONE)
    assert made == ["part of two", "one", "two"]


@pytest.mark.parametrize("names", [[], ["one"], ["one", "two"]])
def test_a_part_is_refused_for_sections_without_a_sweep(
    made: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], names: list[str]
) -> None:
    monkeypatch.setattr(evaluation, "PARTS", {"two": evaluation.SECTIONS["two"]})
    with pytest.raises(SystemExit):
        run(monkeypatch, ONE, "--partial", *names)
    assert "--partial needs the names of sections, of: two" in capsys.readouterr().err
    assert made == []


def test_a_reduced_section_stands_beside_no_whole_one(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "APART", {"two"})
    run(monkeypatch, ONE)
    with pytest.raises(SystemExit, match="the sections one come from another build"):
        run(monkeypatch, replace(ONE, reduced=True), "two", "--quick")


def test_a_simulated_section_of_a_build_with_the_same_results_stays_and_says_so(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "MEASURED", {"two"})
    run(monkeypatch, ONE)
    same = {"build": "b1", "binary": "b", "commit": "c1", "runs": 7}
    Path("evaluation/same_results.json").write_text(json.dumps({"build": "b2", "promises": [], "same_as": same}))
    run(monkeypatch, OTHER)
    assert made == ["one", "two", "two"], "what was measured is measured again"
    page = shown()
    assert "Made by commit c1, build b1, on: this machine. Build b2 of commit c2 has the same output in 7" in page
    assert page.count("Made by commit c2, build b2, on: this machine.") == 1
    data = json.loads(Path("evaluation/one.json").read_text())
    assert (data["build"], data["commit"], data["made_by"]["build"]) == ("b2", "c2", "b1")
    assert json.loads(Path("evaluation/same_results.json").read_text())["commit"] == "c2"
    run(monkeypatch, OTHER)
    assert made == ["one", "two", "two"]


def test_a_section_whose_own_code_changed_is_made_again_and_the_others_stay(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, ONE)
    hashes = iter(("changed", provenance.code(Path(), __name__)))
    monkeypatch.setattr(evaluation, "code", lambda root, module: next(hashes))
    run(monkeypatch, replace(ONE, commit="c3"))
    assert made == ["one", "two", "one"]
    # The other one would be made by this commit as it was.
    assert shown().count("Made by commit c3, build b1") == len(["one", "two"])


def test_a_section_that_stays_gets_the_commit_unless_there_are_changes_that_nobody_can_check_out(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def commits() -> set[str]:
        assert shown().count("Made by commit") == len(["one", "two"])
        return {json.loads(file.read_text())["commit"] for file in Path("evaluation").glob("*.json")}

    run(monkeypatch, ONE)
    run(monkeypatch, replace(ONE, commit="c4+changes"))
    assert commits() == {"c1"}
    run(monkeypatch, replace(ONE, commit="c4"))
    assert commits() == {"c4"}
    assert "commit c4, build b1, on: this machine." in shown()
    assert made == ["one", "two"]


def test_a_section_that_reads_others_is_always_made_again(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "DERIVED", {"two"})
    run(monkeypatch, ONE)
    run(monkeypatch, ONE)
    assert made == ["one", "two", "two"]


def test_the_code_of_a_section_is_its_module_with_all_that_it_imports_and_reads(tmp_path: Path) -> None:
    folder = tmp_path / "python/pinfold/evaluation"
    folder.mkdir(parents=True)
    files = {
        folder.parent / "__init__.py": "",
        folder / "__init__.py": "",
        folder
        / "one.py": "import json\nfrom pinfold.evaluation import used\nfrom pinfold.evaluation.used import ONE\n",
        folder / "used.py": "def late():\n    import pinfold.deep\nONE = 1\n",
        folder.parent / "deep.py": 'INPUTS = ("data/*.csv",)\nimport pinfold.evaluation.one\n',
        folder / "unused.py": "",
        tmp_path / "data.csv": "not read",
    }
    (tmp_path / "data").mkdir()
    files[tmp_path / "data/rows.csv"] = "1"
    for file, text in files.items():
        file.write_text(text)
    before = provenance.code(tmp_path, "pinfold.evaluation.one")

    def changes_it(file: Path) -> bool:
        file.write_text(files[file] + "\nTWO = 2\n")
        changed = provenance.code(tmp_path, "pinfold.evaluation.one") != before
        file.write_text(files[file])
        assert provenance.code(tmp_path, "pinfold.evaluation.one") == before
        return changed

    apart = {folder / "unused.py", tmp_path / "data.csv"}
    assert {file for file in files if changes_it(file)} == files.keys() - apart


def test_words_and_places_of_modules_do_not_count_as_code(tmp_path: Path) -> None:
    def code_of(files: dict[str, str]) -> str:
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, text in files.items():
            file = root / "python/pinfold" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return provenance.code(root, "pinfold.one")

    before = code_of({"one.py": "from pinfold.two import X\n", "two.py": "X = 1\n"})
    moved = {"one.py": '"""Words."""\nfrom pinfold.folder.two import X\n', "folder/two.py": "X = 1  # A reason.\n"}
    assert code_of({**moved, "folder/__init__.py": '"""A folder."""\n'}) == before
    assert code_of({**moved, "folder/two.py": "X = 2\n"}) != before
    assert code_of({**moved, "one.py": "from pinfold.folder.two import X as Y\n"}) != before
    assert code_of({**moved, "folder/two.py": 'X = """1"""\n'}) != before


def test_a_section_cannot_replace_what_says_what_made_it(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    section = Section("one", "ONE", "text", [], [], {"machine": "e5-4650x4"})
    monkeypatch.setattr(evaluation, "SECTIONS", {"one": lambda quick: section})
    with pytest.raises(ValueError, match="under the key `machine`"):
        run(monkeypatch, ONE)


def test_a_caption_is_above_its_plot() -> None:
    plots = [Path("docs/plots/one.svg"), Path("docs/plots/two.svg")]
    section = Section("one", "ONE", "text", [], [], {}, plots, captions={"two": "Figure 2: the second."})
    lines = [line for line in pages.content(section)["figures"] if line]
    assert lines == ["![one](../plots/one.svg)", "Figure 2: the second.", "![two](../plots/two.svg)"]


def test_on_another_machine_only_what_measures_the_machine_is_made_again(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "MEASURED", {"one"})
    run(monkeypatch, ONE)
    run(monkeypatch, replace(ONE, machine="another machine"))
    assert made == ["one", "two", "one"]
    page = shown()
    assert "on: another machine." in page
    assert "on: this machine." in page


def test_a_figure_that_was_not_measured_is_not_held() -> None:
    (misses, *others) = promises({"cachegrind_worst_percent": 1.5}, ASKED_FOR)
    assert (misses.value, misses.held) == (1.5, True)
    assert all(one.value is None and one.held is None for one in others)
    measured = [one for one in promises({"host_order_agreement": 0.9}, ASKED_OF_HOST) if one.value is not None]
    assert [one.held for one in measured] == [False]


def test_a_check_is_a_promise() -> None:
    (promise,) = promises_of([Check("gain", "+72%", "at least +72%", "+80%", True)])
    assert (promise.name, promise.value, promise.promise, promise.held) == ("gain", "+80%", "at least +72%", True)


@pytest.mark.parametrize(("gains", "held"), [((0.2, 0.25, 0.3), True), ((0.01, 0.02, 0.03), False), ((2, 2, 2), False)])
def test_the_gain_of_the_papers_own_programs_is_bounded_on_both_sides(gains: Sequence[float], held: bool) -> None:
    rows = [{"mix": number, "geomean_gain": gain} for number, gain in enumerate((*gains, 5.0), start=1)]
    even = {"linux": [1, 1], "sam": [1, 1]}
    today = [{"mix": number, "geomean_gain": -0.1} for number in range(1, 5)]
    checks = mixes_checks({"mixes": today, "paper_kernel": {"mixes": rows, "fairness": even}})
    (check,) = [check for check in checks if "own microbenchmarks" in check.what]
    assert check.holds is held
    assert [check.holds for check in checks if check.what == "least gain over Linux 6.1"] == [False]


def test_changes_of_headlines_say_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A headline whose section was not made has no figure now; the others have theirs, beside the one before."""
    monkeypatch.setattr(changes, "FOLDER", tmp_path)
    mixes = [{"mix": 1, "geomean_gain": 0.0}, {"mix": 9, "geomean_gain": 0.21}]
    (tmp_path / "sam.json").write_text(json.dumps({"mixes": mixes}))
    section = changes.changes(quick=False)
    rows = {row[0]: row[1:3] for row in section.tables[0].rows}
    assert rows["SAM over Linux's best order, geometric mean of 26 mixes"] == ["+71.3%", "+10.0%"]
    assert rows["pairs of placements in the order of this machine"] == ["92%", "-"]
    assert section.data["headlines"][-1]["now"] is None


def test_a_part_of_the_validation_is_kept_for_the_same_binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted validation goes on with the part that was interrupted; another binary makes all parts again."""
    monkeypatch.chdir(tmp_path)
    binary = Path("pinfold")
    binary.write_bytes(b"one")
    monkeypatch.setattr(provenance, "PINFOLD", binary)
    monkeypatch.setattr(validation, "FOLDER", tmp_path / "parts")
    calls = []

    def part(quick: bool) -> Part:
        calls.append(quick)
        table = Table(["figure"], [["1"]], "Figures:")
        return Part({"figure": 1.5}, table, "Text.", ["pinfold topo"], [Promise("figure", 1.5, "s", "> 1", True)])

    assert validation.kept(part, False) == validation.kept(part, False) == part(True)
    assert calls == [False, True]
    validation.kept(part, True)
    binary.write_bytes(b"another")
    validation.kept(part, False)
    assert calls == [False, True, True, False]
