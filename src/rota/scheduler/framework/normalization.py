"""Normalisations that several plugins share."""

import numpy as np

from rota.columns.arrays import IntArray
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE


def highest(scores: IntArray) -> int:
    """The highest raw score, at least 0."""
    return int(scores.max(initial=0))


def by_highest(scores: IntArray, maximum: int, *, reverse: bool) -> IntArray:
    """Scale scores so that the highest becomes 100; reversed, the lowest raw score is the best."""
    if maximum == 0:
        return np.full(len(scores), MAX_SCORE, dtype=np.int64) if reverse else scores
    scaled = scores * MAX_SCORE // maximum
    return MAX_SCORE - scaled if reverse else scaled
