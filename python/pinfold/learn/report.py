"""A self-contained web page of results: it loads nothing else."""

from __future__ import annotations

import html
from collections.abc import Sequence

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0 2rem; font-size: 13px; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { border-bottom: 1px solid #ddd; padding: .2rem .7rem; text-align: left; }
svg { max-width: 100%; height: auto; }
pre { background: #f4f4f4; padding: .7rem; overflow-x: auto; }
"""


def page(title: str, parts: Sequence[str]) -> str:
    """Return a page.

    Args:
        title: its title and heading, as text.
        parts: its content, as HTML.
    """
    heading = html.escape(title)
    body = "\n".join([f"<h1>{heading}</h1>", *parts])
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )
