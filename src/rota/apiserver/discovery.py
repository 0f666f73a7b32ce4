"""Discovery: the groups, versions, resources, subresources and verbs that the server serves.

Everything follows from a `Scheme`. The plain lists (`APIVersions`, `APIGroupList`, `APIGroup`, `APIResourceList`) hold
one level each; the aggregated form holds all groups in one document, in two versions with the same body. Clients before
1.30 read `v2beta1` only and take a response in `v2` for an empty one, so the requested version is in the content type
as well as in the document. The functions are pure; `Discovery` caches their results until the scheme changes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from rota.api import errors
from rota.api.identifiers import GroupVersion, GroupVersionKind
from rota.api.kinds import ResourceType, Subresource
from rota.api.scheme import Scheme
from rota.apiserver.http import cached_documents, negotiation
from rota.apiserver.http.cached_documents import Document

#: Whether a subresource of the scheme is shown; one that is refused when called should not be shown.
Shown: TypeAlias = Callable[[ResourceType, Subresource], bool]

AGGREGATED_VERSIONS: Final = ("v2", "v2beta1")
_AGGREGATED_GROUP: Final = "apidiscovery.k8s.io"
_AGGREGATED_KIND: Final = "APIGroupDiscoveryList"
_MEDIA_TYPES: Final = frozenset({"application/json", "application/*", "*/*"})
_PRODUCED: Final = ("application/json",)

#: The order of groups decides which one a bare name means if several have a resource of that name. Groups that are not
#: listed follow in order of names, and so do all custom ones.
_ORDER: Final = {
    group: position
    for position, group in enumerate(
        (
            "",
            "apiregistration.k8s.io",
            "apps",
            "events.k8s.io",
            "authentication.k8s.io",
            "authorization.k8s.io",
            "autoscaling",
            "batch",
            "certificates.k8s.io",
            "networking.k8s.io",
            "policy",
            "rbac.authorization.k8s.io",
            "storage.k8s.io",
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "scheduling.k8s.io",
            "coordination.k8s.io",
            "node.k8s.io",
            "discovery.k8s.io",
            "resource.k8s.io",
            "flowcontrol.apiserver.k8s.io",
        )
    )
}


class ForeignGroups(Protocol):
    """The APIs of other servers that are served here too."""

    #: Changes with everything below.
    generation: int

    def groups(self) -> Mapping[str, Sequence[str]]:
        """The versions of each group, the preferred one first."""
        ...

    def discovered(self, at: GroupVersion, /) -> dict[str, Any] | None:
        """A group version in the aggregated form; None if it is this server's own."""
        ...


class _NoGroups:
    generation = 0

    def groups(self) -> Mapping[str, Sequence[str]]:
        return {}

    def discovered(self, _: GroupVersion, /) -> dict[str, Any] | None:
        return None


NO_GROUPS: Final[ForeignGroups] = _NoGroups()


def show_all(_resource: ResourceType, _subresource: Subresource) -> bool:
    """Show everything."""
    return True


class Discovery:
    """The discovery documents of a scheme, cached until the scheme changes."""

    def __init__(
        self,
        scheme: Scheme,
        *,
        server_address: str = "",
        shown: Shown = show_all,
        foreign: ForeignGroups = NO_GROUPS,
    ) -> None:
        self._scheme: Final = scheme
        self._foreign: Final = foreign
        self._server_address: Final = server_address
        self._shown: Final = shown
        self._generation = (-1, -1)
        self._made: dict[tuple[str, str], Document] = {}

    def document(self, path: str, accept: str = "") -> Document | None:
        """The document for `/api`, `/apis` or a path one or two segments below; None if there is none.

        NotAcceptable if the client does not accept JSON. Send it with `http.cached_documents.respond`.
        """
        segments = tuple(path.strip("/").split("/"))
        if not self._exists(segments):
            return None
        version = aggregated_version(accept)
        generation = self._scheme.generation, self._foreign.generation
        if generation != self._generation:
            self._generation, self._made = generation, {}
        # below the roots there is only the plain form
        key = ("/".join(segments), version if len(segments) == 1 else "")
        made = self._made.get(key)
        if made is None:
            made = self._make(segments, version)
            # a missing document is not cached: there may be any number
            if made is not None:
                self._made[key] = made
        return made

    def _exists(self, segments: tuple[str, ...]) -> bool:
        """Whether there is a document, so that a missing one is 404 and not refused for its format."""
        groups = self._scheme.groups()
        match segments:
            case ("api" | "apis",):
                return True
            case ("apis", group):
                return bool(group) and (group in groups or group in self._foreign.groups())
            case ("api", version):
                return version in groups.get("", ())
            case ("apis", group, version):
                return bool(group) and version in groups.get(group, ())
        return False

    def _make(self, segments: tuple[str, ...], aggregated: str) -> Document | None:
        scheme, shown, foreign = self._scheme, self._shown, self._foreign
        match segments:
            case (("api" | "apis") as root,) if aggregated:
                content_type = f"application/json;g={_AGGREGATED_GROUP};v={aggregated};as={_AGGREGATED_KIND}"
                return cached_documents.encode(
                    aggregated_list(scheme, root, aggregated, shown=shown, foreign=foreign), content_type
                )
            case ("api",):
                return cached_documents.encode(api_versions(scheme, self._server_address))
            case ("apis",):
                return cached_documents.encode(group_list(scheme, foreign))
            case ("apis", group) if group:
                return _document(group_description(scheme, group, foreign))
            case ("api", version):
                return _document(resource_list(scheme, GroupVersion("", version), shown=shown))
            case ("apis", group, version) if group:
                return _document(resource_list(scheme, GroupVersion(group, version), shown=shown))
        return None


