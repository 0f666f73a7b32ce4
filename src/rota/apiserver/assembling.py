"""The server put together: registry, kinds, pages and what runs beside them, on a store.

    async with assembling.server(store, clock=..., chance=...) as app:
        async with serving.serve(app) as served: ...

Several servers may run on one store at once: none of them holds anything that does not follow the store.
"""

import contextlib
import random
from collections.abc import AsyncIterator

from rota.api import scheme
from rota.api.kinds import ResourceType
from rota.apiserver import bootstrap, reviews
from rota.apiserver.admission import chain
from rota.apiserver.app import App
from rota.apiserver.authentication import EverybodyIsAdministrator
from rota.apiserver.contract import Authenticator, CustomSchema, Kinds, Registry
from rota.apiserver.health import Health
from rota.apiserver.occupancy.index import PodIndex
from rota.apiserver.occupancy.ledger import Ledger
from rota.apiserver.pages import Pages
from rota.apiserver.registry.objects import ObjectRegistry
from rota.apiserver.strategies import lookup
from rota.apiserver.subresources import bindings, table
from rota.apiserver.traffic import Traffic
from rota.kit import tasks
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.store.contract import Store


def _kinds(registry: Registry, ledger: Ledger | None) -> Kinds:
    return Kinds(
        strategy=lookup.strategy,
        custom_schema=_no_schema,
        mutating=chain.mutating(registry, ledger),
        handlers={**reviews.HANDLERS, **table.handlers(ledger)},
    )


def _no_schema(resource: ResourceType) -> CustomSchema:
    raise AssertionError(f"{resource} has no schema")


@contextlib.asynccontextmanager
async def server(
    store: Store,
    *,
    clock: Clock,
    chance: random.Random,
    authenticator: Authenticator | None = None,
    metrics: Metrics | None = None,
    conflict_check: bool = True,
) -> AsyncIterator[App]:
    """A server on `store`, which stays its owner's to close.

    Without `conflict_check` bindings do not look at nodes, as those of a stock server do not.
    """
    kinds = scheme.builtin()
    kinds.add(bindings.BATCHES)
    index = PodIndex(store, clock)
    ledger = Ledger(store, index) if conflict_check else None
    registry = ObjectRegistry(store, scheme=kinds, kinds=lambda self: _kinds(self, ledger), clock=clock, chance=chance)
    await bootstrap.ensure(registry)
    traffic = Traffic(metrics or Metrics("apiserver", process=True), clock)
    app = App(
        registry,
        authenticator=authenticator or EverybodyIsAdministrator(),
        pages=(Health(store, clock).page, traffic.page, Pages(registry.scheme, registry.kinds.custom_schema).page),
        traffic=traffic,
    )
    async with tasks.Supervisor("apiserver", clock=clock, chance=chance) as supervisor:
        if ledger is not None:
            supervisor.start("pod index", index.run)
        try:
            yield app
        finally:
            app.close()
