"""The page of limits names every promise that the evaluation does not hold."""

import json
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def shown(value: object) -> str:
    """Return a value as a person reads it."""
    return f"{value:.4g}" if isinstance(value, float) else "not known" if value is None else str(value)


def broken() -> str:
    """Return the promises that do not hold, as a list in Markdown."""
    items = []
    for file in sorted((ROOT / "evaluation").glob("*.json")):
        for one in json.loads(file.read_text(encoding="utf-8")).get("promises", []):
            if not one["held"]:
                item = f"{file.stem}: {one['name']}: {shown(one['value'])}; asked: {one['promise']}"
                items.append(textwrap.fill(item, 118, initial_indent="- ", subsequent_indent="  "))
    return "\n".join(items)


def test_the_page_of_limits_has_the_promises_that_do_not_hold() -> None:
    wanted = broken()
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    assert wanted in page, f"docs/limits.md must have this list:\n{wanted}"
