"""The next shard map: its members are the live schedulers, their weights follow the load. Pure.

Weights are changed rarely and in small steps, because each change moves pods: only while one queue is much longer than
the average, not before an interval has passed, and within a factor of the weight that the operator gave.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from rota.scheduler.sharding.shard_map import DEFAULT_WEIGHT, Member, ShardMap, Together

#: Queues shorter than this are never a reason to move pods.
SHORT_QUEUE: Final = 200
#: A queue this many times the average is too long.
IMBALANCE: Final = 2.0
#: Time between two changes of weights.
REBALANCE_S: Final = 10.0
#: The factor of one change, and how far a weight may get from the operator's.
_STEP: Final = 0.8
_FURTHEST: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveScheduler:
    """A scheduler that renews its Lease."""

    name: str
    term: int = 0
    weight: int = DEFAULT_WEIGHT
    selector: Mapping[str, Any] | None = None
    #: Its waiting pods.
    queued: int = 0


def next_map(
    now: ShardMap, live: Iterable[LiveScheduler], *, together: Together = Together.OWNER, may_balance: bool = False
) -> ShardMap | None:
    """The map that follows; None if nothing changes."""
    schedulers = {one.name: one for one in sorted(live, key=lambda one: one.name)}
    former = {member.name: member for member in now.members}
    weights = _weights(former, schedulers, may_balance=may_balance)
    members = tuple(
        Member(name=name, weight=weights[name], selector=one.selector, term=one.term)
        for name, one in schedulers.items()
    )
    if members == now.members and together is now.together:
        return None
    return replace(now, epoch=now.epoch + 1, members=members, together=together)


def _weights(
    former: Mapping[str, Member], schedulers: Mapping[str, LiveScheduler], *, may_balance: bool
) -> dict[str, int]:
    found = {
        name: former[name].weight if name in former and _is_near(former[name].weight, one.weight) else one.weight
        for name, one in schedulers.items()
    }
    if not may_balance or len(schedulers) < 2:
        return found
    # Members with selectors have their own pods, and are left alone.
    shared = {name: one.queued for name, one in schedulers.items() if one.selector is None}
    if not shared:
        return found
    average = sum(shared.values()) / len(shared)
    for name, queued in shared.items():
        if queued > SHORT_QUEUE and queued > IMBALANCE * average:
            found[name] = max(round(found[name] * _STEP), round(schedulers[name].weight / _FURTHEST), 1)
        elif queued < average / IMBALANCE and found[name] < schedulers[name].weight:
            found[name] = min(round(found[name] / _STEP), schedulers[name].weight)
    return found


def _is_near(weight: int, wanted: int) -> bool:
    """Whether balancing can have made this weight from the operator's."""
    return wanted / _FURTHEST - 1 <= weight <= wanted
