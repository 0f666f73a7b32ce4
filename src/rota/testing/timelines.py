"""The history of pods, nodes and events of a cluster, from a watch.

    timeline = Timeline(client, namespace="default", clock=clock)
    async with timeline.running():
        ...
    print(timeline.about("my-pod"))         # the pod, its nodes and their events, in order

A list shows the state at one moment and misses a pod that was created and deleted between two lists. A watch that
resumes where it ended shows every change, also those made while no server was reachable. If history was compacted,
the timeline records the gap.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rota.api import errors, meta
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.client.wire import EventType
from rota.kit.clock import Clock

PODS: Final = ("", "v1", "pods")
NODES: Final = ("", "v1", "nodes")
EVENTS: Final = ("", "v1", "events")
#: A server ends a watch after this time. Without an event for longer, the server is unreachable.
_WATCH_S: Final = 5
_SILENT_S: Final = 8.0
_AGAIN_S: Final = 0.25


@dataclass(slots=True)
class Seen:
    """One object, by its uid: its last state, and whether it was deleted."""

    last: Object
    gone: bool = False
    #: Whether its last state is unknown, because it was deleted in a gap of history.
    unseen_end: bool = False

    @property
    def uid(self) -> str:
        """The object's uid."""
        return meta.uid(self.last)

    @property
    def phase(self) -> str:
        """The last known phase."""
        return str((self.last.get("status") or {}).get("phase") or "")


@dataclass(frozen=True, slots=True)
class Entry:
    """One change, as text."""

    at: float
    what: str
    name: str
    words: str

    def __str__(self) -> str:
        return f"{self.at:8.2f} s  {self.what:<14} {self.name:<14} {self.words}"


@dataclass(slots=True)
class _Story:
    entries: list[Entry] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)


