"""Bindings of dependencies: they record the bindings that need them and their clusters, and follow them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import meta
from rota.federation import object_names
from rota.federation.interpreters import native
from rota.federation.policies.propagation import BINDING_FINALIZER

Object: TypeAlias = Mapping[str, Any]

DEPENDED_BY: Final = "resourcebinding.karmada.io/depended-by-"
_BINDING_ID: Final = "resourcebinding.karmada.io/permanent-id"


class CannotAttach(ValueError):
    """The dependency cannot be attached now; it is tried again."""


def label_key(owner: Object) -> str:
    """The label by which an attached binding is found from the binding that needs it."""
    return DEPENDED_BY + object_names.binding_key(meta.namespace(owner), meta.name(owner))


def attached(owner: Object, resource: Object, present: Object | None, bindings: Iterable[Object]) -> dict[str, Any]:
    """The binding of a resource that the owner's binding needs, made or changed.

    `bindings` are those of the store: a binding without a placement of its own takes over how conflicts are resolved
    and whether resources are preserved from all that need it.
    """
    new = _made(owner, resource)
    if present is not None:
        controller = meta.controller_of(present)
        if controller is not None and controller.get("uid") != meta.uid(resource):
            raise CannotAttach(f"binding {meta.qualified_name(present)} belongs to another object of that name")
        metadata = {**meta.metadata(present), "labels": {**meta.labels(present), **new["metadata"]["labels"]}}
        spec = dict(present.get("spec") or {})
        spec["requiredBy"] = _merged(spec.get("requiredBy") or (), new["spec"]["requiredBy"])
        spec["resource"] = new["spec"]["resource"]
        new = {**new, "metadata": metadata, "spec": spec}
    if new["spec"].get("placement") is None:
        new["spec"] |= _inherited(new["spec"]["requiredBy"], bindings)
    return new


def detached(owner: Object, present: Object, bindings: Iterable[Object]) -> dict[str, Any]:
    """The binding of a resource that the owner's binding needs no longer."""
    key = label_key(owner)
    metadata = {**meta.metadata(present), "labels": {k: v for k, v in meta.labels(present).items() if k != key}}
    spec = dict(present.get("spec") or {})
    place = (meta.namespace(owner), meta.name(owner))
    spec["requiredBy"] = [one for one in spec.get("requiredBy") or () if _place(one) != place]
    if spec.get("placement") is None:
        spec.pop("conflictResolution", None)
        spec.pop("preserveResourcesOnDeletion", None)
        if spec["requiredBy"]:
            spec |= _inherited(spec["requiredBy"], bindings)
    return {**present, "metadata": metadata, "spec": spec}


def _place(snapshot: Object) -> tuple[str, str]:
    return snapshot.get("namespace") or "", snapshot.get("name") or ""


def _made(owner: Object, resource: Object) -> dict[str, Any]:
    api_version, kind = native.kind_of(resource)
    reference = {
        "apiVersion": api_version,
        "kind": kind,
        "namespace": meta.namespace(resource),
        "name": meta.name(resource),
        "uid": meta.uid(resource),
        "resourceVersion": meta.metadata(resource).get("resourceVersion"),
    }
    needed_by = {
        "namespace": meta.namespace(owner),
        "name": meta.name(owner),
        "clusters": list((owner.get("spec") or {}).get("clusters") or ()),
    }
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {
            "name": object_names.binding(kind, meta.name(resource)),
            "namespace": meta.namespace(owner),
            "labels": {label_key(owner): meta.labels(owner).get(_BINDING_ID) or ""},
            "ownerReferences": [meta.controller_reference(resource)],
            "finalizers": [BINDING_FINALIZER],
        },
        "spec": {
            "resource": {member: value for member, value in reference.items() if value},
            "requiredBy": [{member: value for member, value in needed_by.items() if value}],
        },
    }


def _merged(present: Sequence[Object], new: Sequence[Object]) -> list[dict[str, Any]]:
    """Snapshots with newer clusters of those that are there, and others added."""
    found = [dict(one) for one in present]
    for snapshot in new:
        same = [one for one in found if _place(one) == _place(snapshot)]
        for one in same:
            one.pop("clusters", None)
            if snapshot.get("clusters"):
                one["clusters"] = snapshot["clusters"]
        if not same:
            found.append(dict(snapshot))
    return found


def _inherited(required_by: Sequence[Object], bindings: Iterable[Object]) -> dict[str, Any]:
    """Overwrite and preserve win if one binding that needs the resource says so."""
    known = {(meta.namespace(one), meta.name(one)): one.get("spec") or {} for one in bindings}
    specs = []
    for snapshot in required_by:
        spec = known.get(_place(snapshot))
        if spec is None:
            raise CannotAttach(f"binding {'/'.join(_place(snapshot))} does not exist")
        specs.append(spec)
    overwrites = any(spec.get("conflictResolution") == "Overwrite" for spec in specs)
    return {
        "conflictResolution": "Overwrite" if overwrites else "Abort",
        "preserveResourcesOnDeletion": any(bool(spec.get("preserveResourcesOnDeletion")) for spec in specs),
    }
