"""The client: every verb of the API on every kind, with plain dicts.

Kinds are named by `ResourceType` or (group, version, plural). An error of the server is raised as the
`rota.api.errors.ApiError` of its reason, a missing answer as a `TransportError`. Typed access is in `typed`, actions on
pods in `pods`, caches in `informers`. Works on any Kubernetes API server.
"""

import contextlib
import enum
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import errors, meta
from rota.client import paths, wire
from rota.client.paths import Target
from rota.client.transports.transport import DEFAULT_TIMEOUT_S, Answer, Call, Transport
from rota.kit import logs
from rota.kit.metrics import Metrics

log = logs.get(__name__)

Object: TypeAlias = dict[str, Any]
Query: TypeAlias = Sequence[tuple[str, str]]
_Pairs: TypeAlias = list[tuple[str, str]]

#: The header of a write with the leader's term.
_TERM: Final = "Rota-Term"
_JSON: Final = "application/json"
#: Objects reduced to their metadata, from servers that support it; for lists and for single objects.
_METADATA: Final = f"{_JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{_JSON}"
_METADATA_LIST: Final = f"{_JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{_JSON}"
#: Objects per page of a list: a page is encoded and decoded in a few milliseconds, so other requests do not wait long.
PAGE_SIZE: Final = 500
#: How late the end of a watch may be before the client aborts it.
_WATCH_SLACK_S: Final = 30.0

_encode: Final = msgspec.json.Encoder().encode


class PatchType(enum.Enum):
    """The format of a patch; the values are media types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Propagation(enum.Enum):
    """What happens to the dependents of a deleted object."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A selection of objects of a collection; the empty one selects all."""

    labels: str = ""
    fields: str = ""

    def query(self) -> _Pairs:
        """As query parameters."""
        pairs = (("labelSelector", self.labels), ("fieldSelector", self.fields))
        return [(name, value) for name, value in pairs if value]


EVERYTHING: Final = Selection()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a client."""

    user_agent: str = "rota"
    #: The field manager of its writes.
    field_manager: str = "rota"
    timeout_s: float = DEFAULT_TIMEOUT_S
    #: Whether the transport may retry calls.
    retry: bool = True
    #: Whether objects are read and patched as their metadata only, which saves the transfer of the rest.
    metadata_only: bool = False
    #: Called with every warning of a server.
    on_warning: Callable[[str], None] | None = None
    #: The leader's term of writes, as `elections.lease_claims.Term.header` has it; Rota's server refuses them after the
    #: term.
    term: Callable[[], str] | None = None
    #: The shared informers of this process (`informers.shared_informers.SharedInformers`), if any.
    informers: object | None = None
    #: The metrics of the component that uses this client.
    metrics: Metrics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All objects of a list, and the revision from which a watch continues it."""

    items: list[Object]
    resource_version: str


