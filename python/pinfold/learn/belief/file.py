"""Writes and reads beliefs as JSON (docs/formats/beliefs.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from pinfold.learn.belief.belief import Belief, Kernel
from pinfold.learn.belief.kernel import Lengths
from pinfold.learn.belief.point import ALL_ON, COMPACT, PAGE_MAPS, Point
from pinfold.learn.races import Floats
from pinfold.learn.trained import Trained

KIND = "belief"
VERSION = 1

MOST_BYTES = 100 * 1024
"""The largest file."""

LARGEST = 20.0
"""The largest logarithm of a time, and root of a variance."""

ROUNDING = 1e-3
"""A share that is written with a few digits may be above 1 by this."""

SHORTEST, LONGEST = 1e-3, 1e6
"""The lengths of a kernel are between."""

DIGITS = 3
"""The digits of a mean and of a factor after the point: a thousandth of a time."""

DIGITS_OF_VARIANCES = 5

REMEDY = "`pinfold learn train belief` writes one"


def rounded(belief: Belief) -> Belief:
    """Return a belief with the digits that its file has."""
    kernel = belief.kernel
    return replace(
        belief,
        mean=np.round(belief.mean, DIGITS),
        factors=np.round(belief.factors, DIGITS),
        residual=np.round(belief.residual, DIGITS_OF_VARIANCES),
        kernel=replace(kernel, variance=_digits(kernel.variance)),
        noise=_digits(belief.noise),
        doubt=_digits(belief.doubt),
    )


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def text(belief: Belief) -> str:
    """Return a belief as JSON, with each point and each row of factors on one line."""
    kernel = belief.kernel
    single: dict[str, Any] = {
        "pinfold": KIND,
        "version": VERSION,
        "origin": asdict(belief.origin),
        "mean": _numbers(belief.mean),
        "residual": _numbers(belief.residual),
        "kernel": {"weight": kernel.weight, "variance": kernel.variance, "lengths": kernel.lengths.given()},
        "noise": belief.noise,
        "doubt": {"machine": belief.doubt},
    }
    lines = [f"{json.dumps(key)}:{_dumped(value)}" for key, value in single.items()]
    for key, values in (
        ("points", [_shares(one) for one in belief.points]),
        ("factors", [_numbers(row) for row in belief.factors]),
    ):
        inner = ",\n".join(map(_dumped, values))
        lines.append(f"{json.dumps(key)}:[\n{inner}]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _shares(point: Point) -> dict[str, Any]:
    """Return a point without what is not known of it."""
    return {name: value for name, value in point._asdict().items() if value is not None}


def _numbers(values: Floats) -> list[float]:
    # A negative zero is written as zero.
    return [float(value) + 0.0 for value in values]


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def read(file: Path) -> Belief:
    """Read a file.

    Raises:
        ValueError: if it is too large, of another format or version, or damaged; the message says why.
    """
    if file.stat().st_size > MOST_BYTES:
        raise ValueError(f"{file} has more than {MOST_BYTES >> 10} KiB, the most of a belief; {REMEDY}")
    try:
        document = json.loads(file.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except ValueError as error:
        raise ValueError(f"{file} is not a belief: {error}; {REMEDY}") from error
    if not isinstance(document, dict) or document.get("pinfold") != KIND:
        raise ValueError(f"{file} is not a belief: the key `pinfold` is not `{KIND}`; {REMEDY}")
    if document.get("version") != VERSION:
        raise ValueError(
            f"{file} is a belief of version {document.get('version')}, and this pinfold reads version {VERSION}: train "
            "it again with `pinfold learn train belief`"
        )
    try:
        belief = _belief(document)
        _check(belief)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        what = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{file} is damaged: {what}; {REMEDY}") from error
    return belief


def _refuse_constant(name: str) -> float:
    raise ValueError(f"it has the number {name}")


def _belief(document: Mapping[str, Any]) -> Belief:
    kernel = document["kernel"]
    return Belief(
        points=tuple(_point(one) for one in document["points"]),
        mean=np.array(document["mean"], dtype=np.float64),
        factors=np.array(document["factors"], dtype=np.float64).reshape(len(document["factors"]), -1),
        residual=np.array(document["residual"], dtype=np.float64),
        kernel=Kernel(float(kernel["weight"]), float(kernel["variance"]), Lengths(**kernel["lengths"])),
        noise=float(document["noise"]),
        doubt=float(document["doubt"]["machine"]),
        origin=Trained(**document["origin"]),
    )


def _point(found: Mapping[str, Any]) -> Point:
    shares = [float(found[name]) for name in ("threads", "cores", "nodes")]
    llcs = None if found.get("llcs") is None else float(found["llcs"])
    if llcs is not None and not 0 < llcs <= 1 + ROUNDING:
        raise ValueError(f"llcs {llcs} is no share of a machine")
    if not (all(0 < share < math.inf for share in shares) and max(shares[1:]) <= 1 + ROUNDING):
        raise ValueError(f"threads {shares[0]}, cores {shares[1]} and nodes {shares[2]} are no shares of a machine")
    page_map, prefetch = str(found["page_map"]), str(found["prefetch"] or ALL_ON)
    if page_map not in PAGE_MAPS:
        raise ValueError(f"the page map `{page_map}` is none of {', '.join(PAGE_MAPS)}")
    if len(prefetch) != len(ALL_ON) or set(prefetch) - {"0", "1"}:
        raise ValueError(f"the prefetchers `{prefetch}` are not {len(ALL_ON)} digits, 0 or 1")
    return Point(shares[0], shares[1], shares[2], str(found["thread_map"] or COMPACT), page_map, prefetch, llcs)


def _check(belief: Belief) -> None:
    """Raise an error if the parts do not fit each other, or a covariance would not be positive."""
    points = len(belief.points)
    if not points:
        raise ValueError("it has no points")
    for name in ("mean", "factors", "residual"):
        values = getattr(belief, name)
        if len(values) != points:
            raise ValueError(f"`{name}` has {len(values)} entries, and there are {points} points")
        if not np.isfinite(values).all() or np.abs(values).max(initial=0) > LARGEST**2:
            raise ValueError(f"`{name}` has a value that is too large, or no number")
    variances = {
        "residual": float(belief.residual.min()),
        "kernel.variance": belief.kernel.variance,
        "doubt.machine": belief.doubt,
    }
    for name, variance in variances.items():
        if not 0 <= variance <= LARGEST**2:
            raise ValueError(f"`{name}` is {variance}: the covariance is not positive")
    if not 0 <= belief.kernel.weight <= 1:
        raise ValueError(f"`kernel.weight` is {belief.kernel.weight}, and must be from 0 to 1")
    if not 0 < belief.noise <= LARGEST**2:
        raise ValueError(f"`noise` is {belief.noise}, and must be above 0")
    if belief.kernel.lengths.llcs is not None and any(one.llcs is None for one in belief.points):
        raise ValueError("the kernel compares last-level caches, and a point has no `llcs`")
    for name, length in belief.kernel.lengths.given().items():
        if not SHORTEST < length < LONGEST:
            raise ValueError(f"the length of `{name}` is {length}, and must be above {SHORTEST} and below {LONGEST:g}")
