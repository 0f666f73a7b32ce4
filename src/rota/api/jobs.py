"""Rota's annotation of Jobs: the delay before a failed pod is replaced. Stock controllers ignore it."""

import math
from typing import Final

from rota.api import meta
from rota.api.meta import Object

#: Seconds before the first pod after a failure; each further failure doubles the delay.
RETRY_DELAY_ANNOTATION: Final = "rota.dev/retry-delay-seconds"
#: Upstream's delay, for Jobs without the annotation.
USUAL_RETRY_DELAY_S: Final = 10.0
LONGEST_RETRY_DELAY_S: Final = 600.0


def first_retry_delay_s(job: Object) -> float:
    """How long the first pod after a failure waits; what is no number of seconds counts as not said."""
    try:
        found = float(meta.annotations(job).get(RETRY_DELAY_ANNOTATION) or USUAL_RETRY_DELAY_S)
    except ValueError:
        return USUAL_RETRY_DELAY_S
    return min(found, LONGEST_RETRY_DELAY_S) if math.isfinite(found) and found >= 0 else USUAL_RETRY_DELAY_S
