"""The logs of a pod's containers, from the worker that runs them.

`LogSource` reaches the workers; here the request is checked. A pod without a node has no logs.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

from rota.api import errors, fields, gotext, times
from rota.api.identifiers import GroupKind
from rota.apiserver.interfaces import Object, Registry, Stream, SubresourceRequest
from rota.apiserver.subresources import worker_addresses
from rota.apiserver.subresources.binder import NODES, PODS

_OPTIONS: Final = GroupKind("", "PodLogOptions")
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """Which logs, and how much of them."""

    node: str
    #: Where the node's worker listens; None if the node does not say.
    address: worker_addresses.Address | None = None
    namespace: str
    pod: str
    uid: str
    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    #: RFC 3339.
    since_time: str | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


class LogSource(Protocol):
    """Reaches the workers."""

    def stream(self, request: LogRequest, /) -> AsyncIterator[bytes]:
        """The logs in pieces; ApiError before the first piece if they are not available."""
        ...


class NoWorkers:
    """For a server without a connection to workers."""

    async def stream(self, request: LogRequest, /) -> AsyncIterator[bytes]:
        """Refuses, as if the worker did not answer."""
        url = f"https://{request.node}:10250/containerLogs/{request.namespace}/{request.pod}/{request.container}"
        raise errors.InternalError(f"Get {gotext.quote(url)}: no worker of node {gotext.quote(request.node)} answers")
        yield b""  # makes this an iterator

    async def connect(self, node: str, _: worker_addresses.Address | None, /) -> NoReturn:
        """Refuses as well."""
        raise errors.InternalError(f"no worker of node {gotext.quote(node)} answers")

    async def usage(self, node: str, _: worker_addresses.Address | None, /) -> NoReturn:
        """Refuses as well."""
        raise errors.InternalError(f"no worker of node {gotext.quote(node)} answers")


class PodLog:
    """GET of `pods/<name>/log`."""

    def __init__(self, source: LogSource) -> None:
        self._source: Final = source

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Stream:
        """Plain text in pieces."""
        query, at = request.query, request.at
        numbers = _numbers(query)
        pod = (await registry.read(registry.resource(PODS), at.namespace, at.name)).object
        container = container_of(pod, query.get("container", ""))
        node = (pod.get("spec") or {}).get("nodeName")
        if not node:
            return Stream(content_type="text/plain", chunks=_nothing())
        worker = await registry.find(registry.resource(NODES), "", node)
        wanted = LogRequest(
            node=node,
            address=worker_addresses.of_node(worker.object) if worker is not None else None,
            namespace=at.namespace,
            pod=at.name,
            uid=pod["metadata"]["uid"],
            container=container,
            follow=query.get("follow") in _TRUE,
            previous=query.get("previous") in _TRUE,
            timestamps=query.get("timestamps") in _TRUE,
            since_time=query.get("sinceTime") or None,
            since_seconds=numbers["sinceSeconds"],
            tail_lines=numbers["tailLines"],
            limit_bytes=numbers["limitBytes"],
        )
        return Stream(content_type="text/plain", chunks=await _begun(self._source.stream(wanted)))


async def _begun(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same pieces, with the first one fetched: a refusal must come before the response has begun."""
    first = await anext(chunks, None)

    async def whole() -> AsyncIterator[bytes]:
        if first is not None:
            yield first
            async for chunk in chunks:
                yield chunk

    return whole()


async def _nothing() -> AsyncIterator[bytes]:
    empty: tuple[bytes, ...] = ()
    for chunk in empty:
        yield chunk


def _numbers(query: Mapping[str, str]) -> dict[str, int | None]:
    found: list[fields.FieldError] = []
    numbers: dict[str, int | None] = {}
    for name, least in (("sinceSeconds", 1), ("tailLines", 0), ("limitBytes", 1)):
        text = query.get(name)
        try:
            numbers[name] = int(text) if text else None
        except ValueError:
            raise errors.bad_request(f"{name}: {gotext.quote(text or '')} is no number") from None
        value = numbers[name]
        if value is not None and value < least:
            why = "must be greater than 0" if least else "must be greater than or equal to 0"
            found.append(fields.invalid(fields.Path(name), value, why))
    if query.get("sinceTime"):
        try:
            times.parse(query["sinceTime"])
        except ValueError as error:
            raise errors.bad_request(f"sinceTime: {error}") from None
    if query.get("sinceSeconds") and query.get("sinceTime"):
        why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        found.append(fields.forbidden(fields.ROOT, why))
    if found:
        raise errors.invalid(_OPTIONS, "", found)
    return numbers


def container_of(pod: Object, wanted: str) -> str:
    """The named container, or the only one; BadRequest if it is ambiguous."""
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    names: dict[str, list[str]] = {
        kind: [one["name"] for one in spec.get(kind) or ()]
        for kind in ("containers", "initContainers", "ephemeralContainers")
    }
    if wanted:
        if not any(wanted in found for found in names.values()):
            raise errors.bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(names["containers"]) == 1 and not names["initContainers"] and not names["ephemeralContainers"]:
        return names["containers"][0]
    if not names["containers"]:
        raise errors.bad_request(f"a container name must be specified for pod {name}")
    message = f"a container name must be specified for pod {name}, choose one of: {_list(names['containers'])}"
    for kind, title in (("initContainers", "init"), ("ephemeralContainers", "ephemeral")):
        if names[kind]:
            message += f" or one of the {title} containers: {_list(names[kind])}"
    raise errors.bad_request(message)


def _list(names: list[Any]) -> str:
    return f"[{' '.join(names)}]"
