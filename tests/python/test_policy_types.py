"""The types of the policy crate are small, and no file writes the fields of another file's type.

1. A type has at most twelve fields.
2. The methods of a type are in at most two files.
3. If other files can call a method that changes a type, they do not see its fields.
4. No file writes the field of a type of another file.

The sources are read as text. rustfmt puts each field on one line, indented by four spaces, and each `struct` and `impl`
at the start of a line. Fields of the same name are not told apart, so the test of rule 4 finds most writes, not all.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "crates/policy/src"
MOST_FIELDS = 12
MOST_FILES = 2

VIEWS = {"Round"}
"""Types that lend other types for one decision: other files read their fields, and by rule 4 none writes one."""

TYPE = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum) (\w+)", re.MULTILINE)
STRUCT = re.compile(r"^(?:pub(?:\([^)]*\))? )?struct (\w+)[^;{(]*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^    (pub(?:\([^)]*\))? )?(\w+): ", re.MULTILINE)
CHANGES = re.compile(r"pub(?:\([^)]*\))? fn \w+(?:<[^>]*>)?\(\s*&mut self")
IMPL = re.compile(r"^impl(?:<[^>]*>)? (\w+)(?:<[^>]*>)? \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
WRITE = re.compile(r"(\w+|[\])?])\.(\w+) (?:=|[-+*/|&]=) ")


@dataclass(frozen=True)
class Type:
    """A struct or an enum, with the named fields of a struct and those of them that other files see."""

    file: Path
    name: str
    fields: tuple[str, ...]
    visible: tuple[str, ...]


def sources(folder: Path) -> dict[Path, str]:
    """Return the text of each file without comments and without its tests."""
    return {
        file: re.sub(r"^\s*//.*\n", "", file.read_text().split("#[cfg(test)]\nmod tests")[0], flags=re.MULTILINE)
        for file in sorted(folder.rglob("*.rs"))
    }


def types_of(texts: dict[Path, str]) -> list[Type]:
    """Return all types."""
    found = []
    for file, text in texts.items():
        fields = {name: FIELD.findall(body) for name, body in STRUCT.findall(text)}
        for name in TYPE.findall(text):
            named = fields.get(name, [])
            visible = tuple(field for seen, field in named if seen)
            found.append(Type(file, name, tuple(field for _, field in named), visible))
    return found


def methods(texts: dict[Path, str], types: list[Type]) -> Iterator[tuple[Type, Path, str]]:
    """Return the type, the file and the text of each inherent `impl`."""
    for file, text in texts.items():
        for name, body in IMPL.findall(text):
            named = [one for one in types if one.name == name]
            # Of several types with this name it is the one in this file, or else the one in the nearest folder.
            near = sorted(named, key=lambda one: (one.file != file, -len(set(one.file.parents) & set(file.parents))))
            if near:
                yield near[0], file, body


def broken(folder: Path) -> list[str]:
    """Return what breaks a rule, one line each."""
    texts = sources(folder)
    types = types_of(texts)
    files, changes = defaultdict(set), set()
    for one, file, body in methods(texts, types):
        files[one].add(file.relative_to(folder).as_posix())
        if CHANGES.search(body):
            changes.add(one)
    lines = [f"{one.name} has {len(one.fields)} fields" for one in types if len(one.fields) > MOST_FIELDS]
    lines += [
        f"{one.name} has methods in {', '.join(sorted(its))}" for one, its in files.items() if len(its) > MOST_FILES
    ]
    lines += [
        f"methods change {one.name}, and others see {', '.join(one.visible)}"
        for one in changes
        if one.visible and one.name not in VIEWS
    ]
    return sorted(lines + list(written_elsewhere(folder, texts, types)))


def written_elsewhere(folder: Path, texts: dict[Path, str], types: list[Type]) -> Iterator[str]:
    """Return the writes of fields whose names only types of other files have."""
    owners = defaultdict(list)
    for one in types:
        for field in one.visible:
            owners[field].append(one.name)
    for file, text in texts.items():
        own = {field for one in types if one.file == file for field in one.fields}
        for receiver, field in WRITE.findall(text):
            if receiver != "self" and field in owners and field not in own:
                yield f"{file.relative_to(folder).as_posix()} writes {field} of {' or '.join(owners[field])}"


def test_types_of_policies_are_small_and_keep_their_state_to_themselves() -> None:
    assert not broken(SOURCES)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("struct A {\n" + "".join(f"    f{number}: u8,\n" for number in range(13)) + "}\n", "A has 13 fields"),
        (
            "struct A {\n    pub(super) f: u8,\n}\nimpl A {\n    pub(super) fn go(&mut self) {}\n}\n",
            "methods change A, and others see f",
        ),
    ],
)
def test_a_type_that_breaks_a_rule_is_found(tmp_path: Path, source: str, complaint: str) -> None:
    (tmp_path / "a.rs").write_text(source)
    assert broken(tmp_path) == [complaint]


def test_methods_in_many_files_and_writes_from_another_file_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.rs").write_text("pub(crate) struct A {\n    pub(crate) f: u8,\n}\n")
    for name in "bcd":
        (tmp_path / f"{name}.rs").write_text("impl A {\n    fn go(&self) {}\n}\n")
    (tmp_path / "e.rs").write_text("fn go(a: &mut A) {\n    a.f = 1;\n}\n")
    assert broken(tmp_path) == ["A has methods in b.rs, c.rs, d.rs", "e.rs writes f of A"]
