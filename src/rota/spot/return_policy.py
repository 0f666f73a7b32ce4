"""The return to spot machines after an evacuation: which workloads return, and when a pool is quiet again. Pure.

A workload returns only if it asks for spot machines: by the annotations of `policies`, or by a preferred node affinity
for a label that signals them. A pool (machines of one type in one zone) is quiet if none of its machines was reclaimed
or lost for a while, counted from the start of observation at the earliest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.spot import policies
from rota.spot.node_signals import Means, NodeSignals, Place
from rota.spot.policies import Policy, SpotPreference

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The operator's settings."""

    #: How long a pool must have been quiet; 0 turns the return off.
    stable_s: float = 600.0
    #: How long a pod stays on its node, at least.
    cooldown_s: float = 600.0
    #: How many pods return at once, and the interval between returns.
    most_at_once: int = 5
    every_s: float = 30.0
    #: The weight of the score of `rota.spot.scoring`, from 0 to 1, beside the scores of the scheduler's plugins, for
    #: workloads with annotations: as that of an extender of weight 5.
    weight: int = 500


USUAL: Final = Settings()


class Pools:
    """Since when each pool is quiet."""

    def __init__(self, *, since: float) -> None:
        self._since: Final = since
        self._stirred: Final[dict[str, float]] = {}

    def record_interruption(self, pool: str, *, now: float) -> None:
        """A machine of the pool was reclaimed or lost."""
        self._stirred[pool] = max(now, self._stirred.get(pool, now))

    def quiet_for(self, pool: str, *, now: float) -> float:
        """How long nothing has happened, as far as observed."""
        return now - max(self._since, self._stirred.get(pool, self._since))


def wants(pod: Document, policy: Policy, marks: NodeSignals) -> bool:
    """Whether a pod's workload asks for spot machines."""
    if policy.preference is SpotPreference.NEVER:
        return False
    said = pod["metadata"].get("annotations") or {}
    return says_so(said) or _prefers(pod, marks)


def says_so(annotations: Mapping[str, str]) -> bool:
    """Whether annotations ask for spot machines."""
    return any(key in annotations for key in (policies.WISH, policies.BASE, policies.MAX_SHARE))


def _prefers(pod: Document, marks: NodeSignals) -> bool:
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        for wanted in (term.get("preference") or {}).get("matchExpressions") or ():
            key, operator, values = wanted.get("key", ""), wanted.get("operator"), wanted.get("values") or ()
            if operator == "Exists" and any(mark.means is Means.SPOT for mark in marks.about(Place.LABEL, key)):
                return True
            if operator == "In" and any(
                mark.means is Means.SPOT for value in values for mark, _ in marks.find(Place.LABEL, {key: value})
            ):
                return True
    return False
