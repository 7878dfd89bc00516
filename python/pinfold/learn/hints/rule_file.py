"""Writes rules as a policy for ``pinfold``: JSON that a user can read and change (docs/formats.md).

The rules are evaluated by ``crates/policy/src/rules``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pinfold.learn.hints.ripper import Rule
from pinfold.learn.trained import Trained

VERSION = 1


@dataclass(frozen=True)
class RuleMetric:
    """A metric of rules: the feature of its position."""

    name: str
    """The column of the data set, such as ``ipc`` or ``event:NAME``."""
    unit: str
    normalised: Literal["per_thread_and_second", "per_second", "per_instruction", "ratio"]
    """The divisor of a count; ``ratio`` for a metric without divisor."""


def rule_policy(rules: Sequence[Rule], metrics: Sequence[RuleMetric], trained: Trained) -> str:
    """Return rules as JSON.

    Only metrics that a rule uses are listed, so the others need not be measured.

    Args:
        rules: in their order, the last one without conditions, such as ``RipperClassifier.rules_``.
        metrics: one for each feature.
        trained: the training data.

    Raises:
        ValueError: if a rule uses a feature without a metric, or two metrics have one name.
    """
    names = [metric.name for metric in metrics]
    if len(set(names)) < len(names):
        raise ValueError(f"the metrics are {', '.join(names)}: each must have its own name")
    *conditional, default = rules
    used = {condition.feature for rule in conditional for condition in rule.conditions}
    if used and max(used) >= len(names):
        raise ValueError(f"a rule uses feature {max(used)}: {len(names)} metrics are given, for features from 0")
    policy = {
        "rule_policy": VERSION,
        "trained": asdict(trained),
        "metrics": [asdict(metric) for feature, metric in enumerate(metrics) if feature in used],
        "rules": [{"conditions": _conditions(rule, names), **_outcome(rule)} for rule in conditional],
        "default": _outcome(default),
    }
    return _readable(policy)


def write_rule_policy(path: Path, rules: Sequence[Rule], metrics: Sequence[RuleMetric], trained: Trained) -> None:
    """Write the result of :func:`rule_policy` to a file."""
    path.write_text(rule_policy(rules, metrics, trained), encoding="utf-8")


def _conditions(rule: Rule, names: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"metric": names[condition.feature], "operator": condition.operator, "threshold": condition.threshold}
        for condition in rule.conditions
    ]


def _outcome(rule: Rule) -> dict[str, Any]:
    return {"class": str(rule.target), "coverage": rule.coverage, "errors": rule.errors}


def _readable(policy: dict[str, Any]) -> str:
    """Write objects without nested values, such as a condition, on one line."""
    text = json.dumps(policy, indent=2, ensure_ascii=False, allow_nan=False)
    flat = re.compile(r'[\[{](?:[^\[\]{}"]|"(?:[^"\\]|\\.)*")*[\]}]')

    def one_line(found: re.Match[str]) -> str:
        return json.dumps(json.loads(found[0]), ensure_ascii=False)

    return flat.sub(one_line, text) + "\n"
