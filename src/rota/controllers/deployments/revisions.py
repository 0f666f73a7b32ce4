"""The ReplicaSets of a Deployment: templates, names and revisions. Pure.

A set's revision is an annotation (`deployment.kubernetes.io/revision`); the newest set has the highest. The
Deployment's annotations are copied to its newest set, so that a rollback restores them. Names and annotations are
upstream's (`pkg/controller/deployment/util`, 1.36); template hashes have upstream's form, but other values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rota.api import meta
from rota.api.meta import Object

REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
HASH_LABEL: Final = "pod-template-hash"
_NOT_COPIED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
    }
)
_LONGEST_HISTORY: Final = 2000
_LONGEST_NAME: Final = 253
#: The alphabet of hashes, without vowels, so that no words appear.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_FNV_START: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_UINT32: Final = 0xFFFFFFFF

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Sets:
    """A Deployment's sets."""

    #: The set of the current template; None if it does not exist.
    new: Object | None
    #: All other sets, oldest first.
    old: tuple[Object, ...]

    @property
    def every(self) -> tuple[Object, ...]:
        """All sets, the new one last."""
        return self.old if self.new is None else (*self.old, self.new)


def split(deployment: Object, sets: Iterable[Object]) -> Sets:
    """Separate the set of the current template from the others; of several, the oldest is chosen."""
    ordered = sorted(sets, key=age)
    wanted = deployment["spec"]["template"]
    new = next((one for one in ordered if same_template(one["spec"].get("template") or {}, wanted)), None)
    return Sets(new, tuple(one for one in ordered if one is not new))


def age(one: Object) -> tuple[str, str]:
    """Sort key: oldest first."""
    return str(meta.metadata(one).get("creationTimestamp") or ""), meta.name(one)


def same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two templates are equal apart from the hash label."""
    return one.get("spec") == other.get("spec") and _template_metadata(one) == _template_metadata(other)


def template_hash(template: Mapping[str, Any], collisions: int | None) -> str:
    """The hash label of a template's pods and sets."""
    text = _encode(template) + (b"" if collisions is None else collisions.to_bytes(8, "little"))
    value = _FNV_START
    for byte in text:
        value = (value ^ byte) * _FNV_PRIME & _UINT32
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(value))


def new_set(deployment: Object, *, replicas: int, annotations: Mapping[str, str]) -> Object:
    """The ReplicaSet for a Deployment's template."""
    spec, status = deployment["spec"], deployment.get("status") or {}
    hashed = template_hash(spec["template"], status.get("collisionCount"))
    metadata = dict(spec["template"].get("metadata") or {})
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: hashed}
    selector = dict(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: hashed}
    wanted: dict[str, Any] = {
        "replicas": replicas,
        "selector": selector,
        "template": {**spec["template"], "metadata": {**metadata, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        wanted["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta.name(deployment)[: _LONGEST_NAME - 1 - len(hashed)]}-{hashed}",
            "namespace": meta.namespace(deployment),
            "labels": labels,
            "annotations": dict(annotations),
            "ownerReferences": [meta.controller_reference(deployment)],
        },
        "spec": wanted,
    }


def revision(one: Object) -> int:
    """A set's revision; 0 if it is missing or not a number."""
    text = meta.annotations(one).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def next_revision(old: Sequence[Object]) -> int:
    """The next revision after those of these sets."""
    return max((revision(one) for one in old), default=0) + 1


def annotated(deployment: Object, present: Mapping[str, str], number: int) -> dict[str, str]:
    """The annotations of the newest set: the Deployment's, and a revision of at least `number`.

    If the set had a lower revision, that is added to its revision history.
    """
    found = dict(present)
    found.update({name: text for name, text in meta.annotations(deployment).items() if name not in _NOT_COPIED})
    former = present.get(REVISION, "")
    if former and not former.isdecimal():
        return found
    if int(former or 0) < number:
        found[REVISION] = str(number)
        if former:
            found[HISTORY] = _with_former(present.get(HISTORY, ""), former)
    return found


def _with_former(history: str, former: str) -> str:
    """A revision history with one more entry, without the oldest entries if it would get too long."""
    kept = [one for one in history.split(",") if one]
    while kept and len(",".join([*kept, former])) > _LONGEST_HISTORY:
        kept.pop(0)
    return ",".join([*kept, former])


def sized(desired: int, maximum: int) -> dict[str, str]:
    """The annotations that record the Deployment's size."""
    return {DESIRED: str(desired), MAXIMUM: str(maximum)}


def _template_metadata(template: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: item for name, item in (template.get("metadata") or {}).items() if item}
    labels = {name: text for name, text in (metadata.get("labels") or {}).items() if name != HASH_LABEL}
    return {**metadata, "labels": labels}
