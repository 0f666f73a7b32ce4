"""The strategies of Deployment, ReplicaSet, StatefulSet, DaemonSet and ReplicationController.

Selectors must match the labels of the template and are immutable. Mirrors `pkg/apis/apps` of Kubernetes 1.33.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.api import fields
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks, pod_defaults, pod_specs
from rota.apiserver.strategies.generic import GenericStrategy

Found: TypeAlias = list[fields.FieldError]
SPEC: Final = fields.Path("spec")
_TEMPLATE: Final = SPEC.child("template")
_COUNTS: Final = ("replicas", "minReadySeconds", "revisionHistoryLimit")
_PERCENT: Final = re.compile(r"[0-9]+%")
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_MISMATCH: Final = "`selector` does not match template `labels`"
_STATEFULSET_FIELDS: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


class TemplateStrategy(GenericStrategy):
    """What all kinds with a pod template have in common."""

    counts_generations = True
    demands_required_fields = False
    #: The kind in messages about selectors, as upstream writes it.
    kind = ""
    #: The kind in messages about deadlines; upstream has one for Deployments and ReplicaSets.
    title = "ReplicaSet"

    def default(self, obj: Object, /) -> None:
        """The defaults of the template, and of the kind."""
        spec = obj.setdefault("spec", {})
        pod_defaults.default_spec(spec.setdefault("template", {}).setdefault("spec", {}))
        self.default_own(spec)

    def default_own(self, spec: Object) -> None:
        """The defaults of this kind."""

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """The whole spec."""
        return super().validate_create(obj, at) + self.validate_spec(obj["spec"])

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """The whole spec if it changed, and its immutable fields."""
        found = super().validate_update(new, old, at)
        if at.subresource == "status":
            return found + _validate_status(new.get("status") or {})
        if new["spec"] == old["spec"]:
            return found
        return found + self.validate_spec(new["spec"]) + self.validate_change(new["spec"], old["spec"])

    def validate_change(self, new: Object, old: Object) -> Found:
        """Immutable fields."""
        return checks.immutable(new.get("selector"), old.get("selector"), SPEC.child("selector"))

    def validate_spec(self, spec: Object) -> Found:
        """All errors of a spec."""
        found: Found = []
        for name in _COUNTS:
            found += checks.not_negative(spec.get(name), SPEC.child(name))
        found += self.validate_selector(spec.get("selector"))
        found += self.validate_template(spec)
        return found + self.validate_own(spec)

    def validate_selector(self, selector: Mapping[str, Any] | None) -> Found:
        """The selector is required and must not be empty."""
        if selector is None:
            return [fields.required(SPEC.child("selector"))]
        found = checks.label_selector(selector, SPEC.child("selector"))
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            why = f"empty selector is invalid for {self.kind}"
            found.append(fields.invalid(SPEC.child("selector"), selector, why))
        return found

    def validate_template(self, spec: Object) -> Found:
        """The restart policy must be Always."""
        template = spec.get("template") or {}
        found: Found = []
        labels = (template.get("metadata") or {}).get("labels")
        if not checks.selects(spec.get("selector"), labels):
            found.append(fields.invalid(_TEMPLATE.child("metadata", "labels"), checks.shown(labels), _MISMATCH))
        found += pod_specs.validate_template(template, _TEMPLATE)
        pods = template.get("spec") or {}
        policy = pods.get("restartPolicy", "")
        if policy != "Always":
            found.append(fields.not_supported(_TEMPLATE.child("spec", "restartPolicy"), policy, ["Always"]))
        if pods.get("activeDeadlineSeconds") is not None:
            why = f"activeDeadlineSeconds in {self.title} is not Supported"
            found.append(fields.forbidden(_TEMPLATE.child("spec", "activeDeadlineSeconds"), why))
        return found

    def validate_own(self, spec: Object) -> Found:
        """The fields of this kind."""
        return []


class DeploymentStrategy(TemplateStrategy):
    """Deployments."""

    kind = "deployment"

    def default_own(self, spec: Object) -> None:
        """One replica, and rolling updates by a quarter at a time."""
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def validate_own(self, spec: Object) -> Found:
        """The strategy, and the deadline."""
        strategy, path = spec.get("strategy") or {}, SPEC.child("strategy")
        found: Found = []
        kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
        if kind == "Recreate":
            if rolling is not None:
                why = "may not be specified when strategy `type` is 'Recreate'"
                found.append(fields.forbidden(path.child("rollingUpdate"), why))
        elif kind == "RollingUpdate":
            found += _validate_rolling(rolling or {}, path.child("rollingUpdate"))
        else:
            found.append(fields.not_supported(path, strategy, ["Recreate", "RollingUpdate"]))
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None:
            at = SPEC.child("progressDeadlineSeconds")
            found += checks.not_negative(deadline, at)
            if deadline <= (spec.get("minReadySeconds") or 0):
                found.append(fields.invalid(at, deadline, "must be greater than minReadySeconds"))
        return found


class ReplicaSetStrategy(TemplateStrategy):
    """ReplicaSets."""

    kind = "deployment"  # upstream's own mistake, which clients see

    def default_own(self, spec: Object) -> None:
        """One replica."""
        spec.setdefault("replicas", 1)


class StatefulSetStrategy(TemplateStrategy):
    """StatefulSets."""

    kind = "statefulset"
    title = "StatefulSet"

    def default_own(self, spec: Object) -> None:
        """One replica, ordered, rolling updates."""
        spec.setdefault("podManagementPolicy", "OrderedReady")
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
            strategy["rollingUpdate"].setdefault("partition", 0)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for when in ("whenDeleted", "whenScaled"):
            retention.setdefault(when, "Retain")
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            claim.setdefault("status", {}).setdefault("phase", "Pending")

    def validate_change(self, new: Object, old: Object) -> Found:
        """Few fields can change; the selector cannot."""
        fixed = {*new, *old}.difference(_STATEFULSET_FIELDS)
        if all(new.get(name) == old.get(name) for name in fixed):
            return []
        listed = ", ".join(f"'{name}'" for name in _STATEFULSET_FIELDS[:-1])
        why = f"updates to statefulset spec for fields other than {listed} and 'minReadySeconds' are forbidden"
        return [fields.forbidden(SPEC, why)]

    def validate_template(self, spec: Object) -> Found:
        """Each pod gets a volume for each claim template."""
        claims = [
            {"name": name, "persistentVolumeClaim": {"claimName": name}}
            for claim in spec.get("volumeClaimTemplates") or ()
            if (name := (claim.get("metadata") or {}).get("name"))
        ]
        if not claims:
            return super().validate_template(spec)
        template = spec.get("template") or {}
        pods = template.get("spec") or {}
        claimed = {claim["name"] for claim in claims}
        # the claim's volume replaces a volume of the template with the same name
        volumes = [one for one in pods.get("volumes") or () if one.get("name") not in claimed]
        mounted = {**template, "spec": {**pods, "volumes": [*volumes, *claims]}}
        return super().validate_template({**spec, "template": mounted})

    def validate_own(self, spec: Object) -> Found:
        """Policies."""
        found: Found = []
        policy, at = spec.get("podManagementPolicy"), SPEC.child("podManagementPolicy")
        if policy not in {"OrderedReady", "Parallel"}:
            found.append(fields.invalid(at, policy, "must be 'OrderedReady' or 'Parallel'"))
        strategy = spec.get("updateStrategy") or {}
        if strategy.get("type") not in {"RollingUpdate", "OnDelete"}:
            why = "must be 'RollingUpdate' or 'OnDelete'"
            found.append(fields.invalid(SPEC.child("updateStrategy"), strategy, why))
        retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        for when in ("whenDeleted", "whenScaled"):
            at = SPEC.child("persistentVolumeClaimRetentionPolicy", when)
            found += checks.one_of(retention.get(when), ("Retain", "Delete"), at)
        partition = (strategy.get("rollingUpdate") or {}).get("partition")
        return found + checks.not_negative(partition, SPEC.child("updateStrategy", "rollingUpdate", "partition"))


class DaemonSetStrategy(TemplateStrategy):
    """DaemonSets."""

    kind = "daemonset"
    title = "DaemonSet"

    def default(self, obj: Object, /) -> None:
        """Those of the template, and the template generation, which `prepare_create` and `prepare_update` keep."""
        super().default(obj)
        annotations = obj["metadata"].get("annotations") or {}
        obj["metadata"]["annotations"] = {
            **annotations,
            _TEMPLATE_GENERATION: annotations.get(_TEMPLATE_GENERATION, "0"),
        }

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """Count the changes of the template in an annotation, for clients that are older than generations."""
        super().prepare_create(obj, at)
        obj["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = "1"

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """See `prepare_create`; clients cannot set it."""
        super().prepare_update(new, old, at)
        before = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
        count = int(before) if before.isdecimal() else 0
        if new["spec"].get("template") != old["spec"].get("template"):
            count += 1
        new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(count)

    def default_own(self, spec: Object) -> None:
        """Rolling updates, one node at a time."""
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def validate_own(self, spec: Object) -> Found:
        """The strategy."""
        strategy, path = spec.get("updateStrategy") or {}, SPEC.child("updateStrategy")
        if strategy.get("type") not in {"RollingUpdate", "OnDelete"}:
            return [fields.not_supported(path, strategy, ["RollingUpdate", "OnDelete"])]
        rolling, at = strategy.get("rollingUpdate") or {}, path.child("rollingUpdate")
        found: Found = []
        for name in ("maxUnavailable", "maxSurge"):
            if name in rolling:
                found += validate_share(rolling[name], at.child(name))
        if strategy["type"] == "RollingUpdate":
            away, extra = not _is_zero(rolling.get("maxUnavailable", 1)), not _is_zero(rolling.get("maxSurge", 0))
            if away and extra:
                why = "may not be set when maxUnavailable is non-zero"
                found.append(fields.invalid(at.child("maxSurge"), rolling["maxSurge"], why))
            elif not away and not extra:
                found.append(fields.required(at.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
        return found


class ReplicationControllerStrategy(TemplateStrategy):
    """ReplicationControllers, whose selectors are plain labels that default to the template's."""

    kind = "replicationcontroller"
    title = "ReplicationController"

    def default(self, obj: Object, /) -> None:
        """A controller without labels gets those of its template."""
        missing = (obj.get("spec") or {}).get("template") is None
        super().default(obj)
        if missing:
            del obj["spec"]["template"]
        label_as_template(obj, obj["spec"])

    def default_own(self, spec: Object) -> None:
        """One replica, and the template's labels as the selector."""
        spec.setdefault("replicas", 1)
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if labels and not spec.get("selector"):
            spec["selector"] = dict(labels)

    def validate_selector(self, selector: Mapping[str, Any] | None) -> Found:
        """Non-empty labels."""
        return [] if selector else [fields.required(SPEC.child("selector"))]

    def validate_template(self, spec: Object) -> Found:
        """As for the others, with labels as the selector."""
        selector = spec.get("selector")
        if spec.get("template") is None:
            return [fields.required(_TEMPLATE)]
        if not selector:
            selector = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        return super().validate_template({**spec, "selector": {"matchLabels": selector or {}}})

    def validate_change(self, new: Object, old: Object) -> Found:
        """The selector is mutable."""
        return []


