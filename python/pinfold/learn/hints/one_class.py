"""RIPPER for one class: rules that separate its rows from all others.

Cohen, "Fast Effective Rule Induction" (ICML 1995):

1. **Build**: the rows that no rule covers are split, two thirds to grow a rule on and one to prune it on. A rule grows
   by the condition with the highest gain until it covers no negative row. Then the final conditions are dropped without
   which it is better on the other third. Rules are added until none is good, or until the description has become too
   long.
2. **Optimise**, several times: each rule in turn is compared with a newly grown one and with one grown from it, both
   pruned by their correct classifications of the rows that no later rule covers. The one with the shortest description
   is kept. The rows that are then not covered get rules as in 1, and rules that do not shorten the description are
   dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pinfold.learn.hints.columns import EQUAL, CodedCondition, Columns, Mask, Rows, Search
from pinfold.learn.hints.description_length import exception_bits, rule_bits
from pinfold.learn.hints.discretize import Codes

LONGER_BY = 64.0
"""No more rules are added to a description that is this many bits longer than the shortest (Cohen 1995, stopping
condition)."""

HALF = 0.5
"""A rule with this share of wrong rows is not used (Cohen 1995, on IREP)."""

CodedRule = list[CodedCondition]


@dataclass(frozen=True)
class Options:
    """RIPPER's parameters, as the estimator documents them."""

    folds: int
    min_rows: float
    optimizations: int
    prune: bool
    check_error_rate: bool


class OneClass:
    """Learns the rules of one class."""

    def __init__(  # noqa: PLR0913, PLR0917 - all inputs of learning a class
        self,
        columns: Columns,
        classes: Codes,
        target: int,
        options: Options,
        search: Search,
        random: np.random.RandomState,
    ) -> None:
        """Take the rows that rules of earlier classes do not cover; ``classes`` has the shape (rows,)."""
        self._columns = columns
        self._classes = classes
        self._positive = classes == target
        self._options = options
        self._random = random
        self._search = search

    def learn(self) -> list[CodedRule]:
        """Return the rules; a row belongs to the class if one of them covers it."""
        rules = _RuleSet(self._columns, self._positive)
        self._build(rules)
        for _ in range(self._options.optimizations if self._options.prune else 0):
            for position in range(len(rules)):
                self._optimize(rules, position)
            self._build(rules)
            rules.reduce()
        return rules.rules

    def _build(self, rules: _RuleSet) -> None:
        shortest = length = rules.bits()
        while True:
            rows = np.flatnonzero(rules.times_covered == 0)
            if not self._positive[rows].any():
                return
            rule = self._new_rule(rows)
            covered = self._columns.covers_all(rule)
            new = covered[rows]
            positives = int(np.count_nonzero(self._positive[rows] & new))
            rules.insert(len(rules), rule, covered)
            length = rules.bits()
            wrong = np.count_nonzero(new) - positives
            bad = self._options.check_error_rate and wrong >= HALF * np.count_nonzero(new)
            if positives == 0 or bad or not rule or (self._options.prune and length > shortest + LONGER_BY):
                rules.remove(len(rules) - 1)
                return
            shortest = min(shortest, length)

    def _new_rule(self, rows: Rows) -> CodedRule:
        if not self._options.prune:
            return self._grow(rows, [])
        growing, pruning = self._split(rows)
        return self._prune(self._grow(growing, []), pruning, of_all=False)

    def _split(self, rows: Rows) -> tuple[Rows, Rows]:
        """Split rows at random, each class in the same proportion: one fold for pruning, the others for growing."""
        shuffled = rows[self._random.permutation(len(rows))]
        by_class = shuffled[np.argsort(self._classes[shuffled], kind="stable")]
        pruning = np.zeros(len(rows), dtype=bool)
        pruning[self._options.folds - 1 :: self._options.folds] = True
        return by_class[~pruning], by_class[pruning]

    def _grow(self, rows: Rows, start: CodedRule) -> CodedRule:
        """Add conditions to the rule until it covers no negative row."""
        rule = list(start)
        spent = np.zeros(len(self._columns.codes), dtype=bool)
        for condition in rule:
            rows = rows[self._columns.covers(condition, rows)]
            spent[condition.feature] |= condition.operator == EQUAL
        positive = self._positive[rows]
        while len(rows) > 0 and not positive.all():
            growth = self._search.best(self._columns, rows, positive, spent)
            if growth is None or growth.positives < self._options.min_rows:
                break
            rule.append(growth.condition)
            spent[growth.condition.feature] |= growth.condition.operator == EQUAL
            kept = self._columns.covers(growth.condition, rows)
            rows, positive = rows[kept], positive[kept]
        return rule

    def _prune(self, rule: CodedRule, rows: Rows, *, of_all: bool) -> CodedRule:
        """Return the first conditions of the rule that are best on the rows; among equals the fewest.

        The criterion is (p + 1) / (t + 2) of the covered rows, or with ``of_all`` the share of correct rows.
        """
        all_rows = len(rows)
        positive = self._positive[rows]
        all_negatives = all_rows - int(np.count_nonzero(positive))
        best, best_length = -1.0, 0
        for length in range(len(rule) + 1):
            if length > 0:
                kept = self._columns.covers(rule[length - 1], rows)
                rows, positive = rows[kept], positive[kept]
            covered, positives = len(rows), int(np.count_nonzero(positive))
            if of_all:
                worth = (positives + all_negatives - (covered - positives)) / max(all_rows, 1)
            else:
                worth = (positives + 1) / (covered + 2)
            if worth > best:
                best, best_length = worth, length
        return rule[:best_length]

    def _optimize(self, rules: _RuleSet, position: int) -> None:
        """Replace a rule by its replacement or its revision where that gives a shorter description."""
        rows = np.flatnonzero(~rules.covered_before(position))
        growing, pruning = self._split(rows)
        pruning = pruning[~rules.covered_after(position)[pruning]]
        old = rules.rules[position]
        variants = [
            old,
            self._prune(self._grow(growing, old), pruning, of_all=True),
            self._prune(self._grow(growing, []), pruning, of_all=True),
        ]
        tried = [variant for number, variant in enumerate(variants) if variant and variant not in variants[:number]]
        lengths = []
        for variant in tried:
            rules.replace(position, variant)
            lengths.append(rules.shortest_with(position))
        rules.replace(position, tried[int(np.argmin(lengths))])


