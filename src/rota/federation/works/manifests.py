"""The Works of a binding: one for each target cluster, with the resource as that cluster should have it.

Replicas are revised first, completions of divided Jobs are split like replicas, and overrides come last.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api import meta
from rota.federation import bindings, object_names
from rota.federation.clusters import Cluster
from rota.federation.gates import DEFAULT, Gates
from rota.federation.interpreters import native, replicas, template_fields, trees
from rota.federation.placement.division import divide
from rota.federation.policies import overrides
from rota.federation.works import ordinals

Object: TypeAlias = Mapping[str, Any]

FINALIZER: Final = "karmada.io/execution-controller"
BINDING_ID: Final = "resourcebinding.karmada.io/permanent-id"
CLUSTER_BINDING_ID: Final = "clusterresourcebinding.karmada.io/permanent-id"
CONFLICTS: Final = "work.karmada.io/conflict-resolution"
APPLIED: Final = "policy.karmada.io/applied-overrides"
APPLIED_CLUSTER: Final = "policy.karmada.io/applied-cluster-overrides"
MANAGED: Final = "karmada.io/managed"
MANAGED_LABELS: Final = "resourcetemplate.karmada.io/managed-labels"
MANAGED_ANNOTATIONS: Final = "resourcetemplate.karmada.io/managed-annotations"
_GENERATION: Final = "resourcetemplate.karmada.io/generation"
_UID: Final = "resourcetemplate.karmada.io/uid"
_DIRECT: Final = frozenset({"Directly", "Immediately"})


@dataclass(frozen=True, slots=True)
class Rendered:
    """The Works that could be made, and what was wrong with the others."""

    works: tuple[dict[str, Any], ...]
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policies:
    """The override policies there are."""

    overrides: Sequence[Object] = ()
    cluster_overrides: Sequence[Object] = ()


def render(
    resource: Object,
    binding: Object,
    clusters: Iterable[Cluster],
    policies: Policies,
    gates: Gates = DEFAULT,
    *,
    forms: Mapping[str, Object] | None = None,
) -> Rendered:
    """The Works of a binding. `forms` are the resource by cluster, where more than the native rules revised it."""
    spec: Object = binding.get("spec") or {}
    known = {cluster.name: cluster for cluster in clusters}
    targets = target_clusters(spec)
    completions = _completions(resource, spec, targets)
    try:
        block = ordinals.block_size(resource) if _is_divided(spec) else None
    except ordinals.WrongBlock as error:
        return Rendered((), (str(error),))
    numbers = ordinals.assigned(ordinals.blocks(binding), [target.get("name", "") for target in targets])
    works, errors = [], []
    for target in targets:
        name = target.get("name", "")
        try:
            revised = _revised(resource, spec, target, completions, (forms or {}).get(name))
            if block is not None:
                ordinals.placed(revised, name, block, numbers)
            if name not in known:
                raise overrides.CannotOverride(f"cluster {name} does not exist")
            changed = overrides.override(revised, known[name], policies.overrides, policies.cluster_overrides)
        except (overrides.CannotOverride, ordinals.WrongBlock) as error:
            errors.append(f"{name}: {error}")
            continue
        if gates.stateful_failover_injection:
            _inject_state(spec, name, changed.resource, alone=len(targets) <= 1)
        works.append(_work(changed, binding, name))
    return Rendered(tuple(works), tuple(errors))


def target_clusters(spec: Object) -> list[Object]:
    """The scheduled clusters, and those where other bindings need the resource."""
    found = list(bindings.targets(spec))
    names = {target.get("name", "") for target in found}
    for snapshot in spec.get("requiredBy") or ():
        for target in snapshot.get("clusters") or ():
            if target.get("name", "") not in names:
                names.add(target.get("name", ""))
                found.append(target)
    return found


def _is_divided(spec: Object) -> bool:
    placement = spec.get("placement")
    return placement is not None and bindings.scheduling_type(placement) == bindings.DIVIDED


def _completions(resource: Object, spec: Object, targets: Sequence[Object]) -> dict[str, int]:
    """The completions of a divided Job by cluster; empty where they are not divided."""
    divided = _is_divided(spec)
    total = trees.get(resource, "spec", "completions")
    if resource.get("kind") != "Job" or bindings.replicas(spec) <= 0 or not divided or total is None:
        return {}
    weights = {target.get("name", ""): int(target.get("replicas") or 0) for target in targets}
    return divide(int(total), weights, uid=meta.uid(resource))


def _revised(
    resource: Object, spec: Object, target: Object, completions: Mapping[str, int], form: Object | None
) -> dict[str, Any]:
    found = trees.changed(resource if form is None else form)
    member = native.REVISED.get(native.kind_of(resource)) if form is None else None
    if bindings.is_workload(spec) and member is not None:
        found = replicas.revised(found, int(target.get("replicas") or 0), member)
    if completions:
        found = replicas.revised(found, completions[target.get("name", "")], "completions")
    return found


def _inject_state(spec: Object, cluster: str, resource: dict[str, Any], *, alone: bool) -> None:
    """Give the state that was kept when the resource was moved away directly to its successor, if that is new there."""
    tasks = spec.get("gracefulEvictionTasks") or ()
    if not alone or not tasks or tasks[-1].get("purgeMode") not in _DIRECT:
        return
    if cluster in (tasks[-1].get("clustersBeforeFailover") or ()):
        return
    for key, value in (tasks[-1].get("preservedLabelState") or {}).items():
        trees.put(resource, value, "metadata", "labels", key)


def _work(changed: overrides.Overridden, binding: Object, cluster: str) -> dict[str, Any]:
    resource = changed.resource
    namespace, name = meta.namespace(binding), meta.name(binding)
    label = BINDING_ID if namespace else CLUSTER_BINDING_ID
    identity = meta.labels(binding).get(label) or ""
    if namespace:
        references = {"resourcebinding.karmada.io/namespace": namespace, "resourcebinding.karmada.io/name": name}
    else:
        references = {"clusterresourcebinding.karmada.io/name": name}
    resolution = _resolution(resource, (binding.get("spec") or {}).get("conflictResolution") or "")
    metadata = {
        "name": object_names.work(resource.get("kind", ""), meta.name(resource), meta.namespace(resource)),
        "namespace": object_names.execution_space(cluster),
        "finalizers": [FINALIZER],
        "labels": {label: identity},
        "annotations": {**references, CONFLICTS: resolution, **_recorded(changed)},
    }
    generation = int(meta.metadata(resource).get("generation") or 0)
    own = {
        **({_GENERATION: str(generation)} if generation > 0 else {}),
        **references,
        _UID: meta.uid(resource),
        "work.karmada.io/name": metadata["name"],
        "work.karmada.io/namespace": metadata["namespace"],
        CONFLICTS: resolution,
    }
    for key, value in own.items():
        trees.put(resource, value, "metadata", "annotations", key)
    for key, value in ((label, identity), (MANAGED, "true")):
        trees.put(resource, value, "metadata", "labels", key)
    manifest = template_fields.pruned(resource)
    template_fields.without_ttl(manifest)
    _record_marks(manifest)
    spec: Object = binding.get("spec") or {}
    return {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": metadata,
        "spec": {
            "workload": {"manifests": [manifest]},
            "suspendDispatching": suspended(spec.get("suspension"), cluster),
            "preserveResourcesOnDeletion": bool(spec.get("preserveResourcesOnDeletion")),
        },
    }


def plain_work(resource: Object, cluster: str, marks: Mapping[str, str]) -> dict[str, Any]:
    """A Work of the control plane's own for one object in one cluster; annotations say what it is for."""
    name = object_names.work(resource.get("kind", ""), meta.name(resource), meta.namespace(resource))
    space = object_names.execution_space(cluster)
    manifest = template_fields.pruned(resource)
    own = {"work.karmada.io/name": name, "work.karmada.io/namespace": space, CONFLICTS: "abort"}
    for key, value in own.items():
        trees.put(manifest, value, "metadata", "annotations", key)
    trees.put(manifest, "true", "metadata", "labels", MANAGED)
    _record_marks(manifest)
    return {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": {"name": name, "namespace": space, "finalizers": [FINALIZER], "annotations": dict(marks)},
        "spec": {"workload": {"manifests": [manifest]}},
    }


