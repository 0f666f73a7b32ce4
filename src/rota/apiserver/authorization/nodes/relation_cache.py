"""The relations of nodes, in step with the store.

Pods are not watched for this until the first request of a node: a server without workers does not pay for them. After
that it costs a check of every change of a pod, and the names that the pod references.
"""

import asyncio
import functools
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import errors, keys, meta
from rota.api.identifiers import GroupResource
from rota.api.scheme import Scheme
from rota.apiserver import stored_form
from rota.apiserver.authorization.nodes import references, relations
from rota.apiserver.authorization.nodes.relations import Relations
from rota.apiserver.authorization.policy_cache import STALE
from rota.apiserver.cache.reflector import StoreReflector
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Object
from rota.kit import tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.store.store_interface import Batch, Entry, Store

_decoder: Final = msgspec.json.Decoder(dict[str, Any])


class RelationCache:
    """Relations in step with the store, once they are needed."""

    def __init__(self, store: Store, scheme: Scheme, clock: Clock) -> None:
        self.relations: Final = Relations()
        self._clock: Final = clock
        self._wanted: Final = asyncio.Event()
        pods = scheme.preferred(GroupResource("", relations.PODS))
        assert pods is not None, "pods are built in"
        runs = scheme.preferred(GroupResource("rota.dev", relations.RUNS))
        assert runs is not None, "runs of pipelines are built in"
        of_pods = _Related(self.relations.pods, self._pod_changed)
        of_runs = _Related(self.relations.runs, self._run_changed)
        self._pods: Final = StoreReflector(store, stored_form.prefix(pods, None), of_pods, clock=clock)
        self._runs: Final = StoreReflector(store, stored_form.prefix(runs, None), of_runs, clock=clock)
        self._others: Final[list[WatchCache]] = []
        for group, plural, listener in (
            ("", relations.VOLUMES, self._volume_changed),
            ("storage.k8s.io", relations.ATTACHMENTS, self._attachment_changed),
            ("resource.k8s.io", relations.SLICES, self._slice_changed),
        ):
            resource = scheme.preferred(GroupResource(group, plural))
            assert resource is not None, "these kinds are built in"
            followed = WatchCache(store, resource, clock)
            followed.subscribe(listener)
            self._others.append(followed)

    async def run(self, rng: Rng) -> None:
        """Watch until cancelled, starting when the relations are first needed."""
        await self._wanted.wait()
        async with tasks.Supervisor("relations of nodes", clock=self._clock, rng=rng) as beside:
            beside.start("pods", self._pods.run)
            beside.start("runs of pipelines", self._runs.run)
            for position, followed in enumerate(self._others):
                beside.start(f"others {position}", followed.run)
            await beside.wait()

    async def ready(self) -> None:
        """Wait until the first list is complete; the first call starts the watch."""
        self._wanted.set()
        await self._pods.ready()
        await self._runs.ready()
        for one in self._others:
            await one.ready()

    async def catch_up(self, revision: int) -> None:
        """Wait until everything up to a revision is known. ServiceUnavailable if that fails."""
        followers: tuple[StoreReflector | WatchCache, ...] = (self._pods, self._runs, *self._others)
        behind = [one for one in followers if one.revision < revision]
        if not all(await asyncio.gather(*(one.reach(revision) for one in behind))):
            raise errors.service_unavailable(STALE)

    def _pod_changed(self, namespace: str, name: str, value: bytes | None) -> None:
        node, needs = _wants(value) if value is not None else _NOTHING
        self.relations.put_pod(namespace, name, node, needs)

    def _run_changed(self, namespace: str, name: str, value: bytes | None) -> None:
        status = _run_decoder.decode(value).status if value is not None else None
        self.relations.put_run(namespace, name, status.workspaceNode if status else "")

    def _volume_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.relations.put_volume(meta.name(new), *references.of_volume(new))
        elif old is not None:
            self.relations.put_volume(meta.name(old), None, frozenset())

    def _attachment_changed(self, old: Object | None, new: Object | None) -> None:
        self._names_node(relations.ATTACHMENTS, old, new)

    def _slice_changed(self, old: Object | None, new: Object | None) -> None:
        self._names_node(relations.SLICES, old, new)

    def _names_node(self, resource: str, old: Object | None, new: Object | None) -> None:
        about = new if new is not None else old
        assert about is not None, "a change is of something"
        node = (new.get("spec") or {}).get("nodeName") or "" if new is not None else ""
        self.relations.put_naming(resource, meta.name(about), node)


_Wants: TypeAlias = tuple[str, frozenset[references.Reference]]
_NOTHING: Final[_Wants] = ("", frozenset())
#: Fields that make references depend on more than the spec: claims are named after their pods, or in their statuses.
_OWN_CLAIMS: Final = (b'"ephemeral":', b'"resourceClaims":')


class _PodMetadata(msgspec.Struct, frozen=True, gc=False):
    namespace: str = ""
    annotations: dict[str, str] | None = None


class _Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: _PodMetadata
    spec: msgspec.Raw


_pod_decoder: Final = msgspec.json.Decoder(_Pod)


def _wants(value: bytes) -> _Wants:
    """The node of a stored pod, and what it references; pods of one template on one node are parsed once."""
    pod = _pod_decoder.decode(value)
    spec = bytes(pod.spec)
    if pod.metadata.annotations or any(mark in spec for mark in _OWN_CLAIMS):
        return _looked_at(_decoder.decode(value))
    return _of_spec(pod.metadata.namespace, spec)


@functools.lru_cache(maxsize=1024)
def _of_spec(namespace: str, spec: bytes) -> _Wants:
    return _looked_at({"metadata": {"namespace": namespace}, "spec": _decoder.decode(spec)})


def _looked_at(pod: Object) -> _Wants:
    node = pod["spec"].get("nodeName") or ""
    return (node, references.of_pod(pod)) if node else _NOTHING


class _RunStatus(msgspec.Struct, frozen=True, gc=False):
    workspaceNode: str = ""  # noqa: N815 - as on the wire


class _Run(msgspec.Struct, frozen=True, gc=False):
    """The fields of a run that are read; the rest, which may be large, is skipped."""

    status: _RunStatus | None = None


_run_decoder: Final = msgspec.json.Decoder(_Run)


class _Related:
    """The sink of the reflectors of pods and runs; see `Sink`."""

    def __init__(
        self, known: Callable[[], set[tuple[str, str]]], put: Callable[[str, str, bytes | None], None]
    ) -> None:
        self._known: Final = known
        self._put: Final = put
        self._seen: set[tuple[str, str]] = set()

    def begin(self) -> None:
        """See `Sink.begin`."""
        self._seen = set()

    def add(self, entry: Entry, /) -> None:
        """See `Sink.add`."""
        place = keys.split(entry.key)
        self._seen.add((place.namespace, place.name))
        self._put(place.namespace, place.name, entry.value)

    def begun(self, revision: int, /) -> None:
        """See `Sink.begun`."""
        for namespace, name in self._known() - self._seen:
            self._put(namespace, name, None)

    def take(self, batch: Batch, /) -> None:
        """See `Sink.take`."""
        for event in batch.events:
            place = keys.split(event.key)
            self._put(place.namespace, place.name, event.value)

    def lost(self) -> None:
        """See `Sink.lost`: what was known last is still the best guess."""