class _RuleSet:
    """Rules, the rows that each covers, and the length of their description."""

    def __init__(self, columns: Columns, positive: Mask) -> None:
        self._columns = columns
        self._rows = len(positive)
        self._positive_rows = np.flatnonzero(positive)
        self._share = len(self._positive_rows) / len(positive)
        self.rules: list[CodedRule] = []
        self._covered: list[Mask] = []
        self.times_covered = np.zeros(len(positive), dtype=np.intp)

    def __len__(self) -> int:
        return len(self.rules)

    def insert(self, position: int, rule: CodedRule, covered: Mask) -> None:
        self.rules.insert(position, rule)
        self._covered.insert(position, covered)
        self.times_covered += covered

    def remove(self, position: int) -> None:
        del self.rules[position]
        self.times_covered -= self._covered.pop(position)

    def replace(self, position: int, rule: CodedRule) -> None:
        if rule != self.rules[position]:
            self.remove(position)
            self.insert(position, rule, self._columns.covers_all(rule))

    def covered_before(self, position: int) -> Mask:
        return self._union(self._covered[:position])

    def covered_after(self, position: int) -> Mask:
        return self._union(self._covered[position + 1 :])

    def _union(self, covered: list[Mask]) -> Mask:
        union = np.zeros(self._rows, dtype=bool)
        for one in covered:
            union |= one
        return union

    def bits(self) -> float:
        """Return the length of the description, in bits."""
        return self._bits(self.rules, self.times_covered)

    def _bits(self, rules: list[CodedRule], times_covered: Rows) -> float:
        covered = int(np.count_nonzero(times_covered))
        right = int(np.count_nonzero(times_covered[self._positive_rows]))
        possible = self._columns.levels.possible_conditions
        theory = sum(rule_bits(len(rule), possible) for rule in rules)
        missed = len(self._positive_rows) - right
        return theory + exception_bits(covered, len(times_covered) - covered, covered - right, missed, self._share)

    def shortest_with(self, kept: int) -> float:
        """Return the length without each other rule, from the last on, that does not shorten it."""
        return self._reduced(kept)[0]

    def reduce(self) -> None:
        """Drop each rule, from the last on, that does not shorten the description."""
        for position in self._reduced(None)[1]:
            self.remove(position)

    def _reduced(self, kept: int | None) -> tuple[float, list[int]]:
        rules, times_covered = list(self.rules), self.times_covered
        length = self.bits()
        dropped = []
        for position in reversed(range(len(self))):
            if position == kept:
                continue
            others = rules[:position] + rules[position + 1 :]
            without = times_covered - self._covered[position]
            shorter = self._bits(others, without)
            if shorter <= length:
                rules, times_covered, length = others, without, shorter
                dropped.append(position)
        return length, dropped