class Timeline:
    """The changes of one cluster since `running` began."""

    def __init__(self, client: Client, *, namespace: str, clock: Clock, began: float | None = None) -> None:
        """`began` is the moment from which times count, by the clock's monotonic time."""
        self._client: Final = client
        self._namespace: Final = namespace
        self._clock: Final = clock
        self._began: Final = clock.monotonic() if began is None else began
        self._pods: Final[dict[str, Seen]] = {}
        self._by_name: Final[dict[str, list[Seen]]] = {}
        self._stories: Final[dict[str, _Story]] = {}
        self._nodes: Final[dict[str, list[Entry]]] = {}
        #: How often history was lost.
        self.gaps = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch the cluster while the block runs."""
        async with asyncio.TaskGroup() as group:
            following = [
                group.create_task(self._follow(PODS, self._namespace, self._pod)),
                group.create_task(self._follow(NODES, "", self._node)),
                group.create_task(self._follow(EVENTS, self._namespace, self._event)),
            ]
            try:
                yield
            finally:
                for one in following:
                    one.cancel()

    def created(self, pod: Object) -> None:
        """Record the response to a create; the watch may show the pod later."""
        if meta.uid(pod) not in self._pods:
            self._pod("CREATED", pod)

    def named(self, name: str) -> Sequence[Seen]:
        """All pods that had this name, in the order of their creation."""
        return self._by_name.get(name, ())

    def about(self, name: str) -> str:
        """The history of the pods of this name, of their nodes, and the events of both; one line each."""
        state_history = self._stories.get(name)
        if state_history is None:
            return f"no server has shown a pod named {name}"
        entries = [*state_history.entries, *(one for node in state_history.nodes for one in self._nodes.get(node, ()))]
        lost = [f"history was lost {self.gaps} times: changes may be missing"] if self.gaps else []
        return "\n".join([*lost, *map(str, sorted(entries, key=lambda one: one.at))])

    async def _follow(self, target: tuple[str, str, str], namespace: str, take: Callable[[str, Object], None]) -> None:
        revision = ""
        while True:
            try:
                if not revision:
                    known = [one for one in self._pods.values() if not one.gone]
                    listing = await self._client.list(target, namespace=namespace)
                    revision = listing.resource_version
                    for one in listing.items:
                        take("LISTED", one)
                    if target == PODS:
                        self._lost(known, {meta.uid(one) for one in listing.items})
                async with self._client.watch(
                    target, namespace=namespace, resource_version=revision, timeout_s=_WATCH_S
                ) as events:
                    while (event := await self._clock.wait_for(anext(events, None), _SILENT_S)) is not None:
                        changed = event.object
                        if event.type is not EventType.BOOKMARK:
                            take(event.type.value, changed)
                        revision = str(meta.metadata(changed).get("resourceVersion") or revision)
            except (errors.Expired, errors.Gone):
                self.gaps += 1
                revision = ""
            except (errors.ApiError, TransportError, TimeoutError):
                await self._clock.sleep(_AGAIN_S)

    def _now(self) -> float:
        return self._clock.monotonic() - self._began

    def _lost(self, known: Iterable[Seen], listed: set[str]) -> None:
        for one in known:
            if one.uid not in listed:
                one.gone = one.unseen_end = True
                self._tell(meta.name(one.last), "GONE", one.uid[:8], "while history was lost")

    def _pod(self, what: str, pod: Object) -> None:
        name, uid = meta.name(pod), meta.uid(pod)
        seen = self._pods.get(uid)
        if seen is None:
            seen = self._pods[uid] = Seen(pod)
            self._by_name.setdefault(name, []).append(seen)
        seen.last = pod
        seen.gone = seen.gone or what == "DELETED"
        self._tell(name, f"pod {what.lower()}", uid[:8], _pod_words(pod))
        if node := (pod.get("spec") or {}).get("nodeName"):
            self._stories[name].nodes.add(node)

    def _node(self, what: str, node: Object) -> None:
        name = meta.name(node)
        entries = self._nodes.setdefault(name, [])
        words = _node_words(node)
        if what == "DELETED" or not entries or entries[-1].words != words:
            entries.append(Entry(self._now(), f"node {what.lower()}", name, words))

    def _event(self, what: str, event: Object) -> None:
        about = event.get("involvedObject") or event.get("regarding") or {}
        words = f"{event.get('reason')}: {event.get('message') or event.get('note') or ''}"
        if about.get("kind") == "Node":
            name = str(about.get("name"))
            self._nodes.setdefault(name, []).append(Entry(self._now(), "event", name, words))
        elif what != "DELETED":
            self._tell(str(about.get("name")), "event", str(about.get("uid") or "")[:8], words)

    def _tell(self, name: str, what: str, subject: str, words: str) -> None:
        self._stories.setdefault(name, _Story()).entries.append(Entry(self._now(), what, subject, words))


def _pod_words(pod: Object) -> str:
    status: dict[str, Any] = pod.get("status") or {}
    parts = [f"{status.get('phase') or '-'} on {(pod.get('spec') or {}).get('nodeName') or 'no node'}"]
    if status.get("reason"):
        parts.append(str(status["reason"]))
    for container in status.get("containerStatuses") or ():
        for state, details in (container.get("state") or {}).items():
            code = details.get("exitCode")
            parts.append(f"{state} {details.get('reason') or ''} {'' if code is None else f'exit {code}'}".strip())
    target = meta.condition(pod, "DisruptionTarget")
    if target is not None:
        parts.append(f"DisruptionTarget={target.get('status')} {target.get('reason') or ''}".strip())
    if stamp := meta.metadata(pod).get("deletionTimestamp"):
        parts.append(f"to be deleted at {stamp}")
    return ", ".join(parts)


def _node_words(node: Object) -> str:
    ready = meta.condition(node, "Ready") or {}
    taints = [f"{one.get('key')}:{one.get('effect')}" for one in (node.get("spec") or {}).get("taints") or ()]
    words = f"Ready={ready.get('status', 'absent')} {ready.get('reason') or ''}".strip()
    return f"{words}, taints {', '.join(taints) or 'none'}"
