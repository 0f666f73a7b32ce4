"""All batch controllers beside an API server that is not Rota's: installs the kinds, and leads by a Lease."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aiohttp import web

from rota.api import errors, meta
from rota.api.batch import definitions, kinds
from rota.client.elections.elector import STEADY, SYSTEM, Election, LeaderElector, LeadershipLost
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.controllers.batch import webhooks
from rota.controllers.batch.cron_jobs import BatchCronJobController
from rota.controllers.batch.flows import JobFlowController
from rota.controllers.batch.hyper_nodes import HyperNodeController
from rota.controllers.batch.jobs import BatchJobController
from rota.controllers.batch.pod_groups import PodGroupController
from rota.controllers.batch.queues import QueueController
from rota.controllers.batch.webhooks import Webhooks
from rota.kit import diagnostics, logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.diagnostics import Address
from rota.kit.metrics import Metrics

log = logs.get(__name__)

LEASE: Final = "rota-batch-controller"
_MANAGER: Final = "rota-batch-controller"
_ESTABLISHED_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.2
_AFTER_REFUSAL_S: Final = 2.0


async def install(client: Client, *, clock: Clock) -> None:
    """Define the kinds that the server lacks, and wait until it serves them."""
    deadline = clock.monotonic() + _ESTABLISHED_S
    for definition in definitions.definitions():
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(definitions.DEFINITIONS, definition)
    for definition in definitions.definitions():
        while not meta.is_condition_true(
            await client.get(definitions.DEFINITIONS, meta.name(definition)), "Established"
        ):
            if clock.monotonic() > deadline:
                raise errors.ServiceUnavailable(f"{meta.name(definition)} is not established")
            await clock.sleep(_LOOK_AGAIN_S)


async def create_queues(client: Client) -> bool:
    """Create the first queues; whether they exist now.

    If an installation has registered the webhooks before it started the process that answers them, the server cannot
    ask about a queue until then.
    """
    for queue in definitions.queues():
        made = {"apiVersion": f"{kinds.SCHEDULING}/v1beta1", "kind": "Queue", **queue}
        try:
            await client.create(kinds.QUEUES, made)
        except errors.AlreadyExists:
            continue
        except (errors.ApiError, TransportError) as error:
            log.warning("queue not created", queue=meta.name(made), error=error)
            return False
    return True


class _Controller(Protocol):
    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of an operator."""

    lease_namespace: str = SYSTEM
    #: The names of batch schedulers.
    schedulers: tuple[str, ...] = (kinds.SCHEDULER,)
    #: Where admission reviews are answered, and the URL and the CA by which the API server asks for them.
    webhooks: Address | None = None
    tls: ssl.SSLContext | None = None
    registered: tuple[str, bytes] | None = None
    #: Where metrics and health are served.
    http: Address | None = None


class BatchControl:
    """The controllers, of which one process at a time works, and the webhooks, which every process serves."""

    def __init__(self, client: Client, settings: Settings, *, clock: Clock, rng: Rng, identity: str) -> None:
        self._metrics: Final = Metrics("batch", process=True)
        self._client: Final = client.with_settings(metrics=self._metrics)
        self._settings: Final = settings
        self._clock: Final = clock
        self._rng: Final = rng
        self._election: Final = Election(name=LEASE, namespace=settings.lease_namespace, identity=identity, pace=STEADY)

    async def start(
        self, parts: contextlib.AsyncExitStack, beside: tasks.Supervisor, *, ready: Callable[[str], None]
    ) -> None:
        """Install the kinds, and start everything in `beside`; what is served ends with `parts`."""
        await install(self._client, clock=self._clock)
        await create_queues(self._client)
        settings = self._settings
        if settings.webhooks is not None:
            host, port = settings.webhooks
            served = serving(self._client, host=host, port=port, tls=settings.tls)
            ready(f"Answering admission reviews at {await parts.enter_async_context(served)}.")
        if settings.registered is not None:
            await register(self._client, *settings.registered)
        beside.start("control", self.run)
        if settings.http is not None:
            pages = diagnostics.serving(diagnostics.health(self._metrics), settings.http)
            ready(f"Metrics at {await parts.enter_async_context(pages)}.")

    async def run(self) -> None:
        """Work while this process leads, until cancelled."""
        while True:
            elector = LeaderElector(self._client, self._election, clock=self._clock, rng=self._rng)
            try:
                await elector.run(self._work)
            except LeadershipLost as error:
                log.warning("another process leads now", error=str(error))

    async def _work(self, *_: object) -> None:
        client = self._client
        around: dict[str, Any] = {"clock": self._clock, "rng": self._rng}
        named: dict[str, Any] = {**around, "schedulers": self._settings.schedulers}
        controllers: dict[str, _Controller] = {
            "jobs": BatchJobController(client, **named),
            "groups": PodGroupController(client, **named),
            "queues": QueueController(client, **around),
            "cron jobs": BatchCronJobController(client, **around),
            "flows": JobFlowController(client, **around),
            "domains": HyperNodeController(client, **around),
        }
        while not await create_queues(client):
            await self._clock.sleep(_AFTER_REFUSAL_S)
        async with tasks.Supervisor("batch", clock=self._clock, rng=self._rng) as running:
            for name, one in controllers.items():
                running.start(name, one.run)
            await running.wait()


@contextlib.asynccontextmanager
async def serving(client: Client, *, host: str, port: int, tls: ssl.SSLContext | None) -> AsyncIterator[str]:
    """Serve the webhooks; yields their URL."""
    runner = web.AppRunner(Webhooks(client).application(), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
        bound = runner.addresses[0][1]
        yield f"{'https' if tls is not None else 'http'}://{host}:{bound}"
    finally:
        await runner.cleanup()


async def register(client: Client, url: str, authority: bytes) -> None:
    """Have the API server ask the webhooks."""
    for target, configuration in webhooks.configurations(url, authority):
        await client.apply(target, configuration, field_manager=_MANAGER, force=True)
