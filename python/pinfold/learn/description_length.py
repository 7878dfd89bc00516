"""How many bits it takes to tell somebody a rule set and the rows that it gets wrong.

RIPPER stops adding rules, and chooses between rules, by the sum of the two (Cohen, "Fast Effective Rule Induction",
ICML 1995, stopping condition and rule optimization). The codes are Quinlan's ("MDL and Categorical Theories
(Continued)", ICML 1995).
"""

from __future__ import annotations

from functools import cache
from math import inf, log2

REDUNDANCY = 0.5
"""Rules take half the bits, since conditions are redundant (Cohen 1995, stopping condition)."""


def subset_bits(size: int, chosen: int, share: float) -> float:
    """Return the bits that tell which ``chosen`` of ``size`` elements are meant, each with probability ``share``."""
    bits = 0.0
    for count, probability in ((chosen, share), (size - chosen, 1 - share)):
        if count > 0:
            bits -= count * log2(probability) if probability > 0 else -inf
    return bits


@cache
def rule_bits(conditions: int, possible: int) -> float:
    """Return the bits of a rule that has so many of the possible conditions.

    The number of conditions itself takes log2(k) bits and, so that one knows where it ends, twice the logarithm of
    that.
    """
    if conditions == 0:
        return 0.0
    number = log2(conditions)
    if conditions > 1:
        number += 2 * log2(number)
    return REDUNDANCY * (number + subset_bits(possible, conditions, min(conditions / possible, 1.0)))


def exception_bits(covered: int, uncovered: int, false_positives: int, false_negatives: int, share: float) -> float:
    """Return the bits that tell which rows a rule set gets wrong (Quinlan 1995).

    Errors are expected to be positives and negatives in the proportion of ``share``, that of the positive rows: of the
    covered and the uncovered rows, the more numerous ones' errors are told with the probability that this gives.
    """
    errors = false_positives + false_negatives
    total = log2(covered + uncovered + 1)
    if covered > uncovered:
        expected = min(share * errors / covered, 1.0)
        rest = false_negatives / uncovered if uncovered else 0.0
        return total + subset_bits(covered, false_positives, expected) + subset_bits(uncovered, false_negatives, rest)
    expected = min((1 - share) * errors / uncovered, 1.0) if uncovered else 0.0
    rest = false_positives / covered if covered else 0.0
    return total + subset_bits(uncovered, false_negatives, expected) + subset_bits(covered, false_positives, rest)
