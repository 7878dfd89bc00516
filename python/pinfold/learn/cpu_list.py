"""Lists of PUs, as data sets and commands of pinfold write them."""

from __future__ import annotations

from collections.abc import Sequence


def cpu_list(text: str) -> list[int]:
    """Parse a list of PUs, in the order of the list.

    >>> cpu_list("0,6-8,3")
    [0, 6, 7, 8, 3]
    """
    ranges = [part.partition("-") for part in text.split(",")]
    return [pu for first, _, last in ranges for pu in range(int(first), int(last or first) + 1)]


def cpu_list_of(pus: Sequence[int]) -> str:
    """Return the text of a list of PUs. Three or more consecutive PUs are a range.

    >>> cpu_list_of([0, 6, 7, 8, 3, 4])
    '0,6-8,3,4'
    """
    parts: list[str] = []
    begin = 0
    for end in range(1, len(pus) + 1):
        if end == len(pus) or pus[end] != pus[end - 1] + 1:
            run = pus[begin:end]
            parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run)  # noqa: PLR2004 - as the docstring says
            begin = end
    return ",".join(parts)
