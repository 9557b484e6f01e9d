"""Repeated measurement until the mean is known well enough (Fagot and Chassin de Kergommeaux, section
5.1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist, fmean, median, stdev

#: The interval that holds the mean with a probability of 95% is no wider than this share of the mean.
WIDTH = 0.03
_LEAST, _MOST = 6, 40


def student(probability: float, freedom: int) -> float:
    """Quantile of Student's t distribution, to three digits from five degrees of freedom on: the expansion
    about the normal quantile (Abramowitz and Stegun, 26.7.5)."""
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom ** (k + 1) for k, term in enumerate(terms))


@dataclass(frozen=True)
class Mean:
    """A mean and half the width of the interval that holds it with a probability of 95%; runs:
    measurements."""

    value: float
    half: float
    runs: int

    @property
    def width(self) -> float:
        """The interval's width as a share of the mean."""
        return 2 * self.half / self.value


def mean_of(values: list[float]) -> Mean:
    """The mean of at least two measurements."""
    n = len(values)
    return Mean(fmean(values), student(0.975, n - 1) * stdev(values) / math.sqrt(n), n)


@dataclass(frozen=True)
class Pair:
    """Two means measured in turns, and that of the ratio of each turn's second to its first, less 1. medians:
    the second's median over the first's, less 1; what disturbs a few runs does not touch it."""

    first: Mean
    second: Mean
    ratio: Mean
    medians: float

    @property
    def overhead(self) -> float:
        """The second mean over the first, less 1: the paper's overhead."""
        return self.second.value / self.first.value - 1

    @property
    def span(self) -> tuple[float, float]:
        """The least and the most that the overhead is if both means lie in their intervals."""
        least = (self.second.value - self.second.half) / (self.first.value + self.first.half)
        most = (self.second.value + self.second.half) / (self.first.value - self.first.half)
        return least - 1, most - 1


def in_turns(
    first: Callable[[], float], second: Callable[[], float], width: float = WIDTH, most: int = _MOST
) -> Pair:
    """Measure both in turns, in changing order, until both means are known to `width`, at most `most`
    times."""
    values: tuple[list[float], list[float]] = ([], [])
    while True:
        for which in (0, 1) if len(values[0]) % 2 else (1, 0):
            values[which].append((first, second)[which]())
        if len(values[0]) < _LEAST:
            continue
        means = mean_of(values[0]), mean_of(values[1])
        if len(values[0]) >= most or max(mean.width for mean in means) <= width:
            ratios = [b / a for a, b in zip(*values, strict=True)]
            ratio = mean_of(ratios)
            medians = median(values[1]) / median(values[0]) - 1
            return Pair(*means, Mean(ratio.value - 1, ratio.half, ratio.runs), medians)
