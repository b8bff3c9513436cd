"""`Domain`: the similarity to the training molecules above which predictions can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from molsepnorm.errors import ConfigError

_LEAST, _LEAST_SHARE = 10, 0.1  # molecules on either side of a threshold
_PERMUTATIONS = 999
_ALPHA = 0.05
_PERCENTILE = 5.0


@dataclass(frozen=True)
class Domain:
    """A threshold of the Tanimoto similarity to the most similar training molecule.

    Raises:
        ConfigError: the threshold is not between 0 and 1, or the kind is unknown.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - used when a model folder is read

    threshold: float
    """A molecule is in the domain if its similarity is the threshold or more."""
    kind: Literal["errors", "training"]
    """errors: validation errors below the threshold are larger than above. training: they do not
    depend on the similarity, and 5 % of the training molecules are less similar to the others."""

    def __post_init__(self) -> None:
        number = isinstance(self.threshold, int | float) and 0 <= self.threshold <= 1
        if not number or self.kind not in ("errors", "training"):
            raise ConfigError(
                "a domain has a threshold between 0 and 1 and the kind errors or training; got "
                f"{self.threshold!r:.40} and {self.kind!r:.40}"
            )

    @staticmethod
    def fit(
        similarity: np.ndarray, errors: np.ndarray, within: np.ndarray
    ) -> tuple[Domain, float | None]:
        """Return the threshold that separates large errors from small ones best.

        Each threshold between two similarities with at least 10 molecules and 10 % of them on
        either side is tried. The one with the largest standardised rank sum of the errors below it
        is chosen. A permutation test of this largest statistic accounts for the number of
        thresholds. Without a significant one at the 5 % level, the threshold is the 5th percentile
        of `within`.

        Args:
            similarity: [n], of molecules that were not trained on.
            errors: [n], their absolute errors or losses.
            within: [m], m ≥ 1: of training molecules to the most similar other one.

        Returns:
            The domain, and the p-value of the permutation test; None if there are too few molecules
            or similarities for a threshold.

        Source: Lausen and Schumacher, "Maximally selected rank statistics", Biometrics 1992, 48,
        73, here with permutations in place of the asymptotic distribution.
        """
        fallback = Domain(float(np.percentile(within, _PERCENTILE)), "training")
        order = np.argsort(similarity, kind="stable")
        ordered, count = similarity[order].astype(np.float64), len(similarity)
        least = max(_LEAST, math.ceil(_LEAST_SHARE * count))
        below = np.arange(least, count - least + 1)  # numbers of molecules below a threshold
        below = below[ordered[below - 1] < ordered[below]] if len(below) else below
        if not len(below):
            return fallback, None
        from scipy.stats import rankdata

        ranks = rankdata(errors[order]) - (count + 1) / 2
        rng = np.random.default_rng(0)
        shuffled = rng.permuted(np.tile(ranks, (_PERMUTATIONS, 1)), axis=1)
        sd = np.sqrt(below * (count - below) / (count - 1) * max(ranks.var(), 1e-12))

        def statistics(each: np.ndarray) -> np.ndarray:  # (…, n) -> (…, thresholds)
            return np.cumsum(each, axis=-1)[..., below - 1] / sd

        found = statistics(ranks)
        # rank sums that are equal but for rounding count as equal
        as_large = int((statistics(shuffled).max(axis=1) >= found.max() - 1e-9).sum())
        p_value = (1 + as_large) / (1 + _PERMUTATIONS)
        if p_value > _ALPHA:
            return fallback, p_value
        cut = below[found.argmax()]
        return Domain(float(ordered[cut - 1] + ordered[cut]) / 2, "errors"), p_value
