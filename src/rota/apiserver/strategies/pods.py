"""The strategy of pods: initial state, allowed changes, and fields that only the worker writes.

A pod gets its node at creation or through `pods/binding`, never by an update. A finished pod stays finished: its
resources may have been given to another.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rota.api import fields, gpu_devices, names, times
from rota.api.patches import json_values
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks, metadata, pod_containers, pod_defaults, pod_placement, pod_specs
from rota.apiserver.strategies.generic import GenericStrategy

_SPEC: Final = fields.Path("spec")
_STATUS: Final = fields.Path("status")
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_CHANGEABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_COMPUTE: Final = ("cpu", "memory")
_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"


class PodStrategy(GenericStrategy):
    """Pods."""

    counts_generations = True
    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """As upstream."""
        pod_defaults.default_pod(obj)

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """A new pod is Pending."""
        super().prepare_create(obj, at)
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            blocked = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": _GATED}
            obj["status"]["conditions"] = [{**blocked, "lastTransitionTime": times.format_time(at.now)}]
        if messages := names.check_dns1123_label(obj["metadata"].get("name", "")):
            at.warn(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
                f"a DNS label is recommended: [{' '.join(messages)}]"
            )

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """The status keeps the QoS class of the creation; a worker does not change owners."""
        super().prepare_update(new, old, at)
        if at.subresource == "status":
            status, before = new.setdefault("status", {}), old.get("status") or {}
            if not status.get("qosClass") and before.get("qosClass"):
                status["qosClass"] = before["qosClass"]
            _agree_on_addresses(status)
            if "ownerReferences" in old["metadata"]:
                new["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
            else:
                new["metadata"].pop("ownerReferences", None)

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The whole pod."""
        found = super().validate_create(obj, at) + _valid.validate(obj["spec"])
        if obj["spec"].get("nodeName") and obj["spec"].get("schedulingGates"):
            why = "cannot be set until all schedulingGates have been cleared"
            found.append(fields.forbidden(_SPEC.child("nodeName"), why))
        return found

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The change, and the whole pod if its spec could have changed."""
        found = super().validate_update(new, old, at) + _validate_devices(new, old)
        if at.subresource == "status":
            return found + _validate_status(new.get("status") or {}, old.get("status") or {})
        if new["spec"] == old["spec"]:
            return found
        return found + _valid.validate(new["spec"]) + _validate_changes(new["spec"], old["spec"])


def qos_class(spec: Mapping[str, Any]) -> str:
    """The QoS class of a pod."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    if (spec.get("resources") or {}).keys() & {"requests", "limits"}:
        containers = [spec]
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for one in containers:
        wanted = one.get("resources") or {}
        amounts = [
            {name: checks.quantity((wanted.get(side) or {}).get(name)).nanos for name in _COMPUTE}
            for side in ("requests", "limits")
        ]
        guaranteed = guaranteed and all(amounts[1].values())
        for total, found in zip((requests, limits), amounts, strict=True):
            for name, nanos in found.items():
                total[name] = total.get(name, 0) + nanos
    if not any(requests.values()) and not any(limits.values()):
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


class _Valid:
    """A cache of valid specs: many pods have equal ones, and each is validated once."""

    _MOST: Final = 1024
    _LARGEST: Final = 8192

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def validate(self, spec: Object) -> list[fields.FieldError]:
        """All errors of a spec, which depend on nothing else."""
        key = _encode(spec)
        if key in self._known:
            return []
        found = pod_specs.validate(spec, _SPEC) + pod_containers.validate_image_spaces(spec, _SPEC)
        if not found and len(key) <= self._LARGEST:
            if len(self._known) >= self._MOST:
                self._known.clear()
            self._known.add(key)
        return found


_encode: Final = msgspec.json.Encoder().encode
_valid: Final = _Valid()


def _agree_on_addresses(status: Object) -> None:
    """The podIP of old clients is the first of podIPs; if they differ, podIP wins."""
    single, several = status.get("podIP"), status.get("podIPs")
    if single and (not several or several[0].get("ip") != single):
        status["podIPs"] = [{"ip": single}]
    elif several and not single and several[0].get("ip"):
        status["podIP"] = several[0]["ip"]


