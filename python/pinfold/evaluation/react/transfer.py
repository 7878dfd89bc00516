"""Models of regions that were learned on one machine and are judged on another, on programs that they have not seen.

Sánchez Barrera et al. (ICS 2020) see one machine's counters and learn from the other machine's times. Here everything
is learned on the first machine: the configurations to choose, the counters of profiles, and the tree. The second
machine has other numbers of threads and nodes, so each configuration of the first stands for one of the second.
"""

from __future__ import annotations

import numpy as np

from pinfold.learn.folds import folds_of
from pinfold.learn.races import best_two
from pinfold.learn.react.data import Configuration, Regions
from pinfold.learn.react.method import (
    BASELINE,
    BEST_OF_OUTPUTS,
    FOLDS,
    MODEL,
    POSSIBLE,
    STATIC,
    TWO,
    Judged,
    Study,
    Way,
    learn,
)


def corresponding(one: Regions, other: Regions) -> list[int]:
    """Return the position, among the configurations of the other machine, for each configuration of one.

    It has the same maps of threads and pages, the same prefetchers, and one node or several as the first has. It has
    the same place among the machine's numbers of threads: a quarter, a half or all of the cores. If the machine lacks
    this number, such as half of the cores of four nodes on one node, the configuration has the greatest lower number of
    threads, or else the least.

    Raises:
        ValueError: if no configuration of the other machine has the same maps and prefetchers.
    """
    counts, others = (sorted({one.threads for one in found.configurations}) for found in (one, other))

    def distance(wanted: Configuration, found: Configuration) -> tuple[bool, int]:
        away = others.index(found.threads) - counts.index(wanted.threads)
        return away > 0, abs(away)

    places = []
    for wanted in one.configurations:
        alike = [
            place
            for place, found in enumerate(other.configurations)
            if found[2:] == wanted[2:] and (found.nodes > 1) == (wanted.nodes > 1)
        ]
        if not alike:
            raise ValueError(f"{other.machine} has no configuration like {wanted.text()} of {one.machine}")
        places.append(min(alike, key=lambda place: distance(wanted, other.configurations[place])))
    return places


def transferred(one: Regions, other: Regions, way: Way, seed: int, folds: int = FOLDS) -> Judged:
    """Judge the regions of a machine by models of another machine that did not see their programs.

    A region that lacks a counter on the judged machine gets the best single configuration.

    Args:
        one: the regions to learn from.
        other: the regions to judge.
        way: the way to learn.
        seed: of all folds.
        folds: the number of outer folds.
    """
    study, places = Study.of(one, one), np.array(corresponding(one, other))
    counters = [other.counters.index(name) for name in one.counters]
    gains = other.gains
    fold_of = dict(zip(one.programs, folds_of(one.programs, folds, seed).tolist(), strict=True))
    # A program that was not learned at all may be judged in any fold.
    taught = np.array([fold_of[program] for program in one.programs])
    outer = np.array([fold_of.get(program, 0) for program in other.programs])
    reached = {name: np.zeros(len(gains)) for name in (BASELINE, STATIC, TWO, MODEL, BEST_OF_OUTPUTS, POSSIBLE)}
    chosen = []
    for fold in np.unique(outer):
        judged, inside = np.flatnonzero(outer == fold), np.flatnonzero(taught != fold)
        training = study.gains[inside]
        fitted = learn(way, study.values[inside], training, [one.programs[place] for place in inside], seed)
        features = fitted.choice.features if fitted.choice else ()
        if fitted.choice:
            chosen.append(features)
        profiles = [places[study.places[feature][0]] for feature in features]
        columns = [counters[study.places[feature][1]] for feature in features]
        seen = other.values[judged][:, profiles, columns].astype(np.float32)
        known = np.isfinite(seen).all(axis=1)
        best = int(places[training.mean(axis=0).argmax()])
        outputs = places[fitted.outputs]
        chosen_outputs = np.full(len(judged), best)
        if known.any():
            chosen_outputs[known] = outputs[fitted.predict(seen[known])]
        truth = gains[judged]
        reached[MODEL][judged] = truth[np.arange(len(judged)), chosen_outputs]
        reached[STATIC][judged] = truth[:, best]
        reached[TWO][judged] = truth[:, places[list(best_two(training))]].max(axis=1)
        reached[BEST_OF_OUTPUTS][judged] = truth[:, outputs].max(axis=1)
        reached[POSSIBLE][judged] = truth.max(axis=1)
    return Judged(other.programs, gains.max(axis=1), reached, tuple(chosen))
