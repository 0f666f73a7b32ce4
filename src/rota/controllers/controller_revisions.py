"""What the templates of DaemonSets and StatefulSets were: one ControllerRevision each, so that there is a way back.

A revision holds the template as a patch of its owner, which is how `kubectl rollout undo` applies it; the newest has
the highest number, and a template that comes back gets a new number and no second revision. Form and names are
upstream's (`pkg/controller/history`, `pkg/controller/daemon/update.go`, 1.36); a hash has upstream's form and a value
of its own. Which revision a pod is of stands on the pod (`HASH_LABEL`). Pure; `revision_history` writes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta
from rota.api.meta import Object
from rota.controllers.deployments import revisions as templates

#: On a pod: the revision it was made from.
HASH_LABEL: Final = "controller-revision-hash"
_LONGEST_PREFIX: Final = 223


@dataclass(frozen=True, slots=True)
class History:
    """An owner's revisions."""

    #: The one for the template as it is.
    current: Object
    #: All others, the oldest first.
    old: tuple[Object, ...]


def number(revision: Mapping[str, Any]) -> int:
    """A revision's number."""
    return int(revision.get("revision") or 0)


def ordered(revisions: Iterable[Object]) -> list[Object]:
    """The oldest first."""
    return sorted(revisions, key=lambda one: (number(one), *templates.age(one)))


def recorded(owner: Mapping[str, Any]) -> dict[str, Any]:
    """An owner's template, as a patch that brings it back."""
    return {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}


def restored(owner: Mapping[str, Any], revision: Mapping[str, Any]) -> Object:
    """An owner with the template that a revision holds."""
    held = revision["data"]["spec"]["template"]
    template = {name: part for name, part in held.items() if name != "$patch"}
    return {**owner, "spec": {**owner["spec"], "template": template}}


def made(owner: Mapping[str, Any], *, number: int, label: str) -> Object:
    """The revision of an owner's template; `label` is what it bears its hash by."""
    data = recorded(owner)
    hashed = templates.template_hash(data, (owner.get("status") or {}).get("collisionCount") or None)
    labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    metadata: dict[str, Any] = {
        "name": f"{meta.name(owner)[:_LONGEST_PREFIX]}-{hashed}",
        "namespace": meta.namespace(owner),
        "labels": {**labels, label: hashed},
        "ownerReferences": [meta.controller_reference(owner)],
    }
    if meta.annotations(owner):
        metadata["annotations"] = dict(meta.annotations(owner))
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "data": data,
        "revision": number,
    }
