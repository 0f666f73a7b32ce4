"""What a workload allows of spot machines, by annotations of its pods, and what follows for its next pod.

    rota.dev/spot: prefer | only | never
    rota.dev/spot-base: "3"              # this many pods on on-demand machines, before any goes to spot
    rota.dev/spot-max-share: "70"        # of those beyond the base at most this percentage on spot
    rota.dev/spot-at-deadline: delete | strict

The base and the share count the pods of one owner. The last annotation says whether a pod is deleted at the deadline
although a budget refuses its eviction (`delete`), or not (`strict`). Contradictory annotations are rejected as a whole.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from rota.spot.node_readings import Capacity

WISH: Final = "rota.dev/spot"
BASE: Final = "rota.dev/spot-base"
MAX_SHARE: Final = "rota.dev/spot-max-share"
AT_DEADLINE: Final = "rota.dev/spot-at-deadline"
_ALL: Final = 100
_Choice = TypeVar("_Choice", bound=enum.Enum)


class PolicyError(ValueError):
    """The annotations are wrong or contradict each other; the message names them."""


class SpotPreference(enum.Enum):
    """Where a workload prefers to run."""

    PREFER = "prefer"
    ONLY = "only"
    NEVER = "never"


class AtDeadline(enum.Enum):
    """What happens to a pod that a budget still protects at the deadline of its machine."""

    DELETE = "delete"
    STRICT = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The policy of one workload."""

    preference: SpotPreference = SpotPreference.PREFER
    base: int = 0
    max_share: int = _ALL
    at_deadline: AtDeadline = AtDeadline.DELETE

    @property
    def counts(self) -> bool:
        """Whether the answer depends on the owner's other pods."""
        return self.preference is SpotPreference.PREFER and (self.base > 0 or self.max_share < _ALL)


@dataclass(frozen=True, slots=True)
class Spread:
    """Where an owner's pods are, without those that end and the one in question."""

    spot: int = 0
    staying: int = 0


PREFER: Final = Policy()


def parse(annotations: Mapping[str, str]) -> Policy:
    """The policy in a pod's annotations; PolicyError if they are invalid."""
    if not annotations or not any(key in annotations for key in (WISH, BASE, MAX_SHARE, AT_DEADLINE)):
        return PREFER
    policy = Policy(
        preference=_one_of(annotations, WISH, SpotPreference, SpotPreference.PREFER),
        base=_number(annotations, BASE, 0, most=None),
        max_share=_number(annotations, MAX_SHARE, _ALL, most=_ALL),
        at_deadline=_one_of(annotations, AT_DEADLINE, AtDeadline, AtDeadline.DELETE),
    )
    if policy.preference is SpotPreference.ONLY and (policy.base or policy.max_share < _ALL):
        raise PolicyError(f"{WISH}: only leaves no pod for {BASE} or {MAX_SHARE}; remove one of them")
    if policy.preference is SpotPreference.NEVER and annotations.get(MAX_SHARE, "0").strip(" %") != "0":
        raise PolicyError(f"{WISH}: never contradicts {MAX_SHARE}: {annotations[MAX_SHARE]}; remove one of them")
    return policy


def refusal(policy: Policy, spread: Spread, capacity: Capacity) -> str:
    """Why the next pod of an owner must not go to a machine of this capacity type; empty if it may."""
    if policy.preference is SpotPreference.ONLY:
        return "" if capacity.leaves else f"the workload runs on spot machines only ({WISH})"
    if not capacity.leaves:
        return ""
    if policy.preference is SpotPreference.NEVER:
        return f"the workload never runs on spot machines ({WISH})"
    if spread.staying < policy.base:
        return f"{spread.staying} of a base of {policy.base} pods on machines that stay ({BASE})"
    beyond = spread.spot + 1 + spread.staying - policy.base
    if (spread.spot + 1) * _ALL > policy.max_share * beyond:
        return f"at most {policy.max_share} % of the pods beyond the base run on spot machines ({MAX_SHARE})"
    return ""


def allowed(policy: Policy, pods: int) -> float:
    """The share of this many pods that may be on spot machines, from 0 to 1."""
    if policy.preference is SpotPreference.NEVER or not pods:
        return 0.0
    return max(0, pods - policy.base) * policy.max_share // _ALL / pods


def _one_of(annotations: Mapping[str, str], key: str, choices: type[_Choice], default: _Choice) -> _Choice:
    text = annotations.get(key)
    if text is None:
        return default
    try:
        return choices(text.strip().lower())
    except ValueError:
        known = ", ".join(str(one.value) for one in choices)
        raise PolicyError(f"{key}: {text!r} is none of {known}") from None


def _number(annotations: Mapping[str, str], key: str, default: int, *, most: int | None) -> int:
    text = annotations.get(key)
    if text is None:
        return default
    bare = text.strip().removesuffix("%").strip()
    if not (bare.isascii() and bare.isdigit()) or len(bare) > 9 or (most is not None and int(bare) > most):
        limit = f" from 0 to {most}" if most is not None else ""
        raise PolicyError(f"{key}: {text!r} is no whole number{limit}")
    return int(bare)