def _validate_devices(new: Object, old: Object) -> list[fields.FieldError]:
    """The devices of a pod that has a node are counted there, so they stay."""
    before, after = ((one["metadata"].get("annotations") or {}).get(gpu_devices.ANNOTATION) for one in (old, new))
    if before == after or not old["spec"].get("nodeName"):
        return []
    path = fields.Path("metadata").child("annotations").key(gpu_devices.ANNOTATION)
    return [fields.invalid(path, after or "", metadata.FIELD_IMMUTABLE)]


def _validate_status(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[fields.FieldError]:
    found = []
    if old.get("qosClass") and new.get("qosClass") != old["qosClass"]:
        found.append(fields.invalid(_STATUS.child("qosClass"), new.get("qosClass"), metadata.FIELD_IMMUTABLE))
    if old.get("phase") in _FINISHED and new.get("phase") not in _FINISHED:
        why = f"a pod that has finished ({old['phase']}) stays finished"
        found.append(fields.forbidden(_STATUS.child("phase"), why))
    nominated = new.get("nominatedNodeName", "")
    if nominated and nominated != old.get("nominatedNodeName"):
        messages = names.check_dns1123_subdomain(nominated)
        found += checks.messages(messages, nominated, _STATUS.child("nominatedNodeName"))
    return found


def _validate_changes(new: Object, old: Object) -> list[fields.FieldError]:
    for kind in ("containers", "initContainers"):
        if len(new.get(kind) or ()) != len(old.get(kind) or ()):
            return [fields.forbidden(_SPEC.child(kind), "pod updates may not add or remove containers")]
    found = _validate_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    found += _validate_tolerations(new, old)
    found += _validate_gates(new, old)
    masked: Object = json_values.copy(new)
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _take(masked, old, name)
    for kind in ("containers", "initContainers"):
        for one, before in zip(masked.get(kind) or (), old.get(kind) or (), strict=True):
            _take(one, before, "image")
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and masked.get("terminationGracePeriodSeconds") == 1:
        _take(masked, old, "terminationGracePeriodSeconds")
    if old.get("schedulingGates"):
        found += _validate_gated(masked, old)
    if masked != old:
        why = f"pod updates may not change fields other than {_CHANGEABLE}\n{_difference(masked, old)}"
        found.append(fields.forbidden(_SPEC, why))
    return found


def _validate_deadline(new: int | None, old: int | None) -> list[fields.FieldError]:
    path = _SPEC.child("activeDeadlineSeconds")
    if new is None:
        why = "must not update from a positive integer to nil value"
        return [fields.invalid(path, None, why)] if old is not None else []
    if old is not None and old < new:
        return [fields.invalid(path, new, "must be less than or equal to previous value")]
    return checks.in_range(new, 0, checks.MAX_INT32, path)


def _validate_tolerations(new: Object, old: Object) -> list[fields.FieldError]:
    path, kept = _SPEC.child("tolerations"), [_but_seconds(one) for one in new.get("tolerations") or ()]
    if any(_but_seconds(one) not in kept for one in old.get("tolerations") or ()):
        return [fields.forbidden(path, "existing toleration can not be modified except its tolerationSeconds")]
    return pod_placement.validate_tolerations(new.get("tolerations") or (), path)


def _but_seconds(toleration: Mapping[str, Any]) -> Object:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _validate_gates(new: Object, old: Object) -> list[fields.FieldError]:
    before = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    return [
        fields.forbidden(
            _SPEC.child("schedulingGates").index(position).child("name"),
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for position, gate in enumerate(new.get("schedulingGates") or ())
        if gate.get("name") not in before
    ]


def _validate_gated(masked: Object, old: Object) -> list[fields.FieldError]:
    """The node selector of a pod with scheduling gates may be restricted further."""
    wanted, before = masked.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    found = []
    if any(wanted.get(name) != value for name, value in before.items()):
        why = "only additions are allowed (no mutations or deletions)"
        found.append(fields.invalid(_SPEC.child("nodeSelector"), wanted, why))
    _take(masked, old, "nodeSelector")
    if not (old.get("affinity") or {}).get("nodeAffinity"):
        affinity = {name: item for name, item in (masked.get("affinity") or {}).items() if name != "nodeAffinity"}
        if affinity == (old.get("affinity") or {}):
            _take(masked, old, "affinity")
    return found


def _take(new: Object, old: Object, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _difference(new: Object, old: Object) -> str:
    """The names of the fields of the spec that differ; upstream prints Go values here, which are not parseable
    either.
    """
    changed = sorted(name for name in {*new, *old} if new.get(name) != old.get(name))
    return "changed: " + ", ".join(f"spec.{name}" for name in changed)