def aggregated_version(accept: str) -> str:
    """The aggregated version that an Accept header asks for; empty for the plain form."""
    if not accept:
        return ""
    for clause in negotiation.parse(accept):
        if clause.media_type not in _MEDIA_TYPES or clause.quality <= 0:
            continue
        wanted, version = clause.parameters.get("as"), clause.parameters.get("v", "")
        if wanted is None:
            return ""
        if (
            wanted == _AGGREGATED_KIND
            and clause.parameters.get("g") == _AGGREGATED_GROUP
            and version in AGGREGATED_VERSIONS
        ):
            return version
    raise errors.not_acceptable(_PRODUCED)


def api_versions(scheme: Scheme, server_address: str = "") -> dict[str, Any]:
    """The versions of the core group; `server_address` is the address for all clients."""
    return {
        "kind": "APIVersions",
        "versions": list(scheme.groups().get("", ())),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }


def group_list(scheme: Scheme, foreign: ForeignGroups = NO_GROUPS) -> dict[str, Any]:
    """All groups but the core group."""
    listed = [_group(group, versions) for group, versions in _groups(scheme, foreign) if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group_description(scheme: Scheme, group: str, foreign: ForeignGroups = NO_GROUPS) -> dict[str, Any] | None:
    """One group with its versions; None if there is no such group."""
    versions = dict(_groups(scheme, foreign)).get(group)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)} if versions else None


def resource_list(scheme: Scheme, at: GroupVersion, *, shown: Shown = show_all) -> dict[str, Any] | None:
    """The resources and subresources of a group and version; None if nothing is served there."""
    types = scheme.in_group_version(at)
    if not types:
        return None
    resources = [entry for one in types for entry in _entries(one, shown)]
    # the core group's list has no apiVersion
    versioned = {"apiVersion": "v1"} if at.group else {}
    return {"kind": "APIResourceList", **versioned, "groupVersion": str(at), "resources": resources}


def aggregated_list(
    scheme: Scheme, root: str, version: str, *, shown: Shown = show_all, foreign: ForeignGroups = NO_GROUPS
) -> dict[str, Any]:
    """All groups below `api` (the core group) or `apis` (all others) with everything in them."""
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                foreign.discovered(at) or _discovered_version(scheme, at, shown)
                for at in (GroupVersion(group, one) for one in versions)
            ],
        }
        for group, versions in _groups(scheme, foreign)
        if (root == "api") == (not group)
    ]
    api_version = f"{_AGGREGATED_GROUP}/{version}"
    return {"kind": _AGGREGATED_KIND, "apiVersion": api_version, "metadata": {}, "items": items}


def _document(content: dict[str, Any] | None) -> Document | None:
    return None if content is None else cached_documents.encode(content)


def _groups(scheme: Scheme, foreign: ForeignGroups) -> list[tuple[str, tuple[str, ...]]]:
    found = dict(scheme.groups())
    for group, versions in foreign.groups().items():
        own = found.get(group, ())
        found[group] = (*own, *(one for one in versions if one not in own))
    return sorted(found.items(), key=lambda entry: (_ORDER.get(entry[0], len(_ORDER)), entry[0]))


def _group(group: str, versions: tuple[str, ...]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _entries(one: ResourceType, shown: Shown) -> list[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": one.plural,
        "singularName": one.singular,
        "namespaced": one.namespaced,
        "kind": one.kind,
        "verbs": list(one.verbs),
        **_nicknames(one),
    }
    return [entry, *(_subresource_entry(one, part) for part in _parts(one, shown))]


def _subresource_entry(one: ResourceType, part: Subresource) -> dict[str, Any]:
    # kubectl drain evicts only if the group and version of the Eviction kind are given
    foreign = part.kind[:2] != one.group_version
    return {
        "name": f"{one.plural}/{part.name}",
        "singularName": "",
        "namespaced": one.namespaced,
        **({"group": part.kind.group, "version": part.kind.version} if foreign else {}),
        "kind": part.kind.kind,
        "verbs": list(part.verbs),
    }


def _discovered_version(scheme: Scheme, at: GroupVersion, shown: Shown) -> dict[str, Any]:
    resources = [_discovered(one, shown) for one in scheme.in_group_version(at)]
    return {"version": at.version, "resources": resources, "freshness": "Current"}


def _discovered(one: ResourceType, shown: Shown) -> dict[str, Any]:
    subresources = [
        {"subresource": part.name, "responseKind": _response_kind(part.kind), "verbs": list(part.verbs)}
        for part in _parts(one, shown)
    ]
    return {
        "resource": one.plural,
        "responseKind": _response_kind(one.gvk),
        "scope": "Namespaced" if one.namespaced else "Cluster",
        "singularResource": one.singular,
        "verbs": list(one.verbs),
        **_nicknames(one),
        **({"subresources": subresources} if subresources else {}),
    }


def _parts(one: ResourceType, shown: Shown) -> list[Subresource]:
    return [part for part in one.subresources.values() if shown(one, part)]


def _nicknames(one: ResourceType) -> dict[str, list[str]]:
    named = {"shortNames": list(one.short_names), "categories": list(one.categories)}
    return {name: listed for name, listed in named.items() if listed}


def _response_kind(kind: GroupVersionKind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}
