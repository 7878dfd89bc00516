"""The models of Denoyelle et al. (ICPP 2019, section 3.3): pipelines of default classifiers on few parameters.

A pipeline normalises its inputs, may take the singular value decomposition of them and all products of two of them, and
gives them to one of four classifiers with default settings. The paper tries each combination with many random sets of
parameters. The classifiers are scikit-learn's counterparts of the R packages that the paper names, with the defaults of
scikit-learn or, where these differ in kind, of the package:

- ``randomForest``: 100 trees, which R has 500 of;
- ``glm``: logistic regression, without a penalty. For several classes it is the multinomial one;
- ``kernlab``'s ``ksvm``: a Gaussian kernel, C = 1;
- ``nnet``: one hidden layer of four neurons, fitted by a quasi-Newton method, without weight decay, at most 100 steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC

Kind = Literal["forest", "logistic", "svm", "network"]

KINDS: tuple[Kind, ...] = ("forest", "logistic", "svm", "network")
DEGREES = (1, 2)
NEURONS = 4
STEPS = 100

MOST_DEVIATIONS = 1e6
"""The largest normalised input: forests see single precision, in which squares of larger ones would be infinite."""

MOST_PARAMETERS = 6
"""The most parameters of a model. The paper caps their number and does not give it; table 1 has six."""


@dataclass(frozen=True)
class PaperModel:
    """One of the paper's models, not fitted.

    Attributes
    ----------
    kind : str
        The classifier.
    decomposed : bool
        Whether the inputs are replaced by their singular vectors.
    degree : int
        2 if all products of two inputs are inputs, too.
    parameters : tuple of str
        The names of the metrics that it sees.
    """

    kind: Kind
    decomposed: bool
    degree: int
    parameters: tuple[str, ...]

    def pipeline(self, seed: int) -> Pipeline:
        """Return the pipeline.

        Args:
            seed: of classifiers that have a random part.
        """
        steps: list[Any] = [SimpleImputer(keep_empty_features=True), StandardScaler(), _limited()]
        if self.decomposed:
            steps.append(PCA(svd_solver="full"))
        if self.degree > 1:
            steps += [PolynomialFeatures(self.degree, include_bias=False), StandardScaler(), _limited()]
        return make_pipeline(*steps, _classifier(self.kind, seed))

    def text(self) -> str:
        """Describe it in a line."""
        parts = [self.kind, *(["SVD"] if self.decomposed else []), *(["degree 2"] if self.degree > 1 else [])]
        return f"{', '.join(parts)}: {', '.join(self.parameters)}"


def _limited() -> FunctionTransformer:
    """Limit normalised inputs: a metric that hardly varies in training may be very many deviations away elsewhere."""
    return FunctionTransformer(np.clip, kw_args={"a_min": -MOST_DEVIATIONS, "a_max": MOST_DEVIATIONS})


def _classifier(kind: Kind, seed: int) -> Any:
    match kind:
        case "forest":
            return RandomForestClassifier(random_state=seed)
        case "logistic":
            return LogisticRegression(C=np.inf, max_iter=STEPS)
        case "svm":
            return SVC(random_state=seed)
        case "network":
            return MLPClassifier((NEURONS,), solver="lbfgs", alpha=0, max_iter=STEPS, random_state=seed)


def drawn(names: Sequence[str], number: int, seed: int) -> list[PaperModel]:
    """Return all combinations of classifier and preprocessing, each with random sets of parameters.

    Args:
        names: the metrics from which sets are drawn.
        number: the number of sets.
        seed: of the draws. The same arguments give the same models.
    """
    random = np.random.default_rng(seed)
    largest = min(MOST_PARAMETERS, len(names))
    sets: dict[tuple[str, ...], None] = {}
    # There may be fewer sets than wanted.
    for _ in range(10 * number):
        if len(sets) == number:
            break
        size = int(random.integers(1, largest + 1))
        chosen = random.choice(len(names), size, replace=False)
        sets.setdefault(tuple(names[place] for place in sorted(chosen)))
    return [
        PaperModel(kind, decomposed, degree, parameters)
        for parameters in sets
        for kind, decomposed, degree in itertools.product(KINDS, (False, True), DEGREES)
    ]
