"""Shared informers: each collection is watched once per process, for any number of components.

    shared = SharedInformers(client, {PODS, NODES}, clock=clock, rng=rng)
    jobs = JobController(own_client.with_settings(informers=shared), ...)
    supervisor.start("informers", shared.run)

Components that are made before `run` get everything from the beginning. Reads use the permissions of the shared
client's user, writes those of the component's own client.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from rota.client.informers import shared_decoding
from rota.client.informers.cache import Indexer, Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.paths import Target
from rota.client.verbs import Client, Object
from rota.kit import tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics


class SharedInformers:
    """The informers of some collections, each created at its first use."""

    def __init__(
        self,
        client: Client,
        targets: Collection[Target],
        *,
        clock: Clock,
        rng: Rng,
        metrics: Metrics | None = None,
    ) -> None:
        self._client: Final = client
        self._targets: Final = frozenset(targets)
        self._clock: Final = clock
        self._rng: Final = rng
        self._metrics: Final = metrics or Metrics("controllers")
        self._informers: Final[dict[Target, Informer[Object]]] = {}

    def informer(
        self,
        target: Target,
        handler: Callable[[Key, Object | None, Object | None], None],
        *,
        indexers: Mapping[str, Indexer[Object]] | None = None,
    ) -> Informer[Object] | None:
        """The informer of a whole collection, with one more handler; None if that collection is not shared."""
        if target not in self._targets:
            return None
        found = self._informers.get(target)
        if found is None:
            found = self._informers[target] = Informer[Object](
                Source(client=self._client, target=target),
                decode=shared_decoding.shared,
                clock=self._clock,
                rng=self._rng,
                metrics=self._metrics,
            )
        found.add_indexers(indexers or {})
        found.add_handler(handler)
        return found

    async def run(self) -> None:
        """Run the informers until cancelled."""
        async with tasks.Supervisor("shared informers", clock=self._clock, rng=self._rng) as running:
            for target, informer in self._informers.items():
                running.start(str(target), informer.run)
            await running.wait()
