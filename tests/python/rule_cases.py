"""Writes crates/policy/tests/data/rule_cases.json: policies as Python writes them, and their results on samples.

The Rust test beside that file evaluates the same policies on the same samples. test_hints_rule_file.py checks that the
file equals the output of this program. To write it again: python tests/python/rule_cases.py
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinfold.learn.hints.action_table import rules_on_values
from pinfold.learn.hints.discretize import MISSING, bins, equal_frequency_thresholds
from pinfold.learn.hints.ripper import RipperClassifier, Rule, first_that_holds
from pinfold.learn.hints.rule_file import RuleMetric, rule_policy
from pinfold.learn.trained import Trained

OUTPUT = Path(__file__).resolve().parents[2] / "crates/policy/tests/data/rule_cases.json"
POLICIES, SAMPLES, FEATURES, NOMINAL = 12, 40, 4, 3


def _training(random: np.random.RandomState) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Return rows of four features, the last one nominal, with gaps, and classes that depend on the first two."""
    numbers = random.uniform(size=(300, FEATURES - 1)) ** 2 * [4, 4e8, 0.4]
    values = np.column_stack([numbers, random.randint(0, 4, 300)])
    classes = np.array(["slp", "SLP", "Slp"])[(values[:, 0] > 1).astype(int) + (values[:, 1] > 1e8)]
    classes[(values[:, NOMINAL] == 2) & (values[:, 2] > 0.15)] = "sLP"
    values[random.uniform(size=values.shape) < 0.05] = np.nan
    return values, classes


def _samples(
    random: np.random.RandomState, training: NDArray[np.float64], rules: Sequence[Rule]
) -> NDArray[np.float64]:
    """Return rows in which some values equal a threshold or differ from it in the last bit, and some are missing."""
    samples = training[random.permutation(len(training))[:SAMPLES]].copy()
    thresholds = [condition for rule in rules for condition in rule.conditions]
    for sample in samples:
        for place in random.permutation(len(thresholds))[:3]:
            threshold = thresholds[place].threshold
            beside = np.nextafter(threshold, random.choice([-np.inf, np.inf]))
            sample[thresholds[place].feature] = random.choice([threshold, beside])
    samples[random.uniform(size=samples.shape) < 0.1] = np.nan
    return samples


def _rules(values: NDArray[np.float64], classes: NDArray[np.str_], seed: int) -> tuple[Rule, ...]:
    """Learn rules on values, with the last feature nominal; or, every other time, on bins of all features."""
    if seed % 2:
        cuts = [equal_frequency_thresholds(column, 5) for column in values.T]
        binned = np.column_stack([bins(column, cut) for column, cut in zip(values.T, cuts, strict=True)]).astype(float)
        binned[binned == MISSING] = np.nan
        return rules_on_values(RipperClassifier(random_state=seed).fit(binned, classes).rules_, cuts)
    learned = RipperClassifier(categorical_features=[NOMINAL], random_state=seed).fit(values, classes)
    rules: tuple[Rule, ...] = learned.rules_
    return rules


def rule_cases() -> str:
    """Return the file's text."""
    cases: list[dict[str, Any]] = []
    for seed in range(POLICIES):
        random = np.random.RandomState(seed)
        values, classes = _training(random)
        rules = _rules(values, classes, seed)
        kinds: tuple[Any, ...] = ("ratio", "per_thread_and_second", "per_second", "ratio")
        metrics = [RuleMetric(f"metric {feature}", "1", kinds[feature]) for feature in range(FEATURES)]
        policy = rule_policy(rules, metrics, Trained(None, [], [], len(classes), "RIPPER"))
        samples = _samples(random, values, rules)
        cases.append(
            {
                "policy": policy,
                "samples": [
                    {
                        "values": {
                            metric.name: value
                            for metric, value in zip(metrics, sample, strict=True)
                            if not np.isnan(value)
                        },
                        "class": str(rules[fired].target),
                        "rule": None if fired == len(rules) - 1 else fired,
                    }
                    for sample, fired in zip(samples.tolist(), first_that_holds(rules, samples).tolist(), strict=True)
                ],
            }
        )
    lines = []
    for case in cases:
        samples_text = ",\n  ".join(json.dumps(sample) for sample in case["samples"])
        lines.append(f'{{"policy": {json.dumps(case["policy"])},\n "samples": [\n  {samples_text}\n ]}}')
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    OUTPUT.write_text(rule_cases(), encoding="utf-8")
