"""Metadata that the server sets: at creation, and carried over by updates. Pure."""

from typing import Final

from rota.api import errors, fields, times
from rota.api.identifiers import GroupKind, GroupResource
from rota.apiserver.interfaces import Attributes, Object

#: Carried over from the live object when a client leaves them out; validation refuses other values.
_CARRIED: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace")
#: Kinds whose updates need a resourceVersion.
_CONDITIONAL_ONLY: Final = frozenset(
    {
        GroupResource(group, plural)
        for group, plurals in (
            ("admissionregistration.k8s.io", "mutatingadmissionpolicies mutatingadmissionpolicybindings"),
            ("admissionregistration.k8s.io", "mutatingwebhookconfigurations validatingwebhookconfigurations"),
            ("admissionregistration.k8s.io", "validatingadmissionpolicies validatingadmissionpolicybindings"),
            ("apiextensions.k8s.io", "customresourcedefinitions"),
            ("apiregistration.k8s.io", "apiservices"),
            ("certificates.k8s.io", "clustertrustbundles podcertificaterequests"),
            ("coordination.k8s.io", "leasecandidates leases"),
            ("internal.apiserver.k8s.io", "storageversions"),
            ("node.k8s.io", "runtimeclasses"),
            ("policy", "poddisruptionbudgets"),
            ("storage.k8s.io", "csidrivers csinodes csistoragecapacities volumeattachments"),
        )
        for plural in plurals.split()
    }
)
#: Kinds that an update of a missing name creates.
_CREATED_BY_UPDATE: Final = frozenset(
    {
        GroupResource("", "endpoints"),
        GroupResource("", "events"),
        GroupResource("", "limitranges"),
        GroupResource("", "services"),
        GroupResource("coordination.k8s.io", "leasecandidates"),
        GroupResource("coordination.k8s.io", "leases"),
        GroupResource("events.k8s.io", "events"),
        GroupResource("node.k8s.io", "runtimeclasses"),
        GroupResource("rbac.authorization.k8s.io", "clusterrolebindings"),
        GroupResource("rbac.authorization.k8s.io", "clusterroles"),
        GroupResource("rbac.authorization.k8s.io", "rolebindings"),
        GroupResource("rbac.authorization.k8s.io", "roles"),
    }
)


def uid(bits: int) -> str:
    """A random (version 4) UUID; `uuid.UUID` takes three times as long."""
    digits = f"{bits & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def created_by_update(at: Attributes) -> bool:
    """Whether a PUT to a missing name creates the object."""
    return not at.subresource and at.resource.group_resource in _CREATED_BY_UPDATE


def fill_new(obj: Object, at: Attributes, *, uid: str) -> None:
    """Set the server's metadata of a new object: clients do not choose it."""
    metadata = obj["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"):
        metadata.pop(name, None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = times.format_time(at.now)


def carry_over(new: Object, live: Object) -> None:
    """Carry over what an update cannot remove."""
    metadata, before = new["metadata"], live["metadata"]
    for name in _CARRIED:
        if not metadata.get(name) and name in before:
            metadata[name] = before[name]
    metadata.pop("selfLink", None)
    metadata.pop("generation", None)
    if "generation" in before:
        metadata["generation"] = before["generation"]


def check_update(new: Object, live: Object, at: Attributes) -> None:
    """Refuse an update of another object than the client has seen."""
    metadata, before = new["metadata"], live["metadata"]
    group_resource, name = at.resource.group_resource, before["name"]
    uid = metadata.get("uid")
    if uid and uid != before["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}"
        raise errors.conflict(group_resource, name, why)
    version = metadata.get("resourceVersion") or ""
    if version in {"", "0"}:
        if at.resource.custom or group_resource in _CONDITIONAL_ONLY:
            path = fields.Path("metadata").child("resourceVersion")
            # upstream names the resource here, and the kind elsewhere
            named = GroupKind(*group_resource)
            raise errors.invalid(named, name, [fields.invalid(path, 0, "must be specified for an update")])
    elif version != before["resourceVersion"]:
        raise errors.conflict(group_resource, name)
