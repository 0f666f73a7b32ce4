"""The spot controller of a Rota cluster: started by the leader when it is needed.

It is needed when there is a spot machine, a notice on any node, or a taint or placeholder pod of a former leader's
controller. Until then only nodes are watched, which the leader's controllers watch anyway.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from rota.api import errors
from rota.client.informers.cache import Key
from rota.client.pods import PODS
from rota.client.reconciler import Reconciler
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Selection
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.scheduler.framework.runtime import Framework
from rota.spot import reservations
from rota.spot.node_signals import NodeSignals
from rota.spot_control import node_state
from rota.spot_control.controller import NAMESPACE, SpotController

log = logs.get(__name__)

_NODES: Final = ("", "v1", "nodes")
_WAKE: Final = "wake"
_AGAIN_S: Final = 5.0


class LazySpotController:
    """Waits until the controller is needed, and then runs it until cancelled."""

    def __init__(
        self,
        client: Client,
        frameworks: Mapping[str, Framework],
        *,
        clock: Clock,
        rng: Rng,
        metrics: Metrics | None = None,
    ) -> None:
        self._client: Final = client
        self._frameworks: Final = frameworks
        self._clock: Final = clock
        self._rng: Final = rng
        self._metrics: Final = metrics
        self._marks: Final = NodeSignals()
        self._reason: Final = asyncio.Event()
        self._frame: Final = Reconciler[str](client, "spot-waking", self._wake, clock=clock, rng=rng, workers=1)
        self._frame.follow(_NODES, self._changed)

    async def run(self) -> None:
        """Run until cancelled."""
        async with tasks.Supervisor("spot", clock=self._clock, rng=self._rng) as running:
            running.start("nodes", self._frame.run)
            running.start("places", self._look_for_places)
            await self._reason.wait()
            log.info("spot controller started")
            running.start("control", lambda: self._controller().run())
            await running.wait()

    def _controller(self) -> SpotController:
        return SpotController(
            # it starts later than the other controllers, and has its own watches of nodes and pods
            self._client.with_settings(informers=None),
            self._frameworks,
            clock=self._clock,
            rng=self._rng,
            marks=self._marks,
            metrics=self._metrics,
        )

    def _changed(self, _key: Key, _old: Object | None, new: Object | None) -> None:
        if new is None or self._reason.is_set():
            return
        reading = node_state.read(new, self._marks, now=self._clock.now())
        if reading.capacity.leaves or reading.notice is not None or node_state.since(new) is not None:
            self._frame.queue.add(_WAKE)

    async def _wake(self, _: str) -> None:
        self._reason.set()

    async def _look_for_places(self) -> None:
        """Check whether a former leader's controller left placeholder pods."""
        while not self._reason.is_set():
            try:
                held = await self._client.list(
                    PODS, namespace=NAMESPACE, selection=Selection(labels=reservations.HELD_FOR)
                )
            except (errors.ApiError, TransportError) as problem:
                log.warning("placeholder pods not listed", error=problem)
                await self._clock.sleep(_AGAIN_S)
                continue
            if held.items:
                self._reason.set()
            return
