"""The next size of each ReplicaSet of a Deployment. Pure.

During a rollout there are never more pods than `maxSurge` allows and never fewer available ones than `maxUnavailable`
allows. If the Deployment is scaled during a rollout, all sets are scaled in proportion. The formulas are upstream's
(`pkg/controller/deployment`, 1.36).
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rota.api import meta
from rota.api.meta import Object
from rota.controllers.deployments import revisions
from rota.controllers.deployments.revisions import Sets


def replicas(one: Object) -> int:
    """The desired number of pods of a Deployment or set."""
    wanted = one["spec"].get("replicas")
    return 1 if wanted is None else int(wanted)


def available(one: Object) -> int:
    """The number of available pods of a set."""
    return int((one.get("status") or {}).get("availableReplicas") or 0)


def active(sets: Iterable[Object]) -> list[Object]:
    """The sets with a size above 0."""
    return [one for one in sets if replicas(one) > 0]


def is_rolling(deployment: Object) -> bool:
    """Whether the strategy is RollingUpdate."""
    return str((deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate")) == "RollingUpdate"


def surge(deployment: Object) -> int:
    """Pods that may exist above the desired number."""
    return _limits(deployment)[0] if is_rolling(deployment) else 0


def unavailable(deployment: Object) -> int:
    """Pods of the desired number that may be unavailable."""
    wanted = replicas(deployment)
    return min(_limits(deployment)[1], wanted) if is_rolling(deployment) and wanted else 0


def new_size(deployment: Object, sets: Sequence[Object], new: Object) -> int:
    """The new set's size: as large as `maxSurge` allows. `sets` are all sets, including the new one."""
    wanted, now = replicas(deployment), replicas(new)
    if not is_rolling(deployment) or now > wanted:
        return wanted
    room = wanted + surge(deployment) - sum(map(replicas, sets))
    return now + max(min(room, wanted - now), 0)


def smaller_old(deployment: Object, sets: Sets) -> dict[str, int]:
    """The sizes of old sets that are scaled down: first by unhealthy pods, then by what the new set provides."""
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
    """The sizes of all sets of a Deployment that was scaled or is paused, changed or not."""
    wanted, living = replicas(deployment), active(sets.every)
    if len(living) <= 1:
        only = living[0] if living else sets.new or (sets.old[-1] if sets.old else None)
        return {} if only is None else {meta.name(only): wanted}
    if sets.new is not None and _is_saturated(deployment, sets.new):
        return {meta.name(one): 0 for one in active(sets.old)}
    return _in_proportion(deployment, living) if is_rolling(deployment) else {}


def is_scaling(deployment: Object, sets: Sets) -> bool:
    """Whether a Deployment's size has changed since its sets were scaled."""
    for one in active(sets.every):
        desired = meta.annotations(one).get(revisions.DESIRED, "")
        if desired.isdecimal() and int(desired) != replicas(deployment):
            return True
    return False


def _is_saturated(deployment: Object, new: Object) -> bool:
    """Whether the new set has all desired pods and records the Deployment's size."""
    wanted = replicas(deployment)
    knows = meta.annotations(new).get(revisions.DESIRED) == str(wanted)
    return knows and replicas(new) == wanted == available(new)


def _in_proportion(deployment: Object, sets: Sequence[Object]) -> dict[str, int]:
    allowed = replicas(deployment) + surge(deployment) if replicas(deployment) else 0
    change = allowed - sum(map(replicas, sets))
    # Largest first; of equal sets, the newest first when growing and the oldest first when shrinking.
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
    """The change of a set that keeps its proportion."""
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
    """`maxSurge` rounded up and `maxUnavailable` rounded down; never both 0, which would block the rollout."""
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    wanted = replicas(deployment)
    more = math.ceil(_portion(rolling.get("maxSurge", 0), wanted))
    fewer = math.floor(_portion(rolling.get("maxUnavailable", 0), wanted))
    return more, fewer if more or fewer else 1


def _portion(amount: Any, whole: int) -> float:
    return int(amount.removesuffix("%")) * whole / 100 if isinstance(amount, str) else amount


def _rounded(number: float) -> int:
    """Rounded half up."""
    return math.floor(number + 0.5)
