"""Tables of figures, for Markdown and for web pages."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Table:
    """One table.

    Attributes
    ----------
    columns : sequence of str
        The heads.
    rows : sequence of sequence of str
        The cells.
    caption : str
        What it shows, where a section has several.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def markdown(self) -> list[str]:
        """Return the table as lines of Markdown."""
        caption = [self.caption, ""] if self.caption else []
        heads = ["| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        return [*caption, *heads, *("| " + " | ".join(row) + " |" for row in self.rows), ""]

    def html(self) -> str:
        """Return the table as HTML; its cells are text."""

        def line(kind: str, cells: Sequence[str]) -> str:
            return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>"

        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        rows = "\n".join(line("td", row) for row in self.rows)
        return f"<table>{caption}\n<thead>{line('th', self.columns)}</thead>\n<tbody>\n{rows}\n</tbody></table>"
