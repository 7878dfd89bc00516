"""The number of bits that encode a rule set and the rows that it classifies wrongly.

RIPPER stops adding rules, and chooses between rules, by the sum of the two (Cohen, "Fast Effective Rule Induction",
ICML 1995, stopping condition and rule optimization). The codes are Quinlan's ("MDL and Categorical Theories
(Continued)", ICML 1995).
"""

from __future__ import annotations

from functools import cache
from math import inf, log2

REDUNDANCY = 0.5
"""Rules count half their bits, because conditions are redundant (Cohen 1995, stopping condition)."""


def subset_bits(size: int, chosen: int, share: float) -> float:
    """Return the bits that encode which ``chosen`` of ``size`` elements are meant, each with probability ``share``."""
    bits = 0.0
    for count, probability in ((chosen, share), (size - chosen, 1 - share)):
        if count > 0:
            bits -= count * log2(probability) if probability > 0 else -inf
    return bits


@cache
def rule_bits(conditions: int, possible: int) -> float:
    """Return the bits of a rule with ``conditions`` of the possible conditions.

    The number of conditions itself takes log2(k) bits and, to mark the end of this code, twice the logarithm of that.
    """
    if conditions == 0:
        return 0.0
    number = log2(conditions)
    if conditions > 1:
        number += 2 * log2(number)
    return REDUNDANCY * (number + subset_bits(possible, conditions, min(conditions / possible, 1.0)))


def exception_bits(covered: int, uncovered: int, false_positives: int, false_negatives: int, share: float) -> float:
    """Return the bits that encode which rows a rule set classifies wrongly (Quinlan 1995).

    Errors are expected to be positives and negatives in the proportion ``share``, that of the positive rows. Of the
    covered and the uncovered rows, the errors of the more numerous ones are encoded with the resulting probability.
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