class Client:
    """Verbs over a transport, which its creator closes. `with_settings` returns a view with the same connections."""

    def __init__(self, transport: Transport, settings: Settings | None = None) -> None:
        self._transport: Final = transport
        self.settings: Final = settings or Settings()

    def with_settings(self, **changes: Any) -> "Client":
        """The same client with some settings changed: `with_settings(timeout_s=5, retry=False)`."""
        return Client(self._transport, replace(self.settings, **changes))

    async def get(
        self, target: Target, name: str, *, namespace: str = "", subresource: str = "", resource_version: str = ""
    ) -> Object:
        """One object; `NotFound` if there is none."""
        query = [("resourceVersion", resource_version)] if resource_version else []
        path = paths.item(target, name, namespace=namespace, subresource=subresource)
        return wire.decode_object(await self.request("GET", path, query=query, accept=self._accept()))

    async def list(
        self, target: Target, *, namespace: str = "", selection: Selection = EVERYTHING, limit: int = PAGE_SIZE
    ) -> Listing:
        """All selected objects as of one revision, read in pages; a list whose pages expire starts again."""
        items: list[bytes] = []
        resource_version = ""
        async for page in self.pages(target, namespace=namespace, selection=selection, limit=limit):
            if page is None:
                items.clear()
                continue
            items += page.items
            resource_version = page.resource_version
        return Listing(items=[wire.decode_object(one) for one in items], resource_version=resource_version)

    async def pages(
        self, target: Target, *, namespace: str = "", selection: Selection = EVERYTHING, limit: int = PAGE_SIZE
    ) -> AsyncIterator[wire.Page | None]:
        """The pages of a list; None means: drop the pages so far, the list starts again (its snapshot expired)."""
        continue_ = ""
        while True:
            try:
                page = await self.page(
                    target, namespace=namespace, selection=selection, limit=limit, continue_=continue_
                )
            except (errors.Expired, errors.Gone):
                if not continue_:
                    raise
                # The list expired while paging; in a single page it cannot.
                continue_, limit = "", 0
                yield None
                continue
            yield page
            continue_ = page.continue_
            if not continue_:
                return

    async def page(
        self,
        target: Target,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
    ) -> wire.Page:
        """One page of a list, its objects as bytes."""
        query = selection.query()
        if limit:
            query.append(("limit", str(limit)))
        if continue_:
            query.append(("continue", continue_))
        if resource_version:
            query.append(("resourceVersion", resource_version))
        path = paths.collection(target, namespace)
        return wire.decode_page(await self.request("GET", path, query=query, accept=self._accept(listing=True)))

    @contextlib.asynccontextmanager
    async def watch(
        self,
        target: Target,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        bookmarks: bool = True,
        timeout_s: int | None = None,
    ) -> AsyncIterator[AsyncIterator[wire.WatchEvent]]:
        """Changes after a revision; `Expired` (at once or later) if it was compacted.

        `timeout_s` is when the server should end the watch; without it, the server decides.
        """
        call = self._watching(
            target,
            namespace=namespace,
            selection=selection,
            resource_version=resource_version,
            bookmarks=bookmarks,
            timeout_s=timeout_s,
        )
        async with self._answer(call) as answer:
            yield wire.events(answer.chunks())

    @contextlib.asynccontextmanager
    async def follow(
        self,
        target: Target,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        timeout_s: int | None = None,
    ) -> AsyncIterator[AsyncIterator[wire.Batch]]:
        """As `watch`, with bookmarks, many events at a time: see `wire.batches`."""
        call = self._watching(
            target,
            namespace=namespace,
            selection=selection,
            resource_version=resource_version,
            bookmarks=True,
            timeout_s=timeout_s,
        )
        async with self._answer(call) as answer:
            yield wire.batches(answer.chunks())

    def _watching(
        self,
        target: Target,
        *,
        namespace: str,
        selection: Selection,
        resource_version: str,
        bookmarks: bool,
        timeout_s: int | None,
    ) -> Call:
        query = [*selection.query(), ("watch", "true")]
        if resource_version:
            query.append(("resourceVersion", resource_version))
        if bookmarks:
            query.append(("allowWatchBookmarks", "true"))
        if timeout_s is not None:
            query.append(("timeoutSeconds", str(timeout_s)))
        call = self._call("GET", paths.collection(target, namespace), query=query, accept=self._accept())
        return replace(call, timeout_s=None if timeout_s is None else timeout_s + _WATCH_SLACK_S)

    async def create(
        self,
        target: Target,
        obj: Mapping[str, Any],
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Create an object, or, with `name` and `subresource`, act on one."""
        where = namespace or meta.namespace(obj)
        if subresource:
            path = paths.item(target, name, namespace=where, subresource=subresource)
        else:
            paths.require_namespace(target, where)
            path = paths.collection(target, where)
        return wire.decode_object(
            await self.request("POST", path, query=self._write_query(dry_run), body=_encode(obj), content_type=_JSON)
        )

    async def update(
        self, target: Target, obj: Mapping[str, Any], *, subresource: str = "", dry_run: bool = False
    ) -> Object:
        """Replace an object; `Conflict` if its resourceVersion is outdated."""
        path = paths.item(target, meta.name(obj), namespace=meta.namespace(obj), subresource=subresource)
        return wire.decode_object(
            await self.request("PUT", path, query=self._write_query(dry_run), body=_encode(obj), content_type=_JSON)
        )

    async def patch(
        self,
        target: Target,
        name: str,
        patch: Any,
        *,
        type: PatchType = PatchType.MERGE,  # noqa: A002 - the word of the API
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
        force: bool = False,
        field_manager: str = "",
    ) -> Object:
        """Change parts of an object."""
        query = self._write_query(dry_run, field_manager)
        if force:
            query.append(("force", "true"))
        path = paths.item(target, name, namespace=namespace, subresource=subresource)
        return wire.decode_object(
            await self.request(
                "PATCH", path, query=query, body=_encode(patch), content_type=type.value, accept=self._accept()
            )
        )

    async def apply(
        self,
        target: Target,
        obj: Mapping[str, Any],
        *,
        field_manager: str = "",
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply of an object's fields; `Conflict` if another manager owns some of them."""
        return await self.patch(
            target,
            meta.name(obj),
            obj,
            type=PatchType.APPLY,
            namespace=meta.namespace(obj),
            subresource=subresource,
            dry_run=dry_run,
            force=force,
            field_manager=field_manager,
        )

    async def delete(
        self,
        target: Target,
        name: str,
        *,
        namespace: str = "",
        propagation: Propagation | None = None,
        grace_period_s: int | None = None,
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Delete an object; with a uid or a resourceVersion only that one (`Conflict` otherwise).

        Returns the object if it is not deleted yet (finalizers, grace period), or a `Status`.
        """
        options = _delete_options(propagation, grace_period_s, dry_run)
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if any(preconditions.values()):
            options["preconditions"] = {name: value for name, value in preconditions.items() if value}
        path = paths.item(target, name, namespace=namespace)
        return wire.decode_object(await self.request("DELETE", path, body=_encode(options), content_type=_JSON))

    async def delete_collection(
        self,
        target: Target,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        propagation: Propagation | None = None,
        grace_period_s: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Delete all selected objects."""
        options = _delete_options(propagation, grace_period_s, dry_run)
        path = paths.collection(target, namespace)
        return wire.decode_object(
            await self.request("DELETE", path, query=selection.query(), body=_encode(options), content_type=_JSON)
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes = b"",
        content_type: str = "",
        accept: str = _JSON,
    ) -> bytes:
        """Any other call; returns the body of a successful answer."""
        call = self._call(method, path, query=query, body=body, content_type=content_type, accept=accept)
        async with self._answer(call) as answer:
            return await answer.read()

    @contextlib.asynccontextmanager
    async def stream(self, path: str, *, query: Query = (), accept: str = "*/*") -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of an answer as a stream."""
        call = self._call("GET", path, query=query, accept=accept)
        async with self._answer(replace(call, timeout_s=None)) as answer:
            yield answer.chunks()

    @contextlib.asynccontextmanager
    async def _answer(self, call: Call) -> AsyncIterator[Answer]:
        async with self._transport.open(call) as answer:
            if self.settings.on_warning is not None:
                for warning in answer.warnings:
                    self.settings.on_warning(warning)
            if not 200 <= answer.code < 300:
                raise errors.from_wire(await answer.read(), code=answer.code)
            yield answer

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Query,
        body: bytes = b"",
        content_type: str = "",
        accept: str = _JSON,
    ) -> Call:
        headers = {"User-Agent": self.settings.user_agent, "Accept": accept}
        if self.settings.term is not None and method != "GET" and (term := self.settings.term()):
            headers[_TERM] = term
        if content_type:
            headers["Content-Type"] = content_type
        return Call(
            method=method,
            path=path,
            query=tuple(query),
            headers=headers,
            body=body,
            timeout_s=self.settings.timeout_s,
            retry=self.settings.retry,
        )

    def _accept(self, *, listing: bool = False) -> str:
        if not self.settings.metadata_only:
            return _JSON
        return _METADATA_LIST if listing else _METADATA

    def _write_query(self, dry_run: bool, field_manager: str = "") -> _Pairs:
        query = [("fieldManager", field_manager or self.settings.field_manager)]
        return [*query, ("dryRun", "All")] if dry_run else query


def _delete_options(propagation: Propagation | None, grace_period_s: int | None, dry_run: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation is not None:
        options["propagationPolicy"] = propagation.value
    if grace_period_s is not None:
        options["gracePeriodSeconds"] = grace_period_s
    if dry_run:
        options["dryRun"] = ["All"]
    return options
