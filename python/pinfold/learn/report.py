"""A self-contained web page of results: it loads nothing else.

It has the style of ``pinfold report``. Tables and plots that are wider than the window scroll in their own boxes, so
that texts keep their size on a phone.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from matplotlib.figure import Figure

from pinfold import plot

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The content security policy. Plots have styles in their elements, which have no hashes."""


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes
    ----------
    anchor : str
        Its id.
    title : str
        Its heading, as text.
    body : str
        Its content, as HTML.
    """

    anchor: str
    title: str
    body: str

    def html(self) -> str:
        """Return the section."""
        heading = f'<h2 id="{self.anchor}-title">{html.escape(self.title)}</h2>'
        return f'<section id="{self.anchor}" aria-labelledby="{self.anchor}-title">\n{heading}\n{self.body}\n</section>'


def page(title: str, lead: str, sections: Sequence[Section], *, simulated: bool) -> str:
    """Return a page.

    Args:
        title: its title and heading, as text.
        lead: the main figures in a paragraph, as text.
        sections: its content.
        simulated: whether nothing on it was measured.
    """
    heading = html.escape(title)
    style = resources.files("pinfold").joinpath("page.css").read_text(encoding="utf-8")
    note = '<p><span class="badge">simulated</span> Nothing on this page was measured: the machines are models.</p>'
    links = "".join(f'<li><a href="#{one.anchor}">{html.escape(one.title)}</a></li>' for one in sections)
    body = [
        '<a class="skip" href="#main">Skip to the content</a>',
        f"<header><h1>{heading}</h1>{note if simulated else ''}<p>{html.escape(lead)}</p></header>",
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
        '<main id="main">',
        *(section.html() for section in sections),
        "</main>",
    ]
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{heading}</title>",
        f"<style>{style}</style>",
    ]
    whole = ['<!DOCTYPE html>\n<html lang="en"><head>', *head, "</head>\n<body>", *body, "</body></html>\n"]
    return "\n".join(whole)


def plotted(drawn: Figure, caption: str, description: str) -> str:
    """Return a plot with its caption, in the colours of the page.

    Args:
        drawn: the plot, without a title.
        caption: its content, as text.
        description: the same in more words, for readers who do not see it.
    """
    svg = plot.svg(drawn)
    # HTML does not allow anything before the root element.
    svg = svg[svg.index("<svg") :]
    for colour in ("#000000", "#262626"):
        svg = svg.replace(f"stroke: {colour}", "stroke: currentColor").replace(f"fill: {colour}", "fill: currentColor")
    svg = svg.replace("fill: #ffffff", "fill: none")
    label = html.escape(f"{caption}. {description}")
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    box = f'<div class="plotted" role="region" aria-label="{html.escape(caption)}" tabindex="0">{svg}</div>'
    return f"<figure><figcaption>{html.escape(caption)}</figcaption>\n{box}</figure>"