def suspended(suspension: Object | None, cluster: str) -> bool:
    """Whether dispatching to a cluster is suspended."""
    if suspension is None:
        return False
    on_clusters = (suspension.get("dispatchingOnClusters") or {}).get("clusterNames") or ()
    return bool(suspension.get("dispatching")) or cluster in on_clusters


def _resolution(resource: Object, of_binding: str) -> str:
    """What happens if a member has the resource already: as the resource says, or else its binding."""
    own = meta.annotations(resource).get(CONFLICTS)
    if own in ("overwrite", "abort"):
        return own
    return "overwrite" if of_binding == "Overwrite" else "abort"


def _record_marks(manifest: dict[str, Any]) -> None:
    """Write down which labels and annotations the control plane has set, so that it removes no others later."""
    annotations = manifest["metadata"].setdefault("annotations", {})
    keys = {MANAGED_ANNOTATIONS, MANAGED_LABELS, *annotations}
    annotations[MANAGED_ANNOTATIONS] = ",".join(sorted(keys))
    annotations[MANAGED_LABELS] = ",".join(sorted(manifest["metadata"].get("labels") or {}))


def _recorded(changed: overrides.Overridden) -> dict[str, str]:
    found = {}
    for name, rules in ((APPLIED_CLUSTER, changed.cluster_overrides), (APPLIED, changed.overrides)):
        if rules:
            by_name = sorted(rules, key=lambda rule: rule.policy)
            listed = [{"policyName": rule.policy, "overriders": _written(rule.overriders)} for rule in by_name]
            found[name] = json.dumps(listed, separators=(",", ":"), ensure_ascii=False)
    return found


def _written(overriders: Object) -> dict[str, Any]:
    """Overriders with all members that upstream writes: operations always have a value, if only null."""
    found = dict(overriders)
    if found.get("plaintext"):
        found["plaintext"] = [{**one, "value": one.get("value")} for one in found["plaintext"]]
    if found.get("fieldOverrider"):
        found["fieldOverrider"] = [
            {
                **field,
                **{
                    form: [{**one, "value": one.get("value")} for one in field[form]]
                    for form in ("json", "yaml")
                    if field.get(form)
                },
            }
            for field in found["fieldOverrider"]
        ]
    return {name: value for name, value in found.items() if value}
