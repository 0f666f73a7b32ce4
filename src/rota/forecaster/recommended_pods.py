"""The resources that a pod should have, by the recommendation in the status of its autoscaler. Pure.

The rules are VPA's. `controlledValues: RequestsAndLimits` (the default) keeps the ratio of limit to request;
`RequestsOnly` leaves limits, and a request stays at most its limit. Amounts are kept within the bounds of the resource
policy and of the namespace's LimitRanges, so that a changed pod is admitted where the original one was. If a limit of
whole pods would still be exceeded, nothing changes. Batch pods and pods with requests as a whole are left as they are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, pod_owners, quantities, reclaimed, resources
from rota.api.resources import CPU

Object = Mapping[str, Any]

OFF: Final = "Off"
INITIAL: Final = "Initial"
IN_PLACE: Final = "InPlaceOrRecreate"
#: `Auto` is an older name of `Recreate`, which is the default.
RECREATE: Final = frozenset({"Recreate", "Auto"})
_ALL: Final = "*"
_REQUESTS_ONLY: Final = "RequestsOnly"
#: The ratio 1, in the unit of ratios.
_ONE: Final = 10**9


@dataclass(frozen=True, slots=True)
class Amount:
    """What one container should have of one resource."""

    request: int
    limit: int | None


#: By container and resource.
Wanted = dict[str, dict[str, Amount]]


def mode(autoscaler: Object) -> str:
    """The update mode of an autoscaler."""
    return ((autoscaler.get("spec") or {}).get("updatePolicy") or {}).get("updateMode") or "Recreate"


def of(autoscalers: Iterable[Object], pod: Object) -> Object | None:
    """The autoscaler of a pod that is to be created; of several, the oldest one, as in VPA."""
    found = [each for each in autoscalers if names(each, pod)]
    key = lambda each: (meta.metadata(each).get("creationTimestamp") or "", meta.name(each))  # noqa: E731
    return min(found, key=key, default=None)


def names(autoscaler: Object, pod: Object) -> bool:
    """Whether an autoscaler names the workload of a pod; the pod of a review has no namespace of its own."""
    target = (autoscaler.get("spec") or {}).get("targetRef") or {}
    return (target.get("kind"), target.get("name")) in pod_owners.workloads(pod)


def policy_of(autoscaler: Object, container: str) -> Object:
    """The policy for a container: its own, or that of all."""
    given = ((autoscaler.get("spec") or {}).get("resourcePolicy") or {}).get("containerPolicies") or ()
    policies = {each.get("containerName", _ALL): each for each in given}
    found: Object = policies.get(container, policies.get(_ALL, {}))
    return found


def capped(resource: str, amount: float, policy: Object) -> float:
    """An amount within the bounds of a policy."""
    least, most = ((policy.get(bound) or {}).get(resource) for bound in ("minAllowed", "maxAllowed"))
    if most is not None:
        amount = min(amount, float(resources.amount(resource, most)))
    return amount if least is None else max(amount, float(resources.amount(resource, least)))


def recommendations(autoscaler: Object, bound: str = "target") -> dict[str, dict[str, int]]:
    """The recommended amounts by container and resource, where the policy has not turned that off."""
    given = ((autoscaler.get("status") or {}).get("recommendation") or {}).get("containerRecommendations") or ()
    found = {}
    for each in given:
        policy = policy_of(autoscaler, each["containerName"])
        if policy.get("mode") == OFF:
            continue
        controlled = policy.get("controlledResources")
        found[each["containerName"]] = {
            resource: int(capped(resource, resources.amount(resource, quantity), policy))
            for resource, quantity in (each.get(bound) or {}).items()
            if controlled is None or resource in controlled
        }
    return found


def wanted(autoscaler: Object, pod: Object, ranges: Iterable[Object] = ()) -> Wanted:
    """What differs from the present resources of a pod; `ranges` are the LimitRanges of its namespace."""
    spec = pod.get("spec") or {}
    if reclaimed.is_batch(pod) or resources.has_pod_level_requests(pod):
        return {}
    targets = recommendations(autoscaler)
    limits = [limit for each in ranges for limit in (each.get("spec") or {}).get("limits") or ()]
    of_containers = [limit for limit in limits if limit.get("type") == "Container"]
    found: Wanted = {}
    for container in spec.get("containers") or ():
        policy = policy_of(autoscaler, container["name"])
        for resource, target in targets.get(container["name"], {}).items():
            amount = _amount(container, resource, target, policy, of_containers)
            if amount != present(container, resource):
                found.setdefault(container["name"], {})[resource] = amount
    of_pods = [limit for limit in limits if limit.get("type") == "Pod"]
    return {} if found and _exceeds(pod, found, of_pods) else found


def present(container: Object, resource: str) -> Amount:
    """What a container has now; without a request it requests its limit."""
    given = container.get("resources") or {}
    request, limit = ((given.get(side) or {}).get(resource) for side in ("requests", "limits"))
    ceiling = None if limit is None else resources.amount(resource, limit)
    return Amount((ceiling or 0) if request is None else resources.amount(resource, request), ceiling)


def changed_containers(pod: Object, changes: Wanted) -> Iterator[tuple[int, dict[str, Any]]]:
    """The positions of the containers that change, and their new `resources`."""
    for position, container in enumerate((pod.get("spec") or {}).get("containers") or ()):
        amounts = changes.get(container["name"])
        if not amounts:
            continue
        given = container.get("resources") or {}
        sides = {side: dict(given.get(side) or {}) for side in ("requests", "limits")}
        for resource, amount in amounts.items():
            sides["requests"][resource] = _written(resource, amount.request)
            if amount.limit is not None:
                sides["limits"][resource] = _written(resource, amount.limit)
        yield position, {**given, **{side: values for side, values in sides.items() if values}}


def _amount(container: Object, resource: str, target: int, policy: Object, limits: Sequence[Object]) -> Amount:
    now = present(container, resource)
    scales = policy.get("controlledValues") != _REQUESTS_ONLY
    request, limit = target, now.limit
    if limit is not None and scales:
        limit = target if now.request in (0, limit) else -(-limit * target // now.request)
    elif limit is not None:
        request = min(request, limit)
    least = max((_bound(each, "min", resource, 0) for each in limits), default=0)
    request = max(request, least)
    if limit is not None and scales:
        limit = max(limit, request)
    for each in limits:
        most = _bound(each, "max", resource, None)
        if most is None:
            continue
        if limit is not None and limit > most and scales:
            # The ratio stays: LimitRanges may bound it too.
            request, limit = max(request * most // limit, least), most
        request = min(request, most)
    for each in limits:
        ratio = _ratio(each, resource)
        if not ratio or limit is None or limit * _ONE <= request * ratio:
            continue
        if scales:
            limit = max(request * ratio // _ONE, request)
        else:
            request = -(-limit * _ONE // ratio)
    return Amount(request, limit)


def _exceeds(pod: Object, changes: Wanted, limits: Sequence[Object]) -> bool:
    """Whether the changed pod exceeds a limit of whole pods."""

    def amounts(resource: str) -> list[Amount]:
        return [
            changes.get(container["name"], {}).get(resource) or present(container, resource)
            for container in (pod.get("spec") or {}).get("containers") or ()
        ]

    for each in limits:
        for side, pick in (("max", max), ("min", min)):
            for resource, quantity in (each.get(side) or {}).items():
                total = sum(
                    amount.request if amount.limit is None or side == "min" else amount.limit
                    for amount in amounts(resource)
                )
                bound = resources.amount(resource, quantity)
                if pick(total, bound) != bound:
                    return True
        for resource in each.get("maxLimitRequestRatio") or ():
            requested = sum(amount.request for amount in amounts(resource))
            limited = sum(amount.limit or 0 for amount in amounts(resource))
            if limited * _ONE > requested * _ratio(each, resource):
                return True
    return False


def _ratio(limit: Object, resource: str) -> int:
    """The greatest ratio of limit to request, in parts of a billion; 0 if it has no bound."""
    return quantities.from_wire((limit.get("maxLimitRequestRatio") or {}).get(resource)).nanos


def _bound(limit: Object, side: str, resource: str, missing: Any) -> Any:
    quantity = (limit.get(side) or {}).get(resource)
    return missing if quantity is None else resources.amount(resource, quantity)


def _written(resource: str, amount: int) -> str:
    return f"{amount}m" if resource == CPU else str(amount)
