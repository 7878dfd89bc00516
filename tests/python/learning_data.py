"""The data sets on which pinfold's learners are compared with WEKA.

The four of the comparison are scikit-learn's, so none is downloaded. Their variants add missing values and nominal
attributes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold

FOLDS = 10
COMPARED = ("iris", "wine", "breast_cancer", "digits")


@dataclass(frozen=True)
class Data:
    """Rows of attributes and the class of each; `nominal` marks attributes whose values are codes without an order."""

    values: NDArray[np.float64]
    target: NDArray[np.int64] | NDArray[np.float64]
    nominal: tuple[int, ...] = ()


def _bundled(load: Callable[..., tuple[NDArray[np.float64], NDArray[np.int64]]]) -> Callable[[], Data]:
    return lambda: Data(*load(return_X_y=True))


def _with_gaps(load: Callable[[], Data], share: float) -> Callable[[], Data]:
    """Remove this share of all values, always the same ones."""

    def gaps() -> Data:
        data = load()
        values = data.values.copy()
        values[np.random.RandomState(0).uniform(size=values.shape) < share] = np.nan
        return Data(values, data.target, data.nominal)

    return gaps


def _with_nominal(load: Callable[[], Data], every: int) -> Callable[[], Data]:
    """Make each `every`-th attribute nominal, with four values whose codes do not follow their order."""

    def nominal() -> Data:
        data = load()
        values = data.values.copy()
        chosen = tuple(range(0, values.shape[1], every))
        for column in chosen:
            quartiles = np.quantile(values[:, column], [0.25, 0.5, 0.75])
            values[:, column] = np.array([2.0, 0.0, 3.0, 1.0])[np.digitize(values[:, column], quartiles)]
        return Data(values, data.target, chosen)

    return nominal


def _with_twins() -> Data:
    """Iris with two more attributes. Each of them is the class."""
    data = LOADERS["iris"]()
    return Data(np.column_stack([data.values, data.target, data.target]), data.target)


LOADERS: dict[str, Callable[[], Data]] = {
    "iris": _bundled(load_iris),
    "wine": _bundled(load_wine),
    "breast_cancer": _bundled(load_breast_cancer),
    "digits": _bundled(load_digits),
    "iris_gaps": _with_gaps(_bundled(load_iris), 0.1),
    "wine_gaps": _with_gaps(_bundled(load_wine), 0.3),
    "wine_nominal": _with_nominal(_bundled(load_wine), 2),
    "breast_cancer_nominal_gaps": _with_gaps(_with_nominal(_bundled(load_breast_cancer), 3), 0.1),
    "iris_twins": _with_twins,
    "diabetes": _bundled(load_diabetes),
}


def folds(data: Data, repetition: int) -> NDArray[np.int64]:
    """Return the fold of each row, of ten stratified ones."""
    result = np.empty(len(data.target), dtype=np.int64)
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=repetition)
    for fold, (_, test) in enumerate(splitter.split(data.values, data.target)):
        result[test] = fold
    return result
