"""The work of ``pinfold-learn`` after its arguments have been checked.

This import takes seconds: it loads numpy and scikit-learn.
"""

from __future__ import annotations

import argparse
import json

from pinfold.binary import find_binary
from pinfold.learn.hints import data_set, evaluation, report
from pinfold.learn.hints.data_set import DataSet
from pinfold.learn.hints.policy import HintPolicy, learn_best_observed, learn_policy
from pinfold.learn.hints.rule_file import write_rule_policy
from pinfold.learn.hints.two_samples import learn_two_samples
from pinfold.learn.hints.variants import DEFAULT, PAPER, TREE
from pinfold.learn.progress import checked_origin, printer
from pinfold.learn.trained import Trained
from pinfold.split import refuse_judged

METHODS = {"pinfold": DEFAULT, "paper": PAPER, "regret-tree": TREE, "two-samples": DEFAULT}


def _read(asked: argparse.Namespace) -> DataSet:
    return data_set.read(asked.data, find_binary(), asked.machine, getattr(asked, "incomplete", False))


def train_hints(asked: argparse.Namespace) -> None:
    """Learn a policy and write it."""
    recipe = METHODS[asked.method]
    origin = checked_origin(asked)
    data = _read(asked).seen(recipe.view)
    refuse_judged(case.program.name for case in data.cases)
    cases = data.training(asked.threads)
    begin = None
    if asked.method == "two-samples":
        two = learn_two_samples(cases)
        policy, learner, begin = HintPolicy(two.rules, (), len(cases)), two.text(), two.first
    elif asked.incomplete:
        policy, learner = learn_best_observed(cases), "RIPPER on the best observed hint of each program"
    else:
        policy, learner = learn_policy(cases, data.machines.best_matches, recipe), recipe.text()
    trained = Trained.of(
        origin,
        sorted({case.program.machine for case in cases}),
        sorted({case.program.name for case in cases}),
        policy.rows,
        learner,
    )
    write_rule_policy(asked.output, policy.rules, data.metrics, trained)
    names = [metric.name for metric in data.metrics]
    show = printer(asked)
    for rule in policy.rules:
        show(rule.text(names))
    if begin:
        show(f"run it with --observe {begin}: the first sample is taken in the placement of this hint")


def evaluate_hints(asked: argparse.Namespace) -> None:
    """Judge policies, and write and print the figures."""
    judged = evaluation.evaluate(_read(asked), asked.threads, printer(asked))
    if asked.json:
        text = json.dumps(evaluation.document(judged), indent=2, ensure_ascii=False, allow_nan=False)
        asked.json.write_text(text + "\n", encoding="utf-8")
    if asked.report:
        asked.report.write_text(report.page(judged), encoding="utf-8")
    print(report.summary(judged))
    for table in report.tables(judged)[:1]:
        print()
        print("\n".join(table.markdown()).rstrip())
