"""Tables of figures, for Markdown and for web pages."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pinfold.text import one_line


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
        Its subject, if a section has several tables.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def markdown(self) -> list[str]:
        """Return the table as lines of Markdown."""
        caption = [self.caption, ""] if self.caption else []
        heads = ["| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        return [*caption, *heads, *("| " + " | ".join(map(one_line, row)) + " |" for row in self.rows), ""]

    def folded(self) -> str:
        """Return the table as HTML that is opened on demand, where a plot shows the same."""
        title = html.escape(self.caption.removesuffix(":")) or "all figures"
        return f"<details><summary>Table: {title}</summary>{self.html()}</details>"

    def html(self) -> str:
        """Return the table as HTML, in a box that scrolls if the table is too wide.

        Cells are text. ``**`` around a whole cell emphasises it, as in Markdown.
        """

        def text(cell: str) -> str:
            bold = re.fullmatch(r"\*\*(.+)\*\*", cell)
            return f"<strong>{html.escape(bold[1])}</strong>" if bold else html.escape(cell)

        def line(start: str, end: str, cells: Sequence[str]) -> str:
            return "<tr>" + "".join(f"<{start}>{text(cell)}</{end}>" for cell in cells) + "</tr>"

        title = html.escape(self.caption.removesuffix(":"))
        caption = f"<caption>{title}</caption>" if title else ""
        head = line('th scope="col"', "th", self.columns)
        rows = "\n".join(line("td", "td", row) for row in self.rows)
        table = f"<table>{caption}\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody></table>"
        return f'<div class="table" role="region" aria-label="{title or "table"}" tabindex="0">{table}</div>'
