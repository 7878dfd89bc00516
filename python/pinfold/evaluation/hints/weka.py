"""pinfold's learners compared with WEKA, which AutoFinity's paper used: selected features, and accuracy of rules.

WEKA's results are stored with the tests, in ``tests/python/data/weka.json``; ``scripts/weka`` makes them again.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pinfold.evaluation.section import Part, Table
from pinfold.learn.hints.cfs import CfsSelector
from pinfold.learn.hints.ripper import RipperClassifier

TESTS = Path("tests/python")


def weka(quick: bool) -> Part:
    """Select features and learn rules from every data set with results of WEKA; the reduced set draws folds once."""
    data_sets = _data_sets()
    reference: dict[str, Any] = json.loads((TESTS / "data/weka.json").read_text())["data"]
    equal = {
        name: _selects_the_same(load(), reference[name]["cfs"]["selected"]) for name, load in data_sets.LOADERS.items()
    }
    ours, theirs = {}, {}
    for name in data_sets.COMPARED:
        drawn = reference[name]["jrip"]["folds"][: 1 if quick else None]
        data = data_sets.LOADERS[name]()
        ours[name] = _accuracy(data, drawn)
        theirs[name] = float(np.sum(reference[name]["jrip"]["correct"][: len(drawn)])) / (len(data.target) * len(drawn))
    rows = [
        [
            name,
            "the same" if same else "**others**",
            f"{ours[name]:.2%}" if name in ours else "-",
            f"{theirs[name]:.2%}" if name in ours else "-",
        ]
        for name, same in equal.items()
    ]
    return Part(
        {"cfs_equal_to_weka": all(equal.values()), "cfs": equal, "ripper_accuracy": ours, "jrip_accuracy": theirs},
        Table(
            ["data set", "features that CFS selects", "RIPPER", "WEKA's JRip"], rows, "Learners compared with WEKA's:"
        ),
        "The learners are compared with WEKA's `CfsSubsetEval` and `JRip`, which the paper used, on the same folds.",
        ["scripts/weka"],
    )


def _data_sets() -> ModuleType:
    """Load the data sets of the tests, which are not in a package."""
    specification = importlib.util.spec_from_file_location("learning_data", TESTS / "learning_data.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    # Its data classes look for their own module there.
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


def _selects_the_same(data: Any, selected: list[int]) -> bool:
    numeric = np.issubdtype(data.target.dtype, np.floating)
    selector = CfsSelector(categorical_features=list(data.nominal), target="numeric" if numeric else "class")
    return bool(selector.fit(data.values, data.target).get_support(indices=True).tolist() == selected)


def _accuracy(data: Any, drawn: list[str]) -> float:
    """Return the share of correctly classified rows over all drawn folds."""
    correct = 0
    for seed, of_rows in enumerate(drawn):
        fold = np.array(list(of_rows), dtype=int)
        for test in (fold == number for number in np.unique(fold)):
            learned = RipperClassifier(random_state=seed).fit(data.values[~test], data.target[~test])
            correct += int(np.count_nonzero(learned.predict(data.values[test]) == data.target[test]))
    return correct / (len(data.target) * len(drawn))
