"""Rules are written as readable JSON, and Rust evaluates them with the same results."""

import json

import numpy as np
import pytest
from rule_cases import OUTPUT, rule_cases

from pinfold.learn.hints.ripper import RipperClassifier, Rule
from pinfold.learn.hints.rule_file import RuleMetric, rule_policy
from pinfold.learn.trained import Trained

METRICS = [RuleMetric("ipc", "instructions/cycle", "ratio"), RuleMetric("event:l3", "1/s", "per_thread_and_second")]
TRAINED = Trained(True, ["opteron-6164x4"], ["fft"], 80, "RIPPER")


def _learned() -> tuple[Rule, ...]:
    values = np.repeat([[0.0, 1.0], [0.0, 2.5]], [60, 20], axis=0)
    learned = RipperClassifier(random_state=0).fit(values, np.repeat(["slp", "SLP"], [60, 20]))
    rules: tuple[Rule, ...] = learned.rules_
    return rules


def test_the_test_data_of_rust_equals_the_output_of_python() -> None:
    assert OUTPUT.read_text(encoding="utf-8") == rule_cases()


def test_a_policy_has_the_rules_in_order_with_their_coverage_and_the_default() -> None:
    policy = json.loads(rule_policy(_learned(), METRICS, TRAINED))
    assert policy["rule_policy"] == 1
    assert policy["rules"] == [
        {
            "conditions": [{"metric": "event:l3", "operator": ">=", "threshold": 2.5}],
            "class": "SLP",
            "coverage": 20,
            "errors": 0,
        }
    ]
    assert policy["default"] == {"class": "slp", "coverage": 60, "errors": 0}


def test_only_metrics_that_a_rule_uses_are_listed() -> None:
    policy = json.loads(rule_policy(_learned(), METRICS, TRAINED))
    assert policy["metrics"] == [{"name": "event:l3", "unit": "1/s", "normalised": "per_thread_and_second"}]


def test_a_policy_says_what_it_was_trained_on() -> None:
    trained = json.loads(rule_policy(_learned(), METRICS, TRAINED))["trained"]
    assert trained == {
        "simulated": True,
        "machines": ["opteron-6164x4"],
        "programs": ["fft"],
        "rows": 80,
        "learner": "RIPPER",
        "measured_rows": None,
        "simulated_rows": None,
    }


def test_a_condition_is_on_one_line() -> None:
    lines = rule_policy(_learned(), METRICS, TRAINED).splitlines()
    assert '        {"metric": "event:l3", "operator": ">=", "threshold": 2.5}' in lines


def test_metrics_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="a rule uses feature 1: 1 metrics are given"):
        rule_policy(_learned(), METRICS[:1], TRAINED)
    with pytest.raises(ValueError, match="the metrics are ipc, ipc: each must have its own name"):
        rule_policy(_learned(), METRICS[:1] * 2, TRAINED)
