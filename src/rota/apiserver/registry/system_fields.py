"""The part of metadata that belongs to the server: set at creation, carried over by updates. Pure."""

from typing import Final

from rota.api import errors, fields, times
from rota.api.identifiers import GroupResource
from rota.apiserver.contract import Attributes, Object

#: Carried over from the live object when a client leaves them out; other values are refused by validation.
_CARRIED: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace")
#: Go prints the absent version as the hexadecimal number that it is inside.
_UNCONDITIONAL: Final = "0x0: must be specified for an update"
#: Kinds that are only updated by those who say which version they have seen.
_CONDITIONAL_ONLY: Final = frozenset(
    {
        GroupResource("apiextensions.k8s.io", "customresourcedefinitions"),
        GroupResource("apiregistration.k8s.io", "apiservices"),
        GroupResource("coordination.k8s.io", "leases"),
        GroupResource("policy", "poddisruptionbudgets"),
    }
)
#: Kinds that an update of a name that does not exist creates.
_CREATED_BY_UPDATE: Final = frozenset(
    {
        GroupResource("", "endpoints"),
        GroupResource("", "events"),
        GroupResource("", "limitranges"),
        GroupResource("", "services"),
        GroupResource("coordination.k8s.io", "leases"),
        GroupResource("events.k8s.io", "events"),
        GroupResource("rbac.authorization.k8s.io", "clusterrolebindings"),
        GroupResource("rbac.authorization.k8s.io", "clusterroles"),
        GroupResource("rbac.authorization.k8s.io", "rolebindings"),
        GroupResource("rbac.authorization.k8s.io", "roles"),
    }
)


def created_by_update(at: Attributes) -> bool:
    """Whether a PUT to a name that is free creates the object."""
    return not at.subresource and at.resource.group_resource in _CREATED_BY_UPDATE


def fill_new(obj: Object, at: Attributes, *, uid: str) -> None:
    """Make a new object the server's: clients do not choose what is set here."""
    metadata = obj["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"):
        metadata.pop(name, None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = times.format_time(at.now)


def carry_over(new: Object, live: Object) -> None:
    """Give an updated object what it cannot lose."""
    metadata, before = new["metadata"], live["metadata"]
    for name in _CARRIED:
        if not metadata.get(name) and name in before:
            metadata[name] = before[name]
    metadata.pop("selfLink", None)
    metadata.pop("generation", None)
    if "generation" in before:
        metadata["generation"] = before["generation"]


def check_update(new: Object, live: Object, at: Attributes) -> None:
    """Refuse an update of something else than the client has seen."""
    metadata, before = new["metadata"], live["metadata"]
    group_resource, name = at.resource.group_resource, before["name"]
    uid = metadata.get("uid")
    if uid and uid != before["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}"
        raise errors.conflict(group_resource, name, why)
    version = metadata.get("resourceVersion") or ""
    if version in {"", "0"}:
        if at.resource.custom or group_resource in _CONDITIONAL_ONLY:
            wrong = fields.FieldError(fields.ErrorType.INVALID, "metadata.resourceVersion", _UNCONDITIONAL)
            raise errors.invalid(at.resource.group_kind, name, [wrong])
    elif version != before["resourceVersion"]:
        raise errors.conflict(group_resource, name)
