"""What the loops share: informers that name keys, one queue of them, and workers that put each key right."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

from rota.client.informers import shared_decoding
from rota.client.informers.cache import Cache, Indexer, Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.paths import Target
from rota.client.queues.work import Process, WorkQueue
from rota.client.verbs import EVERYTHING, Client, Object, Selection
from rota.kit import backoff, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

K = TypeVar("K", bound=Hashable)
Changed: TypeAlias = Callable[[Key, Object | None, Object | None], None]

_BACKOFF: Final = backoff.Policy(initial_s=0.1, cap_s=60.0, jitter=backoff.Jitter.NONE)


class Frame(Generic[K]):
    """Runs one loop. Informers may be added while it runs; the first keys wait until those from the start know all."""

    def __init__(self, name: str, *, clock: Clock, rng: Rng) -> None:
        self.name: Final = name
        self._clock: Final = clock
        self._rng: Final = rng
        self._informers: Final[list[Informer[Object]]] = []
        self._supervisor: tasks.Supervisor | None = None
        self.queue: Final = WorkQueue[K](clock=clock, rng=rng, policy=_BACKOFF, name=name)

    def follow(
        self,
        client: Client,
        target: Target,
        changed: Changed,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        indexers: Mapping[str, Indexer[Object]] | None = None,
    ) -> Cache[Object]:
        """Subscribe to the changes of a collection."""
        informer = Informer[Object](
            Source(client=client, target=target, namespace=namespace, selection=selection),
            decode=shared_decoding.shared,
            clock=self._clock,
            rng=self._rng,
            indexers=indexers,
        )
        informer.add_handler(changed)
        self._informers.append(informer)
        if self._supervisor is not None:
            self._supervisor.start(f"informer {len(self._informers)}", informer.run)
        return informer.cache

    async def run(self, process: Process[K], *, workers: int = 2) -> None:
        """Work until cancelled."""
        async with tasks.Supervisor(self.name, clock=self._clock, rng=self._rng) as running:
            self._supervisor = running
            first = tuple(self._informers)
            for number, informer in enumerate(first, start=1):
                running.start(f"informer {number}", informer.run)

            async def work() -> None:
                for informer in first:
                    await informer.wait_synced()
                await self.queue.work(process, workers=workers)

            running.start("work", work)
            try:
                await running.wait()
            finally:
                self._supervisor = None


def covers(present: Any, wanted: Any) -> bool:
    """Whether an object has all that is wanted of it; it may have more."""
    if isinstance(wanted, Mapping):
        return isinstance(present, Mapping) and all(
            covers(present.get(name), value) for name, value in wanted.items() if value not in (None, {}, [])
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(present, list | tuple)
            and len(present) == len(wanted)
            and all(covers(mine, theirs) for mine, theirs in zip(present, wanted, strict=True))
        )
    return bool(present == wanted)