def label_as_template(obj: Object, spec: Object) -> None:
    """Give an object without labels those of its template, as for kinds that are older than selectors."""
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def validate_share(value: Any, path: fields.Path) -> Found:
    """A number of pods, or a percentage of all."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
            return [fields.invalid(path, value, why + "regex used for validation is '[0-9]+%')")]
        return []
    return checks.not_negative(value, path)


def _validate_rolling(rolling: Mapping[str, Any], path: fields.Path) -> Found:
    found: Found = []
    for name in ("maxUnavailable", "maxSurge"):
        found += validate_share(rolling.get(name), path.child(name)) if name in rolling else []
    unavailable = rolling.get("maxUnavailable")
    if _is_zero(unavailable) and _is_zero(rolling.get("maxSurge")):
        why = "may not be 0 when `maxSurge` is 0"
        found.append(fields.invalid(path.child("maxUnavailable"), unavailable, why))
    if isinstance(unavailable, str) and _PERCENT.fullmatch(unavailable) and int(unavailable[:-1]) > 100:
        found.append(fields.invalid(path.child("maxUnavailable"), unavailable, "must not be greater than 100%"))
    return found


def _is_zero(value: Any) -> bool:
    return value in {0, "0%"}


def _validate_status(status: Mapping[str, Any]) -> Found:
    path, total = fields.Path("status"), status.get("replicas") or 0
    found: Found = []
    for name in ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "observedGeneration"):
        found += checks.not_negative(status.get(name), path.child(name))
    found += [
        fields.invalid(path.child(name), status[name], "cannot be greater than status.replicas")
        for name in ("readyReplicas", "availableReplicas", "fullyLabeledReplicas")
        if status.get(name) and status[name] > total
    ]
    return found
