"""Eviction: a deletion that respects disruption budgets.

The checks are in upstream's order (`pkg/registry/core/pod/storage/eviction.go`, 1.33). The budget is charged in the
transaction that deletes the pod, so no budget is ever charged without a deletion, nor exceeded by two evictions at
once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rota.api import errors, gotext, times
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, DeleteOptions, Object, Registry, Reply, Stored, SubresourceRequest
from rota.apiserver.registry import deletion
from rota.apiserver.strategies import checks
from rota.apiserver.subresources.binder import PODS
from rota.apiserver.subresources.bindings import SUCCESS
from rota.store.store_interface import Committed, Delete, Precondition, Put, Transaction

BUDGETS: Final = GroupResource("policy", "poddisruptionbudgets")
_BUDGET: Final = GroupResource("policy", "poddisruptionbudget")
_POD: Final = GroupResource("", "Pod")
_TRIES: Final = 20
_MOST_DISRUPTED: Final = 2000
_RETRY_S: Final = 10
_VIOLATES: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_TWO_BUDGETS: Final = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_CAUSE: Final = "DisruptionBudget"


@dataclass(frozen=True, slots=True)
class _Step:
    """The action of an eviction, and the budget that it is charged to."""

    pod: Stored
    budget: Stored | None = None
    charged: Object | None = None


class Eviction:
    """POST of `pods/<name>/eviction`."""

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """Success, or why not now."""
        body, at = request.body, request.at
        assert body is not None, "evictions are posted"
        if (body.get("metadata") or {}).get("name") != at.name:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        given = body.get("deleteOptions") or {}
        at = replace(at, dry_run=_dry_run(at, given))
        options = _options(given)
        budget = ""
        for _ in range(_TRIES):
            step = await _decide(at, options, registry)
            budget = step.budget.object["metadata"]["name"] if step.budget is not None else ""
            if await _carry_out(at, options, step, registry):
                return Reply(object=dict(SUCCESS), code=201)
        if budget:
            why = f"couldn't update PodDisruptionBudget {gotext.quote(budget)} due to conflicts"
            raise errors.timeout(why, retry_after_seconds=_RETRY_S)
        raise errors.conflict(PODS, at.name)


async def _decide(at: Attributes, options: DeleteOptions, registry: Registry) -> _Step:
    pod = await registry.read(registry.resource(PODS), at.namespace, at.name)
    _check_preconditions(pod.object, options)
    if _needs_no_budget(pod.object):
        return _Step(pod)
    budgets = [
        one
        for one in await registry.list(registry.resource(BUDGETS), at.namespace)
        if checks.selects((one.object.get("spec") or {}).get("selector"), pod.object["metadata"].get("labels"))
    ]
    if len(budgets) > 1:
        raise errors.ApiError(_TWO_BUDGETS, code=500)
    if not budgets:
        return _Step(pod)
    (budget,) = budgets
    if not _is_ready(pod.object) and _lets_unhealthy_go(budget.object):
        return _Step(pod)
    return _Step(pod, budget, _charge(budget.object, at))


async def _carry_out(at: Attributes, options: DeleteOptions, step: _Step, registry: Registry) -> bool:
    """Delete the pod and charge the budget together; False if one of them has changed meanwhile."""
    doomed = {**step.pod.object, "status": _targeted(step.pod.object.get("status") or {}, at.now)}
    deleting = replace(at, resource=registry.resource(PODS), subresource="", verb="delete")
    plan = deletion.plan({**doomed, "metadata": dict(doomed["metadata"])}, options, deleting)
    writes: list[Put | Delete] = []
    if plan.step is deletion.Step.REMOVE:
        writes.append(Delete(step.pod.key))
    elif plan.step is deletion.Step.MARK:
        writes.append(Put(step.pod.key, registry.encode(plan.object)))
    guards = [Precondition(step.pod.key, revision=step.pod.revision)]
    if step.budget is not None and step.charged is not None:
        writes.append(Put(step.budget.key, registry.encode(step.charged)))
        guards.append(Precondition(step.budget.key, revision=step.budget.revision))
    if not writes:
        return True
    return isinstance(await registry.commit(at, Transaction(tuple(writes), tuple(guards))), Committed)


def _needs_no_budget(pod: Object) -> bool:
    """Evicting a pod that does not run, or is terminating, is no disruption."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in {"Pending", "Succeeded", "Failed"} or bool(pod["metadata"].get("deletionTimestamp"))


def _lets_unhealthy_go(budget: Object) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return bool(desired > 0 and healthy >= desired)


def _charge(budget: Object, at: Attributes) -> Object:
    """The budget with one disruption less; TooManyRequests if it allows none."""
    metadata, status = budget["metadata"], dict(budget.get("status") or {})
    name, allowed = metadata["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise _not_now(message, retry_after_seconds=_RETRY_S)
    if allowed < 0:
        raise errors.forbidden(_BUDGET, name, "pdb disruptions allowed is negative")
    disrupted = status.get("disruptedPods") or {}
    if len(disrupted) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise errors.forbidden(_BUDGET, name, why)
    if allowed == 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        message = f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
        raise _not_now(message, retry_after_seconds=0)
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**disrupted, at.name: times.format_time(at.now)}
    if allowed == 1:
        status["conditions"] = _exhausted(status.get("conditions") or [], budget, at.now)
    return {**budget, "status": status}


def _not_now(message: str, *, retry_after_seconds: int) -> errors.TooManyRequests:
    cause = errors.Cause(type=_CAUSE, message=message)
    return errors.too_many_requests(_VIOLATES, retry_after_seconds=retry_after_seconds, causes=(cause,))


def _exhausted(conditions: Sequence[Object], budget: Object, now: float) -> list[Object]:
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": (budget.get("status") or {}).get("observedGeneration", 0),
        "lastTransitionTime": times.format_time(now),
    }
    return [*(one for one in conditions if one.get("type") != "DisruptionAllowed"), condition]


def _targeted(status: Object, now: float) -> Object:
    """The status of a pod that is being evicted, so that its owner does not count this as a failure."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": times.format_time(now),
    }
    kept = [one for one in status.get("conditions") or () if one.get("type") != "DisruptionTarget"]
    return {**status, "conditions": [*kept, condition]}


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _dry_run(at: Attributes, given: Object) -> bool:
    dry_run = given.get("dryRun") or []
    if at.dry_run and dry_run and dry_run != ["All"]:
        raise errors.internal_error(f"Non-matching dry-run options in request and content: [All] and {dry_run}")
    return at.dry_run or dry_run == ["All"]


def _options(given: Object) -> DeleteOptions:
    preconditions: dict[str, Any] = given.get("preconditions") or {}
    return DeleteOptions(
        grace_period_seconds=given.get("gracePeriodSeconds"),
        propagation_policy=given.get("propagationPolicy"),
        precondition_uid=preconditions.get("uid"),
        precondition_resource_version=preconditions.get("resourceVersion"),
    )


def _check_preconditions(pod: Object, options: DeleteOptions) -> None:
    metadata = pod["metadata"]
    for what, expected, actual, perhaps in (
        ("UID", options.precondition_uid, metadata["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.precondition_resource_version, metadata["resourceVersion"], "modified"),
    ):
        if expected and expected != actual:
            why = (
                f"the {what} in the precondition ({expected}) does not match the {what} in record ({actual}). "
                f"The object might have been {perhaps}"
            )
            raise errors.conflict(_POD, metadata["name"], why)
