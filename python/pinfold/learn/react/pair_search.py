"""The search for the two features whose decision tree chooses configurations best, as an estimator of scikit-learn.

``pinfold pairs`` does the work (docs/formats.md): it judges all pairs by cross-validation with the trees of
``DecisionTreeClassifier(random_state=0)``, after Sánchez Barrera et al. (ICS 2020, section 4.2.2).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from pinfold.binary import find_binary

VERSION = 1
"""Of the problems that ``pinfold pairs`` reads."""

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


class PairTreeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A decision tree of the two features with which it does best on samples that it has not seen.

    Parameters
    ----------
    jobs : int or None
        The number of threads; None for one for each CPU that is allowed.
    all_scores : bool
        Whether the scores of all pairs are kept.
    third : bool
        Whether the tree gets a third feature: the one with which the best pair does best.
    binary : Path or None
        The path of pinfold; None to look for it.

    Attributes
    ----------
    best_pair_ : tuple of int
        The features, the lower number first.
    best_features_ : tuple of int
        Those of the tree: the pair, and the third one where it was asked for.
    best_score_ : float
        The mean gain of all samples, each predicted by a tree of the best features without its fold.
    pair_score_ : float
        The same, by a tree of the best pair.
    scores_ : array of shape (pairs,)
        With ``all_scores``, those of all pairs in single precision: (0, 1), (0, 2) … (1, 2) …
    predicted_ : array of shape (samples,)
        The class that the best pair predicts for each sample, by a tree without its fold.
    tree_ : DecisionTreeClassifier
        The tree of the best features, from all samples.
    classes_ : array
        The classes: the columns of the gains.
    """

    def __init__(
        self, *, jobs: int | None = None, all_scores: bool = False, third: bool = False, binary: Path | None = None
    ) -> None:
        """Store the parameters."""
        self.jobs = jobs
        self.all_scores = all_scores
        self.third = third
        self.binary = binary

    def fit(self, X: Any, gains: Any, folds: Any) -> PairTreeClassifier:  # noqa: N803 (scikit-learn's name)
        """Search all pairs.

        Args:
            X: the features, of shape (samples, features).
            gains: what each class gains for each sample, of shape (samples, classes): the logarithm of the speed-up. A
                sample is of the class that gains most; of several the first.
            folds: the number of each sample's fold, from 0. A tree predicts a fold's samples from the others.

        Raises:
            ValueError: if the arrays do not fit each other, a value is no finite number, there are fewer than two or
                more than 255 samples, or there is one class or one fold.
        """
        values, of_classes, places = _checked(X, gains, folds)
        labels: Labels = of_classes.argmax(axis=1)
        with tempfile.TemporaryDirectory() as directory:
            found = self._search(Path(directory), values, of_classes, labels, places)
        self.best_pair_: tuple[int, int] = (found["pair"][0], found["pair"][1])
        self.best_score_ = self.pair_score_ = float(found["score"])
        self.best_features_: tuple[int, ...] = self.best_pair_
        self.predicted_: Labels = np.array(found["predicted"], dtype=np.int64)
        if self.third:
            scores = np.array(found["thirds"])
            best = int(scores.argmax())
            if best not in self.best_pair_:
                self.best_features_, self.best_score_ = (*self.best_pair_, best), float(scores[best])
        self.classes_ = np.arange(of_classes.shape[1])
        self.n_features_in_ = values.shape[1]
        self.tree_ = DecisionTreeClassifier(random_state=0).fit(values[:, list(self.best_features_)], labels)
        return self

    def predict(self, X: Any) -> Labels:  # noqa: N803 (scikit-learn's name)
        """Return the class of each sample."""
        check_is_fitted(self)
        values = np.asarray(X, dtype=np.float32)
        predicted: Labels = self.tree_.predict(values[:, list(self.best_features_)])
        return predicted

    def _search(
        self, folder: Path, values: npt.NDArray[np.float32], gains: Floats, labels: Labels, folds: Labels
    ) -> dict[str, Any]:
        problem, result, scores = folder / "problem.json", folder / "result.json", folder / "scores.npy"
        document = {
            "pair_problem": VERSION,
            "features": values.T.tolist(),
            "labels": labels.tolist(),
            "gains": gains.tolist(),
            "folds": folds.tolist(),
        }
        problem.write_text(json.dumps(document, allow_nan=False), encoding="utf-8")
        words = [str(self.binary or find_binary()), "pairs", str(problem), "--output", str(result)]
        words += ["--scores", str(scores)] if self.all_scores else []
        words += ["--thirds"] if self.third else []
        words += ["--jobs", str(self.jobs)] if self.jobs is not None else []
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            why = done.stderr.strip().replace(f"{problem} cannot be searched", "the pairs cannot be searched")
            raise ValueError(why or f"`pinfold pairs` ended with status {done.returncode}")
        if self.all_scores:
            self.scores_ = np.load(scores)
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return found


def _checked(x: Any, gains: Any, folds: Any) -> tuple[npt.NDArray[np.float32], Floats, Labels]:
    with np.errstate(over="ignore"):
        values = np.asarray(x, dtype=np.float32)
    of_classes, places = np.asarray(gains, dtype=np.float64), np.asarray(folds)
    if values.ndim != 2 or of_classes.ndim != 2 or places.ndim != 1:  # noqa: PLR2004 (samples by features, by classes)
        raise ValueError(
            f"features, gains and folds have {values.ndim}, {of_classes.ndim} and {places.ndim} dimensions, and must "
            "have 2, 2 and 1: (samples, features), (samples, classes) and (samples)"
        )
    if not len(values) == len(of_classes) == len(places):
        raise ValueError(
            f"the features have {len(values)} samples, the gains {len(of_classes)} and the folds {len(places)}: each "
            "sample needs all three"
        )
    for name, array in (("feature", values), ("gain", of_classes)):
        if (wrong := np.argwhere(~np.isfinite(array))).size:
            raise ValueError(
                f"{name} {wrong[0][1]} of sample {wrong[0][0]} is no finite number in single precision: leave out "
                f"{name}s that are missing"
            )
    if not np.issubdtype(places.dtype, np.integer) or (places < 0).any() or (places > np.iinfo(np.uint8).max).any():
        raise ValueError("the folds must be whole numbers from 0 to 255")
    return values, of_classes, places.astype(np.int64)
