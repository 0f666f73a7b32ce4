"""How large each ReplicaSet of a Deployment should be next. Pure.

While a rollout goes on, there are never more pods than `maxSurge` allows nor fewer available ones than `maxUnavailable`
does. When the Deployment itself grows or shrinks in the middle of it, all sets do in proportion. The formulas are
upstream's (`pkg/controller/deployment`, 1.36).
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rota.api import meta
from rota.api.meta import Object
from rota.controllers.deployments import revisions
from rota.controllers.deployments.revisions import Sets


def replicas(one: Object) -> int:
    """How many pods a Deployment or a set should have."""
    wanted = one["spec"].get("replicas")
    return 1 if wanted is None else int(wanted)


def available(one: Object) -> int:
    """How many pods of a set are available."""
    return int((one.get("status") or {}).get("availableReplicas") or 0)


def active(sets: Iterable[Object]) -> list[Object]:
    """The sets that should have pods."""
    return [one for one in sets if replicas(one) > 0]


def is_rolling(deployment: Object) -> bool:
    """Whether old pods go while new ones come."""
    return str((deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate")) == "RollingUpdate"


def surge(deployment: Object) -> int:
    """How many pods there may be beyond those that are wanted."""
    return _limits(deployment)[0] if is_rolling(deployment) else 0


def unavailable(deployment: Object) -> int:
    """How many of the wanted pods may be missing."""
    wanted = replicas(deployment)
    return min(_limits(deployment)[1], wanted) if is_rolling(deployment) and wanted else 0


def new_size(deployment: Object, sets: Sequence[Object], new: Object) -> int:
    """The size of the new set: as large as there is room for. `sets` are all, with the new one."""
    wanted, now = replicas(deployment), replicas(new)
    if not is_rolling(deployment) or now > wanted:
        return wanted
    room = wanted + surge(deployment) - sum(map(replicas, sets))
    return now + max(min(room, wanted - now), 0)


def smaller_old(deployment: Object, sets: Sets) -> dict[str, int]:
    """The sizes of old sets that get smaller: first by pods that are no good, then by what the new set makes up for."""
    new, old = sets.new, active(sets.old)
    if new is None or not old:
        return {}
    least = replicas(deployment) - unavailable(deployment)
    room = sum(map(replicas, sets.every)) - least - (replicas(new) - available(new))
    if room <= 0:
        return {}
    size = {meta.name(one): replicas(one) for one in old}
    for one in old:
        worthless = min(room, max(replicas(one) - available(one), 0))
        size[meta.name(one)] -= worthless
        room -= worthless
    spare = sum(map(available, (*old, new))) - least
    for one in old:
        dispensable = min(size[meta.name(one)], max(spare, 0))
        size[meta.name(one)] -= dispensable
        spare -= dispensable
    return {meta.name(one): size[meta.name(one)] for one in old if size[meta.name(one)] != replicas(one)}


def scaled(deployment: Object, sets: Sets) -> dict[str, int]:
    """The sizes of sets of a Deployment that was scaled, or that is paused, whether or not they are others than now."""
    wanted, living = replicas(deployment), active(sets.every)
    if len(living) <= 1:
        only = living[0] if living else sets.new or (sets.old[-1] if sets.old else None)
        return {} if only is None else {meta.name(only): wanted}
    if sets.new is not None and _is_saturated(deployment, sets.new):
        return {meta.name(one): 0 for one in active(sets.old)}
    return _in_proportion(deployment, living) if is_rolling(deployment) else {}


def is_scaling(deployment: Object, sets: Sets) -> bool:
    """Whether a Deployment's size has changed since its sets were sized."""
    for one in active(sets.every):
        desired = meta.annotations(one).get(revisions.DESIRED, "")
        if desired.isdecimal() and int(desired) != replicas(deployment):
            return True
    return False


def _is_saturated(deployment: Object, new: Object) -> bool:
    """Whether the new set has all the pods that are wanted, and knows that it should."""
    wanted = replicas(deployment)
    knows = meta.annotations(new).get(revisions.DESIRED) == str(wanted)
    return knows and replicas(new) == wanted == available(new)


def _in_proportion(deployment: Object, sets: Sequence[Object]) -> dict[str, int]:
    allowed = replicas(deployment) + surge(deployment) if replicas(deployment) else 0
    change = allowed - sum(map(replicas, sets))
    # The largest first; of equals, the newest grow and the oldest shrink.
    ordered = sorted(sets, key=revisions.age, reverse=change > 0)
    ordered.sort(key=replicas, reverse=True)
    size = {meta.name(one): replicas(one) for one in ordered}
    left = change
    for one in ordered:
        share = _share(deployment, one) if left else 0
        share = min(share, left) if change > 0 else max(share, left)
        size[meta.name(one)] += share
        left -= share
    largest = meta.name(ordered[0])
    size[largest] = max(size[largest] + left, 0)
    return size


def _share(deployment: Object, one: Object) -> int:
    """By how much a set changes if it keeps its part of the whole."""
    now = replicas(one)
    if replicas(deployment) == 0:
        return -now
    before = meta.annotations(one).get(revisions.MAXIMUM, "")
    whole = int(before) if before.isdecimal() else 0
    whole = whole or int((deployment.get("status") or {}).get("replicas") or 0)
    if whole == 0:
        return 0
    return _rounded(now * (replicas(deployment) + surge(deployment)) / whole) - now


def _limits(deployment: Object) -> tuple[int, int]:
    """`maxSurge` rounded up and `maxUnavailable` rounded down; not both are 0, or nothing would ever move."""
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    wanted = replicas(deployment)
    more = math.ceil(_portion(rolling.get("maxSurge", 0), wanted))
    fewer = math.floor(_portion(rolling.get("maxUnavailable", 0), wanted))
    return more, fewer if more or fewer else 1


def _portion(amount: Any, whole: int) -> float:
    return int(amount.removesuffix("%")) * whole / 100 if isinstance(amount, str) else amount


def _rounded(number: float) -> int:
    """Half a pod is a whole one."""
    return math.floor(number + 0.5)
