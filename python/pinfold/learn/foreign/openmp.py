"""The PUs of an OpenMP program's threads, by ``OMP_PLACES`` and ``OMP_PROC_BIND`` (OpenMP 5.2, sections 10.1.3, 21.1).

The first thread of the program is on the first place. The specification leaves open which places get the remainder of a
division: as in libgomp and LLVM's libomp, the first ones do. A place may have several PUs, between which the kernel
moves a thread; here the ranks of a place take its PUs in turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

Places = Sequence[Sequence[int]]

_LIST = re.compile(r"\{([^{}]*)\}(?::(\d+)(?::(-?\d+))?)?")
"""A place in braces, perhaps with a number of places and the step between them."""


def places(text: str, abstract: Mapping[str, Places]) -> Places:
    """Return the places of ``OMP_PLACES``.

    Args:
        text: its value: an abstract name, perhaps with a number in parentheses, or a list of places.
        abstract: the places of each abstract name.

    Raises:
        ValueError: if it has another form.
    """
    name = re.fullmatch(r"([a-z_]+)(?:\((\d+)\))?", text.strip().lower())
    if name and name[1] in abstract:
        return abstract[name[1]][: int(name[2])] if name[2] else abstract[name[1]]
    listed = [place for found in _LIST.finditer(text) for place in _several(found)]
    if not listed or _LIST.sub("", text).strip(" ,"):
        raise ValueError(
            f"`{text}` is no value of OMP_PLACES: it is one of {', '.join(abstract)}, or a list such as {{0,1}},{{2,3}}"
        )
    return listed


def _several(found: re.Match[str]) -> list[list[int]]:
    first = [pu for part in found[1].split(",") for pu in _interval(part)]
    number, step = int(found[2] or 1), int(found[3] or 1) if found[2] else 0
    return [[pu + turn * (step if found[3] else len(first)) for pu in first] for turn in range(number)]


def _interval(text: str) -> list[int]:
    """Return the numbers of an interval: ``2``, ``2:3`` for three from 2 on, or ``2:3:4`` with a step of 4."""
    parts = text.strip().split(":")
    if not 1 <= len(parts) <= 3 or not all(re.fullmatch(r"-?\d+", part) for part in parts):  # noqa: PLR2004
        raise ValueError(f"`{text}` is no number and no interval of OMP_PLACES, such as 0:4 or 0:4:2")
    first, *rest = map(int, parts)
    length, step = rest[0] if rest else 1, rest[1] if len(rest) > 1 else 1
    return [first + turn * step for turn in range(length)]


def pinning(threads: int, among: Places, bind: str, order: Callable[[Sequence[int]], Sequence[int]]) -> tuple[int, ...]:
    """Return the PU of each thread.

    Args:
        threads: the number of threads.
        among: the places.
        bind: ``OMP_PROC_BIND``: close, spread, primary or master.
        order: the order in which the threads of a place take its PUs.

    Raises:
        ValueError: for another value.
    """
    policy = bind.strip().lower()
    if policy not in _POLICIES:
        raise ValueError(
            f"`{bind}` is no binding that says where threads are: OMP_PROC_BIND is one of {', '.join(_POLICIES)}; with "
            "`true` the runtime decides (leave such rows out with [[skip]]), and with `false` threads are not pinned"
        )
    turns = [0] * len(among)
    pus = []
    for place in _POLICIES[policy](threads, len(among)):
        inside = order(among[place])
        pus.append(inside[turns[place] % len(inside)])
        turns[place] += 1
    return tuple(pus)


def _close(threads: int, number: int) -> list[int]:
    if threads <= number:
        return list(range(threads))
    each, rest = divmod(threads, number)
    return [place for place in range(number) for _ in range(each + (place < rest))]


def _spread(threads: int, number: int) -> list[int]:
    if threads >= number:
        return _close(threads, number)
    each, rest = divmod(number, threads)
    return [thread * each + min(thread, rest) for thread in range(threads)]


def _primary(threads: int, number: int) -> list[int]:
    del number
    return [0] * threads


_POLICIES: Mapping[str, Callable[[int, int], list[int]]] = {
    "close": _close,
    "spread": _spread,
    "primary": _primary,
    "master": _primary,
}
