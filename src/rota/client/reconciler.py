"""The base of controllers: informers that name keys, a work queue, and workers that reconcile each key.

    self._frame = Reconciler[Key](client, "pod-garbage-collector", self._process, clock=clock, rng=rng)
    self._pods = self._frame.follow(PODS, self._changed)
    ...
    async def run(self) -> None:
        await self._frame.run()

A key is processed by one worker at a time, and not before every informer is synced: a decision from an incomplete cache
would take missing objects for absent.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

from rota.client.events.correlation import Source as Reporter
from rota.client.events.recorder import EventRecorder
from rota.client.informers import shared_decoding
from rota.client.informers.cache import Indexer, Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.informers.shared_informers import SharedInformers
from rota.client.paths import Target
from rota.client.queues import work
from rota.client.queues.metrics import QueueMetrics
from rota.client.queues.work import Process, WorkQueue
from rota.client.verbs import EVERYTHING, Client, Object, Selection
from rota.kit import backoff, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

K = TypeVar("K", bound=Hashable)

#: Called with the key, the old state and the new one; see `rota.client.informers.informer.Handler`.
Changed: TypeAlias = Callable[[Key, Object | None, Object | None], None]


class Reconciler(Generic[K]):
    """Runs one controller. Several at once are harmless, only redundant."""

    def __init__(
        self,
        client: Client,
        name: str,
        process: Process[K],
        *,
        clock: Clock,
        rng: Rng,
        workers: int = 2,
        retries: backoff.Policy | None = None,
        metrics: Metrics | None = None,
        rank: Callable[[K], int] | None = None,
    ) -> None:
        """With `rank`, keys that wait are processed by their rank, the highest first."""
        self._client: Final = client
        self._name: Final = name
        self._process: Final = process
        self._clock: Final = clock
        self._rng: Final = rng
        self._workers: Final = workers
        self._metrics: Final = metrics or client.settings.metrics or Metrics(name)
        #: Its own informers, and those that it shares with others.
        self._informers: Final[list[Informer[Object]]] = []
        self._awaited: Final[list[Informer[Object]]] = []
        self._recorders: Final[list[EventRecorder]] = []
        self._running: tasks.Supervisor | None = None
        #: Keys to process.
        self.queue: Final = WorkQueue[K](
            clock=clock,
            rng=rng,
            policy=retries or work.BACKOFF,
            name=name,
            metrics=QueueMetrics(self._metrics, name, clock=clock),
            rank=rank,
        )

    def follow(
        self,
        target: Target,
        changed: Changed,
        *,
        namespace: str = "",
        metadata_only: bool = False,
        selection: Selection = EVERYTHING,
        indexers: Mapping[str, Indexer[Object]] | None = None,
        client: Client | None = None,
    ) -> Informer[Object]:
        """Call a handler for the changes of a collection (or of one namespace's) while the controller runs.

        A collection of another server has its own client. Keys do not wait for an informer that is added during `run`.
        """
        shared = None if client is not None else self._client.settings.informers
        if isinstance(shared, SharedInformers) and not (namespace or metadata_only or selection != EVERYTHING):
            found = shared.informer(target, changed, indexers=indexers)
            if found is not None:
                self._awaited.append(found)
                return found
        reader = client or self._client
        reader = reader.with_settings(metadata_only=True) if metadata_only else reader
        informer = Informer[Object](
            Source(client=reader, target=target, namespace=namespace, selection=selection),
            decode=shared_decoding.shared,
            clock=self._clock,
            rng=self._rng,
            indexers=indexers,
            metrics=self._metrics,
        )
        informer.add_handler(changed)
        if self._running is not None:
            self._running.start(f"informer {len(self._informers)}", informer.run)
        else:
            self._awaited.append(informer)
        self._informers.append(informer)
        return informer

    def report_as(self, component: str) -> EventRecorder:
        """A recorder whose events are written while the controller runs; call before `run`."""
        recorder = EventRecorder(
            self._client, Reporter(component=component), clock=self._clock, rng=self._rng, metrics=self._metrics
        )
        self._recorders.append(recorder)
        return recorder

    async def run(self) -> None:
        """Process keys until cancelled."""
        async with tasks.Supervisor(self._name, clock=self._clock, rng=self._rng) as running:
            for number, informer in enumerate(self._informers):
                running.start(f"informer {number}", informer.run)
            for number, recorder in enumerate(self._recorders):
                running.start(f"events {number}", recorder.run)
            running.start("work", self._work)
            self._running = running
            try:
                await running.wait()
            finally:
                self._running = None

    async def _work(self) -> None:
        for informer in self._awaited:
            await informer.wait_synced()
        await self.queue.work(self._process, workers=self._workers)
