"""What a deletion does to an object: removes it, marks it, or nothing. Pure.

Mirrors `k8s.io/apiserver/pkg/registry/rest/delete.go` and the rules of pods and namespaces:

* an object with finalizers is marked (`deletionTimestamp`) and removed with its last finalizer;
* a pod on a node is marked with its grace period and removed when its worker confirms with a grace of zero;
* a namespace is marked and terminates; it is removed once its content is gone (`spec.finalizers`);
* the propagation policy becomes a finalizer for the garbage collector.
"""

import enum
from dataclasses import dataclass
from typing import Final

from rota.api import errors, fields, times
from rota.api.identifiers import GroupKind, GroupResource
from rota.apiserver.interfaces import Attributes, DeleteOptions, Object

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_PODS: Final = GroupResource("", "pods")
#: Kinds that are older than garbage collection and keep the defaults of that time.
_ORPHAN_BY_DEFAULT: Final = frozenset({GroupResource("batch", "jobs"), GroupResource("", "replicationcontrollers")})
_NAMESPACES: Final = GroupResource("", "namespaces")
_POLICIES: Final = ("Foreground", "Background", "Orphan")
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_OPTIONS: Final = GroupKind("meta.k8s.io", "DeleteOptions")


class Step(enum.Enum):
    """What to do next."""

    REMOVE = enum.auto()
    #: Write the planned object.
    MARK = enum.auto()
    #: A deletion is under way already, and this one changes nothing.
    NOTHING = enum.auto()


@dataclass(frozen=True, slots=True)
class Plan:
    """A step, and the object as it is after it."""

    step: Step
    object: Object


def check_options(options: DeleteOptions) -> None:
    """Refuse conflicting options."""
    wrong = []
    if options.propagation_policy is not None and options.propagation_policy not in _POLICIES:
        path = fields.Path("propagationPolicy")
        wrong.append(fields.not_supported(path, options.propagation_policy, [*_POLICIES, "nil"]))
    if wrong:
        raise errors.invalid(_OPTIONS, "", wrong)


def check_preconditions(obj: Object, options: DeleteOptions, at: Attributes) -> None:
    """Refuse to delete another object than the client has seen."""
    metadata = obj["metadata"]
    for what, expected, actual, perhaps in (
        ("UID", options.precondition_uid, metadata["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.precondition_resource_version, metadata["resourceVersion"], "modified"),
    ):
        if expected is None or expected == actual:
            continue
        if at.resource.group_resource == _NAMESPACES:  # upstream deletes these in its own way, with other messages
            why = f"Precondition failed: {what} in precondition: {expected}, {what} in object meta: {actual}"
            raise errors.conflict(_NAMESPACES, metadata["name"], why)
        why = (
            f"the {what} in the precondition ({expected}) does not match the {what} in record ({actual}). "
            f"The object might have been {perhaps}"
        )
        # upstream names the kind here, and the resource elsewhere
        named = GroupResource(at.resource.group, at.resource.kind)
        raise errors.conflict(named, metadata["name"], why)


def plan(obj: Object, options: DeleteOptions, at: Attributes) -> Plan:
    """The step for a deletion; `obj` may be changed."""
    if at.resource.group_resource == _NAMESPACES:
        return _plan_namespace(obj, options, at)
    if at.resource.plural == "events":
        return Plan(Step.REMOVE, obj)  # a mirror pod is only a report and needs no grace
    metadata = obj["metadata"]
    marked = metadata.get("deletionTimestamp")
    if at.resource.group_resource == _PODS:
        if marked and metadata.get("deletionGracePeriodSeconds") is not None:
            step = _shorten(obj, options)
            if step is not None:
                return Plan(step, obj)
        else:
            _mark(obj, at.now, grace=_pod_grace(obj, options))
            marked = None
    if not marked or at.resource.group_resource != _PODS:
        metadata["finalizers"] = _with_policy(metadata.get("finalizers") or [], options, at)
    if metadata.get("finalizers"):
        if not metadata.get("deletionTimestamp"):
            _mark(obj, at.now, grace=0)
        return Plan(Step.MARK, obj)
    metadata.pop("finalizers", None)
    step = Step.MARK if metadata.get("deletionGracePeriodSeconds") else Step.REMOVE
    return Plan(step, obj)


def is_finished(new: Object, old: Object, at: Attributes) -> bool:
    """Whether an update removed the last finalizer or grace of a deleted object."""
    metadata, before = new["metadata"], old["metadata"]
    if metadata.get("finalizers") or not before.get("deletionTimestamp"):
        return False
    if at.resource.group_resource == _NAMESPACES:
        return not (new.get("spec") or {}).get("finalizers")
    grace: int | None = before.get("deletionGracePeriodSeconds")
    return grace == 0


def _plan_namespace(obj: Object, options: DeleteOptions, at: Attributes) -> Plan:
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp"):
        _mark(obj, at.now, grace=None)
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        finalizers = _with_policy(metadata.get("finalizers") or [], options, at)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        kept = finalizers or (obj.get("spec") or {}).get("finalizers")
        return Plan(Step.MARK if kept else Step.REMOVE, obj)
    if metadata.get("finalizers") or (obj.get("spec") or {}).get("finalizers"):
        return Plan(Step.NOTHING, obj)
    return Plan(Step.REMOVE, obj)


def _pod_grace(pod: Object, options: DeleteOptions) -> int:
    """The requested grace, or the pod's own; a pod without a node needs none."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in _FINISHED:
        return 0
    period = options.grace_period_seconds
    if period is None:
        period = spec.get("terminationGracePeriodSeconds") or 0
    return period if period >= 0 else 1


def _shorten(pod: Object, options: DeleteOptions) -> Step | None:
    """A deletion under way can only be shortened; None if its time is over."""
    metadata = pod["metadata"]
    current, wanted = metadata["deletionGracePeriodSeconds"], options.grace_period_seconds
    if wanted is None or (wanted >= current and current > 0) or (current == 0 and metadata.get("finalizers")):
        return Step.NOTHING
    period = max(wanted, 1) if wanted < 0 else wanted
    begun = times.parse(metadata["deletionTimestamp"]) - current
    metadata["deletionTimestamp"] = times.format_time(begun + period)
    metadata["deletionGracePeriodSeconds"] = period
    return Step.MARK if period or metadata.get("finalizers") else None


def _mark(obj: Object, now: float, *, grace: int | None) -> None:
    metadata = obj["metadata"]
    metadata["deletionTimestamp"] = times.format_time(now + (grace or 0))
    if grace is not None:
        metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1


def _with_policy(finalizers: list[str], options: DeleteOptions, at: Attributes) -> list[str]:
    """The finalizers with that of the policy; without a policy, an existing one stays."""
    policy = options.propagation_policy
    if policy is None:
        if at.resource.group_resource not in _ORPHAN_BY_DEFAULT or {ORPHAN, FOREGROUND} & {*finalizers}:
            return finalizers
        policy = "Orphan"
    kept = [name for name in finalizers if name not in {ORPHAN, FOREGROUND}]
    wanted = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    return kept + wanted
