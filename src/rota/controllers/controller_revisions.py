"""ControllerRevisions of DaemonSets and StatefulSets: one per template, for rollbacks. Pure.

A revision holds the template as a patch of its owner, which is how `kubectl rollout undo` applies it. The newest
revision has the highest number; a template that returns gets a new number, not a second revision. Form and names are
upstream's (`pkg/controller/history`, `pkg/controller/daemon/update.go`, 1.36); hashes have upstream's form, but other
values. A pod's label `HASH_LABEL` names its revision. `revision_history` does the writes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta
from rota.api.meta import Object
from rota.controllers.deployments import revisions as templates

#: Label of a pod: the revision it was made from.
HASH_LABEL: Final = "controller-revision-hash"
_LONGEST_PREFIX: Final = 223


@dataclass(frozen=True, slots=True)
class History:
    """An owner's revisions."""

    #: The revision of the current template.
    current: Object
    #: All other revisions, oldest first.
    old: tuple[Object, ...]


def number(revision: Mapping[str, Any]) -> int:
    """A revision's number."""
    return int(revision.get("revision") or 0)


def ordered(revisions: Iterable[Object]) -> list[Object]:
    """Revisions sorted by number."""
    return sorted(revisions, key=lambda one: (number(one), *templates.age(one)))


def recorded(owner: Mapping[str, Any]) -> dict[str, Any]:
    """An owner's template, as a patch that restores it."""
    return {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}


def restored(owner: Mapping[str, Any], revision: Mapping[str, Any]) -> Object:
    """An owner with the template of a revision."""
    held = revision["data"]["spec"]["template"]
    template = {name: part for name, part in held.items() if name != "$patch"}
    return {**owner, "spec": {**owner["spec"], "template": template}}


def made(owner: Mapping[str, Any], *, number: int, label: str) -> Object:
    """The revision of an owner's template; `label` is the label for its hash."""
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
