"""Discovery: the kinds that a server serves, including custom kinds.

Uses aggregated discovery, two calls for everything; a server that does not support it is asked group by group. A group
whose own server does not answer is left out and named, so that "unknown" is not taken for "none".
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors, identifiers
from rota.api.kinds import ResourceType
from rota.client import paths, wire
from rota.client.verbs import Client

_ACCEPT: Final = ",".join(
    (
        *(f"application/json;g=apidiscovery.k8s.io;v={one};as=APIGroupDiscoveryList" for one in ("v2", "v2beta1")),
        "application/json",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """The served resources. Of each group's versions the preferred one comes first."""

    types: tuple[ResourceType, ...]
    #: `group/version` of what could not be read.
    failed: tuple[str, ...] = ()

    def preferred(self) -> tuple[ResourceType, ...]:
        """Each resource once, in its preferred version."""
        first: dict[identifiers.GroupResource, ResourceType] = {}
        for one in self.types:
            first.setdefault(one.group_resource, one)
        return tuple(first.values())


async def discover(client: Client) -> Discovered:
    """Ask the server."""
    types: list[ResourceType] = []
    failed: list[str] = []
    for root in ("/api", "/apis"):
        answer = wire.decode_object(await client.request("GET", root, accept=_ACCEPT))
        if answer.get("kind") == "APIGroupDiscoveryList":
            for group in answer.get("items") or ():
                for version in group.get("versions") or ():
                    types += _aggregated(group["metadata"].get("name") or "", version)
                    if version.get("freshness") == "Stale":
                        failed.append(f"{group['metadata'].get('name') or ''}/{version['version']}")
            continue
        for group_version in _group_versions(answer):
            try:
                types += await _plain(client, group_version)
            except (errors.ServiceUnavailable, errors.NotFound):
                failed.append(str(group_version))
    return Discovered(types=tuple(types), failed=tuple(failed))


def _group_versions(answer: Mapping[str, Any]) -> Iterator[identifiers.GroupVersion]:
    """The group versions of the unaggregated answers: `APIVersions` of the core group, `APIGroupList` of all others."""
    for version in answer.get("versions") or ():
        yield identifiers.GroupVersion("", version)
    for group in answer.get("groups") or ():
        preferred = (group.get("preferredVersion") or {}).get("version")
        versions = [one["version"] for one in group.get("versions") or ()]
        for version in sorted(versions, key=lambda one: one != preferred):
            yield identifiers.GroupVersion(group["name"], version)


def _aggregated(group: str, version: Mapping[str, Any]) -> Iterable[ResourceType]:
    for one in version.get("resources") or ():
        yield ResourceType(
            group=group,
            version=version["version"],
            kind=(one.get("responseKind") or {}).get("kind") or "",
            plural=one["resource"],
            namespaced=one.get("scope") == "Namespaced",
            singular=one.get("singularResource") or "",
            short_names=tuple(one.get("shortNames") or ()),
            categories=tuple(one.get("categories") or ()),
            verbs=tuple(one.get("verbs") or ()),
        )


async def _plain(client: Client, group_version: identifiers.GroupVersion) -> list[ResourceType]:
    path = paths.group_version(group_version.group, group_version.version)
    answer = wire.decode_object(await client.request("GET", path))
    return [
        ResourceType(
            group=group_version.group,
            version=group_version.version,
            kind=one["kind"],
            plural=one["name"],
            namespaced=bool(one.get("namespaced")),
            singular=one.get("singularName") or "",
            short_names=tuple(one.get("shortNames") or ()),
            categories=tuple(one.get("categories") or ()),
            verbs=tuple(one.get("verbs") or ()),
        )
        for one in answer.get("resources") or ()
        if "/" not in one["name"]
    ]
