"""Validation of `metadata`, the same for every kind: allowed values, and allowed changes.

Mirrors `k8s.io/apimachinery/pkg/api/validation/objectmeta.go` (1.37). The registry sets system fields (uid,
creationTimestamp and so on); they are only compared here.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import fields, gotext, names
from rota.api.kinds import ResourceType

_META: Final = fields.Path("metadata")
_LABELS: Final = _META.child("labels")
_ANNOTATIONS: Final = _META.child("annotations")
_OWNERS: Final = _META.child("ownerReferences")
_FINALIZERS: Final = _META.child("finalizers")
_MANAGED: Final = _META.child("managedFields")
MANAGER_LENGTH: Final = 128
_SUBRESOURCE_LENGTH: Final = 256
#: Finalizers without a domain that are older than the rule that they need one.
STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_IMMUTABLE: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_NOT_OWNERS: Final = frozenset({("v1", "Event")})
FIELD_IMMUTABLE: Final = "field is immutable"
_NEGATIVE: Final = "must be greater than or equal to 0"


def validate(metadata: Mapping[str, Any], resource: ResourceType) -> list[fields.FieldError]:
    """All errors of the metadata of an object."""
    found: list[fields.FieldError] = []
    found += _validate_names(metadata, resource)
    if metadata.get("generation", 0) < 0:
        found.append(fields.invalid(_META.child("generation"), metadata["generation"], _NEGATIVE))
    found += validate_labels(metadata.get("labels") or {}, _LABELS)
    found += validate_annotations(metadata.get("annotations") or {}, _ANNOTATIONS)
    found += _validate_owners(metadata.get("ownerReferences") or [], _OWNERS)
    found += _validate_finalizers(metadata.get("finalizers") or [], resource)
    found += _validate_managed_fields(metadata.get("managedFields") or [])
    return found


def validate_update(new: Mapping[str, Any], old: Mapping[str, Any], resource: ResourceType) -> list[fields.FieldError]:
    """All errors of changed metadata."""
    found: list[fields.FieldError] = []
    if new.get("generation", 0) < old.get("generation", 0):
        found.append(fields.invalid(_META.child("generation"), new.get("generation", 0), "must not be decremented"))
    found += [
        fields.invalid(_META.child(name), new.get(name), FIELD_IMMUTABLE)
        for name in _IMMUTABLE
        if new.get(name) != old.get(name)
    ]
    found += validate_labels(new.get("labels") or {}, _LABELS)
    found += validate_annotations(new.get("annotations") or {}, _ANNOTATIONS)
    found += _validate_owners(new.get("ownerReferences") or [], _OWNERS)
    found += _validate_finalizers_update(new, old, resource)
    if new.get("managedFields") != old.get("managedFields"):
        found += _validate_managed_fields(new.get("managedFields") or [])
    return found


def validate_manager(manager: str, path: fields.Path) -> list[fields.FieldError]:
    """The name of a field manager."""
    if len(manager.encode()) > MANAGER_LENGTH:
        return [fields.too_long(path, MANAGER_LENGTH)]
    if not manager.isprintable():
        return [fields.invalid(path, manager, "should only contain printable characters")]
    return []


def _validate_managed_fields(entries: Sequence[Mapping[str, Any]]) -> list[fields.FieldError]:
    """What clients may set in entries that can be read; the others are dropped before (`rota.api.patches.apply`)."""
    found = []
    for position, entry in enumerate(entries):
        path = _MANAGED.index(position)
        found += validate_manager(entry.get("manager") or "", path.child("manager"))
        if len((entry.get("subresource") or "").encode()) > _SUBRESOURCE_LENGTH:
            found.append(fields.too_long(path.child("subresource"), _SUBRESOURCE_LENGTH))
    return found


def validate_labels(labels: Mapping[str, str], path: fields.Path) -> list[fields.FieldError]:
    """Label keys and values."""
    found = []
    for key, value in labels.items():
        # most objects have the labels of their template
        if not _is_good_label(key, value):
            found += [fields.invalid(path, key, message) for message in names.check_label_key(key)]
            found += [fields.invalid(path, value, message) for message in names.check_label_value(value)]
    return found


@functools.lru_cache(maxsize=4096)
def _is_good_label(key: str, value: str) -> bool:
    return not names.check_label_key(key) and not names.check_label_value(value)


def validate_annotations(annotations: Mapping[str, str], path: fields.Path) -> list[fields.FieldError]:
    """Annotation keys, and the size of all annotations together."""
    found = [fields.invalid(path, key, message) for key in annotations for message in names.check_annotation_key(key)]
    if names.annotations_bytes(annotations) > names.MAX_ANNOTATIONS_BYTES:
        found.append(fields.too_long(path, names.MAX_ANNOTATIONS_BYTES))
    return found


def _validate_names(metadata: Mapping[str, Any], resource: ResourceType) -> list[fields.FieldError]:
    found = []
    prefix, name = metadata.get("generateName", ""), metadata.get("name", "")
    if prefix:
        at = _META.child("generateName")
        messages = names.check_generate_name(resource.group, resource.plural, prefix)
        found += [fields.invalid(at, prefix, message) for message in messages]
    if name:
        messages = names.check_object_name(resource.group, resource.plural, name)
        found += [fields.invalid(_META.child("name"), name, message) for message in messages]
    else:
        found.append(fields.required(_META.child("name"), "name or generateName is required"))
    namespace = metadata.get("namespace", "")
    if not resource.namespaced:
        if namespace:
            found.append(fields.forbidden(_META.child("namespace"), "not allowed on this type"))
    elif not namespace:
        found.append(fields.required(_META.child("namespace")))
    else:
        at = _META.child("namespace")
        found += [fields.invalid(at, namespace, message) for message in names.check_dns1123_label(namespace)]
    return found


def _validate_owners(owners: list[dict[str, Any]], path: fields.Path) -> list[fields.FieldError]:
    found = []
    controller = ""
    for owner in owners:
        version = owner.get("apiVersion", "")
        if not version.rpartition("/")[2]:
            found.append(fields.invalid(path.child("apiVersion"), version, "version must not be empty"))
        found += [
            fields.invalid(path.child(name), "", "must not be empty")
            for name in ("kind", "name", "uid")
            if not owner.get(name)
        ]
        if (version, owner.get("kind")) in _NOT_OWNERS:
            why = f"{version}, Kind={owner['kind']} is disallowed from being an owner"
            found.append(fields.invalid(path, owner, why))
        if owner.get("controller"):
            if controller:
                why = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {owner.get('name', '')}"
                )
                found.append(fields.invalid(path, owners, why))
            else:
                controller = owner.get("name", "")
    return found


def _validate_finalizers(finalizers: list[str], resource: ResourceType) -> list[fields.FieldError]:
    if not finalizers:
        return []
    path = _FINALIZERS
    found = []
    # custom kinds are older than the rule that a finalizer has a domain and a path
    qualified = not resource.custom and resource.group != "apiextensions.k8s.io"
    for position, name in enumerate(finalizers):
        found += [fields.invalid(path, name, message) for message in names.check_label_key(name)]
        if qualified and "/" not in name and name not in STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(fields.invalid(path.index(position), name, why))
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(fields.invalid(path, finalizers, why))
    return found


def _validate_finalizers_update(
    new: Mapping[str, Any], old: Mapping[str, Any], resource: ResourceType
) -> list[fields.FieldError]:
    """An object in deletion can only lose finalizers; existing ones are not validated again."""
    before, after = old.get("finalizers") or [], new.get("finalizers") or []
    added = [name for name in after if name not in before]
    if added and old.get("deletionTimestamp"):
        quoted = "{" + ", ".join(map(gotext.quote, sorted(added))) + "}"
        why = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{quoted}"
        return [fields.forbidden(_META.child("finalizers"), why)]
    return _validate_finalizers(after, resource) if added else []
