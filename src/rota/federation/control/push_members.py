"""Runs the engines of push members in the control plane: one per member, so that a slow one does not block others."""

import functools
from typing import Final

from rota.api import meta
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.customization.interpreter import Interpreter
from rota.federation.member import connections, unschedulable
from rota.federation.member.engine import Engine, Settings
from rota.kit import tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock


class PushMembers:
    """Runs an engine for each push member while it is registered."""

    def __init__(
        self,
        client: Client,
        interpreter: Interpreter,
        *,
        clock: Clock,
        rng: Rng,
        unschedulable_after_s: float = unschedulable.AFTER_S,
    ) -> None:
        self._client: Final = client
        self._settings: Final = Settings(interpreter=interpreter, unschedulable_after_s=unschedulable_after_s)
        self._clock: Final = clock
        self._rng: Final = rng
        self._frame: Final = Reconciler[str](
            client, "push members", self._process, clock=clock, rng=rng, retries=connections.RETRIES
        )
        self._clusters: Final = self._frame.follow(kinds.CLUSTERS, self._changed).cache
        #: The engines that run, each with the address and credentials of its member.
        self._running: Final[dict[str, object]] = {}
        self._supervisor: tasks.Supervisor | None = None

    async def run(self) -> None:
        """Work until cancelled."""
        async with tasks.Supervisor("push members", clock=self._clock, rng=self._rng) as supervisor:
            self._supervisor = supervisor
            await self._frame.run()

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or old.get("spec") != new.get("spec"):
            self._frame.queue.add(key.name)

    async def _process(self, name: str) -> float | None:
        cluster = self._clusters.get(name)
        spec: Object = {} if cluster is None else cluster.get("spec") or {}
        way = (
            None
            if cluster is None or spec.get("syncMode") == "Pull"
            else (spec.get("apiEndpoint"), str(spec.get("secretRef")))
        )
        if self._running.get(name) == way or self._supervisor is None:
            return None
        if name in self._running:
            await self._supervisor.stop(name)
            del self._running[name]
        if cluster is not None and way is not None:
            self._supervisor.start(name, functools.partial(self._push, cluster))
            self._running[name] = way
        return None

    async def _push(self, cluster: Object) -> None:
        async with connections.connected(self._client, cluster, clock=self._clock, rng=self._rng) as member:
            engine = Engine(
                self._client,
                member,
                meta.name(cluster),
                clock=self._clock,
                rng=self._rng,
                settings=self._settings,
            )
            await engine.run()
